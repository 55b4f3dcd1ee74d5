"""The medium in SQLite by itself: the growth of its log, its checkpoints, full disks, other programs, and copies."""

import errno
import os
import resource
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.storage.folder import (
    DamagedFolderError,
    DataFolder,
    FolderVersionError,
    ForeignFolderError,
    ForeignLogError,
    prepare_folder,
)
from mqflow.embedded.storage.medium import DamagedError, NoRoomError
from mqflow.embedded.storage.sqlite.database import PAGE_BYTES
from mqflow.embedded.storage.sqlite.medium import SqliteMedium
from mqflow.embedded.storage.store import (
    BackoutCounted,
    MessageAdded,
    MessageRemoved,
    QueueDefined,
    QueueDeleted,
    StoredIdentifiers,
    StoredMessage,
)
from mqflow.mqi.attributes.queue import QueueAttributes
from tests.embedded.storage.stored_messages import DEFINITIONS, OTHER_QUEUE, added, message, reopened, serials


class Kit:
    """A medium that has loaded two queues, its log, and its connection to SQLite."""

    def __init__(self, path: Path) -> None:
        self.folder: DataFolder = prepare_folder(path, create=True)
        self.log = path / "queue_manager.db-wal"
        self.medium = SqliteMedium(self.folder)
        self.medium.load({}, 0.0)
        self.medium.make(DEFINITIONS, synced=True)
        self.medium.make_room()
        self.database: sqlite3.Connection = self.medium._database

    @property
    def log_pages(self) -> int:
        return self.medium.needed_bytes(0) // PAGE_BYTES

    def found(self, *serials: int) -> list[object]:
        """Return each message, or the text of its damage."""
        messages = self.medium.read_messages(serials)
        return [str(each) if isinstance(each, DamagedError) else each for each in messages]


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    made = Kit(tmp_path / "data")
    yield made
    made.medium.close(write=False)


def big(serial: int, pages: int) -> MessageAdded:
    """Return a message for which so many pages of the log are planned."""
    return MessageAdded(message(serial, bytes(pages * PAGE_BYTES - 2 * 1024)))


@pytest.mark.parametrize(("pages", "left"), [(998, 1_000), (999, 0)])
def test_a_log_of_more_than_a_thousand_pages_is_copied_into_the_database(kit: Kit, pages: int, left: int) -> None:
    kit.medium.make([big(1, pages)], synced=False)
    planned = pages + 2
    assert (planned * PAGE_BYTES, 10 + planned * PAGE_BYTES) == (kit.medium.needed_bytes(0), kit.medium.needed_bytes(5))

    kit.medium.tidy()

    assert (left, "") == (kit.log_pages, kit.medium.changed_by_others())


def test_the_room_that_changes_need_adds_up_until_the_log_is_copied(kit: Kit) -> None:
    pages = [kit.log_pages]
    for changes in ([], added(1), [big(2, 1), *added(3)], [MessageRemoved(1)]):
        kit.medium.make(changes, synced=False)
        pages.append(kit.log_pages)
    assert [0, 2, 4, 7, 9] == pages

    length = kit.log.stat().st_size
    kit.medium.make_room()
    assert (0, length) == (kit.log_pages, kit.log.stat().st_size)
    kit.medium.shrink()
    assert (0, 0, "") == (kit.log_pages, kit.log.stat().st_size, kit.medium.changed_by_others())


def test_a_message_for_a_queue_whose_definition_had_no_room_is_refused_alone(kit: Kit) -> None:
    """A program can put such a message before the administrator's command has taken the queue back."""
    with pytest.raises(NoRoomError, match="does not have the queue NEW"):
        kit.medium.make([*added(1), MessageAdded(message(2, queue="NEW"))], synced=True)

    kit.medium.make(added(1), synced=True)
    assert [1] == [each.serial for each in kit.found(1) if isinstance(each, StoredMessage)]


def test_a_close_without_writing_leaves_the_files_as_they_are(kit: Kit) -> None:
    """After a failed load, the files show what has happened. SQLite itself would copy its log and delete it."""
    kit.medium.make(added(1, 2), synced=True)
    before = kit.folder.database.read_bytes(), kit.log.read_bytes()

    kit.medium.close(write=False)

    assert before == (kit.folder.database.read_bytes(), kit.log.read_bytes())
    assert [1, 2] == serials(reopened(kit.folder.path))


