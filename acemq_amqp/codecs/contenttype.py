"""Reading content types, as the codecs claim them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_CHARSET: Final = re.compile(r';\s*charset\s*=\s*(?:"([^"]*)"|([^;\s]*))', re.IGNORECASE)


def claims(content_type: str | None, prefixes: Iterable[str], containing: str = "") -> bool:
    """Whether a content type starts with one of the prefixes, or contains a text.

    Case does not matter. No content type, or an empty one, is claimed by none.

    :param prefixes: in lower case
    :param containing: in lower case, such as ``+json``; empty for none
    """
    if not content_type:
        return False
    told = content_type.lower()
    return told.startswith(tuple(prefixes)) or (bool(containing) and containing in told)


def charset_of(content_type: str | None, default: str = "utf-8") -> str:
    """The ``charset`` parameter of a content type."""
    told = _CHARSET.search(content_type or "")
    return (told[1] or told[2] or default) if told else default
