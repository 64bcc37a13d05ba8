"""What was put is what comes back: length and SHA-256, kept beside a payload."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from acemq_amqp.errors import FatalError

_TEXT: Final = re.compile(r"([0-9a-f]{64}) ([0-9]{1,19})\n?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Digest:
    """The fingerprint of a payload."""

    sha256: str
    length: int

    @classmethod
    def of(cls, content: bytes) -> Digest:
        """The digest of a payload."""
        return cls(hashlib.sha256(content).hexdigest(), len(content))

    @classmethod
    def parsed(cls, text: str) -> Digest | None:
        """A digest as ``str()`` writes it; None for anything else."""
        found = _TEXT.fullmatch(text)
        return None if found is None else cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.sha256} {self.length}"

    def check(self, content: bytes, key: str, place: str) -> None:
        """Compares a payload with what was put.

        :param place: the store, for the error
        :raises FatalError: it is another, or a part
        """
        found = Digest.of(content)
        if found == self:
            return
        what = (
            f"has {found.length} bytes and {self.length} were put"
            if found.length != self.length
            else "has the right length and other bytes than were put"
        )
        raise FatalError(
            f"acemq: the payload {key} in {place} {what}: it was damaged or replaced. Its message "
            "cannot be read; restore the payload, then replay the message"
        )


def without_digest(key: str, place: str) -> FatalError:
    """What is told where payloads without a digest are refused."""
    return FatalError(
        f"acemq: the payload {key} in {place} has no digest, and require_digest=True refuses to "
        "read it unverified: another library wrote it, or its digest was removed"
    )
