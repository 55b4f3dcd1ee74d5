"""The reader of the write-ahead log: the whole result for logs of a few frames, made here as SQLite's file format says."""

from array import array
from collections.abc import Callable

import pytest

from mqflow.embedded.storage.sqlite.wal import Read, WriteAheadLog, committed_frames, page_of, read_log

HEAD, FRAME, PAGE = 32, 4_120, 4_096
SALTS, OTHER = b"the salt", b"old salt"


def summed(data: bytes, check: tuple[int, int] = (0, 0), *, swapped: bool = False) -> tuple[int, int]:
    """Return the checksum of section 4.2 of the file format."""
    first, second = check
    values = array("I", data)
    if swapped:
        values.byteswap()
    for even, odd in zip(values[::2], values[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def stored(check: tuple[int, int]) -> bytes:
    return check[0].to_bytes(4) + check[1].to_bytes(4)


def head(magic: int = 0x377F0682, *, swapped: bool = False) -> bytes:
    made = magic.to_bytes(4) + (3_007_000).to_bytes(4) + PAGE.to_bytes(4) + bytes(4) + SALTS
    return made + stored(summed(made, swapped=swapped))


def log(*sizes: int, salts: bytes = SALTS, first_page: int = 2) -> bytes:
    """Return a log with a frame for each size. A size that is not 0 ends a transaction."""
    made = head()
    check = summed(made[:24])
    for number, size in enumerate(sizes):
        fields, page = (first_page + number).to_bytes(4) + size.to_bytes(4), bytes([number % 251 + 1]) * PAGE
        check = summed(fields + page, check)
        made += fields + salts + stored(check) + page
    return made


def reading(data: bytes) -> Read:
    return lambda offset, length: data[offset : offset + length]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def at(frame: int, byte: int) -> int:
    """Return the place of a byte of this frame, which is counted from 1."""
    return HEAD + (frame - 1) * FRAME + byte


SIZES = (0, 2, 3, 0, 5)
DAMAGED = WriteAheadLog(b"", 0, has_more=True, damaged_salts=SALTS)
PAGE_NUMBER, SIZE, SALT, CHECKSUM, CONTENTS, LAST = 3, 7, 8, 16, 24, FRAME - 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", None),
        (head(), WriteAheadLog(SALTS, 0)),
        (head()[:31], DAMAGED),
        (flipped(head(), 31), DAMAGED),
        (flipped(log(*SIZES), 5), DAMAGED),
        (head(0x377F0684), DAMAGED),
        (head(0x377F0683, swapped=True), WriteAheadLog(SALTS, 0, has_more=True)),
        (head(0x377F0683), DAMAGED),
        (head(0x377F0682, swapped=True), DAMAGED),
        (log(*SIZES), WriteAheadLog(SALTS, 5)),
        (log(*SIZES, 0), WriteAheadLog(SALTS, 5, has_more=True)),
        (log(0), WriteAheadLog(SALTS, 0, has_more=True)),
        (log(1), WriteAheadLog(SALTS, 1)),
        (log(*SIZES)[:-1], WriteAheadLog(SALTS, 3, has_more=True)),
        (log(*SIZES) + bytes(FRAME - 1), WriteAheadLog(SALTS, 5)),
        (log(*SIZES) + bytes(FRAME), WriteAheadLog(SALTS, 5)),
        (log(*SIZES, salts=OTHER), WriteAheadLog(SALTS, 0, has_more=True)),
        (log(2, 2, first_page=0), WriteAheadLog(SALTS, 0, (2,), has_more=True)),
    ],
    ids=[
        "empty", "a header", "a short header", "damaged checksum", "damaged header", "another file", "the other byte order",
        "the other byte order, damaged", "this byte order, damaged", "whole", "an open transaction", "nothing committed",
        "one frame", "cut", "a part of a frame behind", "remains behind", "another's salts", "page 0",
    ],
)  # fmt: skip
def test_a_log_is_read_up_to_its_last_whole_transaction(data: bytes, expected: WriteAheadLog | None) -> None:
    assert expected == read_log(reading(data))


@pytest.mark.parametrize(
    ("frame", "byte", "expected"),
    [
        (1, CONTENTS, WriteAheadLog(SALTS, 0, (2, 3, 5), has_more=True)),
        (1, LAST, WriteAheadLog(SALTS, 0, (2, 3, 5), has_more=True)),
        (1, CHECKSUM, WriteAheadLog(SALTS, 0, (3, 5), has_more=True)),
        (3, CONTENTS, WriteAheadLog(SALTS, 2, (5,), has_more=True)),
        (3, PAGE_NUMBER, WriteAheadLog(SALTS, 2, (5,), has_more=True)),
        (3, SIZE, WriteAheadLog(SALTS, 2, (5,), has_more=True)),
        (3, SALT, WriteAheadLog(SALTS, 2, (5,), has_more=True)),
        (3, SALT + 7, WriteAheadLog(SALTS, 2, (5,), has_more=True)),
        (2, CHECKSUM + 4, WriteAheadLog(SALTS, 0, (5,), has_more=True)),
        (4, CHECKSUM + 7, WriteAheadLog(SALTS, 3, has_more=True)),
        (5, CONTENTS, WriteAheadLog(SALTS, 3, has_more=True)),
        (5, SALT, WriteAheadLog(SALTS, 3, has_more=True)),
    ],
)
def test_a_flipped_bit_breaks_its_frame_and_a_checksum_the_next_one_too(frame: int, byte: int, expected: WriteAheadLog) -> None:
    """A frame is whole by itself if its checksum continues the one that stands before it."""
    assert expected == read_log(reading(flipped(log(*SIZES), at(frame, byte))))


