"""The blocking side of the check: a pattern works on a connection of its own flavour alone."""

from __future__ import annotations

from typing import Any

from acemq_amqp.blocking.connection import Connection
from acemq_amqp.core.connection import Connection as AsyncConnection
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.patterns.connections import no_connection


def checked_connection(given: Any) -> Connection:
    """A connection of the blocking flavour.

    :raises ConfigurationError: an async one, or something else
    """
    if isinstance(given, Connection):
        return given
    if isinstance(given, AsyncConnection):
        raise ConfigurationError(
            "acemq: a blocking connection is wanted here, and this one is async: connect with "
            "acemq_amqp.blocking.connect, or take the async twin from acemq_amqp.patterns"
        )
    raise no_connection(given, "acemq_amqp.blocking.connect")
