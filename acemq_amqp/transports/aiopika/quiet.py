"""What the driver logs of our connections is left out: the toolkit tells it itself, once.

A look-up that ran into its deadline is a warning of the driver's, and so is every call that was
cancelled, every alarm and every consumer that the broker ended. Other users of the driver on this
loop keep their log, and ours comes back where the driver's logger is set to DEBUG. Ours is what
happens in tasks that were begun in :func:`context`: a task hands its context on to those it begins.
"""

from __future__ import annotations

import contextvars
import logging

_OURS: contextvars.ContextVar[bool] = contextvars.ContextVar("acemq_driver", default=False)


class _OfOurs(logging.Filter):
    """Drops records of tasks that serve our connections."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _OURS.get() or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


_filter = _OfOurs()
#: made by the driver at the moment it has something to say
_LATE = "aiormq.connection.marshall"


def context() -> contextvars.Context:
    """For tasks whose driver is to be quiet; otherwise the caller's."""
    quiet = contextvars.copy_context()
    quiet.run(_OURS.set, True)
    return quiet


def quieten() -> None:
    """Sees to every logger that the driver has."""
    logging.getLogger(_LATE)
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("aiormq", "aio_pika"):
            logging.getLogger(name).addFilter(_filter)  # a second time changes nothing
