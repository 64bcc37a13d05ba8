"""What a case must not leave behind: tasks, threads, errors that nobody saw."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.contract.threads import CALLER
from tests.contract.waiting import until

#: Threads in which an event loop looks up names; they end with the loop.
_LOOP_S_OWN = "asyncio_"


class Complaints(logging.Handler):
    """Collects what goes wrong out of sight: an event loop's complaints, logged tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and "the observer raised" not in record.getMessage():
            self.heard.append(self.format(record))

    def of_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.heard.append(f"{context.get('message')}: {context.get('exception')!r}")


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Fails where anything is left when the context ends."""
    loop = asyncio.get_running_loop()
    complaints = Complaints()
    loop.set_exception_handler(complaints.of_loop)
    log = logging.getLogger("acemq_amqp")
    log.addHandler(complaints)
    threads, tasks = set(threading.enumerate()), asyncio.all_tasks()
    try:
        yield
    finally:
        log.removeHandler(complaints)
    try:
        await until(lambda: not left(threads, tasks), "nothing left", 10.0)
    except AssertionError:
        raise AssertionError(f"left behind: {left(threads, tasks)}") from None
    assert not complaints.heard, complaints.heard


def left(threads: set[threading.Thread], tasks: set[asyncio.Task[Any]]) -> list[str]:
    """The names of threads and tasks that were not there before."""
    new = [thread.name for thread in set(threading.enumerate()) - threads]
    running = asyncio.all_tasks() - tasks - {asyncio.current_task()}
    ours = [name for name in new if name != CALLER and not name.startswith(_LOOP_S_OWN)]
    return ours + [repr(task) for task in running]
