"""The store in a folder: its files, its digests, and what a disk can do to it.

Permission bits do not stop root, so what is read-only is a folder whose place a file has taken, a
read-only mount, or a ``write`` and ``fsync`` that fail as those of a full or broken disk do.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acemq_amqp import ConfigurationError, FatalError, StoreError
from acemq_stores import FilesystemClaimCheckStore
from tests.acceptance.programs import surroundings

NOT_THERE = "3f0c8a52-7a39-4d3e-9a57-0a1b2c3d4e5f"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mount" / "payloads"


@pytest.fixture
def store(folder: Path) -> FilesystemClaimCheckStore:
    return FilesystemClaimCheckStore(folder)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# ------------------------------------------------------------ what is in the folder


def test_a_file_is_named_by_its_key_and_holds_the_payload(
    store: FilesystemClaimCheckStore, folder: Path
) -> None:
    key = store.put(b"content")
    assert (folder / key).read_bytes() == b"content"
    assert names(folder) == sorted([key, f".acemq/{key}.sha256"])


def test_deleting_takes_the_digest_along(store: FilesystemClaimCheckStore, folder: Path) -> None:
    store.delete(store.put(b"content"))
    assert names(folder) == []


@pytest.mark.parametrize(("mode", "inside"), [(None, 0o700), (0o600, 0o700), (0o660, 0o770)])
def test_files_have_the_mode_asked_for_whatever_the_umask(
    folder: Path, mode: int | None, inside: int
) -> None:
    before = os.umask(0o077)
    try:
        made = FilesystemClaimCheckStore
        store = made(folder) if mode is None else made(folder, mode=mode)
        key = store.put(b"content")
    finally:
        os.umask(before)
    for file in (folder / key, folder / ".acemq" / f"{key}.sha256"):
        assert stat.S_IMODE(file.stat().st_mode) == (mode or 0o600)
    assert stat.S_IMODE((folder / ".acemq").stat().st_mode) == inside


@pytest.mark.parametrize("mode", [0, 0o200, 0o4600, -1, "600", None])
def test_a_mode_that_its_owner_cannot_read_is_refused(folder: Path, mode: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: mode="):
        FilesystemClaimCheckStore(folder, mode=mode)  # type: ignore[arg-type]


def test_a_payload_of_another_library_is_read_and_counted(
    store: FilesystemClaimCheckStore, folder: Path
) -> None:
    (folder / NOT_THERE).write_bytes(b"from Java")
    store.get(store.put(b"content"))
    assert store.unverified == 0
    assert store.get(NOT_THERE) == b"from Java"
    assert store.unverified == 1


def test_where_digests_are_required_it_is_refused(folder: Path) -> None:
    store = FilesystemClaimCheckStore(folder, require_digest=True)
    (folder / NOT_THERE).write_bytes(b"from Java")
    with pytest.raises(FatalError, match="has no digest, and require_digest=True"):
        store.get(NOT_THERE)
    assert store.get(store.put(b"content")) == b"content"


@pytest.mark.parametrize("digest", [b"", b"nonsense", b"\xff" * 100, b"0" * 63 + b" 7"])
def test_a_damaged_digest_is_no_digest(
    store: FilesystemClaimCheckStore, folder: Path, digest: bytes
) -> None:
    key = store.put(b"content")
    (folder / ".acemq" / f"{key}.sha256").write_bytes(digest)
    with pytest.raises(FatalError, match=r"^acemq: the digest .* is damaged"):
        store.get(key)


# ------------------------------------------------------------ what is no payload


def test_a_symbolic_link_is_not_followed_out_of_the_folder_or_within_it(
    store: FilesystemClaimCheckStore, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "within").symlink_to(folder / store.put(b"content"))
    for key in ("out", "within"):
        with pytest.raises(FatalError, match="is a symbolic link, which is not followed"):
            store.get(key)


def test_a_symbolic_link_is_deleted_and_not_what_it_names(
    store: FilesystemClaimCheckStore, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "out").symlink_to(tmp_path / "secret")
    store.delete("out")
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert not (folder / "out").is_symlink()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_no_payload(
    store: FilesystemClaimCheckStore, folder: Path, make: Callable[[Path], None]
) -> None:
    make(folder / "thing")
    with pytest.raises(FatalError, match="is no regular file"):
        store.get("thing")


def test_a_folder_reached_by_a_link_is_as_good_as_any(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = FilesystemClaimCheckStore(tmp_path / "link")
    assert store.get(store.put(b"content")) == b"content"


# ------------------------------------------------------------ crashes


def test_a_reader_never_sees_half_of_it_and_a_crash_leaves_only_orphans(
    folder: Path, tmp_path: Path
) -> None:
    """A program is killed inside of ``put``, at each of its writes to the disk."""
    program = """