def test_a_refused_open_leaves_the_files_as_they_are(kit: Kit) -> None:
    kit.medium.make(added(1, 2), synced=True)
    kit.database.execute("ALTER TABLE message RENAME COLUMN body TO data")
    kit.medium.close(write=False)
    before = kit.folder.database.read_bytes(), kit.log.read_bytes()

    with pytest.raises(DamagedFolderError, match="the definition of a table is damaged"):
        SqliteMedium(kit.folder)

    assert before == (kit.folder.database.read_bytes(), kit.log.read_bytes())


def test_removed_messages_leave_free_pages(kit: Kit) -> None:
    before = kit.medium.reusable_bytes()
    kit.medium.make([big(1, 20)], synced=False)
    kit.medium.make([MessageRemoved(1)], synced=False)

    assert (0, 19 * PAGE_BYTES) == (before, kit.medium.reusable_bytes())


def full(kit: Kit, pages: int = 0) -> None:
    """Let the database have only so many more pages, or any number for -1. SQLite answers as on a full disk."""
    [(now,)] = kit.database.execute("PRAGMA page_count").fetchall()
    kit.database.execute(f"PRAGMA max_page_count = {now + pages if pages >= 0 else 2**31 - 2}").fetchall()


def test_a_full_disk_makes_none_of_the_changes_and_later_changes_find_their_queues(kit: Kit) -> None:
    third = QueueAttributes(name="THIRD")
    kit.medium.make([*added(1), BackoutCounted(1, 1)], synced=True)
    full(kit)

    for synced in (True, False):
        with pytest.raises(NoRoomError, match="database or disk is full"):
            kit.medium.make([BackoutCounted(1, 2), QueueDefined(third), QueueDeleted(OTHER_QUEUE), big(2, 20)], synced=synced)
    assert ([message(1, backout_count=1), "it is gone"], False) == (kit.found(1, 2), kit.database.in_transaction)
    full(kit, -1)
    kit.medium.make([QueueDefined(third), *added(3, queue="THIRD"), *added(4, queue=OTHER_QUEUE)], synced=True)

    assert [message(3, queue="THIRD"), message(4, queue=OTHER_QUEUE)] == kit.found(3, 4)


