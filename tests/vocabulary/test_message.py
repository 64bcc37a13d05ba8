"""A message shows what arrived, and parses nothing before it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from acemq_amqp.envelope import Envelope
from acemq_amqp.message import Message


@dataclass
class Headers:
    told: dict[str, Any] = field(default_factory=dict)
    parsed: int = 0

    def values(self) -> Mapping[str, Any]:
        self.parsed += 1
        return self.told


@dataclass
class Properties:
    headers: Headers = field(default_factory=Headers)
    content_type: str | None = None
    message_id: str | None = None
    reply_to: str | None = None


@dataclass
class Arrived:
    properties: Properties = field(default_factory=Properties)
    exchange: str = "orders"
    routing_key: str = "order.created"
    redelivered: bool = False
    body: bytes = b"{}"


def arrived(headers: dict[str, Any] | None = None, **properties: Any) -> Message:
    source = Arrived(Properties(Headers(headers or {}), **properties))
    return Message.received("payload", source)


def test_a_handler_that_looks_at_no_header_pays_for_none() -> None:
    source = Arrived(Properties(Headers(), content_type="text/plain"), redelivered=True)
    message = Message.received({"a": 1}, source)
    assert message.payload == {"a": 1}
    assert (message.content_type, message.redelivered, message.body) == ("text/plain", True, b"{}")
    assert source.properties.headers.parsed == 0


def test_the_envelope_is_read_once() -> None:
    message = arrived({"x-acemq-attempt": 3, "tenant": "acme"})
    assert message.envelope is message.envelope
    assert message.envelope.attempt == 3
    assert message.headers == {"tenant": "acme"}
    assert message.envelope.type == "order.created"


def test_a_foreign_message_is_known_by_its_message_id() -> None:
    assert arrived(message_id="native").envelope.id == "native"


def test_a_made_up_id_stays_the_same() -> None:
    message = arrived()
    assert message.envelope.id == message.envelope.id


@pytest.mark.parametrize(
    ("headers", "exchange", "key"),
    [
        ({}, "orders", "order.created"),
        ({"x-acemq-exchange": "first", "x-acemq-routing-key": "k"}, "first", "k"),
        # from the default exchange, whose name is empty and so not written
        ({"x-acemq-routing-key": "orders"}, "", "orders"),
        # from a fanout exchange, with an empty key
        ({"x-acemq-exchange": "all"}, "all", ""),
        ({"x-acemq-exchange": b"first", "x-acemq-routing-key": None}, "first", ""),
    ],
)
def test_a_hop_does_not_hide_where_a_message_first_arrived(
    headers: dict[str, Any], exchange: str, key: str
) -> None:
    assert arrived(headers).exchange == exchange
    assert arrived(headers).routing_key == key
    assert arrived(headers).envelope.type == key


@pytest.mark.parametrize("content_type", [None, "", "application/json"])
def test_no_content_type_and_an_empty_one_are_kept_apart(content_type: str | None) -> None:
    assert arrived(content_type=content_type).content_type == content_type
    assert Message("p", content_type=content_type).content_type == content_type


@pytest.mark.parametrize(
    ("header", "native", "expected"),
    [("h", "n", "h"), (None, "n", "n"), ("", "n", "n"), (None, None, ""), (b"h", None, "h")],
)
def test_the_reply_address_is_the_header_first(header: Any, native: Any, expected: str) -> None:
    headers = {} if header is None else {"acemq-reply-to": header}
    assert arrived(headers, reply_to=native).reply_to == expected


def test_every_header_can_be_read_too() -> None:
    told = {"x-acemq-id": "i", "acemq-log-lane": "l", "tenant": "acme"}
    message = arrived(told)
    assert message.all_headers == told
    assert message.properties is not None


def test_by_hand_a_payload_is_enough() -> None:
    message = Message("payload")
    assert message.payload == "payload"
    assert message.envelope.attempt == 1
    assert (message.routing_key, message.exchange, message.reply_to) == ("", "", "")
    assert (message.content_type, message.redelivered, message.body) == (None, False, b"")
    assert message.headers == {}
    assert message.properties is None
    assert message.all_headers == message.envelope.to_headers()


def test_by_hand_headers_and_envelope_agree() -> None:
    assert Message("p", headers={"a": 1}).envelope.headers == {"a": 1}
    assert Message("p", Envelope(headers={"a": 1})).headers == {"a": 1}


def test_all_fields_go_by_position_as_documented() -> None:
    envelope = Envelope(id="i")
    message = Message("p", envelope, "key", "exchange", "text/plain", True, b"b", {"a": 1}, "back")
    assert message == Message(
        payload="p",
        envelope=envelope,
        routing_key="key",
        exchange="exchange",
        content_type="text/plain",
        redelivered=True,
        body=b"b",
        headers={"a": 1},
        reply_to="back",
    )


def test_a_received_message_equals_its_twin_by_hand() -> None:
    message = arrived({"x-acemq-id": "i", "x-acemq-first-seen": 0, "a": 1}, content_type="x/y")
    twin = Message("payload", message.envelope, "order.created", "orders", "x/y", body=b"{}")
    assert message == twin
    assert hash(message) == hash(twin)
    assert message != Message("other", message.envelope, "order.created", "orders", "x/y")
    assert message != "payload"


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Message("p").payload = "q"  # type: ignore[misc]


def test_repr_tells_which_message_and_nothing_of_what_it_holds() -> None:
    shown = repr(Message("secret", Envelope(id="i", type="Order"), "key", "ex", body=b"secret"))
    assert "secret" not in shown
    assert all(part in shown for part in ("'i'", "'Order'", "'key'", "'ex'", "6 bytes"))
