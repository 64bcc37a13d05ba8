"""What a store finds when it is asked to claim a message."""

from __future__ import annotations

from enum import Enum


class Claim(Enum):
    """The outcome of one atomic step."""

    #: nobody had it, or its last holder's lease has run out: run the handler
    CLAIMED = "claimed"
    #: handled and confirmed: accept it without running anything
    DUPLICATE = "duplicate"
    #: another holds it and has not confirmed: put it back and look again later
    IN_PROGRESS = "in_progress"
