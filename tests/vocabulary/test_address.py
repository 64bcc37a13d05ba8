"""Addresses are read alike for both drivers, and no text ever shows a password."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp.address import Address, parse_address, parse_addresses
from acemq_amqp.errors import ConfigurationError

LOCAL = Address("amqp", "localhost", 5672)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("amqp://localhost", LOCAL),
        ("AMQP://localhost", LOCAL),
        ("amqp://localhost:5673", replace(LOCAL, port=5673)),
        ("amqp://localhost:", LOCAL),
        ("amqps://localhost", Address("amqps", "localhost", 5671)),
        ("amqp://localhost/", LOCAL),
        ("amqp://localhost/%2f", LOCAL),
        ("amqp://localhost/%2F", LOCAL),
        ("amqp://localhost//", LOCAL),
        ("amqp://localhost/shop", replace(LOCAL, vhost="shop")),
        ("amqp://localhost/a%2fb", replace(LOCAL, vhost="a/b")),
        ("amqp://localhost/a%20b", replace(LOCAL, vhost="a b")),
        ("amqp://u:p@localhost", replace(LOCAL, username="u", password="p")),
        ("amqp://u@localhost", replace(LOCAL, username="u", password="guest")),
        ("amqp://u:@localhost", replace(LOCAL, username="u", password="")),
        ("amqp://u:p%40%2f%3a%23@localhost", replace(LOCAL, username="u", password="p@/:#")),
        ("amqp://u:a:b@localhost", replace(LOCAL, username="u", password="a:b")),
        ("amqp://u:a@b@localhost", replace(LOCAL, username="u", password="a@b")),
        ("amqp://u:a+b@localhost", replace(LOCAL, username="u", password="a+b")),
        ("amqp://[::1]", replace(LOCAL, host="::1")),
        ("amqp://[fe80::1%25eth0]:5673", replace(LOCAL, host="fe80::1%eth0", port=5673)),
        ("amqp://10.0.0.1", replace(LOCAL, host="10.0.0.1")),
        ("amqp://localhost?heartbeat=5", replace(LOCAL, heartbeat=5)),
        ("amqp://localhost/?name=bill%20ing", replace(LOCAL, name="bill ing")),
        ("amqp://localhost/v?heartbeat=1&name=x", replace(LOCAL, vhost="v", heartbeat=1, name="x")),
        ("memory://tests", Address("memory", "tests", 0)),
        ("memory://a%2fb", Address("memory", "a/b", 0)),
    ],
)
def test_an_address_is_read(url: str, address: Address) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "amqp://"),
        ("localhost", "amqp://"),
        ("http://localhost", "amqp://"),
        ("rabbitmq://localhost", "amqp://"),
        ("amqp:localhost", "amqp://"),
        ("amqp://", "no host"),
        ("amqp://:5672", "no host"),
        ("amqp://u:p@", "no host"),
        ("amqp://localhost:abc", "port"),
        ("amqp://localhost:0", "port"),
        ("amqp://localhost:65536", "port"),
        ("amqp://localhost:-1", "port"),
        ("amqp://localhost:5672:5673", "colon"),
        ("amqp://::1", "brackets"),
        ("amqp://[::1", "brackets"),
        ("amqp://[::1]5672", "brackets"),
        ("amqp://[nonsense]", "IPv6"),
        ("amqp://local host", "white space"),
        (" amqp://localhost", "white space"),
        ("amqp://localhost\n", "white space"),
        ("amqp://local%20host", "no host"),
        ("amqp://u:100%@localhost", "%25"),
        ("amqp://localhost/%ff", "UTF-8"),
        ("amqp://localhost#x", "#"),
        ("amqp://localhost?heartbeat=0", "heartbeat"),
        ("amqp://localhost?heartbeat=65536", "heartbeat"),
        ("amqp://localhost?heartbeat=1.5", "heartbeat"),
        ("amqp://localhost?heartbeat=", "heartbeat"),
        ("amqp://localhost?heartbeat=5&heartbeat=6", "twice"),
        ("amqp://localhost?hartbeat=5", "did you mean heartbeat"),
        ("amqp://localhost?connection_name=x", "unknown parameter 'connection_name'"),
        ("amqp://localhost?colour=red", "unknown parameter 'colour'"),
        ("amqps://localhost?cafile=/x", "security="),
        ("amqps://localhost?no_verify_ssl=1", "security="),
        ("amqps://localhost?ssl_options=x", "security="),
        ("amqp://localhost?verify=0", "security="),
        ("memory://", "memory://NAME"),
        ("memory://a:1", "memory://NAME"),
        ("memory://u@a", "memory://NAME"),
        ("memory://a/v", "memory://NAME"),
    ],
)
def test_what_is_no_address_is_refused_with_its_reason(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: ") as caught:
        parse_address(url)
    assert said in str(caught.value)


_SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "url",
    [
        f"amqp://u:{_SECRET}",
        f"amqp://u:{_SECRET}@",
        f"amqp://u:{_SECRET}@h:port",
        f"amqp://u:{_SECRET}@h?hartbeat=1",
        f"amqp://u:{_SECRET}@h?cafile=1",
        f"amqp://u:{_SECRET}@h#x",
        f"amqp://u:a/{_SECRET}@h",
        f"amqp://u:a?{_SECRET}@h",
        f"amqp://u:a?{_SECRET}=1&b@h",
        f"amqp://u:a#{_SECRET}@h",
        f"amqp://u:{_SECRET}%@h",
        f"amqp://u:{_SECRET}%ff@h",
        f"amqp://u:{_SECRET}\u2100@[h",
        f"amqp://u:{_SECRET} @h",
        f"http://u:{_SECRET}@h",
        f"u:{_SECRET}@h",
        f"{_SECRET}://h",
        f"memory://u:{_SECRET}@h",
    ],
)
def test_no_error_shows_a_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_address(url)
    assert _SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_what_is_shown_has_no_password_and_is_an_address_again() -> None:
    address = parse_address("amqps://a%40b:s3cr3t@[::1]:99/%2f")
    assert _SECRET not in repr(address)
    assert _SECRET not in address.shown
    assert parse_address(address.shown) == replace(address, password="guest")
    assert parse_address("memory://x").shown == "memory://x"
    assert address.secure
    assert not LOCAL.secure


_any_text = st.text(st.characters(codec="utf-8"))


@given(_any_text, _any_text, _any_text.filter(bool))
def test_quoted_credentials_and_vhosts_come_back_equal(
    username: str, password: str, vhost: str
) -> None:
    user, secret, path = (quote(text, safe="") for text in (username, password, vhost))
    address = parse_address(f"amqp://{user}:{secret}@host/{path}")
    assert (address.username, address.password, address.vhost) == (username, password, vhost)


@given(st.text())
def test_any_text_is_an_address_or_refused(url: str) -> None:
    for candidate in (url, f"amqp://{url}"):
        try:
            parse_address(candidate)
        except ConfigurationError:
            continue


def test_one_url_or_several() -> None:
    assert parse_addresses("amqp://localhost") == (LOCAL,)
    assert parse_addresses(["amqp://a", "amqps://b"]) == (
        Address("amqp", "a", 5672),
        Address("amqps", "b", 5671),
    )


@pytest.mark.parametrize("urls", [[], ()])
def test_no_address_is_refused(urls: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="no broker address"):
        parse_addresses(urls)


def test_memory_beside_a_real_broker_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="mix"):
        parse_addresses(["memory://a", "amqp://b"])


@pytest.mark.parametrize("url", [None, 5, b"amqp://localhost"])
def test_what_is_no_text_is_refused(url: object) -> None:
    with pytest.raises(ConfigurationError, match="must be"):
        parse_addresses(url)  # type: ignore[arg-type]
