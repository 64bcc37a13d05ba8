"""A queue seen through a raw driver: the support is tested without the toolkit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest


@pytest.fixture
def channel_at() -> Iterator[Callable[[str], Any]]:
    """Opens a channel in confirm mode at an address; its connection is closed after the test."""
    opened: list[pika.BlockingConnection] = []

    def open_channel(url: str) -> Any:
        opened.append(pika.BlockingConnection(pika.URLParameters(url)))
        channel = opened[-1].channel()
        channel.confirm_delivery()
        return channel

    yield open_channel
    for connection in opened:
        if connection.is_open:
            connection.close()
