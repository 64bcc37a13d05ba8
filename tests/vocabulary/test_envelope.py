"""The envelope on the wire, row by row of the contract, and as a value."""

from __future__ import annotations

import copy
import pickle
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp.envelope import Envelope, fresh_id, new_headers
from acemq_amqp.errors import ConfigurationError
from tests.vocabulary.test_headers import ANYTHING

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
MOMENT_MS = 1_767_323_045_678
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


# ---------------------------------------------------------------- writing


def test_a_new_message_carries_exactly_what_is_always_written() -> None:
    before = now_ms()
    written = Envelope().to_headers("order.created")
    first_seen = written.pop("x-acemq-first-seen")
    assert before <= first_seen <= now_ms()
    assert UUID4.fullmatch(written["x-acemq-id"])
    assert written == {
        "x-acemq-id": written["x-acemq-id"],
        "x-acemq-type": "order.created",
        "x-acemq-version": 1,
        "x-acemq-correlation": written["x-acemq-id"],
        "x-acemq-attempt": 1,
    }


@pytest.mark.parametrize(
    ("type_", "key", "written"),
    [("Order", "key", "Order"), ("", "key", "key"), ("", "", "message")],
)
def test_the_type_falls_back_to_the_key_and_then_to_message(
    type_: str, key: str, written: str
) -> None:
    assert Envelope(type=type_).to_headers(key)["x-acemq-type"] == written


def test_every_field_has_its_header() -> None:
    envelope = Envelope(
        *("the-id", "Order", 3, "the-correlation", "the-cause", 2, MOMENT, "shop@host"),
        *("went wrong", "note", "a,b", 1, "run", {"tenant": "acme"}),
    )
    assert envelope.to_headers("ignored") == {
        "x-acemq-id": "the-id",
        "x-acemq-type": "Order",
        "x-acemq-version": 3,
        "x-acemq-correlation": "the-correlation",
        "x-acemq-causation": "the-cause",
        "x-acemq-attempt": 2,
        "x-acemq-first-seen": MOMENT_MS,
        "x-acemq-origin": "shop@host",
        "x-acemq-error": "went wrong",
        "x-acemq-claim": "note",
        "x-acemq-route": "a,b",
        "x-acemq-route-position": 1,
        "x-acemq-route-id": "run",
        "tenant": "acme",
    }


def test_a_route_is_written_with_its_position_0_and_a_fresh_run() -> None:
    written = Envelope(route="a,b").to_headers("k")
    assert written["x-acemq-route-position"] == 0
    assert UUID4.fullmatch(written["x-acemq-route-id"])


def test_without_a_route_there_is_nothing_of_one() -> None:
    written = Envelope(route_position=4, route_id="run").to_headers("k")
    assert not [name for name in written if "route" in name]


def test_the_headers_of_a_new_message_are_a_new_envelopes() -> None:
    for key, origin, own in [("", "", None), ("k", "shop@host", {"tenant": "acme"})]:
        fast = new_headers(key, origin, own)
        slow = Envelope(
            id=fast["x-acemq-id"],
            first_seen=Envelope.from_headers(fast).first_seen,
            origin=origin,
            headers=own or {},
        ).to_headers(key)
        assert fast == slow
        assert list(fast) == list(slow)
    with pytest.raises(ConfigurationError, match="x-acemq-id"):
        new_headers("k", headers={"x-acemq-id": "mine"})


