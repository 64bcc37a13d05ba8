"""Where a broker is: one URL parser before both drivers.

The drivers read URLs differently (vhosts, special characters, query parameters that one
takes and the other ignores), so neither sees one. A URL is parsed here, strictly, because
a guess would turn into a refused login later. No text that leaves this module holds a
password, not even the errors about a URL that could not be understood.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import quote, unquote

from acemq_amqp.errors import ConfigurationError

Scheme = Literal["amqp", "amqps", "memory"]

DEFAULT_HEARTBEAT: Final = 60
_PORTS: Final[dict[Scheme, int]] = {"amqp": 5672, "amqps": 5671, "memory": 0}
_PARAMETERS: Final = ("heartbeat", "name")
_TLS: Final = re.compile(r"ssl|tls|cert|ca_?(file|path|data)|key_?file|verify|hostname|cipher")
_STRAY_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Address:
    """One broker, and as whom to log in. Its repr and :attr:`shown` never hold the password."""

    scheme: Scheme
    #: a name, an IPv4 or an IPv6 address without brackets; for ``memory`` the broker's name
    host: str
    port: int
    vhost: str = "/"
    username: str = "guest"
    password: str = field(default="guest", repr=False)
    #: seconds between signs of life, 1 to 65535
    heartbeat: int = DEFAULT_HEARTBEAT
    #: what the broker shows the connection as; empty for the connection's own name
    name: str = ""

    @property
    def secure(self) -> bool:
        """True where the connection is TLS."""
        return self.scheme == "amqps"

    @property
    def shown(self) -> str:
        """For logs and errors: the address without its password."""
        if self.scheme == "memory":
            return f"memory://{quote(self.host, safe='')}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        user, vhost = quote(self.username, safe=""), quote(self.vhost, safe="")
        return f"{self.scheme}://{user}@{host}:{self.port}/{vhost}"


def parse_addresses(url: str | Sequence[str]) -> tuple[Address, ...]:
    """One address or several, tried in this order.

    :raises ConfigurationError: none given, one not understood, or memory beside real ones
    """
    urls = (url,) if isinstance(url, str) or not isinstance(url, Sequence) else tuple(url)
    if not urls:
        raise ConfigurationError("acemq: no broker address was given; give at least one URL")
    addresses = tuple(map(parse_address, urls))
    if len({address.scheme == "memory" for address in addresses}) > 1:
        raise ConfigurationError(
            "acemq: the addresses mix memory:// with real brokers, and one connection cannot "
            "move between them; give one kind"
        )
    return addresses


def parse_address(url: str) -> Address:
    """Reads ``amqp(s)://user:password@host:port/vhost?heartbeat=60&name=billing`` or ``memory://name``.

    Every part may be percent-encoded. No credentials are guest and guest, no port is 5672 or
    5671, no path or ``/`` is the vhost ``/``, which may also be written ``%2f``. An IPv6 host
    stands in brackets.

    :raises ConfigurationError: what cannot be understood; the text never holds the password
    """
    if not isinstance(url, str):
        raise _wrong(f"must be str, not {type(url).__name__}")
    if any(character.isspace() or not character.isprintable() for character in url):
        raise _wrong("holds white space or a control character; percent-encode it")
    if _STRAY_PERCENT.search(url):
        raise _wrong("holds a % that starts no %xx; write a literal one as %25")
    scheme, rest = _scheme(url)
    main, _, query = rest.partition("?")
    authority, _, path = main.partition("/")
    # A raw / ? or # inside a password would cut the URL there, and show the rest as something else.
    if "@" in path or "@" in query or "#" in rest:
        raise _wrong(
            "has @ after its host, or #; percent-encode special characters of the user name, "
            "password and vhost (@ %40, / %2f, ? %3f, # %23)"
        )
    return (_memory if scheme == "memory" else _broker)(scheme, authority, path, _options(query))


def _wrong(what: str) -> ConfigurationError:
    return ConfigurationError(f"acemq: the broker address {what}")


def _scheme(url: str) -> tuple[Scheme, str]:
    name, found, rest = url.partition("://")
    for scheme in _PORTS:
        if found and name.lower() == scheme:
            return scheme, rest
    # The scheme is not quoted: without a proper one, anything may stand there.
    raise _wrong("must start with amqp://, amqps:// or memory://")


def _memory(scheme: Scheme, authority: str, path: str, options: Mapping[str, str]) -> Address:
    name = _decoded(authority, "name")
    if not name or "@" in authority or ":" in authority or path:
        raise _wrong("of a memory broker is memory://NAME, without login, port or vhost")
    heartbeat, shown_as = _heartbeat(options), options.get("name", "")
    return Address(scheme, name, _PORTS[scheme], heartbeat=heartbeat, name=shown_as)


def _broker(scheme: Scheme, authority: str, path: str, options: Mapping[str, str]) -> Address:
    login, _, place = authority.rpartition("@")
    username, has_password, password = login.partition(":")
    host, port = _place(place)
    return Address(
        scheme,
        host,
        _PORTS[scheme] if port is None else port,
        vhost=_decoded(path, "vhost") or "/",
        username=_decoded(username, "user name") if login else "guest",
        password=_decoded(password, "password") if has_password else "guest",
        heartbeat=_heartbeat(options),
        name=options.get("name", ""),
    )


def _decoded(text: str, part: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise _wrong(f"has a {part} that is not UTF-8 once percent-decoded") from None


def _place(place: str) -> tuple[str, int | None]:
    """Host and port; None is the scheme's own port."""
    if place.startswith("["):
        inner, closed, after = place[1:].partition("]")
        if not closed or (after and not after.startswith(":")):
            raise _wrong("has an IPv6 host whose brackets do not close before the port")
        host, port = _ipv6(_decoded(inner, "host")), after[1:]
    else:
        named, _, port = place.partition(":")
        host = _decoded(named, "host")
        if ":" in port or ":" in host:
            raise _wrong("has more than one colon after its login; an IPv6 host needs brackets")
    if not host or re.search(r"[\s/@\[\]?#]", host):
        raise _wrong("has no host, or one with characters that no host has")
    return host, _port(port) if port else None


def _ipv6(host: str) -> str:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise _wrong("has brackets around something that is no IPv6 address") from None
    return host


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65_535:
        return int(text)
    # Not quoted: where the host was forgotten, this is the password.
    raise _wrong("has a port that is not a number from 1 to 65535")


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        raw_name, _, value = pair.partition("=")
        name = _decoded(raw_name, "parameter")
        if name not in _PARAMETERS:
            raise _unknown_parameter(name)
        if name in options:
            raise _wrong(f"has the parameter {name} twice; give it once")
        options[name] = _decoded(value, "parameter")
    return options


def _unknown_parameter(name: str) -> ConfigurationError:
    if _TLS.search(name.lower()):
        return _wrong(
            f"has the TLS parameter {name!r}; write amqps:// and give TLS settings as "
            "connect(..., security=Security(...))"
        )
    near = difflib.get_close_matches(name.lower(), _PARAMETERS, n=1)
    known = f"did you mean {near[0]}?" if near else f"known are {' and '.join(_PARAMETERS)}"
    return _wrong(f"has an unknown parameter {name!r}; {known}")


def _heartbeat(options: Mapping[str, str]) -> int:
    text = options.get("heartbeat")
    if text is None:
        return DEFAULT_HEARTBEAT
    if text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65_535:
        return int(text)
    raise _wrong("has a heartbeat that is not whole seconds from 1 to 65535")
