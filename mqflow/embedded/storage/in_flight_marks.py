"""Records which persistent messages units of work have got, so that a restart after a kill counts these gets as backed out.

The marks are 16-byte slots of a file that is mapped into memory. A mark costs a microsecond. It survives the process, because
it is in the page cache of the system.
This file knows serial numbers and counts, but no message and no SQL.
"""

import mmap
import os
import struct
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
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
    """The in-flight marks of one queue manager. Different threads can call `mark` and `release`."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._chunks: list[mmap.mmap] = []
        self._free: deque[int] = deque()
        self._growing = threading.Lock()
        for _ in range(os.fstat(self._descriptor).st_size // _CHUNK_BYTES):
            self._map_next_chunk()

    def recorded(self) -> dict[int, int]:
        """Return the serial numbers of the messages that the last process left in units of work, with their BackoutCounts.

        If a message has several marks, the highest count applies. Leaves out a half-written slot: its get never returned.
        """
        found: dict[int, int] = {}
        for serial, count, check in self._slots():
            if serial and check == zlib.crc32(_NOTE.pack(serial, count)):
                found[serial] = max(count, found.get(serial, 0))
        return found

    def clear(self) -> None:
        """Delete all marks, and make room for new ones. The store calls this after the counts of the old marks are durable."""
        for chunk, start in self._used_pages():
            chunk[start : start + _PAGE_BYTES] = _EMPTY_PAGE
        self._free = deque(range(len(self._chunks) * _SLOTS_PER_CHUNK))
        if not self._chunks:
            self._free.extend(self._grow())

    def mark(self, serial: int, backout_count: int, *, harden: bool) -> int:
        """Record that a unit of work has got this message, and return the slot number. With `harden`, sync the mark to disk.

        Raises `MQIError` 2192 if all slots are in use and the disk has no room for more, and 2208 if the sync fails. After an
        error there is no mark.
        """
        mark = self._take()
        check = zlib.crc32(_NOTE.pack(serial, backout_count))
        chunk, slot = divmod(mark, _SLOTS_PER_CHUNK)
        _SLOT.pack_into(self._chunks[chunk], slot * _SLOT.size, serial, backout_count, check)
        if harden:
            try:
                os.fsync(self._descriptor)  # also writes the dirty pages of the mapping; other threads run meanwhile
            except OSError as error:
                self.release((mark,))
                detail = f"The sync that HARDENBO asks for failed: {error}"
                raise error_for(Reason.FILE_SYSTEM_ERROR, "MQGET", detail=detail) from error
        return mark

    def release(self, marks: Iterable[int]) -> None:
        """Delete the marks in these slots."""
        for mark in marks:
            chunk, slot = divmod(mark, _SLOTS_PER_CHUNK)
            start = slot * _SLOT.size
            self._chunks[chunk][start : start + _SLOT.size] = _EMPTY
            self._free.append(mark)

    def close(self) -> None:
        """Unmap the file. The marks stay in the file."""
        for chunk in self._chunks:
            chunk.close()
        os.close(self._descriptor)

    def _slots(self) -> Iterator[tuple[int, int, int]]:
        for chunk, start in self._used_pages():
            yield from _SLOT.iter_unpack(chunk[start : start + _PAGE_BYTES])

    def _used_pages(self) -> Iterator[tuple[mmap.mmap, int]]:
        """Yield only the pages that have marks. They are few, and a standby must take over quickly."""
        for chunk in self._chunks:
            for start in range(0, _CHUNK_BYTES, _PAGE_BYTES):
                if chunk[start : start + _PAGE_BYTES] != _EMPTY_PAGE:
                    yield chunk, start

    def _take(self) -> int:
        try:  # not `suppress`, which takes longer than the rest of a mark
            return self._free.popleft()
        except IndexError:
            pass
        with self._growing:
            with suppress(IndexError):  # another thread has made room, or released a slot
                return self._free.popleft()
            mark, *others = self._grow()
            self._free.extend(others)
            return mark

    def _grow(self) -> range:
        first = len(self._chunks) * _SLOTS_PER_CHUNK
        try:
            # Write zeros instead of only extending the file: on a full disk, a write into a hole of the mapping raises SIGBUS.
            begin, end = (number * _CHUNK_BYTES for number in (len(self._chunks), len(self._chunks) + 1))
            while begin < end:  # an almost full disk writes only a part
                begin += os.pwrite(self._descriptor, bytes(end - begin), begin)
            os.fsync(self._descriptor)
        except OSError as error:
            detail = f"{first} messages are in units of work, and there is no room to note another: {error}"
            raise error_for(Reason.STORAGE_MEDIUM_FULL, "MQGET", detail=detail) from error
        self._map_next_chunk()
        return range(first, first + _SLOTS_PER_CHUNK)

    def _map_next_chunk(self) -> None:
        self._chunks.append(mmap.mmap(self._descriptor, _CHUNK_BYTES, offset=len(self._chunks) * _CHUNK_BYTES))
