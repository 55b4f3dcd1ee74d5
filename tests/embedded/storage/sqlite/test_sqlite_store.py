"""The SQLite store: its rows, its transactions, and the damage that it notices."""

import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.folder import DamagedFolderError, FolderVersionError, ForeignFolderError, prepare_folder
from mqflow.embedded.storage.requests import Done, Quarantine
from mqflow.embedded.storage.sqlite import rows, snapshot_loader
from mqflow.embedded.storage.sqlite.database import APPLICATION_ID, FORMAT_VERSION, check_identity, check_version
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import (
    BackoutCounted,
    Change,
    MessageAdded,
    MessageRemoved,
    ObjectDefined,
    QueueCleared,
    QueueDefined,
    QueueDeleted,
    StoredIdentifiers,
)
from mqflow.mqi.attributes.queue import QueueAttributes
from tests.embedded.storage.stored_messages import (
    OTHER_QUEUE,
    QUEUE,
    added,
    database_of,
    defined,
    message,
    opened,
    reopened,
    serials,
    write,
)


def _wait_for_the_writer(store: DurableStore) -> None:
    """Wait until every earlier call is written. This function writes and syncs nothing itself."""
    mark = store.mark_in_flight(0, 0, harden=False)
    store.release_in_flight([mark])
    while mark not in store._marks._free:
        threading.Event().wait(0.001)


@pytest.mark.parametrize("change", [QueueCleared(QUEUE, (1,)), QueueDeleted(QUEUE, (1,))], ids=["CLEAR", "DELETE"])
def test_a_quarantined_message_is_deleted_with_its_queue(tmp_path: Path, change: QueueCleared | QueueDeleted) -> None:
    with defined(tmp_path) as store:
        write(store, [*added(1, 2), *added(3, 4, queue=OTHER_QUEUE)])
        database_of(store).execute("UPDATE message SET crc = 0 WHERE serial IN (2, 4)")
    reopened(tmp_path)  # reads every message, so the store finds the damage
    with opened(tmp_path) as (store, snapshot):
        write(store, [change])

    assert [2, 4] == [serial for serial, _ in snapshot.quarantined]
    assert [4] == [serial for serial, _ in reopened(tmp_path).quarantined]


@pytest.mark.parametrize(
    "change", [QueueCleared(OTHER_QUEUE, (4001,)), QueueDeleted(OTHER_QUEUE, (4001,))], ids=["CLEAR", "DELETE"]
)
def test_emptying_a_queue_looks_at_no_message_of_another(tmp_path: Path, change: QueueCleared | QueueDeleted) -> None:
    """Otherwise the end of a subscription would delay every commit while SQLite reads a million messages."""
    hundreds = 0

    def count() -> int:
        nonlocal hundreds
        hundreds += 1
        return 0

    with defined(tmp_path) as store:
        write(store, [*added(*range(1, 4001)), *added(4001, queue=OTHER_QUEUE)])
        database_of(store).set_progress_handler(count, 100)  # steps of SQLite's machine: some for each row that it reads
        write(store, [change])
        database_of(store).set_progress_handler(None, 0)

    assert hundreds < 10
    assert 4000 == len(serials(reopened(tmp_path)))


def test_many_calls_share_one_sync(tmp_path: Path) -> None:
    statements: list[str] = []
    gate = threading.Event()

    def busy(_: Exception | None) -> None:
        gate.wait(30)

    with defined(tmp_path) as store:
        store.write([], busy)  # the writer is busy while the mailbox fills
        database_of(store).set_trace_callback(statements.append)
        for serial in range(1, 101):
            store.write(added(serial), lambda _: None)
        gate.set()
        assert write(store, []) is None
        database_of(store).set_trace_callback(None)

    assert statements.count("COMMIT") <= 2


def test_a_long_log_is_copied_into_the_database(tmp_path: Path) -> None:
    statements: list[str] = []

    with defined(tmp_path) as store:
        database_of(store).set_trace_callback(statements.append)
        for serial in range(1, 4):  # of 500 pages each
            assert write(store, [MessageAdded(message(serial, bytes(500 * 4096)))]) is None
        assert write(store, []) is None
        database_of(store).set_trace_callback(None)

    assert 1 == sum("wal_checkpoint" in each for each in statements)


