"""What a person reads: a table of both flavours, the messages set aside, and one verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from acemq_amqp.demo.findings import EXPECTED, Expectation, Findings, SetAside, wrong_counts
from acemq_amqp.demo.log_part import LOGS, wrong_log_counts
from acemq_amqp.demo.pattern_findings import PATTERNS, PatternFindings, wrong_pattern_counts
from acemq_amqp.demo.scenario import BY_EXCHANGE, STRAIGHT

_WIDTH = 98


def heading(where: str, *, in_memory: bool) -> str:
    """What is about to happen, and where."""
    place = (
        "A broker in memory: nothing to install. With AMQP_URL set it plays on RabbitMQ."
        if in_memory
        else "All that is made for it goes again; acemq.dlx and acemq.retry stay, which all share."
    )
    story = (
        f"Each flavour sends {len(STRAIGHT)} orders straight to a queue and {len(BY_EXCHANGE)} "
        "through a topic exchange. Some fail.\nThen four patterns and an event log, with SQLite "
        "and files in a folder that is gone afterwards."
    )
    return "\n".join((f"acemq demo on {where}", place, story))


def report(
    played: Sequence[Findings],
    patterns: Sequence[PatternFindings],
    logs: Sequence[PatternFindings],
) -> str:
    """The whole report of plays that came to their end."""
    wrong = [sentence for each in played for sentence in wrong_counts(each)]
    wrong += [sentence for each in patterns for sentence in wrong_pattern_counts(each)]
    wrong += [sentence for each in logs for sentence in wrong_log_counts(each)]
    main = ("", *_table(EXPECTED, played), "", *_aside(played))
    further = (*_table(PATTERNS, patterns), "", *_table(LOGS, logs), "")
    return "\n".join((*main, *further, *_verdict(wrong)))


def _table(
    expected: Sequence[Expectation], played: Sequence[Findings] | Sequence[PatternFindings]
) -> Iterator[str]:
    yield _row("", "expected", [each.flavour for each in played], "")
    for number, wanted in enumerate(expected):
        counts = [_marked(each.counts[number], wanted.count) for each in played]
        yield _row(wanted.label, str(wanted.count), counts, wanted.meaning)
    yield _row("seconds", "", [f"{each.seconds:.1f}" for each in played], "")


def _row(label: str, expected: str, counts: Iterable[str], meaning: str) -> str:
    cells = "".join(f"{count:>10}" for count in counts)
    return f"  {label:<20}{expected:>8}{cells}   {meaning}".rstrip()


def _marked(count: int, wanted: int) -> str:
    return str(count) if count == wanted else f"!! {count}"


def _aside(played: Sequence[Findings]) -> Iterator[str]:
    """The messages set aside: once where they are alike in all flavours."""
    first = played[0]
    alike = all((each.dead, each.parked) == (first.dead, first.parked) for each in played)
    for findings in played[:1] if alike else played:
        title = "in both flavours" if alike else f"{findings.flavour} flavour"
        yield f"Dead letters ({title}), and what their header x-acemq-error says:"
        yield from _listed(findings.dead)
        yield ""
        yield f"Parked ({title}):"
        yield from _listed(findings.parked)
        yield ""


def _listed(messages: Iterable[SetAside]) -> Iterator[str]:
    for message in messages:
        start = f"  {message.name:<11}attempt {message.attempt}   "
        yield textwrap.fill(
            message.reason, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start)
        )


def _verdict(wrong: Sequence[str]) -> Iterator[str]:
    yield from (f"  {sentence}" for sentence in wrong)
    if wrong:
        yield f"FAIL: {len(wrong)} of the counts are not as expected."
    else:
        yield "PASS: every count is as expected, in both flavours."
