"""Claim-check payloads as files of a folder, on a disk or a mount that all its users share.

A file's name is its key and its bytes are the payload, as in every AceMQ library. What is ours
alone is in ``.acemq/``: files being written, and digests; a leading dot is no legal key, so nobody
takes them for payloads. A payload gets its name only when it and its digest are on the disk, so a
reader finds all of it or nothing, also after a crash.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from acemq_amqp.errors import ConfigurationError, FatalError, StoreError
from acemq_stores.claim_keys import checked_key, is_key, new_key
from acemq_stores.digests import Digest, without_digest
from acemq_stores.durable_files import advice_for, synced_folder, write_durably

_OURS: Final = ".acemq"
_DIGEST: Final = ".sha256"
_STAGING: Final = ".partial"
#: Longer is no digest of ours.
_LONGEST_DIGEST: Final = 256
#: No link is followed, and opening a pipe does not wait for its other end.
_READING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _checked_folder(directory: Any) -> Path:
    named = os.fspath(directory) if isinstance(directory, str | os.PathLike) else None
    if isinstance(named, str) and named:
        return Path(named)
    raise ConfigurationError(
        f"acemq: a folder is wanted for claim checks, got {directory!r}: give its path, and '.' "
        "for the current one"
    )


class FilesystemClaimCheckStore:
    """Keeps payloads as files. What was put survives a crash of program and machine.

    On a container's own disk it is a store in memory: readers on other hosts find nothing.

    :param directory: where the payloads are; made if it is not there
    :param mode: permissions of the files; all readers have to be of that user, or group
    :param require_digest: refuse a payload without a digest. Otherwise it is read unverified,
        since libraries of other languages write none, and counted in ``unverified``
    :raises ConfigurationError: no path, or an empty one
    :raises StoreError: there is no such folder, and it cannot be made
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        mode: int = 0o600,
        require_digest: bool = False,
    ) -> None:
        if not isinstance(mode, int) or not mode & 0o400 or mode & ~0o777:
            raise ConfigurationError(
                f"acemq: mode={mode!r} is no permission of a file that its owner may read; "
                "0o600 and 0o660 are"
            )
        self._directory = _checked_folder(directory)
        self._ours = self._directory / _OURS
        self._mode = mode
        self._require_digest = require_digest
        self._unverified = 0
        self._lock = threading.Lock()
        self._made_ready()

    def __repr__(self) -> str:
        return f"FilesystemClaimCheckStore({self._directory})"

    @property
    def directory(self) -> Path:
        """Where the payloads are."""
        return self._directory

    @property
    def unverified(self) -> int:
        """Payloads that were read although they have no digest."""
        return self._unverified

    def put(self, content: bytes) -> str:
        """Keeps a payload, on the disk when this returns.

        :returns: its key, which is the file's name
        :raises StoreError: disk full, read-only, not mounted; nothing of it is left
        """
        key = new_key()
        staging, digest = self._ours / (key + _STAGING), self._digest_of(key)
        try:
            with self._told("write", key):
                write_durably(staging, content, self._mode)
                write_durably(digest, f"{Digest.of(content)}\n".encode(), self._mode)
                synced_folder(self._ours)
                os.rename(staging, self._directory / key)
                synced_folder(self._directory)
        except BaseException:
            for file in (staging, self._directory / key, digest):
                with suppress(OSError):
                    file.unlink()
            raise
        return key

    def get(self, key: str) -> bytes | None:
        """The payload, compared with its digest; None where it is not there.

        :raises DecodeError: not a key that a store issues
        :raises FatalError: damaged, replaced, or no regular file
        :raises StoreError: it cannot be read now, or the whole folder is not mounted
        """
        checked_key(key)
        with self._told("read", key):
            content = self._read(self._directory / key, key)
            if content is None:
                self._still_mounted()
                return None
            self._verify(content, key)
            return content

    def delete(self, key: str) -> None:
        """Removes a payload and its digest; one that is not there is no error.

        :raises DecodeError: not a key that a store issues
        :raises StoreError: it cannot be removed
        """
        checked_key(key)
        with self._told("delete", key):
            (self._directory / key).unlink(missing_ok=True)
            self._digest_of(key).unlink(missing_ok=True)

    # ------------------------------------------------------------ reading

    def _read(self, path: Path, key: str, most: int | None = None) -> bytes | None:
        try:
            if path.is_symlink():
                raise self._no_payload(key, "a symbolic link, which is not followed")
            descriptor = os.open(path, _READING)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise self._no_payload(key, "no regular file")
        with open(descriptor, "rb") as file:
            return file.read() if most is None else file.read(most)

    def _verify(self, content: bytes, key: str) -> None:
        text = self._read(self._digest_of(key), key, _LONGEST_DIGEST)
        if text is None:
            if self._require_digest:
                raise without_digest(key, str(self._directory))
            with self._lock:
                self._unverified += 1
            return
        digest = Digest.parsed(text.decode("ascii", "replace"))
        if digest is None:
            raise FatalError(
                f"acemq: the digest {self._digest_of(key)} is damaged, so payload {key} cannot be "
                "trusted; restore both, then replay the message"
            )
        digest.check(content, key, str(self._directory))

    def _still_mounted(self) -> None:
        """A folder that lost its ``.acemq`` is not this store: nothing can be told of its keys."""
        if self._ready and not self._ours.is_dir():
            raise FileNotFoundError(2, f"there is no {_OURS} in it any more", str(self._directory))

    def _no_payload(self, key: str, what: str) -> FatalError:
        return FatalError(
            f"acemq: {key} in {self._directory} is {what}, and no payload of this store; look at "
            "who put it there"
        )

    # ------------------------------------------------------------ what is there

    def listing(self) -> Iterator[tuple[str, float]]:
        """Every payload: its key, and when it was put (seconds since the epoch).

        :raises StoreError: the folder cannot be read
        """
        with self._told("list", "all"), os.scandir(self._directory) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if is_key(entry.name) and entry.is_file(follow_symlinks=False):
                        yield entry.name, entry.stat(follow_symlinks=False).st_mtime

    def orphans(self) -> Iterator[tuple[Path, float]]:
        """What crashes left in ``.acemq``, with its age's beginning (seconds since the epoch).

        Half-written files, and digests without a payload. One that is being written just now is
        among them: leave alone what is young.

        :raises StoreError: the folder cannot be read
        """
        with self._told("list", "all"), os.scandir(self._ours) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if self._is_orphan(entry.name):
                        yield Path(entry.path), entry.stat(follow_symlinks=False).st_mtime

    def _is_orphan(self, name: str) -> bool:
        if name.endswith(_STAGING):
            return is_key(name.removesuffix(_STAGING))
        key = name.removesuffix(_DIGEST)
        return name != key and is_key(key) and not (self._directory / key).exists()

    # ------------------------------------------------------------ the folder

    def _made_ready(self) -> None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise StoreError(
                f"acemq: the claim-check folder {self._directory} is not there and cannot be made: "
                f"{failure}; {advice_for(failure)}"
            ) from failure
        # A reader may have the folder mounted read-only: putting then says so.
        with suppress(OSError):
            self._ours.mkdir()
            self._ours.chmod(self._mode | (self._mode & 0o444) >> 2)  # entered by who reads files
            synced_folder(self._directory)
        self._ready = self._ours.is_dir()

    def _digest_of(self, key: str) -> Path:
        return self._ours / (key + _DIGEST)

    @contextmanager
    def _told(self, verb: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as failure:
            raise StoreError(
                f"acemq: could not {verb} the claim-check payload {key} in {self._directory}: "
                f"{failure}; {advice_for(failure)}"
            ) from failure
