"""Logins that change while a program runs: passwords rotated, tokens renewed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acemq_amqp import (
    AuthenticationRefused,
    Credentials,
    Security,
    Topology,
    credentials_from_file,
)
from tests.contract import threads
from tests.contract.waiting import until
from tests.security.conftest import Opened, TlsNode, only_connection
from tests.security.tokens import PLUGIN, Issuer
from tests.support.rabbitmq import RabbitMQ
from tests.support.stands import wanted_root

pytestmark = pytest.mark.server


@pytest.fixture
def login(tls_node: TlsNode, names: Callable[[str], str]) -> str:
    """A user whose password is "first"."""
    name = names("ann").replace("[", "-").replace("]", "-")
    tls_node.broker.eval(
        f'rabbit_auth_backend_internal:add_user(<<"{name}">>, <<"first">>, <<"tests">>), '
        f'rabbit_auth_backend_internal:set_permissions(<<"{name}">>, <<"/">>, '
        '<<".*">>, <<".*">>, <<".*">>, <<"tests">>)'
    )
    return name


async def test_a_rotated_password_needs_no_restart(
    opened: Opened, tls_node: TlsNode, login: str, tmp_path: Path, names: Callable[[str], str]
) -> None:
    broker, file = tls_node.broker, tmp_path / "login"
    file.write_text(f"{login}\nfirst\n")
    security = Security(credentials=credentials_from_file(file))
    mq = await opened(broker.url, security)
    came: list[Any] = []
    queue = names("orders")
    await mq.declare(Topology().queue(queue))
    await mq.consume(queue, lambda message: came.append(message.payload), declare=False)

    await threads.run(lambda: broker.ctl("change_password", login, "second"))
    await threads.run(broker.close_connections)

    async def refused() -> bool:
        return "refused the login" in " ".join((await mq.health(0.1)).problems)

    await until(refused, "that the old password is refused on the way back")
    with pytest.raises(AuthenticationRefused, match=login) as told:
        await opened(broker.url, security)
    assert "first" not in str(told.value)

    file.write_text(f"{login}\nsecond\n")
    await mq.publisher("", queue).send("after")
    await until(lambda: came == ["after"], "the message")
    await mq.delete_queue(queue)


async def test_the_source_counts_and_not_the_address(
    opened: Opened, tls_node: TlsNode, login: str
) -> None:
    url = tls_node.broker.url.replace("guest:guest", "nobody:nothing")
    await opened(url, Security(credentials=lambda: Credentials(login, "first")))
    connection = await only_connection(tls_node.broker)
    assert connection["user"] == login


# ---------------------------------------------------------------- tokens


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def token_node(issuer: Issuer) -> Iterator[RabbitMQ]:
    """A broker that logs in by token."""
    with RabbitMQ.start(wanted_root(), config=issuer.config, plugins=[PLUGIN]) as node:
        yield node


class Tokens:
    """A source of tokens that last so many seconds, the last number for all further ones."""

    def __init__(self, issuer: Issuer, *lasting: float) -> None:
        self.given: list[Credentials] = []
        self._issuer = issuer
        self._lasting = list(lasting)

    def __call__(self) -> Credentials:
        lasts = self._lasting.pop(0) if len(self._lasting) > 1 else self._lasting[0]
        self.given.append(self._issuer.token("service", lasts))
        return self.given[-1]


async def test_a_token_is_renewed_and_outlived(
    opened: Opened,
    token_node: RabbitMQ,
    issuer: Issuer,
    names: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Both connections go on past the end of the token that they logged in with."""
    caplog.set_level("INFO", "acemq_amqp")
    tokens = Tokens(issuer, 4, 4, 3600)
    mq = await opened(token_node.url, Security(credentials=tokens))
    queue = names("orders")
    topology = Topology().queue(queue)
    publisher = mq.publisher("", queue)
    await mq.declare(topology)
    await publisher.send("before")
    first, second = tokens.given[:2]

    def renewed() -> bool:
        return caplog.text.count("was renewed") == 2

    await until(renewed, "that the broker took both new tokens")
    assert first.expires_at is not None and second.expires_at is not None
    over = max(first.expires_at, second.expires_at).timestamp() + 1
    await until(lambda: time.time() > over, "the end of the first tokens")
    await mq.declare(topology + Topology().queue(names("more")))
    await publisher.send("after")
    assert await mq.message_count(queue) == 2
    assert (await mq.health()).recoveries == 0
    assert not any(token.password in caplog.text for token in tokens.given)


async def test_a_token_that_expired_costs_a_reconnect_and_no_more(
    opened: Opened, token_node: RabbitMQ, issuer: Issuer, names: Callable[[str], str]
) -> None:
    """However the broker treats it: the next connection has a token that is good."""
    tokens = Tokens(issuer, 3600)
    mq = await opened(token_node.url, Security(credentials=tokens))
    token_node.close_connections()
    await until(lambda: len(tokens.given) == 2, "another login")
    await mq.declare(Topology().queue(names("orders")))


async def test_an_expired_token_is_refused_at_once(
    opened: Opened, token_node: RabbitMQ, issuer: Issuer
) -> None:
    with pytest.raises(AuthenticationRefused, match="refused the login of 'service'") as refused:
        await opened(token_node.url, Security(credentials=Tokens(issuer, -60)))
    assert refused.value.code == 403
