"""Logins and where they are read from, and that nobody gets to see a password."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp import (
    ConfigurationError,
    Credentials,
    credentials_from_environment,
    credentials_from_file,
)

SECRET = "sesame-9"
NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)


def test_a_password_is_not_shown() -> None:
    credentials = Credentials("ann", SECRET, NOON)
    assert SECRET not in repr(credentials) + str(credentials)
    assert "ann" in repr(credentials)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"username": ""}, {"username": None}, {"username": "a\0b"}),
        *({"password": ""}, {"password": None}, {"password": b"raw"}, {"password": "a\0b"}),
        *({"expires_at": datetime(2030, 1, 1)}, {"expires_at": 3600}),
    ],
)
def test_a_login_that_cannot_be_sent_is_refused(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"username": "ann", "password": SECRET, **wrong}
    with pytest.raises(ConfigurationError, match=f"^acemq: .*{next(iter(wrong))}") as refused:
        Credentials(**given)
    assert SECRET not in str(refused.value)


# ---------------------------------------------------------------- environment


def test_the_environment_is_read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    source = credentials_from_environment()
    monkeypatch.setenv("AMQP_USERNAME", "ann")
    monkeypatch.setenv("AMQP_PASSWORD", "first")
    assert source() == Credentials("ann", "first")
    monkeypatch.setenv("AMQP_PASSWORD", "second")
    assert source() == Credentials("ann", "second")


def test_the_variables_may_have_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_USER", "ann")
    monkeypatch.setenv("BROKER_PASS", SECRET)
    assert credentials_from_environment("BROKER_USER", "BROKER_PASS")() == Credentials(
        "ann", SECRET
    )


@pytest.mark.parametrize("missing", ["AMQP_USERNAME", "AMQP_PASSWORD"])
@pytest.mark.parametrize("empty", [True, False])
def test_a_missing_variable_is_named(
    missing: str, empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMQP_USERNAME", SECRET)
    monkeypatch.setenv("AMQP_PASSWORD", SECRET)
    if empty:
        monkeypatch.setenv(missing, "")
    else:
        monkeypatch.delenv(missing)
    with pytest.raises(ConfigurationError, match=missing) as refused:
        credentials_from_environment()()
    assert SECRET not in str(refused.value)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ann\nsesame\n", Credentials("ann", "sesame")),
        ("ann\nsesame", Credentials("ann", "sesame")),
        ("ann\r\nsesame\r\n", Credentials("ann", "sesame")),
        ("\ufeffann\nsesame\n", Credentials("ann", "sesame")),
        ("ann\n  with blanks \n", Credentials("ann", "  with blanks ")),
        ('{"username": "ann", "password": "sesame"}', Credentials("ann", "sesame")),
        (
            '\n {"username": "ann", "password": "s", "host": "x", "expires_at": null}\n',
            Credentials("ann", "s"),
        ),
        (
            '{"username": "ann", "password": "s", "expires_at": "2030-01-31T12:00:00Z"}',
            Credentials("ann", "s", NOON),
        ),
    ],
)
def test_a_file_is_json_or_two_lines(tmp_path: Path, text: str, expected: Credentials) -> None:
    file = tmp_path / "login"
    file.write_bytes(text.encode())
    assert credentials_from_file(file)() == expected
    assert credentials_from_file(str(file))() == expected


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "login"
    source = credentials_from_file(file)
    file.write_text("ann\nfirst\n")
    assert source() == Credentials("ann", "first")
    file.write_text("bob\nsecond\n")
    assert source() == Credentials("bob", "second")


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"\n", SECRET.encode(), b"ann\n\n", f"\n{SECRET}\n".encode()),
        f"ann\n{SECRET}\nthird".encode(),
        *(b"{", f'{{"username": "ann", "password": "{SECRET}"'.encode()),
        *(f'{{"password": "{SECRET}"}}'.encode(), b'{"username": "ann", "password": 7}'),
        f'{{"username": "ann", "password": "{SECRET}", "expires_at": "{SECRET}"}}'.encode(),
        f'{{"username": "a", "password": "{SECRET}", "expires_at": "2030-01-01T00:00"}}'.encode(),
        f'{{"username": "ann", "password": "{SECRET}", "expires_at": 7}}'.encode(),
        SECRET.encode() + b"\n\xff\xfe",
    ],
)
def test_a_file_of_another_shape_is_refused_and_not_shown(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "login"
    file.write_bytes(text)
    with pytest.raises(ConfigurationError, match=r"^acemq: .*login") as refused:
        credentials_from_file(file)()
    error: BaseException | None = refused.value
    assert SECRET not in str(error)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere cannot be read \(No such file"):
        credentials_from_file(tmp_path / "nowhere")()


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1),
)
def test_what_two_lines_say_is_taken_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, username: str, password: str
) -> None:
    if username.lstrip().startswith("{") or username.startswith("\ufeff"):
        return
    file = tmp_path_factory.mktemp("login") / "login"
    file.write_bytes(f"{username}\n{password}\n".encode())
    assert credentials_from_file(file)() == Credentials(username, password)
