"""The login is asked of its source each time; whatever the source does, the connection lives on."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from acemq_amqp import (
    CannotConnect,
    ConfigurationError,
    Connection,
    Credentials,
    Security,
    blocking,
    connect,
)
from acemq_amqp.core.login import Logins
from acemq_amqp.core.renewal import renewal_wait
from acemq_amqp.core.supervisor import backoff
from acemq_amqp.flavours.tasks import TaskWork
from acemq_amqp.flavours.threads import ThreadWork, drive
from acemq_amqp.transports.memory import MemoryBroker, forget_memory_broker, memory_broker
from acemq_amqp.transports.memory.link import MemoryLink
from tests.contract.flavours import FLAVOURS, Flavour
from tests.contract.leftovers import nothing_left
from tests.contract.waiting import until

Open = Callable[..., Any]


@pytest.fixture(params=list(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> Flavour:
    return FLAVOURS[request.param]


@pytest.fixture
def broker(names: Callable[[str], str]) -> Iterator[MemoryBroker]:
    name = names("broker")
    yield memory_broker(name)
    forget_memory_broker(name)


@pytest.fixture
async def opening(flavour: Flavour, broker: MemoryBroker) -> AsyncIterator[Open]:
    """Opens connections that log in with what a source gives."""

    async def opened(source: Any, **options: Any) -> Connection:
        security = Security(credentials=source)
        mq = await flavour.connect(f"memory://{broker.name}", security=security, **options)
        stack.push_async_callback(mq.close, 5.0)
        return mq

    async with nothing_left(), AsyncExitStack() as stack:
        yield opened


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What links were given as new secrets."""
    given: list[str] = []

    async def update_secret(link: MemoryLink, secret: str, deadline: float | None) -> None:
        given.append(secret)

    monkeypatch.setattr(MemoryLink, "update_secret", update_secret)
    return given


