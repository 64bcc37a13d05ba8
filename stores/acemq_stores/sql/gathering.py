"""Calls that go to the database together: those that come while others are under way.

A store that is asked once for every message would otherwise cost a statement, a commit and a change
of threads for each. With one caller nothing waits for anything; with sixteen, most go sixteen at a
time. A call is answered by itself; where the database fails, all that went together are told so.
"""

from __future__ import annotations

import logging
import threading
from asyncio import AbstractEventLoop, CancelledError, Future, Task, get_running_loop
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from acemq_amqp.flavours.workers import WorkerThreads
from acemq_amqp.patterns.waiting import on_a_loop

log = logging.getLogger("acemq_stores")

T = TypeVar("T")
R = TypeVar("R")

#: calls that go together
_MOST: Final = 100


class Gathering(Generic[T, R]):
    """Calls of one kind. One lot is under way at a time, for each event loop and for all threads.

    :param threads: where the work is done for an event loop
    :param work: answers many calls at once, in their order
    :param unwanted: undoes calls that were answered when their callers had been cancelled; those
        that had not begun by then are left out. Without it all are carried out, and stand
    """

    def __init__(
        self,
        threads: WorkerThreads,
        work: Callable[[list[T]], list[R]],
        unwanted: Callable[[list[tuple[T, R]]], None] | None = None,
    ) -> None:
        self._threads = threads
        self._work = work
        self._unwanted = unwanted
        self._by_threads = _ByThreads(work)
        self._by_tasks: _ByTasks[T, R] | None = None

    async def ask(self, call: T) -> R:
        """The answer to one call, from whichever lot it went with."""
        if not on_a_loop():
            return self._by_threads.ask(call)
        loop = get_running_loop()
        here = self._by_tasks
        if here is None or here.loop is not loop:
            here = self._by_tasks = _ByTasks(loop, self._threads, self._work, self._unwanted)
        return await here.ask(call)


class _ByTasks(Generic[T, R]):
    """On an event loop a task of its own takes one lot after the other to a thread."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        threads: WorkerThreads,
        work: Callable[[list[T]], list[R]],
        unwanted: Callable[[list[tuple[T, R]]], None] | None,
    ) -> None:
        self.loop = loop
        self._threads = threads
        self._work = work
        self._unwanted = unwanted
        self._waiting: list[tuple[T, Future[R]]] = []
        #: answers whose callers were cancelled
        self._left: list[tuple[T, R]] = []
        self._taking: Task[None] | None = None

    async def ask(self, call: T) -> R:
        told: Future[R] = self.loop.create_future()
        self._waiting.append((call, told))
        self._begin()
        try:
            return await told
        except CancelledError:
            if told.done() and not told.cancelled() and told.exception() is None:
                self._left.append((call, told.result()))
                self._begin()
            raise

    def _begin(self) -> None:
        if self._taking is None:
            self._taking = self.loop.create_task(self._take())

    async def _take(self) -> None:
        try:
            while self._waiting or self._left:
                lot, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                if self._unwanted is not None:
                    lot = [each for each in lot if not each[1].done()]
                if lot:
                    await self._answer(lot)
                await self._undo()
        finally:
            self._taking = None
            for _, told in self._waiting:  # none, unless the loop or the store is being closed
                told.cancel()

    async def _answer(self, lot: list[tuple[T, Future[R]]]) -> None:
        try:
            answers: list[R] = await self._threads.run(self._work, [call for call, _ in lot])
        except Exception as failure:
            for _, told in lot:
                if not told.done():  # its caller was cancelled
                    told.set_exception(failure)
            return
        except CancelledError:
            for _, told in lot:
                told.cancel()
            raise
        for (call, told), answer in zip(lot, answers, strict=True):
            if not told.done():
                told.set_result(answer)
            else:
                self._left.append((call, answer))

    async def _undo(self) -> None:
        left, self._left = self._left, []
        if left and self._unwanted is not None:
            try:
                await self._threads.run(self._unwanted, left)
            except Exception as failure:
                log.warning("acemq: what nobody waits for any more was not undone: %s", failure)


class _Call(Generic[T]):
    """A thread's call. Its lock is held until it is answered, or leads the next lot."""

    __slots__ = ("answer", "asked", "failure", "leads", "turn")

    def __init__(self, asked: T) -> None:
        self.asked = asked
        self.turn = threading.Lock()
        self.turn.acquire()
        self.leads = False
        self.answer: Any = None
        self.failure: BaseException | None = None


class _ByThreads(Generic[T, R]):
    """Of the threads that ask, one works for all, and hands that over after one lot."""

    def __init__(self, work: Callable[[list[T]], list[R]]) -> None:
        self._work = work
        self._guard = threading.Lock()
        self._waiting: list[_Call[T]] = []
        self._led = False

    def ask(self, asked: T) -> R:
        call = _Call(asked)
        with self._guard:
            self._waiting.append(call)
            call.leads, self._led = not self._led, True
        if not call.leads:
            call.turn.acquire()
        if call.leads:
            self._lead()
        if call.failure is not None:
            raise call.failure
        answer: R = call.answer
        return answer

    def _lead(self) -> None:
        with self._guard:
            lot, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
        try:
            self._answer(lot)
        finally:
            with self._guard:
                self._led = bool(self._waiting)
                if self._led:
                    self._waiting[0].leads = True
                    self._waiting[0].turn.release()
            for call in lot:
                call.turn.release()

    def _answer(self, lot: list[_Call[T]]) -> None:
        try:
            answers = self._work([call.asked for call in lot])
        except BaseException as failure:  # the leader, who is of the lot, raises it as well
            for call in lot:
                call.failure = failure
            return
        for call, answer in zip(lot, answers, strict=True):
            call.answer = answer
