"""What a store finds when it is asked to claim a message, and how a claim is spoiled."""

from __future__ import annotations

from enum import Enum

from acemq_amqp.errors import ConfigurationError


class Claim(Enum):
    """The outcome of one atomic step."""

    #: nobody had it, or its last holder's lease has run out: run the handler
    CLAIMED = "claimed"
    #: handled and confirmed: accept it without running anything
    DUPLICATE = "duplicate"
    #: another holds it and has not confirmed: put it back and look again later
    IN_PROGRESS = "in_progress"


class TransactionEnded(ConfigurationError):
    """A handler ended the transaction that its message is claimed in, which is not its own.

    The message does not count as handled: it comes again, whatever was committed of the work.
    """
