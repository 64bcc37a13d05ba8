"""What answers and errors mean, and how errors are told."""

from __future__ import annotations

import gc
import warnings
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp import ack
from acemq_amqp.ack import Ack, AckKind, decision_for, decision_of, described
from acemq_amqp.errors import ConfigurationError, DecodeError, FatalError, HandlerError, kind_of


class Silent(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even this")


class NotText(Exception):
    def __str__(self) -> Any:
        return 5


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        *((ack.retry, AckKind.RETRY), (ack.reject, AckKind.REJECT), (ack.park, AckKind.PARK)),
    ],
)
@pytest.mark.parametrize("error", [None, "why", ValueError("why")])
def test_answers_carry_their_error(answer: Any, kind: AckKind, error: Any) -> None:
    assert answer(error) == Ack(kind, error)
    assert answer().error is None


def test_accept_costs_nothing_and_may_carry_a_result() -> None:
    assert ack.accept() is ack.accept()
    assert ack.accept() == Ack(AckKind.ACCEPT)
    assert ack.accept({"total": 5}).result == {"total": 5}
    assert ack.accept(0).result == 0


@pytest.mark.parametrize(("delay", "expected"), [(timedelta(minutes=1), 60.0), (2, 2.0), (0, 0.0)])
def test_in_progress_comes_back_later(delay: Any, expected: float) -> None:
    assert ack.in_progress(delay) == Ack(AckKind.IN_PROGRESS, delay=expected)
    assert ack.in_progress().delay == 5.0


def test_in_progress_refuses_what_is_no_delay() -> None:
    with pytest.raises(ConfigurationError, match="in_progress"):
        ack.in_progress(-1)


def test_an_answer_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ack.accept().kind = AckKind.PARK  # type: ignore[misc]


# ---------------------------------------------------------------- decisions


def test_none_accepts_and_an_answer_is_itself() -> None:
    assert decision_of(None) is ack.accept()
    answer = ack.park("why")
    assert decision_of(answer) is answer


@pytest.mark.parametrize("returned", [True, False, 0, "ok", {}, [], ValueError("x"), object()])
def test_anything_else_returned_is_a_dead_letter_with_a_reason(returned: Any) -> None:
    decided = decision_of(returned)
    assert decided.kind is AckKind.FATAL
    assert isinstance(decided.error, HandlerError)
    assert f"returned {kind_of(returned)}" in decided.reason


def test_a_coroutine_that_nobody_awaited_warns_nobody_later() -> None:
    async def handler() -> None: ...

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        decided = decision_of(handler())
        gc.collect()
    assert not warned
    assert "returned a coroutine" in decided.reason


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (FatalError("x"), AckKind.FATAL),
        (DecodeError("x"), AckKind.UNDECODABLE),
        (ValueError("x"), AckKind.RETRY),
        (SystemExit(1), AckKind.RETRY),
        (KeyboardInterrupt(), AckKind.RETRY),
        (Silent(), AckKind.RETRY),
    ],
)
def test_what_an_exception_means(raised: BaseException, kind: AckKind) -> None:
    assert decision_for(raised) == Ack(kind, raised)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ack.reject(ValueError("bad")), "the handler rejected it: ValueError: bad"),
        (ack.reject(), "the handler rejected it: no reason given"),
        (ack.park("look here"), "the handler parked it: look here"),
        (
            decision_for(FatalError("gone")),
            "the handler reported an unprocessable message: FatalError: gone",
        ),
        (decision_for(DecodeError("not JSON")), "could not be decoded: DecodeError: not JSON"),
        *((ack.accept(), ""), (ack.retry("x"), ""), (ack.in_progress(), "")),
    ],
)
def test_the_reasons_are_the_contracts(answer: Ack, reason: str) -> None:
    assert answer.reason == reason


# ---------------------------------------------------------------- telling errors


@pytest.mark.parametrize(
    ("error", "told"),
    [
        *((ValueError("bad"), "ValueError: bad"), (ValueError(), "ValueError")),
        *((ValueError("  "), "ValueError"), (KeyError("k"), "KeyError: 'k'")),
        *((None, "no reason given"), ("", "no reason given"), (" ", "no reason given")),
        *(("out of stock", "out of stock"), (Silent(), "Silent"), (NotText(), "NotText")),
        *((FatalError("a\nb"), "FatalError: a\nb"), (SystemExit(2), "SystemExit: 2")),
        (ValueError("not \udcff"), "ValueError: not ?"),
    ],
)
def test_an_error_is_told_by_type_and_text(error: Any, told: str) -> None:
    assert described(error) == told


@pytest.mark.parametrize("error", [ValueError("x" * 5000), "x" * 5000])
def test_it_is_cut_to_1000_characters(error: Any) -> None:
    assert len(described(error)) == 1000


ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANY_TEXT | st.builds(ValueError, ANY_TEXT))
def test_what_is_told_can_always_be_sent(error: Any) -> None:
    told = described(error)
    told.encode()
    assert 0 < len(told) <= 1000


@pytest.mark.parametrize("delay", [40, 0.5, timedelta(seconds=3)])
def test_a_delay_is_no_reason_for_a_retry(delay: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"in_progress\(delay\)"):
        ack.retry(delay)
