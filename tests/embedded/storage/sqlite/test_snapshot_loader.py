"""The load of a database: the whole snapshot, and what a crash left behind. The database has no writer."""

import sqlite3
from array import array
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mqflow.embedded.storage.folder import prepare_folder
from mqflow.embedded.storage.sqlite import rows, snapshot_loader
from mqflow.embedded.storage.sqlite.database import open_database
from mqflow.embedded.storage.sqlite.rows import SERIALS_RESERVED, Catalogue, DamagedRowError
from mqflow.embedded.storage.sqlite.snapshot_loader import load_snapshot, note_serials, read_catalogue, read_epoch
from mqflow.embedded.storage.store import (
    BackoutCounted,
    Change,
    MessageRemoved,
    ObjectDefined,
    Snapshot,
    StoredSerials,
)
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from tests.embedded.storage.stored_messages import DEFINITIONS, OTHER_QUEUE, QUEUE, added

QUEUES = (QueueAttributes(name=QUEUE), QueueAttributes(name=OTHER_QUEUE))


class Stored:
    """A database and the file beside it."""

    def __init__(self, folder: Path) -> None:
        self.database: sqlite3.Connection = open_database(prepare_folder(folder, create=True))
        self.note = folder / "serials"

    def make(self, *changes: Change) -> None:
        """Make the changes."""
        for sql, parameters in read_catalogue(self.database).statements(changes):
            self.database.executemany(sql, parameters)

    def load(self, **held: int) -> Snapshot:
        """Load at the time 9; `held` names each serial, as in ``m7=2``."""
        return load_snapshot(self.database, self.note, {int(name[1:]): count for name, count in held.items()}, 9.0)

    def rows_of(self, query: str) -> list[tuple[object, ...]]:
        return self.database.execute(query).fetchall()


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    made = Stored(tmp_path)
    with closing(made.database):
        made.make(*DEFINITIONS)
        yield made


def snapshot(*serials: StoredSerials, next_serial: int = 1, **fields: object) -> Snapshot:
    usual: dict[str, object] = {"queue_manager": QueueManagerAttributes(name="QM1"), "queues": QUEUES}
    return Snapshot(serials=list(serials), next_serial=next_serial, **usual | fields)  # type: ignore[arg-type]  # the fields above


def of(*serials: int, queue: str = QUEUE, order_priority: int = 0) -> StoredSerials:
    return StoredSerials(queue, order_priority, array("q", serials))


def test_a_new_database_is_empty_and_each_load_is_another_owner_s(tmp_path: Path) -> None:
    new = Stored(tmp_path / "new")
    with closing(new.database):
        assert 0 == read_epoch(new.database)
        assert Catalogue({}, set(), 1) == read_catalogue(new.database)
        assert Snapshot(queue_manager=None, queues=(), serials=[], next_serial=1) == new.load()
        assert 1 == read_epoch(new.database)
        assert 1 + SERIALS_RESERVED == new.load().next_serial
        assert 2 == read_epoch(new.database)
        assert Catalogue({}, set(), 1 + 2 * SERIALS_RESERVED) == read_catalogue(new.database)


def test_a_load_returns_all_that_was_stored(stored: Stored) -> None:
    stored.make(
        *added(1, 3), *added(2, queue=OTHER_QUEUE), ObjectDefined("topic", "B", b"b"), ObjectDefined("topic", "A", b"a")
    )
    stored.database.execute("UPDATE message SET order_priority = -4 WHERE serial = 3")

    expected = snapshot(
        of(3, order_priority=-4), of(1), of(2, queue=OTHER_QUEUE), next_serial=1 + SERIALS_RESERVED,
        objects=(ObjectDefined("topic", "B", b"b"), ObjectDefined("topic", "A", b"a")),
    )  # fmt: skip
    assert expected == stored.load()
    assert {QUEUE: 1, OTHER_QUEUE: 2} == read_catalogue(stored.database).queue_ids


