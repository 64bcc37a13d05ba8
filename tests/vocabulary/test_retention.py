"""How much a stream keeps, spelled as RabbitMQ reads it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.retention import StreamRetention


@pytest.mark.parametrize(
    ("age", "spelled"),
    [
        (timedelta(days=7), "7D"),
        (timedelta(hours=3), "3h"),
        (timedelta(minutes=90), "90m"),
        (45, "45s"),
        (timedelta(days=1, seconds=1), "86401s"),
        (3600.0, "1h"),
        *(("7D", "7D"), ("1Y", "1Y"), ("2M", "2M"), ("90m", "90m")),
    ],
)
def test_an_age_is_spelled_in_the_largest_unit_that_divides_it(age: Any, spelled: str) -> None:
    assert StreamRetention(max_age=age).arguments() == {"x-max-age": spelled}


@pytest.mark.parametrize(
    "wrong",
    [
        *({"max_age": 0}, {"max_age": 0.5}, {"max_age": -1}, {"max_age": "7d"}, {"max_age": "7"}),
        *({"max_age": "0s"}, {"max_age": ""}, {"max_age": "7D\n"}, {"max_age": True}),
        *({"max_bytes": 0}, {"max_bytes": -1}, {"max_bytes": 1.5}, {"max_bytes": True}),
        *({"segment_bytes": 0}, {"segment_bytes": "1GB"}),
    ],
)
def test_limits_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: max_|^acemq: segment_"):
        StreamRetention(**wrong)
