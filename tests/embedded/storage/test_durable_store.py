"""The decisions of a durable store: groups, syncs, a full disk, the load, the close, and an error that stops it permanently.

The medium records its calls, and no thread runs. `test_promises` has a store on the disk.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.embedded.storage.ballast import BALLAST_BYTES
from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.folder import DamagedFolderError, DataFolder, FolderInUseError, UnusableFileError
from mqflow.embedded.storage.medium import DamagedError
from mqflow.embedded.storage.store import BackoutCounted, Change, MessageRemoved, ObjectDefined, QueueCleared
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.world import THREADS, wake
from tests.embedded.storage.scripted_medium import EMPTY, FULL, Kit, ScriptedMedium, add, after_a_release, full, recorded, said
from tests.embedded.storage.stored_messages import OTHER_QUEUE, QUEUE, message


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    made = Kit(tmp_path / "data")
    made.store.load()
    yield made
    made.store.close()


def test_all_waiting_calls_are_one_transaction_with_one_sync(kit: Kit) -> None:
    kit.write("first", add(1), MessageRemoved(2))
    kit.write("second", waits=False)
    kit.write("third", add(3))

    assert [("make", [1, -2, 3], True), ("tidy",)] == kit.run()
    assert [("first", None), ("third", None)] == kit.answers
    assert f"mqflow-writer-{kit.folder.name}" == kit.runner.name


def test_a_group_wakes_an_event_loop_once_after_all_its_answers(kit: Kit) -> None:
    happened: list[str] = []

    def wakes_up() -> None:
        happened.append("woken")

    def answered(name: str, _: Exception | None) -> None:
        happened.append(name)
        wake(wakes_up)

    for number in (1, 2):
        kit.store.write([add(number)], partial(answered, str(number)))
    kit.run()

    assert ["1", "2", "woken"] == happened


def test_a_sync_counts_with_its_calls_and_its_duration_for_the_next_group(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    make, counted = kit.medium.make, list[tuple[int, float]]()

    def slow(changes: Iterable[Change], *, synced: bool) -> None:
        kit.clock.advance(0.25)
        make(changes, synced=synced)

    monkeypatch.setattr(kit.medium, "make", slow)
    monkeypatch.setattr(kit.store._group_commit, "synced", lambda calls, took_s: counted.append((calls, took_s)))
    kit.write("1", add(1))
    kit.write("2", add(2))
    kit.run()

    assert [(2, 0.25)] == counted


@pytest.mark.parametrize(
    ("change", "waits", "synced"),
    [(add(1), False, False), (MessageRemoved(1), True, True), (BackoutCounted(1, 1), False, True)],
)
def test_a_sync_is_for_a_waiting_caller_and_for_a_backout_count(kit: Kit, change: Change, *, waits: bool, synced: bool) -> None:
    kit.write("call", change, waits=waits)

    assert [("make", [said(change)], synced), ("tidy",)] == kit.run()


def test_a_group_without_room_is_made_call_by_call_and_the_rest_is_refused(kit: Kit) -> None:
    kit.medium.errors["make"] = [FULL, None, FULL, None]
    for number in (1, 2, 3):
        kit.write(str(number), add(number, queue=f"Q{number}"))

    expected: list[object] = [
        ("make", [1, 2, 3], True, "NoRoomError"), ("make room",), ("make", [1], True), ("make", [2], True, "NoRoomError"),
        ("make", [3], True), ("tidy",),
    ]  # fmt: skip
    assert expected == kit.run()
    assert [("1", None), ("2", full(kit.folder)), ("3", None)] == kit.answers


def test_a_full_disk_gives_the_ballast_back_before_the_calls_are_made_alone(kit: Kit) -> None:
    kit.write("add", add(1))
    kit.run()
    assert BALLAST_BYTES == (kit.folder / "ballast").stat().st_size
    kit.medium.errors["make"] = [FULL]
    kit.write("remove", MessageRemoved(1))

    kit.run()

    assert not (kit.folder / "ballast").exists()
    assert ("remove", None) == kit.answers[-1]


def test_calls_that_nobody_waits_for_are_owed_and_made_in_growing_groups(kit: Kit) -> None:
    """One call in the first transaction, then two, then four: a disk that stays full costs one attempt."""
    kit.medium.errors["make"] = [FULL] * 9
    for number in range(1, 9):
        kit.write(str(number), MessageRemoved(number), waits=False)
    kit.run()

    kit.write("later", MessageRemoved(99))
    makes: list[object] = [("make", [-1], False), ("make", [-2, -3], False), ("make", [-4, -5, -6, -7], False),
             ("make", [-8], False), ("make", [-99], True), ("tidy",)]  # fmt: skip
    assert makes == kit.run()
    assert [("tidy",)] == after_a_release(kit)


def test_a_disk_that_stays_full_is_asked_once_for_the_owed_calls(kit: Kit) -> None:
    kit.medium.errors["make"] = [FULL] * 3
    for number in (1, 2):
        kit.write(str(number), MessageRemoved(number), waits=False)
    kit.run()

    kit.medium.errors["make"] = [None, FULL]
    assert [("make", [-1], False), ("make", [-2], False, "NoRoomError"), ("tidy",)] == after_a_release(kit)
    assert [("make", [-2], False), ("tidy",)] == after_a_release(kit)


def test_changes_to_one_object_stay_in_order_behind_an_owed_call(kit: Kit) -> None:
    kit.medium.errors["make"] = [FULL, FULL]
    kit.write("owed", QueueCleared(QUEUE), waits=False)
    kit.run()
    kit.medium.errors["make"] = [FULL]
    kit.write("same queue", add(1))
    kit.write("same queue, nobody waits", QueueCleared(QUEUE), waits=False)
    kit.write("other queue", add(2, queue=OTHER_QUEUE))
    kit.write("drained", MessageRemoved(3))

    assert [("make", [QUEUE], False, "NoRoomError"), ("make", [2, -3], True), ("tidy",)] == kit.run()
    assert [("same queue", full(kit.folder)), ("other queue", None), ("drained", None)] == kit.answers
    kit.write("again", add(4))
    assert [("make", [QUEUE], False), ("make", [QUEUE], False), ("make", [4], True), ("tidy",)] == kit.run()


def test_a_call_behind_a_call_that_is_owed_since_this_group_is_refused(kit: Kit) -> None:
    kit.medium.errors["make"] = [FULL, FULL]
    kit.write("owed", QueueCleared(QUEUE), waits=False)
    kit.write("behind", add(1))

    makes = [("make", [QUEUE, 1], True, "NoRoomError"), ("make room",), ("make", [QUEUE], False, "NoRoomError"), ("tidy",)]
    assert makes == kit.run()
    assert [("behind", full(kit.folder))] == kit.answers


def free(folder: Path, spare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk have the ballast and so many more bytes free."""

    def statvfs(_: Path) -> SimpleNamespace:
        ballast = folder / "ballast"
        used = ballast.stat().st_size if ballast.exists() else 0
        return SimpleNamespace(f_bavail=BALLAST_BYTES + spare - used, f_frsize=1)

    monkeypatch.setattr("os.statvfs", statvfs)


