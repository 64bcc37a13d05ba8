"""A connection: the parts of the core put together, and the verbs that users have.

Two links stand behind it. Consuming, declaring and looking up go over one; publishing,
hops included, over another that is opened on first use, since a broker with an alarm
stops reading from whoever publishes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from acemq_amqp.ack import Handler
from acemq_amqp.codec import Codec
from acemq_amqp.core import checks
from acemq_amqp.core.administration import Administration
from acemq_amqp.core.catalogue import Catalogue, declare_each
from acemq_amqp.core.consumer import Consumer
from acemq_amqp.core.consuming import Consuming
from acemq_amqp.core.health import Figures, HealthReport, report_of, tell
from acemq_amqp.core.keeper import Keeper
from acemq_amqp.core.observer import Observing
from acemq_amqp.core.options import Options
from acemq_amqp.core.outgoing import Sending, checked_name
from acemq_amqp.core.ports import BrokerInfo, Link, Transport, Work
from acemq_amqp.core.publisher import Publisher
from acemq_amqp.core.publishing import Publishing
from acemq_amqp.core.reading import Reading, StreamEnds, StreamReader
from acemq_amqp.core.settling import Settler
from acemq_amqp.core.stopping import Stopping, closed
from acemq_amqp.core.supervisor import Supervisor
from acemq_amqp.core.window import Window
from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import AccessRefused, BrokerError
from acemq_amqp.offsets import Start
from acemq_amqp.retry import RetryPolicy

T = TypeVar("T")
log = logging.getLogger("acemq_amqp")


class Connection(Administration):
    """A connection to a broker that comes back by itself. Made by :func:`acemq_amqp.connect`.

    Publishers and consumers made from it live as long as it does.
    """

    def __init__(self, work: Work, transport: Transport, options: Options) -> None:
        self._options = options
        endings = work.queue()
        observing = Observing(options.observer)
        self._observing = observing

        def supervised(
            name: str,
            restore: Any,
            opened: Callable[[Link], None],
            lost: Callable[[BrokerError], None],
        ) -> Supervisor:
            return Supervisor(
                work,
                transport,
                options.addresses,
                name=name,
                source=options.security.credentials,
                restore=restore,
                opened=opened,
                observing=observing,
                lost=lost,
            )

        control = supervised(
            "consuming", self._restore, self._opened, lambda why: self._reading.lost(why)
        )
        super().__init__(work, control, Catalogue(work), options.timeout)
        self._reading = Reading(work, self._control, options.timeout)
        self._sending = supervised("publishing", _nothing, lambda link: None, lambda why: None)
        self._publishing = Publishing(
            work.clock,
            self._sending,
            self._control,
            Window(work, options.max_outstanding, options.max_outstanding_bytes),
            observing,
            retry_unknown=options.retry_unknown,
            max_message_size=options.max_message_size,
        )
        self._settler = Settler(work, self._sending, self._control, observing)
        self._keeper = Keeper(work, self._control, self._catalogue, endings.put)
        self._consuming = Consuming(
            work,
            options,
            self._control,
            self._catalogue,
            self._keeper,
            self._settler,
            observing,
        )
        self._stopping = Stopping(
            work,
            endings,
            self._keeper,
            self._publishing,
            self._settler,
            self._sending,
            self._control,
        )
        self._on_publish = tuple(work.bind(each, inline=True) for each in options.on_publish)

    def __repr__(self) -> str:
        state = "closed" if self.closed else self._control.state.value
        return f"Connection({state}, {len(self.consumers)} consumers)"

    # ------------------------------------------------------------ what it is

    @property
    def codec(self) -> Codec:
        """The codec of publishers and consumers that name no other."""
        return self._options.codec

    @property
    def origin(self) -> str:
        """``service@host``, written into every message."""
        return self._options.origin

    @property
    def retry(self) -> RetryPolicy:
        """The policy of consumers that name no other."""
        return self._options.retry

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """The consumers that have not stopped."""
        return tuple(self._keeper.consumers)

    @property
    def closed(self) -> bool:
        """Whether it was closed here."""
        return self._stopping.begun

    @property
    def blocked(self) -> bool:
        """Whether the broker has paused publishing."""
        return self.blocked_reason is not None

    @property
    def blocked_reason(self) -> str | None:
        """The broker's words while it has paused publishing, else None."""
        link = self._sending.link
        return None if link is None else link.blocked_reason

    @property
    def outstanding(self) -> int:
        """Messages handed over and not confirmed yet."""
        return self._publishing.window.count

    @property
    def broker(self) -> BrokerInfo | None:
        """What the broker says of itself, and as whom this side is logged in; None while down."""
        link = self._control.link
        return None if link is None else link.broker

    @property
    def work(self) -> Work:
        """What its flavour runs on. Patterns are written over it, once for both flavours."""
        return self._work

    # ------------------------------------------------------------ publishing, consuming

    def publisher(
        self,
        exchange: str = "",
        routing_key: str = "",
        *,
        codec: Codec | None = None,
        persistent: bool = True,
        mandatory: bool | None = None,
    ) -> Publisher:
        """A publisher to one place. Costs nothing and needs no closing.

        :param exchange: ``""`` addresses queues by name
        :param mandatory: whether a message that no queue takes is an error; by default it is
            when queues are addressed, and is told by ``PublishResult.routed`` otherwise
        :raises ConfigurationError: a name that cannot travel
        """
        checked_name(exchange, "an exchange name")
        checked_name(routing_key, "a routing key")
        codec = self.codec if codec is None else checks.checked_codec(codec)
        waiting = self._work.waiting(codec)
        return Publisher(
            self._publishing,
            self._work,
            Sending(exchange, codec, self.origin, checks.flag(persistent, "persistent"), waiting),
            routing_key,
            mandatory=not exchange if mandatory is None else checks.flag(mandatory, "mandatory"),
            timeout=self._options.timeout,
            interceptors=self._on_publish,
        )

    async def consume(
        self,
        queue: str,
        handler: Handler,
        *,
        codec: Codec | None = None,
        retry: RetryPolicy | None = None,
        prefetch: int | None = None,
        concurrency: int = 1,
        tag: str = "",
        args: Any = None,
        declare: bool = True,
        single_active: bool = False,
        max_deliveries: int = 10,
        spill: bool = True,
        inline: bool = False,
    ) -> Consumer:
        """Hands the messages of a queue to a handler, until closed.

        A handler returns ``accept()``, ``retry()``, ``reject()``, ``park()``, or None for accept;
        an exception means ``retry``. Failed messages are tried again as ``retry`` says, then
        dead-lettered to ``{queue}.dlq``; what cannot be decoded is parked in ``{queue}.parked``.

        :param prefetch: unsettled deliveries at most; the connection's by default
        :param concurrency: handlers that run at once
        :param tag: what the broker calls the consumer; its own choice by default
        :param args: consumer arguments, such as ``x-priority``; ``x-stream-offset`` says where a
            stream is begun, each time that the consumer is attached, after a lost connection too
        :param declare: declare the queues a failed message goes to; else no wait goes to another
        :param single_active: the queue has a single active consumer; checked by an equal declare
        :param max_deliveries: park a message that was delivered so often without an answer; of a
            single active queue only a quorum queue's, and with ``prefetch=1``: its order is kept
        :param spill: waits past half the prefetch go to a queue of the broker
        :param inline: keep a plain function on the event loop (async flavour)
        :raises ConfigurationError: parameters that do not go together
        :raises NotFound: there is no such queue
        :raises DeclarationMismatch: the queue or a failure queue exists with other arguments
        """
        self._open_only()
        return await self._consuming.consume(
            queue,
            handler,
            codec=codec,
            retry=retry,
            prefetch=prefetch,
            concurrency=concurrency,
            tag=tag,
            args=args,
            declare=declare,
            single_active=single_active,
            max_deliveries=max_deliveries,
            spill=spill,
            inline=inline,
        )

    # ------------------------------------------------------------ streams, for event logs

    async def read(
        self,
        stream: str,
        start: Start,
        *,
        prefetch: int = 1000,
        lanes: Sequence[str] | None = None,
    ) -> StreamReader:
        """Reads a stream from a place on, until the reader is closed or its attachment ends.

        :param prefetch: messages at most that wait in memory
        :param lanes: messages of other lanes may be left out by the broker (3.13 and later); some
            come all the same, and those that have no lane
        :raises ConfigurationError: a start, prefetch or lane that cannot be
        :raises NotFound: there is no such stream
        :raises BrokerError: the queue is no stream (406)
        """
        self._open_only()
        return await self._reading.read(stream, start, prefetch, lanes)

    async def ends(self, stream: str) -> StreamEnds:
        """The oldest and the newest message of a stream, exact, without writing.

        No message whose confirm came before the call is past ``tail``.

        :raises NotFound: there is no such stream
        :raises BrokerTimeout: the broker did not tell
        """
        self._open_only()
        return await self._reading.ends(stream)

    # ------------------------------------------------------------ health, stopping

    async def health(self, timeout: Duration = 3.0) -> HealthReport:
        """Asks the broker something within a deadline, and compares what is with what should be.

        The observer gets the same figures as gauges.
        """
        limit = self._work.clock.monotonic() + seconds(timeout, "timeout")
        failure = ""
        self._work.refuse_elsewhere()
        try:
            link = await self._control.connected(limit)
            await link.look_up_exchange("amq.direct", limit)
        except AccessRefused:
            pass  # an answer, too: RabbitMQ 4.3 gives it to who may do nothing with that exchange
        except BrokerError as failed:
            failure = str(failed)
        report = report_of(failure, self._figures())
        tell(report, self._observing)
        return report

    def _figures(self) -> Figures:
        consumers = self.consumers
        return Figures(
            wanted=tuple(consumer.queue for consumer in consumers),
            missing=tuple(consumer.queue for consumer in consumers if not consumer.running),
            stalled=tuple(consumer.queue for consumer in consumers if consumer.stalled),
            stuck=len(self._settler.stuck),
            blocked=self.blocked_reason,
            outstanding=self.outstanding,
            since_confirm=self._publishing.since_confirm(),
            recoveries=self._control.recoveries + self._sending.recoveries,
        )

    async def run(self) -> None:
        """Works until SIGTERM or SIGINT, then drains and closes; a second signal forces.

        :raises ConsumerEnded: a consumer was ended by the broker and could not be brought back
        """
        self._work.refuse_elsewhere()
        await self._stopping.run()

    async def close(self, timeout: Duration = 20.0) -> bool:
        """Stops consumers, waits for running handlers and for confirms, and closes.

        :param timeout: seconds for all of it
        :returns: whether everything ended in time; what did not is left to the broker
        """
        self._work.refuse_elsewhere()
        return await self._stopping.close(timeout)

    async def left(self) -> None:
        """Drops it where its event loop ends before anybody closed it; called by the flavour."""
        await self._stopping.left()

    def forsake(self) -> None:
        """Closes it where nobody can reach it any more; called by the flavour."""
        self._stopping.forsake()

    async def establish(self) -> None:
        """Makes the first link. Called once, by ``connect``."""
        limit = self._work.clock.monotonic() + self._options.connect_timeout
        try:
            await self._control.open(limit, fail_fast=self._options.fail_fast)
        except BaseException:
            self._work.stop()
            raise

    async def __aenter__(self) -> Connection:
        self._open_only()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None or self._work.here():  # else what already goes wrong elsewhere is told
            await self.close()

    # ------------------------------------------------------------ inside

    async def _restore(self, link: Link) -> None:
        failed = await declare_each(link, self._catalogue.plan(), self._deadline())
        self._keeper.declare_later(link, failed)

    def _opened(self, link: Link) -> None:
        self._keeper.link_opened(link)

    def _deadline(self) -> float:
        return self._work.clock.monotonic() + self._options.timeout

    def _open_only(self) -> None:
        self._work.refuse_elsewhere()
        if self.closed:
            raise closed()


async def _nothing(link: Link) -> None:
    """Publishing restores nothing: its channel and confirm mode belong to the link."""
