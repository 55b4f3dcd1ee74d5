"""One rule for every command: an error is a sentence on stderr after `mqflow:`, with the exit code of its kind."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mqflow.cli.main import main
from mqflow.cli.text.exit_codes import EXIT_FAILED, EXIT_NOTHING, EXIT_USAGE
from mqflow.embedded.storage.sqlite_store import SqliteStore
from tests.cli.conftest import Run


def every_command() -> Iterator[tuple[str, ...]]:
    """Yield the words of each command; the commands of a group come with the name of the group."""
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        if isinstance(command, click.Group):
            # A group can have arguments before its commands: `mqflow ctl APP pause`.
            arguments = [each.human_readable_name for each in command.params if isinstance(each, click.Argument)]
            yield from ((name, *arguments, below) for below in command.commands)
        else:
            yield (name,)


TAKES_ANY_OPTION = ("standin", "run")  # they are options of the program


@pytest.mark.parametrize("words", [(), *(words for words in every_command() if words != TAKES_ANY_OPTION)], ids=" ".join)
def test_an_unknown_option_is_printed_like_every_error(run: Run, words: tuple[str, ...]) -> None:
    result = run(*words, "--wombat")

    usage, _, printed = result.stderr.rstrip().rpartition("\n")
    assert EXIT_USAGE == result.exit_code
    assert f"Usage: main {' '.join(words)}".rstrip() in usage
    assert printed.startswith("mqflow: ")
    assert "--wombat" in printed
    assert "Error:" not in result.stderr


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        # Wrong arguments.
        ("wombat", EXIT_USAGE, "No such command 'wombat'."),
        ("put", EXIT_USAGE, "Missing argument 'QUEUE'."),
        ("get Q --wait soon", EXIT_USAGE, "'soon' is not a number."),
        ("delay cancel 12", EXIT_USAGE, "'12' is "),
        ("reason 99999", EXIT_USAGE, "'99999' is not a known reason code"),
        ("get Q --url http://example.com", EXIT_USAGE, "http"),
        ("run nowhere:app", EXIT_USAGE, "there is no module nowhere"),
        ("standin run -- no-such-program", EXIT_USAGE, "no-such-program cannot be run: No such file or directory."),
        # A named thing that is missing, exists already, or has another state. The command did nothing.
        ("get Q --url embedded:./dta", EXIT_USAGE, "there is no queue manager at dta yet"),
        ("qmgr create QM1 --data data", EXIT_USAGE, "data has a queue manager already"),
        ("qmgr start NONE", EXIT_USAGE, "There is no queue manager in NONE"),
        ("qmgr stop QM1 --data data", EXIT_USAGE, "QM1 in data is not active."),
        ("qmgr start OTHER --data data", EXIT_USAGE, "data holds the data of QM1, not of OTHER"),
        ("qmgr start QM1 --data data --listen 127.0.0.1:many", EXIT_USAGE, "QM1 did not start (exit code 2): "),
        ("journal show nowhere", EXIT_USAGE, "nowhere"),
        # A call that failed.
        ("get NOWHERE", EXIT_FAILED, "MQOPEN on NOWHERE (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085)."),
        ("mqsc latin1", EXIT_FAILED, "latin1 is not UTF-8 in line 1, column 1"),
        ("qmgr status --data here", EXIT_USAGE, "There is no queue manager in here"),
    ],
)
def test_an_error_is_a_sentence_with_an_exit_code(
    run: Run, queues: None, words: str, code: int, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "latin1").write_bytes(b"\xe9")
    (tmp_path / "here").mkdir()

    result = run(*words.split())

    last = result.stderr.rstrip().rpartition("\n")[2]
    assert code == result.exit_code, result.stderr
    assert last.startswith("mqflow: ")
    assert expected in last


@pytest.mark.parametrize("words", ["qmgr start QM1 --data data", "qmgr serve QM1 --data data"])
def test_an_active_queue_manager_is_not_started_again(
    run: Run, queues: None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.cli.processes.served_connections._OWNER_LOOKS", 0)
    monkeypatch.setattr("mqflow.app.channels.location._LOOKS", 0)
    owner = SqliteStore(tmp_path / "data")
    try:
        result = run(*words.split())
    finally:
        owner.close()

    assert EXIT_USAGE == result.exit_code
    assert result.stderr.startswith("mqflow: QM1 is active already, as process ")


@pytest.mark.parametrize(
    ("command", "extra"),
    [("get Q --url pymqi://mq.example:1414/QM1?channel=C", "pymqi"), ("get Q --url ibmmq://mq.example/QM1?channel=C", "ibmmq")],
)
def test_a_missing_package_is_wrong_usage(run: Run, monkeypatch: pytest.MonkeyPatch, command: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, extra, None)
    monkeypatch.setattr("mqflow.bindings.dialects.base.installed", lambda _: False)

    result = run(*command.split())

    assert EXIT_USAGE == result.exit_code, result.stderr
    assert f'mqflow: {extra} is not installed: pip install "mqflow[{extra}]".' in result.stderr


def test_an_empty_queue_is_not_an_error(run: Run, queues: None) -> None:
    result = run("get", "ORDERS.IN")

    assert EXIT_NOTHING == result.exit_code
    assert "mqflow:" not in result.stderr
