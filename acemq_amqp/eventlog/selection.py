"""What of a log is meant, and how it is read: said word by word.

Each word changes the selection in place and returns it, so that one that is only sometimes wanted
can stand on a line of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Self

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.choices import positive
from acemq_amqp.eventlog.handling import Plan
from acemq_amqp.eventlog.modes import Mode, mode_of
from acemq_amqp.eventlog.popping import Wanted
from acemq_amqp.eventlog.records import checked_lane
from acemq_amqp.eventlog.settings import LogSettings, settings_of
from acemq_amqp.naming import checked_name
from acemq_amqp.offsets import Offset

#: Groups of window queries; nobody else's are called so.
QUERY_GROUPS: Final = "acemq.query."


class Selection:
    """A log, one lane of it or all, and the group that reads it.

    :param name: the log's name
    """

    def __init__(self, name: str) -> None:
        self.name = checked_name(name, "log")
        self.lane: str | None = None
        self.reader = ""
        self.mode: Mode = "new"
        self.settings = LogSettings()
        self._plan: dict[str, Any] = {"each": False}
        self._batch = 1
        self._lanes = 1000
        self._wait = False
        self._timeout = 30.0

    # ------------------------------------------------------------ words

    def partition(self, key: str) -> Self:
        """One lane of the log: messages pushed to it are in order among themselves."""
        self.lane = checked_lane(key)
        return self

    def group(self, name: str) -> Self:
        """The group that reads: a cursor of its own, with the name."""
        self.reader = checked_group(name)
        return self

    def subscription_mode(self, mode: str | datetime | Offset | int) -> Self:
        """Where the group begins if it does not exist: ``"new"`` unless said otherwise.

        :param mode: ``"all"``, ``"new"``, an aware time, or an offset
        :raises ConfigurationError: anything else, a time without a zone or to come
        """
        self.mode = mode_of(mode, time.time())
        return self

    def each(self, commit: int = 100) -> Self:
        """Hands messages over one by one, and commits after so many, or 50 ms."""
        self._plan |= {"each": True, "batch": positive(commit, "commit of each()")}
        return self

    def batch(self, size: int) -> Self:
        """So many messages at most, of a pop or of a list for a handler."""
        self._batch = positive(size, "a batch")
        if not self._plan["each"]:
            self._plan["batch"] = self._batch
        return self

    def partitions(self, most: int) -> Self:
        """Lanes that one pop takes from, at most; 1,000 unless said otherwise."""
        self._lanes = positive(most, "partitions()")
        return self

    def limit(self, most: int) -> Self:
        """Reading ends after so many messages in all."""
        self._plan["limit"] = positive(most, "a limit")
        return self

    def idle_millis(self, millis: float) -> Self:
        """Reading ends when all is read and nothing has come for so many milliseconds."""
        self._plan["idle"] = _millis(millis, "idle_millis()")
        return self

    def wait(self, whether: bool = True) -> Self:
        """Whether a pop waits for the first message."""
        if not isinstance(whether, bool):
            raise ConfigurationError(f"acemq: wait() takes True or False, not {whether!r}")
        self._wait = whether
        return self

    def timeout_millis(self, millis: float) -> Self:
        """How long a pop waits, in milliseconds; 30 s unless said otherwise."""
        self._timeout = _millis(millis, "timeout_millis()")
        return self

    def config(self, options: Mapping[str, Any]) -> Self:
        """How the log is made, and how its readers behave.

        :param options: ``streams``, ``max_age``, ``max_bytes``, ``segment_bytes``, ``lease_time``,
            ``retry_limit``, ``retry_delay``, ``on_gap`` and ``dead_letters``
        :raises ConfigurationError: an unknown name, or a value that cannot be
        """
        self.settings = settings_of(options)
        return self

    # ------------------------------------------------------------ what was said

    @property
    def plan(self) -> Plan:
        """How a handler is given messages."""
        return Plan(**self._plan)

    @property
    def wanted(self) -> Wanted:
        """What a pop asks for."""
        return Wanted(self._batch, self._lanes, self.lane)

    @property
    def patience(self) -> float:
        """Seconds that a pop waits."""
        return self._timeout if self._wait else 0.0

    def grouped(self) -> str:
        """The group.

        :raises ConfigurationError: none was named
        """
        if not self.reader:
            raise ConfigurationError(
                f"acemq: reading log {self.name!r} wants a group: say .group(name)"
            )
        return self.reader


def checked_group(name: object) -> str:
    """A group's name, as given.

    :raises ConfigurationError: it can be none, or it is a window query's
    """
    if not isinstance(name, str) or not 1 <= len(name) <= 255 or not _storable(name):
        raise ConfigurationError(
            f"acemq: a group cannot be called {name!r:.80}: give text of 1 to 255 characters, "
            "without NUL"
        )
    if name.startswith(QUERY_GROUPS):
        raise ConfigurationError(
            f"acemq: group {name!r} is a window query's own cursor and cannot be sought or read "
            "with: run the query with reset='all' or reset='state'"
        )
    return name


def _storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def payloads_of(message: object) -> list[Any]:
    """The payloads of a push: of ``{"data": payload}``, or of a list of such.

    :raises ConfigurationError: anything else; nothing was pushed
    """
    messages: list[Any] = list(message) if isinstance(message, list | tuple) else [message]
    for each in messages:
        if not isinstance(each, Mapping) or set(each) != {"data"}:
            raise ConfigurationError(
                "acemq: push takes {'data': payload}, or a list of such; this is "
                f"{each!r:.100}. Nothing was pushed"
            )
    return [each["data"] for each in messages]


def _millis(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise ConfigurationError(f"acemq: {what} is {value!r}: give milliseconds, 0 or more")
    return value / 1000
