"""A RabbitMQ of the test's own: started, stopped, killed, paused and started again at will.

Each node has its own folder, ports, cookie and port mapper, and is gone with all of them when it is
closed, or when the tests end in any way. A node needs some six seconds to start.
"""

from __future__ import annotations

import secrets
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from tests.support.control import Controlled
from tests.support.eventually import eventually
from tests.support.handshake import broker_version
from tests.support.installation import Installation, find_installation
from tests.support.node_home import NodeHome, Tls
from tests.support.port_mapper import PortMapper
from tests.support.processes import Process

_START_WITHIN = 120.0
_STOP_WITHIN = 60.0
_TOOL_WITHIN = 120.0


class RabbitMQ(Controlled):
    """A private node.

    :param installation: which RabbitMQ; the system's own by default
    :param config: further lines of rabbitmq.conf
    :param plugins: names of plugins to enable
    :param tls: certificates for a second listener, at ``tls_url``
    :param beside: a node whose cookie and port mapper this one shares, so that they can cluster
    """

    def __init__(
        self,
        installation: Installation | None = None,
        *,
        config: Iterable[str] = (),
        plugins: Iterable[str] = (),
        tls: Tls | None = None,
        beside: RabbitMQ | None = None,
    ) -> None:
        self.installation = installation or find_installation(None)
        self.version = ""
        self._cookie: str = beside._cookie if beside else secrets.token_hex(16)
        self._home = NodeHome()
        self._home.prepare(self._cookie, config, plugins, tls)
        self._mapper: PortMapper = (
            beside._mapper if beside else PortMapper(self.installation, self._home)
        )
        self._owns_mapper = beside is None
        self._process: Process | None = None

    @classmethod
    def start(
        cls,
        root: Path | None = None,
        *,
        config: Iterable[str] = (),
        plugins: Iterable[str] = (),
        tls: Tls | None = None,
        beside: RabbitMQ | None = None,
    ) -> RabbitMQ:
        """A new node that accepts connections.

        :param root: a folder of ``scripts/other-rabbitmq``; None for the system's RabbitMQ
        """
        installation = Installation(root) if root else None
        node = cls(installation, config=config, plugins=plugins, tls=tls, beside=beside)
        try:
            node.boot()
        except BaseException:
            node.close()
            raise
        return node

    # ------------------------------------------------------------ addresses

    @property
    def port(self) -> int:
        """The port of AMQP on 127.0.0.1; it stays the same when the node is started again."""
        return self._home.port

    @property
    def url(self) -> str:
        """The address of the virtual host ``/``, for the user guest."""
        return self.url_of("/")

    def url_of(self, vhost: str, port: int | None = None) -> str:
        """The address of a virtual host; by way of another port (a proxy's), if given."""
        return f"amqp://guest:guest@127.0.0.1:{port or self.port}/{_quoted(vhost)}"

    @property
    def tls_url(self) -> str:
        """The address of the TLS listener, under the name that its certificate must carry."""
        return f"amqps://guest:guest@localhost:{self._home.tls_port}/%2F"

    # ------------------------------------------------------------ coming and going

    @property
    def running(self) -> bool:
        """Whether the node's process is there, paused or not."""
        return self._process is not None and not self._process.ended_within(0)

    def boot(self) -> None:
        """Starts the node with the data it has; comes back when it accepts connections."""
        try:
            self._boot()
        except BaseException:
            self.kill()
            raise

    def _boot(self) -> None:
        self._process = Process(
            self.installation.command("rabbitmq-server", "-noinput"),
            self._environment,
            self._home.log,
            self._home.folder,
        )
        deadline = time.monotonic() + _START_WITHIN
        while (version := broker_version("127.0.0.1", self.port)) is None:
            if self._process.ended_within(0.05) or time.monotonic() > deadline:
                raise RuntimeError(f"RabbitMQ did not start; it printed:\n{self._last_words()}")
        self.version = version

    def stop(self) -> None:
        """Shuts the node down in order: its clients are told, its data is kept."""
        if self._process is not None:
            self._process.signal(signal.SIGTERM)
            self._process.ended_within(_STOP_WITHIN)
            self.kill()

    def kill(self) -> None:
        """Kills the node at once; nobody is told. What it had on disk is kept.

        RabbitMQ below 4.3 writes declarations up to two seconds late: see ``persist``.
        """
        if self._process is not None:
            self._process.kill()
            self._process = None

    def restart(self) -> None:
        """Stops the node if it runs, and starts it with the same data, name and ports."""
        self.stop()
        self.boot()

    def pause(self) -> None:
        """Stops the node's clock: connections stay open, and nothing is read or answered."""
        self._signal_until(signal.SIGSTOP, "T")

    def resume(self) -> None:
        """Lets a paused node go on."""
        self._signal_until(signal.SIGCONT, "SRD")

    def close(self) -> None:
        """Kills the node and removes all that it had. The node is over."""
        self.kill()
        if self._owns_mapper:
            self._mapper.close()
        self._home.remove()

    def __enter__(self) -> RabbitMQ:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------ the operator's side

    @property
    def node(self) -> str:
        """The node's name, as the tools want it."""
        return self._home.node

    def ctl(self, *arguments: str) -> str:
        return self._tool(self.installation.command("rabbitmqctl", "-n", self.node, *arguments))

    def eval(self, expression: str) -> str:
        caller = self.installation.command(
            "/usr/bin/erl_call", "-r", "-c", self._cookie, "-n", self.node, *_QUIETLY, "-e"
        )
        spoken = _SPOKEN % expression.rstrip().rstrip(".")
        said = eventually(lambda: self._heard(caller, spoken), f"{self.node} taking a call", 30.0)
        if not said.startswith(_ANSWER):
            raise RuntimeError(f"the node could not evaluate {expression}: {said}")
        return said.removeprefix(_ANSWER)

    def _heard(self, caller: list[str], spoken: str) -> str:
        """What the node said; "" where the call did not get through, as on a busy machine."""
        try:
            return self._tool(caller, spoken)
        except RuntimeError as failure:
            if "failed to connect" in str(failure) and self.running:
                return ""
            raise

    def persist(self) -> None:
        """Has what was declared so far on disk, for a test that kills the node soon after.

        Messages need no such thing: a confirmed one is on disk. The queue that it is in may not be,
        nor the name that a quorum queue's log is found under: without it the queue is there after
        the kill, and never has a leader.
        """
        self.eval("catch mnesia:sync_log(), [dets:sync(Table) || Table <- dets:all()], ok")

    def join(self, other: RabbitMQ) -> None:
        """Makes this node a member of the other's cluster, giving up its own data."""
        for step in (["stop_app"], ["reset"], ["join_cluster", other.node], ["start_app"]):
            self.ctl(*step)

    def reset(self) -> None:
        """Makes the node as good as new for the next test: running, no alarm, nothing declared."""
        if self.running:
            self.resume()
        else:
            self.boot()
        self.clear_alarm()
        self.close_connections("the next test begins")
        self.eval('[rabbit_vhost:delete(V, <<"tests">>) || V <- rabbit_vhost:list_names()], ok')
        self.add_vhost("/")

    # ------------------------------------------------------------ inside

    @property
    def _environment(self) -> dict[str, str]:
        return self._home.environment(self._mapper.port)

    def _tool(self, command: list[str], spoken: str | None = None) -> str:
        done = subprocess.run(
            command,
            env=self._environment,
            input=spoken or "",
            capture_output=True,
            text=True,
            timeout=_TOOL_WITHIN,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command[-4:])} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def _signal_until(self, number: signal.Signals, states: str) -> None:
        process = self._process
        if process is not None:
            process.signal(number)
            eventually(lambda: process.state in states, f"the node in one of the states {states}")

    def _last_words(self) -> str:
        return "\n".join(self._home.log.read_text(errors="replace").splitlines()[-40:])


_QUIETLY = ("-no_result_term", "-fetch_stdout")
_ANSWER = "answer: "
# erl_call ends well whatever becomes of the expression: the answer says itself that it is one.
_SPOKEN = (
    f'try io:format("{_ANSWER}~0tp", [begin %s end]) '
    'catch C:R -> io:format("~0tp", [{C, R}]) end.\n'
)


def _quoted(vhost: str) -> str:
    return vhost.replace("%", "%25").replace("/", "%2F")
