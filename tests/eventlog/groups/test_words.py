"""What users say, read once: modes, targets, settings, selections, pushes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.modes import Back, Moment, mode_of, moment_of, target_of
from acemq_amqp.eventlog.popping import Wanted
from acemq_amqp.eventlog.selection import Selection, checked_group, payloads_of
from acemq_amqp.eventlog.settings import LogSettings, settings_of
from acemq_amqp.offsets import Offset

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
_NOW = NOW.timestamp()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("all", "all"),
        ("new", "new"),
        (0, 0),
        (Offset(7), 7),
        (NOW, Moment(_NOW)),
        ("2026-05-01T12:00:00Z", Moment(_NOW)),
        ("2026-05-01T14:00:00+02:00", Moment(_NOW)),
        (NOW + timedelta(seconds=59), Moment(_NOW + 59)),  # a clock may be ahead
    ],
    ids=str,
)
def test_modes(said: object, meant: object) -> None:
    assert mode_of(said, _NOW) == meant


@pytest.mark.parametrize(
    "said",
    [
        *("", "latest", "5", "0", "2026-05-01", "2026-05-01T12:00:00"),
        *(-1, True, 1.5, None, b"all", _NOW),
        *(NOW.replace(tzinfo=None), NOW + timedelta(minutes=2), timedelta(hours=1)),
    ],
    ids=repr,
)
def test_what_is_no_mode(said: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: "):
        mode_of(said, _NOW)


@given(st.datetimes(), st.integers(-23 * 60, 23 * 60))
def test_a_moment_is_the_same_in_every_zone_and_spelling(when: datetime, minutes: int) -> None:
    aware = when.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    later = 1e12
    try:
        at = aware.timestamp()
    except (ValueError, OverflowError):
        return
    assert moment_of(aware, "it", later) == Moment(at)
    assert moment_of(aware.isoformat(), "it", later) == Moment(at)
    with pytest.raises(ConfigurationError, match="no zone"):
        moment_of(when, "it", later)
    with pytest.raises(ConfigurationError, match="not come yet"):
        moment_of(aware, "it", at - 61)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"timestamp": NOW}, (Moment(_NOW), None, False)),
        ({"offset": 3, "partition": "a"}, (3, "a", False)),
        ({"offset": Offset(3), "dry_run": True}, (3, None, True)),
        ({"to": "first"}, ("first", None, False)),
        ({"to": "next", "partition": None}, ("next", None, False)),
        ({"back": 5}, (Back(5), None, False)),
    ],
    ids=str,
)
def test_targets(said: object, meant: object) -> None:
    assert target_of(said, _NOW) == meant


@pytest.mark.parametrize(
    "said",
    [
        *(None, [], {}, {"to": "last"}, {"to": 1}, {"back": -1}, {"back": "1"}, {"offset": True}),
        *({"offset": 1, "to": "next"}, {"to": "first", "dry_run": 1}, {"timestamp": 5}),
        *({"to": "first", "partition": ""}, {"to": "first", "partition": "x" * 256}),
    ],
    ids=repr,
)
def test_what_is_no_target(said: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: "):
        target_of(said, _NOW)


def test_settings_are_read_by_name() -> None:
    told = {"streams": 3, "lease_time": timedelta(seconds=5), "retry_limit": 0, "retry_delay": 2}
    read = settings_of({**told, "on_gap": "skip", "dead_letters": False, "max_open_lanes": 9})
    assert read == LogSettings(3, None, 5.0, 0, 2.0, "skip", False, 9)
    kept = settings_of({"max_age": timedelta(days=1), "max_bytes": 10**9}).retention
    assert kept is not None and kept.max_bytes == 10**9


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"strems": 2}, "did you mean 'streams'"),
        ({"lease_time": 0.5}, "1 second or more"),
        ({"lease_time": "soon"}, "lease_time"),
        ({"retry_limit": -1}, "0 or more"),
        ({"retry_limit": True}, "0 or more"),
        ({"retry_delay": -1}, "retry_delay"),
        ({"on_gap": "ignore"}, "'raise' or 'skip'"),
        ({"dead_letters": 1}, "True or False"),
        ({"streams": 0}, "1 or more"),
        ({"max_open_lanes": 0}, "1 or more"),
        (None, "as a dict"),
    ],
    ids=str,
)
def test_what_is_no_setting(said: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        settings_of(said)


def test_words_change_a_selection_in_place() -> None:
    selection = Selection("log")
    same = selection.partition("a").group("g").each(5).batch(7).limit(9).idle_millis(1500)
    assert same.wait().timeout_millis(250).partitions(3) is selection
    plan = selection.plan
    assert (plan.each, plan.batch, plan.limit, plan.idle) == (True, 5, 9, 1.5)
    assert selection.wanted == Wanted(7, 3, "a")
    assert selection.patience == 0.25
    assert selection.wait(False).patience == 0.0
    lists = Selection("log").batch(7).plan
    assert (lists.each, lists.batch, lists.limit, lists.idle) == (False, 7, None, None)
    assert Selection("log").plan.batch == 100


BAD_WORDS: list[tuple[str, Any]] = [
    *(("partition", each) for each in ("", "x" * 256, None, 7, "a\0b", "\ud800")),
    *(("group", each) for each in ("", "x" * 256, None, 7, "a\0b", "\ud800", "acemq.query.q")),
    *((word, each) for word in ("each", "batch", "limit", "partitions") for each in (0, True, "5")),
    *((word, each) for word in ("idle_millis", "timeout_millis") for each in (-1, "5", 1e13)),
    *(("wait", each) for each in (None, 1, "yes")),
]


@pytest.mark.parametrize(("word", "said"), BAD_WORDS, ids=str)
def test_what_cannot_be_said(word: str, said: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: "):
        getattr(Selection("log"), word)(said)


def test_reading_wants_a_group() -> None:
    with pytest.raises(ConfigurationError, match="wants a group"):
        Selection("log").grouped()
    assert Selection("log").group("g").grouped() == "g"
    assert checked_group("x" * 255)


@pytest.mark.parametrize(
    ("said", "payloads"),
    [({"data": 1}, [1]), ({"data": None}, [None]), ([{"data": 1}, {"data": 2}], [1, 2]), ([], [])],
    ids=str,
)
def test_payloads_of_a_push(said: object, payloads: list[Any]) -> None:
    assert payloads_of(said) == payloads


@pytest.mark.parametrize(
    "said", [1, "x", {}, {"data": 1, "to": 2}, {"Data": 1}, [1], [{"data": 1}, {}], None], ids=repr
)
def test_what_is_no_push(said: object) -> None:
    with pytest.raises(ConfigurationError, match="Nothing was pushed"):
        payloads_of(said)
