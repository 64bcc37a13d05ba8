"""What a hop changes of a message, rule by rule, and that it changes nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp.core.hops import first_place, hop_of
from acemq_amqp.core.ports import Arrival
from acemq_amqp.core.settlement import Hop
from acemq_amqp.properties import Properties
from tests.core.arrivals import arrival, envelope_of

ASIDE = Hop("q.dlq", "rejected", {"x-acemq-error": "no"})
RUNG = Hop("q.retry.1m", "retried", {"x-acemq-attempt": 2}, rung=60.0)
_DEATH = {"exchange": "shop", "routing-keys": ["k", "copy"], "queue": "q"}
WRITTEN = {
    "x-acemq-id": "m-1",
    "x-acemq-type": "order.placed",
    "x-acemq-first-seen": 1_700_000_000_000,
    "x-acemq-exchange": "events",
    "x-acemq-routing-key": "order.placed",
}


def hopped(arrived: Arrival, hop: Hop = ASIDE, login: str = "guest") -> tuple[Properties, Any]:
    outgoing = hop_of(arrived, envelope_of(arrived), hop, queue="q", login=login)
    assert (outgoing.exchange, outgoing.routing_key) == ("", hop.target)
    assert outgoing.body is arrived.body
    properties = Properties.decode(outgoing.properties)
    return properties, dict(properties.headers.values())


def test_every_property_travels() -> None:
    sent: dict[str, Any] = {
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "answers",
        "message_id": "m-1",
        "timestamp": 1,
        "type": "t",
        "user_id": "guest",
        "app_id": "erp",
        "cluster_id": "old",
    }
    properties, _ = hopped(arrival(delivery_mode=1, **sent))
    assert {name: getattr(properties, name) for name in sent} == sent


@pytest.mark.parametrize("mode", [None, 1, 2])
def test_a_hop_is_persistent(mode: int | None) -> None:
    assert hopped(arrival(delivery_mode=mode))[0].delivery_mode == 2


def test_the_first_hop_writes_identity_age_and_arrival() -> None:
    _, headers = hopped(arrival({"tenant": "north"}, message_id="m-1"))
    assert isinstance(headers.pop("x-acemq-first-seen"), int)
    wanted = {**WRITTEN, "tenant": "north", "x-acemq-error": "no"}
    del wanted["x-acemq-first-seen"]
    assert headers == wanted


def test_a_later_hop_keeps_what_the_first_one_wrote() -> None:
    arrived = arrival(dict(WRITTEN), message_id="m-1", exchange="", routing_key="q")
    _, headers = hopped(arrived, Hop("q", "retried", {"x-acemq-attempt": 3}))
    assert headers == {**WRITTEN, "x-acemq-attempt": 3}


def test_a_message_from_the_default_exchange_is_noted_too() -> None:
    _, headers = hopped(arrival({}, exchange="", routing_key="q"))
    assert headers["x-acemq-routing-key"] == "q"
    assert "x-acemq-exchange" not in headers  # empty texts are never written


def test_header_bytes_that_do_not_change_are_the_ones_that_came() -> None:
    arrived = arrival({"when": 2**40, "list": [1, 2.5], **WRITTEN}, message_id="m-1")
    properties, _ = hopped(arrived, Hop("q", "in_progress"))
    assert properties.headers.raw == arrived.properties.headers.raw


def test_an_expiration_is_taken_off_and_noted() -> None:
    properties, headers = hopped(arrival(expiration="60000"))
    assert properties.expiration is None
    assert headers["x-acemq-expiration"] == "60000"


@pytest.mark.parametrize(("login", "kept"), [("guest", True), ("other", False)])
def test_only_our_own_user_id_travels(login: str, kept: bool) -> None:
    properties, headers = hopped(arrival(user_id="guest"), login=login)
    assert properties.user_id == ("guest" if kept else None)
    assert headers.get("x-acemq-user-id") == (None if kept else "guest")


@pytest.mark.parametrize("name", ["CC", "BCC", "x-delivery-count", "x-acquired-count"])
def test_what_never_travels(name: str) -> None:
    _, headers = hopped(arrival({name: ["q2"], "kept": 1}))
    assert name not in headers and headers["kept"] == 1


def death(queue: str, **more: Any) -> dict[str, Any]:
    return {"queue": queue, "reason": "expired", "count": 1, **more}


_DEATHS: list[tuple[Any, Any]] = [
    ([death("q")], None),
    ([death("q"), death("other")], [death("other")]),
    ([death("other"), death("q", reason="delivery_limit")], [death("other")]),
    ([death("other")], [death("other")]),
    ([death("q.retry.1m")], [death("q.retry.1m")]),
    ([], []),
]


@pytest.mark.parametrize(("came", "goes"), _DEATHS)
def test_a_hop_into_a_rung_forgets_deaths_on_the_queue_it_returns_to(came: Any, goes: Any) -> None:
    _, headers = hopped(arrival({"x-death": came}), RUNG)
    assert headers.get("x-death") == goes


@pytest.mark.parametrize("came", [[1, "x"], [{"queue": 3}, death("q")], [{}], [{"reason": "x"}]])
def test_deaths_that_no_broker_wrote_do_not_go_into_a_rung(came: Any) -> None:
    """A broker that looks for the queue in each fails when the rung expires, and drops it."""
    _, headers = hopped(arrival({"x-death": came, "kept": 1}), RUNG)
    assert "x-death" not in headers and headers["kept"] == 1


@pytest.mark.parametrize("hop", [ASIDE, Hop("q", "retried", {"x-acemq-attempt": 2})], ids=str)
def test_deaths_travel_on_every_other_hop(hop: Hop) -> None:
    _, headers = hopped(arrival({"x-death": [death("q")]}), hop)
    assert headers["x-death"] == [death("q")]


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=20).filter(lambda name: not name.startswith("x-")),
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary(),
    ).filter(lambda headers: not {"CC", "BCC"} & set(headers))
)
def test_any_header_of_an_application_travels_in_place(headers: dict[str, Any]) -> None:
    _, after = hopped(arrival(headers))
    ours = {name: value for name, value in after.items() if not name.startswith("x-acemq-")}
    assert (ours, list(ours)) == (headers, list(headers))


@pytest.mark.parametrize(
    ("deaths", "place"),
    [
        (None, None),
        ("x", None),
        ([], None),
        (["x"], None),
        ([{"exchange": "shop"}], None),
        ([{"exchange": "shop", "routing-keys": []}], None),
        ([{"exchange": 1, "routing-keys": ["k"]}], None),
        ([{"exchange": "later", "routing-keys": ["l"]}, _DEATH], ("shop", "k")),
    ],
)
def test_a_first_death_tells_where_a_message_came_from(deaths: Any, place: Any) -> None:
    assert first_place({"x-death": deaths}) == place
