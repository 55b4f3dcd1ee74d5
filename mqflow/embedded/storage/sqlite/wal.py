"""Reads SQLite's write-ahead log, and reports how much of it is undamaged. It knows no row, no mark and no folder.

Each frame is a page with a header of 24 bytes. The checksum of a frame continues the checksum of the previous frame. SQLite's
recovery ends at the first wrong checksum, without an error. Source: SQLite's file format, section 4.
"""

import sys
from array import array
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from mqflow.embedded.storage.sqlite.database import DATABASE_HEAD_BYTES, PAGE_BYTES

__all__ = ("FRAME_BYTES", "LOG_HEAD_BYTES", "SALTS", "Read", "WriteAheadLog", "committed_frames", "page_of", "read_log")

LOG_HEAD_BYTES: Final = 32
FRAME_BYTES: Final = 24 + PAGE_BYTES
SALTS: Final = slice(16, 24)
"""The position of the salts in the header of the log. SQLite changes the salts when it begins the log again."""

Read = Callable[[int, int], bytes]
"""Returns the bytes at an offset of a file, up to a number of bytes."""

# The first bytes of a log from a little-endian machine, and of a log from a big-endian machine.
_MAGIC: Final = (0x377F0682).to_bytes(4)
_SWAPPED_MAGIC: Final = (0x377F0683).to_bytes(4)
_FRAMES_AT_ONCE: Final = 1024
# A frame in words of 8 bytes: page and size, salts, checksum, then the page.
_FRAME_HEAD_BYTES: Final = 24
_WORDS: Final = FRAME_BYTES // 8
_SUMMED: Final = (0, *range(3, _WORDS))
_NO_SIZE: Final = bytes(4)
_FIRST_PAGE: Final = (1).to_bytes(4)


class WriteAheadLog(Struct, frozen=True):
    """The contents of a log."""

    #: Empty if the header is damaged.
    salts: bytes
    #: The number of frames that SQLite reads: up to the last transaction before a broken frame.
    frames: int = 0
    #: The frames after a broken frame that are undamaged themselves and end a transaction.
    ends_behind: tuple[int, ...] = ()
    #: True if frames with the same salts follow after `frames`: broken frames, or frames from before an earlier recovery.
    has_more: bool = False
    #: The bytes in the position of the salts, if the header is damaged. SQLite can begin the next log with these bytes.
    damaged_salts: bytes = b""
    #: The header of the database after the `frames`; empty if they do not have the first page.
    database_head: bytes = b""


def read_log(read: Read) -> WriteAheadLog | None:
    """Return the contents of the log; None for an empty log. Call this function only on a little-endian machine.

    Frames from a big-endian machine are not counted: for such a log, `frames` is 0 and `has_more` is true.
    """
    head = read(0, LOG_HEAD_BYTES)
    if not head:
        return None
    if head[:4] == _SWAPPED_MAGIC and head[24:] == _sum(head[:24], swapped=True):
        return WriteAheadLog(head[SALTS], has_more=True)
    if head[:4] != _MAGIC or head[24:] != _sum(head[:24]):
        return WriteAheadLog(b"", has_more=True, damaged_salts=head[SALTS])
    whole, behind = True, list[int]()
    frames = number = 0
    written = database_head = b""
    for number, (is_whole, ends, first_page_head) in enumerate(_frames(read, head), start=1):
        whole = whole and is_whole
        written = first_page_head or written
        if whole and ends:
            frames, database_head = number, written
        elif is_whole and ends:
            behind.append(number)
    return WriteAheadLog(head[SALTS], frames, tuple(behind), has_more=number > frames, database_head=database_head)


def committed_frames(read: Read, salts: bytes, first: int) -> int:
    """Return the number of frames up to the last end of a transaction. The first `first` frames are known to be committed.

    Reads only the headers. This is right for the log of a running owner, because its frames with these salts are undamaged.
    """
    end = number = first
    while (head := read(LOG_HEAD_BYTES + number * FRAME_BYTES, _FRAME_HEAD_BYTES)) and head[8:16] == salts:
        number += 1
        if head[4:8] != _NO_SIZE:
            end = number
    return end


def page_of(read: Read, frame: int) -> tuple[int, bytes]:
    """Return the number and the contents of the page in this frame. Frames are counted from 1."""
    data = read(LOG_HEAD_BYTES + (frame - 1) * FRAME_BYTES, FRAME_BYTES)
    return int.from_bytes(data[:4]), data[_FRAME_HEAD_BYTES:]


def _frames(read: Read, head: bytes) -> Iterator[tuple[bool, bool, bytes]]:
    """Yield for each frame whether it is undamaged, whether it ends a transaction, and the header of the database.

    The header is empty if the frame does not have the first page. Stop at a frame with other salts.
    """
    before = head[24:]
    for first in range(0, sys.maxsize, _FRAMES_AT_ONCE):
        data = read(LOG_HEAD_BYTES + first * FRAME_BYTES, _FRAMES_AT_ONCE * FRAME_BYTES)
        count = len(data) // FRAME_BYTES
        if not count:
            return
        words = memoryview(data)[: count * FRAME_BYTES].cast("Q")
        expected = _column(words, 2)
        for at, whole in enumerate(_whole(words, count, before + expected)):
            start = at * FRAME_BYTES
            if not whole and data[start + 8 : start + 16] != head[SALTS] and not _continues(data, start, head[SALTS]):
                return
            named = data[start : start + 4] != _NO_SIZE and data[start + 8 : start + 16] == head[SALTS]
            page = start + _FRAME_HEAD_BYTES
            first_page_head = data[page : page + DATABASE_HEAD_BYTES] if data[start : start + 4] == _FIRST_PAGE else b""
            yield whole and named, data[start + 4 : start + 8] != _NO_SIZE, first_page_head
        before = expected[-8:]


def _continues(data: bytes, start: int, salts: bytes) -> bool:
    """Return whether the next frame has the salts of the log. If it has, other salts in this frame mean damage, not the end."""
    after = start + FRAME_BYTES
    return data[after + 8 : after + 16] == salts


def _whole(words: memoryview, count: int, checks: bytes) -> Iterator[bool]:
    """Yield for each frame whether its checksum continues the previous one. `checks` has one checksum more than frames.

    The sums of all frames are computed together, as 64-bit parts of one large number: a log of 1,000 frames takes some 20 ms.
    """
    lanes = int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * count, "little")
    stored = array("I", checks)
    stored.byteswap()
    first, second = (int.from_bytes(array("Q", stored[half:-2:2]).tobytes(), "little") for half in (0, 1))
    for word in _SUMMED:
        pair = int.from_bytes(_column(words, word), "little")
        first = (first + (pair & lanes) + second) & lanes
        second = (second + (pair >> 32 & lanes) + first) & lanes
    found = (array("Q", number.to_bytes(8 * count, "little")) for number in (first, second))
    return (
        pair == wanted
        for pair, wanted in zip(zip(*found, strict=True), zip(stored[2::2], stored[3::2], strict=True), strict=True)
    )


def _column(words: memoryview, word: int) -> bytes:
    return words[word::_WORDS].tobytes()


def _sum(data: bytes, *, swapped: bool = False) -> bytes:
    """Return the checksum of the log's header in the form that SQLite stores. `swapped` is true for a big-endian log."""
    first = second = 0
    values = array("I", data)
    if swapped:
        values.byteswap()
    for even, odd in zip(values[::2], values[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first.to_bytes(4) + second.to_bytes(4)
