"""The promises of a store, whatever happens to the process. Tests of disk faults are in a folder of their own."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage import load, rows
from mqflow.embedded.storage.database import APPLICATION_ID, FORMAT_VERSION
from mqflow.embedded.storage.folder import DamagedFolderError, FolderVersionError, ForeignFolderError, UnsafeFolderError
from mqflow.embedded.storage.requests import Done
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import (
    BackoutCounted,
    Change,
    MessageAdded,
    MessageRemoved,
    ObjectDefined,
    ObjectDeleted,
    QueueCleared,
    QueueDefined,
    QueueDeleted,
    QueueManagerDefined,
    StoredIdentifiers,
    StoredMessage,
    StoredObject,
)
from mqflow.mqi.attributes.queue import QueueAttributes, QueueManagerAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.embedded.storage.stored_messages import (
    DEFINITIONS,
    OTHER_QUEUE,
    QUEUE,
    added,
    defined,
    message,
    opened,
    reopened,
    serials,
    write,
)


def _wait_for_the_writer(store: SqliteStore) -> None:
    """Return when every earlier call is written. This function writes and syncs nothing itself."""
    mark = store.mark_in_flight(0, 0, harden=False)
    store.release_in_flight([mark])
    while mark not in store._marks._free:
        threading.Event().wait(0.001)


def test_a_store_that_was_never_used_holds_nothing(tmp_path: Path) -> None:
    snapshot = reopened(tmp_path / "data")

    assert snapshot.queue_manager is None
    assert snapshot.queues == ()
    assert serials(snapshot) == []
    assert snapshot.next_serial == 1


def test_a_folder_that_is_another_queue_managers_is_let_go_of(tmp_path: Path) -> None:
    EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")).close()
    with pytest.raises(MQIError):
        EmbeddedQueueManager("QM2", store=SqliteStore(tmp_path / "data"))

    EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")).close()


def test_a_folder_with_objects_that_this_mqflow_does_not_know_is_let_go_of(tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path)):
        pass
    with opened(tmp_path) as (store, _):
        write(store, [ObjectDefined("one of tomorrow", "X", b"\x80")])

    with pytest.raises(MQIError) as refused:
        EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path))

    assert Reason.OBJECT_TYPE_ERROR == refused.value.reason
    reopened(tmp_path)


def test_a_folder_that_could_not_be_opened_whole_is_let_go_of(tmp_path: Path) -> None:
    with defined(tmp_path / "data"):
        pass
    (tmp_path / "data" / "in_flight").rename(tmp_path / "in_flight")
    (tmp_path / "data" / "in_flight").mkdir()
    with pytest.raises(IsADirectoryError) as refused:
        SqliteStore(tmp_path / "data")
    (tmp_path / "data" / "in_flight").rmdir()

    assert len(reopened(tmp_path / "data").queues) == 2
    del refused  # the error refers to the failed store


def test_definitions_come_back_as_they_were_last_made(tmp_path: Path) -> None:
    renamed = QueueManagerAttributes(name="QM1", dead_letter_queue="SYSTEM.DEAD.LETTER.QUEUE")
    altered = QueueAttributes(name=QUEUE, backout_threshold=3, backout_requeue_queue=OTHER_QUEUE)

    with defined(tmp_path) as store:
        write(store, [QueueManagerDefined(renamed), QueueDefined(altered)])
    snapshot = reopened(tmp_path)

    assert renamed == snapshot.queue_manager
    assert altered in snapshot.queues
    assert {QUEUE, OTHER_QUEUE} == {found.name for found in snapshot.queues}


def test_objects_come_back_as_they_were_last_made_in_the_order_of_their_first_definition(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, [ObjectDefined("topic", "PRICES", b"first"), ObjectDefined("channel", "PRICES", b"another kind")])
        write(store, [ObjectDefined("topic", "NEWS", b"news"), ObjectDefined("topic", "PRICES", b"altered")])
        write(store, [ObjectDeleted("topic", "NEWS"), ObjectDeleted("topic", "NEVER.WAS")])
    snapshot = reopened(tmp_path)

    assert (StoredObject("topic", "PRICES", b"altered"), StoredObject("channel", "PRICES", b"another kind")) == snapshot.objects


def test_a_message_comes_back_whole(tmp_path: Path) -> None:
    put = StoredMessage(
        serial=7,
        queue=QUEUE,
        order_priority=4,
        descriptor=MessageDescriptor(message_id=b"M" * 24, format="MQSTR", reply_to_queue="REPLIES", put_date="20261121"),
        expires_at=1_763_700_000.5,
        put_at=1_763_600_000.25,
        body=bytes(range(256)),
        body_bytes=256,
    )

    with defined(tmp_path) as store:
        write(store, [MessageAdded(put)])

    assert [put] == list(reopened(tmp_path).messages)


@settings(max_examples=15, deadline=None)
@given(
    messages=st.lists(
        st.builds(
            dict,
            queue=st.sampled_from([QUEUE, OTHER_QUEUE]),
            order_priority=st.integers(0, 9),
            expires_at=st.none() | st.floats(0, 2**40),
            put_at=st.floats(0, 2**40),
            body=st.binary(max_size=200),
            descriptor=st.builds(
                MessageDescriptor,
                message_id=st.binary(min_size=24, max_size=24),
                format=st.text(st.characters(codec="latin-1"), max_size=8),
                report=st.integers(-(2**31), 2**31 - 1),
                put_application_name=st.text(max_size=28),
                backout_count=st.integers(0, 100),
            ),
        ),
        max_size=8,
    )
)
def test_every_message_comes_back_as_it_was_put(
    tmp_path_factory: pytest.TempPathFactory, messages: list[dict[str, object]]
) -> None:
    folder = tmp_path_factory.mktemp("data")
    put = [
        msgspec.convert(parts | {"serial": serial, "body_bytes": len(parts["body"])}, StoredMessage)  # type: ignore[arg-type]  # bytes
        for serial, parts in enumerate(messages, start=1)
    ]

    with defined(folder) as store:
        assert write(store, [MessageAdded(each) for each in put]) is None

    assert put == list(reopened(folder).messages)


def test_messages_come_back_in_order_of_arrival_however_they_were_committed(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        for serial in (5, 2, 9, 1):
            write(store, added(serial))

    assert [1, 2, 5, 9] == serials(reopened(tmp_path))


def test_a_removed_message_does_not_come_back(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1, 2))
        write(store, [MessageRemoved(1)])

    assert [2] == serials(reopened(tmp_path))


def test_a_message_added_and_removed_in_one_group_does_not_come_back(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        store.write(added(1, 2), None)
        store.write([MessageRemoved(1)], None)

    assert [2] == serials(reopened(tmp_path))


@pytest.mark.parametrize(
    "change",
    [QueueCleared(QUEUE), QueueDeleted(QUEUE), QueueCleared(QUEUE, (1, 2)), QueueDeleted(QUEUE, (1, 2))],
    ids=["CLEAR", "DELETE", "CLEAR known", "DELETE known"],
)
def test_clearing_or_deleting_a_queue_takes_its_messages_only(tmp_path: Path, change: QueueCleared | QueueDeleted) -> None:
    with defined(tmp_path) as store:
        write(store, [*added(1, 2), *added(3, queue=OTHER_QUEUE), change])

    assert [3] == serials(reopened(tmp_path))


@pytest.mark.parametrize("change", [QueueCleared("TEMPORARY"), QueueDeleted("TEMPORARY")], ids=["CLEAR", "DELETE"])
def test_a_queue_that_was_never_written_has_nothing_to_take(tmp_path: Path, change: QueueCleared | QueueDeleted) -> None:
    with defined(tmp_path) as store:
        answer = write(store, [*added(1), change])

    assert answer is None
    assert [1] == serials(reopened(tmp_path))


@pytest.mark.parametrize("change", [QueueCleared(QUEUE, (1,)), QueueDeleted(QUEUE, (1,))], ids=["CLEAR", "DELETE"])
def test_a_quarantined_message_is_deleted_with_its_queue(tmp_path: Path, change: QueueCleared | QueueDeleted) -> None:
    with defined(tmp_path) as store:
        write(store, [*added(1, 2), *added(3, 4, queue=OTHER_QUEUE)])
        store._database.execute("UPDATE message SET crc = 0 WHERE serial IN (2, 4)")
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
        store._database.set_progress_handler(count, 100)  # steps of SQLite's machine: some for each row that it reads
        write(store, [change])
        store._database.set_progress_handler(None, 0)

    assert hundreds < 10
    assert 4000 == len(serials(reopened(tmp_path)))


def test_a_message_put_after_a_clear_in_one_call_stays(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, [*added(1), QueueCleared(QUEUE), *added(2)])

    assert [2] == serials(reopened(tmp_path))


def test_a_queue_defined_again_starts_empty(tmp_path: Path) -> None:
    again = QueueDefined(QueueAttributes(name=QUEUE, max_depth=3))

    with defined(tmp_path) as store:
        write(store, added(1))
        write(store, [QueueDeleted(QUEUE), again, *added(2)])
    snapshot = reopened(tmp_path)

    assert [2] == serials(snapshot)
    assert again.attributes in snapshot.queues


def test_writes_without_a_waiting_caller_are_on_the_disk_after_a_close(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        for serial in range(1, 50):
            store.write(added(serial), None)

    assert list(range(1, 50)) == serials(reopened(tmp_path))


def test_answers_come_in_the_order_of_the_calls(tmp_path: Path) -> None:
    answered: list[int] = []

    with defined(tmp_path) as store:
        for serial in range(1, 200):
            store.write(added(serial), partial(_note, answered, serial))
        write(store, [])

    assert list(range(1, 200)) == answered


def _note(answered: list[int], serial: int, error: Exception | None) -> None:
    assert error is None
    answered.append(serial)


def test_many_calls_share_one_sync(tmp_path: Path) -> None:
    statements: list[str] = []
    gate = threading.Event()

    def busy(_: Exception | None) -> None:
        gate.wait(30)

    with defined(tmp_path) as store:
        store.write([], busy)  # the writer is busy while the mailbox fills
        store._database.set_trace_callback(statements.append)
        for serial in range(1, 101):
            store.write(added(serial), lambda _: None)
        gate.set()
        assert write(store, []) is None
        store._database.set_trace_callback(None)

    assert statements.count("COMMIT") <= 2


@pytest.mark.parametrize(
    ("change", "done", "level"),
    [
        (MessageRemoved(1), lambda _: None, "FULL"),
        (MessageRemoved(1), None, "NORMAL"),
        (BackoutCounted(1, 1), None, "FULL"),
    ],
    ids=["somebody waits", "nobody waits", "a backout"],
)
def test_a_write_with_a_waiting_caller_and_a_backout_count_are_synced(
    tmp_path: Path, change: Change, done: Done | None, level: str
) -> None:
    statements: list[str] = []

    with defined(tmp_path) as store:
        write(store, added(1))
        store._database.set_trace_callback(statements.append)
        store.write([change], done)
        _wait_for_the_writer(store)
    [synchronous] = [each for each in statements if "synchronous" in each]

    assert f"PRAGMA synchronous = {level}" == synchronous


# ---- BackoutCount


def test_a_backout_count_comes_back(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
        store.write([BackoutCounted(1, 2)], None)
    [stored] = reopened(tmp_path).messages

    assert stored.descriptor.backout_count == 2


def test_a_message_held_when_the_owner_ended_counts_as_backed_out(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1, 2))
        store.mark_in_flight(2, 0, harden=False)
    first, second = reopened(tmp_path).messages

    assert first.descriptor.backout_count == 0
    assert second.descriptor.backout_count == 1


def test_a_crash_is_counted_once_however_often_the_store_is_opened(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
        store.mark_in_flight(1, 4, harden=True)
    reopened(tmp_path)
    [stored] = reopened(tmp_path).messages

    assert stored.descriptor.backout_count == 5


def test_a_released_message_is_not_counted(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
        store.release_in_flight([store.mark_in_flight(1, 0, harden=False)])
    [stored] = reopened(tmp_path).messages

    assert stored.descriptor.backout_count == 0


def test_a_backout_that_is_both_written_and_marked_counts_once(tmp_path: Path) -> None:
    """The owner ended between the write of the backout and the release of the mark."""
    with defined(tmp_path) as store:
        write(store, added(1))
        store.mark_in_flight(1, 0, harden=False)
        write(store, [BackoutCounted(1, 1)])
    [stored] = reopened(tmp_path).messages

    assert stored.descriptor.backout_count == 1


def test_a_count_does_not_outlive_its_message(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
        write(store, [BackoutCounted(1, 3)])
        write(store, [MessageRemoved(1)])
        store.mark_in_flight(1, 3, harden=False)
    with opened(tmp_path) as (store, snapshot):
        counts = store._database.execute("SELECT count(*) FROM backout").fetchone()

    assert serials(snapshot) == []
    assert counts == (0,)


# ---- serial numbers


def test_a_serial_is_never_given_again_after_its_message_is_gone(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(41))
        write(store, [MessageRemoved(41)])

    assert reopened(tmp_path).next_serial > 41


def test_a_serial_far_ahead_is_noted_as_given(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(10**9))
        write(store, [MessageRemoved(10**9)])

    assert reopened(tmp_path).next_serial > 10**9


# ---- bodies


def test_messages_stay_on_the_disk_until_they_are_asked_for(tmp_path: Path) -> None:
    put = [message(1, bytes(100_000)), message(2, b"short", queue=OTHER_QUEUE), message(3)]

    with defined(tmp_path) as store:
        write(store, [MessageAdded(each) for each in put])
    with opened(tmp_path) as (store, snapshot):
        found = {entry.queue: (entry.order_priority, list(entry.serials)) for entry in snapshot.serials}
        messages = store.read_messages([3, 1, 2], 1_000_000)

    assert {QUEUE: (0, [1, 3]), OTHER_QUEUE: (0, [2])} == found
    assert [put[2], put[0], put[1]] == list(messages.values())


@pytest.mark.parametrize(("bytes_max", "read"), [(0, [1]), (8, [1]), (9, [1, 2]), (100, [1, 2, 3])])
def test_one_read_ends_with_the_message_that_reaches_its_bound(tmp_path: Path, bytes_max: int, read: list[int]) -> None:
    with defined(tmp_path) as store:
        write(store, added(1, 2, 3))

        assert read == list(store.read_messages([1, 2, 3], bytes_max))


def test_identifiers_are_read_in_the_asked_order_without_damaged_messages(tmp_path: Path) -> None:
    put = [message(serial, correlation_id=bytes([serial]) * 24, group_id=b"G" * 24) for serial in (1, 2, 3)]

    with defined(tmp_path) as store:
        write(store, [MessageAdded(each) for each in put])
        store._database.execute("UPDATE message SET descriptor = x'80' WHERE serial = 2")
        found = list(store.read_identifiers([3, 2, 1]))

    expected = [
        StoredIdentifiers(each.serial, each.descriptor.message_id, each.descriptor.correlation_id, each.descriptor.group_id)
        for each in (put[2], put[0])
    ]
    assert expected == found


def test_messages_can_be_read_from_any_thread_while_others_write(tmp_path: Path) -> None:
    read: list[StoredMessage | None] = []

    with defined(tmp_path) as store:
        write(store, added(1))
        reader = threading.Thread(target=lambda: read.extend(store.read_messages([1], 0)[1] for _ in range(200)))
        reader.start()
        for serial in range(2, 100):
            write(store, added(serial))
        reader.join()

    assert [message(1)] * 200 == read


# ---- the note of the serials


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a database of any size have a note."""
    monkeypatch.setattr(load, "_NOTED_PAGES_MIN", 0)


