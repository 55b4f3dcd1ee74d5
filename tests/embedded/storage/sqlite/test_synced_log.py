"""The note of the synced log, byte by byte, as a later release reads it."""

import sqlite3
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mqflow.embedded.storage.folder import DataFolder, prepare_folder
from mqflow.embedded.storage.sqlite.database import open_database
from mqflow.embedded.storage.sqlite.synced_log import SyncedLog, forget_lost_log

PAGE, FRAME, HEAD = 4_096, 4_120, 32


class Log:
    """A database, its log, and its note."""

    def __init__(self, folder: Path) -> None:
        self.folder: DataFolder = prepare_folder(folder, create=True)
        self.synced = SyncedLog(self.folder)
        self.database: sqlite3.Connection = open_database(self.folder)
        self.database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def commit(self, key: str) -> None:
        """Commit a row, and note the sync."""
        self.database.execute("INSERT OR REPLACE INTO state VALUES (?, x'01', 1)", (key,))
        self.synced.note()

    @property
    def note(self) -> bytes:
        return self.folder.database.with_name("queue_manager.db-synced").read_bytes()

    @property
    def log(self) -> bytes:
        return self.folder.database.with_name("queue_manager.db-wal").read_bytes()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path / "data")
    with closing(made.database):
        yield made
    made.synced.close()


def expected(log: Log, number: int, frames: int) -> bytes:
    """Return the note of so many frames: the page of the last one, if it differs from the database, and its old CRC."""
    frame = log.log[HEAD + (frames - 1) * FRAME :][:FRAME]
    page = int.from_bytes(frame[:4])
    before = log.folder.database.read_bytes()[(page - 1) * PAGE :][:PAGE]
    made = struct.pack("<Q8sQII", number, log.log[16:24], frames, page if before != frame[24:] else 0, zlib.crc32(before))
    return made + struct.pack("<I", zlib.crc32(made))


def test_two_notes_take_turns_in_sectors_of_their_own(log: Log) -> None:
    assert b"" == log.note
    log.commit("a")
    first = expected(log, 1, 1)
    assert bytes(512) + first == log.note

    log.commit("b")
    second = expected(log, 2, 2)
    assert second + bytes(512 - len(second)) + first == log.note

    log.commit("c")
    third = expected(log, 3, 3)
    assert second + bytes(512 - len(second)) + third == log.note
    assert 36 == len(third)


def test_a_forgotten_note_is_1024_nulls_and_the_next_one_begins_again(log: Log) -> None:
    log.commit("a")
    log.synced.forget()
    assert bytes(1_024) == log.note

    log.commit("b")

    assert bytes(512) + expected(log, 1, 2) + bytes(512 - 36) == log.note


def test_nothing_is_noted_behind_a_refused_transaction_until_the_log_begins_again(log: Log) -> None:
    log.commit("a")
    note = log.note
    log.synced.distrust()
    log.commit("b")
    assert note == log.note

    log.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    log.commit("c")

    second = expected(log, 2, 1)
    assert second + bytes(512 - 36) + note[512:] == log.note
    assert log.synced.is_clean


def test_nothing_is_noted_behind_a_broken_frame_that_the_last_owner_left(log: Log, tmp_path: Path) -> None:
    for key in ("a", "b", "c", "d"):
        log.commit(key)
    left = prepare_folder(tmp_path / "left", create=True)
    data = bytearray(log.log)
    data[HEAD + 2 * FRAME + 100] ^= 1
    left.database.write_bytes(log.folder.database.read_bytes())
    left.database.with_name("queue_manager.db-wal").write_bytes(data)

    synced = SyncedLog(left)
    was_clean = synced.is_clean
    with closing(open_database(left)) as database:
        database.execute("INSERT OR REPLACE INTO state VALUES ('e', x'01', 1)")
        synced.note()
        note = left.database.with_name("queue_manager.db-synced").read_bytes()
    synced.close()

    assert (False, b"") == (was_clean, note)


@pytest.mark.parametrize("damage", ["none", "the later", "both", "short"])
def test_the_later_note_that_is_whole_counts(log: Log, damage: str) -> None:
    for key in ("a", "b", "c"):
        log.commit(key)
    note = bytearray(log.note)
    for at in {"none": (), "the later": (512 + 8,), "both": (8, 512 + 35), "short": ()}[damage]:
        note[at] ^= 1
    log.folder.database.with_name("queue_manager.db-synced").write_bytes(note[:-1] if damage == "short" else note)
    log.database.execute("PRAGMA query_only = ON").fetchall()

    synced = SyncedLog(log.folder)
    mark, synced_frames = synced._mark, synced._frames
    synced.close()

    numbers = {"none": 3, "the later": 2, "both": None, "short": 2}
    assert (numbers[damage], 3) == (mark and mark.number, synced_frames)


def test_an_accepted_loss_keeps_copies_by_number_and_forgets_the_note(log: Log) -> None:
    log.commit("a")
    data = log.log

    kept = [forget_lost_log(log.folder) for _ in range(2)]

    name = log.folder.database.with_name("queue_manager.db-wal.damaged-1")
    assert [name, name.with_name("queue_manager.db-wal.damaged-2")] == kept
    assert [data, data] == [path.read_bytes() for path in kept if path]
    assert not log.folder.database.with_name("queue_manager.db-synced").exists()


def test_a_folder_without_a_log_has_nothing_to_keep(tmp_path: Path) -> None:
    assert forget_lost_log(prepare_folder(tmp_path, create=True)) is None
    assert [] == list(tmp_path.iterdir())
