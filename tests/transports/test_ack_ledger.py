"""Each delivery is settled once, with few frames, and never on behalf of another."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pamqp.commands import Basic

from acemq_amqp.transports.wire.acks import AckLedger
from tests.transports.wire_bytes import frames_of


def _ledger(deliveries: int, lock: Any = None) -> AckLedger:
    ledger = AckLedger(1, lock or nullcontext())
    for tag in range(1, deliveries + 1):
        ledger.delivered(tag)
    return ledger


def _written(ledger: AckLedger) -> list[str]:
    """The frames that fell due, as words: ``ack 3 multiple``."""
    words = []
    for channel, frame in frames_of(ledger.collect()):
        assert channel == ledger.channel
        name = "ack" if isinstance(frame, Basic.Ack) else "requeue"
        assert name == "ack" or frame.requeue
        words.append(f"{name} {frame.delivery_tag}{' multiple' if frame.multiple else ''}")
    return words


@pytest.mark.parametrize(
    ("acks", "requeues", "frames"),
    [
        ([1], [], ["ack 1"]),
        ([1, 2, 3], [], ["ack 3 multiple"]),
        ([3, 1, 2], [], ["ack 3 multiple"]),
        ([2, 3], [], ["ack 2", "ack 3"]),
        ([1, 2, 4], [], ["ack 2 multiple", "ack 4"]),
        ([1, 2, 4, 5], [], ["ack 2 multiple", "ack 4", "ack 5"]),
        ([], [2, 1], ["requeue 1", "requeue 2"]),
        ([1, 3], [2], ["requeue 2", "ack 3 multiple"]),
        ([1], [2], ["requeue 2", "ack 1"]),
        ([3], [1, 2], ["requeue 1", "requeue 2", "ack 3"]),
        ([1, 2, 3, 4, 5], [], ["ack 5 multiple"]),
    ],
)
def test_of_five_deliveries_the_settled_ones_are_written(
    acks: list[int], requeues: list[int], frames: list[str]
) -> None:
    ledger = _ledger(5)
    assert all([ledger.ack(tag) for tag in acks])
    assert all([ledger.requeue(tag) for tag in requeues])
    assert ledger.wanting
    assert _written(ledger) == frames
    assert not ledger.wanting
    assert ledger.unsettled == 5 - len(acks) - len(requeues)


def test_a_run_starts_where_the_last_one_ended() -> None:
    ledger = _ledger(5)
    ledger.ack(2)
    assert _written(ledger) == ["ack 2"]
    ledger.ack(1)
    ledger.ack(3)
    assert _written(ledger) == ["ack 3 multiple"]
    ledger.ack(5)
    ledger.ack(4)
    assert _written(ledger) == ["ack 5 multiple"]
    assert ledger.collect() == b""


@pytest.mark.parametrize("first", ["ack", "requeue"])
@pytest.mark.parametrize("second", ["ack", "requeue"])
def test_a_second_settlement_is_no_frame(first: str, second: str) -> None:
    ledger = _ledger(2)
    assert getattr(ledger, first)(2)
    assert not getattr(ledger, second)(2)
    assert _written(ledger) == [f"{first} 2"]
    assert not getattr(ledger, second)(2)
    assert _written(ledger) == []


@pytest.mark.parametrize("tag", [0, 3, -1, 2**64])
def test_a_foreign_tag_is_no_frame(tag: int) -> None:
    ledger = _ledger(2)
    assert not ledger.ack(tag)
    assert not ledger.requeue(tag)
    assert not ledger.wanting


def test_after_the_channel_is_gone_everything_is_stale() -> None:
    ledger = _ledger(3)
    ledger.ack(1)
    assert ledger.live
    ledger.close()
    assert not ledger.live
    assert not ledger.ack(2)
    assert not ledger.requeue(3)
    ledger.delivered(4)
    assert not ledger.ack(4)
    assert (ledger.wanting, ledger.unsettled, ledger.collect()) == (False, 0, b"")


class LedgerAgainstChannel(RuleBasedStateMachine):
    """A channel as the broker keeps it: it closes on a tag that it does not hold."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = AckLedger(1, nullcontext())
        self.last = 0
        self.held: set[int] = set()
        self.acked: set[int] = set()
        self.requeued: set[int] = set()
        self.unacked: list[int] = []

    @rule(count=st.integers(1, 5))
    def deliver(self, count: int) -> None:
        for _ in range(count):
            self.last += 1
            self.held.add(self.last)
            self.unacked.append(self.last)
            self.ledger.delivered(self.last)

    @precondition(lambda self: self.last)
    @rule(data=st.data(), ack=st.booleans())
    def settle(self, data: st.DataObject, ack: bool) -> None:
        tag = data.draw(st.integers(0, self.last + 1))
        fresh = tag in self.held
        assert (self.ledger.ack(tag) if ack else self.ledger.requeue(tag)) is fresh
        if fresh:
            self.held.discard(tag)
            (self.acked if ack else self.requeued).add(tag)

    @precondition(lambda self: self.held)
    @rule()
    def ack_the_oldest(self) -> None:
        for tag in sorted(self.held)[:3]:
            assert self.ledger.ack(tag)
            self.held.discard(tag)
            self.acked.add(tag)

    @rule()
    def collect(self) -> None:
        for _, frame in frames_of(self.ledger.collect()):
            tag = frame.delivery_tag
            assert tag in self.unacked, "the broker would close the channel"
            gone = [t for t in self.unacked if t == tag or (frame.multiple and t < tag)]
            allowed = self.acked if isinstance(frame, Basic.Ack) else self.requeued
            assert allowed.issuperset(gone), "settled on behalf of another"
            self.unacked = [t for t in self.unacked if t not in gone]
        assert set(self.unacked) == self.held, "something that fell due was not written"

    @invariant()
    def the_count_is_right(self) -> None:
        assert self.ledger.unsettled == len(self.held)


TestLedgerAgainstChannel = LedgerAgainstChannel.TestCase
TestLedgerAgainstChannel.settings = settings(max_examples=150)


def test_of_many_threads_that_settle_one_delivery_one_succeeds() -> None:
    ledger = _ledger(500, threading.Lock())
    settled: list[int] = []

    def settle() -> None:
        settled.extend(tag for tag in range(1, 501) if ledger.ack(tag))

    threads = [threading.Thread(target=settle) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(settled) == list(range(1, 501))
    assert _written(ledger) == ["ack 500 multiple"]
