"""Messages that a pop gave out, lane by lane, until all of them are acknowledged.

Acknowledgements come in any order; a lane moves to the first message that has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.store import Fence


@dataclass(slots=True)
class Taken:
    """Messages of one lane under one lease.

    :ivar left: those that the lane has not moved past, in order
    :ivar acked: offsets of those among them that are acknowledged
    """

    fence: Fence
    lane: str
    token: str
    left: list[LogMessage]
    acked: set[int] = field(default_factory=set)

    def waits_for(self, message: LogMessage) -> bool:
        """Whether a message is one of these, and has not been acknowledged."""
        if message.token != self.token or message.offset in self.acked or not self.left:
            return False
        return self.left[0].offset <= message.offset

    def past(self, offsets: Collection[int]) -> list[LogMessage]:
        """The messages that the lane moves past when these are acknowledged as well."""
        moved: list[LogMessage] = []
        for message in self.left:
            if message.offset not in self.acked and message.offset not in offsets:
                break
            moved.append(message)
        return moved

    def ack(self, offsets: Iterable[int], moved: int) -> None:
        """Notes that these were acknowledged, and that the lane has moved past so many."""
        self.acked.update(offsets)
        for message in self.left[:moved]:
            self.acked.discard(message.offset)
        del self.left[:moved]


def windows_of(messages: Sequence[LogMessage]) -> list[str]:
    """Ids of the closed windows among messages."""
    return [each.record.window.id for each in messages if each.record.window is not None]
