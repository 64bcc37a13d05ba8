"""The blocking face of a publisher: each send drives the core's to its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from acemq_amqp.core.publisher import Publisher as CorePublisher
from acemq_amqp.core.publishing import PublishResult
from acemq_amqp.durations import Duration
from acemq_amqp.envelope import Envelope
from acemq_amqp.flavours.threads import drive


class Publisher:
    """Sends messages to one place. Made by ``Connection.publisher``; any thread may use it.

    A send that returns was confirmed by the broker. One that raises says which of the
    other outcomes it had: refused, or unknown.
    """

    def __init__(self, publisher: CorePublisher, connection: object) -> None:
        self._core = publisher
        self._connection = connection  # not forgotten while it is in use

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def exchange(self) -> str:
        """Where it publishes to; ``""`` addresses queues by their name."""
        return self._core.exchange

    @property
    def routing_key(self) -> str:
        """The key that is used where a send names none."""
        return self._core.routing_key

    def send(
        self,
        payload: Any,
        *,
        envelope: Envelope | None = None,
        routing_key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        reply_to: str = "",
        priority: int | None = None,
        expiration: Duration | None = None,
        correlation_id: str | None = None,
        type: str | None = None,
        timestamp: datetime | int | None = None,
        app_id: str | None = None,
        user_id: str | None = None,
        content_encoding: str | None = None,
    ) -> PublishResult:
        """Sends one message and returns once the broker has confirmed it.

        While the link is down or the broker has paused publishing it waits up to the
        connection's ``timeout``. An outcome that is unknown is repeated with the same id
        within that time unless the connection has ``retry_unknown=False``; that can double
        and re-order.

        :param envelope: identity and history other than a fresh one's
        :param headers: the application's headers, beside the envelope's own
        :param priority: 0 to 255
        :param expiration: how long it may wait in a queue, at least 1 ms
        :param correlation_id: a native property, for readers that look there and not into the
            envelope; so are ``type``, ``app_id`` and ``content_encoding``
        :param timestamp: an aware datetime, cut to its second; or whole seconds since the epoch
        :param user_id: this connection's login; the broker vouches for it, and takes no other
        :raises ConfigurationError: something in it cannot travel; nothing was sent
        :raises EncodeError: the codec cannot write the payload; nothing was sent
        :raises PublishRefused: the broker did not take it (``PublishingPaused``: it takes none now)
        :raises PublishUnknown: it may have been stored
        """
        return drive(
            self._core.send(
                payload,
                envelope=envelope,
                routing_key=routing_key,
                headers=headers,
                reply_to=reply_to,
                priority=priority,
                expiration=expiration,
                correlation_id=correlation_id,
                type=type,
                timestamp=timestamp,
                app_id=app_id,
                user_id=user_id,
                content_encoding=content_encoding,
            )
        )

    def send_many(
        self,
        payloads: Iterable[Any],
        *,
        routing_key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        envelopes: Sequence[Envelope] | None = None,
    ) -> list[PublishResult]:
        """Sends many messages, pipelined and in order, and returns once all are confirmed.

        Every payload is checked and encoded before the first one is sent.

        :param headers: the application's headers of each, beside the envelope's own
        :param envelopes: identity and history of each, in order, other than fresh ones
        :raises ConfigurationError: one of them cannot travel; none was sent
        :raises EncodeError: the codec cannot write one of them; none was sent
        :raises BatchError: some were not confirmed; ``.outcomes`` has one outcome per payload
        """
        return drive(
            self._core.send_many(
                payloads, routing_key=routing_key, headers=headers, envelopes=envelopes
            )
        )
