"""What the driver logs of our connections is told by the toolkit, and by nobody else."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from acemq_amqp.errors import BrokerTimeout
from acemq_amqp.transports.aiopika import AioPikaTransport
from acemq_amqp.transports.aiopika import quiet as quiet_log
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ
from tests.transports.aiopika.stand import Told, connected, quiet, soon


def of_the_driver(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    names = ("aiormq", "aio_pika")
    return [each for each in caplog.records if each.name.partition(".")[0] in names]


@pytest.mark.parametrize(
    ("level", "heard"), [(logging.WARNING, False), (logging.DEBUG, True)], ids=["warning", "debug"]
)
@pytest.mark.server
async def test_calls_that_end_without_an_answer_are_no_news(
    amqp_url: str, caplog: pytest.LogCaptureFixture, level: int, heard: bool
) -> None:
    caplog.set_level(level, "aiormq")
    async with quiet():
        link = await connected(amqp_url, Told())
        with pytest.raises(BrokerTimeout):
            await link.look_up_queue("q", time.monotonic())
        cancelled = asyncio.ensure_future(link.look_up_queue("q", soon()))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait((cancelled,))
        await link.close(soon(5.0))
        del link
    warned = [each for each in of_the_driver(caplog) if each.levelno >= logging.WARNING]
    assert bool(warned) is heard


@pytest.mark.server
async def test_a_close_that_gets_no_answer_is_no_news(
    own_rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aiormq")
    with Proxy(own_rabbitmq.port) as proxy:
        async with quiet():
            link = await connected(own_rabbitmq.url_of("/", proxy.port), Told())
            await link.look_up_queue("q", soon())
            proxy.blackhole()
            await link.close(soon(0.2))
            del link
    assert not of_the_driver(caplog)


async def test_the_log_of_others_stays(caplog: pytest.LogCaptureFixture) -> None:
    AioPikaTransport()
    driver = logging.getLogger("aiormq.channel")
    quiet_log.context().run(driver.warning, "ours")
    driver.warning("another's")
    assert [each.getMessage() for each in of_the_driver(caplog)] == ["another's"]
