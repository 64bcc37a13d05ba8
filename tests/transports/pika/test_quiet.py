"""The driver's errors on our threads are told by the toolkit, and by nobody else."""

from __future__ import annotations

import logging
import threading

import pytest

from acemq_amqp.transports.pika import PikaTransport

_DRIVER = logging.getLogger("pika.adapters.base_connection")


def complain(thread: str) -> None:
    """The driver logs an error on a thread of this name."""
    work = threading.Thread(target=lambda: _DRIVER.error("a page of it"), name=thread)
    work.start()
    work.join()


@pytest.mark.parametrize(
    ("thread", "heard"), [("acemq consuming I/O", False), ("somebody's own", True)]
)
def test_the_log_of_others_stays(
    thread: str, heard: bool, caplog: pytest.LogCaptureFixture
) -> None:
    PikaTransport()
    complain(thread)
    assert bool(caplog.records) is heard


def test_it_is_there_for_who_wants_it(caplog: pytest.LogCaptureFixture) -> None:
    PikaTransport()
    with caplog.at_level(logging.DEBUG, "pika"):
        complain("acemq consuming I/O")
    assert caplog.records
