"""amqps:// to a real broker: verified, or refused at once by an error that says what to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from acemq_amqp import (
    CannotConnect,
    Connection,
    Security,
    TlsFailed,
    Topology,
    UntrustedBroker,
    without_verifying_the_broker,
)
from tests.contract.waiting import until
from tests.security.conftest import Certificates, Opened, TlsNode, only_connection

pytestmark = pytest.mark.server

#: Refusals are told at once: a time-out of the connection that no test could wait for.
_NEVER = 3600.0


async def works(mq: Connection, queue: str) -> None:
    """A message goes out and comes in."""
    came: list[Any] = []
    await mq.declare(Topology().queue(queue, auto_delete=True, durable=False, quorum=False))
    consumer = await mq.consume(queue, lambda message: came.append(message.payload), declare=False)
    await mq.publisher("", queue).send("hello")
    await until(lambda: came == ["hello"], "the message")
    await consumer.close()


async def refused(
    opened: Opened, url: str, security: Security | None, kind: type[CannotConnect], said: str
) -> None:
    async with asyncio.timeout(60):
        with pytest.raises(kind, match=f"^acemq: cannot connect to .*{said}") as error:
            await opened(url, security, connect_timeout=_NEVER)
    assert type(error.value) is kind
    assert "guest:guest" not in str(error.value)


# ---------------------------------------------------------------- the broker is verified


async def test_a_verified_connection_publishes_and_consumes(
    opened: Opened, tls_node: TlsNode, certificates: Certificates, names: Callable[[str], str]
) -> None:
    mq = await opened(tls_node.url, Security(ca_file=certificates.ca_file))
    await works(mq, names("orders"))


async def test_the_connection_is_tls(
    opened: Opened, tls_node: TlsNode, certificates: Certificates
) -> None:
    await opened(tls_node.url, Security(ca_data=certificates.ca_file.read_text()))
    connection = await only_connection(tls_node.broker)
    assert connection["ssl"] and connection["ssl_protocol"] in ("tlsv1.2", "tlsv1.3")


async def test_an_authority_that_the_system_does_not_know_is_refused(
    opened: Opened, tls_node: TlsNode
) -> None:
    await refused(opened, tls_node.url, None, UntrustedBroker, r"not trusted here .*ca_file=")


async def test_another_authority_than_the_given_one_is_refused(
    opened: Opened, tls_node: TlsNode, certificates: Certificates
) -> None:
    other = Security(ca_file=certificates.authority_file(trustme.CA()))
    await refused(opened, tls_node.url, other, UntrustedBroker, r"not trusted here .*ca_file=")


async def test_another_host_name_is_refused(
    opened: Opened, tls_node: TlsNode, certificates: Certificates, names: Callable[[str], str]
) -> None:
    by_address = tls_node.url.replace("localhost", "127.0.0.1")
    trusting = Security(ca_file=certificates.ca_file)
    await refused(opened, by_address, trusting, UntrustedBroker, r"another address .*server_name=")
    misnamed = Security(ca_file=certificates.ca_file, server_name="broker.example")
    await refused(opened, tls_node.url, misnamed, UntrustedBroker, r"host name .*broker\.example")
    named = Security(ca_file=certificates.ca_file, server_name="localhost")
    await works(await opened(by_address, named), names("orders"))


async def test_an_expired_certificate_is_refused(
    opened: Opened, tls_node: TlsNode, certificates: Certificates
) -> None:
    tls_node.shows(certificates.issued("localhost", until=datetime(2021, 1, 1)))
    trusting = Security(ca_file=certificates.ca_file)
    await refused(opened, tls_node.url, trusting, UntrustedBroker, "expired .*renew it")


async def test_one_function_does_without_verifying(
    opened: Opened, tls_node: TlsNode, certificates: Certificates, names: Callable[[str], str]
) -> None:
    tls_node.shows(certificates.foreign("elsewhere.example"))
    await works(await opened(tls_node.url, without_verifying_the_broker()), names("orders"))


async def test_a_renewed_authority_is_used_at_the_next_connection(
    opened: Opened, tls_node: TlsNode, certificates: Certificates, tmp_path: Path
) -> None:
    file, renewed = tmp_path / "ca.pem", trustme.CA()
    file.write_bytes(certificates.ca_file.read_bytes())
    mq = await opened(tls_node.url, Security(ca_file=file))
    tls_node.shows(certificates.written(renewed.issue_cert("localhost")))
    tls_node.broker.close_connections()

    async def untrusted() -> bool:
        return "not trusted here" in " ".join((await mq.health(0.1)).problems)

    await until(untrusted, "that the new certificate is refused")
    file.write_bytes(b"")  # half-way through being written
    renewed.cert_pem.write_to_path(file)

    async def up() -> bool:
        return not (await mq.health()).problems

    await until(up, "the connection, with the new authority")


# ---------------------------------------------------------------- TLS on one side only


async def test_tls_to_a_port_without_is_refused(
    opened: Opened, tls_node: TlsNode, certificates: Certificates
) -> None:
    url = f"amqps://guest:guest@localhost:{tls_node.broker.port}"
    trusting = Security(ca_file=certificates.ca_file)
    await refused(opened, url, trusting, TlsFailed, "does not speak TLS .*amqp://")


async def test_no_tls_to_a_port_with_it_is_refused(opened: Opened, tls_node: TlsNode) -> None:
    url = tls_node.url.replace("amqps://", "amqp://")
    await refused(opened, url, None, TlsFailed, "this port speaks TLS.*amqps://")


# ---------------------------------------------------------------- client certificates


async def test_a_client_certificate_is_shown(
    opened: Opened, mutual_node: TlsNode, certificates: Certificates, names: Callable[[str], str]
) -> None:
    certificate, key = certificates.issued("client@example.org")
    security = Security(ca_file=certificates.ca_file, certificate=certificate, key=key)
    await works(await opened(mutual_node.url, security), names("orders"))


async def test_without_a_client_certificate_the_broker_refuses(
    opened: Opened, mutual_node: TlsNode, certificates: Certificates
) -> None:
    trusting = Security(ca_file=certificates.ca_file)
    await refused(opened, mutual_node.url, trusting, TlsFailed, "client certificate .*certificate=")


async def test_a_client_certificate_of_a_stranger_is_refused(
    opened: Opened, mutual_node: TlsNode, certificates: Certificates
) -> None:
    certificate, key = certificates.foreign("client@example.org")
    security = Security(ca_file=certificates.ca_file, certificate=certificate, key=key)
    await refused(opened, mutual_node.url, security, TlsFailed, "does not trust this client")


# ---------------------------------------------------------------- and nothing is told


async def test_no_log_holds_the_password(
    opened: Opened, tls_node: TlsNode, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    tls_node.broker.eval(_USER)
    url = tls_node.url.replace("guest:guest", "logged:sesame-9")
    with caplog.at_level(logging.DEBUG):
        await opened(url, Security(ca_file=certificates.ca_file))
        await refused(opened, url, None, UntrustedBroker, "not trusted here")
    assert "sesame-9" not in caplog.text


_USER = (
    'catch rabbit_auth_backend_internal:add_user(<<"logged">>, <<"sesame-9">>, <<"tests">>), '
    'rabbit_auth_backend_internal:set_permissions(<<"logged">>, <<"/">>, '
    '<<".*">>, <<".*">>, <<".*">>, <<"tests">>)'
)