@pytest.mark.parametrize(("known", "held", "count"), [(0, 0, 1), (0, 4, 5), (4, 3, 4), (4, 4, 5), (5, 3, 5)])
def test_a_message_in_flight_counts_as_backed_out_once(stored: Stored, known: int, held: int, count: int) -> None:
    stored.make(*added(1, 2), *([BackoutCounted(1, known)] if known else []))

    stored.load(m1=held)

    assert [rows.count_row(1, count)] == stored.rows_of("SELECT serial, count, crc FROM backout")
    assert {1} == read_catalogue(stored.database).counted


def test_a_message_in_flight_that_is_gone_is_not_counted(stored: Stored) -> None:
    stored.make(*added(1))

    stored.load(m2=0)

    assert [] == stored.rows_of("SELECT * FROM backout")


def test_counts_and_damage_of_messages_that_are_gone_are_forgotten(stored: Stored) -> None:
    stored.make(*added(1), BackoutCounted(1, 1), BackoutCounted(2, 1))
    stored.database.executemany(rows.QUARANTINE, [(1, "damaged", 1.0), (2, "damaged", 1.0)])

    assert ((1, "damaged"),) == stored.load().quarantined
    assert ([(1,)], [(1, b"damaged", 1.0)]) == (
        stored.rows_of("SELECT serial FROM backout"), stored.rows_of("SELECT * FROM quarantine")
    )  # fmt: skip


