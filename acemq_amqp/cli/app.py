"""The command put together of its groups, and what becomes of an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from acemq_amqp.cli import claims, demo, dlq, doctor, groups, outbox, schema
from acemq_amqp.cli.outcomes import INTERRUPTED, USAGE, WRONG, complain, exit_code_of
from acemq_amqp.cli.printing import log_to_stderr

app = typer.Typer(
    name="acemq",
    help="Looks after queues, outboxes, event logs and claim checks of acemq-amqp.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command(name="demo")(demo.demo)
app.command(name="doctor")(doctor.doctor)
app.command(name="schema")(schema.schema)
app.add_typer(dlq.app, name="dlq")
app.add_typer(outbox.app, name="outbox")
app.add_typer(claims.app, name="claims")
app.add_typer(groups.app, name="groups")


@app.callback()
def common(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print the log too.")] = False,
) -> None:
    """Looks after queues, outboxes, event logs and claim checks of acemq-amqp."""
    log_to_stderr(verbose)


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; its exit code. Whatever fails is told in one line."""
    return told(lambda: app(args=arguments, prog_name="acemq", standalone_mode=False))


def told(call: Callable[[], Any]) -> int:
    """The exit code of a call that may fail."""
    try:
        code = call()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # who read has gone, such as head; Python would complain at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG
    except Exception as failure:
        return _usage(failure) if hasattr(failure, "format_message") else _failed(failure)


def _usage(failure: Any) -> int:
    """Typer's own: it knows what is wrong with the words, and where."""
    words = failure.format_message()
    if type(failure).__name__ == "NoArgsIsHelpError":
        print(words)
    elif words:
        complain(f"{words.rstrip('.')}; see acemq --help")
    return USAGE


def _failed(failure: Exception) -> int:
    if type(failure).__name__ == "Abort":  # a question that was answered with no, or Ctrl-C
        complain("nothing was done")
        return WRONG
    complain(str(failure) or type(failure).__name__)
    return exit_code_of(failure)
