"""The private folder of a node: cookie, configuration, data, logs, and the environment for them.

Nothing of the system's own RabbitMQ is read or written: not its configuration, cookie, data,
plugins, nor its port mapper.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.ports import free_port


@dataclass(frozen=True)
class Tls:
    """Certificates for a TLS listener, as PEM files in the folder for temporary files.

    :param client_certificates: whether a client must show one that the authority signed
    """

    authority: Path
    certificate: Path
    key: Path
    client_certificates: bool = False

    def lines(self, port: int) -> list[str]:
        """The lines of rabbitmq.conf for a listener on this port."""
        wanted = str(self.client_certificates).lower()
        return [
            f"listeners.ssl.1 = 127.0.0.1:{port}",
            f"ssl_options.cacertfile = {self.authority}",
            f"ssl_options.certfile = {self.certificate}",
            f"ssl_options.keyfile = {self.key}",
            f"ssl_options.verify = {'verify_peer' if self.client_certificates else 'verify_none'}",
            f"ssl_options.fail_if_no_peer_cert = {wanted}",
        ]


@dataclass(frozen=True)
class NodeHome:
    """Names, ports and files of one node."""

    folder: Path = field(
        default_factory=lambda: Path(tempfile.mkdtemp(prefix="acemq-rabbitmq-")).resolve()
    )
    node: str = field(default_factory=lambda: f"acemq-{secrets.token_hex(4)}@localhost")
    port: int = field(default_factory=free_port)
    tls_port: int = field(default_factory=free_port)
    distribution_port: int = field(default_factory=free_port)

    @property
    def log(self) -> Path:
        """What the node printed; its own log is beside it, in ``log/``."""
        return self.folder / "printed"

    def prepare(
        self, cookie: str, config: Iterable[str], plugins: Iterable[str], tls: Tls | None
    ) -> None:
        """Writes the files that the node reads when it starts."""
        for name in ("home", "data", "log"):
            (self.folder / name).mkdir()
        cookie_file = self.folder / "home" / ".erlang.cookie"
        cookie_file.write_text(cookie)
        cookie_file.chmod(0o400)
        lines = [
            f"listeners.tcp.1 = 127.0.0.1:{self.port}",
            "disk_free_limit.absolute = 100MB",
            *(tls.lines(self.tls_port) if tls else ()),
            *config,
        ]
        (self.folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")

    def environment(self, mapper_port: int) -> dict[str, str]:
        """What the node and its tools find in their environment."""
        folder = self.folder
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "HOME": str(folder / "home"),
            "ERL_EPMD_PORT": str(mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            # The shell script hands its process over to the node, so that signals reach the node.
            "RABBITMQ_ALLOW_INPUT": "true",
            # Several nodes share few cores: none may hold on to one.
            "RABBITMQ_SCHEDULER_BIND_TYPE": "u",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def remove(self) -> None:
        """Removes the folder with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