def test_damage_that_a_load_finds_is_noted_with_its_time_and_the_others_are_loaded(stored: Stored) -> None:
    stored.make(*added(1, 2, 3, 4, 5), BackoutCounted(3, 1))
    stored.database.executemany(rows.QUARANTINE, [(4, "its body is damaged", 1.0)])
    for change in ("message SET queue = 9 WHERE serial = 1", "message SET order_priority = 'high' WHERE serial = 2",
                   "backout SET count = 7"):  # fmt: skip
        stored.database.execute(f"UPDATE {change}")

    found = stored.load()

    whys = ("its queue (number 9) is gone", "its descriptor is damaged", "its backout count is damaged", "its body is damaged")
    assert tuple(enumerate(whys, start=1)) == found.quarantined
    assert [of(5)] == list(found.serials)
    noted = [(serial, why.encode(), 1.0 if serial == 4 else 9.0) for serial, why in enumerate(whys, start=1)]
    assert noted == stored.rows_of("SELECT * FROM quarantine ORDER BY serial")


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 5])
def test_serials_are_read_in_parts(stored: Stored, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(snapshot_loader, "_ROWS_AT_ONCE", at_once)
    stored.make(*added(0, 1, 2, 7))

    found = [serial for part in stored.load().serials for serial in part.serials]

    assert [0, 1, 2, 7] == found


@pytest.fixture
def noted(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Return a database with messages and a note of their serials."""
    monkeypatch.setattr(snapshot_loader, "_NOTED_PAGES_MIN", 0)
    stored.load()
    stored.make(*added(1, 2), *added(3, queue=OTHER_QUEUE))
    note_serials(stored.database, stored.note)
    return stored


def noted_rows(stored: Stored) -> list[tuple[object, ...]]:
    return stored.rows_of("SELECT key FROM state WHERE key = 'noted_serials'")


def test_a_note_stands_for_the_serials_of_the_next_load_only(noted: Stored) -> None:
    """A row that came without a note of it shows which of the two was read."""
    noted.make(MessageRemoved(1))
    assert [(b"noted_serials",)] == noted_rows(noted)

    assert [of(1, 2), of(3, queue=OTHER_QUEUE)] == list(noted.load().serials)
    assert [] == noted_rows(noted)
    assert [of(2), of(3, queue=OTHER_QUEUE)] == list(noted.load().serials)


@pytest.mark.parametrize("wrong", ["no file", "another file", "another owner", "no digest"])
def test_a_note_of_another_time_is_not_read(noted: Stored, wrong: str) -> None:
    noted.make(MessageRemoved(1))
    match wrong:
        case "no file":
            noted.note.unlink()
        case "another file":
            noted.note.write_bytes(noted.note.read_bytes() + b"x")
        case "another owner":
            noted.database.executemany(rows.SET_STATE, [rows.state_row("epoch", 7)])
        case _:
            noted.database.execute("DELETE FROM state WHERE key = 'noted_serials'")

    assert [of(2), of(3, queue=OTHER_QUEUE)] == list(noted.load().serials)


def test_a_small_database_needs_no_note(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    [(pages,)] = stored.rows_of("PRAGMA page_count")
    assert isinstance(pages, int)
    for least, is_noted in ((pages + 1, False), (pages, True)):
        monkeypatch.setattr(snapshot_loader, "_NOTED_PAGES_MIN", least)
        note_serials(stored.database, stored.note)
        assert (is_noted, is_noted) == (stored.note.exists(), bool(noted_rows(stored)))


def test_new_damage_leaves_no_note_and_known_damage_does(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_loader, "_NOTED_PAGES_MIN", 0)
    stored.make(*added(1, 2))
    stored.database.execute("UPDATE message SET queue = 9 WHERE serial = 1")
    note_serials(stored.database, stored.note)
    assert [] == noted_rows(stored)

    stored.load()
    note_serials(stored.database, stored.note)

    assert [(b"noted_serials",)] == noted_rows(stored)
    assert [of(2)] == list(stored.load().serials)


def test_the_whole_note_is_on_the_disk_before_the_database_relies_on_it(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[bytes, object]] = []
    monkeypatch.setattr(snapshot_loader, "_NOTED_PAGES_MIN", 0)
    monkeypatch.setattr("os.fsync", lambda _: synced.append((stored.note.read_bytes(), noted_rows(stored))))

    note_serials(stored.database, stored.note)

    assert ([(stored.note.read_bytes(), [])], 0o600) == (synced, stored.note.stat().st_mode & 0o777)
    assert [(b"noted_serials",)] == noted_rows(stored)


def test_a_full_disk_leaves_no_note(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot_loader, "_NOTED_PAGES_MIN", 0)
    monkeypatch.setattr("os.open", full)

    note_serials(stored.database, stored.note)

    assert [] == noted_rows(stored)


def test_a_damaged_structure_refuses_the_load(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    stored.database.set_trace_callback(asked.append)
    stored.load()
    assert ["PRAGMA quick_check(1)"] == [statement for statement in asked if "quick_check" in statement]

    monkeypatch.setattr(snapshot_loader, "_SMALL_TABLES", ("state",))
    with pytest.raises(DamagedRowError, match=r"^damaged page$"):
        snapshot_loader._check_structure(_Verdict(b"damaged page"))  # type: ignore[arg-type]  # the verdict is all that it reads
    snapshot_loader._check_structure(_Verdict(b"ok"))  # type: ignore[arg-type]  # as above


class _Scripted:
    """A database that gives these answers for the serials, and no message afterwards."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.asked = list(answers), list[object]()

    def execute(self, _: str, asked: tuple[int, int]) -> list[tuple[int, int, bytes]]:
        self.asked.append(asked)
        return [(1, 0, self.answers.pop(0))] if self.answers else []


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ((b"4,3", b"8,5", b"9"), [of(3, 4), of(5, 8), of(9)]),
        ((b"4,3", b"8,5"), [of(3, 4), of(5, 8)]),
        ((b"3,4", b"4,5"), None),
        ((b"3,4", b"2,5"), None),
        ((b"3,3",), None),
        ((b"-1,3",), None),
    ],
)
def test_a_message_that_comes_twice_or_in_the_wrong_order_is_damage(
    answers: tuple[bytes, ...], found: list[StoredSerials] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_loader, "_ROWS_AT_ONCE", 2)
    database, into = _Scripted(*answers), snapshot_loader._Found({1: QUEUES[0]}, {}, {}, [])

    if found is None:
        with pytest.raises(DamagedRowError, match="the order of the messages is damaged"):
            snapshot_loader._read_serials(database, into)  # type: ignore[arg-type]  # it asks for serials only
        return
    snapshot_loader._read_serials(database, into)  # type: ignore[arg-type]  # as above

    assert (found, {}) == (into.serials, into.quarantined)
    assert [(-1, 2), (4, 2), (8, 2)] == database.asked


class _Verdict:
    """A database whose check ends so."""

    def __init__(self, verdict: bytes) -> None:
        self.verdict = verdict

    def execute(self, _: str) -> "_Verdict":
        return self

    def fetchmany(self, size: int) -> list[tuple[bytes]]:
        return [(self.verdict,)] * size