@pytest.mark.parametrize(
    ("change", "done", "level"),
    [(MessageRemoved(1), lambda _: None, "FULL"), (MessageRemoved(1), None, "NORMAL"), (BackoutCounted(1, 1), None, "FULL")],
    ids=["somebody waits", "nobody waits", "a backout"],
)
def test_a_write_with_a_waiting_caller_and_a_backout_count_are_synced(
    tmp_path: Path, change: Change, done: Done | None, level: str
) -> None:
    statements: list[str] = []

    with defined(tmp_path) as store:
        write(store, added(1))
        database_of(store).set_trace_callback(statements.append)
        for changes, waits in (([], None), ([change], done)):  # nobody waits for the first write
            store.write(changes, waits)
            _wait_for_the_writer(store)

    levels = [each.removeprefix("PRAGMA synchronous = ") for each in statements if "synchronous" in each]
    assert list(dict.fromkeys(["NORMAL", level])) == levels


def test_the_note_of_a_damaged_message_takes_no_sync(tmp_path: Path) -> None:
    """The next read finds the damage again."""
    statements: list[str] = []

    with defined(tmp_path) as store:
        write(store, added(1))
        database_of(store).set_trace_callback(statements.append)
        store._post(Quarantine(1, "a bit is flipped"))
        _wait_for_the_writer(store)

    assert ["PRAGMA synchronous = NORMAL"] == [each for each in statements if "synchronous" in each]


def test_a_count_does_not_outlive_its_message(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
        write(store, [BackoutCounted(1, 3)])
        write(store, [MessageRemoved(1)])
        store.mark_in_flight(1, 3, harden=False)
    with opened(tmp_path) as (store, snapshot):
        counts = database_of(store).execute("SELECT count(*) FROM backout").fetchone()

    assert serials(snapshot) == []
    assert counts == (0,)


def test_identifiers_are_read_in_the_asked_order_without_damaged_messages(tmp_path: Path) -> None:
    put = [message(serial, correlation_id=bytes([serial]) * 24, group_id=b"G" * 24) for serial in (1, 2, 3)]

    with defined(tmp_path) as store:
        write(store, [MessageAdded(each) for each in put])
        database_of(store).execute("UPDATE message SET descriptor = x'80' WHERE serial = 2")
        found = list(store.read_identifiers([3, 2, 1]))

    expected = [
        StoredIdentifiers(each.serial, each.descriptor.message_id, each.descriptor.correlation_id, each.descriptor.group_id)
        for each in (put[2], put[0])
    ]
    assert expected == found


# ---- the note of the serials


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a database of any size have a note."""
    monkeypatch.setattr(snapshot_loader, "_NOTED_PAGES_MIN", 0)


def _refuse_to_read(*_: object) -> None:
    raise AssertionError("the load read the whole database")


@pytest.mark.usefixtures("noted")
def test_a_load_after_a_close_takes_the_noted_serials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with defined(tmp_path) as store:
        write(store, [*added(1, 2), *added(3, queue=OTHER_QUEUE)])
        database_of(store).execute("UPDATE message SET order_priority = 7 WHERE serial = 2")
    monkeypatch.setattr(snapshot_loader, "_read_serials", _refuse_to_read)
    store = SqliteStore(tmp_path)
    found = {(entry.queue, entry.order_priority, *entry.serials) for entry in store.load().serials}
    monkeypatch.undo()
    store.close()

    assert {(QUEUE, 0, 1), (QUEUE, 7, 2), (OTHER_QUEUE, 0, 3)} == found


@pytest.mark.usefixtures("noted")
@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "serials").unlink(),
        lambda folder: (folder / "serials").write_bytes(b"something else"),
        lambda folder: _edit(folder, "DELETE FROM state WHERE key = 'noted_serials'"),
    ],
    ids=["gone", "altered", "not of this database"],
)
def test_a_note_that_does_not_belong_to_the_database_counts_for_nothing(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    with defined(tmp_path) as store:
        write(store, added(1, 2))
    change(tmp_path)

    assert [1, 2] == serials(reopened(tmp_path))


@pytest.mark.usefixtures("noted")
def test_a_note_does_not_count_after_a_later_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second owner ends without a note, as after a kill, or is an mqflow that knows no note."""
    with defined(tmp_path) as store:
        write(store, added(1))
    with closing(sqlite3.connect(tmp_path / "queue_manager.db")) as database:
        state = database.execute("SELECT * FROM state WHERE key = 'noted_serials'").fetchone()
    monkeypatch.setattr(snapshot_loader, "_NOTED_PAGES_MIN", 1_000_000)
    with opened(tmp_path) as (store, _):
        write(store, [*added(2), MessageRemoved(1)])
        database_of(store).execute("INSERT INTO state VALUES (?, ?, ?)", state)

    assert [2] == serials(reopened(tmp_path))


@pytest.mark.usefixtures("noted")
def test_a_noted_message_without_a_row_is_set_aside(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1, 2))
    _edit(tmp_path, "DELETE FROM message WHERE serial = 1")
    with opened(tmp_path) as (store, snapshot):
        found = serials(snapshot)
        messages = store.read_messages([1, 2], 100)

    assert [1, 2] == found
    assert {1: None, 2: message(2)} == messages


