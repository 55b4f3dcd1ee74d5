"""`mqflow redrive`, `capture` and `replay`: whole messages go back to their queues, into files and out of files."""

import json
from pathlib import Path

import pytest

from mqflow.app.captures import read_captures
from tests.cli.conftest import Run
from tests.cli.messages.conftest import DLQ

pytestmark = pytest.mark.usefixtures("dead")


def on(run: Run, queue: str) -> list[str]:
    return [json.loads(line)["body"] for line in run("browse", queue, "--json").stdout.splitlines()]


def whole(run: Run, queue: str) -> list[dict[str, object]]:
    return [json.loads(line)["descriptor"] for line in run("browse", queue, "--json").stdout.splitlines()]


def test_each_message_goes_back_to_its_original_queue(run: Run) -> None:
    result = run("redrive", DLQ, "--to", "origin")

    assert 1 == result.exit_code  # two messages stay
    assert ["one", "two"] == on(run, "ORDERS.IN")
    assert ["three", "four"] == on(run, DLQ)
    assert "The message does not name the queue that it came from" in result.stdout
    assert "MQRC_PUT_INHIBITED (2051)" in result.stdout


def test_only_the_header_of_the_first_move_is_removed(run: Run) -> None:
    before = whole(run, "ORDERS.BOQ")[0]

    assert 0 == run("redrive", "ORDERS.BOQ", "--to", "origin").exit_code

    [after] = whole(run, "ORDERS.IN")
    changed = {name for name in before if before[name] != after[name]}
    assert ({"format", "encoding"}, "MQSTR") == (changed, after["format"])
    assert ["five"] == on(run, "ORDERS.IN")


def test_where_and_limit_select_the_messages(run: Run) -> None:
    assert 0 == run("redrive", DLQ, "--to", "OTHER", "--where", "queue=ORDERS.*", "--limit", "1").exit_code

    assert ["one"] == on(run, "OTHER")


def test_a_cut_line_of_the_journal_damages_no_other_line(run: Run, tmp_path: Path) -> None:
    """A crash of the machine cut a line; the next line was appended to it, and both were lost."""
    (tmp_path / "moved.txt").write_text("0123456789abcdef\n01234")
    journal = ("--journal", "moved.txt")
    run("redrive", DLQ, "--to", "OTHER", *journal)
    run("redrive", "OTHER", "--to", DLQ)

    assert "has a move of the same MsgId and CorrelId already." in run("redrive", DLQ, "--to", "OTHER", *journal).stdout
    lines = (tmp_path / "moved.txt").read_text().split()
    assert ["0123456789abcdef", "01234"] == lines[:2]
    assert {16} == {len(line) for line in lines[2:]}


def test_a_file_that_is_not_a_journal_of_moves_is_not_changed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("milk, eggs\n")

    refused = run("redrive", DLQ, "--to", "OTHER", "--journal", "notes.txt")

    assert (2, True) == (refused.exit_code, "is not a journal of a redrive" in refused.stderr)
    assert "milk, eggs\n" == (tmp_path / "notes.txt").read_text()


def test_a_rate_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("mqflow.cli.messages.redrive.pause", pauses.append)

    assert 0 == run("redrive", DLQ, "--to", "OTHER", "--rate", "2/h").exit_code

    assert [0, 1_800, 3_600, 5_400] == [round(pause, -1) for pause in pauses]  # the pauses take no time in this test


