"""`mqflow edit`: one message in an editor, checked, and put back as exactly one copy whatever fails."""

import json
import os
import stat
from pathlib import Path

import click
import pytest
from msgspec.structs import replace

from mqflow.app.run.decision_ledger import LEDGER_FILE, story
from mqflow.cli.messages.edit import move_edited
from mqflow.events import Edited
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE, RecordOutcome, from_bytes
from mqflow.runtime.dead_letters.redriver import Target
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.verbs import GetOptions
from mqflow.world import World
from tests.cli.conftest import Run
from tests.cli.messages.conftest import ORDER

APP = """
import msgspec
from mqflow import App
app = App()
class Order(msgspec.Struct):
    number: int
@app.listener("ORDERS.IN")
async def book(order: Order) -> None: ...
"""


def bodies(run: Run, queue: str) -> list[str]:
    return [json.loads(line)["body"] for line in run("browse", queue, "--json").stdout.splitlines()]


def test_an_edited_message_is_back_on_its_queue_and_its_story_names_the_person(
    run: Run, editor: None, poison: str, tmp_path: Path
) -> None:
    (tmp_path / "edited_shop.py").write_text(APP)
    [before] = [json.loads(line)["descriptor"] for line in run("browse", "ORDERS.BOQ", "--json").stdout.splitlines()]

    result = run("edit", "ORDERS.BOQ", poison[-12:], "--app", "edited_shop:app", "--json")

    assert 0 == result.exit_code, result.output
    moved = json.loads(result.stdout)
    assert (poison, "ORDERS.IN", 15, 13) == (moved["message_id"], moved["to"], moved["body_bytes_before"], moved["body_bytes"])
    assert ([], ['{"number": 7}']) == (bodies(run, "ORDERS.BOQ"), bodies(run, "ORDERS.IN"))
    [after] = [json.loads(line) for line in run("browse", "ORDERS.IN", "--json").stdout.splitlines()]
    kept = ("message_id", "user_identifier", "put_application_name", "put_date", "put_time", "priority", "correlation_id")
    assert [before[name] for name in kept] == [after["descriptor"][name] for name in kept]
    assert {} == after["properties"]
    assert f"{moved['by']} edited it on ORDERS.BOQ and put it on ORDERS.IN" in run("why", poison).stdout
    [entry] = story(tmp_path / "data" / LEDGER_FILE, bytes.fromhex(poison))
    assert isinstance(entry.event, Edited)
    assert [] == list(tmp_path.glob("mqflow-edit-*"))


def test_a_user_without_a_name_can_edit_a_message(run: Run, editor: None, poison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)

    moved = run("edit", "ORDERS.BOQ", poison, "--json")

    assert f"user {os.getuid()}@{os.uname().nodename}" == json.loads(moved.stdout)["by"]


def test_a_body_that_the_handler_does_not_take_stays_and_the_text_is_kept(
    run: Run, editor: None, poison: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "refused_shop.py").write_text(APP)
    monkeypatch.setenv("EDITOR", "sed -i s/number/name/")

    refused = run("edit", "ORDERS.BOQ", poison, "--app", "refused_shop:app")

    assert 1 == refused.exit_code
    assert "does not take it: " in refused.stderr
    assert (['{"number": "7"}'], []) == (bodies(run, "ORDERS.BOQ"), bodies(run, "ORDERS.IN"))
    [kept] = tmp_path.glob("mqflow-edit-*/*")
    assert str(kept) in refused.stderr
    assert ('{"name": "7"}', 0o700) == (kept.read_text(), stat.S_IMODE(kept.parent.stat().st_mode))


@pytest.mark.parametrize(
    ("editing", "code", "said"),
    [
        ("true", 3, "The text has not changed, so nothing was moved.\n"),
        ("exit 4; :", 1, "mqflow: The editor 'exit 4; :' ended with 4. Nothing was moved.\n"),
        ("no-such-editor", 1, "mqflow: The editor 'no-such-editor' ended with 127. Nothing was moved.\n"),
    ],
)
def test_without_an_edit_nothing_is_moved_and_no_file_is_left(
    run: Run, editor: None, poison: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, editing: str, code: int, said: str
) -> None:
    monkeypatch.setenv("EDITOR", editing)

    result = run("edit", "ORDERS.BOQ", poison)

    assert (code, "", said) == (result.exit_code, result.stdout, result.stderr)
    assert (1, []) == (len(bodies(run, "ORDERS.BOQ")), list(tmp_path.glob("mqflow-edit-*")))


def test_without_a_ledger_to_record_the_edit_nothing_is_moved(run: Run, editor: None, poison: str, tmp_path: Path) -> None:
    (tmp_path / "data" / LEDGER_FILE).write_bytes(b"no ledger" * 100)

    refused = run("edit", "ORDERS.BOQ", poison)

    assert (1, 1, []) == (refused.exit_code, len(bodies(run, "ORDERS.BOQ")), bodies(run, "ORDERS.IN"))
    assert "mqflow: The message is on ORDERS.BOQ, unchanged. The decision ledger data/" in refused.stderr
    assert "cannot be written: file is not a database. Repair" in refused.stderr


