"""A node with certificates listens for TLS, and may ask its clients for theirs."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest
import trustme

from tests.support.node_home import Tls
from tests.support.rabbitmq import RabbitMQ

pytestmark = pytest.mark.server


def test_a_client_must_show_its_certificate(
    start_rabbitmq: Callable[..., RabbitMQ], tmp_path: Path
) -> None:
    authority = trustme.CA()
    server = authority.issue_cert("localhost")
    files = Tls(tmp_path / "ca.pem", tmp_path / "cert.pem", tmp_path / "key.pem", True)
    authority.cert_pem.write_to_path(files.authority)
    server.cert_chain_pems[0].write_to_path(files.certificate)
    server.private_key_pem.write_to_path(files.key)

    node = start_rabbitmq(tls=files)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(node, trusting)
    authority.issue_cert("client").configure_cert(trusting)
    connection = connect(node, trusting)
    assert connection.is_open
    connection.close()


def connect(node: RabbitMQ, context: ssl.SSLContext) -> Any:
    parameters = pika.URLParameters(node.tls_url)
    parameters.ssl_options = pika.SSLOptions(context, "localhost")
    return pika.BlockingConnection(parameters)
