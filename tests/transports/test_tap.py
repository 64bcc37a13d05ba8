"""Messages come out of the byte stream as events, all else reaches the driver as it came."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic, Channel, Confirm, Connection

from acemq_amqp.properties import Properties
from acemq_amqp.transports.wire.frames import HEARTBEAT_FRAME
from acemq_amqp.transports.wire.tap import (
    Acked,
    Blocked,
    ChannelClosed,
    ConnectionClosed,
    ConsumerCancelled,
    Delivered,
    Got,
    GotNothing,
    Nacked,
    Returned,
    Tap,
    Unblocked,
    WireError,
    WireEvent,
)
from tests.transports.wire_bytes import content, deliver, method

MESSAGE = Properties(message_id="m")


def _delivered(tag: int, body: bytes, channel: int = 1) -> Delivered:
    return Delivered(channel, "c", tag, False, "ex", "key", MESSAGE, body)


CANCEL = method(1, Basic.Cancel("c"))
CLOSE_CHANNEL = method(1, Channel.Close(404, "NOT_FOUND - no exchange 'x' in vhost '/'", 60, 40))
CLOSE = method(0, Connection.Close(320, "CONNECTION_FORCED", 0, 0))
BLOCKED = method(0, Connection.Blocked("low on memory"))
UNBLOCKED = method(0, Connection.Unblocked())


@pytest.mark.parametrize(
    ("raw", "event"),
    [
        (deliver(1, 7, b"body", message_id="m"), _delivered(7, b"body")),
        (deliver(1, 7, b"", message_id="m"), _delivered(7, b"")),
        (deliver(1, 7, b"x" * 9000, message_id="m"), _delivered(7, b"x" * 9000)),
        (
            method(2, Basic.GetOk(3, True, "ex", "key", 5)) + content(2, b"b", message_id="m"),
            Got(2, 3, True, "ex", "key", 5, MESSAGE, b"b"),
        ),
        (method(2, Basic.GetEmpty()), GotNothing(2)),
        (
            method(1, Basic.Return(312, "NO_ROUTE", "ex", "key"))
            + content(1, b"b", message_id="m"),
            Returned(1, 312, "NO_ROUTE", "ex", "key", MESSAGE, b"b"),
        ),
        (method(1, Basic.Ack(9, True)), Acked(1, 9, True)),
        (method(1, Basic.Ack(9, False)), Acked(1, 9, False)),
        (method(1, Basic.Nack(9, True, False)), Nacked(1, 9, True)),
        (method(1, Basic.Nack(9, False, True)), Nacked(1, 9, False)),
    ],
)
def test_messages_become_events_and_stay_from_the_driver(raw: bytes, event: WireEvent) -> None:
    assert Tap().feed(raw) == ([event], HEARTBEAT_FRAME)


@pytest.mark.parametrize(
    ("raw", "event"),
    [
        (CLOSE_CHANNEL, ChannelClosed(1, 404, "NOT_FOUND - no exchange 'x' in vhost '/'", 60, 40)),
        (CANCEL, ConsumerCancelled(1, "c")),
        (CLOSE, ConnectionClosed(320, "CONNECTION_FORCED")),
        (BLOCKED, Blocked("low on memory")),
        (UNBLOCKED, Unblocked()),
    ],
)
def test_what_both_must_know_is_told_and_passed_on(raw: bytes, event: WireEvent) -> None:
    assert Tap().feed(raw) == ([event], raw)


@pytest.mark.parametrize(
    "raw",
    [
        method(0, Connection.Start(0, 9, {"product": "RabbitMQ"})),
        method(0, Connection.Tune(2047, 131072, 60)),
        method(1, Channel.OpenOk()),
        method(1, Channel.CloseOk()),
        method(1, Confirm.SelectOk()),
        method(1, Basic.ConsumeOk("c")),
        method(1, Basic.CancelOk("c")),
        HEARTBEAT_FRAME,
    ],
)
def test_the_drivers_conversation_reaches_it_untouched(raw: bytes) -> None:
    assert Tap().feed(raw) == ([], raw)


def test_redelivered_is_told() -> None:
    raw = method(1, Basic.Deliver("c", 1, True, "ex", "key")) + content(1)
    [event], _ = Tap().feed(raw)
    assert isinstance(event, Delivered)
    assert event.redelivered is True


def test_the_drivers_frames_pass_in_order_without_what_stands_between() -> None:
    first, second, third = (method(1, Basic.ConsumeOk(tag)) for tag in "abc")
    raw = first + deliver(1, 1, b"x") + second + third + method(1, Basic.Ack(1))
    events, passed = Tap().feed(raw)
    assert passed == first + second + third
    assert [type(event) for event in events] == [Delivered, Acked]


def test_a_chunk_that_ends_amid_a_frame_gives_no_heartbeat_of_its_own() -> None:
    tap = Tap()
    raw = deliver(1, 1, b"x" * 100, message_id="m")
    assert tap.feed(raw[:3]) == ([], b"")
    assert tap.feed(raw[3:]) == ([_delivered(1, b"x" * 100)], HEARTBEAT_FRAME)


# ---------------------------------------------------------------- cut anywhere

_SCRIPT = b"".join(
    (
        method(0, Connection.Start(0, 9, {"product": "RabbitMQ"})),
        method(1, Channel.OpenOk()),
        deliver(1, 1, b"one", message_id="m"),
        deliver(2, 2, b"x" * 50, cut=8, message_id="m"),
        method(1, Basic.Ack(4, True)),
        BLOCKED,
        deliver(3, 1, b"", message_id="m"),
        HEARTBEAT_FRAME,
        method(1, Basic.Return(312, "NO_ROUTE", "ex", "key")),
        content(1, b"back", message_id="m"),
        method(1, Basic.Ack(5)),
        method(4, Basic.GetEmpty()),
        CLOSE_CHANNEL,
        CLOSE,
    )
)


def _fed(pieces: list[bytes]) -> tuple[list[WireEvent], bytes]:
    tap, events, passed = Tap(), [], b""
    for piece in pieces:
        some, on = tap.feed(piece)
        events += some
        passed += on
    # Heartbeats fill in for what was swallowed, so their number depends on the cuts.
    return events, passed.replace(HEARTBEAT_FRAME, b"")


@given(st.lists(st.integers(0, len(_SCRIPT))).map(sorted))
def test_cuts_anywhere_make_no_difference(cuts: list[int]) -> None:
    edges = [0, *cuts, len(_SCRIPT)]
    pieces = [_SCRIPT[a:b] for a, b in pairwise(edges)]
    assert _fed(pieces) == _fed([_SCRIPT])


def test_one_byte_at_a_time_makes_no_difference() -> None:
    assert _fed([bytes((byte,)) for byte in _SCRIPT]) == _fed([_SCRIPT])


_bodies = st.binary(max_size=60)
_messages = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 2**63 - 1), _bodies, st.integers(1, 30))
)


@given(_messages)
def test_every_delivery_comes_out_as_it_was_sent(
    messages: list[tuple[int, int, bytes, int]],
) -> None:
    raw = b"".join(deliver(c, tag, body, cut=cut, message_id="m") for c, tag, body, cut in messages)
    events, _ = Tap().feed(raw)
    assert events == [_delivered(tag, body, channel) for channel, tag, body, _ in messages]


def test_content_of_several_channels_may_interleave() -> None:
    one, two = deliver(1, 1, b"1" * 20, cut=5, message_id="m"), deliver(2, 2, b"2" * 20, cut=5)
    head_one, head_two = len(one) - 13 * 2, len(two) - 13 * 2
    tap = Tap()
    events, _ = tap.feed(one[:head_one] + two[:head_two] + one[head_one:] + two[head_two:])
    assert [(e.channel, e.body) for e in events if isinstance(e, Delivered)] == [
        (1, b"1" * 20),
        (2, b"2" * 20),
    ]


# ---------------------------------------------------------------- ends and errors


@pytest.mark.parametrize("end", [CLOSE_CHANNEL, method(1, Channel.CloseOk())])
@pytest.mark.parametrize("frames", [1, 2, 3])
def test_a_channel_that_ends_amid_a_message_drops_the_half(end: bytes, frames: int) -> None:
    whole = deliver(1, 1, b"x" * 20, cut=10)
    ends = [0]
    while ends[-1] < len(whole):
        ends.append(ends[-1] + 8 + struct.unpack_from(">I", whole, ends[-1] + 3)[0])
    events, passed = Tap().feed(whole[: ends[frames]] + end + deliver(1, 1, b"new", message_id="m"))
    assert passed == end
    assert events[-1] == _delivered(1, b"new")
    assert not [e for e in events[:-1] if isinstance(e, Delivered)]


def test_the_connection_may_close_amid_a_message() -> None:
    half = deliver(1, 1, b"x" * 20, cut=10)[:-18]
    assert Tap().feed(half + CLOSE) == ([ConnectionClosed(320, "CONNECTION_FORCED")], CLOSE)


def _frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


_DELIVER = method(1, Basic.Deliver("c", 1, False, "ex", "key"))
_HEADER_OF_5 = content(1, b"12345")[: -5 - 8]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        pytest.param(
            _frame(1, 1, b"\x00\x3c\x00\x50" + b"\x00" * 9, b"\x00"), "end mark", id="end"
        ),
        pytest.param(_frame(4, 1, b""), "unknown type 4", id="type"),
        pytest.param(struct.pack(">BHI", 3, 1, 131_065) + b"x", "agreed on", id="too long"),
        pytest.param(_frame(1, 1, b"\x00"), "too early", id="no method"),
        pytest.param(_frame(1, 1, b"\x00\x3c\x00\x50"), "too early", id="ack without tag"),
        pytest.param(_frame(1, 1, b"\x00\x3c\x00\x3c\xff"), "too early", id="cut delivery"),
        pytest.param(_frame(2, 1, b"\x00" * 14), "without a method", id="stray header"),
        pytest.param(_frame(3, 1, b"x"), "without a method", id="stray body"),
        pytest.param(_DELIVER + _frame(3, 1, b"x"), "more body", id="body before header"),
        pytest.param(_DELIVER + _frame(2, 1, b"\x00" * 11), "too early", id="cut header"),
        pytest.param(_DELIVER + _HEADER_OF_5 * 2, "second content header", id="second header"),
        pytest.param(
            _DELIVER + _HEADER_OF_5 + _frame(3, 1, b"123456"), "more body", id="long body"
        ),
        pytest.param(_DELIVER + _DELIVER, "amid content", id="delivery amid content"),
        pytest.param(_DELIVER + content(2, b"x"), "without a method", id="of another channel"),
        pytest.param(deliver(1, 1, b"x")[:-1] + b"\x00", "end mark", id="body without end"),
        pytest.param(
            _DELIVER + _HEADER_OF_5[:-1] + b"\x00" + _frame(3, 1, b"12345"),
            "end mark",
            id="header without end",
        ),
    ],
)
def test_what_is_no_amqp_is_an_error_that_says_so(raw: bytes, said: str) -> None:
    with pytest.raises(WireError, match=rf"^acemq: .*{said}") as caught:
        Tap().feed(raw)
    assert caught.value.code in (501, 505)


def test_a_frame_is_refused_before_it_is_kept() -> None:
    tap = Tap()
    tap.frame_max = 4096
    assert tap.feed(struct.pack(">BHI", 3, 1, 4088)) == ([], b"")
    tap = Tap()
    tap.frame_max = 4096
    with pytest.raises(WireError, match="4097 bytes"):
        tap.feed(struct.pack(">BHI", 3, 1, 4089) + b"x")


@pytest.mark.parametrize("part", ["header", "body"])
def test_a_whole_message_with_a_frame_too_long_is_refused(part: str) -> None:
    raw = deliver(1, 1, b"x" * 200) if part == "body" else deliver(1, 1, b"", message_id="m" * 200)
    tap = Tap()
    tap.frame_max = 100
    with pytest.raises(WireError, match="agreed on"):
        tap.feed(raw)


def test_without_a_limit_any_frame_is_taken() -> None:
    tap = Tap()
    tap.frame_max = 0
    raw = deliver(1, 1, b"x" * 500_000, cut=500_000, message_id="m")
    assert tap.feed(raw) == ([_delivered(1, b"x" * 500_000)], HEARTBEAT_FRAME)


def test_an_answer_in_another_protocol_is_left_to_the_driver() -> None:
    tap = Tap()
    assert tap.feed(b"AMQP\x00\x00") == ([], b"AMQP\x00\x00")
    assert tap.feed(b"\x09\x01") == ([], b"\x09\x01")


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_arbitrary_bytes_give_events_or_a_wire_error(pieces: list[bytes]) -> None:
    tap = Tap()
    with suppress(WireError):
        for piece in pieces:
            tap.feed(piece)


_payloads = st.sampled_from([60, 71, 50, 72, 80, 120, 30]).flatmap(
    lambda number: st.binary(max_size=30).map(lambda rest: bytes((0, 60, 0, number)) + rest)
)


@given(st.lists(st.tuples(st.sampled_from([1, 2, 3, 8]), _payloads | st.binary(max_size=30))))
def test_frames_of_nonsense_give_events_or_a_wire_error(frames: list[tuple[int, Any]]) -> None:
    with suppress(WireError):
        Tap().feed(b"".join(_frame(kind, 1, payload) for kind, payload in frames))
