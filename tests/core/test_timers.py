"""The timer thread: there while something is due, and gone when nothing is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from acemq_amqp.flavours.timers import TimerThread
from tests.support.eventually import eventually


@pytest.fixture
def timers() -> Iterator[TimerThread]:
    timers = TimerThread()
    yield timers
    timers.stop()
    assert not running()


def running() -> int:
    return sum(thread.name == "acemq-timers" for thread in threading.enumerate())


def test_it_ends_when_nothing_is_due_and_starts_with_the_next(timers: TimerThread) -> None:
    for _ in range(2):
        called = threading.Event()
        timers.later(0.0, called.set)
        assert called.wait(30)
        eventually(lambda: not running(), "the end of the thread")


def test_what_is_due_earlier_comes_earlier(timers: TimerThread) -> None:
    called: list[str] = []
    all_called = threading.Event()

    def calling(name: str) -> Callable[[], None]:
        return lambda: called.append(name)

    timers.later(0.2, all_called.set)
    timers.later(0.1, calling("second"))
    timers.later(0.0, calling("first"))
    timers.later(0.05, calling("never")).cancel()
    assert running() == 1
    assert all_called.wait(30)
    assert called == ["first", "second"]


def test_a_callback_that_fails_harms_no_other(timers: TimerThread) -> None:
    called = threading.Event()
    timers.later(0.0, lambda: 1 / 0)  # type: ignore[arg-type]
    timers.later(0.01, called.set)
    assert called.wait(30)


def test_after_a_stop_nothing_is_called(timers: TimerThread) -> None:
    called = threading.Event()
    timers.later(60.0, called.set)
    timers.stop()
    timers.later(0.0, called.set)
    assert not running()
    assert not called.is_set()
