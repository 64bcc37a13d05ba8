"""The command as a whole: its words, its exit codes, and how it tells an error."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from acemq_amqp.cli.options import duration
from acemq_amqp.cli.outcomes import one_line
from acemq_amqp.cli.printing import ago, clean
from acemq_amqp.errors import ConfigurationError
from tests.acceptance.programs import ROOT, run_python, surroundings
from tests.cli.conftest import Acemq
from tests.support.ports import free_port

PROGRAM = "import sys; from acemq_amqp.cli import main; sys.exit(main())"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("frob", "No such command 'frob'"),
        ("dlq list", "Missing argument 'QUEUE...'"),
        ("dlq show q.dlq --limit many", "Invalid value for '--limit'"),
        ("dlq replay q.dlq --deadline soon", "--deadline is 'soon': give a number with its unit"),
        ("outbox status", "which database? Give --database or set ACEMQ_DATABASE"),
        ("outbox status --database sqlite:////no/such.db", "no SQLite database '/no/such.db'"),
        ("outbox status --database mysql://root:geheim@h/db", "cannot connect to 'mysql:'"),
        ("claims sweep /tmp", "Missing option '--older-than'"),
        ("claims sweep /no/such --older-than 1d", "'/no/such' is no claim-check folder"),
        ("claims sweep ftp://u:geheim@h --older-than 1d", "ftp: is no claim-check store"),
        ("claims sweep /tmp --older-than 0s", "young payloads are in use"),
        ("schema cobol", "the stores speak no SQL for 'cobol'"),
        ("dlq purge orders -y", "no dead-letter queue, such as orders.dlq, nor a parking queue"),
        ("dlq park orders", "only dead letters are parked"),
        ("dlq replay orders", "say with --exchange or --routing-key"),
        ("doctor localhost", "the broker address must start with"),
    ],
)
def test_words_that_cannot_be_are_one_line_and_exit_2(acemq: Acemq, words: str, said: str) -> None:
    ended = acemq(*words.split())
    assert ended.code == 2
    assert ended.err.startswith("acemq: ") and ended.err.count("\n") == 1
    assert said in ended.err
    assert "geheim" not in ended.err + ended.out


FILTERS = ("error", "type", "id")
EMPTY = [
    *(f"dlq {verb} q.dlq --{each}" for verb in ("show", "replay", "park") for each in FILTERS),
    "dlq replay q.dlq --deadline",
    *(f"claims sweep /tmp --older-than 1d --{each}" for each in ("queue", "stream", "database")),
    "claims sweep /tmp --older-than 1d --database sqlite:///x --outbox-table",
]


@pytest.mark.parametrize("words", EMPTY)
def test_an_option_that_is_empty_is_refused_and_does_not_mean_all(acemq: Acemq, words: str) -> None:
    ended = acemq(*words.split(), "")
    assert ended.code == 2
    assert words.rpartition(" ")[2] in ended.err and "is " in ended.err


def test_it_runs_as_a_module_too() -> None:
    ended = run_python(["-m", "acemq_amqp.cli", "schema", "cobol"], surroundings(None))
    assert (ended.returncode, "no SQL for 'cobol'" in ended.stderr) == (2, True)


@pytest.mark.parametrize("words", [(), ("dlq",), ("outbox",), ("claims",)])
def test_without_a_command_it_lists_them_and_exits_2(acemq: Acemq, words: tuple[str, ...]) -> None:
    ended = acemq(*words)
    assert (ended.code, ended.err) == (2, "")
    assert "Commands:" in ended.out


@pytest.mark.parametrize("words", ["--help", "dlq --help", "dlq replay --help", "claims --help"])
def test_help_exits_0(acemq: Acemq, words: str) -> None:
    ended = acemq(*words.split())
    assert (ended.code, ended.err) == (0, "")
    assert "Usage: acemq" in ended.out


def test_every_command_that_the_readme_shows_is_there(acemq: Acemq) -> None:
    shown = re.findall(r"^acemq ([a-z]+(?: [a-z]+)?)", (ROOT / "README.md").read_text(), re.M)
    assert len(shown) >= 7
    for words in shown:
        command = words.split()[:1] if words.split()[0] in ("doctor", "schema") else words.split()
        assert acemq(*command, "--help").code == 0, words


def test_where_no_broker_is_it_says_so_in_a_line_without_the_password(acemq: Acemq) -> None:
    url = f"amqp://guest:geheim@127.0.0.1:{free_port()}/"
    ended = acemq("dlq", "list", "orders", "--url", url)
    assert ended.code == 1
    assert ended.err.startswith("acemq: cannot connect to amqp://guest@127.0.0.1:")
    assert ended.err.count("\n") == 1 and "geheim" not in ended.err


def test_without_the_extra_it_says_how_to_install_it() -> None:
    hidden = f"import sys; sys.modules['typer'] = None\n{PROGRAM}"
    ended = run_python(["-c", hidden, "--help"], surroundings(None))
    assert ended.returncode == 2
    assert ended.stderr == "acemq: the command needs typer: pip install 'acemq-amqp[cli]'\n"


def test_a_reader_that_leaves_is_no_traceback() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "schema", "postgresql"],
        cwd=ROOT,
        env=surroundings(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdout is not None and program.stderr is not None
        program.stdout.close()
        assert program.stderr.read() == ""


def test_the_schema_is_printed_for_one_table_or_all(acemq: Acemq) -> None:
    every = acemq("schema", "sqlite").out
    assert "CREATE TABLE acemq_outbox" in every and "CREATE TABLE acemq_claim_check" in every
    one = acemq("schema", "postgresql", "--table", "outbox=shop_outbox").out
    assert "CREATE TABLE shop_outbox" in one and "claim_check" not in one
    assert "BLOB" in acemq("schema", "--database", "sqlite:///x.db").out
    assert acemq("schema", "sqlite", "--table", "outbox").code == 2
    for name in ("", "a'b", "x; DROP TABLE y"):
        refused = acemq("schema", "sqlite", "--table", f"outbox={name}")
        assert (refused.code, refused.out) == (2, "")
        assert "cannot be the name of a table" in refused.err


@pytest.mark.parametrize(
    ("word", "seconds"),
    [("90s", 90), ("12h", 43200), ("30d", 2592000), ("1.5m", 90), ("250ms", 0.25), ("2w", 1209600)],
)
def test_durations_have_units(word: str, seconds: float) -> None:
    assert duration(word, "--x") == seconds


@pytest.mark.parametrize("word", ["", "90", "d", "-1d", "1y", "1 d"])
def test_a_duration_without_a_unit_is_refused(word: str) -> None:
    with pytest.raises(ConfigurationError, match="give a number with its unit"):
        duration(word, "--x")


def test_an_error_has_no_password_and_no_second_line() -> None:
    text = "acemq: a\nb postgresql://me:s3cr3t@h/db amqps://me:pä@ss@h"
    assert one_line(text) == "acemq: a b postgresql://me:***@h/db amqps://me:***@h"


def test_what_a_message_brings_does_not_command_the_terminal() -> None:
    assert clean("a\x1b[31mb\r\n") == "a\\x1b[31mb\\r\n"


@pytest.mark.parametrize(
    ("seconds", "told"), [(-1, "0s"), (59.9, "59s"), (150, "2m"), (9000, "2h"), (200000, "2d")]
)
def test_ages_are_short(seconds: float, told: str) -> None:
    assert ago(seconds) == told
