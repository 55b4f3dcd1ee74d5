"""mqsc from the command line: a file, stdin, exit codes, and what scripts read."""

import json
from pathlib import Path

from mqflow.mqi.attributes import QUEUE_ATTRIBUTES, QUEUE_MANAGER_ATTRIBUTES
from tests.cli.conftest import Run


def test_a_file_is_carried_out_and_what_it_defined_is_there_for_the_next_command(run: Run, tmp_path: Path) -> None:
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


def test_what_is_not_supported_fails_only_if_strict(run: Run) -> None:
    script = "DEFINE CHANNEL('APP.SVRCONN') CHLTYPE(SVRCONN)\n"

    assert 0 == run("mqsc", stdin=script).exit_code
    assert 10 == run("mqsc", "--strict", stdin=script).exit_code


def test_json_prints_a_record_by_keyword_on_each_line(run: Run) -> None:
    run("mqsc", stdin="DEFINE QLOCAL('ORDERS.IN') BOTHRESH(3)")

    shown = run("mqsc", "--json", stdin="DISPLAY QLOCAL('ORDERS.IN') BOTHRESH").stdout

    assert {"QUEUE": "ORDERS.IN", "TYPE": "QLOCAL", "BOTHRESH": 3} == json.loads(shown)


def test_the_documentation_lists_every_attribute() -> None:
    page = (Path(__file__).parents[2] / "docs" / "mqsc.md").read_text()
    keywords = {spec.keyword for spec in (*QUEUE_ATTRIBUTES, *QUEUE_MANAGER_ATTRIBUTES)} - {"TYPE", "QUEUE"}

    assert [] == sorted(keyword for keyword in keywords if f"| `{keyword}` |" not in page)
