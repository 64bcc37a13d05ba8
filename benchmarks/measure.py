"""What a comparison is: two contenders at one job, in turns, and the median of their ratios.

In every round both do the same job once, and the next round the other begins. A ratio is taken
within a round, so what slows the machine for a while slows both. Before each turn the queue is made
ready, and after it counted: a contender that was fast and left something undone is an error.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.queues import Job, Load


@dataclass(frozen=True, slots=True)
class Contender:
    """One side of a pair.

    :param name: what it is, for people
    :param run: does the job with its own connection; gives the seconds that its messages took
    :param part: does one message in so many, where all would take too long
    """

    name: str
    run: Callable[[Load], float]
    part: int = 1


@dataclass(frozen=True, slots=True)
class Aim:
    """What we want to reach: all that is given here.

    :param ratio: ours over theirs
    :param rate: messages a second, on two cores that have nothing else to do
    :param extra: seconds that a message of ours may take beyond one of theirs
    """

    ratio: float | None = None
    rate: float | None = None
    extra: float | None = None

    def __str__(self) -> str:
        told = []
        if self.ratio is not None:
            told.append(f"{self.ratio:.1f}" if self.ratio >= 1 else f"{self.ratio:.2f}")
        if self.rate is not None:
            told.append(f"{self.rate:.0f}/s")
        if self.extra is not None:
            told.append(f"+{self.extra * 1e6:.1f} us")
        return ", ".join(told) or "-"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two contenders at one job."""

    name: str
    job: Job
    aim: Aim
    ours: Contender
    theirs: Contender


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was measured: messages per second, one number a round."""

    pair: Pair
    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Ours over theirs, round by round."""
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return median(self.ratios)

    @property
    def extra(self) -> float:
        """Seconds that a message of ours took beyond one of theirs: the median."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return median(1 / ours - 1 / theirs for ours, theirs in pairs)

    @property
    def met(self) -> bool:
        """Whether all that we want was reached."""
        aim = self.pair.aim
        return (
            (aim.ratio is None or self.ratio >= aim.ratio)
            and (aim.rate is None or median(self.ours) >= aim.rate)
            and (aim.extra is None or self.extra <= aim.extra)
        )


def compare(pair: Pair, load: Load, rounds: int) -> Comparison:
    """Lets both sides of a pair do their job so many times, in turns."""
    rates: dict[Contender, list[float]] = {pair.ours: [], pair.theirs: []}
    turns = [pair.ours, pair.theirs]
    for _ in range(rounds):
        for contender in turns:
            rates[contender].append(_rate(contender, pair.job, load))
        turns.reverse()
    return Comparison(pair, tuple(rates[pair.ours]), tuple(rates[pair.theirs]))


def _rate(contender: Contender, job: Job, load: Load) -> float:
    share = replace(load, messages=max(1, load.messages // contender.part))
    job.prepare(share)
    gc.collect()  # nobody pays for what the one before left behind
    seconds = contender.run(share)
    job.check(share, contender.name)
    return share.messages / seconds
