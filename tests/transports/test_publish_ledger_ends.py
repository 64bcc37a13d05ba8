"""Messages that are given up on, held back by an alarm, or cut off get the outcome that is true."""

from __future__ import annotations

import pytest

from acemq_amqp.core.ports import Confirmed, Refused, Unknown, Unsent
from tests.transports.sender import ALL, Sender
from tests.transports.wire_bytes import publishes

NOT_FOUND = "NOT_FOUND - no exchange 'gone' in vhost '/'"


@pytest.fixture
def sender() -> Sender:
    return Sender()


# ---------------------------------------------------------------- giving up


def test_what_is_withdrawn_from_the_queue_is_never_written(sender: Sender) -> None:
    sender.send("a")
    entry = sender.send("b")
    sender.ledger.withdraw(entry, "no time left")
    assert sender.told["b"] == [Unsent("no time left", paused=False)]
    assert sender.write() == ["a"]
    assert not sender.ledger.wanting


def test_what_was_written_and_withdrawn_keeps_its_tag(sender: Sender) -> None:
    sender.flies("a", "b")
    sender.ledger.withdraw(sender.entries["a"], "late")
    sender.ledger.acked(1, False)
    sender.ledger.acked(2, False)
    assert sender.told == {"a": [Unknown("late")], "b": [Confirmed()]}


def test_withdrawing_what_has_its_outcome_changes_nothing(sender: Sender) -> None:
    sender.flies("a")
    sender.ledger.acked(1, False)
    sender.ledger.withdraw(sender.entries["a"], "late")
    sender.ledger.withdraw(sender.entries["a"], "late")
    assert sender.told == {"a": [Confirmed()]}
    assert sender.ledger.unsettled == 0


# ---------------------------------------------------------------- alarms


def test_while_paused_nothing_is_written_and_the_brokers_words_are_told(sender: Sender) -> None:
    sender.flies("flying")
    sender.ledger.pause("low on memory")
    entry = sender.send("a")
    sender.send("b")
    assert not sender.ledger.wanting
    assert sender.write() == []
    sender.ledger.withdraw(entry, "late")
    assert sender.told["a"] == [Unsent("low on memory", paused=True)]
    sender.ledger.withdraw(sender.entries["flying"], "late")
    assert sender.told["flying"] == [Unknown("late")]
    sender.ledger.resume()
    assert sender.ledger.wanting
    assert sender.write() == ["b"]


# ---------------------------------------------------------------- ends


def test_a_missing_exchange_is_told_to_its_publisher_and_unknown_to_the_others(
    sender: Sender,
) -> None:
    sender.send("before")
    sender.send("culprit", exchange="gone")
    sender.send("after")
    sender.write()
    sender.send("queued")
    sender.ledger.channel_closed(404, NOT_FOUND)
    assert sender.told["culprit"] == [Refused(NOT_FOUND, 404, "no")]
    for name in ("before", "after"):
        [outcome] = sender.told[name]
        assert isinstance(outcome, Unknown)
        assert NOT_FOUND in outcome.reason
    assert sender.told["queued"] == []


def test_of_several_to_an_exchange_that_went_missing_the_earlier_may_be_stored(
    sender: Sender,
) -> None:
    for name in ("first", "last"):
        sender.send(name, exchange="gone")
    sender.write()
    sender.ledger.channel_closed(404, NOT_FOUND)
    assert sender.told["first"] == [Refused(NOT_FOUND, 404, "perhaps")]
    assert sender.told["last"] == [Refused(NOT_FOUND, 404, "no")]


def test_a_long_exchange_name_is_recognised_in_a_text_that_is_cut(sender: Sender) -> None:
    name = "x" * 250
    sender.send("culprit", exchange=name)
    sender.send("other")
    sender.write()
    text = f"NOT_FOUND - no exchange '{name}' in vhost '/'"[:252] + "..."
    sender.ledger.channel_closed(404, text)
    [outcome] = sender.told["culprit"]
    assert isinstance(outcome, Refused)
    assert isinstance(sender.told["other"][0], Unknown)


@pytest.mark.parametrize(
    "text",
    [
        "PRECONDITION_FAILED - message size 2000 is larger than configured max size 1000",
        "PRECONDITION_FAILED - message size 2000 is larger than max size 1000",
    ],
)
def test_what_is_too_large_is_told_so_and_the_others_unknown(sender: Sender, text: str) -> None:
    sender.send("fits", body=b"x" * 1000)
    for name in ("large", "larger"):
        sender.send(name, body=b"x" * 2000)
    sender.write()
    sender.ledger.channel_closed(406, text)
    assert isinstance(sender.told["fits"][0], Unknown)
    for name in ("large", "larger"):
        assert sender.told[name] == [Refused(text, 406, "no")]