ADDED = len(b"an order") + 1_024


@pytest.mark.parametrize(
    ("spare", "made"), [(3 * ADDED, [1, 2, -9, 3]), (3 * ADDED - 1, [1, 2, -9]), (ADDED, [1, -9]), (0, [-9])]
)
def test_puts_are_refused_from_the_one_on_that_would_take_the_reserve(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, spare: int, made: list[int]
) -> None:
    """A call that only removes has always room: its answer is the way out of a full disk."""
    free(kit.folder, spare, monkeypatch)
    for number in (1, 2):
        kit.write(str(number), add(number))
    kit.write("9", MessageRemoved(9))
    kit.write("3", add(3))

    assert [("make", made, True), ("tidy",)] == kit.run()
    refused = {name for name, error in kit.answers if error is not None}
    assert {str(abs(number)) for number in made} == {"1", "2", "3", "9"} - refused


def test_an_object_takes_room_by_its_length_and_a_removal_none(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    free(kit.folder, 1_024 + 4, monkeypatch)
    kit.write("fits", ObjectDefined("topic", "A", b"1234"))
    kit.run()
    kit.write("too long", ObjectDefined("topic", "A", b"12345"))
    kit.run()

    assert [("fits", None), ("too long", full(kit.folder))] == kit.answers


@pytest.mark.parametrize(("reusable", "shrinks"), [(ADDED + 1_000, True), (ADDED + 999, False)])
def test_a_store_that_was_drained_gives_the_log_back_for_its_ballast(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, reusable: int, *, shrinks: bool
) -> None:
    """Without the ballast, free pages of the database as many as the call needs show that the queues were drained."""
    free(kit.folder, -1, monkeypatch)
    kit.medium.reusable, kit.medium.log = reusable, 1_000
    kit.write("add", add(1))

    assert shrinks == (("shrink",) in kit.run())
    assert [("add", full(kit.folder))] == kit.answers


def test_a_drained_store_takes_a_message_once_its_log_gave_the_room_back(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    free(kit.folder, -1, monkeypatch)
    kit.medium.reusable = 2 * ADDED
    shrink = kit.medium.shrink

    def shrunk() -> None:
        shrink()
        free(kit.folder, ADDED, monkeypatch)

    monkeypatch.setattr(kit.medium, "shrink", shrunk)
    kit.write("add", add(1))

    assert [("shrink",), ("make", [1], True), ("tidy",)] == kit.run()
    assert BALLAST_BYTES == (kit.folder / "ballast").stat().st_size


def test_marks_are_forgotten_when_nothing_is_owed_any_more(kit: Kit) -> None:
    """A mark stands for a backout count that can be among the owed calls."""
    mark = kit.store.mark_in_flight(5, 0, harden=False)
    kit.medium.errors["make"] = [FULL] * 3
    kit.write("owed", BackoutCounted(5, 1), waits=False)
    kit.store.release_in_flight([mark])
    kit.run()
    assert {5: 0} == recorded(kit.folder)

    after_a_release(kit)
    assert {5: 0} == recorded(kit.folder)
    after_a_release(kit)
    assert {} == recorded(kit.folder)


def test_damage_that_a_read_found_is_set_aside_in_the_next_group(kit: Kit) -> None:
    kit.medium.messages = {1: message(1), 2: DamagedError("its body is damaged"), 3: message(3)}

    assert {1: message(1), 2: None, 3: message(3)} == kit.store.read_messages([1, 2, 3], 10**6)
    assert [1, 3] == [each.serial for each in kit.store.read_identifiers([1, 2, 3])]

    why = (2, "its body is damaged")
    assert [("set aside", [why, why], kit.clock.wall()), ("tidy",)] == kit.run()


def test_a_full_disk_delays_the_note_of_a_damaged_message_and_the_tidying(kit: Kit) -> None:
    kit.write("add", add(1))
    kit.run()
    kit.medium.messages = {2: DamagedError("gone")}
    kit.store.read_messages([2], 0)
    kit.medium.errors |= {"set aside": [FULL], "tidy": [FULL]}

    expected = [("set aside", [(2, "gone")], kit.clock.wall(), "NoRoomError"), ("tidy", "NoRoomError")]
    assert expected == kit.run()
    assert not (kit.folder / "ballast").exists()
    kit.write("still there", add(3))
    kit.run()
    assert ("still there", None) == kit.answers[-1]


@pytest.mark.parametrize(("bytes_max", "read"), [(0, [1]), (8, [1]), (9, [1, 2, 3]), (16, [1, 2, 3]), (17, [1, 2, 3, 4])])
def test_a_read_ends_with_the_message_that_reaches_its_bound(kit: Kit, bytes_max: int, read: list[int]) -> None:
    """A damaged message has no length. The medium reads no message behind the last one."""
    kit.medium.messages = {1: message(1), 2: DamagedError("gone"), 3: message(3), 4: message(4)}

    assert read == list(kit.store.read_messages([1, 2, 3, 4], bytes_max))
    assert [("read", serial) for serial in read] == kit.medium.calls[1:]


def test_identifiers_are_read_a_thousand_at_a_time(kit: Kit) -> None:
    """Others use the medium between two parts."""
    kit.medium.messages = {serial: message(serial) for serial in range(1, 2_051)}
    found = kit.store.read_identifiers(range(1, 2_051))

    assert list(range(1, 1_025)) == [next(found).serial for _ in range(1_024)]
    for serial in (2_048, 2_050):
        kit.medium.messages[serial] = DamagedError("gone")
    assert [*range(1_025, 2_048), 2_049] == [each.serial for each in found]


def stopped(folder: Path, why: str) -> str:
    return (
        f"MQCMIT failed: MQRC_CALL_INTERRUPTED (2549). The store in {folder} takes no more calls: {why}. "
        "The outcome is unknown: check the queue before you repeat the call."
    )


def test_any_other_error_stops_the_store_permanently_and_every_call_is_unknown(tmp_path: Path) -> None:
    """A second sync would report success for pages that the first one lost. Even a close would write."""
    kit = Kit(tmp_path / "data")
    kit.store.load()
    kit.medium.errors["make"] = [OSError(5, "Input/output error")]
    kit.write("first", add(1))
    kit.write("nobody waits", add(2), waits=False)
    kit.write("second", add(3))

    assert [("make", [1, 2, 3], True, "OSError")] == kit.run()
    kit.write("later", add(4))

    why = stopped(kit.folder, "OSError: [Errno 5] Input/output error")
    assert [("first", why), ("second", why), ("later", why)] == kit.answers
    for call in (lambda: kit.store.read_messages([1], 0), lambda: list(kit.store.read_identifiers([1]))):
        with pytest.raises(MQIError) as raised:
            call()
        assert why == str(raised.value)
    kit.store.close()
    assert (1, False) == (len(kit.medium.calls), kit.runner.ended)
    with pytest.raises(FolderInUseError):
        Kit(tmp_path / "data")


def test_calls_that_arrive_during_the_last_group_are_answered_too(tmp_path: Path) -> None:
    kit = Kit(tmp_path / "data")
    kit.store.load()
    make = kit.medium._do

    def late(method: str, *said: object) -> None:
        kit.write("late", add(2))
        kit.store.release_in_flight(())
        make(method, *said)

    kit.medium._do = late  # type: ignore[method-assign]  # another thread writes during the transaction
    kit.medium.errors["make"] = [ValueError("a defect")]
    kit.write("first", add(1))

    kit.run()

    why = stopped(kit.folder, "ValueError: a defect")
    assert [("first", why), ("late", why)] == kit.answers


def test_a_close_that_fails_raises_why_and_keeps_the_folder(tmp_path: Path) -> None:
    kit = Kit(tmp_path / "data")
    kit.medium.errors["close"] = [OSError(5, "Input/output error")]

    with pytest.raises(MQIError) as raised:
        kit.store.close()

    assert stopped(kit.folder, "OSError: [Errno 5] Input/output error") == str(raised.value)
    with pytest.raises(FolderInUseError):
        Kit(tmp_path / "data")


def test_a_close_makes_what_is_outstanding_and_gives_the_folder_back(tmp_path: Path) -> None:
    kit = Kit(tmp_path / "data")
    kit.store.load()
    kit.write("add", add(1))
    kit.medium.calls.clear()
    marks = kit.store._marks._descriptor

    kit.store.close()
    kit.store.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(marks)
    assert [("make", [1], True), ("tidy",), ("close", True)] == kit.medium.calls
    assert kit.runner.ended
    kit.write("late", add(2))
    assert [("add", None), ("late", stopped(kit.folder, "it was closed"))] == kit.answers
    kit.store.write([add(3)], None)
    again = Kit(tmp_path / "data")
    again.store.close()
    assert [("tidy",), ("close", True)] == again.medium.calls


def test_another_owner_of_the_files_stops_the_store_before_it_writes(tmp_path: Path) -> None:
    kit = Kit(tmp_path / "data")
    kit.store.load()
    kit.medium.evidence = "its database was replaced"
    assert [("tidy",)] == after_a_release(kit)
    kit.write("add", add(1))

    assert [] == kit.run()
    why = (
        f"UnsafeFolderError: The data folder {kit.folder} is not safe to use: its database was replaced while it was in use. "
        "Find the process that did it"
    )
    assert [("add", stopped(kit.folder, why))] == kit.answers


@pytest.mark.parametrize("find", ["damage", "close"])
def test_the_files_are_checked_before_damage_is_noted_and_before_the_last_write(tmp_path: Path, find: str) -> None:
    kit = Kit(tmp_path / "data")
    kit.store.load()
    kit.medium.evidence = "its database was replaced"
    kit.medium.messages = {1: DamagedError("gone")}
    kit.medium.calls.clear()

    if find == "damage":
        kit.store.read_messages([1], 0)
        kit.runner.run()
        assert [("read", 1)] == kit.medium.calls
    else:
        with pytest.raises(MQIError, match="UnsafeFolderError: "):
            kit.store.close()
        assert [] == kit.medium.calls


def test_a_load_counts_what_was_in_flight_and_claims_the_folder(tmp_path: Path) -> None:
    first = Kit(tmp_path / "data")
    first.store.load()
    first.store.mark_in_flight(5, 2, harden=False)
    first.store.close()
    kit = Kit(tmp_path / "data")

    assert EMPTY is kit.store.load()

    assert [("load", {5: 2}, kit.clock.wall())] == kit.medium.calls
    assert ["7"] == (kit.folder / "owner.lock").read_text().split()[1:]
    assert {} == recorded(kit.folder)
    kit.store.close()


def test_a_load_on_a_full_disk_gives_the_ballast_back_and_tries_again(tmp_path: Path) -> None:
    kit = Kit(tmp_path / "data")
    (kit.folder / "ballast").write_bytes(b"a part")
    kit.medium.errors["load"] = [FULL]

    kit.store.load()

    assert ["load", "make room", "load"] == [call[0] for call in kit.medium.calls]  # type: ignore[index]
    assert not (kit.folder / "ballast").exists()
    kit.store.close()


@pytest.mark.parametrize(
    ("errors", "expected", "sentence"),
    [({"load": [FULL, FULL]}, MQIError, "MQCONN failed: MQRC_STORAGE_MEDIUM_FULL (2192). There is no room left in "),
     ({"load": [FULL], "make room": [sqlite3.OperationalError("disk I/O error")]}, MQIError,
      "MQCONN failed: MQRC_FILE_SYSTEM_ERROR (2208). "),
     ({"load": [DamagedError("a page")]}, DamagedFolderError,
      "queue_manager.db is damaged: a page. Keep a copy of the folder")],
)  # fmt: skip
def test_a_load_that_fails_gives_the_folder_back_without_a_write(
    tmp_path: Path, errors: dict[str, list[Exception | None]], expected: type[Exception], sentence: str
) -> None:
    kit = Kit(tmp_path / "data")
    kit.medium.errors.update(errors)

    with pytest.raises(expected) as raised:
        kit.store.load()

    assert sentence in str(raised.value)
    assert ("close", False) == kit.medium.calls[-1]
    kit.write("late", add(1))
    assert [("late", stopped(kit.folder, "it was closed"))] == kit.answers
    Kit(tmp_path / "data").store.close()


def test_a_store_whose_files_do_not_open_gives_the_folder_back(tmp_path: Path) -> None:
    def fails(_: DataFolder) -> Any:
        raise UnusableFileError(tmp_path, "a link")

    for _ in range(2):
        with pytest.raises(UnusableFileError):
            DurableStore(tmp_path / "data", fails)
    (tmp_path / "data" / "in_flight").mkdir()
    media: list[ScriptedMedium] = []
    for _ in range(2):
        with pytest.raises(IsADirectoryError):
            DurableStore(tmp_path / "data", lambda folder: media.append(ScriptedMedium(folder)) or media[-1])  # type: ignore[func-returns-value]

    assert [[("close", False)]] * 2 == [medium.calls for medium in media]


@pytest.mark.parametrize(
    ("error", "reason", "name"),
    [
        (FULL, Reason.STORAGE_MEDIUM_FULL, "STORAGE_MEDIUM_FULL"),
        (OSError("I/O"), Reason.FILE_SYSTEM_ERROR, "FILE_SYSTEM_ERROR"),
    ],
)
def test_a_backup_that_fails_names_its_folder(kit: Kit, tmp_path: Path, error: Exception, reason: Reason, name: str) -> None:
    kit.medium.errors["backup"] = [error]

    with pytest.raises(MQIError) as raised:
        kit.store.backup(tmp_path / "copy")

    expected = f"Copying on {tmp_path / 'copy'} failed: MQRC_{name} ({int(reason)}). {error}."
    assert (reason, expected) == (raised.value.reason, str(raised.value)[: len(expected)])
    kit.store.backup(tmp_path / "copy")
    assert ("backup", tmp_path / "copy") == kit.medium.calls[-1]


def test_a_backup_into_the_folder_of_a_queue_manager_is_refused(kit: Kit) -> None:
    with pytest.raises(FileExistsError) as raised:
        kit.store.backup(kit.folder)

    assert f"[Errno 17] There is already a queue manager: '{kit.folder}'" == str(raised.value)


@pytest.mark.parametrize("name", ["queue_manager.db-wal", "queue_manager.db-synced", "in_flight"])
def test_a_backup_beside_a_file_of_another_database_is_refused(kit: Kit, tmp_path: Path, name: str) -> None:
    """The backup could not be used: a start would refuse it, or count deliveries of the other database."""
    (tmp_path / "copy").mkdir(mode=0o700)
    (tmp_path / "copy" / name).touch()

    with pytest.raises(FileExistsError) as raised:
        kit.store.backup(tmp_path / "copy")

    expected = f"[Errno 17] This file belongs to another queue manager. Name a new folder: '{tmp_path / 'copy' / name}'"
    assert expected == str(raised.value)


def test_a_child_that_was_forked_during_a_call_refuses_every_call_and_waits_for_none(kit: Kit) -> None:
    store, held, reads = kit.store, THREADS.lock(), THREADS.lock()
    store._gate, store._medium_free = held, reads
    with held, reads:  # by threads that the child does not have
        store._disown()
        assert held is not store._gate
        assert reads is not store._medium_free
        kit.write("put", add(1))
        with pytest.raises(MQIError) as read:
            list(store.read_identifiers([1]))
        store.close()

    [(name, answer)] = kit.answers
    assert ("put", []) == (name, kit.run())
    for each in (answer, str(read.value)):
        assert each is not None
        assert "this process was forked from the owner and has no part in its folder" in each
