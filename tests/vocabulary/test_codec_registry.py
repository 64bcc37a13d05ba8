"""Codecs by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acemq_amqp import codec
from acemq_amqp.codec import codec_by_name, codec_names, register_codec
from acemq_amqp.errors import ConfigurationError


@pytest.fixture(autouse=True)
def registry_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(codec, "_makers", dict(codec._makers))
    yield


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("json", codec.JsonCodec),
        ("text", codec.TextCodec),
        ("bytes", codec.BytesCodec),
        (" JSON ", codec.JsonCodec),
    ],
)
def test_the_ones_that_need_nothing_else(name: str, kind: type) -> None:
    assert isinstance(codec_by_name(name), kind)


def test_extras_are_known_by_name() -> None:
    assert {"yaml", "toml", "xml", "msgpack"} <= set(codec_names())


def test_names_are_sorted() -> None:
    assert list(codec_names()) == sorted(codec_names())


def test_an_unknown_name_tells_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"no codec named 'morse'.*json.*text"):
        codec_by_name("morse")


def test_an_extra_that_is_not_installed_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(codec, "import_module", missing)
    with pytest.raises(ConfigurationError, match=r"pip install 'acemq-amqp\[yaml\]'"):
        codec_by_name("yaml")


def test_an_extra_that_is_not_written_yet_is_not_told_to_be_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(codec, "import_module", missing)
    with pytest.raises(ConfigurationError, match=r"^acemq: this version .* no codec 'yaml'") as no:
        codec_by_name("yaml")
    assert "pip install" not in str(no.value)


def test_a_codec_is_shared_and_a_class_makes_one() -> None:
    own = codec.CompositeCodec(codec.TextCodec())
    register_codec("Own", own)
    assert codec_by_name("own") is own
    assert "own" in codec_names()
    register_codec("own", codec.BytesCodec)
    assert isinstance(codec_by_name("OWN"), codec.BytesCodec)


@pytest.mark.parametrize(
    ("name", "registered"),
    [("", codec.JsonCodec), (None, codec.JsonCodec), ("x", 5), ("x", "json")],
)
def test_what_is_no_codec_is_not_registered(name: Any, registered: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: "):
        register_codec(name, registered)
