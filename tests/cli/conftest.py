"""The command as a person calls it, a broker to call it on, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from acemq_amqp.blocking import Connection, connect
from acemq_amqp.cli import main
from tests.stores.conftest import database, postgres  # noqa: F401 - fixtures


@dataclass(frozen=True)
class Ended:
    """What a call came to."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What ``--json`` printed."""
        assert self.code == 0 or self.out, self.err
        return json.loads(self.out)


Acemq = Callable[..., Ended]


@pytest.fixture
def acemq(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Acemq:
    """Calls the command with these words; nothing of the environment counts."""
    for name in ("AMQP_URL", "ACEMQ_DATABASE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: object) -> Ended:
        capsys.readouterr()
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return Ended(code, printed.out, printed.err)

    return call


@pytest.fixture
def mq(amqp_url: str) -> Iterator[Connection]:
    """A connection to a virtual host of the test's own."""
    with connect(amqp_url, fail_fast=True) as connection:
        yield connection
