"""What windows know of their events, and messages that cannot be counted."""

from __future__ import annotations

from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.windows import (
    Aggregation,
    EventTime,
    Session,
    Sliding,
    Tumbling,
    avg_of,
    check_fit,
    count_of,
    fold,
    max_of,
    min_of,
    reduction,
    sum_of,
)
from tests.eventlog.windows.cycles import Cycles, amount, event


class Size(IntEnum):
    LARGE = 3


async def later(*given: Any) -> int:
    return 1


def first(kept: Any, sale: Any) -> Any:
    return kept


def over(aggregation: Any, *amounts: Any) -> Any:
    cycles = Cycles(Tumbling(10), aggregation=aggregation)
    for each in amounts:
        cycles.fold(event(1, each))
    assert not cycles.failed
    (result,) = cycles.finish().results
    return result.data


@pytest.mark.parametrize(
    ("amounts", "data"),
    [
        ([10, 32.5, 0.25], {"count": 3, "sum": 42.75, "min": 0.25, "max": 32.5, "avg": 14.25}),
        ([1, 2], {"count": 2, "sum": 3, "min": 1, "max": 2, "avg": 1.5}),
        ([0.1] * 10, {"count": 10, "sum": 1.0, "min": 0.1, "max": 0.1, "avg": 0.1}),
        ([2**60, 1], {"count": 2, "sum": 2**60 + 1, "min": 1, "max": 2**60, "avg": 2.0**59}),
        (
            [Decimal("1.10"), 2],
            {"count": 2, "sum": "3.10", "min": "1.10", "max": 2, "avg": "1.55"},
        ),
        ([Decimal("0.5"), 0.5], {"count": 2, "sum": 1.0, "min": "0.5", "max": 0.5, "avg": 0.5}),
        ([Size.LARGE], {"count": 1, "sum": 3, "min": 3, "max": 3, "avg": 3.0}),
        ([1e16, 1.0, -1e16], {"count": 3, "sum": 1.0, "min": -1e16, "max": 1e16, "avg": 1 / 3}),
    ],
)
def test_the_name_is_the_operation(amounts: list[Any], data: dict[str, Any]) -> None:
    named = Aggregation(dict.fromkeys(("count", "sum", "min", "max", "avg"), amount))

    assert over(named, *amounts) == data


def test_count_adds_one_whatever_its_function_gives() -> None:
    assert over(Aggregation({"count": lambda _: 0}), 5, 5) == {"count": 2}


def test_another_name_says_what_it_is_of() -> None:
    named = {
        "orders": count_of(),
        "large": count_of(lambda sale: sale["amount"] > 1),
        "revenue": sum_of(amount),
        "least": min_of(amount),
        "most": max_of(amount),
        "mean": avg_of(amount),
        "all": fold(lambda kept, sale: [*kept, sale["amount"]], []),
    }

    assert over(Aggregation(named), 1, 3) == {
        **{"orders": 2, "large": 1, "revenue": 4, "least": 1, "most": 3, "mean": 2.0},
        "all": [1, 3],
    }


def test_a_reduction_is_the_windows_data() -> None:
    def put(kept: dict[str, int], sale: Any) -> dict[str, int]:
        kept["n"] = kept.get("n", 0) + sale["amount"]
        return kept

    assert over(reduction(put, {}), 1, 2) == {"n": 3}


def test_sessions_merge_what_was_folded_in_the_order_of_time() -> None:
    folded = fold(lambda kept, sale: kept + sale["amount"], "", lambda one, other: one + other)
    timing = EventTime(lambda _: 0, "wait", out_of_order=10)
    cycles = Cycles(Session(2), timing, Aggregation({"text": folded}))

    cycles.fold(event(4, "b"), event(2, "a"), event(3, "c"))

    assert [each.data for each in cycles.finish().results] == [{"text": "abc"}]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("5", "of the type str"),
        (None, "of the type NoneType"),
        (True, "of the type bool"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (Decimal("NaN"), "NaN"),
        (Decimal("1e-301"), "more than 300 places"),
        (10**400, "not between"),
        (1e300, "not between"),
        ([1], "of the type list"),
    ],
)
def test_a_value_that_is_no_number_is_that_messages_error_and_names_the_aggregate(
    value: Any, told: str
) -> None:
    cycles = Cycles(Tumbling(10))

    folded = cycles.fold(event(1, 5, at=1), event(1, value, at=2), event(1, 6, at=3))

    ((failed, error),) = folded.failed
    assert failed.offset == 2
    assert str(error).startswith("acemq: the sum of a window was given a value ")
    assert told in str(error)
    assert cycles.finish().total() == 11


def test_where_one_piece_of_a_message_fails_none_of_it_counts() -> None:
    def strict(kept: int, sale: Any) -> int:
        if sale["amount"] < 0:
            raise ValueError("negative")
        return int(kept + sale["amount"])

    for kind in (Tumbling(10), Sliding(10, 5), Session(10)):
        cycles = Cycles(kind, aggregation=reduction(strict, 0, lambda one, other: one + other))
        cycles.fold(event(6, 1, at=1))
        folded = cycles.fold(*(event(6, each, at=2) for each in (10, 20, -1)), event(6, 2, at=3))

        assert [(each.offset, type(error.__cause__)) for each, error in folded.failed] == [
            (2, ValueError)
        ]
        assert {each.data for each in cycles.finish().results} == {3}


def test_what_json_cannot_keep_is_the_messages_error() -> None:
    cycles = Cycles(Tumbling(10), aggregation=reduction(lambda kept, sale: {sale["amount"]}))

    assert len(cycles.fold(event(1)).failed) == 1
    assert cycles.rows == {}


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Aggregation({}), "wants a dict of names"),
        (lambda: Aggregation([amount]), "wants a dict of names"),  # type: ignore[arg-type]
        (lambda: Aggregation({"cuont": amount}), "did you mean 'count'"),
        (lambda: Aggregation({"revenue": amount}), "sum_of"),
        (lambda: Aggregation({"max": sum_of(amount)}), "'max' is a sum"),
        (lambda: Aggregation({"sum": 5}), "aggregate 'sum' wants a function"),
        (lambda: Aggregation({"sum": later}), "'sum' got a coroutine function"),
        (lambda: Aggregation({5: amount}), "is named 5"),  # type: ignore[dict-item]
        (lambda: sum_of(later), r"sum_of\(\) got a coroutine function"),
        (lambda: fold(later, 0), r"fold\(\) got a coroutine function"),
        (lambda: fold(first, {1, 2}), "cannot be kept as JSON"),
        (lambda: fold(first, float("nan")), "cannot be kept as JSON"),
        (lambda: check_fit(Session(1), reduction(first)), "merge=function"),
    ],
)
def test_an_aggregate_that_cannot_be_is_refused(make: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()
