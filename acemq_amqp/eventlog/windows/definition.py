"""``window_tumbling(...)`` and its like: a kind and a timing, from options given by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from acemq_amqp.durations import seconds
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.choices import checked
from acemq_amqp.eventlog.windows.calendar import Calendar
from acemq_amqp.eventlog.windows.kinds import Session, Sliding, Tumbling
from acemq_amqp.eventlog.windows.timing import EventTime, ProcessingTime, Timing
from acemq_amqp.eventlog.windows.values import Kind

Verb: TypeAlias = Literal["tumbling", "sliding", "session", "cron"]


@dataclass(frozen=True, slots=True)
class WindowDefinition:
    """A window as a query was given it.

    :ivar idle_flush: seconds between two looks for ripe windows while no events come
    """

    kind: Kind
    timing: Timing
    idle_flush: float = 1.0


def defined(verb: Verb, given: Mapping[str, Any]) -> WindowDefinition:
    """The window of a verb and its options.

    ``tumbling`` takes ``size``; ``sliding`` ``size`` and ``every``; ``session`` ``gap``; ``cron``
    ``cron`` and ``zone``. ``seconds`` is another name for the size or the gap. Every one takes
    ``grace`` or ``event_time`` with its own options, and ``idle_flush`` (or ``idle_flush_ms``).

    :raises ConfigurationError: an unknown option, one that is missing, one that is for the other
        clock, or a value that cannot be
    """
    what = f"window_{verb}()"
    options = checked(given, (*_OWN[verb], *_FLUSH, "grace", *_EVENT_TIME), what)
    flush = _flush(options, what)
    timing = _timing(options, what)
    return WindowDefinition(_KINDS[verb](options, what), timing, flush)


def _timing(options: dict[str, Any], what: str) -> Timing:
    of = options.pop("event_time", None)
    given = {name: options.pop(name) for name in _EVENT_TIME if name in options}
    if of is None:
        if given:
            raise ConfigurationError(
                f"acemq: {what} was given {' and '.join(given)}, which are for event time: give "
                "event_time=function too, or leave them out (by publish time no event is late)"
            )
        return ProcessingTime(options.pop("grace", 1.0))
    if "grace" in options:
        raise ConfigurationError(
            f"acemq: {what} was given grace, which is for publish times: with event_time give "
            "out_of_order"
        )
    if "idle_lanes" not in given:
        raise ConfigurationError(
            f"acemq: {what} with event_time must say what closes the windows of a lane that has "
            "gone quiet: idle_lanes='wait' (its own next event) or a duration that it may be "
            "behind the others"
        )
    return EventTime(of, **given)


def _flush(options: dict[str, Any], what: str) -> float:
    if "idle_flush" in options and "idle_flush_ms" in options:
        raise ConfigurationError(f"acemq: {what} was given idle_flush twice: leave one out")
    given = seconds(options.pop("idle_flush", 1.0), f"idle_flush of {what}")
    if "idle_flush_ms" in options:
        given = seconds(options.pop("idle_flush_ms"), f"idle_flush_ms of {what}") / 1000
    if not given:
        raise ConfigurationError(f"acemq: idle_flush of {what} is 0: give more")
    return given


def _length(options: dict[str, Any], what: str, name: str) -> Any:
    given = [options[each] for each in (name, "seconds") if each in options]
    if len(given) != 1:
        raise ConfigurationError(
            f"acemq: {what} wants its {name} once: give {name}=timedelta(...) or seconds=number"
        )
    return given[0]


def _needed(options: dict[str, Any], what: str, name: str) -> Any:
    if name not in options:
        raise ConfigurationError(f"acemq: {what} wants {name}: give it")
    return options[name]


def _tumbling(options: dict[str, Any], what: str) -> Kind:
    return Tumbling(_length(options, what, "size"))


def _sliding(options: dict[str, Any], what: str) -> Kind:
    return Sliding(_length(options, what, "size"), _needed(options, what, "every"))


def _session(options: dict[str, Any], what: str) -> Kind:
    return Session(_length(options, what, "gap"))


def _cron(options: dict[str, Any], what: str) -> Kind:
    return Calendar(_needed(options, what, "cron"), options.get("zone", "UTC"))


_OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "tumbling": ("size", "seconds"),
    "sliding": ("size", "seconds", "every"),
    "session": ("gap", "seconds"),
    "cron": ("cron", "zone"),
}
_KINDS: Final[Mapping[str, Callable[[dict[str, Any], str], Kind]]] = {
    "tumbling": _tumbling,
    "sliding": _sliding,
    "session": _session,
    "cron": _cron,
}
_FLUSH: Final = ("idle_flush", "idle_flush_ms")
_EVENT_TIME: Final = (
    *("event_time", "idle_lanes", "out_of_order", "late", "allowed_lateness", "idle_lane_ttl"),
)
