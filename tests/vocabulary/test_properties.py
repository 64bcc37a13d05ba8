"""Properties come back as they were written, and are read from any bytes."""

from __future__ import annotations

import struct
from typing import Any

import pamqp.commands
import pamqp.header
import pika.spec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.fieldtable import EMPTY_TABLE, HeaderTable
from acemq_amqp.properties import Properties

_texts = st.text(st.characters(codec="utf-8"), max_size=60)
_fields: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(Properties._fields, _texts) | {
    "headers": st.dictionaries(_texts.filter(lambda t: len(t.encode()) < 128), _texts).map(
        HeaderTable.of
    ),
    "delivery_mode": st.integers(0, 255),
    "priority": st.integers(0, 255),
    "timestamp": st.integers(0, 2**64 - 1),
}
_properties = st.fixed_dictionaries({}, optional=_fields).map(lambda some: Properties(**some))

EVERY = Properties(
    content_type="application/json",
    content_encoding="gzip",
    headers=HeaderTable.of({"a": "b", "n": 1}),
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="r",
    expiration="1000",
    message_id="m",
    timestamp=1_700_000_000,
    type="t",
    user_id="u",
    app_id="a",
    cluster_id="k",
)


@given(_properties)
def test_properties_come_back_equal(properties: Properties) -> None:
    assert Properties.decode(properties.encode()) == properties


def test_absent_and_empty_text_are_kept_apart() -> None:
    assert Properties.decode(Properties(content_type="").encode()).content_type == ""
    assert Properties.decode(Properties().encode()).content_type is None
    assert Properties().encode() == b"\x00\x00"
    assert Properties.decode(b"\x00\x00").headers is EMPTY_TABLE


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_read_without_an_error(raw: bytes) -> None:
    Properties.decode(raw)


@given(_properties, st.data())
def test_properties_cut_anywhere_keep_the_first_fields(
    properties: Properties, data: st.DataObject
) -> None:
    raw = properties.encode()
    cut = Properties.decode(raw[: data.draw(st.integers(0, len(raw)))])
    given_fields = [
        n for n in Properties._fields if getattr(properties, n) not in (None, EMPTY_TABLE)
    ]
    kept = [n for n in given_fields if getattr(cut, n) not in (None, EMPTY_TABLE)]
    assert kept == given_fields[: len(kept)]
    assert all(getattr(cut, name) == getattr(properties, name) for name in kept)


def test_text_that_is_not_utf8_is_read_with_replacement() -> None:
    assert Properties.decode(b"\x80\x00\x02\xffa").content_type == "\ufffda"


def test_further_flag_words_are_skipped() -> None:
    assert Properties.decode(b"\x80\x01\x00\x01\x00\x00\x01x").content_type == "x"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"message_id": "x" * 256}, "message_id.*256 bytes"),
        ({"correlation_id": "\u00e4" * 128}, "correlation_id.*256 bytes"),
        ({"reply_to": "\ud800"}, "reply_to"),
        ({"content_type": 5}, "content_type"),
        ({"priority": 256}, "priority"),
        ({"priority": -1}, "priority"),
        ({"delivery_mode": "2"}, "delivery_mode"),
        ({"timestamp": -1}, "timestamp"),
        ({"timestamp": 1.5}, "timestamp"),
        ({"headers": {"a": 1}}, "headers"),
    ],
)
def test_a_property_that_cannot_be_written_is_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Properties(**wrong).encode()


def test_text_of_255_bytes_travels() -> None:
    assert Properties.decode(Properties(message_id="x" * 255).encode()).message_id == "x" * 255


# ---------------------------------------------------------------- the drivers as witnesses


def test_pika_reads_every_property() -> None:
    read = pika.spec.BasicProperties()
    read.decode(EVERY.encode())
    for name in Properties._fields:
        expected = EVERY.headers.values() if name == "headers" else getattr(EVERY, name)
        assert getattr(read, name) == expected, name


def test_pika_writes_the_same_properties() -> None:
    fields = EVERY._asdict() | {"headers": dict(EVERY.headers.values())}
    raw = b"".join(pika.spec.BasicProperties(**fields).encode())
    read = Properties.decode(raw)
    assert read._replace(headers=EMPTY_TABLE) == EVERY._replace(headers=EMPTY_TABLE)
    assert read.headers.values() == EVERY.headers.values()


def test_pamqp_reads_every_property() -> None:
    header = pamqp.header.ContentHeader()
    header.unmarshal(struct.pack(">HHQ", 60, 0, 5) + EVERY.encode())
    read: Any = header.properties
    assert header.body_size == 5
    for name in set(Properties._fields) - {"headers", "timestamp", "type"}:
        assert getattr(read, name) == getattr(EVERY, name), name
    assert read.message_type == EVERY.type
    assert read.headers == EVERY.headers.values()