def _refuse_to_read(*_: object) -> None:
    raise AssertionError("the load read the whole database")


@pytest.mark.usefixtures("noted")
def test_a_load_after_a_close_takes_the_noted_serials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with defined(tmp_path) as store:
        write(store, [*added(1, 2), *added(3, queue=OTHER_QUEUE)])
        store._database.execute("UPDATE message SET order_priority = 7 WHERE serial = 2")
    monkeypatch.setattr(load, "_read_serials", _refuse_to_read)
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
    monkeypatch.setattr(load, "_NOTED_PAGES_MIN", 1_000_000)
    with opened(tmp_path) as (store, _):
        write(store, [*added(2), MessageRemoved(1)])
        store._database.execute("INSERT INTO state VALUES (?, ?, ?)", state)

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
        store._database.execute("UPDATE message SET crc = 0 WHERE serial = 1")
    reopened(tmp_path)  # reads every message, so the store finds the damage

    with opened(tmp_path) as (_, snapshot):
        assert ([2], [1]) == (serials(snapshot), [serial for serial, _ in snapshot.quarantined])


@pytest.mark.usefixtures("noted")
def test_a_store_whose_structure_is_damaged_writes_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> None:
        raise rows.DamagedRowError("a page is damaged")

    with defined(tmp_path) as store:
        write(store, added(1))
        monkeypatch.setattr(load, "_check_structure", damaged)

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
        store._database.execute("UPDATE message SET body = x'616e206f72646552' WHERE serial = 1")
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


