"""What was declared: what leads to a queue, what replaces what, and how it is compared."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp import Topology
from acemq_amqp.core.catalogue import Catalogue, differences
from acemq_amqp.errors import ConnectionLost
from acemq_amqp.flavours.threads import ThreadWork


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue(ThreadWork())


def test_a_queue_is_planned_with_all_that_leads_to_it_and_nothing_else(
    catalogue: Catalogue,
) -> None:
    leading = (
        Topology()
        .exchange("outer")
        .exchange("inner")
        .queue("orders")
        .binding("orders", "inner", "order.#")
        .binding("inner", "outer", "#", to_exchange=True)
        .binding("outer", "inner", "back", to_exchange=True)
    )
    beside = Topology().exchange("beside").queue("other").binding("other", "outer", "#")
    catalogue.remember(leading + beside)
    assert set(catalogue.plan_for("orders")) == set(leading.plan())
    assert catalogue.plan_for("nowhere") == ()


def test_what_the_broker_took_in_another_way_replaces_what_was_there(catalogue: Catalogue) -> None:
    kept = Topology().exchange("events").queue("kept").binding("kept", "events", "a")
    catalogue.remember(kept + Topology().queue("orders").binding("orders", "events", "a"))
    anew = Topology().queue("orders", auto_delete=True).binding("orders", "events", "b")
    catalogue.remember(anew)
    assert set(catalogue.plan()) == set((kept + anew).plan())
    catalogue.remember(anew)
    assert set(catalogue.plan()) == set((kept + anew).plan())


async def test_a_connection_lost_while_comparing_is_no_difference() -> None:
    class Losing:
        async def look_up_queue(self, name: str, deadline: float | None) -> Any:
            return object()

        async def declare(self, step: Any, deadline: float | None) -> None:
            raise ConnectionLost("acemq: the connection was lost")

    link: Any = Losing()
    with pytest.raises(ConnectionLost):
        await differences(link, Topology().queue("orders"), None)