def test_a_frame_with_damaged_salts_and_contents_ends_the_log_only_if_no_frame_follows() -> None:
    """Otherwise it is a frame of this log, and more follows."""
    damaged = flipped(flipped(log(*SIZES), at(4, SALT)), at(4, CONTENTS))
    last = flipped(flipped(log(*SIZES), at(5, SALT)), at(5, CONTENTS))

    assert WriteAheadLog(SALTS, 3, (5,), has_more=True) == read_log(reading(damaged))
    assert WriteAheadLog(SALTS, 3, has_more=True) == read_log(reading(last))
    assert WriteAheadLog(SALTS, 3) == read_log(reading(last[: at(4, 0)] + last[at(5, 0) :]))


@pytest.fixture(scope="module")
def long_log() -> bytes:
    """Return a log of more frames than one read takes: each but the first ends a transaction."""
    return log(0, *range(2, 1_027))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (None, WriteAheadLog(SALTS, 1_026)),
        (at(1_024, CONTENTS), WriteAheadLog(SALTS, 1_023, (1_025, 1_026), has_more=True)),
        (at(1_024, CHECKSUM), WriteAheadLog(SALTS, 1_023, (1_026,), has_more=True)),
        (at(1_025, CONTENTS), WriteAheadLog(SALTS, 1_024, (1_026,), has_more=True)),
        (at(1_026, CONTENTS), WriteAheadLog(SALTS, 1_025, has_more=True)),
    ],
)
def test_a_long_log_is_read_in_parts_that_continue_each_other(
    long_log: bytes, damage: int | None, expected: WriteAheadLog
) -> None:
    data = long_log if damage is None else flipped(long_log, damage)

    assert expected == read_log(reading(data))


@pytest.mark.parametrize(
    ("data", "first", "frames"),
    [
        (log(*SIZES), 0, 5),
        (log(*SIZES), 3, 5),
        (log(*SIZES), 5, 5),
        (log(*SIZES, 0, 0), 0, 5),
        (log(0, 0), 0, 0),
        (log(0, 0), 1, 1),
        (log(*SIZES, salts=OTHER), 0, 0),
        (log(*SIZES)[: at(4, 0)] + log(*SIZES, salts=OTHER)[at(4, 0) :], 0, 3),
        (head(), 0, 0),
    ],
)
def test_the_headers_of_the_frames_say_how_far_the_log_is_committed(data: bytes, first: int, frames: int) -> None:
    assert frames == committed_frames(reading(data), SALTS, first)


def test_only_headers_are_read_for_the_number_of_committed_frames() -> None:
    asked: list[tuple[int, int]] = []
    data = log(*SIZES)

    def read(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        return data[offset : offset + length]

    committed_frames(read, SALTS, 3)

    assert [(at(frame, 0), 24) for frame in (4, 5, 6)] == asked


def with_first_pages(*pages: int) -> bytes:
    """Return a log whose frames each end a transaction. A page 1 has the number of its frame as contents."""
    made = head()
    check = summed(made[:24])
    for number, page in enumerate(pages, start=1):
        fields, contents = page.to_bytes(4) + (9).to_bytes(4), bytes([number]) * PAGE
        check = summed(fields + contents, check)
        made += fields + SALTS + stored(check) + contents
    return made


@pytest.mark.parametrize(
    ("data", "frame"),
    [
        (with_first_pages(1, 2, 1, 3), 3),
        (with_first_pages(1, 2, 3), 1),
        (with_first_pages(2, 3), 0),
        (flipped(with_first_pages(1, 2, 1, 3), at(3, CONTENTS)), 1),
        (flipped(with_first_pages(1, 2, 1, 3), at(2, CONTENTS)), 1),
        (log(0, first_page=1), 0),
    ],
    ids=["twice", "once", "never", "a damaged frame", "behind a damaged frame", "nothing committed"],
)
def test_the_header_of_the_database_is_that_of_the_last_first_page_which_sqlite_reads(data: bytes, frame: int) -> None:
    found = read_log(reading(data))

    assert found is not None
    assert bytes([frame]) * (100 if frame else 0) == found.database_head


@pytest.mark.parametrize("frame", [1, 2, 5])
def test_a_frame_has_its_page_with_the_number(frame: int) -> None:
    read: Callable[[int, int], bytes] = reading(log(*SIZES, first_page=300))

    assert (299 + frame, bytes([frame]) * PAGE) == page_of(read, frame)
