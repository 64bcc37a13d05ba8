"""A watch on the event loop: work that holds it costs the connection its heartbeats.

A thread asks the loop for a sign of life. When none comes for half a heartbeat, it
looks at what the loop's thread is doing and names the handler in one warning, while
there is still time to see the connection go.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from types import CodeType, FrameType

log = logging.getLogger("acemq_amqp")


class LoopWatch:
    """Warns when the loop stands still.

    :param limit: seconds without a sign of life before the warning
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: float) -> None:
        self._loop = loop
        self._limit = limit
        self._loop_thread = threading.get_ident()
        self._names: dict[CodeType, str] = {}
        self._alive = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acemq-loop-watch", daemon=True)
        self._thread.start()

    def knows(self, code: CodeType, name: str) -> None:
        """Remembers a handler, so that it can be named."""
        self._names[code] = name

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped.set()
        self._alive.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._limit / 2):
            self._alive.clear()
            try:
                self._loop.call_soon_threadsafe(self._alive.set)
            except RuntimeError:
                return  # the loop is closed
            if not self._alive.wait(self._limit):
                self._warn()
                self._alive.wait()

    def _warn(self) -> None:
        held = self._name_of(sys._current_frames().get(self._loop_thread))
        log.warning(
            "acemq: %s has held the event loop for %.1f s, half a heartbeat: no heartbeat goes "
            "out meanwhile and the broker will close the connection. Make it a plain def handler, "
            "which runs in a worker thread, or await what it waits for",
            held,
            self._limit,
        )

    def _name_of(self, frame: FrameType | None) -> str:
        innermost = frame
        while frame is not None:
            if frame.f_code in self._names:
                return f"the handler {self._names[frame.f_code]}"
            frame = frame.f_back
        if innermost is None:
            return "something"
        return f"{innermost.f_code.co_qualname} ({innermost.f_code.co_filename})"
