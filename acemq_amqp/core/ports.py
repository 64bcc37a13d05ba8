"""What a flavour supplies: a clock, work, and a transport.

The core is plain ``async def`` over these protocols and never touches asyncio,
threading or a driver. The async flavour's ports suspend; the blocking flavour's
do their work before they return. A deadline is a moment of ``Clock.monotonic``
(seconds), or None for no limit; there is no other time-out. Callbacks given to a
port are called on the driver's loop or I/O thread: they only enqueue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from acemq_amqp.address import Address
from acemq_amqp.codec import Codec
from acemq_amqp.errors import BrokerError, Stored
from acemq_amqp.properties import Properties
from acemq_amqp.topology import Declaration

T = TypeVar("T")
R = TypeVar("R")
Deadline: TypeAlias = float | None


# ---------------------------------------------------------------- time and work


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """The wall clock: seconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """A clock that never steps, in seconds. Deadlines are moments of it."""

    async def sleep(self, seconds: float) -> None:
        """Waits so many seconds."""


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Forgets the callback, unless it already ran."""


class Queue(Protocol[T]):
    """Items handed from any thread to a worker, in order."""

    def put(self, item: T) -> None:
        """Adds an item. Never waits; any thread, any callback."""

    async def get(self, deadline: Deadline = None) -> T:
        """Takes the oldest item.

        :raises TimeoutError: at the deadline
        """

    def drain(self) -> list[T]:
        """Takes all that is there, without waiting."""

    def __len__(self) -> int: ...


class Event(Protocol):
    """A flag that can be waited for."""

    def is_set(self) -> bool: ...

    def set(self) -> None:
        """Raises the flag. Any thread, any callback."""

    def clear(self) -> None: ...

    async def wait(self, deadline: Deadline = None) -> bool:
        """Waits for the flag; False at the deadline."""


class Task(Protocol):
    """A coroutine that runs beside its caller."""

    def done(self) -> bool: ...

    def cancel(self) -> None:
        """Asks it to end. A thread cannot be asked, and goes on."""

    async def join(self, deadline: Deadline = None) -> bool:
        """Waits until it has ended; False at the deadline. Its error is logged, not raised."""


Call: TypeAlias = Callable[..., Awaitable[Any]]


class WaitingCodec(Protocol):
    """A codec that may have to wait, for a store; its calls as something to await."""

    @property
    def encode(self) -> Call: ...

    @property
    def decode(self) -> Call: ...


class Work(Protocol):
    """How a flavour runs things."""

    @property
    def clock(self) -> Clock: ...

    def lock(self) -> AbstractContextManager[Any]:
        """Guards shared state between threads. Never held over an await."""

    def queue(self) -> Queue[Any]: ...

    def event(self) -> Event: ...

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> Task:
        """Runs a coroutine beside the caller: a task, or a thread that drives it."""

    def later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Calls back after ``delay`` seconds. The callback only enqueues."""

    async def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end whatever happens to the caller."""

    def bind(self, function: Callable[..., Any], *, inline: bool = False) -> Call:
        """A user's function as something the core can await.

        What it raises is an ``Exception``, or the caller's own cancellation.

        :param inline: keep a plain function on the loop (async flavour)
        :raises ConfigurationError: not callable, or a coroutine function in the blocking flavour
        """

    def waiting(self, codec: Codec) -> WaitingCodec | None:
        """How this flavour waits for a codec; None where ``encode`` and ``decode`` are called."""

    async def each(
        self, function: Callable[[T], Coroutine[Any, Any, R]], items: Sequence[T]
    ) -> list[R]:
        """What a function gives for each item, in the items' order; begun in that order too.

        A few run at once where the flavour can. The first failure ends them and is raised.
        """

    def here(self) -> bool:
        """Whether the caller is where the connection lives: its process, its event loop."""

    def refuse_elsewhere(self) -> None:
        """Lets a call in that place through. Cheap: every call of a user asks.

        :raises ConfigurationError: it comes from a forked process or from another event loop
        """

    def signals(self, on_signal: Callable[[], None]) -> AbstractContextManager[None]:
        """Calls back at SIGTERM and SIGINT while the context is open."""

    def stop(self) -> None:
        """Ends what the flavour runs on: timer thread, worker threads."""


# ---------------------------------------------------------------- publishing


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message ready for the wire: checked, encoded, and under an id that never changes."""

    exchange: str
    routing_key: str
    message_id: str
    #: AMQP property flags and fields, as ``Properties.encode`` gives them
    properties: bytes
    body: bytes
    #: set where the caller asked for one: this connection's login, or the broker refuses it
    user_id: str | None = None

    @property
    def size(self) -> int:
        """Bytes that count against the window of unconfirmed messages."""
        return len(self.body) + len(self.properties)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The broker took responsibility. ``routed`` is False where no queue wanted it."""

    routed: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker refused it: nacked (``stored="perhaps"``), or its channel closed for it."""

    reason: str
    code: int = 0
    stored: Stored = "no"


