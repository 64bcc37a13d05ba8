"""The first words of AMQP: enough to know that a broker listens, and which version it is."""

from __future__ import annotations

import re
import socket

_GREETING = b"AMQP\x00\x00\x09\x01"
_FRAME_HEADER = 7
_VERSION = re.compile(rb"\x07versionS\x00\x00\x00.([0-9][0-9A-Za-z.+-]*)", re.DOTALL)


def broker_version(host: str, port: int, timeout: float = 2.0) -> str | None:
    """The version in the broker's Connection.Start, or None while no broker answers here.

    :param timeout: seconds for each read
    """
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(_GREETING)
            start = _read(connection, _FRAME_HEADER)
            start = _read(connection, int.from_bytes(start[3:7], "big"))
    except OSError:
        return None
    found = _VERSION.search(start)
    return found.group(1).decode() if found else None


def _read(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionError("the broker closed the connection during the handshake")
        received += chunk
    return received
