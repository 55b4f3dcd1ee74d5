"""`mqflow mqsc`: a file, stdin, exit codes, and the JSON for scripts."""

import json
from pathlib import Path

import pytest

from mqflow.cli.queue_managers.mqsc import _prompt
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


def test_a_command_that_fails_does_not_stop_the_next_and_the_exit_code_is_10(run: Run) -> None:
    result = run("mqsc", stdin="DELETE QLOCAL(NOWHERE)\nDEFINE QLOCAL('ORDERS.IN')\n")

    assert 10 == result.exit_code
    assert "QLOCAL(ORDERS.IN) is defined" in result.stdout


def test_a_syntax_error_is_shown_by_line_and_column_with_a_caret(run: Run) -> None:
    result = run("mqsc", stdin="DEFINE QLOCAL('Q')\nDEFINE QLOCALE('R')\n")

    assert 10 == result.exit_code
    assert "line 2, column 8" in result.stdout
    assert "          ^" in result.stdout


def test_unsupported_attributes_fail_only_with_strict(run: Run) -> None:
    script = "DEFINE COMMINFO('FAR')\n"

    assert 0 == run("mqsc", stdin=script).exit_code
    assert 10 == run("mqsc", "--strict", stdin=script).exit_code


def test_json_prints_one_record_on_each_line(run: Run) -> None:
    run("mqsc", stdin="DEFINE QLOCAL('ORDERS.IN') BOTHRESH(3)")

    shown = run("mqsc", "--json", stdin="DISPLAY QLOCAL('ORDERS.IN') BOTHRESH").stdout

    assert {"QUEUE": "ORDERS.IN", "TYPE": "QLOCAL", "BOTHRESH": 3} == json.loads(shown)


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