# ---- which folders are refused


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
    assert (StoredObject("topic", "PRICES", b"new"),) == snapshot.objects


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


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")

    with pytest.raises(ForeignFolderError, match="it is a file"):
        SqliteStore(tmp_path / "data")


def test_a_missing_queue_manager_is_made_only_on_request(tmp_path: Path) -> None:
    with pytest.raises(ForeignFolderError, match=r"there is no queue_manager\.db in it"):
        SqliteStore(tmp_path / "data", create=False)
    assert not (tmp_path / "data").exists()


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)

    with pytest.raises(UnsafeFolderError, match="chmod go-w"):
        SqliteStore(tmp_path / "data")


def test_only_the_owner_can_read_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with defined(folder) as store:
        write(store, added(1))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {"queue_manager.db", "queue_manager.db-wal", "owner.lock", "in_flight", "ballast"} == set(modes)
    assert {0o600} == set(modes.values())


def test_the_file_says_whose_it_is(tmp_path: Path) -> None:
    with defined(tmp_path):
        pass

    assert (tmp_path / "queue_manager.db").read_bytes()[68:72] == APPLICATION_ID.to_bytes(4)


# ---- ends


def test_after_close_nothing_is_taken_any_more(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, _):
        pass
    answer = write(store, DEFINITIONS)

    assert isinstance(answer, MQIError)
    assert answer.reason == Reason.CALL_INTERRUPTED
    with pytest.raises(MQIError, match="it was closed"):
        store.read_messages([1], 0)


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, _):
        store.close()

    assert serials(reopened(tmp_path)) == []


