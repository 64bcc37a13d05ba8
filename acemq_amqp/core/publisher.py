"""A publisher: where to, in which codec, and whether a message must find a queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from acemq_amqp.core.hops import Onward, onward_of
from acemq_amqp.core.outgoing import Sending, awaited_outgoing, native_of, outgoing_of
from acemq_amqp.core.ports import Call, Outgoing, Work
from acemq_amqp.core.publishing import Publishing, PublishResult
from acemq_amqp.durations import Duration
from acemq_amqp.envelope import Envelope
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.message import Message


@dataclass(frozen=True, slots=True)
class Publication:
    """What an ``on_publish`` interceptor sees; ``dataclasses.replace`` gives one that differs."""

    payload: Any
    envelope: Envelope
    exchange: str
    routing_key: str


class Publisher:
    """Sends messages to one place. Made by ``Connection.publisher``; any number may share it.

    A send that returns was confirmed by the broker. One that raises says which of the
    other outcomes it had: refused, or unknown.
    """

    def __init__(
        self,
        publishing: Publishing,
        work: Work,
        sending: Sending,
        routing_key: str,
        *,
        mandatory: bool,
        timeout: float,
        interceptors: tuple[Call, ...] = (),
    ) -> None:
        self._publishing = publishing
        self._work = work
        self._sending = sending
        self._routing_key = routing_key
        self._mandatory = mandatory
        self._timeout = timeout
        self._interceptors = interceptors

    def __repr__(self) -> str:
        return f"Publisher(exchange={self.exchange!r}, routing_key={self.routing_key!r})"

    @property
    def exchange(self) -> str:
        """Where it publishes to; ``""`` addresses queues by their name."""
        return self._sending.exchange

    @property
    def routing_key(self) -> str:
        """The key that is used where a send names none."""
        return self._routing_key

    async def send(
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
        self._work.refuse_elsewhere()
        native = native_of(correlation_id, type, timestamp, app_id, user_id, content_encoding)
        outgoing = await self._outgoing(
            payload,
            routing_key,
            envelope=envelope,
            headers=headers,
            reply_to=reply_to,
            priority=priority,
            expiration=expiration,
            native=native,
        )
        return await self._publishing.send(outgoing, self._deadline(), mandatory=self._mandatory)

    def bare(self) -> Publisher:
        """The same without interceptors: for what no user has sent."""
        return Publisher(
            self._publishing,
            self._work,
            self._sending,
            self._routing_key,
            mandatory=self._mandatory,
            timeout=self._timeout,
        )

    async def send_many(
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
        self._work.refuse_elsewhere()
        single = isinstance(payloads, (str, bytes, bytearray, Mapping))
        if single or not isinstance(payloads, Iterable):
            raise ConfigurationError(
                f"acemq: send_many wants a sequence of payloads, got one "
                f"{type(payloads).__name__}; use send, or put it into a list"
            )
        batch = await self._batch(list(payloads), routing_key, headers, envelopes)
        return await self._publishing.send_many(batch, self._deadline, mandatory=self._mandatory)

    async def forward(self, batch: Sequence[Onward]) -> list[PublishResult]:
        """Sends received messages on as they came, pipelined and in order. For patterns.

        Codec, interceptors and the place of this publisher have no part in it.

        :raises BatchError: some were not confirmed, or not routed; as in :meth:`send_many`
        """
        login = await self._publishing.login(self._deadline())
        outgoing = [onward_of(each, _envelope(each), login) for each in batch]
        return await self._publishing.send_many(outgoing, self._deadline, mandatory=True)

    async def _batch(
        self,
        payloads: list[Any],
        routing_key: str | None,
        headers: Mapping[str, Any] | None,
        envelopes: Sequence[Envelope] | None,
    ) -> list[Outgoing]:
        async def made(of: tuple[Any, Envelope | None]) -> Outgoing:
            return await self._outgoing(of[0], routing_key, envelope=of[1], headers=headers)

        told = [None] * len(payloads) if envelopes is None else envelopes
        if len(told) != len(payloads):
            raise ConfigurationError(
                f"acemq: {len(told)} envelopes were given for {len(payloads)} payloads; give one "
                "for each, or none"
            )
        items = list(zip(payloads, told, strict=True))
        if self._sending.waiting is None:
            return [await made(each) for each in items]
        return await self._work.each(made, items)

    def _deadline(self) -> float:
        return self._work.clock.monotonic() + self._timeout

    async def _outgoing(
        self,
        payload: Any,
        routing_key: str | None,
        *,
        envelope: Envelope | None = None,
        headers: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Outgoing:
        key = self._routing_key if routing_key is None else routing_key
        sending = self._sending
        if self._interceptors:
            envelope = envelope or Envelope()
            if headers:
                envelope, headers = envelope.with_(headers={**envelope.headers, **headers}), None
            seen = Publication(payload, envelope, sending.exchange, key)
            for interceptor in self._interceptors:
                seen = _publication(await interceptor(seen), seen)
            payload, envelope, key = seen.payload, seen.envelope, seen.routing_key
            sending = replace(sending, exchange=seen.exchange)
        if sending.waiting is not None:
            options.update(envelope=envelope, headers=headers)
            return await awaited_outgoing(sending, sending.waiting, payload, key, **options)
        return outgoing_of(sending, payload, key, envelope=envelope, headers=headers, **options)


def _envelope(onward: Onward) -> Envelope:
    return Message.received(None, onward.arrival).envelope


def _publication(returned: Any, before: Publication) -> Publication:
    if returned is None:
        return before
    if isinstance(returned, Publication):
        return returned
    raise ConfigurationError(
        f"acemq: an on_publish interceptor returned {type(returned).__name__}; return the "
        "Publication, changed or not, or None"
    )