class Source:
    """Gives what it is told to; an error is raised. Counts."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self) -> Credentials:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        given: Credentials = answer() if callable(answer) else answer
        return given


def expiring(seconds: float, password: str = "p") -> Callable[[], Credentials]:
    return lambda: Credentials("ann", password, datetime.now(UTC) + timedelta(seconds=seconds))


ANN = Credentials("ann", "p")

# ---------------------------------------------------------------- at each connection


async def test_the_source_is_asked_at_every_attempt(opening: Open, broker: MemoryBroker) -> None:
    source = Source(ANN)
    mq = await opening(source)
    assert source.asked == 1
    broker.kill_connections("moving house")
    await until(lambda: source.asked == 2, "another login")
    assert not await mq.queue_exists("none")


async def test_the_connection_is_as_whom_the_source_says(
    opening: Open, flavour: Flavour, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins: list[str] = []
    made = MemoryLink.__init__

    def init(link: MemoryLink, *given: Any) -> None:
        made(link, *given)
        logins.append(link.broker.login)

    monkeypatch.setattr(MemoryLink, "__init__", init)
    await opening(Source(Credentials("bob", "p")))
    assert logins == ["bob"]


async def test_a_source_may_be_a_coroutine_function() -> None:
    asked: list[int] = []

    async def source() -> Credentials:
        asked.append(1)
        return ANN

    async with connect("memory://coroutine-source", security=Security(credentials=source)):
        assert asked == [1]
    forget_memory_broker("coroutine-source")
    with pytest.raises(ConfigurationError, match="coroutine function"):
        blocking.connect("memory://coroutine-source", security=Security(credentials=source))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ConfigurationError("acemq: AMQP_USERNAME is not set"), "AMQP_USERNAME"),
        (lambda: ("ann", "p"), "gave a tuple; it has to return Credentials"),
        (lambda: None, "gave a NoneType"),
    ],
)
async def test_a_source_that_never_can_is_told_at_once(
    opening: Open, answer: Any, said: str
) -> None:
    source = Source(answer)
    with pytest.raises(ConfigurationError, match=said):
        await opening(source)
    assert source.asked == 1


async def test_a_source_that_fails_is_asked_again(opening: Open) -> None:
    source = Source(OSError("vault is sealed"), OSError("vault is sealed"), ANN)
    await opening(source)
    assert source.asked == 3


async def test_a_source_that_goes_on_failing_is_named(opening: Open) -> None:
    with pytest.raises(CannotConnect, match=r"OSError: vault is sealed"):
        await opening(Source(OSError("vault is sealed")), fail_fast=True)


@pytest.mark.parametrize("trouble", [ConfigurationError("acemq: unreadable"), OSError("sealed")])
async def test_no_failure_of_a_source_ends_a_connection_that_was_up(
    opening: Open, broker: MemoryBroker, trouble: Exception
) -> None:
    source = Source(ANN, trouble, trouble, trouble, ANN)
    mq = await opening(source)
    broker.kill_connections("moving house")
    await until(lambda: source.asked >= 5, "a login after failures")
    assert not await mq.queue_exists("none")


def test_a_source_that_hangs_costs_one_attempt_and_is_not_asked_beside_itself() -> None:
    hanging, asked = threading.Event(), queue.SimpleQueue[int]()

    def source() -> Credentials:
        asked.put(1)
        hanging.wait(30)
        return ANN

    logins = Logins(ThreadWork(), source)
    for _ in range(2):
        with pytest.raises(CannotConnect, match="did not answer in time"):
            drive(logins.read(time.monotonic() + 0.02))
    hanging.set()
    assert drive(logins.read(time.monotonic() + 30)) == ANN
    assert asked.qsize() == 1


async def test_a_coroutine_that_hangs_is_cancelled_and_asked_again() -> None:
    ended: list[str] = []

    async def source() -> Credentials:
        if ended:
            return ANN
        try:
            await work.clock.sleep(30)
        finally:
            ended.append("cancelled")
        return ANN

    work = TaskWork()
    logins = Logins(work, source)
    with pytest.raises(CannotConnect, match="did not answer in time"):
        await logins.read(time.monotonic() + 0.02)
    await until(lambda: ended, "its end")
    assert await logins.read(time.monotonic() + 30) == ANN


# ---------------------------------------------------------------- before it expires


@pytest.mark.parametrize(
    ("remaining", "fruitless", "wait"),
    [
        (3600, 0, 2880),
        (3600, 1, 720),
        (10, 0, 8),
        (10, 3, 2),
        (1, 4, 1.6),
        (0, 0, 0.1),
        (-86_400, 0, 0.1),
        (-86_400, 20, 5),
    ],
)
def test_when_the_next_secret_is_asked_for(remaining: float, fruitless: int, wait: float) -> None:
    assert renewal_wait(remaining, fruitless, lambda n: backoff(n, lambda: 1.0)) == wait


async def test_a_secret_is_renewed_on_the_open_connection(
    opening: Open, broker: MemoryBroker, secrets: list[str]
) -> None:
    source = Source(expiring(0.5, "first"), expiring(0.5, "second"), expiring(3600, "third"))
    await opening(source)
    await until(lambda: secrets == ["second", "third"], "two renewals")
    assert source.asked == 3
    assert len(broker.connections()) == 1


async def test_a_secret_that_does_not_expire_is_not_renewed(
    opening: Open, secrets: list[str]
) -> None:
    source = Source(expiring(0.5, "first"), Credentials("ann", "for ever"))
    await opening(source)
    await until(lambda: secrets == ["for ever"], "a renewal")
    assert source.asked == 2


async def test_a_renewal_that_fails_is_tried_again(
    opening: Open, secrets: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    sealed = OSError("vault is sealed")
    await opening(Source(expiring(1, "first"), sealed, sealed, expiring(3600, "second")))
    await until(lambda: secrets == ["second"], "a renewal")
    told = [each for each in caplog.messages if "could not be renewed" in each]
    assert len(told) == 2 and "vault is sealed" in told[0]


async def test_the_same_secret_again_is_not_sent(opening: Open, secrets: list[str]) -> None:
    cached = expiring(1, "first")()
    source = Source(cached, cached, cached, expiring(3600, "second"))
    await opening(source)
    await until(lambda: secrets, "a renewal")
    assert secrets == ["second"]


async def test_each_open_connection_has_its_secret_renewed(
    opening: Open, secrets: list[str], broker: MemoryBroker
) -> None:
    first, second = expiring(0.7, "first"), expiring(3600, "second")
    source = Source(first, first, second)
    mq = await opening(source)
    await mq.publisher("", "none", mandatory=False).send(1)  # opens the publishing connection
    await until(lambda: secrets == ["second", "second"], "both renewals")
    assert len(broker.connections()) == 2


async def test_another_user_waits_for_the_next_connection(
    opening: Open, secrets: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    await opening(Source(expiring(0.5), Credentials("bob", "q")))
    await until(lambda: "another user name" in caplog.text, "a word about it")
    assert secrets == []
    assert "'q'" not in caplog.text


async def test_a_lost_connection_is_no_longer_renewed(
    opening: Open, broker: MemoryBroker, secrets: list[str]
) -> None:
    source = Source(expiring(2, "first"), Credentials("ann", "second"), expiring(3600, "third"))
    mq = await opening(source)
    broker.kill_connections("moving house")
    await until(lambda: source.asked == 2, "another login")
    assert not await mq.queue_exists("none")
    await mq.close()
    assert secrets == []
