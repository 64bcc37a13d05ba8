"""The window of unconfirmed messages: so many places, so many bytes, first come first served.

A message larger than the whole window goes alone, when the window is empty. A
place is taken before a message is handed to a link and given back when its
outcome is known, so memory stays bounded however slow the socket is.
"""

from __future__ import annotations

from collections import deque

from acemq_amqp.core.ports import Deadline, Event, Work


class _Waiter:
    __slots__ = ("admitted", "event", "size")

    def __init__(self, size: int, event: Event) -> None:
        self.size = size
        self.event = event
        self.admitted = False


class Window:
    """Bounds what is in flight.

    :param places: messages at most
    :param capacity: bytes at most
    """

    def __init__(self, work: Work, places: int, capacity: int) -> None:
        self._work = work
        self._lock = work.lock()
        self._places = places
        self._capacity = capacity
        self._waiting: deque[_Waiter] = deque()
        self._bytes = 0
        self._count = 0
        self._emptied: Event | None = None

    @property
    def count(self) -> int:
        """Messages in flight."""
        return self._count

    def try_take(self, size: int) -> bool:
        """Takes a place if one is free and nobody waits."""
        with self._lock:
            if self._waiting or not self._fits(size):
                return False
            self._add(size)
            return True

    async def take(self, size: int, deadline: Deadline) -> bool:
        """Waits for a place; False at the deadline."""
        if self.try_take(size):
            return True
        waiter = _Waiter(size, self._work.event())
        with self._lock:
            self._waiting.append(waiter)
        self._admit()
        try:
            await waiter.event.wait(deadline)
        except BaseException:
            self._leave(waiter)
            if waiter.admitted:
                self.give(size)
            raise
        self._leave(waiter)
        return waiter.admitted

    def give(self, size: int) -> None:
        """Gives a place back."""
        with self._lock:
            self._count -= 1
            self._bytes -= size
        if self._waiting:
            self._admit()
        if self._emptied is not None and not self._count:
            self._emptied.set()

    async def emptied(self, deadline: Deadline) -> bool:
        """Waits until nothing is in flight; False at the deadline."""
        self._emptied = self._work.event()
        return self._count == 0 or await self._emptied.wait(deadline)

    def _fits(self, size: int) -> bool:
        if self._count == 0:
            return True
        return self._count < self._places and self._bytes + size <= self._capacity

    def _add(self, size: int) -> None:
        self._count += 1
        self._bytes += size

    def _admit(self) -> None:
        admitted: list[_Waiter] = []
        with self._lock:
            while self._waiting and self._fits(self._waiting[0].size):
                waiter = self._waiting.popleft()
                waiter.admitted = True
                self._add(waiter.size)
                admitted.append(waiter)
        for waiter in admitted:
            waiter.event.set()

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock:
            if not waiter.admitted:
                self._waiting.remove(waiter)
