"""Writing files so that they survive a crash, and saying what to do where they cannot be."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_WRITING: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Some network file systems cannot sync a folder, and need not.
_NO_SYNC: Final = {errno.EINVAL, errno.ENOTSUP}

_ADVICE: Final = {
    errno.ENOSPC: "the disk is full: free some space, or sweep payloads that nobody needs",
    errno.EDQUOT: "the quota is used up: free some space, or sweep payloads that nobody needs",
    errno.EFBIG: "the file is larger than the system allows this program to write",
    errno.EROFS: "the file system is mounted read-only",
    errno.EACCES: "give this program's user the right to read and write there",
    errno.EPERM: "give this program's user the right to read and write there",
    errno.ENOENT: "is the file system mounted?",
    errno.ENOTDIR: "something in the way is a file: name a folder",
    errno.EEXIST: "something in the way is a file: name a folder",
    errno.ESTALE: "mount the file system again",
}


def write_durably(path: Path, content: bytes, mode: int) -> None:
    """Makes a new file with these bytes, which are on the disk when it returns.

    :param mode: permissions, whatever the umask
    """
    descriptor = os.open(path, _WRITING, mode)
    with open(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def synced_folder(folder: Path) -> None:
    """Writes a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as failure:
        if failure.errno not in _NO_SYNC:
            raise
    finally:
        with suppress(OSError):
            os.close(descriptor)


def advice_for(failure: OSError) -> str:
    """What to do about it."""
    return _ADVICE.get(failure.errno or 0, "look at the file system, and try again")
