"""A log's messages read back: their own headers, and whatever else may stand in a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.lanes import stream_index
from acemq_amqp.eventlog.records import (
    LogRecord,
    WindowInfo,
    checked_lane,
    lane_headers,
    mark_headers,
    record_of,
    window_headers,
)
from acemq_amqp.fieldtable import encode_table
from tests.core.arrivals import arrival

WINDOW = WindowInfo("k", 1700000000.1234567, 1700000060.0, 2, "ab12", ("cd34", "ef56"))


def read(**headers: Any) -> LogRecord:
    values = {name.replace("_", "-"): value for name, value in headers.items()}
    return record_of("log", arrival({"x-stream-offset": 9, **values}))


def test_a_push_is_read_as_it_was_written() -> None:
    headers = {"x-stream-offset": 7, **lane_headers("north", 1700000000.1239)}
    record = record_of("log.1", arrival({**headers, **window_headers(WINDOW)}, message_id="m-1"))
    told = (record.stream, record.offset, record.id, record.lane, record.time, record.mark)
    assert told == ("log.1", 7, "m-1", "north", 1700000000.123, "")
    assert record.window == WINDOW


def test_of_what_a_result_replaces_as_many_are_named_as_fit_into_a_frame() -> None:
    ids = tuple(f"{number:064x}" for number in range(5000))
    told = window_headers(replace(WINDOW, replaces=ids))
    assert len(encode_table(told)) < 128 * 1024 - 4096
    assert read(**told).window == replace(WINDOW, replaces=ids[-1000:])


def test_a_mark_is_told_from_a_message() -> None:
    record = record_of("log", arrival({"x-stream-offset": 0, **mark_headers("genesis", 5.0)}))
    assert (record.mark, record.lane, record.time, record.window) == ("genesis", "Default", 5, None)


def test_the_id_is_the_librarys_before_the_native_one() -> None:
    headers = {"x-stream-offset": 0, "x-acemq-id": "ours"}
    assert record_of("log", arrival(headers, message_id="native")).id == "ours"
    assert record_of("log", arrival({"x-stream-offset": 0})).id == ""


@pytest.mark.parametrize("lane", [None, "", 5, b"north", "x" * 256, "a\0b", True, ["a"]])
def test_a_foreign_lane_is_the_default_one(lane: Any) -> None:
    assert read(acemq_log_lane=lane).lane == "Default"


@pytest.mark.parametrize("time", [None, "soon", -5, True, 1.5, 2**62, b"x"])
def test_a_foreign_time_never_raises(time: Any) -> None:
    assert read(acemq_log_time=time).time in (0.0, 2**62 / 1000)


@pytest.mark.parametrize("mark", [None, "", "other", 1, ["mark"], {"a": 1}, True])
def test_a_foreign_mark_is_none(mark: Any) -> None:
    assert read(acemq_log_mark=mark).mark == ""


@pytest.mark.parametrize("bound", [None, "x", True, b"1", [1], {"a": 1}])
def test_foreign_bounds_never_raise(bound: Any) -> None:
    window = read(
        acemq_log_window_id=bound, acemq_log_window_start=bound, acemq_log_window_replaces=bound
    ).window
    assert window is not None and (window.start, window.end, window.revision) == (0.0, 0.0, 0)


@pytest.mark.parametrize("lane", ["a", "x" * 255, "ä" * 127, "Default", " "])
def test_what_can_be_a_lane(lane: str) -> None:
    assert checked_lane(lane) == lane


@pytest.mark.parametrize("lane", ["", "x" * 256, "ä" * 128, None, 5, b"a", "a\0", "\ud800"])
def test_what_can_be_no_lane(lane: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be a lane"):
        checked_lane(lane)


@pytest.mark.parametrize(
    ("lane", "index"), [("", 5), ("a", 4), ("order-1", 5), ("customer-99", 2), ("o-1", 0)]
)
def test_a_lane_is_where_every_acemq_library_looks_for_it(lane: str, index: int) -> None:
    assert stream_index(lane, 8) == index
    assert stream_index(lane, 1) == stream_index(lane, 0) == 0
