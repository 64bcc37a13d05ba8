"""As whom to log in, and where that is read from.

A source is a function that gives :class:`Credentials`. It is asked at every attempt to
connect, so a password that was changed takes effect without a restart; and again before
its credentials expire, so that a token is renewed on a connection that is open. No text
that leaves this module holds a password.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from acemq_amqp.errors import ConfigurationError, kind_of


@dataclass(frozen=True, slots=True)
class Credentials:
    """One login. Its repr never holds the password.

    :param username: for a broker that reads it from a token, any name
    :param password: the password, or the token itself
    :param expires_at: aware; the source is asked again in good time before, and the broker is
        given the new secret on every open connection
    :raises ConfigurationError: an empty user name or password, or a moment without a time zone
    """

    username: str
    password: str = field(repr=False)
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("username", "password"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value or "\0" in value:
                raise ConfigurationError(
                    f"acemq: the {name} of Credentials has to be a text of at least one character "
                    f"and none of them NUL; got {_kind(value)}"
                )
        moment = self.expires_at
        if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):
            raise ConfigurationError(
                "acemq: expires_at of Credentials has to be a datetime with a time zone, such as "
                f"datetime.now(UTC) + timedelta(hours=1); got {moment!r}"
            )


#: Gives the login of a connection about to be made; ``async def`` too in the async flavour. It
#: may be called from several threads at once.
CredentialsSource: TypeAlias = Callable[[], Credentials | Awaitable[Credentials]]


def credentials_from_environment(
    user: str = "AMQP_USERNAME", password: str = "AMQP_PASSWORD"
) -> Callable[[], Credentials]:
    """A source that reads two environment variables whenever it is asked.

    :param user: the variable that holds the user name
    :param password: the variable that holds the password
    :raises ConfigurationError: by the source, where one of them is not set or empty
    """

    def read() -> Credentials:
        return Credentials(_variable(user), _variable(password))

    return read


def credentials_from_file(path: str | os.PathLike[str]) -> Callable[[], Credentials]:
    """A source that reads a file whenever it is asked, so that a renewed file takes effect.

    The file is UTF-8, in one of two shapes. A JSON object with ``username`` and ``password``, and
    for a token ``expires_at``, written like ``2030-01-31T12:00:00Z``; other names are ignored. Or
    two lines, the user name and the password, taken as they are. What begins with ``{`` is JSON.

    :raises ConfigurationError: by the source, where the file cannot be read or has neither shape;
        the text never holds what is in the file
    """
    shown = os.fspath(path)

    def read() -> Credentials:
        text = _contents(shown)
        return _of_json(shown, text) if text.lstrip().startswith("{") else _of_lines(shown, text)

    return read


def _kind(value: Any) -> str:
    """What a value is, without the value."""
    if isinstance(value, str):
        return "one with NUL" if value else "an empty one"
    return kind_of(value)


def _variable(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ConfigurationError(
            f"acemq: the environment variable {name}, which holds the broker's credentials, is "
            "not set or empty; set it for this process"
        )
    return value


def _contents(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise _unusable(path, f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise _unusable(path, "is not UTF-8") from None


def _of_lines(path: str, text: str) -> Credentials:
    lines = text.removesuffix("\n").split("\n")
    if len(lines) != 2 or not all(lines):
        raise _unusable(path, f"has {len(lines)} lines, or an empty one")
    username, password = lines
    return Credentials(username, password)


def _of_json(path: str, text: str) -> Credentials:
    # Errors are not chained: what they show of the text may be the password.
    try:
        values = json.loads(text)
    except ValueError:
        raise _unusable(path, "begins with { and is not JSON") from None
    username, password = values.get("username"), values.get("password")
    if not (isinstance(username, str) and username and isinstance(password, str) and password):
        raise _unusable(path, "has no texts under username and password")
    return Credentials(username, password, _moment(path, values.get("expires_at")))


def _moment(path: str, value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise _unusable(path, "has an expires_at that is no ISO 8601 date and time") from None
    if moment.utcoffset() is None:
        raise _unusable(path, "has an expires_at without a time zone")
    return moment


def _unusable(path: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"acemq: the credentials file {path} {what}; it has to be a JSON object with username and "
        "password, or two lines, the user name and the password"
    )
