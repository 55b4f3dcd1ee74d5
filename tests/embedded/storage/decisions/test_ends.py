"""How a durable store begins and ends: its load, its close, an error that stops it for good, and its backup."""

from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.folder import DamagedFolderError, DataFolder, FolderInUseError, UnusableFileError
from mqflow.embedded.storage.medium import DamagedError
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.embedded.storage.decisions.scripted_medium import (
    EMPTY,
    FULL,
    Kit,
    ScriptedMedium,
    add,
    after_a_release,
    recorded,
)


def stopped(folder: Path, why: str) -> str:
    return (
        f"MQCMIT failed: MQRC_CALL_INTERRUPTED (2549). The store in {folder} takes no more calls: {why}. "
        "The outcome is unknown: check the queue before you repeat the call."
    )


def test_any_other_error_stops_the_store_for_good_and_every_call_is_unknown(tmp_path: Path) -> None:
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

    kit.store.close()
    kit.store.close()

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
    [
        ([FULL, FULL], MQIError, "MQCONN failed: MQRC_STORAGE_MEDIUM_FULL (2192). There is no room left in "),
        ([DamagedError("a page")], DamagedFolderError, "queue_manager.db is damaged: a page. Keep a copy of the folder"),
    ],
)
def test_a_load_that_fails_gives_the_folder_back_without_a_write(
    tmp_path: Path, errors: list[Exception | None], expected: type[Exception], sentence: str
) -> None:
    kit = Kit(tmp_path / "data")
    kit.medium.errors["load"] = errors

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
