"""The frames that are written past the driver, as an independent codec reads them."""

from __future__ import annotations

from typing import Any

import pamqp.body
import pamqp.commands
import pamqp.header
import pamqp.heartbeat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.transports.wire.frames import (
    HEARTBEAT_FRAME,
    ack_frame,
    get_frame,
    header_fits,
    nack_frame,
    publish_frames,
)
from tests.transports.wire_bytes import frames_of, outgoing

_names = st.text(st.characters(codec="utf-8"), max_size=60)


@given(st.integers(1, 65535), _names, _names, st.binary(max_size=200), st.integers(60, 100))
def test_a_publish_is_method_header_and_body_in_frames_that_fit(
    channel: int, exchange: str, key: str, body: bytes, frame_max: int
) -> None:
    message = outgoing("id", exchange=exchange, key=key, body=body)
    frames = frames_of(publish_frames(channel, message, frame_max))
    method: Any = frames[0][1]
    header: Any = frames[1][1]
    bodies: list[Any] = [frame for _, frame in frames[2:]]
    assert {number for number, _ in frames} == {channel}
    assert isinstance(method, pamqp.commands.Basic.Publish)
    assert (method.exchange, method.routing_key) == (exchange, key)
    assert (method.mandatory, method.immediate) == (True, False)
    assert isinstance(header, pamqp.header.ContentHeader)
    assert (header.body_size, header.properties.message_id) == (len(body), "id")
    assert b"".join(frame.value for frame in bodies) == body
    assert all(0 < len(frame.value) <= frame_max - 8 for frame in bodies)


@pytest.mark.parametrize(("size", "frames"), [(0, 0), (1, 1), (92, 1), (93, 2), (184, 2), (185, 3)])
def test_a_body_is_split_only_where_it_must_be(size: int, frames: int) -> None:
    raw = publish_frames(1, outgoing(body=b"x" * size), 100)
    bodies = [frame for _, frame in frames_of(raw) if isinstance(frame, pamqp.body.ContentBody)]
    assert len(bodies) == frames


def test_without_a_limit_a_body_is_one_frame() -> None:
    assert len(frames_of(publish_frames(1, outgoing(body=b"x" * 500_000), 0))) == 3


def test_properties_that_need_more_than_a_frame_do_not_fit() -> None:
    message = outgoing("m" * 50)
    exact = len(message.properties) + 20
    assert header_fits(message, exact)
    assert not header_fits(message, exact - 1)
    assert header_fits(message, 0)


@pytest.mark.parametrize("multiple", [False, True])
def test_an_ack_says_which_and_whether_all_before(multiple: bool) -> None:
    [(channel, frame)] = frames_of(ack_frame(7, 2**62, multiple))
    assert channel == 7
    assert isinstance(frame, pamqp.commands.Basic.Ack)
    assert (frame.delivery_tag, frame.multiple) == (2**62, multiple)


@pytest.mark.parametrize("multiple", [False, True])
@pytest.mark.parametrize("requeue", [False, True])
def test_a_nack_says_which_and_what_becomes_of_it(multiple: bool, requeue: bool) -> None:
    [(channel, frame)] = frames_of(nack_frame(7, 5, multiple, requeue))
    assert channel == 7
    assert isinstance(frame, pamqp.commands.Basic.Nack)
    assert (frame.delivery_tag, frame.multiple, frame.requeue) == (5, multiple, requeue)


def test_a_get_asks_for_a_message_that_will_be_settled() -> None:
    [(channel, frame)] = frames_of(get_frame(3, "orders"))
    assert channel == 3
    assert isinstance(frame, pamqp.commands.Basic.Get)
    assert (frame.queue, frame.no_ack) == ("orders", False)


def test_the_heartbeat_is_one() -> None:
    [(channel, frame)] = frames_of(HEARTBEAT_FRAME)
    assert (channel, type(frame)) == (0, pamqp.heartbeat.Heartbeat)


@pytest.mark.parametrize("name", ["x" * 256, "\u00e4" * 128, "\ud800"])
def test_a_name_that_cannot_be_written_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="exchange"):
        publish_frames(1, outgoing(exchange=name), 4096)
    with pytest.raises(ConfigurationError, match="routing key"):
        publish_frames(1, outgoing(key=name), 4096)
    with pytest.raises(ConfigurationError, match="queue"):
        get_frame(1, name)


def test_a_name_of_255_bytes_is_written() -> None:
    [(_, frame), *_] = frames_of(publish_frames(1, outgoing(key="x" * 255), 4096))
    assert frame.routing_key == "x" * 255