def test_fresh_ids_are_random_uuids() -> None:
    ids = {fresh_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(UUID4.fullmatch(each) and UUID(each).version == 4 for each in ids)


# ---------------------------------------------------------------- reading


def test_a_foreign_message_reads_as_the_defaults() -> None:
    before = now_ms()
    envelope = Envelope.from_headers({}, "order.created")
    assert UUID4.fullmatch(envelope.id)
    assert before <= envelope.first_seen.timestamp() * 1000 <= now_ms()
    assert envelope == Envelope(
        id=envelope.id, type="order.created", first_seen=envelope.first_seen
    )


def test_no_headers_at_all_reads_like_empty_ones() -> None:
    assert Envelope.from_headers(None, "k", "m").headers == {}


@pytest.mark.parametrize(
    ("header", "message_id", "expected"),
    [
        *(("own", "native", "own"), (None, "native", "native"), ("", "native", "native")),
        *((b"own", "native", "own"), (5, "native", "5")),
    ],
)
def test_the_id_falls_back_to_the_message_id(header: Any, message_id: Any, expected: str) -> None:
    envelope = Envelope.from_headers({"x-acemq-id": header}, "k", message_id)
    assert envelope.id == envelope.correlation_id == expected


@pytest.mark.parametrize("message_id", [None, ""])
def test_the_id_falls_back_to_a_fresh_one(message_id: str | None) -> None:
    assert UUID4.fullmatch(Envelope.from_headers({}, "k", message_id).id)


@pytest.mark.parametrize("value", [None, "", b""])
def test_an_empty_type_reads_as_the_key_it_arrived_on(value: Any) -> None:
    assert Envelope.from_headers({"x-acemq-type": value}, "key").type == "key"
    assert Envelope.from_headers({"x-acemq-type": value}).type == ""


@pytest.mark.parametrize(
    "field", ["causation_id", "origin", "error", "claim", "route", "route_id", "correlation_id"]
)
@pytest.mark.parametrize(("value", "text"), [("a", "a"), (b"\xff", "\ufffd"), (5, "5")])
def test_texts_are_read_by_the_rules(field: str, value: Any, text: str) -> None:
    header = f"x-acemq-{field.removesuffix('_id').replace('_', '-')}"
    if field == "route_id":
        header = "x-acemq-route-id"
    assert getattr(Envelope.from_headers({header: value}), field) == text


@pytest.mark.parametrize("field", ["version", "attempt"])
@pytest.mark.parametrize(
    ("value", "number"),
    [(4, 4), ("4", 4), (b"4", 4), (0, 1), (-3, 1), (True, 1), ("x", 1), (None, 1), (1.0, 1)],
)
def test_numbers_from_one_are_read_by_the_rules(field: str, value: Any, number: int) -> None:
    assert getattr(Envelope.from_headers({f"x-acemq-{field}": value}), field) == number


@pytest.mark.parametrize(("value", "number"), [(0, 0), (2, 2), ("2", 2), (-1, 0), (True, 0)])
def test_the_route_position_counts_from_0(value: Any, number: int) -> None:
    assert Envelope.from_headers({"x-acemq-route-position": value}).route_position == number


@pytest.mark.parametrize("value", [MOMENT_MS, str(MOMENT_MS), str(MOMENT_MS).encode()])
def test_first_seen_is_read_from_milliseconds(value: Any) -> None:
    assert Envelope.from_headers({"x-acemq-first-seen": value}).first_seen == MOMENT


@pytest.mark.parametrize(
    "value", [None, True, "x", 2**62, -(2**62), 2**63 - 1, 10**30, 253_402_300_800_000, [1]]
)
def test_first_seen_that_makes_no_sense_is_now(value: Any) -> None:
    before = now_ms()
    envelope = Envelope.from_headers({"x-acemq-first-seen": value})
    assert before <= envelope.first_seen.timestamp() * 1000 <= now_ms()
    assert envelope.first_seen.tzinfo is UTC


@pytest.mark.parametrize("value", [0, -1, 253_402_300_799_999])
def test_first_seen_may_be_far_off(value: int) -> None:
    envelope = Envelope.from_headers({"x-acemq-first-seen": value})
    assert envelope.to_headers()["x-acemq-first-seen"] == value


def test_the_librarys_and_the_brokers_headers_are_hidden_and_newer_ones_carried() -> None:
    envelope = Envelope.from_headers(
        {
            "x-acemq-id": "i",
            "x-acemq-exchange": "orders",
            "x-acemq-deliveries": 2,
            "x-acemq-newer": "keep",
            "acemq-log-lane": "l",
            "acemq-log-window-end": 1,
            "tenant": "acme",
            "x-death": [{"queue": "q"}],
        }
    )
    assert envelope.headers == {"tenant": "acme"}
    assert envelope.carried == {"x-acemq-newer": "keep"}
    written = envelope.with_(attempt=2).to_headers("k")
    assert written["x-acemq-newer"] == "keep"
    assert written["tenant"] == "acme"
    assert "x-acemq-deliveries" not in written


@given(st.dictionaries(st.sampled_from(sorted(Envelope().to_headers())), ANYTHING), ANYTHING)
def test_reading_never_raises_and_can_be_written_again(headers: Any, message_id: Any) -> None:
    envelope = Envelope.from_headers(headers, "k", message_id)
    written = envelope.to_headers("k")
    assert envelope.attempt >= 1 <= envelope.version
    assert all(type(value) in (str, int) for value in written.values())
    assert envelope.age >= timedelta()
    assert Envelope.from_headers(written, "other") == envelope


TEXT = st.text(max_size=8)


@given(
    st.builds(
        Envelope,
        *(TEXT, TEXT, st.integers(1, 99), TEXT, TEXT, st.integers(1, 99)),
        st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC)),
        *(TEXT, TEXT, TEXT, TEXT, st.integers(0, 9), TEXT),
        st.dictionaries(TEXT, TEXT),
    )
)
def test_what_is_written_is_read_back(envelope: Envelope) -> None:
    read = Envelope.from_headers(envelope.to_headers("key"), "elsewhere", "native")
    kept = {} if envelope.route else {"route_position": 0, "route_id": ""}
    assert read == envelope.with_(type=envelope.type or "key", **kept)


