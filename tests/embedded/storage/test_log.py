"""The log: segments are dropped and used again, a torn end is left out, and damage to synced groups is never silent."""

import os
import shutil
from pathlib import Path

import pytest

from mqflow.embedded.storage.folder import DamagedFolderError, FolderVersionError
from mqflow.embedded.storage.log import groups
from mqflow.embedded.storage.log.places import Places
from mqflow.embedded.storage.store import BackoutCounted, MessageAdded, MessageRemoved, ObjectDefined, StoredObject
from tests.embedded.storage.stored_messages import DEFINITIONS, added, defined, message, opened, reopened, serials, write

SEGMENT_BYTES = 16 * 1024


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQFLOW_TEST_STORE", "log")
    monkeypatch.setattr("mqflow.embedded.storage.log.files.SEGMENT_BYTES", SEGMENT_BYTES)


def _segments(folder: Path) -> list[Path]:
    return sorted((folder / "log").glob("*.segment"))


def _killed(folder: Path) -> Path:
    """Return a copy of a folder in use: a kill leaves the same files."""
    copy = folder.with_name("killed")
    shutil.copytree(folder, copy)
    return copy


def test_a_drained_queue_leaves_a_short_log(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        for serial in range(1, 200):
            write(store, [MessageAdded(message(serial, bytes(1000)))])
            write(store, [MessageRemoved(serial)])

        assert len(_segments(tmp_path)) <= 3


def test_an_old_message_its_backout_count_and_the_definitions_outlive_their_segment(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, [ObjectDefined("topic", "PRICES", b"as defined"), *added(1), BackoutCounted(1, 2)])
        for serial in range(2, 300):
            write(store, [MessageAdded(message(serial, bytes(1000)))])
            write(store, [MessageRemoved(serial)])
        names = [path.name for path in _segments(tmp_path)]
    found = reopened(tmp_path)
    [old] = found.messages

    assert "0000000001.segment" not in names
    assert (1, 2) == (old.serial, old.descriptor.backout_count)
    assert DEFINITIONS[0].attributes == found.queue_manager  # type: ignore[union-attr]  # the first one has attributes
    assert 2 == len(found.queues)
    assert (StoredObject("topic", "PRICES", b"as defined"),) == found.objects


def test_a_dropped_segment_is_used_again(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        used: dict[str, int] = {}
        for serial in range(1, 60):
            write(store, [MessageAdded(message(serial, bytes(1000)))])
            write(store, [MessageRemoved(serial)])
            used |= {path.name: path.stat().st_ino for path in _segments(tmp_path)}

    assert len(set(used.values())) < len(used)


def test_a_message_longer_than_a_segment_comes_back(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, [MessageAdded(message(1, bytes(10 * SEGMENT_BYTES)))])
        write(store, added(2))

    assert [1, 2] == serials(reopened(tmp_path))


def test_each_commit_group_is_one_write_and_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    with defined(tmp_path) as store:
        write(store, added(1))
        for name in ("pwrite", "fdatasync", "fsync"):
            monkeypatch.setattr(os, name, _noted(calls, name))
        write(store, [*added(2, 3), MessageRemoved(1), BackoutCounted(2, 1)])

        assert ["pwrite", "fdatasync"] == calls


def _noted(calls: list[str], name: str) -> object:
    real = getattr(os, name)

    def call(*arguments: object) -> object:
        calls.append(name)
        return real(*arguments)

    return call


def test_after_a_kill_the_last_acknowledged_group_is_there(tmp_path: Path) -> None:
    with defined(tmp_path / "data") as store:
        write(store, added(1))

        assert [1] == serials(reopened(_killed(tmp_path / "data")))


def test_a_torn_end_is_left_out_and_what_follows_is_kept(tmp_path: Path) -> None:
    with defined(tmp_path / "data") as store:
        write(store, added(1, 2))
        after_power_cut = _killed(tmp_path / "data")
    (after_power_cut / "log" / "synced").unlink()  # so the last group was perhaps never synced
    segment = _segments(after_power_cut)[0]
    segment.write_bytes(segment.read_bytes().replace(b"an order", b"\0" * 8))
    with opened(after_power_cut) as (store, found):
        write(store, added(7))

    assert [] == serials(found)
    assert [7] == serials(reopened(after_power_cut))


@pytest.mark.parametrize("at", ["a body", "a header"])
def test_damage_to_the_last_acknowledged_group_is_never_silent(tmp_path: Path, at: str) -> None:
    with defined(tmp_path / "data") as store:
        write(store, [MessageAdded(message(1, b"the last order"))])
        killed = _killed(tmp_path / "data")
    segment = _segments(killed)[0]
    whole = segment.read_bytes()
    place = whole.index(b"the last order") if at == "a body" else whole.rindex(b"mqGR") + 9
    segment.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])

    if at == "a body":
        assert ((1, "its body is damaged"),) == reopened(killed).quarantined
    else:
        with pytest.raises(DamagedFolderError):
            reopened(killed)