import os, signal, sys
from acemq_stores import FilesystemClaimCheckStore, filesystem
store = FilesystemClaimCheckStore(sys.argv[1])
left = int(sys.argv[2])
def counted(call):
    def wrapper(*args, **options):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return call(*args, **options)
    return wrapper
os.fsync = counted(os.fsync)
os.rename = counted(os.rename)
print(store.put(b"content" * 100_000))
"""
    steps = 0
    while True:
        here = folder / str(steps)
        ended = subprocess.run(
            [sys.executable, "-c", program, str(here), str(steps)],
            env=surroundings(None) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=False,
        )
        store = FilesystemClaimCheckStore(here)
        payloads = [key for key, _ in store.listing()]
        assert all(store.get(key) == b"content" * 100_000 for key in payloads)
        assert store.unverified == 0
        if ended.returncode == 0:
            assert payloads == [ended.stdout.strip()]
            break
        assert ended.returncode == -9, ended.stderr
        orphans = {path.name for path, _ in store.orphans()}
        inside = {path.name for path in (here / ".acemq").iterdir()}
        assert orphans == inside - {f"{key}.sha256" for key in payloads}
        steps += 1
    assert steps == 5


def test_everything_is_on_the_disk_before_it_has_its_name(
    store: FilesystemClaimCheckStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    fsync, rename = os.fsync, os.rename

    def spied_fsync(descriptor: int) -> None:
        did.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).suffix or "folder")
        fsync(descriptor)

    def spied_rename(source: Path, target: Path) -> None:
        did.append("named")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", spied_fsync)
    monkeypatch.setattr(os, "rename", spied_rename)
    store.put(b"content")
    # both folders are named without a suffix, or with the whole name as one
    did = ["folder" if word == ".acemq" else word for word in did]
    assert did == [".partial", ".sha256", "folder", "named", "folder"]


# ------------------------------------------------------------ disks in trouble


@pytest.mark.parametrize("call", ["fsync", "rename"])
@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "the disk is full: free some space"),
        (errno.EDQUOT, "the quota is used up"),
        (errno.EROFS, "mounted read-only"),
        (errno.EIO, "look at the file system"),
    ],
    ids=errno.errorcode.get,
)
def test_a_failing_disk_is_a_store_error_and_leaves_nothing(
    store: FilesystemClaimCheckStore,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    told: str,
) -> None:
    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, call, failing)
        with pytest.raises(StoreError, match=f"^acemq: could not write .*{told}"):
            store.put(b"content")
    assert names(folder) == []
    assert store.get(store.put(b"content")) == b"content"


def test_a_payload_larger_than_there_is_room_for_leaves_nothing(
    store: FilesystemClaimCheckStore, folder: Path
) -> None:
    """RLIMIT_FSIZE stands for a disk that fills up in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(StoreError, match="larger than the system allows"):
            store.put(bytes(1_000_000))
        assert names(folder) == []
        assert store.get(store.put(b"small")) == b"small"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("call", ["get", "put"])
def test_a_folder_that_is_not_mounted_is_no_empty_store(
    store: FilesystemClaimCheckStore, folder: Path, call: str
) -> None:
    """Else every message would be dead-lettered as one whose payload is gone."""
    key = store.put(b"content")
    folder.rename(folder.with_name("unmounted"))
    folder.mkdir()  # as a mount point is, without its file system
    with pytest.raises(StoreError, match=r"is the file system mounted\?"):
        store.get(key) if call == "get" else store.put(b"content")
    folder.rmdir()
    folder.with_name("unmounted").rename(folder)
    assert store.get(key) == b"content"


def test_a_file_in_the_place_of_the_folder_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match="something in the way is a file: name a folder"):
            FilesystemClaimCheckStore(path)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A read-only mount with a payload in it."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount: the failing calls above stand for it")
    try:
        (folder / NOT_THERE).write_bytes(b"content")
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_read_only_mount_is_read_and_not_written(read_only: Path) -> None:
    store = FilesystemClaimCheckStore(read_only)
    assert store.get(NOT_THERE) == b"content"
    with pytest.raises(StoreError, match=r"^acemq: could not write"):
        store.put(b"content")
    with pytest.raises(StoreError, match="mounted read-only"):
        store.delete(NOT_THERE)
