"""`mqflow edit` in its corners: which message, which text, which handler, and what the command says."""

import io
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import click
import pytest
from msgspec.structs import replace

from mqflow import App
from mqflow.app.config.settings import load
from mqflow.cli.applications.application_loader import load_application
from mqflow.cli.connection_options import connected
from mqflow.cli.messages.browse import browse
from mqflow.cli.messages.edit import MovedMessage, _edited, payload_problem, put_back_edited
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.policy.dead_letters.original_message import restored
from mqflow.runtime.dead_letters.redriver import Target
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.verbs import Connection
from tests.cli.conftest import Run
from tests.cli.messages.conftest import ORDER
from tests.cli.messages.test_edit import APP, NAMED, bodies
from tests.cli.messages.test_messages import _Commits

pytestmark = pytest.mark.usefixtures("editor")


def test_the_result_names_the_queue_and_the_size(run: Run, poison: str) -> None:
    done = run("edit", "ORDERS.BOQ", f"..{poison[-12:].upper()}", "--to", "SMALL")

    assert (0, f"{poison} is on SMALL now, with 13 bytes.\n", "") == (done.exit_code, done.stdout, done.stderr)
    assert (['{"number": 7}'], []) == (bodies(run, "SMALL"), bodies(run, "ORDERS.IN"))


@pytest.mark.parametrize("part", [slice(None, 8), slice(-8, None), slice(None)])
def test_eight_digits_of_one_end_choose_the_message(run: Run, poison: str, part: slice) -> None:
    assert 0 == run("edit", "ORDERS.BOQ", poison[part]).exit_code
    assert ['{"number": 7}'] == bodies(run, "ORDERS.IN")


def test_digits_of_several_messages_choose_none(run: Run, poison: str) -> None:
    assert 0 == run("put", "ORDERS.BOQ", "another").exit_code

    refused = run("edit", "ORDERS.BOQ", poison[:8])

    assert (3, 2) == (refused.exit_code, len(refused.stdout.split()))
    assert poison in refused.stdout.split()
    assert f"2 messages on ORDERS.BOQ have {poison[:8]}; nothing was moved:\n" == refused.stderr
    assert 2 == len(bodies(run, "ORDERS.BOQ"))


@pytest.mark.parametrize(
    ("digits", "code", "said"),
    [
        ("0000000", 2, "'0000000' is not 8 or more hexadecimal digits of a message identifier."),
        ("0000000g", 2, "'0000000g' is not 8 or more hexadecimal digits of a message identifier."),
        ("00000000", 3, "There is no message 00000000 on ORDERS.BOQ."),
    ],
)
def test_digits_of_no_message_are_an_error_with_these_digits(run: Run, poison: str, digits: str, code: int, said: str) -> None:
    refused = run("edit", "ORDERS.BOQ", digits)

    assert (code, True) == (refused.exit_code, said in refused.stderr)


def test_a_message_without_an_origin_needs_a_target(run: Run, queues: None) -> None:
    message_id = run("put", "ORDERS.IN", '{"number": "7"}').stdout.strip()

    refused = run("edit", "ORDERS.IN", message_id)

    assert (2, True) == (
        refused.exit_code,
        "does not name the queue that it came from: give it with --to QUEUE." in refused.stderr,
    )
    assert 0 == run("edit", "ORDERS.IN", message_id, "--to", "SMALL").exit_code


def test_a_body_that_is_no_text_cannot_be_edited(run: Run, queues: None) -> None:
    message_id = run("put", "ORDERS.IN", stdin=b"\xff\0").stdout.strip()

    refused = run("edit", "ORDERS.IN", message_id, "--to", "SMALL")

    assert (1, f"mqflow: The body of {message_id} is no text, so it cannot be edited.\n") == (refused.exit_code, refused.stderr)


@pytest.mark.parametrize(
    ("before", "editing", "after"),
    [
        ("7", "printf '8\\n' >", "8"),
        ("7", "printf '8\\r\\n' >", "8"),
        ("7", "printf '8\\n\\n' >", "8\n"),
        ("7\n", "printf '8\\n' >", "8\n"),
    ],
)
def test_the_line_end_that_an_editor_adds_is_not_put(
    run: Run, queues: None, monkeypatch: pytest.MonkeyPatch, before: str, editing: str, after: str
) -> None:
    monkeypatch.setenv("VISUAL", editing)
    message_id = run("put", "ORDERS.IN", before).stdout.strip()

    assert 0 == run("edit", "ORDERS.IN", message_id, "--to", "SMALL").exit_code
    assert [after] == bodies(run, "SMALL")


@pytest.mark.parametrize(
    ("editing", "code"),
    [("sed -i~ s/7/8/", 0), ("sed -i~ s/x/y/", 3), ("echo >>", 3)],
    ids=["a backup and a change", "a backup and no change", "only a line end"],
)
def test_no_copy_of_a_confidential_body_is_left_if_nothing_of_it_is_needed(
    run: Run, poison: str, editor: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, editing: str, code: int
) -> None:
    monkeypatch.setenv("EDITOR", editing)

    result = run("edit", "ORDERS.BOQ", poison)

    assert (code, []) == (result.exit_code, list(tmp_path.glob("mqflow-edit-*")))
    assert "The edited text is still in" not in result.stderr
    moved = (0, 1) if code == 0 else (1, 0)
    assert moved == (len(bodies(run, "ORDERS.BOQ")), len(bodies(run, "ORDERS.IN")))


