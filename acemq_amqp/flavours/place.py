"""Where a connection may be used: in the process that opened it, and an async one on its own loop.

A fork copies sockets and not the threads that serve them, and a task of another loop would wait for
a wake-up that never comes. Both fail late and strangely; so every call of a user looks first. The
look is a comparison: forks are counted as they happen, and nobody asks the system.
"""

from __future__ import annotations

import asyncio
import os

from acemq_amqp.errors import ConfigurationError


class _Forks:
    """How many forks lie between this process and the one that imported the toolkit."""

    seen = 0

    @classmethod
    def count(cls) -> None:
        cls.seen += 1


if hasattr(os, "register_at_fork"):  # Windows cannot fork
    os.register_at_fork(after_in_child=_Forks.count)


class ProcessPlace:
    """The process it was made in."""

    __slots__ = ("_forks", "_pid")

    def __init__(self) -> None:
        self._forks = _Forks.seen
        self._pid = os.getpid()

    def same_process(self) -> bool:
        """Whether no fork lies between."""
        return self._forks == _Forks.seen

    def here(self) -> bool:
        """Whether the caller is in that place."""
        return self.same_process()

    def refuse_elsewhere(self) -> None:
        """Lets callers in that place through.

        :raises ConfigurationError: the caller is elsewhere
        """
        if self._forks != _Forks.seen:
            raise self.forked()

    def forked(self) -> ConfigurationError:
        """What a forked process is told."""
        return ConfigurationError(
            f"acemq: this connection was opened in process {self._pid}, from which this one "
            f"({os.getpid()}) was forked; two processes cannot share it. Open a connection of its "
            "own in each process, after the fork"
        )


class LoopPlace(ProcessPlace):
    """The running event loop, in this process."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop

    def here(self) -> bool:
        return self._forks == _Forks.seen and asyncio._get_running_loop() is self._loop

    def refuse_elsewhere(self) -> None:
        if self._forks != _Forks.seen:
            raise self.forked()
        if asyncio._get_running_loop() is not self._loop:
            raise ConfigurationError(
                "acemq: this connection was opened on another event loop, and works on that one "
                "alone. Open one on the loop that uses it, or hand the call over with "
                "asyncio.run_coroutine_threadsafe"
            )
