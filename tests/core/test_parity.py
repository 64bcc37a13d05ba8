"""The two flavours by inspection: the same names, parameters, defaults and first sentences."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import acemq_amqp
from acemq_amqp import blocking, eventlog
from acemq_amqp.blocking import eventlog as blocking_eventlog

#: names of one flavour only, and why
ONLY_ASYNC = {
    "Connecting": "what connect() gives before it is awaited; the blocking flavour has connected",
}
ONLY_BLOCKING: dict[str, str] = {}

#: methods of one flavour only, and why
OTHER_NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
}
#: public members of the async classes that users have no use for in the blocking ones, and why
INTERNAL = {
    "Connection": {
        "establish": "called once, by connect",
        "forsake": "called by the blocking flavour's connection",
        "left": "called by the async flavour at the end of its loop",
        "ask": "what event logs are written over, once for both flavours",
        "ends": "what event logs are written over, once for both flavours",
        "read": "what event logs are written over, once for both flavours",
        "work": "what patterns are written over, once for both flavours",
    },
    "Publisher": {
        "bare": "what event logs write their own records with",
        "forward": "between patterns that move messages whole, and the core",
    },
    "Delivery": {
        "arrival": "between patterns that move messages whole, and the core",
    },
    "Consumer": {
        "attach": "between the core's parts",
        "close_by": "between the core's parts",
        "closing": "between the core's parts",
        "spills": "between the core's parts",
        "declare_target": "between the core's parts",
        "fail": "between the core's parts",
        "handles": "between the core's parts",
        "handling_here": "between the core's parts",
        "hold": "between the core's parts",
        "hurry": "between the core's parts",
        "release": "between the core's parts",
        "settled": "between the core's parts",
    },
}
#: what is a property in the blocking class and set by the constructor in the async one
PLAIN = {"Consumer": {"error"}, "Delivery": {"queue"}}
CLASSES = ("Connection", "Publisher", "Consumer", "Delivery")
EVENT_LOGS = ("Admin", "EventLog", "LogQueue", "Reader", "RunningStream", "Stream")


def test_both_export_the_same_names() -> None:
    only_async = set(acemq_amqp.__all__) - set(blocking.__all__)
    only_blocking = set(blocking.__all__) - set(acemq_amqp.__all__)
    assert only_async == set(ONLY_ASYNC)
    assert only_blocking == set(ONLY_BLOCKING)


@pytest.mark.parametrize("flavour", [acemq_amqp, blocking], ids=lambda each: each.__name__)
def test_every_exported_name_is_there_and_documented(flavour: Any) -> None:
    for name in flavour.__all__:
        value = getattr(flavour, name)
        assert not inspect.ismodule(value), f"{name} is the module of that name"
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, name


def test_what_is_no_twin_is_the_very_same_object() -> None:
    twins = {*CLASSES, "connect"}
    shared = set(acemq_amqp.__all__) & set(blocking.__all__) - twins
    for name in sorted(shared):
        assert getattr(acemq_amqp, name) is getattr(blocking, name), name


def test_event_logs_export_the_same() -> None:
    assert set(eventlog.__all__) == set(blocking_eventlog.__all__)
    for name in set(eventlog.__all__) - set(EVENT_LOGS):
        assert getattr(eventlog, name) is getattr(blocking_eventlog, name), name


def test_connect_takes_the_same() -> None:
    assert _told(acemq_amqp.connect) == _told(blocking.connect)


@pytest.mark.parametrize("name", [*CLASSES, *EVENT_LOGS])
def test_a_class_has_the_members_of_its_twin(name: str) -> None:
    ours, theirs = _pair(name)
    wanted = {OTHER_NAMES.get(each, each) for each in _members(ours)} | PLAIN.get(name, set())
    assert wanted - set(INTERNAL.get(name, {})) == set(_members(theirs))


@pytest.mark.parametrize("name", [*CLASSES, *EVENT_LOGS])
def test_methods_take_the_same_and_promise_the_same(name: str) -> None:
    ours, theirs = _pair(name)
    for member in _members(theirs):
        if member.startswith("__"):
            continue
        one, other = _function(ours, member), _function(theirs, member)
        if one is None or other is None:
            continue  # a plain attribute
        assert _told(one) == _told(other), f"{name}.{member}"
        assert _sentence(one) == _sentence(other), f"{name}.{member}"


@pytest.mark.parametrize("name", [*CLASSES, *EVENT_LOGS])
def test_what_is_awaited_in_one_is_called_in_the_other(name: str) -> None:
    _, theirs = _pair(name)
    for member in _members(theirs):
        assert not inspect.iscoroutinefunction(getattr(theirs, member)), f"{name}.{member}"


@pytest.mark.parametrize("name", [*CLASSES, *EVENT_LOGS])
def test_the_classes_promise_the_same(name: str) -> None:
    ours, theirs = _pair(name)
    assert _sentence(ours) == _sentence(theirs)


def _pair(name: str) -> tuple[Any, Any]:
    """A class of the async flavour, and its twin."""
    if name in EVENT_LOGS:
        return getattr(eventlog, name), getattr(blocking_eventlog, name)
    return getattr(acemq_amqp, name), getattr(blocking, name)


def _members(kind: type) -> list[str]:
    """Public methods and properties, and the two ends of a context."""
    contexts = {"__aenter__", "__aexit__", "__enter__", "__exit__"}
    return [
        name
        for name, value in inspect.getmembers(kind)
        if (not name.startswith("_") or name in contexts)
        and (callable(value) or isinstance(value, property))
    ]


def _function(kind: type, name: str) -> Callable[..., Any] | None:
    value = inspect.getattr_static(kind, name, None)
    if isinstance(value, property):
        return value.fget
    if isinstance(value, classmethod):
        return value.__func__
    return value if callable(value) else None


def _told(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Parameters by name, kind and default."""
    parameters = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters]


#: words that tell how a flavour waits, and nothing else
_MANNER = re.compile(r", awaitable|, on worker threads|Made by .*")


def _sentence(documented: Any) -> str:
    """The first sentence of what is promised."""
    text = inspect.getdoc(documented) or ""
    first = " ".join(text.split("\n\n")[0].split()).split(". ")[0]
    return _MANNER.sub("", first).strip(" .")
