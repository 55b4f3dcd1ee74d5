"""The notes about failed messages, in memory and in a file that processes share."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mqflow import App
from mqflow.app.run.shared_notes import SharedNotes
from mqflow.policy.poison.disposition import Failed
from mqflow.runtime.message_notes import MemoryNotes, MessageNotes, Note
from mqflow.testing.kit import QueueManagerKit
from tests.running import run_for

REJECTED = Failed("Reject", "never", final=True)


@pytest.fixture(params=["memory", "shared"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MessageNotes]:
    if request.param == "memory":
        yield MemoryNotes()
    else:
        with shared(tmp_path) as notes:
            yield notes


def shared(folder: Path, queue: str = "IN") -> closing[SharedNotes]:
    return closing(SharedNotes(folder / "notes", queue))


def names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


def test_a_message_without_a_note_has_an_empty_note(notes: MessageNotes) -> None:
    assert Note() == notes.read(b"a")


def test_each_forgiven_backout_counts(notes: MessageNotes) -> None:
    notes.forgive([b"a", b"b"])
    notes.forgive(iter([b"a"]))

    assert (2, 1, 0) == tuple(notes.read(key).forgiven for key in (b"a", b"b", b"c"))


def test_the_last_failure_is_kept_and_a_condemned_message_stays_condemned(notes: MessageNotes) -> None:
    notes.note_failure(b"a", REJECTED, is_condemned=True)
    notes.note_failure(b"a", Failed("ValueError"))
    notes.forgive([b"a"])

    assert Note(forgiven=1, failure=Failed("ValueError"), is_condemned=True) == notes.read(b"a")


def test_a_message_that_is_gone_is_forgotten(notes: MessageNotes) -> None:
    notes.note_failure(b"a", REJECTED)
    notes.forget(b"a")
    notes.forget(b"b")

    assert Note() == notes.read(b"a")


def test_a_failure_that_another_version_has_written_keeps_its_message_condemned(tmp_path: Path) -> None:
    with shared(tmp_path) as notes:
        notes.note_failure(b"a", REJECTED, is_condemned=True)
        with closing(sqlite3.connect(tmp_path / "notes")) as file, file:
            file.execute("UPDATE note SET failure = ?", (b'{"type":"Unknown"}',))

        found = notes.read(b"a")

    assert (True, "UnreadableNote") == (found.is_condemned, isinstance(found.failure, Failed) and found.failure.error)


def test_another_process_reads_the_same_notes(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from mqflow.app.run.shared_notes import SharedNotes;"
        "from mqflow.policy.poison.disposition import Failed;"
        "notes = SharedNotes(Path(sys.argv[1]), 'IN'); print(notes.read(b'a').forgiven);"
        "notes.note_failure(b'a', Failed('Reject', 'never', final=True), is_condemned=True)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "notes")]
    with shared(tmp_path) as ours:
        ours.forgive([b"a"])
        theirs = subprocess.run(command, check=True, capture_output=True, text=True)

        assert "1\n" == theirs.stdout
        assert Note(forgiven=1, failure=REJECTED, is_condemned=True) == ours.read(b"a")


def test_the_notes_of_two_queues_are_apart(tmp_path: Path) -> None:
    with shared(tmp_path) as ours, shared(tmp_path, "OUT") as theirs:
        ours.forgive([b"a"])

        assert Note() == theirs.read(b"a")


def test_an_unusable_file_gives_one_warning_and_the_notes_stay_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "notes"
    path.write_bytes(b"this is not a database, and long enough to look like one" * 20)
    notes = SharedNotes(path, "IN")
    notes.forgive([b"a"])
    notes.forgive([b"a"])

    assert 2 == notes.read(b"a").forgiven
    [warning] = caplog.records
    assert str(path) in warning.getMessage()


def test_the_file_holds_no_note_of_a_message_that_is_gone(tmp_path: Path) -> None:
    with shared(tmp_path) as notes:
        notes.note_failure(b"a", REJECTED)
        notes.forget(b"a")

    with closing(sqlite3.connect(tmp_path / "notes")) as file:
        assert [] == file.execute("SELECT * FROM note").fetchall()


@pytest.mark.mq_backend("asyncio", "trio")
async def test_an_application_closes_its_notes_at_its_end(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app = App()
    monkeypatch.setenv("MQFLOW_NOTES_FILE", str(tmp_path / "notes"))
    mq.define("BOQ")
    mq.define("IN", bothresh=1, boqname="BOQ")

    @app.listener("IN")
    async def handle(body: str) -> None:
        raise ValueError(body)

    await mq.put("IN", "1")
    await run_for(mq, 1, app)

    assert ["notes"] == names(tmp_path)  # SQLite deletes its log when the last connection closes
