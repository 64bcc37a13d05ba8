"""Which windows hold a moment, and what cannot be a window."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.windows import Calendar, Session, Sliding, Tumbling

HOUR = 3600.0


@pytest.mark.parametrize(
    ("kind", "time", "windows"),
    [
        (Tumbling(2), 0, [(0, 2)]),
        (Tumbling(2), 1.999, [(0, 2)]),
        (Tumbling(2), 2, [(2, 4)]),
        (Tumbling(2), -0.001, [(-2, 0)]),
        (Tumbling(timedelta(milliseconds=100)), 0.3, [(0.3, 0.4)]),
        (Tumbling(0.1), 1_700_000_000.7, [(1_700_000_000.7, 1_700_000_000.8)]),
        (Sliding(4, 2), 5, [(2, 6), (4, 8)]),
        (Sliding(4, 2), 4, [(2, 6), (4, 8)]),
        (Sliding(5, 2), 4, [(0, 5), (2, 7), (4, 9)]),
        (Sliding(5, 2), 5, [(2, 7), (4, 9)]),
        (Sliding(3, 3), 5, [(3, 6)]),
        (Session(2.5), 5, [(5, 7.5)]),
    ],
)
def test_windows_hold_their_start_and_not_their_end(
    kind: Any, time: float, windows: list[tuple[float, float]]
) -> None:
    assert list(kind.assign(time)) == windows


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Tumbling(0), "size of a tumbling window is 0"),
        (lambda: Tumbling(-1), "is negative"),
        (lambda: Tumbling(0.0005), "whole milliseconds"),
        (lambda: Tumbling(1.0005), "whole milliseconds"),
        (lambda: Tumbling("2"), "is a str"),  # type: ignore[arg-type]
        (lambda: Tumbling(True), "is a bool"),
        (lambda: Tumbling(float("nan")), "not a finite number"),
        (lambda: Sliding(2, 0), "every of a sliding window is 0"),
        (lambda: Sliding(2, 3), "events between two would count in none"),
        (lambda: Sliding(1001, 1), "more than 1000 windows"),
        (lambda: Session(0), "gap of a session window is 0"),
    ],
)
def test_a_size_that_cannot_be_is_refused(make: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()


def _at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("cron", "zone", "moment", "start", "end"),
    [
        ("0 * * * *", "UTC", "2024-05-01 10:30", "2024-05-01 10:00", "2024-05-01 11:00"),
        ("0 * * * *", "UTC", "2024-05-01 10:00", "2024-05-01 10:00", "2024-05-01 11:00"),
        ("0 0 * * *", "Europe/Paris", "2024-05-01 10:30", "2024-05-01", "2024-05-02"),
        ("0 0 * * MON", "Asia/Tokyo", "2024-05-01 10:30", "2024-04-29", "2024-05-06"),
        ("0 0 1 1 *", "UTC", "2024-05-01 10:30", "2024-01-01", "2025-01-01"),
        ("0 0 29 2 *", "UTC", "2023-05-01 10:30", "2020-02-29", "2024-02-29"),
        ("*/20 * * * * *", "UTC", "2024-05-01 10:30:45", "2024-05-01 10:30:40", "2024-05-01 10:31"),
        ("0 9,17 * * 1-5", "UTC", "2024-05-04 12:00", "2024-05-03 17:00", "2024-05-06 09:00"),
    ],
)
def test_a_calendar_window_lasts_from_tick_to_tick(
    cron: str, zone: str, moment: str, start: str, end: str
) -> None:
    windows = Calendar(cron, zone).assign(_at(moment, zone))

    assert list(windows) == [(_at(start, zone), _at(end, zone))]


@pytest.mark.parametrize(
    ("moment", "hours"), [("2024-03-31 12:00", 23), ("2024-10-27 12:00", 25), ("2024-06-01", 24)]
)
def test_a_day_has_the_hours_that_its_zone_gives_it(moment: str, hours: int) -> None:
    ((start, end),) = Calendar("0 0 * * *", "Europe/Paris").assign(_at(moment, "Europe/Paris"))

    assert end - start == hours * HOUR


def test_an_hour_that_a_clock_shows_twice_is_two_windows() -> None:
    hourly = Calendar("0 * * * *", "Europe/Paris")
    twice = _at("2024-10-27 02:30", "Europe/Paris")

    ((first, end),), ((second, _),) = hourly.assign(twice), hourly.assign(twice + HOUR)

    assert (end, second) == (first + HOUR, first + HOUR)


@settings(max_examples=100)
@given(
    st.sampled_from(
        ["0 * * * *", "*/15 * * * *", "30 2 * * *", "0,30 1-3 * * *", "0 0 1 * *", "0 */5 * * *"]
    ),
    st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe"]),
    st.one_of(
        st.integers(1_577_836_800, 1_735_689_600),
        # The days on which clocks are put, in the zones above.
        *(
            st.integers(day, day + 2 * 86400)
            for day in (1_711_756_800, 1_729_900_800, 1_710_028_800, 1_712_361_600, 1_728_086_400)
        ),
    ),
)
@example("30 2 * * *", "Europe/Paris", 1_711_846_800)
# A clock that is put by half an hour, and expressions that step over it.
@example("0 */5 * * *", "Australia/Lord_Howe", 1_696_096_800)
@example("15 */2 * * *", "Australia/Lord_Howe", 1_680_363_900)
@example("*/10 2 * * *", "Australia/Lord_Howe", 1_680_363_600)
def test_calendar_windows_leave_no_moment_out_and_none_twice(
    cron: str, zone: str, time: int
) -> None:
    ((start, end),) = Calendar(cron, zone).assign(time)

    assert start <= time < end
    for moment in (start, end - 1, (start + end) // 2):
        assert Calendar(cron, zone).assign(moment) == ((start, end),)
    assert Calendar(cron, zone).assign(end)[0][0] == end
    assert Calendar(cron, zone).assign(start - 1)[0][1] == start


@pytest.mark.parametrize(
    ("cron", "zone", "told"),
    [
        ("every day", "UTC", "no cron expression"),
        ("61 * * * *", "UTC", "no cron expression"),
        ("0 0 30 2 *", "UTC", "no cron expression"),
        (60, "UTC", "not a int"),
        ("0 * * * *", "Europe/Pari", "did you mean 'Europe/Paris'"),
        ("0 * * * *", "/etc/passwd", "knows no '/etc/passwd'"),
    ],
)
def test_a_calendar_that_cannot_be_is_refused(cron: Any, zone: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Calendar(cron, zone)


def test_a_calendar_without_cronsim_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cronsim", None)

    with pytest.raises(ConfigurationError, match=r"pip install 'acemq-amqp\[cron\]'"):
        Calendar("0 * * * *")
