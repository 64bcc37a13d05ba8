"""What the driver logs on our threads is left out: the toolkit tells it itself, once.

A lost connection is a page of errors and tracebacks in the driver's log, at every try again, and a
look-up of a queue that is not there is a warning. Other users of the driver in this process keep
their log; ours comes back where the driver's logger is set to DEBUG.
"""

from __future__ import annotations

import logging


class _OnOurThreads(logging.Filter):
    """Drops records of the I/O threads."""

    def filter(self, record: logging.LogRecord) -> bool:
        thread = record.threadName or ""
        ours = thread.startswith("acemq ") and thread.endswith(" I/O")
        return not ours or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


_filter = _OnOurThreads()


def quieten() -> None:
    """Sees to every logger that the driver has."""
    for name in list(logging.root.manager.loggerDict):
        if name == "pika" or name.startswith("pika."):
            logging.getLogger(name).addFilter(_filter)  # a second time changes nothing
