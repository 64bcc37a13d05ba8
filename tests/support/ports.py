"""Ports that nobody listens on, taken from below the range that outgoing connections use.

A server that is stopped and started again wants its old port back: a port of the ephemeral range
could meanwhile have become the near end of somebody's connection.
"""

from __future__ import annotations

import random
import socket

_LOWEST, _HIGHEST = 21_000, 31_999
_dice = random.SystemRandom()  # workers seeded alike must not draw the same ports


def free_port() -> int:
    """A TCP port on which nothing listens now, on any address of this machine."""
    for _ in range(1000):
        port = _dice.randint(_LOWEST, _HIGHEST)
        if _is_free(port):
            return port
    raise RuntimeError(f"no free port between {_LOWEST} and {_HIGHEST}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
