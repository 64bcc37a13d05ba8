"""Erlang's port mapper (epmd), one for each node or cluster, so that it ends when they do.

Left to itself a node starts one for the whole machine, which stays behind for ever.
"""

from __future__ import annotations

from tests.support.installation import Installation
from tests.support.node_home import NodeHome
from tests.support.ports import free_port
from tests.support.processes import Process


class PortMapper:
    """A running epmd on a port of its own."""

    def __init__(self, installation: Installation, home: NodeHome) -> None:
        self.port = free_port()
        self._process = Process(
            installation.command("/usr/bin/epmd", "-address", "127.0.0.1"),
            home.environment(self.port),
            home.log,
            home.folder,
        )

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
