"""Every message gets its own outcome, once, whatever the broker and the callers do."""

from __future__ import annotations

import threading
from contextlib import nullcontext

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pamqp.body import ContentBody

from acemq_amqp.core.ports import Confirmed, Outcome, Refused, Unknown, Unsent
from acemq_amqp.transports.wire.publishing import Entry, PublishLedger
from tests.transports.sender import ALL
from tests.transports.wire_bytes import frames_of, outgoing, publishes


class LedgerAgainstBroker(RuleBasedStateMachine):
    """A broker that knows which message each tag is, and what it did with it."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = PublishLedger(1, 4096, nullcontext())
        self.messages: list[Entry] = []
        self.told: list[list[Outcome]] = []
        self.expected: dict[int, str] = {}
        self.last_tag = 0
        self.unconfirmed: dict[int, int] = {}
        self.returned: set[int] = set()
        self.channel_open = True
        self.paused = False
        self.written: set[int] = set()

    def _expect(self, number: int, outcome: str) -> None:
        self.expected.setdefault(number, outcome)

    @rule(name=st.sampled_from("abcd"), key=st.sampled_from("kl"))
    def submit(self, name: str, key: str) -> None:
        number = len(self.messages)
        self.told.append([])
        message = outgoing(name, key=key, body=str(number).encode())
        self.messages.append(self.ledger.submit(message, self.told[number].append))

    @rule(limit=st.sampled_from([1, 200, ALL]))
    def collect(self, limit: int) -> None:
        frames = frames_of(self.ledger.collect(limit))
        numbers = [int(frame.value) for _, frame in frames if isinstance(frame, ContentBody)]
        assert not numbers or (self.channel_open and not self.paused)
        for number in numbers:
            assert number not in self.written, "written twice"
            assert number not in self.expected, "written after its outcome"
            flying = {self.messages[other].twin for other in self.unconfirmed.values()}
            assert self.messages[number].twin not in flying, "two equal ones in flight"
            self.last_tag += 1
            self.unconfirmed[self.last_tag] = number
            self.written.add(number)

    @precondition(lambda self: self.unconfirmed)
    @rule(data=st.data(), multiple=st.booleans(), outcome=st.sampled_from(["acked", "nacked"]))
    def confirm(self, data: st.DataObject, multiple: bool, outcome: str) -> None:
        tag = data.draw(st.sampled_from(sorted(self.unconfirmed)))
        done = [t for t in self.unconfirmed if t == tag or (multiple and t < tag)]
        for number in map(self.unconfirmed.pop, done):
            self._expect(number, outcome + (" returned" if number in self.returned else ""))
        getattr(self.ledger, outcome)(tag, multiple)

    @precondition(lambda self: self.unconfirmed)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.unconfirmed.values())))
        self.returned.add(number)
        self.ledger.returned(*self.messages[number].twin, 312, "NO_ROUTE")

    @rule(tag=st.integers(0, 50), multiple=st.booleans())
    def confirm_nonsense(self, tag: int, multiple: bool) -> None:
        known = [t for t in self.unconfirmed if t == tag or (multiple and (t < tag or tag == 0))]
        if not known:
            self.ledger.acked(tag, multiple)

    @precondition(lambda self: self.messages)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.messages) - 1))
        unsent = "unsent paused" if self.paused else "unsent"
        self._expect(number, "unknown" if number in self.written else unsent)
        self.ledger.withdraw(self.messages[number], "late")

    @rule()
    def pause(self) -> None:
        self.paused = True
        self.ledger.pause("low on memory")

    @rule()
    def resume(self) -> None:
        self.paused = False
        self.ledger.resume()

    @precondition(lambda self: self.channel_open)
    @rule()
    def close_channel(self) -> None:
        for number in self.unconfirmed.values():
            self._expect(number, "unknown")
        self.unconfirmed.clear()
        self.channel_open, self.last_tag = False, 0
        self.ledger.channel_closed(541, "INTERNAL_ERROR")

    @precondition(lambda self: not self.channel_open)
    @rule()
    def reopen(self) -> None:
        self.channel_open = True
        self.ledger.reopened(2)

    @invariant()
    def every_outcome_is_right_and_told_once(self) -> None:
        for number, told in enumerate(self.told):
            expected = [self.expected[number]] if number in self.expected else []
            assert [_named(outcome) for outcome in told] == expected

    @invariant()
    def the_count_of_open_messages_is_right(self) -> None:
        assert self.ledger.unsettled == len(self.messages) - len(self.expected)

    @invariant()
    def nothing_is_forgotten(self) -> None:
        waiting = len(self.messages) - len(self.expected.keys() | self.written)
        if self.channel_open and not self.paused and not self.unconfirmed:
            assert self.ledger.wanting == (waiting > 0)

    def teardown(self) -> None:
        for number in range(len(self.messages)):
            self._expect(number, "unknown" if number in self.written else "unsent")
        self.ledger.lost("down")
        self.every_outcome_is_right_and_told_once()
        assert self.ledger.unsettled == 0


def _named(outcome: Outcome) -> str:
    match outcome:
        case Confirmed(routed=routed):
            return "acked" if routed else "acked returned"
        case Refused(stored=stored):
            return "nacked" if stored == "perhaps" else "nacked returned"
        case Unsent(paused=paused):
            return "unsent paused" if paused else "unsent"
        case Unknown():
            return "unknown"


TestLedgerAgainstBroker = LedgerAgainstBroker.TestCase
TestLedgerAgainstBroker.settings = settings(max_examples=150)


def test_many_threads_each_get_their_outcomes() -> None:
    ledger = PublishLedger(1, 4096, threading.Lock())
    told: list[Outcome] = []

    def send(worker: int) -> None:
        for number in range(300):
            ledger.submit(outgoing(f"{worker}-{number}"), told.append)

    threads = [threading.Thread(target=send, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    written = 0
    while written < 1200:
        written += len(publishes(ledger.collect(10_000)))
        ledger.acked(written, True)
    for thread in threads:
        thread.join()
    assert told == [Confirmed()] * 1200
    assert ledger.unsettled == 0
