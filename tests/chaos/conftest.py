"""Each scenario runs in both flavours, in a short form and in a long one.

The short form is one of the tests that need a server; the long one is ``make chaos``, which prints
every ledger as a line of a table.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.ledger import Counts, Ledger, table
from tests.chaos.load import Load
from tests.contract.flavours import FLAVOURS, Flavour
from tests.contract.leftovers import Complaints, left
from tests.contract.waiting import until

_LINE = "ledger"


@dataclass(frozen=True)
class Form:
    """How much of a scenario there is.

    :ivar repeats: how often the fault comes
    :ivar scale: how many times the messages of the short form
    """

    name: str
    repeats: int
    scale: int


SHORT, LONG = Form("short", 1, 1), Form("long", 5, 10)
_FORMS = [
    pytest.param(SHORT, id="short", marks=pytest.mark.server),
    pytest.param(LONG, id="long", marks=[pytest.mark.server, pytest.mark.chaos]),
]


@pytest.fixture(params=_FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    """The short or the long form."""
    form: Form = request.param
    return form


@pytest.fixture(params=list(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """The async or the blocking flavour."""
    return FLAVOURS[request.param]


@pytest.fixture
def enter(
    request: pytest.FixtureRequest, flavour: Flavour, form: Form
) -> Callable[[Ledger, str], None]:
    """Puts a ledger into the table at the end: ``enter(ledger, version)``.

    Whoever has a ledger has both forms, alike or not.
    """

    def enter(ledger: Ledger, version: str) -> None:
        scenario = request.node.originalname.removeprefix("test_").replace("_", " ")
        kind = request.node.callspec.params.get("kind") or request.node.callspec.params.get("code")
        scenario = f"{scenario} ({kind})" if kind else scenario
        counts = ledger.counts(scenario, flavour.name, version)
        request.node.user_properties.append((_LINE, asdict(counts)))

    return enter


@pytest.fixture
async def load(flavour: Flavour, names: Callable[[str], str]) -> AsyncIterator[Load]:
    """Load that is not open yet; nothing may be left of it after the scenario."""
    loop = asyncio.get_running_loop()
    complaints = Complaints()
    loop.set_exception_handler(complaints.of_loop)
    log = logging.getLogger("acemq_amqp")
    log.addHandler(complaints)
    threads, tasks = set(threading.enumerate()), asyncio.all_tasks()
    load = Load(flavour, names("orders"))
    yield load
    await load.abandon()
    with suppress(AssertionError):
        await until(lambda: not _left(threads, tasks), "nothing left", 60.0)
    assert not _left(threads, tasks)
    log.removeHandler(complaints)
    assert not complaints.heard, complaints.heard


def _left(threads: set[threading.Thread], tasks: set[asyncio.Task[Any]]) -> list[str]:
    return [name for name in left(threads, tasks) if not name.startswith("proxy")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who asks for a server needs one."""
    for item in items:
        ours = item.path.parent == Path(__file__).parent
        asked = set(getattr(item, "fixturenames", ()))
        if ours and asked & {"own_rabbitmq", "start_rabbitmq"}:
            item.add_marker(pytest.mark.server)


# ---------------------------------------------------------------- the table


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints the ledgers where the long form was asked for."""
    if config.getoption("markexpr") not in ("chaos", "soak"):
        return
    lines = [
        Counts(**value)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        for name, value in report.user_properties
        if name == _LINE and report.when == "call"
    ]
    if lines:
        terminalreporter.section("the ledgers")
        for line in table(lines):
            terminalreporter.write_line(line)
