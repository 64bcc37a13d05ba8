"""What the broker or the driver refused, as the toolkit's errors.

One table by AMQP reply code says whose fault a closed channel was; the texts add what
to do next. The broker's own words stay in, as they name the argument and both values.
"""

from __future__ import annotations

import socket
import ssl

from acemq_amqp.address import Address
from acemq_amqp.errors import (
    AccessRefused,
    AuthenticationRefused,
    BrokerError,
    CannotConnect,
    ConnectionLost,
    DeclarationMismatch,
    NotFound,
    UnknownHost,
)
from acemq_amqp.transports.tls import tls_failure
from acemq_amqp.transports.wire.events import ChannelClosed, ConnectionClosed

_REFUSALS: dict[int, tuple[type[BrokerError], str]] = {
    403: (AccessRefused, "check this login's permissions on it"),
    404: (NotFound, "check the name and the vhost, or declare it first"),
    405: (AccessRefused, "another connection holds it exclusively; wait until that one is gone"),
}
#: what a name service says that was reached and knows no such host; a busy one says EAI_AGAIN
_NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_MISMATCH = "declare it as it is, or delete it first and declare it anew"
_ONE_AT_A_TIME = "take from it with a consumer, which waits for its turn"
_IMPOSSIBLE = "no queue or exchange of that kind can have it; correct the declaration"


def refusal(closed: ChannelClosed, asked: str, *, declaring: bool = False) -> BrokerError:
    """The error for a channel that the broker closed in answer.

    :param asked: what was asked, as in "declaring queue 'orders'"
    :param declaring: whether a failed precondition means other arguments
    """
    kind, advice = _REFUSALS.get(closed.code, (BrokerError, "see the broker's log"))
    if declaring and closed.code == 406:
        # the word is in every version's text where the object exists and differs
        advice = _MISMATCH if "inequivalent" in closed.text else _IMPOSSIBLE
        kind = DeclarationMismatch
    elif closed.code == 405 and "single active consumer" in closed.text:
        advice = _ONE_AT_A_TIME
    return kind(
        f"acemq: the broker refused {asked} ({_words(closed.code, closed.text)}); {advice}",
        code=closed.code,
    )


def lost(
    address: Address, farewell: ConnectionClosed | None, cause: BaseException | None
) -> ConnectionLost:
    """The error for a connection that ended without our doing."""
    if farewell is not None:
        text = f"the broker closed it ({_words(farewell.code, farewell.text)})"
    elif cause is not None:
        text = str(cause) or type(cause).__name__
    else:
        text = "the broker or the network closed the socket"
    code = 0 if farewell is None else farewell.code
    error = ConnectionLost(f"acemq: the connection to {address.shown} was lost: {text}", code=code)
    error.__cause__ = cause
    return error


def no_connection(
    address: Address, farewell: ConnectionClosed | None, cause: BaseException | None
) -> CannotConnect:
    """The error for a connection that could not be made, at whatever step."""
    if farewell is not None:
        return _turned_away(address, farewell)
    error = (
        tls_failure(address, cause)
        or _unknown_host(address, cause)
        or CannotConnect(f"acemq: cannot connect to {address.shown}: {_reason(cause)}")
    )
    error.__cause__ = cause
    return error


def _unknown_host(address: Address, cause: BaseException | None) -> UnknownHost | None:
    if not isinstance(cause, socket.gaierror) or cause.errno not in _NO_SUCH_NAME:
        return None
    return UnknownHost(
        f"acemq: cannot connect to {address.shown}: no name service knows the host "
        f"{address.host!r}; check the spelling, and this machine's name service"
    )


def _turned_away(address: Address, farewell: ConnectionClosed) -> CannotConnect:
    words, code = _words(farewell.code, farewell.text), farewell.code
    if code == 403:
        return AuthenticationRefused(
            f"acemq: {address.shown} refused the login of {address.username!r} ({words}); check "
            "the user name and the password (guest may log in from localhost only)",
            code=code,
        )
    if code == 530 and "limit" not in farewell.text:
        return AuthenticationRefused(
            f"acemq: {address.shown} refused the vhost {address.vhost!r} to "
            f"{address.username!r} ({words}); create the vhost, or give this user permissions "
            "on it",
            code=code,
        )
    return CannotConnect(
        f"acemq: {address.shown} turned the connection away ({words}); see the broker's log",
        code=code,
    )


def _reason(cause: BaseException | None) -> str:
    if isinstance(cause, TimeoutError):
        return "no answer in the time allowed; check the address, and firewalls on the way"
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed ({cause}); check the port, the certificates and the host name in them"
    if isinstance(cause, ConnectionRefusedError):
        return "nothing listens there; start the broker, or check the host and the port"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.strerror}; check the host and the port"
    return (
        f"the handshake failed ({cause or type(cause).__name__}); is it a RabbitMQ broker's AMQP "
        "port, and TLS on neither side or both?"
    )


def _words(code: int, text: str) -> str:
    return f"{code}: {text}" if text else str(code)
