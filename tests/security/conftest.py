"""Nodes that listen for TLS, certificates for them, and the two flavours beside each other."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from acemq_amqp import Connection, Security
from tests.contract.flavours import FLAVOURS, Flavour
from tests.contract.leftovers import nothing_left
from tests.contract.waiting import until
from tests.support.node_home import Tls
from tests.support.rabbitmq import RabbitMQ
from tests.support.stands import wanted_root

_LISTED = "name", "state", "user", "connected_at", "ssl", "ssl_protocol"

Opened = Callable[..., Awaitable[Connection]]
_numbers = itertools.count(1)


class Certificates:
    """Files signed by one authority, in one folder.

    :ivar ca_file: the authority
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = trustme.CA()
        self.ca_file = self.authority_file(self._authority)
        self.server = self.issued("localhost")

    def authority_file(self, authority: trustme.CA) -> Path:
        file = self.folder / f"authority-{next(_numbers)}.pem"
        authority.cert_pem.write_to_path(file)
        return file

    def issued(self, *names: str, until: datetime | None = None) -> tuple[Path, Path]:
        """A certificate and its key."""
        return self.written(self._authority.issue_cert(*names, **_dates(until)))

    def foreign(self, name: str) -> tuple[Path, Path]:
        """The same, by an authority that nobody trusts."""
        return self.written(trustme.CA().issue_cert(name))

    def written(self, issued: trustme.LeafCert) -> tuple[Path, Path]:
        number = next(_numbers)
        certificate = self.folder / f"{number}.pem"
        key = self.folder / f"{number}.key"
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        return certificate, key

    def for_node(self, *, client_certificates: bool = False) -> Tls:
        """Files of a listener's own, which a test may replace."""
        certificate, key = (self.folder / f"node-{next(_numbers)}" for _ in range(2))
        certificate.write_bytes(self.server[0].read_bytes())
        key.write_bytes(self.server[1].read_bytes())
        return Tls(self.ca_file, certificate, key, client_certificates)


def _dates(until: datetime | None) -> dict[str, Any]:
    return {} if until is None else {"not_before": datetime(2020, 1, 1), "not_after": until}


class TlsNode:
    """A RabbitMQ with a TLS listener whose certificate can be exchanged."""

    def __init__(self, certificates: Certificates, *, client_certificates: bool = False) -> None:
        self.tls = certificates.for_node(client_certificates=client_certificates)
        self.broker = RabbitMQ.start(wanted_root(), tls=self.tls)

    @property
    def url(self) -> str:
        return self.broker.tls_url

    def shows(self, files: tuple[Path, Path]) -> None:
        """From the next connection on the listener shows this certificate."""
        self.tls.certificate.write_bytes(files[0].read_bytes())
        self.tls.key.write_bytes(files[1].read_bytes())
        self.broker.eval("ssl:clear_pem_cache()")


async def only_connection(node: RabbitMQ) -> dict[str, Any]:
    """What the broker says of the one connection to it, once it is done with those before."""
    seen: list[dict[str, Any]] = []

    def alone() -> bool:
        seen[:] = node.list_connections(*_LISTED)
        return len(seen) == 1

    try:
        await until(alone, "the only connection")
    except AssertionError:
        raise AssertionError(f"not one connection, but {seen}") from None
    return seen[0]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def _tls_node(certificates: Certificates) -> Iterator[TlsNode]:
    node = TlsNode(certificates)
    yield node
    node.broker.close()


@pytest.fixture
def tls_node(_tls_node: TlsNode, certificates: Certificates) -> Iterator[TlsNode]:
    """Asks for no client certificate, and shows a good one of its own when a test begins."""
    yield _tls_node
    _tls_node.shows(certificates.server)


@pytest.fixture(scope="session")
def mutual_node(certificates: Certificates) -> Iterator[TlsNode]:
    """Takes only clients with a certificate."""
    node = TlsNode(certificates, client_certificates=True)
    yield node
    node.broker.close()


@pytest.fixture(params=list(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """The async or the blocking flavour."""
    return FLAVOURS[request.param]


@pytest.fixture
async def opened(flavour: Flavour) -> AsyncIterator[Opened]:
    """Opens connections; nothing may be left of them after the test."""

    async def open_(url: str, security: Security | None = None, **options: Any) -> Connection:
        mq = await flavour.connect(url, security=security, **options)
        stack.push_async_callback(mq.close, 5.0)
        return mq

    # The loop looks up host names in a thread of its own, which stays until the loop ends.
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    async with nothing_left(), AsyncExitStack() as stack:
        yield open_
