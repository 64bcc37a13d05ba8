"""Makes connections: one attempt each, bounded by the deadline.

Retries, backoff and other addresses are the core's affair, so the driver's own are
off. An attempt that fails or runs out of time leaves neither socket nor thread.
"""

from __future__ import annotations

import time
from typing import Any

import pika

from acemq_amqp.address import Address
from acemq_amqp.core.ports import Deadline, LinkEvents
from acemq_amqp.errors import BrokerTimeout
from acemq_amqp.security import Security
from acemq_amqp.transports.pika.io_thread import IoThread
from acemq_amqp.transports.pika.link import ABORT_SECONDS, PikaLink
from acemq_amqp.transports.pika.quiet import quieten
from acemq_amqp.transports.pika.reply import Reply
from acemq_amqp.transports.pika.session import Session
from acemq_amqp.transports.pika.tap_services import TapServices
from acemq_amqp.transports.refusals import no_connection


class PikaTransport:
    """The blocking flavour's transport.

    :param security: the TLS settings of connections to an amqps address; by default the
        system's authorities, verified
    """

    def __init__(self, security: Security | None = None) -> None:
        self._security = security or Security()
        quieten()

    async def connect(
        self, address: Address, *, name: str, events: LinkEvents, deadline: Deadline
    ) -> PikaLink:
        """Opens one connection, as ports.Transport promises; never suspends."""
        attempt = _Attempt(address, events, self._parameters(address, name), name)
        return attempt.run(deadline)

    def _parameters(self, address: Address, name: str) -> pika.ConnectionParameters:
        return pika.ConnectionParameters(
            host=address.host,
            port=address.port,
            virtual_host=address.vhost,
            credentials=pika.PlainCredentials(address.username, address.password),
            heartbeat=address.heartbeat,
            ssl_options=self._tls(address),
            client_properties={"connection_name": address.name or name},
            connection_attempts=1,
            # Ours is the only clock: see _Attempt.run.
            socket_timeout=None,
            stack_timeout=None,
            blocked_connection_timeout=None,
        )

    def _tls(self, address: Address) -> pika.SSLOptions | None:
        if not address.secure:
            return None
        return pika.SSLOptions(self._security.context(), self._security.name_for(address.host))


class _Attempt:
    """One handshake, from socket to link."""

    def __init__(
        self,
        address: Address,
        events: LinkEvents,
        parameters: pika.ConnectionParameters,
        name: str,
    ) -> None:
        self._parameters = parameters
        self._io = IoThread(f"acemq {name} I/O")
        self._session = Session(self._io, address)
        self._link = PikaLink(self._session, events)
        self._reply: Reply[PikaLink]

    def run(self, deadline: Deadline) -> PikaLink:
        self._session.services = TapServices(self._io.loop, self._link.receive)
        self._io.turned = self._link.turned
        self._io.finished = lambda: self._link.ended(None)
        self._io.start()
        try:
            return self._io.ask(self._begin, deadline, "a connection")
        except BrokerTimeout:
            self._give_up()
            raise no_connection(self._session.address, None, TimeoutError()) from None
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        self._session.closing = True
        self._io.call(self._drop)
        self._io.join(time.monotonic() + ABORT_SECONDS)

    # ------------------------------------------------------------ the I/O thread

    def _begin(self, reply: Reply[PikaLink]) -> None:
        self._reply = reply
        self._session.connection = pika.SelectConnection(
            self._parameters,
            on_open_callback=self._opened,
            on_open_error_callback=self._failed,
            on_close_callback=self._closed,
            custom_ioloop=self._session.services,
        )

    def _opened(self, _connection: Any) -> None:
        self._link.opened()
        if not self._reply.set(self._link):
            self._drop()

    def _failed(self, _connection: Any, error: BaseException) -> None:
        farewell = self._session.farewell
        cause = self._session.services.lost_by or _root(error)
        self._reply.fail(no_connection(self._session.address, farewell, cause))
        self._io.stop()

    def _closed(self, _connection: Any, error: BaseException) -> None:
        self._link.ended(self._session.services.lost_by or error)
        self._io.stop()

    def _drop(self) -> None:
        connection = self._session.connection
        if connection is None or connection.is_closed:
            self._io.stop()
        elif self._session.services.streams:
            # In the middle of a handshake the driver's own close would fail.
            self._session.services.drop("given up before it was used")
        elif not connection.is_closing:
            connection.close()


def _root(error: BaseException) -> BaseException:
    """What went wrong, out of the driver's layers of errors about errors."""
    while True:
        inner = getattr(error, "exception", None)
        for found in (inner, *reversed(getattr(error, "exceptions", ())), *error.args):
            if isinstance(found, BaseException):
                error = found
                break
        else:
            return error