@dataclass(frozen=True, slots=True)
class Unsent:
    """Nothing was handed to the socket, and nothing will be. ``paused``: the broker is blocked."""

    reason: str
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """Bytes were handed to the socket and no confirm came."""

    reason: str


Outcome: TypeAlias = Confirmed | Refused | Unsent | Unknown


class Pending(Protocol):
    """A publish that was handed to a link and has no outcome yet."""

    async def outcome(self, deadline: Deadline) -> Outcome:
        """Waits for the outcome.

        At the deadline a message not yet written is withdrawn for good (:class:`Unsent`);
        one that was written is :class:`Unknown`.
        """


# ---------------------------------------------------------------- consuming


class Settling(Protocol):
    """What a delivery is settled on. Its lifetime is the delivery's epoch."""

    @property
    def live(self) -> bool:
        """False once the channel is gone: every unsettled delivery is then stale."""

    def ack(self, tag: int) -> bool:
        """Acknowledges, together with others that fall due. Any thread; only enqueues.

        :returns: False, and no frame, where the tag is stale or already settled
        """

    def requeue(self, tag: int) -> bool:
        """Gives back with ``basic.nack``; otherwise as :meth:`ack`."""


@dataclass(slots=True, eq=False)
class Arrival:
    """A message as a transport hands it over: body and headers as they came."""

    settling: Settling
    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """What to consume, and how."""

    queue: str
    tag: str
    prefetch: int
    arguments: Mapping[str, Any] = field(default_factory=dict)
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class SubscriptionEvents:
    """Called by the transport; both only enqueue. ``ended`` comes once, not for our own close."""

    arrived: Callable[[Arrival], None]
    #: the broker cancelled the consumer (code 0), or its channel closed (the code)
    ended: Callable[[BrokerError], None]


class Subscription(Settling, Protocol):
    """One consumer on a channel of its own."""

    @property
    def unsettled(self) -> int:
        """Deliveries that came and are not settled yet."""

    async def cancel(self, deadline: Deadline) -> None:
        """Asks for no more deliveries. Those that came can still be settled.

        What was settled before is with the broker when it returns; so it may be asked again.
        """

    async def close(self, deadline: Deadline) -> None:
        """Writes the settlements that wait, then closes the channel, without cancelling first."""


# ---------------------------------------------------------------- connections


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """What the broker said of itself, and as whom we are logged in."""

    product: str
    version: tuple[int, ...]
    login: str


@dataclass(frozen=True, slots=True)
class QueueState:
    """What a passive look-up tells."""

    messages: int
    consumers: int


@dataclass(frozen=True, slots=True)
class LinkEvents:
    """Called by the transport; all only enqueue. ``lost`` comes once, and not for our own close."""

    lost: Callable[[BrokerError], None]
    blocked: Callable[[str], None]
    unblocked: Callable[[], None]


class Link(Protocol):
    """One connection to one broker, from handshake to close.

    Broker calls raise :class:`NotFound`, :class:`AccessRefused`, :class:`DeclarationMismatch`,
    :class:`BrokerTimeout` or :class:`ConnectionLost`; a call that the broker refuses closes a
    side channel and nothing else.
    """

    @property
    def broker(self) -> BrokerInfo: ...

    @property
    def blocked_reason(self) -> str | None:
        """The broker's words while it has paused publishing, else None."""

    def submit(
        self, outgoing: Outgoing, on_outcome: Callable[[Outcome], None] | None = None
    ) -> Pending:
        """Hands a message over for writing in order, mandatory. Any thread; only enqueues.

        :param on_outcome: called once with the outcome, besides :meth:`Pending.outcome`
        """

    async def declare(self, step: Declaration, deadline: Deadline) -> None: ...

    async def look_up_queue(self, name: str, deadline: Deadline) -> QueueState | None: ...

    async def look_up_exchange(self, name: str, deadline: Deadline) -> bool: ...

    async def delete_queue(self, name: str, deadline: Deadline) -> int:
        """Deletes a queue and its messages, whose number it returns."""

    async def purge_queue(self, name: str, deadline: Deadline) -> int: ...

    async def pull(self, queue: str, deadline: Deadline) -> Arrival | None:
        """Gets one message, unsettled, on a channel that settles it."""

    async def subscribe(
        self, request: SubscriptionRequest, events: SubscriptionEvents, deadline: Deadline
    ) -> Subscription: ...

    async def update_secret(self, secret: str, deadline: Deadline) -> None: ...

    async def close(self, deadline: Deadline) -> None:
        """Closes in order, and aborts at the deadline. Pending publishes get their outcome."""

    def abort(self) -> None:
        """Drops the socket at once."""


class Transport(Protocol):
    """Makes links."""

    async def connect(
        self, address: Address, *, name: str, events: LinkEvents, deadline: Deadline
    ) -> Link:
        """Opens one connection.

        :param name: what the broker shows the connection as
        :raises AuthenticationRefused: wrong login or vhost
        :raises CannotConnect: anything else
        """