@pytest.mark.parametrize("which", [0, 1, -1], ids=["the first", "one in the middle", "the last"])
def test_a_missing_segment_refuses_the_start(tmp_path: Path, which: int) -> None:
    with defined(tmp_path) as store:
        for serial in range(1, 60):
            write(store, [MessageAdded(message(serial, bytes(1000)))])
    _segments(tmp_path)[which].unlink()

    with pytest.raises(DamagedFolderError):
        reopened(tmp_path)


def test_a_damaged_message_that_is_copied_forward_goes_to_quarantine(tmp_path: Path) -> None:
    with defined(tmp_path) as store:
        write(store, [MessageAdded(message(1, b"to be damaged")), MessageAdded(message(2, b"whole"))])
        segment = _segments(tmp_path)[0]
        for serial in range(3, 20):
            write(store, [MessageAdded(message(serial, bytes(1000)))])
        segment.write_bytes(segment.read_bytes().replace(b"to be damaged", b"is so damaged"))
        for serial in range(20, 300):
            write(store, [MessageAdded(message(serial, bytes(1000)))])
            write(store, [MessageRemoved(serial)])
        gone = not segment.exists()
    found = reopened(tmp_path)

    assert gone
    assert ((1, "its body is damaged"),) == found.quarantined
    assert list(range(2, 20)) == serials(found)


def test_a_backup_has_what_was_acknowledged_and_can_be_opened(tmp_path: Path) -> None:
    with defined(tmp_path / "data") as store:
        for serial in range(1, 40):
            write(store, [MessageAdded(message(serial, bytes(1000)))])
        store.backup(tmp_path / "copy")
        write(store, [MessageRemoved(1)])
        with pytest.raises(FileExistsError):
            store.backup(tmp_path / "copy")

    assert list(range(1, 40)) == serials(reopened(tmp_path / "copy"))
    assert list(range(2, 40)) == serials(reopened(tmp_path / "data"))


def test_a_log_of_a_newer_mqflow_is_refused_with_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(groups, "FORMAT_VERSION", 9)
        newer.setattr("mqflow.embedded.storage.log.medium.FORMAT_VERSION", 9)
        with defined(tmp_path):
            pass

    with pytest.raises(FolderVersionError, match="version 9; this mqflow knows versions up to 1"):
        reopened(tmp_path)


def test_a_place_is_found_until_it_is_forgotten() -> None:
    places = Places()
    known = {serial: serial * 7 for serial in (1, 2, 63, 64, 10**9)}
    for serial, place in known.items():
        places.set(serial, place)
    forgotten = places.pop(63)

    assert 63 * 7 == forgotten
    assert [known[serial] for serial in (1, 2, 64, 10**9)] == list(places.values())
    assert 0 == places.get(63) == places.get(65)
    assert 4 == len(places)
