"""By which clock windows close, and what becomes of an event whose window has closed.

In **processing time** an event stands where it was published, and a window closes once the
stream has been read up to its end and a grace. No event is ever late: one that was published
before what has been closed counts in the window that is open, so none is lost. In **event time**
an event stands where its payload says. Each lane has a watermark, the latest event time seen
less the disorder that is allowed, and a window closes when its lane's watermark has come to its
end. What comes later than that is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import ConfigurationError, MessageError
from acemq_amqp.eventlog.windows.moments import TimeOf, moment
from acemq_amqp.eventlog.windows.plain import plain

Late = Literal["drop", "side", "include"]

_LATE: Final = ("drop", "side", "include")


@dataclass(frozen=True, slots=True)
class ProcessingTime:
    """Events stand where they were published.

    :param grace: how far publish times may go back and still find their window, in seconds
    :raises ConfigurationError: not a duration of 0 or more
    """

    grace: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "grace", seconds(self.grace, "grace of a window"))

    def closes(self, end: float) -> float:
        """The moment from which a window is ripe."""
        return end + self.grace

    def expires(self, end: float) -> float:
        """The moment from which its state is not needed any more."""
        return end + self.grace

    def shape(self) -> dict[str, Any]:
        """The clock and its numbers, as JSON has them."""
        return {"time": "processing", "grace": self.grace}


@dataclass(frozen=True, slots=True)
class EventTime:
    """Events stand where their payload says.

    :param of: gives a payload's time: an aware datetime, or seconds since the epoch
    :param idle_lanes: what closes the windows of a lane that has gone quiet. ``"wait"``: its own
        next event alone. A duration: the lane is taken to be no more than so far behind the lane
        that is ahead, and behind the clock where the stream has been read to its end
    :param out_of_order: how far event times of a lane may go back, in seconds
    :param late: ``"drop"`` late events, send them to a log of their own (``"side"``), or
        ``"include"`` them: each gives its window's result anew, with the next revision
    :param allowed_lateness: seconds after its end for which a window can be corrected
    :param idle_lane_ttl: how far a lane without open windows may be behind, in seconds of event
        time, before its watermark is forgotten
    :raises ConfigurationError: a value that cannot be, or ``late`` and ``allowed_lateness`` that
        contradict each other
    """

    of: TimeOf
    idle_lanes: Duration | Literal["wait"]
    out_of_order: float = 0.0
    late: Late = "drop"
    allowed_lateness: float = 0.0
    idle_lane_ttl: float = 86400.0

    def __post_init__(self) -> None:
        plain(self.of, "event_time")
        for name in ("out_of_order", "allowed_lateness", "idle_lane_ttl"):
            object.__setattr__(self, name, seconds(getattr(self, name), f"{name} of a window"))
        if self.idle_lanes != "wait":
            object.__setattr__(self, "idle_lanes", _idle(self.idle_lanes))
        self._check_late()

    def _check_late(self) -> None:
        if self.late not in _LATE:
            raise ConfigurationError(
                f"acemq: late of a window is {self.late!r}: give 'drop', 'side' or 'include'"
            )
        if (self.late == "include") != (self.allowed_lateness > 0):
            raise ConfigurationError(
                f"acemq: late of a window is {self.late!r} and its allowed_lateness "
                f"{self.allowed_lateness:g} s: late events are included for as long as the "
                "window's state is kept, so give late='include' with an allowed_lateness above 0, "
                "or neither"
            )

    @property
    def follows(self) -> float | None:
        """How far a quiet lane may be behind, in seconds; None where it waits."""
        # a float since __post_init__, where it is not "wait"
        return None if self.idle_lanes == "wait" else self.idle_lanes  # type: ignore[return-value]

    def time_of(self, payload: Any) -> float:
        """A payload's event time, in seconds since the epoch.

        :raises MessageError: it has none, or none that can be
        """
        try:
            given = self.of(payload)
        except Exception as error:
            raise MessageError(
                f"acemq: event_time could not read a payload ({type(error).__name__}: {error})"
            ) from error
        return moment(given)

    def closes(self, end: float) -> float:
        """The watermark from which a window is ripe."""
        return end

    def expires(self, end: float) -> float:
        """The watermark from which its state is not needed any more."""
        return end + self.allowed_lateness

    def shape(self) -> dict[str, Any]:
        """The clock and its numbers, as JSON has them."""
        names = ("idle_lanes", "out_of_order", "late", "allowed_lateness", "idle_lane_ttl")
        return {"time": "event", **{name: getattr(self, name) for name in names}}


Timing: TypeAlias = ProcessingTime | EventTime


def _idle(given: object) -> float:
    if isinstance(given, str):
        raise ConfigurationError(
            f"acemq: idle_lanes of a window is {given!r}: give 'wait', or a duration"
        )
    # seconds() itself refuses what is no duration
    return seconds(given, "idle_lanes of a window")  # type: ignore[arg-type]
