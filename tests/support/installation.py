"""Where a RabbitMQ is installed: on this system, or in a folder that holds another Debian.

A program of such a folder runs by chroot, in a mount namespace of its own: proc is there, and the
folder for temporary files is the same inside and outside, so that paths mean one thing. The mounts
vanish with the program.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PROGRAMS = "usr/lib/rabbitmq/bin"
_VERSIONS = "usr/lib/rabbitmq/lib"
_ENTER = (
    'mount -t proc proc "$0/proc"; mkdir -p "$0$1"; mount --bind "$1" "$0$1"; '
    'root=$0; shift; exec chroot "$root" "$@"'
)


class ServerMissing(Exception):
    """No server for this test; the text says what to do."""


@dataclass(frozen=True)
class Installation:
    """An installed RabbitMQ, under ``/`` or under the root of another system."""

    root: Path = Path("/")

    @property
    def version(self) -> str | None:
        """As ``"3.10.8"``, or None where there is no RabbitMQ here."""
        folders = sorted((self.root / _VERSIONS).glob("rabbitmq_server-*"))
        return folders[-1].name.partition("-")[2] if folders else None

    def command(self, program: str, *arguments: str) -> list[str]:
        """The command that runs one of RabbitMQ's programs, or one of the system's by its path."""
        path = program if program.startswith("/") else f"/{_PROGRAMS}/{program}"
        return self._entered([path, *arguments])

    def _entered(self, command: Sequence[str]) -> list[str]:
        if self.root == Path("/"):
            return list(command)
        shared = tempfile.gettempdir()
        return ["unshare", "--mount", "sh", "-ec", _ENTER, str(self.root), shared, *command]


def cached_root(version: str) -> Path:
    """Where ``scripts/other-rabbitmq`` puts this version."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("ACEMQ_CACHE") or home / "acemq-amqp")
    return cache / f"rabbitmq-{version}"


def find_installation(wanted: str | None) -> Installation:
    """The RabbitMQ of this version (``"4.0"``), or the system's own for None.

    :raises ServerMissing: it is not on this machine, or cannot be run
    """
    here = Installation()
    if here.version is not None and wanted in (None, _minor(here.version)):
        return here
    if wanted is None:
        raise ServerMissing("acemq: no RabbitMQ here: run scripts/servers install, as root")
    there = Installation(cached_root(wanted))
    if there.version is None:
        raise ServerMissing(
            f"acemq: no RabbitMQ {wanted} here: run scripts/other-rabbitmq {wanted}, as root"
        )
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        raise ServerMissing(f"acemq: RabbitMQ {wanted} runs by chroot: run the tests as root")
    return there


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
