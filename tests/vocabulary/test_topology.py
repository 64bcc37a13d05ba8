"""Declarations, exactly as the contract has them, and topologies as values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.retry import exponential_retry, fixed_retry, no_retry
from acemq_amqp.topology import (
    BindingDeclaration,
    ExchangeDeclaration,
    QueueDeclaration,
    StreamRetention,
    Topology,
    failure_topology,
    rung_topology,
    schedule_topology,
)

DLX = ExchangeDeclaration("acemq.dlx", "direct")
RETRY = ExchangeDeclaration("acemq.retry", "direct")
SET_ASIDE = (QueueDeclaration("orders.dlq"), QueueDeclaration("orders.parked"))
SET_ASIDE_BINDINGS = (
    BindingDeclaration("orders.dlq", "acemq.dlx", "orders.dlq"),
    BindingDeclaration("orders.parked", "acemq.dlx", "orders.parked"),
)
BACK = BindingDeclaration("orders", "acemq.retry", "orders")


def rung(label: str, ttl: int) -> QueueDeclaration:
    return QueueDeclaration(
        f"orders.retry.{label}",
        arguments={
            "x-message-ttl": ttl,
            "x-dead-letter-exchange": "acemq.retry",
            "x-dead-letter-routing-key": "orders",
        },
    )


def the_queue(topology: Topology) -> QueueDeclaration:
    return next(each for each in topology.queues if each.name == "orders")


# ---------------------------------------------------------------- the table of section 7


def test_a_source_queue_is_a_durable_quorum_queue() -> None:
    assert Topology().queue("orders").plan() == (
        QueueDeclaration("orders", True, False, False, {"x-queue-type": "quorum"}),
    )


def test_a_source_queue_that_dead_letters() -> None:
    assert Topology().queue("orders", dead_letter=True).plan() == (
        DLX,
        QueueDeclaration(
            "orders",
            arguments={
                "x-queue-type": "quorum",
                "x-dead-letter-exchange": "acemq.dlx",
                "x-dead-letter-routing-key": "orders.dlq",
            },
        ),
        *SET_ASIDE,
        *SET_ASIDE_BINDINGS,
    )


def test_what_is_set_aside_has_durable_classic_queues_without_any_argument() -> None:
    for queue in SET_ASIDE:
        assert (queue.durable, queue.auto_delete, queue.exclusive) == (True, False, False)
        assert dict(queue.arguments) == {}


def test_a_policy_adds_its_rungs() -> None:
    topology = Topology().queue("orders", retry=exponential_retry(5, timedelta(seconds=20)))
    assert topology.plan() == (
        RETRY,
        QueueDeclaration("orders", arguments={"x-queue-type": "quorum"}),
        *(rung("40s", 40_000), rung("80s", 80_000), rung("160s", 160_000)),
        BACK,
    )


def test_the_numbers_of_a_rung_are_integers() -> None:
    (declared,) = rung_topology("orders", 0.5).queues
    assert declared == rung("500ms", 500)
    assert type(declared.arguments["x-message-ttl"]) is int


def test_one_rung_stands_with_its_way_back() -> None:
    assert rung_topology("orders", timedelta(minutes=5)).plan() == (
        *(RETRY, rung("5m", 300_000), BACK),
    )


@pytest.mark.parametrize("policy", [no_retry(), fixed_retry(5, 1)])
def test_a_consumer_without_long_waits_binds_nothing_to_the_retry_exchange(policy: Any) -> None:
    topology = failure_topology("orders", policy)
    assert topology.plan() == (DLX, RETRY, *SET_ASIDE, *SET_ASIDE_BINDINGS)


def test_a_consumer_with_long_waits_declares_all_but_the_source_queue() -> None:
    topology = failure_topology("orders", fixed_retry(5, timedelta(hours=2)))
    assert topology.plan() == (
        *(DLX, RETRY, *SET_ASIDE, rung("2h", 7_200_000), *SET_ASIDE_BINDINGS, BACK),
    )


def test_the_scheduler() -> None:
    topology = schedule_topology()
    assert topology.exchanges == (ExchangeDeclaration("acemq.schedule", "direct"),)
    waits = {"1h": 3_600_000, "10m": 600_000, "1m": 60_000, "10s": 10_000, "1s": 1000}
    assert topology.queues == (
        *(
            QueueDeclaration(
                f"acemq.schedule.{label}",
                arguments={
                    "x-message-ttl": ttl,
                    "x-dead-letter-exchange": "acemq.schedule",
                    "x-dead-letter-routing-key": "acemq.schedule.due",
                },
            )
            for label, ttl in waits.items()
        ),
        QueueDeclaration("acemq.schedule.due"),
    )
    assert topology.bindings == tuple(
        BindingDeclaration(queue.name, "acemq.schedule", queue.name) for queue in topology.queues
    )


@pytest.mark.parametrize(
    ("retention", "limits"),
    [
        (None, {}),
        (StreamRetention(), {}),
        (StreamRetention(max_age=timedelta(days=7)), {"x-max-age": "7D"}),
        (StreamRetention("90m", 10**9, 10**6), {
            "x-max-age": "90m",
            "x-max-length-bytes": 10**9,
            "x-stream-max-segment-size-bytes": 10**6,
        }),
    ],
)  # fmt: skip
def test_a_stream(retention: Any, limits: dict[str, Any]) -> None:
    assert Topology().stream("orders", retention).plan() == (
        QueueDeclaration("orders", arguments={"x-queue-type": "stream", **limits}),
    )


# ---------------------------------------------------------------- quorum or classic


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [
        ({}, {"x-queue-type": "quorum"}),
        ({"quorum": True}, {"x-queue-type": "quorum"}),
        ({"quorum": False}, {}),
        *(({"exclusive": True}, {}), ({"auto_delete": True}, {}), ({"durable": False}, {})),
        ({"exclusive": True, "quorum": False}, {}),
        ({"args": {"x-queue-type": "quorum"}}, {"x-queue-type": "quorum"}),
        ({"args": {"x-queue-type": "classic"}}, {"x-queue-type": "classic"}),
        ({"quorum": False, "args": {"x-queue-type": "classic"}}, {"x-queue-type": "classic"}),
        ({"args": {"x-queue-type": "stream"}}, {"x-queue-type": "stream"}),
        ({"exclusive": True, "args": {"x-queue-type": "classic"}}, {"x-queue-type": "classic"}),
        ({"single_active": True, "quorum": False}, {"x-single-active-consumer": True}),
        ({"args": {"x-max-length": 5}, "quorum": False}, {"x-max-length": 5}),
    ],
)
def test_the_arguments_of_a_queue(asked: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert dict(the_queue(Topology().queue("orders", **asked)).arguments) == arguments


def test_flags_are_kept() -> None:
    queue = the_queue(Topology().queue("orders", durable=False, auto_delete=True, exclusive=True))
    assert (queue.durable, queue.auto_delete, queue.exclusive) == (False, True, True)


@pytest.mark.parametrize(
    "asked",
    [
        *({"quorum": True, "exclusive": True}, {"quorum": True, "auto_delete": True}),
        *({"quorum": True, "durable": False},),
        {"exclusive": True, "args": {"x-queue-type": "quorum"}},
        {"exclusive": True, "args": {"x-queue-type": "stream"}},
        {"durable": False, "args": {"x-queue-type": "stream"}},
        {"quorum": False, "args": {"x-queue-type": "quorum"}},
        {"quorum": True, "args": {"x-queue-type": "classic"}},
        {"dead_letter": True, "args": {"x-dead-letter-exchange": "mine"}},
        {"dead_letter": True, "args": {"x-dead-letter-routing-key": "mine"}},
        {"single_active": True, "args": {"x-single-active-consumer": False}},
        {"args": {5: 5}},
        {"args": [("x-max-length", 5)]},
        {"retry": exponential_retry(30, 60)},
    ],
)
def test_contradictions_are_refused_here(asked: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: ") as refused:
        Topology().queue("orders", **asked)
    assert "rung" in str(refused.value) or "'orders'" in str(refused.value)


@pytest.mark.parametrize("wrong", ["", None, 5, b"orders", "x" * 256, "a\nb"])
def test_names_the_broker_cannot_take_are_refused(wrong: Any) -> None:
    steps: list[Callable[[], Topology]] = [
        *(lambda: Topology().queue(wrong), lambda: Topology().exchange(wrong)),
        *(lambda: Topology().stream(wrong), lambda: Topology().binding(wrong, "orders")),
        *(lambda: Topology().binding("orders", wrong), lambda: failure_topology(wrong, no_retry())),
        *(lambda: rung_topology(wrong, 60), lambda: Topology().exchange("orders", wrong)),
    ]
    for step in steps:
        with pytest.raises(ConfigurationError, match=r"^acemq: "):
            step()


def test_names_that_grow_too_long_are_refused() -> None:
    assert Topology().queue("x" * 255)
    with pytest.raises(ConfigurationError, match="over 255 bytes"):
        Topology().queue("x" * 252, dead_letter=True)
    with pytest.raises(ConfigurationError, match="over 255 bytes"):
        Topology().binding("orders", "events", "k" * 256)


def test_the_brokers_own_queue_names_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"amq\."):
        Topology().queue("amq.mine")
    assert Topology().binding("amq.gen-abc", "amq.topic", "#")


# ---------------------------------------------------------------- as values


def test_a_plan_is_in_the_order_of_declaring() -> None:
    topology = (
        Topology()
        .binding("orders", "events", "order.#")
        .queue("orders", quorum=False)
        .exchange("events")
        .binding("audit", "events", to_exchange=True)
        .binding("orders", "by-header", args={"x-match": "all", "tenant": "acme"})
    )
    assert topology.plan() == (
        ExchangeDeclaration("events", "topic", True, False),
        QueueDeclaration("orders"),
        BindingDeclaration("orders", "events", "order.#"),
        BindingDeclaration("audit", "events", to_exchange=True),
        BindingDeclaration("orders", "by-header", "", {"x-match": "all", "tenant": "acme"}),
    )


def test_an_exchange_as_asked() -> None:
    topology = Topology().exchange(
        "events", "fanout", durable=False, auto_delete=True, args={"alternate-exchange": "lost"}
    )
    assert topology.plan() == (
        ExchangeDeclaration("events", "fanout", False, True, {"alternate-exchange": "lost"}),
    )


def test_steps_leave_the_value_they_start_from() -> None:
    start = Topology().exchange("events")
    start.queue("orders")
    assert start.plan() == (ExchangeDeclaration("events"),)
    with pytest.raises(AttributeError):
        start.queues = ()  # type: ignore[misc]


def test_arguments_cannot_be_changed_behind_it() -> None:
    args = {"x-max-length": 5}
    queue = the_queue(Topology().queue("orders", quorum=False, args=args))
    args["x-max-length"] = 6
    assert queue.arguments["x-max-length"] == 5
    with pytest.raises(TypeError):
        queue.arguments["x-max-length"] = 7  # type: ignore[index]


def test_values_merge_and_twice_alike_is_once() -> None:
    one = Topology().exchange("events").queue("orders").binding("orders", "events", "a")
    two = Topology().queue("orders").queue("audit").binding("orders", "events", "a")
    merged = one + two
    assert [step for step in merged.plan() if step in one.plan()] == list(one.plan())
    assert len(merged.plan()) == 4
    assert merged + merged == merged
    assert hash(merged) == hash(one + two)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (
            Topology().queue("orders"),
            Topology().queue("orders", quorum=False),
            ("'orders'", "quorum"),
        ),
        (
            Topology().exchange("events"),
            Topology().exchange("events", "fanout"),
            ("'events'", "topic", "fanout"),
        ),
        (
            Topology().queue("orders"),
            Topology().stream("orders"),
            ("'orders'", "quorum", "stream"),
        ),
        (
            Topology().queue("orders", quorum=False),
            Topology().queue("orders", durable=False),
            ("durable", "transient"),
        ),
        (
            Topology().queue("orders", dead_letter=True),
            Topology().queue("orders.dlq"),
            ("'orders.dlq'", "quorum"),
        ),
        (
            Topology().queue("orders", quorum=False),
            Topology().queue("orders", exclusive=True, auto_delete=True),
            ("exclusive", "auto-delete"),
        ),
    ],
)
def test_one_name_in_two_ways_is_refused_naming_both(
    one: Topology, other: Topology, told: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: one name .* two ways") as refused:
        one + other
    assert all(part in str(refused.value) for part in told)


def test_a_queue_and_an_exchange_may_share_a_name() -> None:
    assert len(Topology().queue("orders").exchange("orders").plan()) == 2


def test_nothing_is_bound_to_the_default_exchange() -> None:
    with pytest.raises(ConfigurationError, match="default exchange"):
        Topology().binding("orders", "")


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (QueueDeclaration("q"), "queue 'q': durable"),
        (
            QueueDeclaration("q", False, True, True, {"x-max-length": 5}),
            "queue 'q': transient, auto-delete, exclusive, arguments {'x-max-length': 5}",
        ),
        (
            ExchangeDeclaration("e", "direct", True, True),
            "exchange 'e': direct, durable, auto-delete",
        ),
        (BindingDeclaration("q", "e", "k"), "binding of queue 'q' to 'e' on 'k'"),
        (BindingDeclaration("x", "e", to_exchange=True), "binding of exchange 'x' to 'e' on ''"),
    ],
)
def test_a_plan_can_be_read(step: Any, told: str) -> None:
    assert str(step) == told
