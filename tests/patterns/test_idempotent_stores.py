"""Idempotent consumer: the sorts of stores it works with, and what it does when they fail."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest

from acemq_amqp import ConfigurationError, Envelope, Message, StoreError, retry
from acemq_amqp.ack import AckKind
from acemq_amqp.patterns import Claim, IdempotencyStore, InMemoryIdempotencyStore, idempotent
from acemq_amqp.patterns.waiting import driven
from tests.contract.seen import Seen


def message(id_: str = "id-1") -> Message:
    return Message(None, Envelope(id=id_))


class Unreachable(InMemoryIdempotencyStore):
    """Fails at one step."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step

    async def claim(self, key: str, holder: str = "") -> Claim:
        self._fail("claim")
        return await super().claim(key, holder)

    async def confirm(self, key: str, holder: str = "", result: bytes | None = None) -> bool:
        self._fail("confirm")
        return await super().confirm(key, holder, result)

    async def forget(self, key: str, holder: str = "") -> None:
        self._fail("forget")
        await super().forget(key, holder)

    def _fail(self, step: str) -> None:
        if step == self.step:
            raise StoreError("acemq: gone")


@pytest.mark.parametrize(("step", "runs"), [("claim", 0), ("confirm", 1)])
def test_a_store_that_cannot_be_reached_puts_back_and_counts_no_attempt(
    wrapped: Any, step: str, runs: int, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    assert wrapped(Unreachable(step), seen)(message()).kind is AckKind.IN_PROGRESS
    assert len(seen.messages) == runs
    assert "is put back" in caplog.text


def test_a_claim_that_cannot_be_given_up_leaves_the_answer(wrapped: Any) -> None:
    assert wrapped(Unreachable("forget"), lambda message: retry("x"))(message()) == retry("x")


class TwoMethods:
    """The least that a store can be."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    async def first_time(self, key: str) -> bool:
        if key in self.keys:
            return False
        self.keys.add(key)
        return True

    async def forget(self, key: str) -> None:
        self.keys.discard(key)


def test_a_store_with_two_methods_will_do(wrapped: Any) -> None:
    store, seen = TwoMethods(), Seen()
    assert isinstance(store, IdempotencyStore)
    handle = wrapped(store, seen)
    assert [handle(message()).kind for _ in range(2)] == [AckKind.ACCEPT] * 2
    assert len(seen.messages) == 1
    wrapped(store, lambda message: retry("x"))(message("id-2"))
    assert store.keys == {"id-1"}


class Plain:
    """A store whose methods are plain functions, and may block; fenced or not."""

    def __init__(self, *names: str) -> None:
        self.threads: set[int] = set()
        self._kept = InMemoryIdempotencyStore()
        for name in names:
            setattr(self, name, functools.partial(self._call, name))

    def _call(self, name: str, *arguments: Any) -> Any:
        self.threads.add(threading.get_ident())
        return driven(getattr(self._kept, name)(*arguments))


@pytest.mark.parametrize(
    "names", [("first_time",), ("claim", "confirm", "renew", "result")], ids=["least", "leases"]
)
def test_a_store_of_plain_functions_will_do_and_holds_up_no_loop(
    wrapped: Any, names: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    store, seen = Plain(*names, "forget"), Seen()
    if "claim" in names:
        # a user's own store, to which the lease is added for this case only
        store.claim_timeout = 300.0  # type: ignore[attr-defined]
    handle = wrapped(store, seen)
    assert [handle(message()).kind for _ in range(2)] == [AckKind.ACCEPT] * 2
    assert len(seen.messages) == 1
    wrapped(store, lambda message: retry("x"))(message("id-2"))
    assert handle(message("id-2")).kind is AckKind.ACCEPT
    assert len(seen.messages) == 2
    here = threading.get_ident() in store.threads
    assert here is (request.node.callspec.params["wrapped"] == "plain")


class Suspending(TwoMethods):
    """Works on an event loop only."""

    async def first_time(self, key: str) -> bool:
        await asyncio.sleep(0)
        return await super().first_time(key)


async def test_a_store_that_suspends_wants_coroutines() -> None:
    async def handler(message: Message) -> None:
        pass

    assert (await idempotent(Suspending(), handler)(message())).kind is AckKind.ACCEPT


def test_a_store_that_suspends_beside_a_plain_handler_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handle = idempotent(Suspending(), Seen())
    with pytest.raises(ConfigurationError, match="wants 'async def' handlers"):
        handle(message())
