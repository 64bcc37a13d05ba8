"""Which flavour a connection is of: a pattern works on one of its own flavour alone."""

from __future__ import annotations

from typing import Any

from acemq_amqp.core.connection import Connection
from acemq_amqp.errors import ConfigurationError, kind_of


def checked_connection(given: Any) -> Connection:
    """A connection of the async flavour.

    :raises ConfigurationError: a blocking one, or something else
    """
    if isinstance(given, Connection):
        return given
    if isinstance(getattr(given, "_core", None), Connection):
        raise ConfigurationError(
            "acemq: an async connection is wanted here, and this one is blocking: connect with "
            "acemq_amqp.connect, or take the blocking twin from acemq_amqp.blocking.patterns"
        )
    raise no_connection(given, "acemq_amqp.connect")


def no_connection(given: Any, connect: str) -> ConfigurationError:
    """What is said of something that is no connection at all.

    :param connect: where one of the wanted flavour comes from
    """
    told = "None" if given is None else kind_of(given)
    return ConfigurationError(f"acemq: a connection is wanted, got {told}: open one with {connect}")