@pytest.mark.usefixtures("noted")
def test_a_quarantined_message_is_not_in_the_note(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1, 2))
        database_of(store).execute("UPDATE message SET crc = 0 WHERE serial = 1")
    reopened(tmp_path)  # reads every message, so the store finds the damage

    with opened(tmp_path) as (_, snapshot):
        assert ([2], [1]) == (serials(snapshot), [serial for serial, _ in snapshot.quarantined])


@pytest.mark.usefixtures("noted")
def test_a_store_whose_structure_is_damaged_writes_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> None:
        raise rows.DamagedRowError("a page is damaged")

    with defined(tmp_path) as store:
        write(store, added(1))
        monkeypatch.setattr(snapshot_loader, "_check_structure", damaged)

    assert not (tmp_path / "serials").exists()


# ---- damage


def _edit(folder: Path, statement: str) -> None:
    database = sqlite3.connect(folder / "queue_manager.db")
    database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("body", "x'616e206f72646552'", "body"),
        ("descriptor", "x'80'", "descriptor"),
        ("order_priority", "9", "descriptor"),
        ("expires_at", "1.0", "descriptor"),
        ("put_at", "'never'", "descriptor"),
        ("queue", "2", "descriptor"),
        ("order_priority", "'high'", "descriptor"),
        ("crc", "0", "descriptor"),
        ("serial", "77", "descriptor"),
    ],
)
def test_an_altered_message_is_set_aside_and_the_next_one_delivered(tmp_path: Path, column: str, value: str, why: str) -> None:
    with defined(tmp_path) as store:
        write(store, added(1, 2))
    _edit(tmp_path, f"UPDATE message SET {column} = {value} WHERE serial = 1")  # noqa: S608 - the table above
    snapshot = reopened(tmp_path)
    [(_, said)] = snapshot.quarantined

    assert [2] == serials(snapshot)
    assert f"its {why} is damaged" == said


def test_a_message_of_an_unknown_queue_is_set_aside_when_the_store_opens(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1, 2))
    _edit(tmp_path, "UPDATE message SET queue = 9 WHERE serial = 1")

    with opened(tmp_path) as (_, snapshot):
        assert ((1, "its queue (number 9) is gone"),) == snapshot.quarantined
        assert [2] == serials(snapshot)


def test_a_damaged_backout_count_sets_its_message_aside(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, [*added(1, 2), BackoutCounted(1, 1)])
    _edit(tmp_path, "UPDATE backout SET count = 3")
    snapshot = reopened(tmp_path)

    assert [2] == serials(snapshot)
    assert ((1, "its backout count is damaged"),) == snapshot.quarantined


def test_a_body_damaged_while_the_owner_ran_is_never_returned(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1, 2))
        database_of(store).execute("UPDATE message SET body = x'616e206f72646552' WHERE serial = 1")
        found = store.read_messages([1, 2], 100)
    snapshot = reopened(tmp_path)

    assert {1: None, 2: message(2)} == found
    assert ((1, "its body is damaged"),) == snapshot.quarantined
    assert [2] == serials(snapshot)


def test_a_message_stays_set_aside(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
    _edit(tmp_path, "UPDATE message SET crc = 1")

    assert reopened(tmp_path).quarantined == reopened(tmp_path).quarantined != ()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE queue SET attributes = x'80' WHERE name = 'ORDERS.IN'",
        "UPDATE queue SET id = 9 WHERE name = 'ORDERS.IN'",
        "UPDATE state SET value = x'80' WHERE key = 'queue_manager'",
        "UPDATE state SET key = 'queue_manages' WHERE key = 'queue_manager'",
        "UPDATE object SET attributes = x'80'",
        "UPDATE object SET name = 'PRICED'",
        "UPDATE object SET kind = 'topix'",
        "UPDATE queue SET attributes = 7 WHERE name = 'ORDERS.IN'",
        "UPDATE state SET value = 7 WHERE key = 'queue_manager'",
        "UPDATE object SET attributes = 7",
    ],
)
def test_damaged_definitions_refuse_the_start_and_name_the_file(tmp_path: Path, statement: str) -> None:
    with defined(tmp_path) as store:
        write(store, [*added(1), ObjectDefined("topic", "PRICES", b"as defined")])
    _edit(tmp_path, statement)

    with pytest.raises(DamagedFolderError, match=r"queue_manager\.db is damaged: .*restore a backup"):
        reopened(tmp_path)


