"""The window of unconfirmed messages: bounded, fair, and never stuck."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp.core.window import Window
from acemq_amqp.flavours.threads import ThreadWork, drive


def window(places: int = 3, capacity: int = 100) -> Window:
    return Window(ThreadWork(), places, capacity)


def soon() -> float:
    return time.monotonic() + 30.0


def test_it_takes_as_many_messages_as_it_has_places() -> None:
    w = window(places=3)
    assert [w.try_take(1) for _ in range(4)] == [True, True, True, False]
    w.give(1)
    assert (w.try_take(1), w.try_take(1), w.count) == (True, False, 3)


def test_it_takes_as_many_bytes_as_it_may() -> None:
    w = window(capacity=100)
    assert [w.try_take(60), w.try_take(41), w.try_take(40)] == [True, False, True]


def test_one_larger_than_all_goes_alone() -> None:
    w = window(capacity=100)
    assert w.try_take(1)
    assert not w.try_take(1000)
    w.give(1)
    assert w.try_take(1000)
    assert not w.try_take(1)
    w.give(1000)
    assert w.try_take(1)


def test_a_deadline_gives_up_and_leaves_no_trace() -> None:
    w = window(places=1)
    w.try_take(1)
    assert not drive(w.take(1, time.monotonic()))
    w.give(1)
    assert w.try_take(1)
    assert w.count == 1


def test_who_waits_is_served_in_order_and_before_who_comes_later() -> None:
    w = window(places=1, capacity=100)
    w.try_take(1)
    served: list[str] = []
    waiting = [
        _waiter(w, 100, lambda: served.append("large")),
        _waiter(w, 1, lambda: served.append("small")),
    ]
    assert not w.try_take(1)
    w.give(1)
    waiting[0].join(30)
    assert served == ["large"]
    w.give(100)
    waiting[1].join(30)
    assert served == ["large", "small"]


def _waiter(w: Window, size: int, done: Callable[[], Any]) -> threading.Thread:
    def wait() -> None:
        assert drive(w.take(size, soon()))
        done()

    thread = threading.Thread(target=wait, daemon=True)
    before = len(w._waiting)
    thread.start()
    while len(w._waiting) == before:
        time.sleep(0.001)
    return thread


def test_emptied_waits_for_the_last() -> None:
    w = window()
    assert drive(w.emptied(soon()))
    w.try_take(1)
    assert not drive(w.emptied(time.monotonic()))
    giving = threading.Timer(0.01, w.give, (1,))
    giving.start()
    assert drive(w.emptied(soon()))
    giving.join()


@pytest.mark.parametrize("threads", [2, 8])
def test_from_many_threads_it_is_never_exceeded_and_ends_empty(threads: int) -> None:
    w = window(places=3, capacity=50)
    over: list[int] = []

    def work(size: int) -> None:
        for _ in range(200):
            assert drive(w.take(size, soon()))
            if w.count > 3:
                over.append(w.count)
            w.give(size)

    workers = [threading.Thread(target=work, args=(7 * n + 1,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert (over, w.count) == ([], 0)
    assert w.try_take(50)


@given(st.lists(st.integers(0, 120)), st.integers(1, 5), st.integers(1, 100))
def test_whatever_comes_it_is_bounded_unless_one_is_alone(
    sizes: list[int], places: int, capacity: int
) -> None:
    w = window(places, capacity)
    inside: list[int] = []
    for size in sizes:
        if w.try_take(size):
            inside.append(size)
        elif inside:
            w.give(inside.pop(0))
        assert w.count == len(inside) <= places
        assert len(inside) <= 1 or sum(inside) <= capacity