def test_a_backup_that_cannot_be_deleted_does_not_hide_that_the_message_moved(
    run: Run, poison: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)

    done = run("edit", "ORDERS.BOQ", poison)

    [left] = tmp_path.glob("mqflow-edit-*")
    assert (0, f"{left} has a text of the message. Delete this folder.\n") == (done.exit_code, done.stderr)
    assert f"{poison} is on ORDERS.IN now, with 13 bytes.\n" == done.stdout


def test_ctrl_c_in_the_commit_does_not_hide_that_the_message_moved(
    run: Run, poison: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextmanager
    def interrupted(url: str | None) -> Iterator[Connection]:
        with connected(url) as connection:
            yield cast("Connection", _Commits(connection, lambda: signal.raise_signal(signal.SIGINT), after=True, nth=1))

    monkeypatch.setattr("mqflow.cli.messages.edit.connected", interrupted)

    ended = run("edit", "ORDERS.BOQ", poison)

    assert (130, "") == (ended.exit_code, ended.stderr)
    assert f"{poison} is on ORDERS.IN now, with 13 bytes.\n" == ended.stdout
    assert ['{"number": 7}'] == bodies(run, "ORDERS.IN")
    assert [] == list(tmp_path.glob("mqflow-edit-*"))


class Terminal(io.TextIOWrapper):
    """A terminal on which a person types these answers."""

    def __init__(self, answers: str) -> None:
        super().__init__(io.BytesIO(answers.encode()))

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answers", "moved"), [("y\n", True), ("\n", True), ("n\n", False)])
def test_a_refused_text_can_be_edited_again_at_a_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: str, *, moved: bool
) -> None:
    """The editor writes a text that the handler refuses, and one that it takes the second time."""
    (tmp_path / "again_shop.py").write_text(APP)
    monkeypatch.setenv("EDITOR", 'sed -i -e s/\\"7\\"/seven/ -e t -e s/seven/7/')
    before = restored(ORDER, b'{"number": "7"}')
    file = tmp_path / "edited.txt"
    file.write_bytes(before.data)
    monkeypatch.setattr("sys.stdin", Terminal(answers))
    app = load_application("again_shop:app")

    def edited() -> bytes:
        return _edited(file, before, '{"number": "7"}', lambda data: payload_problem(app, Target("ORDERS.IN"), before, data))

    if moved:
        assert b'{"number": 7}' == edited()
    else:
        with pytest.raises(click.ClickException, match="Nothing was moved"):
            edited()


SEVERAL = """
from mqflow import App
import msgspec
app = App()
class Order(msgspec.Struct):
    number: int
@app.listener("IN", where=lambda message: message.descriptor.priority == 9)
async def urgent(order: Order) -> None: ...
@app.listener("RAW")
async def raw(body: bytes) -> None: ...
"""


@pytest.mark.parametrize(
    ("queue", "priority", "body", "problem"),
    [
        ("IN", 9, b'{"number": 1}', ""),
        ("IN", 9, b"no json", "urgent does not take it: "),
        ("IN", 0, b'{"number": 1}', "no handler of IN takes it."),
        ("RAW", 0, b"\xff", ""),
        ("OUT", 0, b"", "the application has no listener on OUT; it has IN, RAW."),
    ],
)
def test_the_new_body_must_be_the_payload_of_a_handler(
    run: Run, tmp_path: Path, queue: str, priority: int, body: bytes, problem: str
) -> None:
    (tmp_path / "several_shop.py").write_text(SEVERAL)
    app = load_application("several_shop:app")
    before = restored(replace(ORDER, priority=priority), b"old")

    found = payload_problem(app, Target(queue), before, body)

    assert found == problem if problem.endswith(".") or not problem else problem in found
    assert "" == payload_problem(None, Target(queue), before, body)
    assert "it has no listener." in payload_problem(App(), Target(queue), before, body)


def test_the_command_says_that_nothing_records_the_change(capsys: pytest.CaptureFixture[str]) -> None:
    said = "There is no record of this change: the data has no ledger here, and the settings name no disposition_queue.\n"

    with EmbeddedQueueManager("QM1") as queue_manager:
        for name in ("IN", "DLQ"):
            queue_manager.administration.define(QueueAttributes(name=name))
        connection = queue_manager.connect()
        put_dead_letter(connection, "DLQ", b"old", queue="IN", descriptor=NAMED)
        seen = next(browse(connection, "DLQ"))
        settings = load({"url": "embedded::memory:"})
        moved = put_back_edited(connection, settings, "DLQ", seen, Target("IN"), b"edited", by="amelie@host")
        [after] = browse(connection, "IN")

    expected = MovedMessage(
        message_id=seen.descriptor.message_id.hex(), queue="DLQ", to="IN", by="amelie@host", body_bytes_before=3, body_bytes=6
    )
    assert (expected, b"edited") == (moved, after.body)
    assert said == capsys.readouterr().err
