"""One delivery, read and handled: whatever happens, the outcome is an answer."""

from __future__ import annotations

import time
from typing import Any

from acemq_amqp.ack import Ack, decision_for, decision_of
from acemq_amqp.codec import Codec
from acemq_amqp.core.observer import Observing
from acemq_amqp.core.ports import Arrival, Call, WaitingCodec
from acemq_amqp.errors import AceMQError, DecodeError, FatalError, StoreError
from acemq_amqp.message import Message

_STREAM_S_OWN = "x-stream-offset"


def give_back(arrival: Arrival) -> None:
    """Puts a delivery back into its queue.

    A stream keeps what was read, and ends the connection of whoever gives something back.
    """
    if _STREAM_S_OWN not in arrival.properties.headers.values():
        arrival.settling.requeue(arrival.tag)


class Handling:
    """Reads deliveries of one queue and calls the handler.

    :param call: the handler, bound to the flavour
    :param waiting: the codec, where this flavour has to wait for it
    """

    def __init__(
        self,
        queue: str,
        codec: Codec,
        call: Call,
        observing: Observing,
        waiting: WaitingCodec | None = None,
    ) -> None:
        self._queue = queue
        self._codec = codec
        self._call = call
        self._observing = observing
        self._waiting = waiting

    async def answer(self, arrival: Arrival) -> tuple[Message, Ack]:
        """The message as the handler saw it, and what is to become of it."""
        if self._observing.watched:
            return await self._timed(arrival)
        return await self._answer(arrival)

    async def _timed(self, arrival: Arrival) -> tuple[Message, Ack]:
        started = time.perf_counter()
        try:
            return await self._answer(arrival)
        finally:
            self._observing.duration(
                "acemq.consume.duration", {"queue": self._queue}, time.perf_counter() - started
            )

    async def _answer(self, arrival: Arrival) -> tuple[Message, Ack]:
        try:
            if self._waiting is None:
                payload = self._decoded(arrival)
            else:
                payload = await self._awaited(self._waiting, arrival)
            message = Message.received(payload, arrival)
        except Exception as failure:
            return Message.received(None, arrival), decision_for(failure)
        try:
            return message, decision_of(await self._call(message))
        except Exception as failure:
            return message, decision_for(failure)

    def _decoded(self, arrival: Arrival) -> Any:
        try:
            return self._codec.decode(arrival.body, arrival.properties.content_type)
        except (DecodeError, FatalError, StoreError, KeyboardInterrupt):
            raise
        except BaseException as failure:  # SystemExit too: it must not end the worker
            raise self._undecodable(arrival, failure) from failure

    async def _awaited(self, waiting: WaitingCodec, arrival: Arrival) -> Any:
        try:
            return await waiting.decode(arrival.body, arrival.properties.content_type)
        except (DecodeError, FatalError, StoreError):
            raise
        except Exception as failure:
            raise self._undecodable(arrival, failure) from failure

    def _undecodable(self, arrival: Arrival, failure: BaseException) -> DecodeError:
        if isinstance(failure, AceMQError):
            return DecodeError(str(failure))
        return DecodeError(
            f"acemq: {self._codec!r} failed on {len(arrival.body)} bytes: "
            f"{type(failure).__name__}: {failure}"
        )


def same_message(one: Arrival, other: Arrival) -> bool:
    """Whether two deliveries are of one message: an equal id, else an equal key and body."""
    ids = one.properties.message_id, other.properties.message_id
    if ids != (None, None):
        return ids[0] == ids[1]
    return one.routing_key == other.routing_key and one.body == other.body
