"""What no patience helps against is one clear error, at once."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from acemq_amqp import AuthenticationRefused, CannotConnect, UnknownHost
from tests.contract.flavours import Flavour
from tests.support.stands import Stand

#: The default patience is 30 s: a connect that waits for any of it fails here. Seconds.
_AT_ONCE = 20.0

pytestmark = pytest.mark.server


@pytest.fixture
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name service that knows nobody, whatever this machine's is like."""

    def unknown(host: Any, *args: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)


async def refused(flavour: Flavour, url: Any) -> CannotConnect:
    """What a connect that may be patient raises."""
    with pytest.raises(CannotConnect) as raised:
        async with asyncio.timeout(_AT_ONCE):
            await flavour.connect(url, connect_timeout=600.0)
    assert str(raised.value).startswith("acemq: ")
    return raised.value


async def test_a_wrong_password(flavour: Flavour, rabbitmq: Stand, vhost: str) -> None:
    wrong = rabbitmq.url_of(vhost).replace("guest:guest", "guest:s3cret")
    error = await refused(flavour, wrong)
    assert isinstance(error, AuthenticationRefused)
    assert "check the user name and the password" in str(error)
    assert "s3cret" not in str(error)


async def test_a_missing_vhost(flavour: Flavour, rabbitmq: Stand) -> None:
    error = await refused(flavour, rabbitmq.url_of("nowhere"))
    assert isinstance(error, AuthenticationRefused)
    assert "create the vhost" in str(error)


@pytest.mark.usefixtures("no_names")
async def test_an_unknown_host(flavour: Flavour) -> None:
    error = await refused(flavour, ["amqp://nobody.invalid", "amqp://no-one.invalid"])
    assert isinstance(error, UnknownHost)
    assert "knows the host 'no-one.invalid'; check the spelling" in str(error)
