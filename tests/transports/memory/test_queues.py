"""Order, limits and expiry of queues."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp.core.ports import Confirmed, Refused
from acemq_amqp.errors import NotFound
from acemq_amqp.transports.memory import MemoryBroker, TestClock
from tests.transports.memory.harness import Client, bodies, drive

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def fill(client: Client, queue: str, *texts: str, **options: Any) -> None:
    for text in texts:
        assert client.publish(queue, text, **options) == Confirmed()


# ---------------------------------------------------------------- order


def test_first_in_first_out(client: Client) -> None:
    client.queue("q")
    fill(client, "q", "1", "2", "3")
    assert [client.take("q") for _ in range(4)] == ["1", "2", "3", None]


def test_what_is_given_back_takes_its_old_place(client: Client, broker: MemoryBroker) -> None:
    client.queue("q")
    fill(client, "q", *"01234")
    pulled = [client.pull("q") for _ in range(4)]
    for index in (2, 0, 3):
        arrival = pulled[index]
        assert arrival is not None and not arrival.redelivered
        assert arrival.settling.requeue(arrival.tag)
    assert bodies(broker, "q") == ["0", "2", "3", "4"]
    assert [m.redelivered for m in broker.messages("q")] == [True, True, True, False]


def test_a_tag_is_settled_once(client: Client) -> None:
    client.queue("q")
    fill(client, "q", "1")
    arrival = client.pull("q")
    assert arrival is not None
    assert not arrival.settling.ack(arrival.tag + 1)
    assert arrival.settling.ack(arrival.tag)
    assert not arrival.settling.ack(arrival.tag)
    assert not arrival.settling.requeue(arrival.tag)


def test_looking_at_a_queue(client: Client, broker: MemoryBroker) -> None:
    client.queue("q")
    fill(client, "q", "1", "2")
    client.pull("q")
    assert (broker.queue_depth("q"), broker.unsettled("q")) == (1, 1)
    state = drive(client.link.look_up_queue("q", None))
    assert state is not None and (state.messages, state.consumers) == (1, 0)
    assert drive(client.link.look_up_queue("other", None)) is None
    assert drive(client.link.purge_queue("q", None)) == 1
    assert broker.queue_depth("q") == 0 and broker.unsettled("q") == 1
    with pytest.raises(NotFound, match="other"):
        broker.queue_depth("other")


# ---------------------------------------------------------------- priorities


def test_higher_priorities_first(client: Client, broker: MemoryBroker) -> None:
    client.queue("q", {"x-max-priority": 5})
    for text, priority in (("low", None), ("mid", 3), ("top", 5), ("beyond", 9), ("mid2", 3)):
        client.publish("q", text, priority=priority)
    assert bodies(broker, "q") == ["top", "beyond", "mid", "mid2", "low"]
    arrival = client.pull("q")
    assert arrival is not None and arrival.body == b"top"
    arrival.settling.requeue(arrival.tag)
    assert [client.take("q") for _ in range(5)] == ["top", "beyond", "mid", "mid2", "low"]


def test_priorities_mean_nothing_without_the_argument(client: Client) -> None:
    client.queue("q")
    client.publish("q", "1", priority=1)
    client.publish("q", "9", priority=9)
    assert client.take("q") == "1"


# ---------------------------------------------------------------- limits


def test_the_head_makes_room(client: Client, broker: MemoryBroker) -> None:
    client.queue("dead")
    client.queue("q", {"x-max-length": 2, **DEAD})
    fill(client, "q", "1", "2", "3", "4")
    assert bodies(broker, "q") == ["3", "4"]
    assert bodies(broker, "dead") == ["1", "2"]


def test_the_head_is_the_highest_priority(client: Client, broker: MemoryBroker) -> None:
    client.queue("dead")
    client.queue("q", {"x-max-length": 2, "x-max-priority": 5, **DEAD})
    for text, priority in (("a", 0), ("b", 5), ("c", 1), ("d", 9)):
        client.publish("q", text, priority=priority)
    assert bodies(broker, "q") == ["c", "a"]
    assert bodies(broker, "dead") == ["b", "d"]


def test_bytes_count_bodies(client: Client, broker: MemoryBroker) -> None:
    client.queue("q", {"x-max-length-bytes": 10})
    fill(client, "q", "aaaa", "bbbb", "cc", headers={"long": "x" * 100})
    assert bodies(broker, "q") == ["aaaa", "bbbb", "cc"]
    fill(client, "q", "d")
    assert bodies(broker, "q") == ["bbbb", "cc", "d"]


@pytest.mark.parametrize("limit", [{"x-max-length": 2}, {"x-max-length-bytes": 2}])
def test_a_full_queue_may_refuse(
    client: Client, broker: MemoryBroker, limit: dict[str, Any]
) -> None:
    client.queue("q", {"x-overflow": "reject-publish", **limit})
    fill(client, "q", "1", "2")
    outcome = client.publish("q", "3")
    assert isinstance(outcome, Refused) and outcome.stored == "perhaps" and outcome.code == 0
    assert bodies(broker, "q") == ["1", "2"]
    assert client.take("q") == "1"
    fill(client, "q", "3")
    assert bodies(broker, "q") == ["2", "3"]


def test_what_is_refused_may_be_dead_lettered(client: Client, broker: MemoryBroker) -> None:
    client.queue("dead")
    client.queue("q", {"x-overflow": "reject-publish-dlx", "x-max-length": 1, **DEAD})
    fill(client, "q", "1")
    assert isinstance(client.publish("q", "2"), Refused)
    assert bodies(broker, "q") == ["1"]
    assert bodies(broker, "dead") == ["2"]


def test_one_full_queue_makes_the_outcome_and_the_others_store(
    client: Client, broker: MemoryBroker
) -> None:
    client.queue("full", {"x-overflow": "reject-publish", "x-max-length": 0})
    client.queue("free")
    for queue in ("full", "free"):
        client.bind(queue, "amq.fanout")
    outcome = client.publish("", "m", exchange="amq.fanout")
    assert isinstance(outcome, Refused) and outcome.stored == "perhaps"
    assert bodies(broker, "free") == ["m"]


def test_unsettled_messages_do_not_count(client: Client, broker: MemoryBroker) -> None:
    client.queue("q", {"x-max-length": 1})
    consuming = client.consume("q", prefetch=2)
    fill(client, "q", "1", "2", "3", "4")
    assert consuming.bodies == ["1", "2"]
    assert bodies(broker, "q") == ["4"]
    consuming.requeue(0)
    assert consuming.bodies == ["1", "2", "4"], "what came back was the head, and one too many"


# ---------------------------------------------------------------- expiry


@pytest.mark.parametrize(
    ("arguments", "expiration", "lives"),
    [
        ({"x-message-ttl": 1000}, None, 1.0),
        ({}, "1500", 1.5),
        ({"x-message-ttl": 1000}, "400", 0.4),
        ({"x-message-ttl": 1000}, "4000", 1.0),
        ({"x-message-ttl": 1000, "x-queue-type": "quorum"}, None, 1.0),
    ],
)
def test_messages_expire(
    client: Client,
    broker: MemoryBroker,
    clock: TestClock,
    arguments: dict[str, Any],
    expiration: str | None,
    lives: float,
) -> None:
    client.queue("dead")
    client.queue("q", {**arguments, **DEAD})
    client.publish("q", "m", expiration=expiration)
    clock.advance(lives - 0.001)
    assert bodies(broker, "q") == ["m"]
    clock.advance(0.001)
    assert bodies(broker, "q") == [] and bodies(broker, "dead") == ["m"]


def test_only_the_head_expires(client: Client, broker: MemoryBroker, clock: TestClock) -> None:
    client.queue("q")
    client.publish("q", "long", expiration="60000")
    client.publish("q", "short", expiration="50")
    clock.advance(1)
    assert bodies(broker, "q") == ["long", "short"]
    arrival = client.pull("q")
    assert arrival is not None and arrival.body == b"long"
    assert bodies(broker, "q") == []


def test_what_is_delivered_does_not_expire_until_it_is_back(
    client: Client, broker: MemoryBroker, clock: TestClock
) -> None:
    client.queue("q", {"x-message-ttl": 1000})
    client.publish("q", "m")
    arrival = client.pull("q")
    assert arrival is not None
    clock.advance(5)
    assert broker.unsettled("q") == 1
    arrival.settling.requeue(arrival.tag)
    assert bodies(broker, "q") == [] and broker.unsettled("q") == 0


def test_no_time_to_live_reaches_only_who_waits(client: Client, broker: MemoryBroker) -> None:
    client.queue("q", {"x-message-ttl": 0})
    client.publish("q", "nobody")
    assert bodies(broker, "q") == []
    consuming = client.consume("q", prefetch=1)
    client.publish("q", "somebody")
    client.publish("q", "busy")
    assert consuming.bodies == ["somebody"]
    assert bodies(broker, "q") == []


def test_later_expiries_are_kept_although_earlier_ones_came_to_nothing(
    client: Client, broker: MemoryBroker, clock: TestClock
) -> None:
    client.queue("q", {"x-message-ttl": 1000})
    client.publish("q", "1")
    clock.advance(0.5)
    client.publish("q", "2")
    assert client.take("q") == "1"
    clock.advance(0.5)
    assert bodies(broker, "q") == ["2"]
    clock.advance(0.5)
    assert bodies(broker, "q") == []


def test_a_wait_behind_a_wait_begins_when_the_first_ended(
    client: Client, broker: MemoryBroker, clock: TestClock
) -> None:
    client.queue("end")
    client.queue(
        "second",
        {"x-message-ttl": 10_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "end"},
    )
    client.queue(
        "first",
        {
            "x-message-ttl": 10_000,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "second",
        },
    )
    client.publish("first", "m")
    clock.advance(25)
    assert bodies(broker, "end") == ["m"]
    deaths = broker.messages("end")[0].properties.headers.get("x-death")
    assert [(d["queue"], (d["time"].timestamp() - 1_700_000_000)) for d in deaths] == [
        ("second", 20),
        ("first", 10),
    ]


def test_of_two_waits_the_shorter_ends_first_whichever_began_first(
    client: Client, clock: TestClock
) -> None:
    client.queue("end")
    onward = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "end"}
    client.queue("long", {"x-message-ttl": 10_000, **onward})
    client.queue("short", {"x-message-ttl": 1000, **onward})
    consuming = client.consume("end")
    client.publish("long", "long")
    client.publish("short", "short")
    clock.advance(1)
    assert consuming.bodies == ["short"]
    clock.advance(9)
    assert consuming.bodies == ["short", "long"]


# ---------------------------------------------------------------- queues that go


def test_a_queue_that_nobody_uses_goes(
    client: Client, broker: MemoryBroker, clock: TestClock
) -> None:
    client.queue("q", {"x-expires": 1000})
    clock.advance(0.9)
    client.queue("q", {"x-expires": 1000})
    clock.advance(0.9)
    client.publish("q", "publishing is no use")
    client.pull("q")
    clock.advance(0.9)
    consuming = client.consume("q")
    clock.advance(10)
    assert broker.queues() == ("q",)
    consuming.cancel()
    clock.advance(0.999)
    assert broker.queues() == ("q",)
    clock.advance(0.001)
    assert broker.queues() == ()


def test_an_auto_delete_queue_goes_with_its_last_consumer(
    client: Client, broker: MemoryBroker
) -> None:
    client.queue("q", auto_delete=True)
    first, second = client.consume("q"), client.consume("q")
    first.close()
    assert broker.queues() == ("q",)
    second.cancel()
    assert broker.queues() == ()
    assert not second.ended, "it left by itself"


def test_deleting_a_queue_cancels_its_consumers(client: Client, broker: MemoryBroker) -> None:
    client.queue("q")
    fill(client, "q", "1", "2")
    consuming = client.consume("q", prefetch=1)
    assert drive(client.link.delete_queue("q", None)) == 1
    assert drive(client.link.delete_queue("q", None)) == 0
    (error,) = consuming.ended
    assert error.code == 0 and "'q'" in str(error)
    assert not consuming.subscription.live
    assert not consuming.ack()