def test_a_disposition_queue_records_the_edit_if_the_ledger_cannot(
    run: Run, editor: None, poison: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("mqsc", stdin=f"DEFINE QLOCAL('{DISPOSITION_QUEUE}')")
    (tmp_path / "data" / LEDGER_FILE).write_bytes(b"no ledger" * 100)
    monkeypatch.setenv("MQFLOW_DISPOSITION_QUEUE", DISPOSITION_QUEUE)

    moved = run("edit", "ORDERS.BOQ", poison)

    assert (0, 1) == (moved.exit_code, len(bodies(run, DISPOSITION_QUEUE))), moved.output


# -- the move itself, with faults

NEW = b"edited"
NAMED = replace(ORDER, message_id=b"m" * 24)
EVENT = Edited(
    queue="DLQ", message_id=b"", target="IN", by="amelie@host", sha256_before="a", sha256="b", body_bytes_before=3, body_bytes=6
)


def move_with(kit: QueueManagerKit, *faults: Fault, change: bytes | None = None) -> str:
    """Move the message with these faults; return the text of the error, or an empty text."""
    plain = kit.queue_manager.connect()
    put_dead_letter(plain, "DLQ", b"old", queue="IN", descriptor=NAMED)
    handle = plain.open("DLQ", OpenOption.BROWSE)
    seen = plain.get(handle, GetOptions(options=GetOption.BROWSE_FIRST))
    assert seen is not None
    if change is not None:
        plain.get(plain.open("DLQ", OpenOption.INPUT_SHARED), GetOptions())
        put_dead_letter(plain, "DLQ", change, queue="IN", descriptor=NAMED)
    plain.disconnect()
    kit.faults.add(*faults)
    connection = kit.faults.wrap(kit.queue_manager).connect()
    records = ConnectionRecorder(
        DISPOSITION_QUEUE, consumer="edit", world=World(kit.clock, SeededRandom(7)), notify=kit.events.append
    )
    try:
        move_edited(connection, "DLQ", seen, Target("IN"), NEW, EVENT, records, redrive_id="edit by amelie")
    except click.ClickException as error:
        return error.message
    finally:
        kit.faults.clear()
    return ""


def kit_with_queues() -> QueueManagerKit:
    kit = QueueManagerKit()
    for queue in ("DLQ", "IN", DISPOSITION_QUEUE):
        kit.define(queue)
    return kit


@pytest.mark.parametrize("verb", ["MQOPEN", "MQGET", "MQPUT", "MQPUT1", "MQCMIT"])
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("nth", [1, 2])
def test_after_any_lost_connection_there_is_one_copy_and_the_error_is_true(verb: str, moment: Moment, nth: int) -> None:
    kit = kit_with_queues()

    said = move_with(kit, Fault(verb=verb, nth=nth, moment=moment, reason=Reason.CONNECTION_BROKEN))

    copies = (kit.depth("DLQ"), kit.depth("IN"), kit.depth(DISPOSITION_QUEUE))
    assert copies in {(1, 0, 0), (0, 1, 1)}
    if "unchanged. " in said:
        assert (1, 0, 0) == copies
    elif said:
        assert ("MQCMIT" in said, "Nobody knows whether the message moved" in said) == (True, True)
    else:
        assert (0, 1, 1) == copies


def test_the_command_says_that_a_commit_without_an_answer_is_in_doubt() -> None:
    fault = Fault(verb="MQCMIT", moment=Moment.AFTER, reason=Reason.CONNECTION_BROKEN)

    assert "Nobody knows whether the message moved" in move_with(kit_with_queues(), fault)


def test_a_refused_move_leaves_the_message_as_it_was() -> None:
    kit = kit_with_queues()

    said = move_with(kit, Fault(verb="MQPUT", reason=Reason.Q_FULL))

    assert said.startswith("The message is on DLQ, unchanged. ")
    [left] = kit.browse("DLQ")
    assert (True, 0) == (left.data.endswith(b"old"), kit.depth("IN"))


def test_a_message_that_another_program_replaced_is_not_moved() -> None:
    kit = kit_with_queues()

    assert "has left DLQ since it was read" in move_with(kit, change=b"newer")
    assert (1, 0) == (kit.depth("DLQ"), kit.depth("IN"))


def test_the_record_of_the_move_says_who_changed_what() -> None:
    kit = kit_with_queues()

    assert "" == move_with(kit)

    [found] = kit.browse(DISPOSITION_QUEUE)
    record = from_bytes(found.data)
    assert record is not None
    assert (RecordOutcome.REDRIVEN, "IN", len(NEW), "edit by amelie") == (
        record.outcome,
        record.queue,
        record.msg_len,
        record.redrive_id,
    )
    assert "amelie@host edited it. SHA-256 before: a, after: b" == record.exc_message
    [moved] = kit.browse("IN")
    assert (NEW, "amelie") == (moved.data, moved.descriptor.user_identifier)
