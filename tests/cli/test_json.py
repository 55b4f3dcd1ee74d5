"""`--json`: one record on each line, identifiers in hexadecimal digits, and a page that names the records of each command."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from mqflow.cli.main import main
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence
from mqflow.testing.dead_letters import put_dead_letter
from tests.cli.conftest import Run

pytestmark = pytest.mark.usefixtures("dead")

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
DLQ = "DEAD.LETTERS"
IDENTIFIERS = [bytes([number]).hex() * 24 for number in (1, 2)]
APP = """
from mqflow import App, Reject
app = App()
@app.listener("ORDERS.IN")
async def book(body: bytes) -> None:
    if body == b"two":
        raise Reject("no such order")
"""


@pytest.fixture
def dead(run: Run, queues: None, tmp_path: Path) -> None:
    """Put a dead letter for ORDERS.IN, and one for a queue that refuses puts."""
    assert 0 == run("mqsc", stdin=f"DEFINE QLOCAL('{DLQ}')\nDEFINE QLOCAL('SHUT') PUT(DISABLED)").exit_code
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        connection = queue_manager.connect()
        for number, body, queue in ((1, b"one", "ORDERS.IN"), (2, b"two", "SHUT")):
            descriptor = MessageDescriptor(persistence=Persistence.PERSISTENT, message_id=bytes([number]) * 24)
            put_dead_letter(connection, DLQ, body, queue=queue, descriptor=descriptor)


def records(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def fields(result: Result, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(record.get(name) for name in names) for record in records(result)]


def test_redrive_has_a_record_for_each_message(run: Run) -> None:
    would = run("redrive", DLQ, "--to", "origin", "--dry-run", "--json")
    result = run("redrive", DLQ, "--to", "origin", "--json")

    assert ["would be moved", "would be moved"] == [record["result"] for record in records(would)]
    assert [(IDENTIFIERS[0], "ORDERS.IN", "moved", 0), (IDENTIFIERS[1], "SHUT", "stays", 2051)] == fields(
        result, "message_id", "to", "result", "reason"
    )
    assert 1 == result.exit_code


def test_the_dlq_handler_has_a_record_for_each_action_and_each_message_of_its_own(run: Run, tmp_path: Path) -> None:
    rules = tmp_path / "rules.tbl"
    rules.write_text("WAIT(NO)\nDESTQ(SHUT) ACTION(FWD) FWDQ(SHUT) HEADER(NO)\nACTION(RETRY)\n")

    result = run("dlq", "run", DLQ, "--rules", str(rules), "--json")

    assert ["AMQ8708", "AMQ8709"] == [record["number"] for record in records(result) if record["kind"] == "message"]
    actions = [record for record in records(result) if record["kind"] == "action"]
    assert {(IDENTIFIERS[0], 0), (IDENTIFIERS[1], 2051)} == {(record["message_id"], record["reason"]) for record in actions}


def test_the_check_of_rules_has_records_of_findings_and_of_each_rule(run: Run, tmp_path: Path) -> None:
    rules, wrong = tmp_path / "rules.tbl", tmp_path / "wrong.tbl"
    rules.write_text("DESTQ(SHUT) ACTION(FWD) FWDQ(NO.SUCH)\nACTION(RETRY)\nDESTQ(X) ACTION(DISCARD)\n")
    wrong.write_text("ACTION(WOMBAT)\n")

    found = run("dlq", "check", str(rules), "--against", DLQ, "--each", "--json")
    refused = run("dlq", "check", str(wrong), "--json")

    assert ["finding", "letter", "letter", "rule", "rule", "rule", "no MQDLH", "target"] == [
        record["kind"] for record in records(found)
    ]
    assert IDENTIFIERS == [record["message_id"] for record in records(found) if record["kind"] == "letter"]
    assert (1, [("error", 1, 8)]) == (refused.exit_code, fields(refused, "kind", "line", "column"))


def test_capture_and_replay_have_records(run: Run, tmp_path: Path) -> None:
    (tmp_path / "replayed_shop.py").write_text(APP)

    captured = run("capture", DLQ, "--out", "file.jsonl", "--json")
    replayed = run("replay", "file.jsonl", "--app", "replayed_shop:app", "--queue", "ORDERS.IN", "--json")
    put = run("replay", "file.jsonl", "--to", "ORDERS.IN", "--json")

    assert [(DLQ, 2, "file.jsonl")] == fields(captured, "queue", "messages", "file")
    assert [(IDENTIFIERS[0], "completed"), (IDENTIFIERS[1], "failed")] == fields(replayed, "message_id", "result")
    assert [(each, "ORDERS.IN", "put") for each in IDENTIFIERS] == fields(put, "message_id", "queue", "result")
    assert 2 == run("capture", DLQ, "--json").exit_code


def test_doctor_has_a_record_for_each_finding(run: Run) -> None:
    found = records(run("doctor", "--json"))

    assert {"Python", "mqflow", "queue manager", "warning"} <= {record["name"] for record in found}
    assert all(record["text"] for record in found)


def test_land_has_a_record_for_each_lane(run: Run) -> None:
    pytest.importorskip("pyarrow")
    assert 0 == run("mqsc", stdin="DEFINE QLOCAL('MQFLOW.JOURNAL.STATE') DEFPSIST(YES)").exit_code

    landed = run("land", DLQ, "--journal", "journal", "--once", "--json")

    assert [(DLQ, 2, 1)] == fields(landed, "lane", "rows", "segments")


def commands(group: click.Group, names: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield each command that is no group, with its name."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*names, name))
        else:
            yield " ".join((*names, name)), command


def test_the_page_names_each_command_with_json_and_no_other() -> None:
    with_json = {name for name, command in commands(main) if any("--json" in option.opts for option in command.params)}

    listed = {line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")}
    assert with_json == listed
