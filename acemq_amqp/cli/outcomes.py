"""Exit codes, and the one line in which an error is told."""

from __future__ import annotations

import os
import re
import sys
from typing import Final

from acemq_amqp.errors import ConfigurationError

DONE: Final = 0
WRONG: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130

#: A password in an address, up to the last @ before the host.
_PASSWORD: Final = re.compile(r"(?<=://)([^:/@\s'\"]*):[^\s/'\"]*@")


def exit_code_of(failure: Exception) -> int:
    """2 where the command itself has to be changed, else 1."""
    return USAGE if isinstance(failure, ConfigurationError) else WRONG


def complain(text: str) -> None:
    """Says in one line on stderr what is wrong."""
    print(f"acemq: {one_line(text).removeprefix('acemq: ')}", file=sys.stderr)


def one_line(text: str) -> str:
    """Text in one line, without passwords."""
    return " ".join(without_passwords(text).split())


def without_passwords(text: str) -> str:
    """Text without the passwords of addresses, and of those in the environment."""
    text = _PASSWORD.sub(r"\1:***@", text)
    secret = os.environ.get("PGPASSWORD", "")
    return text.replace(secret, "***") if len(secret) > 3 else text
