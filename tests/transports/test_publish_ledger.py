"""Messages are written in order, and each confirm and return meets the one it is for."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest

from acemq_amqp.core.ports import Confirmed, Outcome, Outgoing, Refused, Unknown, Unsent
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.properties import Properties
from acemq_amqp.transports.wire.frames import publish_frames
from acemq_amqp.transports.wire.publishing import PublishLedger, State
from tests.transports.sender import ALL, Sender
from tests.transports.wire_bytes import outgoing, publishes


@pytest.fixture
def sender() -> Sender:
    return Sender()


# ---------------------------------------------------------------- writing


def test_what_is_submitted_is_written_in_order_and_once(sender: Sender) -> None:
    for name in "abc":
        sender.send(name)
    assert sender.ledger.wanting
    assert sender.write() == ["a", "b", "c"]
    assert not sender.ledger.wanting
    assert sender.write() == []
    assert sender.ledger.unsettled == 3


def test_the_bytes_are_those_of_the_frames(sender: Sender) -> None:
    entry = sender.send("a", body=b"x" * 9000)
    assert sender.ledger.collect(ALL) == publish_frames(1, entry.outgoing, 4096)


def test_a_collection_stops_at_its_limit_and_takes_one_larger_message(sender: Sender) -> None:
    for name in "abc":
        sender.send(name, body=b"x" * 500)
    assert len(publishes(sender.ledger.collect(1))) == 1
    assert len(publishes(sender.ledger.collect(1000))) == 2


def test_states_follow_the_message(sender: Sender) -> None:
    entry = sender.send("a")
    states = [entry.state]
    sender.write()
    states.append(entry.state)
    sender.ledger.acked(1, False)
    states.append(entry.state)
    assert states == [State.QUEUED, State.WRITTEN, State.SETTLED]


def test_properties_that_fit_no_frame_are_refused_before_the_wire(sender: Sender) -> None:
    properties = Properties(content_type="x" * 200, message_id="y" * 200).encode()
    ledger = PublishLedger(1, 256, nullcontext())
    told: list[Outcome] = []
    ledger.submit(Outgoing("", "q", "y", properties, b""), told.append)
    [outcome] = told
    assert isinstance(outcome, Refused)
    assert outcome.stored == "no"
    assert ledger.collect(ALL) == b""
    assert ledger.unsettled == 0


def test_a_key_that_cannot_be_written_is_refused_where_it_is_submitted(sender: Sender) -> None:
    with pytest.raises(ConfigurationError, match="routing key"):
        sender.send("a", key="k" * 256)
    assert sender.ledger.unsettled == 0


# ---------------------------------------------------------------- confirms


def test_an_ack_confirms_its_message_only(sender: Sender) -> None:
    sender.flies("a", "b")
    sender.ledger.acked(2, False)
    assert sender.told == {"a": [], "b": [Confirmed()]}
    assert sender.ledger.unsettled == 1


@pytest.mark.parametrize("tag", [3, 0])
def test_a_multiple_ack_confirms_all_up_to_it(sender: Sender, tag: int) -> None:
    sender.flies("a", "b", "c")
    sender.ledger.acked(2, False)
    sender.ledger.acked(tag, True)
    assert sender.told == {name: [Confirmed()] for name in "abc"}


def test_a_nack_is_a_refusal_that_others_may_have_stored(sender: Sender) -> None:
    sender.flies("a", "b")
    sender.ledger.nacked(2, True)
    for [outcome] in sender.told.values():
        assert isinstance(outcome, Refused)
        assert outcome.stored == "perhaps"


@pytest.mark.parametrize("tag", [2, 99, 2**64 - 1])
@pytest.mark.parametrize("multiple", [False, True])
def test_a_confirm_for_what_was_never_written_does_no_harm(
    sender: Sender, tag: int, multiple: bool
) -> None:
    sender.flies("a")
    sender.ledger.acked(1, False)
    sender.ledger.acked(tag, multiple)
    sender.ledger.nacked(1, False)
    assert sender.told == {"a": [Confirmed()]}
    sender.flies("b")
    sender.ledger.acked(2, False)
    assert sender.told["b"] == [Confirmed()]


def test_a_failing_callback_costs_no_other_its_outcome(
    sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(outcome: Outcome) -> None:
        raise RuntimeError("no")

    sender.ledger.submit(outgoing("x"), fail)
    sender.flies("a")
    sender.ledger.acked(2, True)
    assert sender.told == {"a": [Confirmed()]}
    assert "callback failed" in caplog.text


def test_callbacks_run_outside_the_lock() -> None:
    lock = threading.Lock()
    ledger = PublishLedger(1, 4096, lock)
    free: list[bool] = []

    def look(outcome: Outcome) -> None:
        free.append(lock.acquire(blocking=False))
        lock.release()

    ledger.withdraw(ledger.submit(outgoing("withdrawn"), look), "late")
    for name in ("acked", "closed", "lost"):
        ledger.submit(outgoing(name), look)
    ledger.collect(1)
    ledger.acked(1, False)
    ledger.collect(1)
    ledger.channel_closed(404, "gone")
    ledger.lost("down")
    ledger.submit(outgoing("later"), look)
    assert free == [True] * 5


# ---------------------------------------------------------------- returns


def test_a_return_makes_its_confirm_unrouted(sender: Sender) -> None:
    sender.flies("a", "b")
    sender.ledger.returned("ex", "key", "b", 312, "NO_ROUTE")
    assert sender.told == {"a": [], "b": []}
    sender.ledger.acked(2, True)
    assert sender.told == {"a": [Confirmed()], "b": [Confirmed(False, "312 NO_ROUTE")]}


@pytest.mark.parametrize(
    "target", [("other", "key", "a"), ("ex", "other", "a"), ("ex", "key", "x")]
)
def test_a_return_of_something_else_is_nobodys(
    sender: Sender, target: tuple[str, str, str]
) -> None:
    sender.flies("a")
    sender.ledger.returned(*target, 312, "NO_ROUTE")
    sender.ledger.acked(1, False)
    assert sender.told["a"] == [Confirmed()]


def test_a_message_that_was_returned_and_nacked_is_nowhere(sender: Sender) -> None:
    sender.flies("a")
    sender.ledger.returned("ex", "key", "a", 312, "NO_ROUTE")
    sender.ledger.nacked(1, False)
    [outcome] = sender.told["a"]
    assert isinstance(outcome, Refused)
    assert outcome.stored == "no"


def test_equal_messages_are_never_in_flight_together(sender: Sender) -> None:
    sender.send("first", message_id="same")
    sender.send("second", message_id="same")
    sender.send("other")
    assert sender.write() == ["same"]
    assert not sender.ledger.wanting
    sender.ledger.returned("ex", "key", "same", 312, "NO_ROUTE")
    sender.ledger.acked(1, False)
    assert sender.ledger.wanting
    assert sender.write() == ["same", "other"]
    sender.ledger.acked(3, True)
    assert sender.told == {
        "first": [Confirmed(False, "312 NO_ROUTE")],
        "second": [Confirmed()],
        "other": [Confirmed()],
    }


def test_the_same_id_to_another_key_or_exchange_does_not_wait(sender: Sender) -> None:
    sender.send("1", message_id="same")
    sender.send("2", message_id="same", key="other")
    sender.send("3", message_id="same", exchange="other")
    assert sender.write() == ["same"] * 3


def test_behind_a_twin_that_was_given_up_on_only_its_equal_waits(sender: Sender) -> None:
    first = sender.send("first", message_id="same")
    sender.write()
    sender.ledger.withdraw(first, "no confirm in time")
    sender.send("second", message_id="same")
    sender.send("other")
    assert sender.write() == ["other"]
    sender.ledger.returned("ex", "key", "same", 312, "NO_ROUTE")
    sender.ledger.acked(1, False)
    assert sender.write() == ["same"]
    sender.ledger.acked(3, True)
    assert sender.told["first"] == [Unknown("no confirm in time")]
    assert sender.told["second"] == [Confirmed()]


def test_what_was_set_aside_is_written_in_its_order(sender: Sender) -> None:
    for name in ("x", "y"):
        sender.send(f"first {name}", message_id=name)
    sender.write()
    for name in ("x", "y"):
        sender.ledger.withdraw(sender.entries[f"first {name}"], "late")
        sender.send(f"second {name}", message_id=name)
    assert sender.write() == []
    sender.send("other")
    sender.ledger.acked(2, True)
    assert sender.write() == ["x", "y", "other"]


def test_what_waits_behind_a_twin_can_be_withdrawn(sender: Sender) -> None:
    first = sender.send("first", message_id="same")
    sender.write()
    sender.ledger.withdraw(first, "late")
    second = sender.send("second", message_id="same")
    assert sender.write() == []
    sender.ledger.withdraw(second, "late")
    assert sender.told["second"] == [Unsent("late")]
    sender.ledger.acked(1, False)
    assert sender.write() == []