_FORKING = """
import os, sys, warnings
from pathlib import Path
from tests.embedded.storage.stored_messages import added, defined, reopened, serials, write
warnings.simplefilter("ignore")
with defined(Path(sys.argv[1])) as store:
    write(store, added(1))
    if os.fork() == 0:
        sys.exit(0)  # an ordinary end: every object of the child is finalised
    os.wait()
    write(store, added(2))
    os.kill(os.getpid(), 9)
"""


def test_the_ordinary_end_of_a_forked_child_leaves_the_owners_log_alone(tmp_path: Path) -> None:
    """SQLite would copy the log into the database and delete the log, as if no other process used it."""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", _FORKING, str(tmp_path)], cwd=root, check=False, env={"PYTHONPATH": str(root)})

    assert [1, 2] == serials(reopened(tmp_path))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 and later; this test forks on purpose
def test_a_forked_child_can_neither_write_nor_hurt_the_owner(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, added(1))
        child = os.fork()
        if child == 0:  # the exit status is the child's answer: no handler of the test run changes it
            answers: list[Exception | None] = []
            store.write(added(2), answers.append)
            store.close()
            os._exit(0 if isinstance(answers[0], MQIError) and "forked" in str(answers[0]) else 1)
        _, status = os.waitpid(child, 0)
        write(store, added(3))

    assert os.waitstatus_to_exitcode(status) == 0
    assert [1, 3] == serials(reopened(tmp_path))
