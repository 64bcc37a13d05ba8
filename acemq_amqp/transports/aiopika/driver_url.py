"""An address as the driver reads it.

The driver unquotes the path once and then turns every ``%2F`` left into a slash. So a
vhost is one quoted segment (nothing then folds its dots away), and only one that holds
the very letters ``%2F`` cannot be written.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from yarl import URL

from acemq_amqp.address import Address
from acemq_amqp.errors import ConfigurationError

#: the driver takes anything above for "no heartbeat"
_LONGEST_HEARTBEAT: Final = 65_534


def driver_url(address: Address) -> URL:
    """The URL that makes the driver log in as this address says.

    :raises ConfigurationError: a login or vhost that the driver cannot carry
    """
    if "%2F" in address.vhost:
        raise ConfigurationError(
            f"acemq: the vhost of {address.shown} holds the letters %2F, which the async driver "
            "cannot tell from a slash; a slash in a vhost is written %2f in the URL, once"
        )
    if not address.username or not address.password:
        raise ConfigurationError(
            f"acemq: the address {address.shown} has an empty user name or password, for which "
            "the async driver would send guest; give both, or neither"
        )
    return URL.build(
        scheme=address.scheme,
        host=address.host,
        port=address.port,
        user=quote(address.username, safe=""),
        password=quote(address.password, safe=""),
        path="/" + quote(address.vhost, safe=""),
        query_string=f"heartbeat={min(address.heartbeat, _LONGEST_HEARTBEAT)}",
        encoded=True,
    )
