"""The thread that owns a connection: it alone touches the driver and the socket.

Other threads append a call to a deque and wake the loop, at most once per batch:
while the thread works, it is bound to look at the deque again before it sleeps, so
a flag spares the waking. A turn of the loop is: socket events, timers, the calls
that came, then one write of everything they produced. The thread is a daemon: a
connection that was forgotten does not keep the interpreter from exiting.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from pika.adapters.select_connection import IOLoop

from acemq_amqp.core.ports import Deadline
from acemq_amqp.errors import BrokerError, BrokerTimeout, ConfigurationError, ConnectionLost
from acemq_amqp.transports.pika.reply import Reply, remaining

T = TypeVar("T")

log = logging.getLogger("acemq_amqp.transports.pika")


class IoThread:
    """Runs the driver's loop, and calls of other threads between its events.

    :param name: of the thread, as a debugger shows it
    """

    def __init__(self, name: str) -> None:
        self.loop = IOLoop()
        #: called at the end of every turn
        self.turned: Callable[[], None] = _nothing
        #: called once, on the thread, when it ends
        self.finished: Callable[[], None] = _nothing
        #: what calls are refused with once the thread has ended
        self.refusal: Callable[[], BrokerError] = _closed
        self._calls: deque[Callable[[], None]] = deque()
        self._replies: set[Reply[Any]] = set()
        self._awake = False
        self._stopping = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # ------------------------------------------------------------ any thread

    def start(self) -> None:
        self._thread.start()

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def call(self, function: Callable[[], None]) -> None:
        """Has the I/O thread call a function soon. Never waits; any thread."""
        self._calls.append(function)
        if not self._awake:
            self._awake = True
            self.loop.add_callback_threadsafe(_nothing)

    def ask(self, begin: Callable[[Reply[T]], None], deadline: Deadline, asked: str) -> T:
        """Has the I/O thread begin something, and waits for its answer.

        :param asked: what is asked, for the error's text: "declaring queue 'orders'"
        :raises BrokerTimeout: no answer before the deadline
        :raises ConfigurationError: called on the I/O thread itself, which would wait for itself
        """
        self.refuse_own_thread(asked)
        reply: Reply[T] = Reply()
        self._replies.add(reply)
        try:
            self.call(lambda: self._begin(begin, reply))
            if self._ended:
                reply.fail(self.refusal())
            return reply.wait(deadline)
        except TimeoutError:
            raise BrokerTimeout(
                f"acemq: the broker did not answer {asked} in the time allowed; the connection "
                "is up, so the broker is busy, or holds this connection back in an alarm"
            ) from None
        finally:
            self._replies.discard(reply)
            reply.abandon()  # an interrupt may have ended the wait

    def refuse_own_thread(self, asked: str) -> None:
        """Raises at once where a wait would wait for its own thread."""
        if self.is_current:
            raise ConfigurationError(
                f"acemq: {asked} was asked for on the connection's own I/O thread, which would "
                "wait for itself; hand the work from the callback to a thread of yours"
            )

    def join(self, deadline: Deadline) -> bool:
        """Waits until the thread has ended; False at the deadline, or on the thread itself."""
        if self.is_current:
            return False
        left = remaining(deadline)
        self._thread.join(None if left < 0 else left)
        return not self._thread.is_alive()

    # ------------------------------------------------------------ the I/O thread

    def stop(self) -> None:
        """Ends the thread after this turn."""
        self._stopping = True

    def _begin(self, begin: Callable[[Reply[T]], None], reply: Reply[T]) -> None:
        if not reply.open:
            return
        try:
            begin(reply)
        except Exception as error:
            reply.fail(error)

    def _run(self) -> None:
        self.loop.activate_poller()
        try:
            while not self._stopping:
                self._turn()
        except Exception:
            log.exception("acemq: the I/O thread failed; its connection is dropped")
        finally:
            self._end()

    def _turn(self) -> None:
        self.loop.poll()
        self._awake = True
        self.loop.process_timeouts()
        self._run_calls()
        self.turned()
        self._awake = False
        if self._calls:  # came between the last look and the flag
            self._awake = True
            self.loop.add_callback_threadsafe(_nothing)

    def _run_calls(self) -> None:
        for _ in range(len(self._calls)):
            try:
                self._calls.popleft()()
            except Exception:
                log.exception("acemq: a call on the I/O thread failed")

    def _end(self) -> None:
        self._awake = True  # nobody needs to wake it any more
        self._ended = True
        for reply in tuple(self._replies):
            reply.fail(self.refusal())
        self._calls.clear()
        self.finished()
        self.loop.close()


def _nothing() -> None:
    pass


def _closed() -> BrokerError:
    return ConnectionLost("acemq: the connection is closed")
