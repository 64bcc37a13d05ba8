"""Stores of programs that die at one step of their work, as losing power would."""

from __future__ import annotations

from typing import Any, Protocol

from acemq_stores import SqlOutboxStore


class Death(Protocol):
    """Who decides at which step a program dies."""

    def at(self, step: str) -> None:
        """Dies here, if this is the step."""


class DyingOutbox(SqlOutboxStore):
    """Dies around claiming and marking."""

    death: Death

    async def claim(self, relay: str, most: int) -> Any:
        claimed = await super().claim(relay, most)
        if claimed.rows:
            self.death.at("claimed")
        return claimed

    async def mark_published(self, relay: str, rows: Any) -> int:
        self.death.at("published")
        marked = await super().mark_published(relay, rows)
        self.death.at("marked")
        return marked
