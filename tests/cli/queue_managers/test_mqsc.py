"""`mqflow mqsc`: a file, stdin, exit codes, and the JSON for scripts."""

import json
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqflow.cli.main import main
from mqflow.cli.queue_managers.mqsc import _prompt
from mqflow.embedded.mqsc import Results
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, AttributeSpec
from mqflow.mqi.attributes.queue_manager import QUEUE_MANAGER_ATTRIBUTES
from mqflow.mqi.attributes.subscription import SUBSCRIPTION_ATTRIBUTES
from mqflow.mqi.attributes.topic import TOPIC_ATTRIBUTES
from tests.cli.conftest import Run


def test_a_file_is_run_and_its_definitions_stay(run: Run, tmp_path: Path) -> None:
    (tmp_path / "queues.mqsc").write_text("DEFINE QLOCAL('ORDERS.IN') BOTHRESH(3)\n")

    defined = run("mqsc", "queues.mqsc")

    assert 0 == defined.exit_code
    assert "BOTHRESH(3)" in run("mqsc", stdin="DISPLAY QLOCAL('ORDERS.IN') BOTHRESH").stdout


NOWHERE = (
    "AMQ8147: DELETE on NOWHERE (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085). "
    "Check the spelling and the case, or DEFINE it: QLOCAL(...), or TOPIC(...) for a topic object."
)
PING = "AMQ8415: Queue manager QM1 answers."


def test_a_command_that_fails_is_red_and_does_not_stop_the_next_and_the_exit_code_is_10(run: Run) -> None:
    script = "DELETE QLOCAL(NOWHERE)\nDEFINE QLOCAL('ORDERS.IN')\nPING NOTHING\nDEFINE COMMINFO(FAR)\n"

    result = CliRunner().invoke(main, ["mqsc"], input=script, color=True)

    said = (
        NOWHERE,
        "",
        "   PING NOTHING",
        "        ^",
        "AMQ8405: Syntax error in line 3, column 6: There is no PING NOTHING. PING takes CHANNEL, QMGR.",
        "DEFINE COMMINFO is a known MQSC command, not supported by the embedded queue manager yet: it is left out.",
    )
    lines = [f"\x1b[31m{line}\x1b[0m" if line else "AMQ8006: QLOCAL(ORDERS.IN) is defined.\x1b[0m" for line in said]
    lines += [
        "4 commands read.",
        "One command with a syntax error.",
        "One command could not be processed.",
        "One command not supported by the embedded queue manager yet: the script still defines its queues.",
    ]
    assert (10, lines) == (result.exit_code, result.stdout.splitlines())


def test_a_prompt_runs_each_command_when_it_is_complete_until_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)

    ended = run("mqsc", stdin="PING +\nQMGR\nDELETE QLOCAL(NOWHERE)\nEND\nPING QMGR\n")
    left = run("mqsc", stdin="PING QMGR")
    cut = run("mqsc", stdin="PING +\n")
    as_json = run("mqsc", "--json", stdin="DELETE QLOCAL(NOWHERE)")
    Path("ping.mqsc").write_text("PING QMGR")
    of_file = run("mqsc", "ping.mqsc", stdin="DELETE QLOCAL(NOWHERE)")

    assert (0, f"QM1> > {PING}\nQM1> {NOWHERE}\nQM1> ") == (ended.exit_code, ended.stdout)
    assert (0, f"QM1> {PING}\nQM1> \n") == (left.exit_code, left.stdout)
    assert (0, True) == (cut.exit_code, "The script ends, but '+' says that the command goes on." in cut.stdout)
    assert (0, "QM1> QM1> \n", f"{NOWHERE}\n") == (as_json.exit_code, as_json.stdout, as_json.stderr)
    assert PING == of_file.stdout.splitlines()[0]


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str | Callable[[], object]) -> None:
    """Let the terminal type these lines at the prompt. A function is called between two lines."""
    remaining = iter(lines)

    def read(_prompt: str) -> str:
        for line in remaining:
            if isinstance(line, str):
                return line
            line()
        raise EOFError

    monkeypatch.setattr("builtins.input", read)
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)


