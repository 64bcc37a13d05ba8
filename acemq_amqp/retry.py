"""How often a message is tried, and where it waits in between.

A :class:`RetryPolicy` is a value and decides purely: from the attempt that failed and
the message's age to a :class:`Wait` or a :class:`GiveUp`. Short waits are held by the
consumer and spread by jitter; long ones wait in the broker, in one queue for each
distinct delay, and so carry no jitter.
"""

from __future__ import annotations

import random as _random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Literal, TypeAlias

from acemq_amqp.durations import Duration, milliseconds, spelled
from acemq_amqp.errors import ConfigurationError, kind_of

#: Growth without a max_delay ends here, where a float still counts every millisecond.
_CEILING_MS: Final = 2**53


@dataclass(frozen=True, slots=True)
class Wait:
    """Try again after a wait.

    :ivar delay: seconds to wait; jittered when the wait is held here
    :ivar base: the delay without jitter, which names the rung that can hold it
    :ivar where: ``"broker"`` for a rung, ``"here"`` for the consumer
    """

    delay: float
    base: float
    where: Literal["broker", "here"]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not try again.

    :ivar reason: why, as ``x-acemq-error`` says it in front of ``: {E}``
    """

    reason: str


Decision: TypeAlias = Wait | GiveUp


@dataclass(frozen=True, slots=True, init=False)
class RetryPolicy:
    """When a message is tried again, and when it is given up.

    A policy that was built can be kept: contradictions are refused where it is built. Durations
    are given as ``timedelta`` or seconds, rounded to whole milliseconds, and read as seconds.

    :param max_attempts: deliveries in all, the first included; 1 means never again
    :param initial_delay: wait after the first attempt
    :param multiplier: growth of the wait from attempt to attempt, 1 to 1e9
    :param max_delay: longest wait; 0 for no limit
    :param jitter_factor: 0 to 1; a wait held here is spread by so much either way
    :param max_message_age: give up a message that was first seen so long ago; 0 for never
    :param broker_wait_threshold: waits so long or longer are held by the broker; 0 for none
    :raises ConfigurationError: a value out of range, or ``max_delay`` under ``initial_delay``
    """

    max_attempts: int
    initial_delay: float
    multiplier: float
    max_delay: float
    jitter_factor: float
    max_message_age: float
    broker_wait_threshold: float

    def __init__(
        self,
        max_attempts: int = 1,
        initial_delay: Duration = 1.0,
        multiplier: float = 2.0,
        max_delay: Duration = 0,
        jitter_factor: float = 0.0,
        max_message_age: Duration = 0,
        broker_wait_threshold: Duration = timedelta(seconds=30),
    ) -> None:
        put = object.__setattr__
        put(self, "max_attempts", _attempts(max_attempts))
        put(self, "initial_delay", _rounded(initial_delay, "initial_delay"))
        put(self, "multiplier", _number(multiplier, "multiplier", 1, 1e9))
        put(self, "max_delay", _limit(max_delay, "max_delay"))
        put(self, "jitter_factor", _number(jitter_factor, "jitter_factor", 0, 1))
        put(self, "max_message_age", _limit(max_message_age, "max_message_age"))
        put(self, "broker_wait_threshold", _limit(broker_wait_threshold, "broker_wait_threshold"))
        if 0 < self.max_delay < self.initial_delay:
            raise ConfigurationError(
                f"acemq: a retry policy whose max_delay ({spelled(self.max_delay)}) is under its "
                f"initial_delay ({spelled(self.initial_delay)}) contradicts itself: raise "
                "max_delay, or give 0 for no limit"
            )

    # ------------------------------------------------------------ variations

    def give_up_after(self, age: Duration) -> RetryPolicy:
        """The same policy, giving up messages first seen so long ago; 0 for never."""
        return replace(self, max_message_age=age)  # type: ignore[arg-type]

    def with_jitter(self, factor: float) -> RetryPolicy:
        """The same policy, with waits held here spread by ``factor`` (0 to 1) either way."""
        return replace(self, jitter_factor=factor)

    def wait_in_broker_from(self, threshold: Duration) -> RetryPolicy:
        """The same policy, with waits of ``threshold`` or longer held by the broker; 0 for none."""
        return replace(self, broker_wait_threshold=threshold)  # type: ignore[arg-type]

    # ------------------------------------------------------------ arithmetic

    def delay_after(self, attempt: int) -> float:
        """Seconds to wait after the attempt of this number (from 1), without jitter."""
        return self._delay_ms(attempt) / 1000

    def schedule(self) -> tuple[float, ...]:
        """Every wait in seconds, in order and without jitter: ``max_attempts - 1`` entries."""
        return tuple(self.delay_after(attempt) for attempt in range(1, self.max_attempts))

    def broker_rungs(self) -> tuple[float, ...]:
        """The distinct waits that the broker holds, in seconds, in order."""
        if not self.broker_wait_threshold:
            return ()
        held = (delay for delay in self._distinct() if self._in_broker(delay))
        return tuple(dict.fromkeys(held))

    def next_wait(
        self, attempt: int, age: Duration, random: Callable[[], float] = _random.random
    ) -> Decision:
        """What follows a failed attempt.

        :param attempt: the attempt that failed, from 1
        :param age: time since the message was first seen; a negative age (a foreign clock) is 0
        :param random: gives a number from 0 up to 1, for the jitter
        """
        if attempt >= self.max_attempts:
            return GiveUp(f"exhausted {attempt} attempt{'' if attempt == 1 else 's'}")
        if 0 < self.max_message_age <= _elapsed(age):
            limit = spelled(self.max_message_age)
            return GiveUp(f"exceeded the maximum message age of {limit}")
        base = self.delay_after(attempt)
        if self._in_broker(base):
            return Wait(base, base, "broker")
        return Wait(self._jittered(base, random), base, "here")

    def _delay_ms(self, attempt: int) -> int:
        ceiling = round(self.max_delay * 1000) or _CEILING_MS
        # 1.001 s is 1000.9999999999999 ms as a float, which half a step of growth would show.
        initial = round(self.initial_delay * 1000)
        try:
            grown = initial * self.multiplier ** (attempt - 1)
        except OverflowError:
            # 0 grows to 0, however often it is multiplied.
            return ceiling if self.initial_delay else 0
        return round(min(grown, ceiling))

    def _distinct(self) -> Iterator[float]:
        # Ends where the wait can grow no more, so that a million attempts cost nothing.
        limit = self.max_delay or _CEILING_MS / 1000
        for attempt in range(1, self.max_attempts):
            delay = self.delay_after(attempt)
            yield delay
            if self.multiplier == 1 or not 0 < delay < limit:
                return

    def _in_broker(self, delay: float) -> bool:
        return 0 < self.broker_wait_threshold <= delay

    def _jittered(self, base: float, random: Callable[[], float]) -> float:
        if not self.jitter_factor:
            return base
        return max(0.001, base * (1 + (2 * random() - 1) * self.jitter_factor))


def no_retry() -> RetryPolicy:
    """One attempt: a message that fails is dead-lettered."""
    return RetryPolicy()


def fixed_retry(n: int, delay: Duration) -> RetryPolicy:
    """``n`` attempts in all, with the same wait between them and no jitter.

    :raises ConfigurationError: as :class:`RetryPolicy`
    """
    return RetryPolicy(n, delay, multiplier=1.0)


def exponential_retry(n: int, initial: Duration, max_delay: Duration = 0) -> RetryPolicy:
    """``n`` attempts in all, with a wait that doubles, and jitter of 0.2.

    :param initial: wait after the first attempt
    :param max_delay: longest wait; 0 for no limit
    :raises ConfigurationError: as :class:`RetryPolicy`
    """
    return RetryPolicy(n, initial, max_delay=max_delay, jitter_factor=0.2)


def _elapsed(age: Duration) -> float:
    return age.total_seconds() if isinstance(age, timedelta) else float(age)


def _rounded(value: Duration, name: str) -> float:
    return milliseconds(value, f"{name} of a retry policy") / 1000


def _limit(value: Duration, name: str) -> float:
    """A duration whose 0 has a meaning of its own: what was more than 0 never becomes it."""
    rounded = _rounded(value, name)
    return rounded or (0.001 if value else 0.0)


def _attempts(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(
            f"acemq: max_attempts of a retry policy is {kind_of(value)}: give an integer"
        )
    if value < 1:
        raise ConfigurationError(
            f"acemq: max_attempts of a retry policy is {value}: it counts the first delivery, so "
            "give 1 for no retry, or more"
        )
    return value


def _number(value: float, name: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(
            f"acemq: {name} of a retry policy is {kind_of(value)}: give a number"
        )
    if not least <= value <= most:
        raise ConfigurationError(
            f"acemq: {name} of a retry policy is {value}: give {least} to {most:g}"
        )
    return float(value)
