"""`mqflow poison`: the failure groups of a queue, by browse alone, and the commands that move a group back."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from mqflow.app.run.decision_ledger import LEDGER_FILE, DecisionLedger
from mqflow.cli.messages.poison import redrive_command
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.events import Attempt, Disposed
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, Persistence, PutOption
from mqflow.policy.poison import moved_message
from mqflow.policy.poison.disposition import DeadLetter, Failed
from mqflow.policy.poison.failure_origin import Raised
from mqflow.policy.poison.moved_message import Why
from mqflow.testing.dead_letters import put_dead_letter
from tests.cli.conftest import Run

pytestmark = pytest.mark.usefixtures("poison")

PERSISTENT = MessageDescriptor(persistence=Persistence.PERSISTENT, format="MQSTR", ccsid=1208)
FAILED = Why(queue="ORDERS.IN", outcome="failed", error="ValueError", frame="shop.py:9 in [book]")


@pytest.fixture
def poison(run: Run, queues: None, tmp_path: Path) -> None:
    """Put three failed orders and one undecodable message on the backout queue, and a dead letter on another queue."""
    assert 0 == run("mqsc", stdin="DEFINE QLOCAL('DEAD.LETTERS')").exit_code
    undecodable = Why(queue="ORDERS.IN", outcome="undecodable", error="DecodeError", text="\x1b[2J is no JSON")
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        connection = queue_manager.connect()
        handle = connection.open("ORDERS.BOQ", OpenOption.OUTPUT)
        for number, why in enumerate((FAILED, FAILED, undecodable, FAILED)):
            body = b"order %d" % number
            descriptor, data = moved_message.to_backout_queue(PERSISTENT, body, folders=(moved_message.folder(why),))
            connection.put(handle, descriptor, data, PutOption.NO_SYNCPOINT)
        put_dead_letter(connection, "DEAD.LETTERS", b"x" * 300_000, queue="ORDERS.IN", descriptor=PERSISTENT)


def note_failure(folder: Path, message_id: str) -> None:
    """Write the failure of a message into the ledger."""
    ledger = DecisionLedger(folder / "data" / LEDGER_FILE)
    outcome = Failed("KeyError", "'price'", raised=Raised("shop.py:3 in book"))
    ledger(
        Disposed(queue="ORDERS.IN", message_id=bytes.fromhex(message_id), listener="book", backout_count=1,
                 attempts=(Attempt(DeadLetter("DEAD.LETTERS", 2053)),), outcome=outcome),
    )  # fmt: skip
    ledger.close()


def records(run: Run, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("poison", *arguments, "--json").stdout.splitlines()]


def test_the_printed_command_moves_exactly_its_group(run: Run) -> None:
    shown = run("poison", "ORDERS.BOQ").stdout
    [first, _] = [line.strip() for line in shown.splitlines() if line.strip().startswith("mqflow redrive")]

    assert 0 == run(*shlex.split(first)[1:]).exit_code

    assert [(1, "DecodeError")] == [(group["messages"], group["exception"]) for group in records(run, "ORDERS.BOQ")]


def test_an_empty_pattern_matches_a_missing_value(run: Run) -> None:
    assert ["order 2"] == [
        json.loads(line)["body"] for line in run("browse", "ORDERS.BOQ", "--where", "frame=", "--json").stdout.splitlines()
    ]


def test_the_text_of_a_message_cannot_control_the_terminal(run: Run) -> None:
    shown = run("poison", "ORDERS.BOQ").stdout

    assert "\x1b" not in shown
    assert "[2J is no JSON" in shown


def test_a_dead_letter_has_its_reason_and_no_long_body_is_needed(run: Run) -> None:
    [group] = records(run, "DEAD.LETTERS")

    assert (1, 2053, "ORDERS.IN") == (group["messages"], group["reason"], group["origin"])
    assert "1 message: MQRC_Q_FULL (2053)" in run("poison", "DEAD.LETTERS").stdout


def test_the_printed_command_names_the_queue_manager_of_the_look(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "embedded:./data?qmgr=QM1"
    monkeypatch.setenv("MQFLOW_URL", "embedded:./elsewhere?qmgr=QM2")

    shown = run("poison", "ORDERS.BOQ", "--url", url).stdout
    [first, _] = [line.strip() for line in shown.splitlines() if line.strip().startswith("mqflow redrive")]

    assert 0 == run(*shlex.split(first)[1:]).exit_code
    assert 1 == len(run("browse", "ORDERS.BOQ", "--url", url, "--json").stdout.splitlines())


def test_the_printed_command_shows_no_password_of_its_url() -> None:
    url = "mq://mq.example:1414/QM1?channel=APP&user=alice&password=s3cret"

    shown = shlex.split(redrive_command("ORDERS.BOQ", url, ["error=A B", "error=A B"]))

    hidden = "mq://mq.example:1414/QM1?channel=APP&user=***&password=***"
    assert ["redrive", "ORDERS.BOQ", "--to", "origin", "--where", "error=A B", "--url", hidden] == shown[1:]


def test_no_command_is_printed_that_also_moves_messages_whose_exception_is_only_in_the_ledger(run: Run, tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        connection = queue_manager.connect()
        put_dead_letter(connection, "DEAD.LETTERS", b"y", queue="ORDERS.IN", descriptor=PERSISTENT)
        put_dead_letter(connection, "DEAD.LETTERS", b"z", queue="OTHER.IN", descriptor=PERSISTENT)
    first = json.loads(run("browse", "DEAD.LETTERS", "--json", "--limit", "1").stdout)["descriptor"]["message_id"]
    note_failure(tmp_path, first)

    groups = {(group["origin"], group["exception"]): group for group in records(run, "DEAD.LETTERS")}

    assert {("ORDERS.IN", "KeyError"), ("ORDERS.IN", ""), ("OTHER.IN", "")} == groups.keys()
    assert [("OTHER.IN", "")] == [key for key, group in groups.items() if "where" in group]
    printed = run("poison", "DEAD.LETTERS").stdout
    assert ["queue=OTHER.IN"] == [line.split()[6] for line in printed.splitlines() if "mqflow redrive" in line]


def test_the_ledger_gives_the_exception_of_a_dead_letter(run: Run, tmp_path: Path) -> None:
    [before] = records(run, "DEAD.LETTERS")
    note_failure(tmp_path, before["samples"][0]["message_id"])

    [group] = records(run, "DEAD.LETTERS")

    assert ("KeyError", "shop.py:3 in book") == (group["exception"], group["frame"])
    assert ("where" in before, "where" in group) == (True, False)  # no filter on messages finds what only the ledger knows


def test_where_and_by_choose_messages_and_parts(run: Run) -> None:
    [group] = records(run, "ORDERS.BOQ", "--where", "body=order [12]", "--by", "queue", "--samples", "0")

    assert (2, "ORDERS.IN", []) == (group["messages"], group["origin"], group["samples"])
    assert not {"exception", "frame", "reason"} & group.keys()


@pytest.mark.parametrize("command", ["poison", "browse", "redrive", "capture"])
def test_a_name_that_no_message_has_is_wrong_usage(run: Run, queues: None, command: str) -> None:
    more = {"redrive": ("--to", "origin"), "capture": ("--out", "f")}.get(command, ())

    refused = run(command, "ORDERS.BOQ", "--where", "priorty=9", *more)

    assert 2 == refused.exit_code
    assert "no message has a field 'priorty'. Did you mean priority?" in refused.stderr