def test_a_refused_start_lets_go_of_the_folder(tmp_path: Path) -> None:
    with defined(tmp_path):
        pass
    _edit(tmp_path, "UPDATE state SET value = x'80' WHERE key = 'queue_manager'")

    for _ in range(2):  # the second open would find the folder in use
        with pytest.raises(DamagedFolderError):
            reopened(tmp_path)


def test_a_newer_folder_is_refused_with_both_versions(tmp_path: Path) -> None:
    with defined(tmp_path):
        pass
    _edit(tmp_path, f"PRAGMA user_version = {FORMAT_VERSION + 1}")

    with pytest.raises(
        FolderVersionError, match=f"version {FORMAT_VERSION + 1}; this mqflow knows versions up to {FORMAT_VERSION}"
    ):
        SqliteStore(tmp_path)


def test_a_folder_of_version_1_is_opened_and_takes_objects_from_then_on(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
    for statement in ("DROP TABLE object", "PRAGMA user_version = 1"):  # the only difference of the versions
        _edit(tmp_path, statement)

    with opened(tmp_path) as (store, upgraded):
        write(store, [ObjectDefined("topic", "PRICES", b"new")])
    snapshot = reopened(tmp_path)

    assert () == upgraded.objects
    assert [1] == serials(upgraded) == serials(snapshot)
    assert (ObjectDefined("topic", "PRICES", b"new"),) == snapshot.objects


def test_another_applications_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    _edit(tmp_path, "CREATE TABLE theirs (x)")
    before = (tmp_path / "queue_manager.db").read_bytes()

    with pytest.raises(ForeignFolderError, match="another application's database"):
        SqliteStore(tmp_path)
    assert before == (tmp_path / "queue_manager.db").read_bytes()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "queue_manager.db").write_bytes(b"Dear diary, " * 100)

    with pytest.raises(ForeignFolderError, match="not an SQLite database"):
        SqliteStore(tmp_path)


def test_a_missing_queue_manager_is_made_only_on_request(tmp_path: Path) -> None:
    with pytest.raises(ForeignFolderError, match=r"there is no queue_manager\.db in it"):
        SqliteStore(tmp_path / "data", create=False)
    assert not (tmp_path / "data").exists()


def test_only_the_owner_can_read_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with defined(folder) as store:
        write(store, added(1))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {"queue_manager.db", "queue_manager.db-wal", "queue_manager.db-synced", "owner.lock", "in_flight", "ballast"} == set(
        modes
    )
    assert {0o600} == set(modes.values())


def test_the_file_says_whose_it_is(tmp_path: Path) -> None:
    with defined(tmp_path):
        pass

    assert (tmp_path / "queue_manager.db").read_bytes()[68:72] == APPLICATION_ID.to_bytes(4)


def test_a_message_of_a_queue_that_was_defined_after_a_read_is_read(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
        assert {1: message(1)} == store.read_messages([1], 0)
        write(store, [QueueDefined(QueueAttributes(name="NEW")), *added(2, queue="NEW")])

        assert {2: message(2, queue="NEW")} == store.read_messages([2], 0)


def test_neighbours_of_a_gap_are_read_each_once(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(3, 5, 6, 9))

        found = store.read_messages([1, 2, 3, 4, 5, 6, 7, 9, 10, 3], 10**6)

    assert [1, 2, 3, 4, 5, 6, 7, 9, 10] == list(found)
    assert [3, 5, 6, 9] == [serial for serial, each in found.items() if each == message(serial)]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"", None),
        (b"SQLite format 3\0".ljust(68, b"\0") + bytes(4), None),
        (b"SQLite format 3\0".ljust(68, b"\0") + APPLICATION_ID.to_bytes(4), None),
        (b"SQLite format 3\0".ljust(68, b"\0") + (1).to_bytes(4), "another application's database (application id 0x1)"),
        (b"Dear diary, " * 6, "it is not an SQLite database"),
    ],
)
def test_the_header_of_a_file_says_whose_it_is(tmp_path: Path, header: bytes, said: str | None) -> None:
    folder = prepare_folder(tmp_path, create=True)
    folder.database.write_bytes(header)

    if said is None:
        check_identity(folder)
    else:
        with pytest.raises(ForeignFolderError) as raised:
            check_identity(folder)
        assert said in str(raised.value)


def test_the_header_of_a_file_has_its_version(tmp_path: Path) -> None:
    folder = prepare_folder(tmp_path, create=True)
    for version, known in ((0, True), (FORMAT_VERSION, True), (FORMAT_VERSION + 1, False), (2**31, False)):
        folder.database.write_bytes(bytes(60) + version.to_bytes(4) + b"\xff" * 8)
        if known:
            check_version(folder)
        else:
            with pytest.raises(FolderVersionError, match=f"has format version {version}; "):
                check_version(folder)