def test_a_prompt_connects_again_after_an_outage(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        queue_manager = stack.enter_context(EmbeddedQueueManager("QM1"))
        first = serve(queue_manager, tmp_path / "a.sock")
        typed(
            monkeypatch, "PING QMGR", first.close, "DEFINE QLOCAL(LOST)", "PING QMGR",
            lambda: stack.enter_context(closing(serve(queue_manager, tmp_path / "a.sock"))), "PING QMGR",
        )  # fmt: skip

        result = run("mqsc", "--url", f"embedded+unix:{tmp_path / 'a.sock'}?qmgr=QM1")

    before, lost, away, after = filter(None, result.stdout.splitlines())
    assert (0, PING, PING) == (result.exit_code, before, after)
    assert "(QM1) failed: MQRC_CONNECTION_BROKEN (2009)." in lost
    assert "MQCONNX (QM1) failed: MQRC_Q_MGR_NOT_AVAILABLE (2059)." in away


def test_a_prompt_ends_also_while_its_queue_manager_is_away(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        server = serve(queue_manager, tmp_path / "a.sock")
        typed(monkeypatch, server.close, "PING QMGR", "END", "PING QMGR")

        result = run("mqsc", "--json", "--url", f"embedded+unix:{tmp_path / 'a.sock'}?qmgr=QM1")

    assert (0, "", 1) == (result.exit_code, result.stdout, result.stderr.count("CONNECTION_BROKEN (2009)"))


def test_json_says_on_stderr_how_many_commands_a_lost_connection_left(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.cli.queue_managers.mqsc.run", lambda *_: Results((), not_run=2))

    assert "2 commands did not run, because the connection is lost.\n" == run("mqsc", "--json", stdin="PING QMGR").stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [(("nowhere.mqsc",), "Invalid value for FILE: there is no file 'nowhere.mqsc', and 'nowhere.mqsc' is not MODULE:APP."),
     (("--put", "Q"),
      "--user, --group, --get, --put, --publish, --request, --delay, --dead-letter-queue and --included need MODULE:APP.")],
)  # fmt: skip
def test_a_missing_file_and_options_without_an_application_are_wrong_usage(run: Run, words: tuple[str, ...], why: str) -> None:
    refused = run("mqsc", *words)

    assert (2, "", f"mqflow: {why}") == (refused.exit_code, refused.stdout, refused.stderr.splitlines()[-1])
    assert not Path("data").exists()


def test_a_text_that_is_not_utf_8_does_nothing(run: Run) -> None:
    refused = run("mqsc", stdin=b"DEFINE QLOCAL(A) DESCR('\xfc')")

    assert "The command did nothing" in refused.stderr
    assert not Path("data").exists()


def test_a_file_with_a_colon_in_its_name_is_a_file_and_not_an_application(run: Run) -> None:
    Path("today:orders").write_text("PING QMGR")

    assert [PING, "One command read."] == run("mqsc", "today:orders").stdout.splitlines()[:2]
    assert "there is no module today" in run("mqsc", "today:other").stderr


def test_unsupported_attributes_fail_only_with_strict(run: Run) -> None:
    script = "DEFINE COMMINFO('FAR')\n"

    assert 0 == run("mqsc", "-", stdin=script).exit_code
    assert 10 == run("mqsc", "--strict", stdin=script).exit_code


def test_json_prints_one_record_on_each_line_and_the_failures_on_stderr(run: Run) -> None:
    run("mqsc", stdin="DEFINE QLOCAL('ORDERS.IN') BOTHRESH(3)\nDEFINE QLOCAL('ORDERS.BOQ')")

    shown = run("mqsc", "--json", stdin="DISPLAY QLOCAL('ORDERS.*') BOTHRESH\nDELETE QLOCAL(NOWHERE)\nPING QMGR")

    records = [
        {"QUEUE": "ORDERS.BOQ", "TYPE": "QLOCAL", "BOTHRESH": 0},
        {"QUEUE": "ORDERS.IN", "TYPE": "QLOCAL", "BOTHRESH": 3},
    ]
    assert (10, records, f"{NOWHERE}\n") == (
        shown.exit_code,
        [json.loads(line) for line in shown.stdout.splitlines()],
        shown.stderr,
    )


def test_json_prints_no_control_characters_on_stderr(run: Run) -> None:
    refused = run("mqsc", "--json", stdin="DISPLAY QLOCAL('\x07')")

    assert (10, False) == (refused.exit_code, "\x07" in refused.stderr)


def test_json_names_attributes_that_are_left_out_on_stderr(run: Run) -> None:
    defined = run("mqsc", "--json", stdin="DEFINE QLOCAL('ORDERS.IN') INDXTYPE(NONE)")

    assert "Known to MQSC, not supported by the embedded queue manager yet, and left out: INDXTYPE.\n" == defined.stderr


def test_the_documentation_lists_every_attribute() -> None:
    page = (Path(__file__).parents[3] / "docs" / "mqsc.md").read_text()
    keywords = {spec.keyword for spec in (*QUEUE_ATTRIBUTES, *QUEUE_MANAGER_ATTRIBUTES)} - {"TYPE", "QUEUE"}

    assert [] == sorted(keyword for keyword in keywords if f"| `{keyword}` |" not in page)


@pytest.mark.parametrize(("noun", "attributes"), [("TOPIC", TOPIC_ATTRIBUTES), ("SUB", SUBSCRIPTION_ATTRIBUTES)])
def test_the_documentation_lists_every_attribute_of_topics_and_subscriptions(
    noun: str, attributes: tuple[AttributeSpec, ...]
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "mqsc.md").read_text()
    keywords = {spec.keyword for spec in attributes} - {noun}

    assert [] == sorted(keyword for keyword in keywords if f"| {noun} | `{keyword}` |" not in page)


def test_a_prompt_waits_for_the_rest_of_a_continued_command_and_not_of_a_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["* a comment +", "PING +", "* another", "  QMGR"])

    def read(_prompt: str) -> str:
        line = next(typed, None)
        if line is None:
            raise EOFError
        return line

    monkeypatch.setattr("builtins.input", read)

    assert ["* a comment +", "PING +\n* another\n  QMGR"] == list(_prompt("QM1"))


@pytest.mark.parametrize("from_file", [True, False])
def test_a_script_that_is_not_utf_8_is_refused_with_the_place(run: Run, tmp_path: Path, *, from_file: bool) -> None:
    script = b"DEFINE QLOCAL(FIRST)\nDEFINE QLOCAL(N) DESCR('gr\xfc\xdfe')\n"
    file = tmp_path / "old.mqsc"
    file.write_bytes(script)

    refused = run("mqsc", str(file)) if from_file else run("mqsc", stdin=script)

    assert 1 == refused.exit_code
    assert "is not UTF-8 in line 2, column 27 (byte 0xfc). The command did nothing" in refused.output
    assert "AMQ8147" in run("mqsc", stdin="DISPLAY QLOCAL(FIRST)").output
