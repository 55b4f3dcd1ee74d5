"""Notes of the persistent messages that units of work hold, so that a restart after a kill counts them as backed out.

The notes are 16-byte slots of one file that is mapped into memory. A note costs a microsecond. The note survives the
process, because the page cache of the system does.
This file knows serial numbers and counts, but no message and no SQL.
"""

import mmap
import os
import struct
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("InFlightMarks",)

_NOTE = struct.Struct("<QI")
_SLOT = struct.Struct("<QII")
_EMPTY = bytes(_SLOT.size)
_SLOTS_PER_CHUNK = 16_384
_CHUNK_BYTES = _SLOTS_PER_CHUNK * _SLOT.size  # a multiple of every page size in use
_PAGE_BYTES = 4096
_EMPTY_PAGE = bytes(_PAGE_BYTES)


class InFlightMarks:
    """The notes of one queue manager. Different threads can call `mark` and `release`."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._chunks: list[mmap.mmap] = []
        self._free: deque[int] = deque()
        self._growing = threading.Lock()
        for _ in range(os.fstat(self._descriptor).st_size // _CHUNK_BYTES):
            self._map_next_chunk()

    def recorded(self) -> dict[int, int]:
        """Return the serials of the messages in units of work at the end of the last process, with their highest BackoutCounts.

        Leaves out a half-written slot, because the get of that message never returned.
        """
        found: dict[int, int] = {}
        for serial, count, check in self._slots():
            if serial and check == zlib.crc32(_NOTE.pack(serial, count)):
                found[serial] = max(count, found.get(serial, 0))
        return found

    def clear(self) -> None:
        """Forget every note, and make room for new notes. The store calls this when the old notes' counts are durable."""
        for chunk, start in self._used_pages():
            chunk[start : start + _PAGE_BYTES] = _EMPTY_PAGE
        self._free = deque(range(len(self._chunks) * _SLOTS_PER_CHUNK))
        if not self._chunks:
            self._grow()

    def mark(self, serial: int, backout_count: int, *, harden: bool) -> int:
        """Record that a unit of work holds this message; return the slot number. With `harden`, sync the note to the disk.

        Raises `MQIError` 2192 if all slots are taken and the disk has no room for more, and 2208 if the sync of the note fails.
        After an error there is no note.
        """
        mark = self._take()
        check = zlib.crc32(_NOTE.pack(serial, backout_count))
        chunk, slot = divmod(mark, _SLOTS_PER_CHUNK)
        _SLOT.pack_into(self._chunks[chunk], slot * _SLOT.size, serial, backout_count, check)
        if harden:
            try:
                os.fsync(self._descriptor)  # also writes the dirty pages of the mapping; other threads can run during the sync
            except OSError as error:
                self.release((mark,))
                detail = f"The sync that HARDENBO asks for failed: {error}"
                raise error_for(Reason.FILE_SYSTEM_ERROR, "MQGET", detail=detail) from error
        return mark

    def release(self, marks: Iterable[int]) -> None:
        """Delete the notes in these slots."""
        for mark in marks:
            chunk, slot = divmod(mark, _SLOTS_PER_CHUNK)
            start = slot * _SLOT.size
            self._chunks[chunk][start : start + _SLOT.size] = _EMPTY
            self._free.append(mark)

    def close(self) -> None:
        """Unmap the file. The notes stay in the file."""
        for chunk in self._chunks:
            chunk.close()
        os.close(self._descriptor)

    def _slots(self) -> Iterator[tuple[int, int, int]]:
        for chunk, start in self._used_pages():
            yield from _SLOT.iter_unpack(chunk[start : start + _PAGE_BYTES])

    def _used_pages(self) -> Iterator[tuple[mmap.mmap, int]]:
        """Yield only the few pages that have notes, because a standby must take over quickly."""
        for chunk in self._chunks:
            for start in range(0, _CHUNK_BYTES, _PAGE_BYTES):
                if chunk[start : start + _PAGE_BYTES] != _EMPTY_PAGE:
                    yield chunk, start

    def _take(self) -> int:
        while True:
            try:
                return self._free.popleft()
            except IndexError:
                self._grow()

    def _grow(self) -> None:
        with self._growing:
            if self._free:
                return
            first = len(self._chunks) * _SLOTS_PER_CHUNK
            try:
                # Write bytes, do not only extend the file: on a full disk, a write into a hole of the mapping raises SIGBUS.
                begin, end = (number * _CHUNK_BYTES for number in (len(self._chunks), len(self._chunks) + 1))
                while begin < end:  # a disk that is almost full writes a part only
                    begin += os.pwrite(self._descriptor, bytes(end - begin), begin)
                os.fsync(self._descriptor)
            except OSError as error:
                detail = f"{first} messages are in units of work, and there is no room to note another: {error}"
                raise error_for(Reason.STORAGE_MEDIUM_FULL, "MQGET", detail=detail) from error
            self._map_next_chunk()
            self._free.extend(range(first, first + _SLOTS_PER_CHUNK))

    def _map_next_chunk(self) -> None:
        self._chunks.append(mmap.mmap(self._descriptor, _CHUNK_BYTES, offset=len(self._chunks) * _CHUNK_BYTES))
