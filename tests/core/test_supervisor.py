"""A connection that comes back: who gets which link, and when nobody gets one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from acemq_amqp.address import Address, parse_address
from acemq_amqp.core.ports import BrokerInfo, LinkEvents
from acemq_amqp.core.supervisor import LinkState, Supervisor, backoff
from acemq_amqp.errors import AuthenticationRefused, CannotConnect, ConnectionLost, UnknownHost
from acemq_amqp.flavours.tasks import TaskWork
from tests.contract.waiting import until

LOST = ConnectionLost("acemq: the connection was lost", code=320)


class ScriptedLink:
    """A link that is lost when the test says so."""

    broker = BrokerInfo("Scripted", (1,), "guest")

    def __init__(self, events: LinkEvents) -> None:
        self.events = events
        self.closed = False

    def lose(self) -> None:
        self.events.lost(LOST)

    async def close(self, deadline: float | None) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class ScriptedTransport:
    """Gives links, or raises what is in its script first.

    :ivar links: every link that was made
    """

    def __init__(self) -> None:
        self.script: list[Exception] = []
        self.addresses: list[str] = []
        self.links: list[ScriptedLink] = []
        #: called with each new link before it is given
        self.made: Callable[[ScriptedLink], None] = lambda link: None

    async def connect(
        self, address: Address, *, name: str, events: LinkEvents, deadline: float | None
    ) -> Any:
        self.addresses.append(address.host)
        if self.script:
            raise self.script.pop(0)
        link = ScriptedLink(events)
        self.links.append(link)
        self.made(link)
        return link


class Stage:
    """A supervisor over a scripted transport."""

    def __init__(self) -> None:
        self.work = TaskWork()
        self.transport = ScriptedTransport()
        self.restored: list[Any] = []
        self.opened: list[Any] = []
        self.restoring: Callable[[Any], None] = lambda link: None
        addresses = [parse_address(f"amqp://{host}") for host in ("one", "two")]
        self.supervisor = Supervisor(
            self.work,
            self.transport,
            addresses,
            name="testing",
            restore=self._restore,
            opened=self.opened.append,
        )

    async def _restore(self, link: Any) -> None:
        self.restored.append(link)
        self.restoring(link)

    async def connected(self, within: float = 10.0) -> Any:
        return await self.supervisor.connected(time.monotonic() + within)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    await stage.supervisor.close(time.monotonic() + 1.0)
    stage.work.stop()


async def test_a_link_that_was_lost_is_given_to_nobody_from_that_moment_on(stage: Stage) -> None:
    first = await stage.connected()
    first.lose()
    assert stage.supervisor.link is None
    second = await stage.connected()
    assert second is not first
    assert stage.restored == [first, second]
    assert stage.supervisor.recoveries == 1


async def test_a_link_that_is_lost_while_it_is_restored_is_given_to_nobody(stage: Stage) -> None:
    def lose_the_first(link: Any) -> None:
        if link is stage.transport.links[0]:
            link.lose()

    stage.restoring = lose_the_first
    assert await stage.connected() is stage.transport.links[1]
    assert stage.opened == [stage.transport.links[1]]


async def test_a_loss_of_an_earlier_link_changes_nothing(stage: Stage) -> None:
    first = await stage.connected()
    first.lose()
    second = await stage.connected()
    first.lose()
    assert await stage.connected() is second
    assert len(stage.transport.links) == 2


async def test_what_cannot_be_restored_does_not_stop_it(stage: Stage) -> None:
    def fail(link: Any) -> None:
        raise RuntimeError("of any kind")

    stage.restoring = fail
    assert await stage.connected() is stage.transport.links[0]


async def test_an_error_that_is_none_of_ours_is_tried_again(stage: Stage) -> None:
    first = await stage.connected()
    stage.transport.script = [RuntimeError("a driver's fault"), CannotConnect("acemq: no")]
    first.lose()
    assert await stage.connected() is stage.transport.links[1]
    assert stage.transport.addresses == ["one", "two", "one", "two"]


async def test_a_wait_ends_at_its_deadline_and_says_why(stage: Stage) -> None:
    first = await stage.connected()
    stage.transport.script = [CannotConnect("acemq: nothing listens there")] * 100
    first.lose()
    with pytest.raises(ConnectionLost, match=r"testing connection .* nothing listens there"):
        await stage.connected(within=0.5)
    assert stage.supervisor.state is LinkState.LOST


async def test_a_close_ends_every_wait(stage: Stage) -> None:
    first = await stage.connected()
    stage.transport.script = [CannotConnect("acemq: nothing listens there")] * 100
    first.lose()
    waits = [asyncio.ensure_future(stage.connected(1000.0)) for _ in range(3)]
    await asyncio.sleep(0)
    await stage.supervisor.close(time.monotonic() + 1.0)
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectionLost] * 3
    assert all("is closed" in str(outcome) for outcome in outcomes)


async def test_a_first_login_that_is_refused_is_told_at_once(stage: Stage) -> None:
    stage.transport.script = [AuthenticationRefused("acemq: wrong password", code=403)]
    with pytest.raises(AuthenticationRefused, match="wrong password"):
        await stage.connected()
    assert await stage.connected() is stage.transport.links[0]  # asked anew, it is tried anew


async def test_hosts_that_nobody_knows_are_told_at_once(stage: Stage) -> None:
    unknown = [UnknownHost(f"acemq: no name service knows {host}") for host in ("one", "two")]
    stage.transport.script = [*unknown, *[CannotConnect("acemq: too late")] * 100]
    with pytest.raises(UnknownHost, match="knows two"):
        await stage.supervisor.open(time.monotonic() + 60.0, fail_fast=False)
    assert stage.transport.addresses == ["one", "two"]


async def test_a_host_that_nobody_knows_beside_one_that_is_down_is_tried_again(
    stage: Stage,
) -> None:
    stage.transport.script = [UnknownHost("acemq: no such host"), CannotConnect("acemq: down")]
    await stage.supervisor.open(time.monotonic() + 60.0, fail_fast=False)
    assert stage.transport.addresses == ["one", "two", "one"]


async def test_names_that_are_unknown_for_a_while_do_not_end_a_connection(stage: Stage) -> None:
    first = await stage.connected()
    stage.transport.script = [UnknownHost("acemq: no such host")] * 3
    first.lose()
    assert await stage.connected() is stage.transport.links[1]


async def test_a_close_after_a_loss_waits_for_what_the_lost_link_clears_away(stage: Stage) -> None:
    first = await stage.connected()
    stage.transport.script = [CannotConnect("acemq: nothing listens there")] * 100
    first.lose()
    await stage.supervisor.close(time.monotonic() + 1.0)
    assert first.closed


async def test_a_later_login_that_is_refused_is_tried_again(stage: Stage) -> None:
    first = await stage.connected()
    stage.transport.script = [AuthenticationRefused("acemq: expired", code=403)] * 2
    first.lose()
    assert await stage.connected() is stage.transport.links[1]


async def test_a_broker_that_ends_each_connection_at_once_is_not_pestered(stage: Stage) -> None:
    def lose_soon(link: ScriptedLink) -> None:
        asyncio.get_running_loop().call_soon(link.lose)

    stage.transport.made = lose_soon
    began = time.monotonic()
    stage.supervisor._start()
    await until(lambda: len(stage.transport.links) == 6, "six links")
    assert time.monotonic() - began > 0.05 + 0.1 + 0.2 + 0.2


@pytest.mark.parametrize(
    ("attempt", "least", "most"), [(0, 0.05, 0.1), (3, 0.4, 0.8), (6, 2.5, 5.0), (99, 2.5, 5.0)]
)
def test_backoff_doubles_to_a_ceiling_with_jitter(attempt: int, least: float, most: float) -> None:
    assert backoff(attempt, lambda: 0.0) == pytest.approx(least)
    assert backoff(attempt, lambda: 1.0) == pytest.approx(most)
