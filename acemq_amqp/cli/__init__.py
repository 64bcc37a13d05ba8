"""The command ``acemq``: for operators. ``acemq --help`` lists what it does.

Exit codes: 0 done, 1 something is wrong, 2 the command cannot be carried out as it is written. An
error is one line that begins with ``acemq:``; where a script reads, ``--json`` gives data.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

_OURS = frozenset({"typer", "rich", "click"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; its exit code."""
    try:
        from acemq_amqp.cli.app import run
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _OURS:
            raise
        print(
            f"acemq: the command needs {missing.name}: pip install 'acemq-amqp[cli]'",
            file=sys.stderr,
        )
        return 2
    return run(arguments)
