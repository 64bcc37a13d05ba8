"""Codecs: what they are, the ones that need nothing else, and their names.

A codec that may have to wait, such as a claim check, can have ``encode_async`` and
``decode_async`` besides: see :class:`Codec`. The async flavour awaits them, so that no store
holds the event loop.

A registry gives codecs names, for what is configured by text: a command line, a settings
file. The formats that are extras are known by name too, and imported when asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

from acemq_amqp.codecs import Codec
from acemq_amqp.codecs.bytes import BytesCodec
from acemq_amqp.codecs.composite import CompositeCodec
from acemq_amqp.codecs.json import JsonCodec
from acemq_amqp.codecs.text import TextCodec
from acemq_amqp.errors import ConfigurationError

__all__ = [
    "BytesCodec",
    "Codec",
    "CompositeCodec",
    "JsonCodec",
    "TextCodec",
    "codec_by_name",
    "codec_names",
    "register_codec",
]


def _extra(name: str, kind: str) -> Callable[[], Codec]:
    """A codec that needs a package which may not be installed."""

    def make() -> Codec:
        try:
            module = import_module(f"acemq_amqp.codecs.{name}")
        except ImportError as error:
            if error.name == f"acemq_amqp.codecs.{name}":
                raise ConfigurationError(
                    f"acemq: this version of acemq-amqp has no codec {name!r} of its own: "
                    f"register one with register_codec({name!r}, ...), or choose another"
                ) from error
            raise ConfigurationError(
                f"acemq: the codec {name!r} needs a package that is not installed ({error}): "
                f"pip install 'acemq-amqp[{name}]'"
            ) from error
        codec: Codec = getattr(module, kind)()
        return codec

    return make


# Each access is one step of a dict, so threads need no lock.
_makers: Final[dict[str, Callable[[], Codec]]] = {
    "json": JsonCodec,
    "text": TextCodec,
    "bytes": BytesCodec,
    "yaml": _extra("yaml", "YamlCodec"),
    "toml": _extra("toml", "TomlCodec"),
    "xml": _extra("xml", "XmlCodec"),
    "msgpack": _extra("msgpack", "MsgpackCodec"),
}


def register_codec(name: str, codec: Codec | Callable[[], Codec]) -> None:
    """Gives a codec a name. The name's former codec, if any, is replaced.

    :param name: case does not matter
    :param codec: a codec, shared by all who ask; or what makes one, such as its class
    :raises ConfigurationError: an empty name, or neither a codec nor callable
    """
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"acemq: a codec cannot be registered as {name!r}: give a name")
    maker = _maker(name, codec)
    _makers[_key(name)] = maker


def codec_by_name(name: str) -> Codec:
    """The codec of that name.

    :raises ConfigurationError: none is registered under it, or its package is not installed
    """
    maker = _makers.get(_key(name))
    if maker is None:
        raise ConfigurationError(
            f"acemq: there is no codec named {name!r}: register it, or choose from "
            f"{', '.join(codec_names())}"
        )
    return maker()


def codec_names() -> tuple[str, ...]:
    """The names of all codecs, sorted; those of extras too, installed or not."""
    return tuple(sorted(_makers))


def _maker(name: str, codec: Codec | Callable[[], Codec]) -> Callable[[], Codec]:
    if not isinstance(codec, type) and all(
        hasattr(codec, member) for member in ("encode", "decode", "can_decode", "content_type")
    ):
        shared: Codec = codec  # type: ignore[assignment]
        return lambda: shared
    if callable(codec):
        return codec
    raise ConfigurationError(
        f"acemq: what is registered as {name!r} is no codec: give one, or what makes one"
    )


def _key(name: str) -> str:
    return name.strip().lower()
