"""A PostgreSQL of the tests' own: made, started, killed and started again at will.

An address in ``ACEMQ_TEST_POSTGRES_URL`` comes first; else a private server of the newest version
on this machine, which runs as the user ``postgres`` where the tests run as root, and is gone with
its folder when it is closed, or when the tests end in any way.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes import Process

ADDRESS = "ACEMQ_TEST_POSTGRES_URL"
_INSTALLED = Path("/usr/lib/postgresql")


class Postgres:
    """A private server on 127.0.0.1.

    :param durable: whether a commit waits for the disk; only then may the server be killed
    """

    def __init__(self, *, durable: bool = False) -> None:
        self._binaries = newest_installation()
        self._folder = Path(tempfile.mkdtemp(prefix="acemq-postgres-")).resolve()
        self.port = free_port()
        self._durable = durable
        self._process: Process | None = None
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self._folder, user.pw_uid, user.pw_gid)
        self._run("initdb", "-D", self._data, "-A", "trust", "-U", "postgres", "-E", "UTF8")

    @classmethod
    def start(cls, *, durable: bool = False) -> Postgres:
        """A new server that accepts connections."""
        server = cls(durable=durable)
        try:
            server.boot()
        except BaseException:
            server.close()
            raise
        return server

    @property
    def url(self) -> str:
        """The address of the database ``postgres``."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The address of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    # ------------------------------------------------------------ coming and going

    def boot(self) -> None:
        """Starts the server with the data it has; comes back when it accepts connections."""
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self._folder),
            "max_connections": "200",
            "shared_buffers": "64MB",
            "fsync": "on" if self._durable else "off",
            "full_page_writes": "on" if self._durable else "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._process = Process(
            self._command("postgres", "-D", self._data, *options),
            self._environment,
            self._folder / "printed",
            self._folder,
        )
        eventually(self._accepts, f"PostgreSQL on port {self.port} accepting connections")

    def stop(self) -> None:
        """Ends it in order, connections and all, as a restart by an operator would."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Ends it at once, as losing power would; what was committed is on the disk."""
        if self._process is not None:
            self._process.kill()
            self._process = None
        with contextlib.suppress(FileNotFoundError):
            (Path(self._data) / "postmaster.pid").unlink()

    def close(self) -> None:
        """Ends it and removes its folder."""
        self._end(signal.SIGINT)
        shutil.rmtree(self._folder, ignore_errors=True)

    # ------------------------------------------------------------ inside

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    @property
    def _environment(self) -> dict[str, str]:
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.signal(number)
            process.ended_within(30)
            process.kill()

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = [str(self._binaries / program), *arguments]
        if os.geteuid() == 0:
            return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
        return command

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            self._command(program, *arguments),
            env=self._environment,
            cwd=self._folder,
            check=True,
            capture_output=True,
            timeout=120,
        )

    def _accepts(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.url, connect_timeout=5).close()
            return True
        return False


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a server to make databases in: the one given, or a private one."""
    given = os.environ.get(ADDRESS)
    if given:
        yield given
        return
    server = Postgres.start()
    try:
        yield server.url
    finally:
        server.close()


@contextlib.contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """The address of a new, empty database; gone afterwards."""
    name = f"acemq_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    try:
        yield re.sub(r"/[^/?]*(\?.*)?$", rf"/{name}\1", server)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def newest_installation() -> Path:
    """The folder of the newest PostgreSQL's programs on this machine."""
    found = sorted(
        _INSTALLED.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]), reverse=True
    )
    if not found:
        raise RuntimeError(
            "no PostgreSQL for the tests: run 'scripts/servers install' as root, or put an address "
            f"in {ADDRESS}"
        )
    return found[0].parent