class Unrolled:
    """A database that finds the disk full after its first statement, and does not roll back. SQLite can do so."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)

    def executemany(self, sql: str, parameters: Any) -> None:
        self.database.executemany(sql, parameters)
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error


def test_a_full_disk_leaves_nothing_of_a_transaction_that_sqlite_does_not_roll_back(kit: Kit) -> None:
    kit.medium._database = Unrolled(kit.database)  # type: ignore[assignment]  # it has all calls
    for call in (lambda: kit.medium.make(added(1), synced=True), lambda: kit.medium.load({}, 0.0)):
        with pytest.raises(NoRoomError, match="database or disk is full"):
            call()
        assert not kit.database.in_transaction
    kit.medium._database = kit.database

    kit.medium.make(added(2), synced=True)
    assert ["it is gone", message(2)] == kit.found(1, 2)


def test_a_full_disk_counts_no_delivery_and_the_next_load_does(kit: Kit) -> None:
    kit.medium.make(added(*range(1, 400)), synced=True)
    full(kit)

    with pytest.raises(NoRoomError):
        kit.medium.load(dict.fromkeys(range(1, 400), 0), 0.0)
    assert not kit.database.in_transaction
    full(kit, -1)
    kit.medium.load({7: 2}, 0.0)

    assert ([message(7, backout_count=3), message(8)], 3) == (kit.found(7, 8), kit.medium.epoch() + 1)


def test_identifiers_come_without_the_message_and_a_missing_message_is_damage(kit: Kit) -> None:
    kit.medium.make(added(1), synced=False)

    assert StoredIdentifiers(1, (1).to_bytes(24), bytes(24), bytes(24)) == kit.medium.read_identifiers(1)
    with pytest.raises(DamagedError, match="it is gone"):
        kit.medium.read_identifiers(2)


def test_messages_come_in_the_order_of_the_question_with_each_gap(kit: Kit) -> None:
    kit.medium.make(added(1, 2, 4, 5, 7), synced=False)
    gone = "it is gone"

    assert [message(4), message(5), gone, message(7), gone, message(1), message(2), gone] == kit.found(4, 5, 6, 7, 9, 1, 2, 3)
    assert [] == kit.found()
    unread = kit.medium.read_messages((1, 2))
    assert message(1) == next(unread)
    unread.close()
    kit.medium.make([MessageRemoved(1)], synced=False)
    assert [gone, message(2)] == kit.found(1, 2)


def test_a_quarantined_message_has_its_reason_and_its_time(kit: Kit) -> None:
    kit.medium.make(added(1, 2), synced=False)
    kit.medium.set_aside([(1, "odd"), (2, "worse")], 12.5)

    found = kit.database.execute("SELECT serial, why, found_at FROM quarantine").fetchall()
    assert [(1, b"odd", 12.5), (2, b"worse", 12.5)] == found


def test_a_change_of_another_program_is_named(kit: Kit) -> None:
    assert "" == kit.medium.changed_by_others()
    log = kit.log.rename(kit.log.with_name("moved"))
    assert "the log of its database was deleted or replaced" == kit.medium.changed_by_others()
    log.rename(kit.log)
    assert "" == kit.medium.changed_by_others()
    kit.folder.database.write_bytes(kit.folder.database.read_bytes())
    assert "its database was deleted, replaced, or written to by another program" == kit.medium.changed_by_others()


def test_a_copy_has_the_contents_of_the_log_too(kit: Kit, tmp_path: Path) -> None:
    kit.medium.make(added(1, 2), synced=False)
    copy = prepare_folder(tmp_path / "copy", create=True)

    kit.medium.backup(copy)

    assert (0o600, [1, 2]) == (copy.database.stat().st_mode & 0o777, serials(reopened(copy.path)))


def test_a_copy_that_fails_leaves_nothing_and_a_file_that_is_there_stays(kit: Kit, tmp_path: Path) -> None:
    copy = prepare_folder(tmp_path / "copy", create=True)
    kit.medium.close(write=False)
    with pytest.raises(OSError, match="Cannot operate on a closed database"):
        kit.medium.backup(copy)
    assert [] == list(copy.path.iterdir())

    copy.database.write_text("another")
    with pytest.raises(FileExistsError):
        kit.medium.backup(copy)
    assert "another" == copy.database.read_text()


def test_a_copy_that_a_kill_ends_is_no_queue_manager_and_the_next_copy_succeeds(kit: Kit, tmp_path: Path) -> None:
    kit.medium.make([big(1, 30)], synced=False)
    copy = prepare_folder(tmp_path / "copy", create=True)

    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the system kills the child in the write that passes the limit
        resource.setrlimit(resource.RLIMIT_FSIZE, (20 * PAGE_BYTES, resource.RLIM_INFINITY))
        kit.medium.backup(copy)
        os._exit(0)
    _, status = os.waitpid(child, 0)

    assert signal.SIGXFSZ == os.WTERMSIG(status)
    assert not copy.in_use
    with pytest.raises(ForeignFolderError, match="only a backup that is not complete"):
        reopened(copy.path)
    kit.medium.backup(copy)
    assert [] == copy.half_copies()
    assert [1] == serials(reopened(copy.path))


def test_a_copy_gets_its_name_only_when_the_disk_has_it(kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = prepare_folder(tmp_path / "copy", create=True)
    found: list[list[str]] = []

    def fails(_: int) -> None:
        found.append([path.name for path in copy.path.glob("queue_manager.db")])
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", fails)
        with pytest.raises(OSError, match="Input/output error"):
            kit.medium.backup(copy)

    assert ([[]], []) == (found, list(copy.path.iterdir()))


@pytest.mark.parametrize("links", [True, False])
def test_a_copy_never_replaces_a_copy_that_another_process_has_made_meanwhile(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    copy, whole = prepare_folder(tmp_path / "copy", create=True), prepare_folder(tmp_path / "whole", create=True)
    if not links:
        monkeypatch.setattr("os.link", fails)
    kit.medium.backup(whole)
    monkeypatch.setattr("mqflow.embedded.storage.sqlite.medium.mark_copy", lambda _: copy.database.write_text("another"))

    with pytest.raises(OSError, match=r"exist|no links"):
        kit.medium.backup(copy)

    assert ("another", []) == (copy.database.read_text(), copy.half_copies())
    assert [] == serials(reopened(whole.path))


def fails(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, "no links")


def test_a_copy_over_the_file_of_another_database_does_not_get_the_changes_in_its_log(kit: Kit, tmp_path: Path) -> None:
    kit.medium.make(added(1), synced=True)
    copy = prepare_folder(tmp_path / "copy", create=True)
    kit.medium.backup(copy)
    kit.medium.make(added(2), synced=True)
    killed = DataFolder(shutil.copytree(kit.folder.path, tmp_path / "killed"))
    shutil.copy(copy.database, killed.database)
    before = killed.database.read_bytes()

    with pytest.raises(ForeignLogError, match="put the whole folder of the backup in its place"):
        reopened(killed.path)

    assert before == killed.database.read_bytes()
    assert [1] == serials(reopened(copy.path))


@pytest.mark.parametrize("begins_again", [False, True])
def test_a_log_is_refused_by_a_database_that_began_as_another_copy(kit: Kit, tmp_path: Path, *, begins_again: bool) -> None:
    """SQLite would apply the changes of one database to the other, whose pages have other contents."""
    copy = prepare_folder(tmp_path / "copy", create=True)
    kit.medium.backup(copy)
    started = SqliteMedium(copy)
    started.load({}, 0.0)
    started.make(added(2), synced=True)
    started.close(write=True)
    if begins_again:
        kit.medium.make_room()
    kit.medium.make(added(1), synced=False)
    killed = DataFolder(shutil.copytree(kit.folder.path, tmp_path / "killed"))
    over = DataFolder(shutil.copytree(killed.path, tmp_path / "over"))
    shutil.copytree(copy.path, over.path, dirs_exist_ok=True)
    before = {path.name: path.read_bytes() for path in over.path.iterdir()}

    with pytest.raises(ForeignLogError, match="put the whole folder of the backup in its place"):
        SqliteMedium(over)

    assert before == {path.name: path.read_bytes() for path in over.path.iterdir()}
    assert ([1], [2]) == (serials(reopened(killed.path)), serials(reopened(copy.path)))


def test_a_log_of_a_newer_mqflow_is_refused_and_not_copied_into_the_database(kit: Kit, tmp_path: Path) -> None:
    kit.medium.make(added(1), synced=True)
    kit.database.execute("PRAGMA user_version = 99")
    killed = DataFolder(shutil.copytree(kit.folder.path, tmp_path / "killed"))
    before = {path.name: path.read_bytes() for path in killed.path.iterdir()}

    with pytest.raises(FolderVersionError, match=r"has format version 99.* Nothing was changed\."):
        SqliteMedium(killed)

    assert before == {path.name: path.read_bytes() for path in killed.path.iterdir()}


def test_a_log_without_its_database_is_refused(kit: Kit, tmp_path: Path) -> None:
    """SQLite would begin a new database, and delete the log."""
    kit.medium.make(added(1), synced=True)
    killed = DataFolder(shutil.copytree(kit.folder.path, tmp_path / "killed"))
    database = killed.database.rename(tmp_path / "database")

    with pytest.raises(ForeignLogError):
        SqliteMedium(killed)

    database.rename(killed.database)
    assert [1] == serials(reopened(killed.path))


def test_a_started_copy_has_a_log_like_every_database(kit: Kit, tmp_path: Path) -> None:
    copy, killed = prepare_folder(tmp_path / "copy", create=True), tmp_path / "killed"
    kit.medium.backup(copy)
    started = SqliteMedium(copy)
    started.load({}, 0.0)
    started.make(added(1), synced=True)
    shutil.copytree(copy.path, killed)
    started.close(write=True)

    assert [1] == serials(reopened(killed))


@pytest.mark.parametrize("write", [True, False])
def test_only_a_close_that_writes_forgets_how_much_of_the_log_was_synced(kit: Kit, *, write: bool) -> None:
    kit.medium.make(added(1), synced=True)
    note = kit.folder.database.with_name("queue_manager.db-synced")
    assert any(note.read_bytes())

    kit.medium.close(write=write)

    assert write != any(note.read_bytes())
