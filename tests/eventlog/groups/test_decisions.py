"""Decisions: what an answer means, when reading ends, how far acknowledgements reach."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp import accept, in_progress, park, reject, retry
from acemq_amqp.errors import DecodeError, FatalError
from acemq_amqp.eventlog.attached import Gaps
from acemq_amqp.eventlog.errors import RetentionPassed
from acemq_amqp.eventlog.failing import Again, Dead, Done, killed_readers, verdict_of
from acemq_amqp.eventlog.limits import Idleness, Quota
from acemq_amqp.eventlog.taken import Taken
from tests.eventlog.groups.records import FENCE, message


@pytest.mark.parametrize(
    ("answer", "attempt", "verdict"),
    [
        (None, 1, Done),
        (accept(), 9, Done),
        (ValueError("x"), 1, Again),
        (ValueError("x"), 3, Again),
        (ValueError("x"), 4, Dead),
        (retry("x"), 3, Again),
        (retry("x"), 4, Dead),
        (in_progress(7), 99, Again),
        (reject("x"), 1, Dead),
        (park("x"), 1, Dead),
        (FatalError("x"), 1, Dead),
        (DecodeError("x"), 1, Dead),
        ("done", 1, Dead),
    ],
    ids=str,
)
def test_what_an_answer_means(answer: object, attempt: int, verdict: type) -> None:
    meant = verdict_of(answer, attempt, limit=3, delay=5.0)
    assert type(meant) is verdict
    if isinstance(meant, Again):
        counts = attempt != 99
        assert (meant.counts, meant.delay) == (counts, 5.0 if counts else 7.0)
    if isinstance(meant, Dead):
        assert meant.reason


def test_a_message_that_ends_its_readers_is_given_up_after_the_limit() -> None:
    assert [killed_readers(attempt, 2) is not None for attempt in range(1, 6)] == [
        *(False, False, False, True, True)
    ]
    dead = killed_readers(4, 2)
    assert dead is not None and "3 times" in dead.reason


def test_a_quota_is_a_total_of_what_was_handled() -> None:
    quota = Quota(10, threading.Lock())
    assert (quota.claim(7), quota.claim(7), quota.claim(7)) == (7, 3, 0)
    quota.give_back(3)
    assert not quota.finish(7)
    assert quota.claim(7) == 3
    assert not quota.finish(2)
    assert quota.finish(1)
    assert quota.claim(1) == 0
    assert Quota(None, threading.Lock()).claim(99) == 99


def test_reading_is_idle_once_every_stream_has_been_for_long_enough() -> None:
    idle = Idleness(2, 5.0)
    assert not idle.quiet("a", 0.0)
    assert not idle.quiet("a", 99.0)  # the other is not known to be
    assert not idle.quiet("b", 100.0)
    idle.busy("a")
    assert not idle.quiet("b", 200.0)
    assert not idle.quiet("a", 201.0)
    assert not idle.quiet("b", 205.9)
    assert idle.quiet("b", 206.0)
    assert not Idleness(1, None).quiet("a", 1e9)


def test_a_segments_own_offset_is_no_gap() -> None:
    Gaps("raise").between("g", "s", 10, 11)
    with pytest.raises(RetentionPassed, match="offsets 10 to 11") as told:
        Gaps("raise").between("g", "s", 10, 12)
    assert (told.value.first, told.value.until) == (10, 12)
    skipping = Gaps("skip")
    for first, until in ((10, 11), (10, 15), (20, 22)):
        skipping.between("g", "s", first, until)
    assert skipping.missed == 7


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=12))
def test_a_lane_moves_to_the_first_that_is_not_acknowledged(acks: list[list[int]]) -> None:
    taken = Taken(FENCE, "a", "t", [message(offset) for offset in range(10)])
    acked: set[int] = set()
    for some in acks:
        for offset in range(10):
            assert taken.waits_for(message(offset)) == (offset not in acked)
        some = [offset for offset in some if offset not in acked]
        acked.update(some)
        moved = taken.past(set(some))
        taken.ack(some, len(moved))
        first = next((offset for offset in range(10) if offset not in acked), 10)
        assert [each.offset for each in taken.left] == list(range(first, 10))
        assert all(offset >= first for offset in taken.acked)
    assert not taken.waits_for(message(5, token="another's"))
