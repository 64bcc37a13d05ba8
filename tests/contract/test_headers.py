"""Header values arrive equal, whichever flavour sent and received them; what cannot is refused."""

from __future__ import annotations

import enum
import uuid
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from acemq_amqp import ConfigurationError, Envelope, dead_letter_queue, fixed_retry, retry
from acemq_amqp.fieldtable import HeaderTable
from tests.contract.api import Api, arrived, holds
from tests.contract.seen import Seen, answering


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


_MOMENT = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
_UUID = uuid.UUID("12345678-1234-4234-8234-123456789abc")

#: every kind that may travel
KINDS: dict[str, Any] = {
    "text": "plain",
    "empty text": "",
    "unicode": "é€😀\x00",
    "long text": "x" * 10_000,
    "zero": 0,
    "negative": -1,
    "32 bits": 2**31 - 1,
    "64 bits": 2**63 - 1,
    "64 bits negative": -(2**63),
    "true": True,
    "false": False,
    "float": 1.5,
    "tiny float": 5e-324,
    "exact float": 0.1 + 0.2,
    "bytes": b"\x00\xff",
    "empty bytes": b"",
    "decimal": Decimal("-12.34"),
    "moment": _MOMENT,
    "epoch": datetime(1970, 1, 1, tzinfo=UTC),
    "none": None,
    "list": [1, "two", 3.5, None, [True, b"x"], {"deep": [_MOMENT]}],
    "empty list": [],
    "table": {"a": 1, "b": {"c": [Decimal("0.1")]}},
    "empty table": {},
    "é" * 63: "a long key",
}

#: what becomes of kinds that travel by their value
BY_VALUE: dict[str, tuple[Any, Any]] = {
    "uuid": (_UUID, str(_UUID)),
    "enum": (Colour.RED, "red"),
    "int enum": (Level.HIGH, 3),
    "other zone": (_MOMENT.astimezone(timezone(timedelta(hours=5))), _MOMENT),
}

#: what cannot travel
REFUSED: dict[str, Any] = {
    "naive moment": datetime(2026, 1, 1),
    "moment with fractions": _MOMENT.replace(microsecond=1),
    "moment before 1970": datetime(1969, 12, 31, tzinfo=UTC),
    "nan": float("nan"),
    "infinity": float("-inf"),
    "65 bits": 2**63,
    "long decimal": Decimal("12345678901.5"),
    "decimal nan": Decimal("nan"),
    "set": {1, 2},
    "tuple": (1, 2),
    "object": object(),
    "complex": 1j,
    "lone surrogate": "\ud800",
    "deep": {"in": {"the": [{"depth": {1}}]}},
}


def _same(one: Any, other: Any) -> bool:
    """Equal and of the same types, all the way down: 1, 1.0 and True are three values."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


@pytest.mark.parametrize("receiver", ["same flavour", "other flavour"])
async def test_every_kind_of_value_arrives_equal(api: Api, receiver: str) -> None:
    sender = await api.connect()
    mq = sender if receiver == "same flavour" else await api.connect_other()
    queue = await api.queue(mq)
    seen = Seen()
    await mq.consume(queue, seen)
    sent = {**KINDS, **{name: value for name, (value, _) in BY_VALUE.items()}}
    await sender.publisher("", queue).send(1, headers=sent)
    wanted = {**KINDS, **{name: value for name, (_, value) in BY_VALUE.items()}}
    received = dict((await seen.first()).headers)
    assert received.keys() == wanted.keys()
    assert [name for name in wanted if not _same(received[name], wanted[name])] == []


async def test_every_kind_of_value_survives_hops(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(3, 0.2).wait_in_broker_from(0.2))
    queue = await api.queue(mq)
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen)
    await mq.publisher("", queue).send(1, headers=KINDS)
    aside = await arrived(mq, dead_letter_queue(queue))
    assert seen.attempts == [1, 2, 3]
    for received in (*(message.headers for message in seen.messages), aside.headers):
        assert [name for name in KINDS if not _same(received[name], KINDS[name])] == []


@pytest.mark.parametrize("kind", list(REFUSED))
async def test_a_value_that_cannot_travel_is_refused_by_its_name(api: Api, kind: str) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue)
    with pytest.raises(ConfigurationError, match="culprit"):
        await publisher.send("before", headers={"fine": 1, "culprit": REFUSED[kind]})
    await publisher.send("after")
    assert (await arrived(mq, queue)).body == b'"after"'


async def test_a_key_over_127_bytes_is_refused(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(ConfigurationError, match="127"):
        await mq.publisher("", queue).send(1, headers={"k" * 128: 1})
    with pytest.raises(ConfigurationError):
        await mq.publisher("", queue).send(1, headers={1: 1})  # type: ignore[dict-item]
    await mq.publisher("", queue).send(1, headers={"k" * 127: 1})
    await holds(mq, queue, 1)


async def test_reserved_names_are_refused_by_name(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(ConfigurationError, match="x-acemq-attempt, x-acemq-mine"):
        headers = {"x-acemq-mine": 1, "x-acemq-attempt": 2, "fine": 3}
        await mq.publisher("", queue).send(1, headers=headers)
    with pytest.raises(ConfigurationError, match="x-acemq-id"):
        Envelope(headers={"x-acemq-id": "mine"})
    assert await mq.message_count(queue) == 0


async def test_a_header_of_a_newer_library_is_hidden_and_carried(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, 0))
    queue = await api.queue(mq)
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen)
    newer = {"x-acemq-lease": 7, "tenant": "north"}
    await api.publish_raw(queue, headers=HeaderTable.of(newer))
    aside = await arrived(mq, dead_letter_queue(queue))
    assert [dict(message.headers) for message in seen.messages] == [{"tenant": "north"}] * 2
    assert aside.headers["x-acemq-lease"] == 7


async def test_a_connection_s_codec_headers_and_envelope_headers_merge(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    envelope = Envelope(headers={"a": 1, "b": 1})
    await mq.publisher("", queue).send(1, envelope=envelope, headers={"b": 2})
    headers = (await arrived(mq, queue)).headers
    assert (headers["a"], headers["b"]) == (1, 2)
