"""Which queues a message reaches."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp.core.ports import Confirmed, Refused
from acemq_amqp.errors import AccessRefused, DeclarationMismatch, NotFound
from acemq_amqp.transports.memory import MemoryBroker
from acemq_amqp.transports.memory.matching import topic_matches
from tests.transports.memory.harness import Client, bodies, drive

_WORDS = st.sampled_from(["a", "b", ""])
_PARTS = st.sampled_from(["a", "b", "", "*", "#"])


def _naive(pattern: tuple[str, ...], key: tuple[str, ...]) -> bool:
    """The rule as the specification says it, by trying everything."""
    if not pattern:
        return not key
    head, rest = pattern[0], pattern[1:]
    if head == "#":
        return any(_naive(rest, key[skip:]) for skip in range(len(key) + 1))
    return bool(key) and head in ("*", key[0]) and _naive(rest, key[1:])


@given(st.lists(_PARTS, max_size=6), st.lists(_WORDS, max_size=6))
def test_topics_match_as_trying_everything_does(parts: list[str], words: list[str]) -> None:
    pattern, key = ".".join(parts), ".".join(words)
    as_words = tuple(key.split(".")) if key else ()
    as_parts = tuple(pattern.split(".")) if pattern else ()
    assert topic_matches(pattern, key) == lru_cache(_naive)(as_parts, as_words)


# Each row as RabbitMQ 3.10.8 answered it.
@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("", [""]),
        ("#", ["", "a", "a.", ".", "a..b", "b.a", ".a"]),
        ("*", ["a"]),
        ("a.*", ["a."]),
        ("#.#", ["", "a", "a.", ".", "a..b", "b.a", ".a"]),
        ("*.#", ["a", "a.", ".", "a..b", "b.a", ".a"]),
        ("a..b", ["a..b"]),
        ("#.a", ["a", "b.a", ".a"]),
    ],
)
def test_topic_keys_with_empty_words(
    client: Client, broker: MemoryBroker, pattern: str, matched: list[str]
) -> None:
    client.exchange("x", "topic")
    client.queue("q")
    client.bind("q", "x", pattern)
    for key in ("", "a", "a.", ".", "a..b", "b.a", ".a"):
        client.publish(key, key, exchange="x")
    assert bodies(broker, "q") == matched


@pytest.mark.parametrize(
    ("arguments", "headers", "wanted"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": "1"}, {"a": b"1"}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2, "x-match": "any"}, {"a": 1}, True),
        ({"a": None, "x-match": "any"}, {"a": "whatever"}, True),
        ({}, {}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-a": 1}, {}, True),
        ({"x-a": 1, "x-match": "all-with-x"}, {}, False),
        ({"x-a": 1, "x-match": "any-with-x"}, {"x-a": 1}, True),
    ],
)
def test_headers_exchange(
    client: Client,
    broker: MemoryBroker,
    arguments: dict[str, Any],
    headers: dict[str, Any],
    wanted: bool,
) -> None:
    client.queue("q")
    client.bind("q", "amq.headers", arguments=arguments)
    outcome = client.publish("", "m", exchange="amq.headers", headers=headers)
    assert outcome == Confirmed() if wanted else not outcome.routed  # type: ignore[union-attr]
    assert broker.queue_depth("q") == int(wanted)


def test_an_unknown_match_is_refused(client: Client) -> None:
    client.queue("q")
    with pytest.raises(DeclarationMismatch, match="x-match"):
        client.bind("q", "amq.headers", arguments={"x-match": "most"})


def test_a_message_reaches_each_queue_once(client: Client, broker: MemoryBroker) -> None:
    client.exchange("x", "topic")
    client.queue("q")
    for key in ("a.#", "#.b", "a.b"):
        client.bind("q", "x", key)
    client.publish("a.b", "m", exchange="x")
    assert bodies(broker, "q") == ["m"]


def test_exchanges_lead_to_exchanges_and_circles_end(client: Client, broker: MemoryBroker) -> None:
    for name, kind in (("one", "fanout"), ("two", "direct"), ("three", "fanout")):
        client.exchange(name, kind)
    client.queue("q")
    client.bind("two", "one", to_exchange=True)
    client.bind("three", "two", "k", to_exchange=True)
    client.bind("one", "three", to_exchange=True)
    client.bind("q", "three")
    assert client.publish("k", "yes", exchange="one") == Confirmed()
    assert client.publish("z", "no", exchange="one") == Confirmed(False, "NO_ROUTE")
    assert bodies(broker, "q") == ["yes"]


def test_what_nobody_wants_goes_to_the_alternate_exchange(
    client: Client, broker: MemoryBroker
) -> None:
    client.exchange("spare", "fanout")
    client.exchange("x", "direct", arguments={"alternate-exchange": "spare"})
    for queue in ("q", "rest"):
        client.queue(queue)
    client.bind("q", "x", "k")
    client.bind("rest", "spare")
    client.publish("k", "wanted, and its copy is not", exchange="x", headers={"CC": ["z"]})
    client.publish("z", "unwanted", exchange="x")
    assert bodies(broker, "q") == ["wanted, and its copy is not"]
    assert bodies(broker, "rest") == ["unwanted"]


def test_a_route_is_forgotten_when_bindings_come_and_queues_go(
    client: Client, broker: MemoryBroker
) -> None:
    client.exchange("x", "direct")
    client.queue("q")
    assert client.publish("k", exchange="x") == Confirmed(False, "NO_ROUTE")
    client.bind("q", "x", "k")
    assert client.publish("k", exchange="x") == Confirmed()
    assert drive(client.link.delete_queue("q", None)) == 1
    assert client.publish("k", exchange="x") == Confirmed(False, "NO_ROUTE")
    client.queue("q")
    assert client.publish("k", exchange="x") == Confirmed(False, "NO_ROUTE"), "the binding went too"


def test_copies(client: Client, broker: MemoryBroker) -> None:
    for queue in ("to", "cc", "bcc"):
        client.queue(queue)
    client.publish("to", "m", headers={"CC": ["cc", "to"], "BCC": ["bcc", 1], "a": 1})
    for queue in ("to", "cc", "bcc"):
        (message,) = broker.messages(queue)
        assert message.routing_key == "to"
        assert dict(message.properties.headers.values()) == {"CC": ["cc", "to"], "a": 1}


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_copies_that_are_no_list_are_refused(client: Client, name: str) -> None:
    client.queue("q")
    outcome = client.publish("q", headers={name: "q"})
    assert isinstance(outcome, Refused) and outcome.code == 406 and name in outcome.reason


def test_auto_delete_exchanges_go_with_their_last_binding(client: Client) -> None:
    client.exchange("one", "fanout", auto_delete=True)
    client.exchange("two", "fanout", auto_delete=True)
    client.queue("q")
    client.bind("two", "one", to_exchange=True)
    client.bind("q", "two")
    drive(client.link.delete_queue("q", None))
    assert not drive(client.link.look_up_exchange("one", None))
    assert not drive(client.link.look_up_exchange("two", None))


@pytest.mark.parametrize(
    ("destination", "source", "to_exchange", "error"),
    [
        ("q", "missing", False, NotFound),
        ("missing", "amq.topic", False, NotFound),
        ("missing", "amq.topic", True, NotFound),
    ],
)
def test_bindings_between_what_is_not_there(
    client: Client, destination: str, source: str, to_exchange: bool, error: type[Exception]
) -> None:
    client.queue("q")
    with pytest.raises(error, match="missing"):
        client.bind(destination, source, to_exchange=to_exchange)


def test_names_that_belong_to_the_broker(client: Client) -> None:
    with pytest.raises(AccessRefused, match="reserved"):
        client.exchange("amq.mine", "direct")
    client.exchange("amq.direct", "direct")


def test_keys_and_headers_do_not_get_mixed_up_in_memory(
    client: Client, broker: MemoryBroker
) -> None:
    """Routes are remembered by key; where headers decide they must not be."""
    client.exchange("x", "fanout")
    client.exchange("h", "headers")
    client.bind("h", "x", to_exchange=True)
    client.queue("q")
    client.bind("q", "h", arguments={"a": 1})
    for a in itertools.islice(itertools.cycle([1, 2]), 4):
        client.publish("k", str(a), exchange="x", headers={"a": a})
    assert bodies(broker, "q") == ["1", "1"]
