"""Every error the toolkit raises, split by whose fault it is.

One root, :class:`AceMQError`. Below it: the caller's configuration, the broker,
one message, the handler, a store. A driver's own exception never reaches the
caller: it is mapped where it is caught and chained as the cause. Each text says
what happened, on which object, and what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

Stored = Literal["no", "perhaps"]


class AceMQError(Exception):
    """The root of every error raised by the toolkit. It can be pickled, with all it carries."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[AceMQError], args: tuple[Any, ...], held: dict[str, Any]) -> AceMQError:
    """An error from another process, without asking its class to build it from its text."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(held)
    return error


class ConfigurationError(AceMQError, ValueError):
    """The caller asked for something that cannot work. Nothing was sent or declared."""


class BrokerError(AceMQError):
    """The broker refused, failed or is not there.

    :ivar code: the AMQP reply code, or 0 where the broker gave none
    """

    def __init__(self, text: str, *, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class ConnectionLost(BrokerError):
    """The connection is down, and did not come back in the time allowed."""


class CannotConnect(ConnectionLost):
    """No connection could be made."""


class AuthenticationRefused(CannotConnect):
    """The broker knows the address and refuses the login or the vhost. Never retried."""


class TlsFailed(CannotConnect):
    """The two sides cannot agree on TLS: one of them speaks none, or the broker refuses ours.

    Told at once by ``connect``, as trying again cannot help.
    """


class UnknownHost(CannotConnect):
    """No name service knows the broker's host.

    Told at once by ``connect`` where that is so of every address; a connection that was up before
    tries again.
    """


class UntrustedBroker(TlsFailed):
    """The broker's certificate is of no trusted authority, expired, or for another host."""


class BrokerTimeout(BrokerError):
    """The broker did not answer in the time allowed."""


class NotFound(BrokerError):
    """The broker has no such queue or exchange (404)."""


class AccessRefused(BrokerError):
    """This login may not do that, or the object is held exclusively elsewhere (403, 405)."""


class DeclarationMismatch(BrokerError):
    """An object exists with other arguments, or none can have the ones asked for (406)."""


class ConsumerEnded(BrokerError):
    """A consumer was ended by the broker and cannot be brought back."""


class PublishError(BrokerError):
    """A message was not confirmed.

    :ivar message_id: the id it carried, the same on every try
    """

    def __init__(self, text: str, *, message_id: str = "", code: int = 0) -> None:
        super().__init__(text, code=code)
        self.message_id = message_id


class PublishRefused(PublishError):
    """The message was not taken.

    :ivar stored: ``"no"``: nothing was stored. ``"perhaps"``: at least one queue
        refused it and others may have it, so it is never repeated
    """

    def __init__(
        self, text: str, *, message_id: str = "", code: int = 0, stored: Stored = "no"
    ) -> None:
        super().__init__(text, message_id=message_id, code=code)
        self.stored: Stored = stored


class PublishingPaused(PublishRefused):
    """The broker has paused publishing (an alarm). The message was not written and never turns up.

    :ivar reason: the broker's own words
    """

    def __init__(self, text: str, *, message_id: str = "", reason: str = "") -> None:
        super().__init__(text, message_id=message_id)
        self.reason = reason


class PublishUnknown(PublishError):
    """The bytes were handed over and no confirm came: the message may have been stored.

    Repeating it with the same id is safe for a consumer that recognises ids.
    """


class BatchError(PublishError):
    """Some messages of one ``send_many`` were not confirmed.

    :ivar outcomes: for each payload, in order, its ``PublishResult`` or its :class:`PublishError`
    """

    def __init__(self, text: str, outcomes: Sequence[Any]) -> None:
        super().__init__(text)
        self.outcomes = list(outcomes)


class MessageError(AceMQError):
    """One message cannot be read or written."""


class DecodeError(MessageError):
    """A body could not be decoded."""


class EncodeError(MessageError):
    """A payload could not be encoded. Nothing was sent."""


class FatalError(MessageError):
    """Raised by a handler, codec or store: trying again cannot help, so dead-letter at once."""


class HandlerError(AceMQError):
    """A handler broke the contract: it returned something else than an acknowledgement."""


class StoreError(AceMQError):
    """A store could not be reached, or refused."""


def article(noun: str) -> str:
    """The noun with its article, as error texts need it: ``a queue``, ``an exchange``."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def kind_of(value: object) -> str:
    """What was given, as error texts tell it: ``a str``, ``an int``."""
    return article(type(value).__name__)