# ---------------------------------------------------------------- as a value


@pytest.mark.parametrize(
    "wrong",
    [
        *({"attempt": 0}, {"attempt": -1}, {"attempt": True}, {"attempt": "2"}, {"version": 0}),
        *({"version": 1.0}, {"route_position": -1}, {"id": 5}, {"type": None}, {"error": b"x"}),
        *({"first_seen": datetime(2026, 1, 1)}, {"first_seen": 0}, {"headers": []}),
        *({"headers": {"x-acemq-foo": 1}}, {"headers": {5: 1}}, {"headers": None}),
        *({"carried": {"x-acemq-id": "i"}}, {"carried": {"tenant": "acme"}}),
        {"first_seen": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))},
    ],
)
def test_building_by_hand_is_strict(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: "):
        Envelope(**wrong)
    with pytest.raises(ConfigurationError, match=r"^acemq: "):
        Envelope().with_(**wrong)


def test_ids_may_be_given_as_uuids() -> None:
    id, cause = uuid4(), uuid4()
    envelope = Envelope(id=id, causation_id=cause)  # type: ignore[arg-type]
    assert (envelope.id, envelope.causation_id) == (str(id), str(cause))


def test_an_empty_id_is_a_fresh_one() -> None:
    assert UUID4.fullmatch(Envelope(id="").id)


def test_first_seen_is_kept_in_utc_and_whole_milliseconds() -> None:
    there = timezone(timedelta(hours=2))
    envelope = Envelope(first_seen=datetime(2026, 1, 2, 5, 4, 5, 678_999, tzinfo=there))
    assert envelope.first_seen == MOMENT
    assert envelope.first_seen.tzinfo is UTC
    assert Envelope(first_seen=MOMENT.replace(microsecond=678_999)).first_seen == MOMENT


def test_age_counts_from_first_seen_and_is_never_negative() -> None:
    hour = timedelta(hours=1)
    assert hour <= Envelope(first_seen=datetime.now(UTC) - hour).age < 2 * hour
    assert Envelope(first_seen=datetime.now(UTC) + hour).age == timedelta()


def test_with_changes_what_is_named_and_nothing_else() -> None:
    envelope = Envelope(type="Order", headers={"tenant": "acme"})
    changed = envelope.with_(attempt=2, error="late")
    assert (changed.attempt, changed.error) == (2, "late")
    assert changed.with_(attempt=1, error="") == envelope
    assert envelope.attempt == 1


def test_a_caused_message_is_new_and_tied_to_its_cause() -> None:
    cause = Envelope(
        *("i", "Order", 2, "talk", "earlier", 3, MOMENT),
        *("shop@host", "bad", "note", "a,b", 1, "run", {"tenant": "acme"}),
    )
    caused = cause.caused()
    assert caused == Envelope(
        id=caused.id, first_seen=caused.first_seen, correlation_id="talk", causation_id="i"
    )
    assert UUID4.fullmatch(caused.id)
    assert caused.first_seen > MOMENT
    assert cause.caused(type="Paid", headers={"a": 1}).headers == {"a": 1}


def test_an_envelope_cannot_be_changed() -> None:
    given_ = {"tenant": "acme"}
    envelope = Envelope(headers=given_)
    given_["tenant"] = "other"
    with pytest.raises(AttributeError):
        envelope.id = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        envelope.headers["tenant"] = "x"  # type: ignore[index]
    assert envelope.headers == {"tenant": "acme"}


def test_envelopes_can_be_hashed_copied_and_pickled() -> None:
    envelope = Envelope.from_headers({"x-acemq-newer": 1, "tenant": "acme", "x-acemq-attempt": 2})
    for twin in (
        copy.copy(envelope),
        copy.deepcopy(envelope),
        pickle.loads(pickle.dumps(envelope)),
    ):
        assert twin == envelope
        assert hash(twin) == hash(envelope)
        assert twin.carried == {"x-acemq-newer": 1}
    assert envelope != envelope.with_(attempt=3)
