"""The marks of messages in units of work, as a restart finds them after any end of the process."""

import errno
import os
import signal
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqflow.embedded.storage.in_flight_marks import _CHUNK_BYTES, _SLOT, _SLOTS_PER_CHUNK, InFlightMarks
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.conformance.under_test import refused


def _marks(folder: Path) -> InFlightMarks:
    marks = InFlightMarks(folder / "in_flight")
    marks.clear()
    return marks


@pytest.fixture
def marks(tmp_path: Path) -> InFlightMarks:
    return _marks(tmp_path)


def _found(folder: Path) -> dict[int, int]:
    marks = InFlightMarks(folder / "in_flight")
    try:
        return marks.recorded()
    finally:
        marks.close()


def test_a_mark_is_found_and_a_released_one_is_not(tmp_path: Path, marks: InFlightMarks) -> None:
    released = marks.mark(7, 0, harden=False)
    marks.mark(8, 3, harden=False)
    marks.release([released])

    assert {8: 3} == _found(tmp_path)


def test_of_two_marks_of_a_message_the_higher_count_is_found(tmp_path: Path, marks: InFlightMarks) -> None:
    """A new delivery can get its mark before the mark of the backed-out delivery is gone."""
    for count in (1, 2, 0):
        marks.mark(7, count, harden=False)

    assert {7: 2} == _found(tmp_path)


def test_a_mark_that_cannot_be_synced_is_not_made_and_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marks: InFlightMarks
) -> None:
    def fails(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", fails)
        with pytest.raises(MQIError) as refused:
            marks.mark(7, 0, harden=True)

    assert Reason.FILE_SYSTEM_ERROR == refused.value.reason
    assert {} == _found(tmp_path)


def test_a_disk_that_writes_a_part_only_is_asked_for_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    with monkeypatch.context() as short:
        short.setattr("os.pwrite", lambda descriptor, data, offset: whole(descriptor, data[: len(data) // 2 or 1], offset))
        marks = _marks(tmp_path)
    marks.mark(7, 0, harden=False)

    assert {7: 0} == _found(tmp_path)


def test_a_disk_that_fills_up_in_the_middle_of_new_room_refuses_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.pwrite

    def full_after_one_page(descriptor: int, data: bytes, offset: int) -> int:
        if offset:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(descriptor, data[:4096], offset)

    monkeypatch.setattr("os.pwrite", full_after_one_page)
    with refused(Reason.STORAGE_MEDIUM_FULL):
        _marks(tmp_path)


def test_cleared_marks_are_gone(tmp_path: Path, marks: InFlightMarks) -> None:
    marks.mark(7, 0, harden=True)

    marks.clear()

    assert {} == _found(tmp_path)


@settings(max_examples=40, deadline=None)
@given(written=st.integers(0, _SLOT.size - 1), serial=st.integers(1, 2**63), count=st.integers(0, 2**32 - 1))
def test_a_half_written_mark_is_never_taken_for_another(
    tmp_path_factory: pytest.TempPathFactory, written: int, serial: int, count: int
) -> None:
    """The process ended inside a get that never returned, so the message was not delivered."""
    folder = tmp_path_factory.mktemp("marks")
    marks = _marks(folder)
    slot = marks.mark(serial, count, harden=False) * _SLOT.size
    whole = bytes(marks._chunks[0][slot : slot + _SLOT.size])
    marks._chunks[0][slot + written : slot + _SLOT.size] = bytes(_SLOT.size - written)
    torn = bytes(marks._chunks[0][slot : slot + _SLOT.size])

    found = _found(folder)

    assert found == ({serial: count} if torn == whole else {})


def test_there_is_room_for_more_marks_than_one_chunk(tmp_path: Path, marks: InFlightMarks) -> None:
    taken = [marks.mark(serial, 0, harden=False) for serial in range(1, _SLOTS_PER_CHUNK + 11)]
    marks.release(taken[:-2])

    assert {_SLOTS_PER_CHUNK + 9: 0, _SLOTS_PER_CHUNK + 10: 0} == _found(tmp_path)


def test_a_freed_slot_is_used_again(tmp_path: Path, marks: InFlightMarks) -> None:
    for serial in range(1, 3 * _SLOTS_PER_CHUNK):
        marks.release([marks.mark(serial, 0, harden=False)])

    assert _CHUNK_BYTES == (tmp_path / "in_flight").stat().st_size


def test_no_room_for_another_note_is_a_full_disk(monkeypatch: pytest.MonkeyPatch, marks: InFlightMarks) -> None:
    for serial in range(1, _SLOTS_PER_CHUNK + 1):
        marks.mark(serial, 0, harden=False)

    def full(*_: object) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "pwrite", full)
    with refused(Reason.STORAGE_MEDIUM_FULL, match=f"{_SLOTS_PER_CHUNK} messages are in units of work"):
        marks.mark(1, 0, harden=False)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_mark_survives_kill_9_at_once(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        marks = _marks(tmp_path)
        marks.mark(7, 2, harden=False)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)

    assert {7: 2} == _found(tmp_path)


@pytest.mark.parametrize("harden", [True, False])
def test_only_a_hardened_mark_is_forced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, harden: bool) -> None:
    marks = _marks(tmp_path)
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", forced.append)

    marks.mark(7, 0, harden=harden)

    assert harden == (forced == [marks._descriptor])


def test_a_mark_is_sixteen_bytes_of_serial_count_and_checksum(tmp_path: Path, marks: InFlightMarks) -> None:
    """A later release reads the file of an earlier one."""
    taken = [marks.mark(serial, 2, harden=False) for serial in (7, 8)]
    marks.release([0])

    slots = (tmp_path / "in_flight").read_bytes()
    assert ([0, 1], bytes(16), 262_144) == (taken, slots[:16], len(slots))
    assert (8).to_bytes(8, "little") + (2).to_bytes(4, "little") == slots[16:28]
    assert zlib.crc32(slots[16:28]).to_bytes(4, "little") + bytes(16) == slots[28:48]


def test_marks_in_any_page_are_found_and_cleared(tmp_path: Path, marks: InFlightMarks) -> None:
    taken = [marks.mark(serial, 0, harden=False) for serial in range(1, 2 * _SLOTS_PER_CHUNK + 1)]
    marks.release(mark for mark in taken if mark not in {0, 255, 256, _SLOTS_PER_CHUNK - 1, _SLOTS_PER_CHUNK})

    found = {mark + 1: 0 for mark in (0, 255, 256, _SLOTS_PER_CHUNK - 1, _SLOTS_PER_CHUNK)}
    assert found == _found(tmp_path)
    marks.clear()
    assert {} == _found(tmp_path)
    assert 0 == marks.mark(9, 0, harden=False)
    assert 2 * _CHUNK_BYTES == (tmp_path / "in_flight").stat().st_size