def test_a_forbidden_topic_is_told_to_that_key_only(sender: Sender) -> None:
    text = (
        "ACCESS_REFUSED - write access to topic 'secret' in exchange 'ex' in vhost '/' "
        "refused for user 'guest'"
    )
    sender.send("allowed", key="open")
    sender.send("culprit", key="secret")
    sender.write()
    sender.ledger.channel_closed(403, text)
    assert isinstance(sender.told["allowed"][0], Unknown)
    assert sender.told["culprit"] == [Refused(text, 403, "no")]


def test_the_only_one_in_flight_is_the_culprit_whatever_the_text(sender: Sender) -> None:
    sender.flies("a")
    sender.ledger.channel_closed(406, "PRECONDITION_FAILED - invalid expiration")
    assert sender.told["a"] == [Refused("PRECONDITION_FAILED - invalid expiration", 406, "no")]


def test_a_close_that_no_message_caused_blames_none(sender: Sender) -> None:
    sender.flies("a")
    sender.ledger.channel_closed(200, "retired")
    assert isinstance(sender.told["a"][0], Unknown)


def test_what_is_queued_goes_to_the_next_channel_with_tags_from_one(sender: Sender) -> None:
    sender.flies("a")
    sender.send("b")
    sender.ledger.channel_closed(406, "no reason")
    sender.send("c")
    assert not sender.ledger.wanting
    assert sender.ledger.collect(ALL) == b""
    sender.ledger.reopened(9)
    assert publishes(sender.ledger.collect(ALL)) == [(9, "b"), (9, "c")]
    sender.ledger.acked(1, False)
    assert sender.told["b"] == [Confirmed()]
    assert sender.told["c"] == []


def test_a_multiple_ack_counts_from_one_again_on_the_next_channel(sender: Sender) -> None:
    sender.flies(*"abc")
    sender.ledger.acked(3, True)
    sender.ledger.channel_closed(406, "no reason")
    sender.ledger.reopened(2)
    sender.flies("d", "e")
    sender.ledger.acked(2, True)
    assert sender.told["d"] == sender.told["e"] == [Confirmed()]


def test_what_waited_behind_a_twin_goes_first_on_the_next_channel(sender: Sender) -> None:
    sender.ledger.withdraw(sender.send("first", message_id="same"), "late")
    sender.flies("filler")
    first = sender.send("again", message_id="same")
    sender.write()
    sender.ledger.withdraw(first, "late")
    sender.send("second", message_id="same")
    assert sender.write() == []
    sender.send("other")
    sender.ledger.channel_closed(406, "no reason")
    sender.ledger.reopened(2)
    assert sender.write() == ["same", "other"]


def test_a_lost_connection_leaves_nothing_open(sender: Sender) -> None:
    sender.flies("written")
    sender.send("queued")
    sender.ledger.lost("reset by peer")
    sender.send("later")
    assert sender.told == {
        "written": [Unknown("reset by peer")],
        "queued": [Unsent("reset by peer")],
        "later": [Unsent("reset by peer")],
    }
    assert sender.ledger.unsettled == 0
    assert not sender.ledger.wanting
    assert sender.write() == []


# ---------------------------------------------------------------- leaving a channel for another


def test_a_channel_at_rest_is_written_on_no_more(sender: Sender) -> None:
    sender.flies("a", "b")
    sender.ledger.rest()
    sender.send("c")
    assert sender.write() == []
    assert not sender.ledger.at_rest
    sender.ledger.nacked(1, False)
    sender.ledger.acked(2, False)
    assert sender.ledger.at_rest


def test_a_channel_that_was_left_goes_on_with_what_waits(sender: Sender) -> None:
    sender.flies("a", "late")
    sender.ledger.rest()
    sender.ledger.withdraw(sender.entries["late"], "late")
    sender.send("b")
    sender.ledger.nacked(1, False)
    sender.ledger.left()
    assert not sender.ledger.wanting
    sender.ledger.reopened(2)
    assert sender.write() == ["b"]
    sender.ledger.acked(1, False)
    assert sender.told["late"] == [Unknown("late")]
    assert sender.told["b"] == [Confirmed()]
