"""A write-ahead log that lost synced pages refuses the start; a log that a power cut tore does not."""

import errno
import os
import random
import shutil
import sqlite3
import stat
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mqflow.embedded.storage.folder import DamagedLogError, DataFolder, UnusableFileError
from mqflow.embedded.storage.sqlite.synced_log import Mark, SyncedLog, forget_lost_log, loss
from mqflow.embedded.storage.sqlite.wal import FRAME_BYTES, LOG_HEAD_BYTES, WriteAheadLog, committed_frames, read_log
from mqflow.embedded.storage.store import MessageAdded
from tests.embedded.storage.stored_messages import (
    added,
    database_of,
    defined,
    medium_of,
    message,
    opened,
    reopened,
    serials,
    write,
)

LOG = "queue_manager.db-wal"
MESSAGES = 12


def _killed(folder: Path) -> Path:
    """Return the folder of an owner that was killed after it acknowledged twelve puts, one after the other."""
    with defined(folder / "running") as store:
        for serial in range(1, MESSAGES + 1):
            write(store, [MessageAdded(message(serial, bytes([serial]) * 5_000))])
        shutil.copytree(folder / "running", folder / "killed")
    return folder / "killed"


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    return _killed(tmp_path)


def _flipped(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def _log(path: Path) -> WriteAheadLog:
    data = path.read_bytes()
    found = read_log(lambda offset, length: data[offset : offset + length])
    assert found is not None
    return found


def test_each_flipped_bit_in_the_synced_log_of_a_killed_owner_refuses_the_start(tmp_path: Path, killed: Path) -> None:
    """Also in the last acknowledged transaction. Bits that SQLite does not read are the only harmless ones."""
    size = (killed / LOG).stat().st_size
    chance = random.Random(17)  # noqa: S311 - the same flips every time
    silent: list[int] = []
    for number in range(300):
        folder = tmp_path / str(number)
        shutil.copytree(killed, folder)
        bit = chance.randrange(8 * size)
        _flipped(folder / LOG, bit)
        try:
            found = serials(reopened(folder))
        except DamagedLogError:
            pass
        else:
            silent += [bit] if found != list(range(1, MESSAGES + 1)) else []
        shutil.rmtree(folder)

    assert [] == silent


def test_the_refusal_says_what_is_lost_and_what_to_do_and_changes_nothing(killed: Path) -> None:
    _flipped(killed / LOG, 8 * (LOG_HEAD_BYTES + 10 * FRAME_BYTES + 100))
    before = {path.name: path.read_bytes() for path in killed.iterdir()}

    with pytest.raises(DamagedLogError, match=r"at least \d+ synced transactions would be lost.*mqflow qmgr accept-loss"):
        reopened(killed)
    assert before == {path.name: path.read_bytes() for path in killed.iterdir()}


def test_an_accepted_loss_opens_with_the_transactions_before_the_damage_and_keeps_the_log(killed: Path) -> None:
    _flipped(killed / LOG, 8 * ((killed / LOG).stat().st_size - 100))
    damaged = (killed / LOG).read_bytes()
    kept = forget_lost_log(DataFolder(killed))

    assert list(range(1, MESSAGES)) == serials(reopened(killed))
    assert kept is not None
    assert damaged == kept.read_bytes()
    assert 0o600 == kept.stat().st_mode & 0o777


def test_a_loss_is_not_accepted_without_a_whole_copy_of_the_log(monkeypatch: pytest.MonkeyPatch, killed: Path) -> None:
    _flipped(killed / LOG, 8 * ((killed / LOG).stat().st_size - 100))
    before = {path.name: path.read_bytes() for path in killed.iterdir()}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        forget_lost_log(DataFolder(killed))

    assert before == {path.name: path.read_bytes() for path in killed.iterdir()}


def test_a_loss_is_accepted_also_on_a_file_system_that_syncs_no_folder(monkeypatch: pytest.MonkeyPatch, killed: Path) -> None:
    damaged = (killed / LOG).read_bytes()
    sync = os.fsync

    def refused(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr("os.fsync", refused)

    kept = forget_lost_log(DataFolder(killed))

    assert kept is not None
    assert damaged == kept.read_bytes()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda log: log.unlink(), "pages are gone"),
        (lambda log: log.write_bytes(b""), "pages are gone"),
        (lambda log: log.write_bytes(log.read_bytes()[: -FRAME_BYTES // 2]), "is damaged behind page"),
        (lambda log: _flipped(log, 100), "its header is damaged"),
    ],
    ids=["deleted", "emptied", "cut", "header"],
)
def test_a_log_that_is_not_the_synced_log_refuses_the_start(damage: Callable[[Path], object], why: str, killed: Path) -> None:
    damage(killed / LOG)

    with pytest.raises(DamagedLogError, match=why):
        reopened(killed)


def test_a_log_that_another_program_copied_into_the_database_is_not_missed(killed: Path) -> None:
    with closing(sqlite3.connect(killed / "queue_manager.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    assert list(range(1, MESSAGES + 1)) == serials(reopened(killed))


def test_a_copied_folder_without_its_log_refuses_the_start(killed: Path) -> None:
    """The database of a copy has another time, but the same pages."""
    (killed / LOG).unlink()
    (killed / "queue_manager.db").touch()

    with pytest.raises(DamagedLogError, match="pages are gone"):
        reopened(killed)


def test_a_machine_of_the_other_byte_order_notes_and_checks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "byteorder", "big")
    killed = _killed(tmp_path)

    assert not (killed / "queue_manager.db-synced").exists()
    assert list(range(1, MESSAGES + 1)) == serials(reopened(killed))


def test_a_note_of_another_machine_is_no_alarm_on_a_machine_of_the_other_byte_order(
    monkeypatch: pytest.MonkeyPatch, killed: Path
) -> None:
    monkeypatch.setattr(sys, "byteorder", "big")

    assert list(range(1, MESSAGES + 1)) == serials(reopened(killed))


def test_the_log_of_a_machine_of_the_other_byte_order_is_not_checked(killed: Path) -> None:
    (killed / LOG).write_bytes(_of_other_machine((killed / LOG).read_bytes()))

    assert list(range(1, MESSAGES + 1)) == serials(reopened(killed))


def test_the_damaged_header_of_a_log_is_not_taken_for_one_of_the_other_byte_order(killed: Path) -> None:
    """The two byte orders differ in one bit of the header."""
    _flipped(killed / LOG, 8 * 3)

    with pytest.raises(DamagedLogError, match="its header is damaged"):
        reopened(killed)


def _of_other_machine(log: bytes) -> bytes:
    """Return the log with the checksums and the salts that a machine of the other byte order writes."""
    head = (0x377F0683).to_bytes(4) + log[4:16] + b"new salt"
    check = _summed(head, (0, 0))
    made = head + _stored(check)
    for start in range(LOG_HEAD_BYTES, len(log), FRAME_BYTES):
        frame = log[start : start + FRAME_BYTES]
        check = _summed(frame[:8] + frame[24:], check)
        made += frame[:8] + b"new salt" + _stored(check) + frame[24:]
    return made


def _summed(data: bytes, check: tuple[int, int]) -> tuple[int, int]:
    first, second = check
    values = array("I", data)
    values.byteswap()
    for even, odd in zip(values[::2], values[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def _stored(check: tuple[int, int]) -> bytes:
    return check[0].to_bytes(4) + check[1].to_bytes(4)


@pytest.mark.parametrize("name", [LOG, "queue_manager.db-synced"])
def test_a_file_that_cannot_be_opened_is_not_taken_for_a_missing_file(tmp_path: Path, name: str, killed: Path) -> None:
    (killed / name).rename(tmp_path / name)
    (killed / name).symlink_to(tmp_path / name)

    with pytest.raises(UnusableFileError, match=f"{name} cannot be opened"):
        reopened(killed)


def test_a_log_that_cannot_be_read_is_not_taken_for_a_missing_file(killed: Path) -> None:
    (killed / LOG).unlink()
    (killed / LOG).mkdir()

    with pytest.raises(UnusableFileError, match=f"{LOG} cannot be opened"):
        reopened(killed)


@pytest.mark.parametrize("length", [0, LOG_HEAD_BYTES])
def test_a_log_without_a_committed_page_gets_no_note(tmp_path: Path, length: int) -> None:
    with defined(tmp_path / "running") as store:
        write(store, added(1))
        shutil.copytree(tmp_path / "running", tmp_path / "killed")
    log = tmp_path / "killed" / LOG
    log.write_bytes(log.read_bytes()[:length])
    (tmp_path / "killed" / "queue_manager.db-synced").unlink()
    synced = SyncedLog(DataFolder(tmp_path / "killed"))
    synced.note()
    synced.close()

    assert b"" == (tmp_path / "killed" / "queue_manager.db-synced").read_bytes()


def test_a_transaction_that_nobody_synced_may_be_torn(tmp_path: Path) -> None:
    """After a power cut the log ends with such frames, and the start must not fail."""
    with defined(tmp_path / "running") as store:
        write(store, added(1))
        store.write(added(2), None)  # nobody waits, so there is no sync
        store.write([], None)
        store.read_messages([1], 0)
        while _log(tmp_path / "running" / LOG).frames == _last_synced(tmp_path / "running"):
            pass
        shutil.copytree(tmp_path / "running", tmp_path / "cut")
    _flipped(tmp_path / "cut" / LOG, 8 * ((tmp_path / "cut" / LOG).stat().st_size - 100))

    assert [1] == serials(reopened(tmp_path / "cut"))


def _last_synced(folder: Path) -> int:
    notes = (folder / "queue_manager.db-synced").read_bytes()
    return max(int.from_bytes(notes[start + 16 : start + 24], "little") for start in (0, 512))


def test_a_damaged_note_leaves_the_earlier_note(killed: Path) -> None:
    note = killed / "queue_manager.db-synced"
    last = max((0, 512), key=lambda start: int.from_bytes(note.read_bytes()[start : start + 8], "little"))
    _flipped(note, 8 * last)
    _flipped(killed / LOG, 8 * (LOG_HEAD_BYTES + 5 * FRAME_BYTES))

    with pytest.raises(DamagedLogError):
        reopened(killed)


def test_a_note_of_a_log_that_was_begun_again_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the first change of the new log and its note leaves the note of the old log."""
    monkeypatch.setattr(SyncedLog, "forget", lambda _: None)
    with defined(tmp_path / "running") as store:
        write(store, added(1))
        medium_of(store)._checkpoint()
        database_of(store).execute("UPDATE message SET serial = serial")
        shutil.copytree(tmp_path / "running", tmp_path / "killed")

    assert _last_synced(tmp_path / "killed") > _log(tmp_path / "killed" / LOG).frames
    assert [1] == serials(reopened(tmp_path / "killed"))


def test_a_checkpoint_empties_the_note(tmp_path: Path) -> None:
    """SQLite may begin the log again from then on, and a power cut could tear the new header."""
    with defined(tmp_path) as store:
        write(store, added(1))
        medium_of(store)._checkpoint()
        note = (tmp_path / "queue_manager.db-synced").read_bytes()
        write(store, added(2))
        later = (tmp_path / "queue_manager.db-synced").read_bytes()

    assert bytes(1024) == note
    assert any(later)


def test_the_remains_of_an_earlier_recovery_are_not_counted_as_synced(tmp_path: Path, killed: Path) -> None:
    """A power cut loses a middle frame. The next owner writes over it; whole transactions of the first owner stay behind."""
    _flipped(killed / LOG, 8 * (LOG_HEAD_BYTES + 30 * FRAME_BYTES))
    (killed / "queue_manager.db-synced").unlink()
    with opened(killed) as (store, before):
        assert write(store, added(1_000)) is None
        shutil.copytree(killed, tmp_path / "again")

    assert [*serials(before), 1_000] == serials(reopened(tmp_path / "again"))


@pytest.mark.parametrize("written", [16, 18, 20, 23])
def test_a_torn_header_of_a_log_that_began_again_is_no_loss(tmp_path: Path, written: int) -> None:
    """A kill in the new header leaves old salts, or a mixture. SQLite uses them again, and whole old frames stay behind."""
    with defined(tmp_path / "running") as store:
        for serial in range(1, MESSAGES + 1):
            write(store, [MessageAdded(message(serial, bytes([serial]) * 5_000))])
        medium_of(store)._checkpoint()
        shutil.copytree(tmp_path / "running", tmp_path / "killed")
        write(store, added(MESSAGES + 1))
        header = (tmp_path / "running" / LOG).read_bytes()[:written]
    with (tmp_path / "killed" / LOG).open("r+b") as log:
        log.write(header)

    with opened(tmp_path / "killed") as (store, before):
        assert write(store, added(1_000)) is None
        shutil.copytree(tmp_path / "killed", tmp_path / "again")

    assert [*serials(before), 1_000] == serials(reopened(tmp_path / "again"))
    assert MESSAGES == len(serials(before))


# ---- the bytes of the log


@pytest.fixture(scope="module")
def whole_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bytes]:
    path = tmp_path_factory.mktemp("log") / "any.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "CREATE TABLE t (x)"):
            database.execute(statement)
        for number in range(40):
            database.execute("INSERT INTO t VALUES (?)", (bytes([number]) * 9_000,))
        yield path.with_name("any.db-wal").read_bytes()  # the database itself has only its first page


def _read(data: bytes) -> WriteAheadLog:
    found = read_log(lambda offset, length: data[offset : offset + length])
    assert found is not None
    return found


def _frames_that_sqlite_reads(folder: Path, log: bytes) -> int:
    folder.mkdir()
    with closing(sqlite3.connect(folder / "any.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")  # SQLite ignores the log of an empty file
    (folder / "any.db-wal").write_bytes(log)
    with closing(sqlite3.connect(folder / "any.db", isolation_level=None)) as database:
        [(_, frames, _)] = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    return max(int(frames), 0)


def test_the_reader_and_sqlite_agree_how_far_a_damaged_log_is_whole(tmp_path: Path, whole_log: bytes) -> None:
    chance = random.Random(3)  # noqa: S311 - the same flips every time
    for number in range(100):
        damaged = bytearray(whole_log)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)

        assert _frames_that_sqlite_reads(tmp_path / str(number), bytes(damaged)) == _read(bytes(damaged)).frames


def test_the_reader_counts_the_transactions_behind_the_damage(whole_log: bytes) -> None:
    ends = [number for number in range(len(whole_log) // FRAME_BYTES) if any(_size_field(whole_log, number))]
    damaged = bytearray(whole_log)
    damaged[LOG_HEAD_BYTES + (ends[20] - 1) * FRAME_BYTES + 500] ^= 1

    assert tuple(end + 1 for end in ends[20:]) == _read(bytes(damaged)).ends_behind


def test_a_damaged_frame_behind_the_last_transaction_is_more_of_the_log(whole_log: bytes) -> None:
    end = next(number for number in range(len(whole_log) // FRAME_BYTES) if any(_size_field(whole_log, number)))
    damaged = bytearray(whole_log[: LOG_HEAD_BYTES + (end + 2) * FRAME_BYTES])
    damaged[-500] ^= 1

    found = _read(bytes(damaged))

    assert (end + 1, True) == (found.frames, found.has_more)


def _size_field(log: bytes, frame: int) -> bytes:
    start = LOG_HEAD_BYTES + frame * FRAME_BYTES
    return log[start + 4 : start + 8]


def test_the_quick_count_of_committed_frames_is_that_of_the_reader(whole_log: bytes) -> None:
    found = _read(whole_log)

    for first in (0, 1, found.frames):
        counted = committed_frames(lambda offset, length: whole_log[offset : offset + length], found.salts, first)
        assert found.frames == counted


MARK = Mark(7, b"the salt", 40, 3, 1_000)


@pytest.mark.parametrize(
    ("log", "mark", "page_crc", "said"),
    [
        (WriteAheadLog(b"the salt", 3), None, 1_000, ""),
        (WriteAheadLog(b"the salt", 40), MARK, 1_000, ""),
        (WriteAheadLog(b"the salt", 45), MARK, 1_000, ""),
        (WriteAheadLog(b"other sa", 3), MARK, 1_000, ""),
        (None, MARK, 2_000, ""),
        (None, MARK, 1_000, "40 synced pages are gone"),
        (None, Mark(7, b"the salt", 40, 0, 1_000), 1_000, ""),
        (WriteAheadLog(b"", 0), MARK, 2_000, "its header is damaged, and SQLite would not read its 40 synced pages"),
        (WriteAheadLog(b"the salt", 36, (38, 40), has_more=True), MARK, 1_000, "at least 2 synced transactions would be lost"),
        (WriteAheadLog(b"the salt", 36, (38, 44), has_more=True), MARK, 1_000, "at least 1 synced transactions would be lost"),
        (WriteAheadLog(b"the salt", 36), MARK, 1_000, "at least 1 synced transactions would be lost"),
    ],
)
def test_the_loss(log: WriteAheadLog | None, mark: Mark | None, page_crc: int, said: str) -> None:
    assert loss(log, mark, page_crc).endswith(said)
    assert bool(said) == bool(loss(log, mark, page_crc))