def test_with_the_setting_each_moved_message_has_a_record(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 == run("mqsc", stdin="DEFINE QLOCAL(MQFLOW.DISPOSITION)").exit_code
    monkeypatch.setenv("MQFLOW_DISPOSITION_QUEUE", "MQFLOW.DISPOSITION")

    result = run("redrive", DLQ, "--to", "origin", "--id", "MONDAY")

    records = [json.loads(text) for text in on(run, "MQFLOW.DISPOSITION")]
    assert [("redriven", "ORDERS.IN", "MONDAY")] * 2 == [(one["outcome"], one["queue"], one["redrive_id"]) for one in records]
    assert "in the records is MONDAY" in result.stderr


def test_without_the_queue_for_records_the_messages_move_and_a_warning_says_so(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQFLOW_DISPOSITION_QUEUE", "MISSING")

    result = run("redrive", DLQ, "--to", "origin")

    assert ["one", "two"] == on(run, "ORDERS.IN")
    assert 1 == result.stderr.count("mqflow redrive: decisions are not recorded. MQPUT1 on MISSING")


# -- captures


def test_a_capture_is_put_back_as_it_was(run: Run) -> None:
    before = whole(run, DLQ)
    assert 0 == run("capture", DLQ, "--out", "dead.jsonl").exit_code
    assert 4 == len(on(run, DLQ))

    assert 0 == run("replay", "dead.jsonl", "--to", "OTHER").exit_code

    assert before == whole(run, "OTHER")


def test_a_rules_table_is_tried_on_a_capture(run: Run, tmp_path: Path) -> None:
    run("capture", DLQ, "--out", "dead.jsonl")
    (tmp_path / "rules.tbl").write_text("ACTION(RETRY)")

    assert "put to ORDERS.IN of QM1 (2)" in run("dlq", "check", "rules.tbl", "--against", "dead.jsonl").stdout


def test_redacted_data_is_not_in_the_file(run: Run, tmp_path: Path) -> None:
    run("capture", DLQ, "--out", "dead.jsonl", "--redact", "body", "--redact", "put_application_name")

    captures = list(read_captures(tmp_path / "dead.jsonl"))
    assert [b"***", b"***", b"*****", b"****"] == [captured.message.body for captured in captures]
    assert {""} == {captured.descriptor.put_application_name for captured in captures}
    assert 2 == run("replay", "dead.jsonl", "--to", "OTHER").exit_code
    assert 0 == run("replay", "dead.jsonl", "--to", "OTHER", "--redacted").exit_code


def test_a_line_that_is_not_a_capture_is_an_error_with_its_number(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dead.jsonl").write_text('\n{"a": 1}\n')

    result = run("replay", "dead.jsonl", "--to", "OTHER")

    assert 2 == result.exit_code
    assert "line 2: it is not a captured message" in result.stderr


APP = """
from mqflow import App

app = App()


@app.listener("ORDERS.IN")
async def book(order: str) -> None:
    if order == "two":
        raise ValueError("no such order")
"""


def test_a_handler_gets_the_captured_messages(run: Run, tmp_path: Path) -> None:
    (tmp_path / "replayed_app.py").write_text(APP)
    run("redrive", DLQ, "--to", "origin")
    run("capture", "ORDERS.IN", "--out", "orders.jsonl")

    result = run("replay", "orders.jsonl", "--app", "replayed_app:app")

    assert 1 == result.exit_code
    first, second = (line.removesuffix("  ORDERS.IN") for line in result.stdout.splitlines() if not line.startswith(" "))
    assert [first, second] == [each.descriptor.message_id.hex() for each in read_captures(tmp_path / "orders.jsonl")]
    assert "no such order" in result.stdout.partition(second)[2]
    assert "1 of 2 messages handled, 1 failed." in result.stderr
    assert ["one", "two"] == on(run, "ORDERS.IN")


@pytest.mark.parametrize("where", [("--to", "OTHER"), ("--app", "replayed_app:app")])
def test_a_file_without_a_message_exits_with_3(run: Run, tmp_path: Path, where: tuple[str, str]) -> None:
    (tmp_path / "replayed_app.py").write_text(APP)
    (tmp_path / "empty.jsonl").write_text("\n")

    result = run("replay", "empty.jsonl", *where)

    assert 3 == result.exit_code
    assert "There is no message in empty.jsonl." in result.stderr
