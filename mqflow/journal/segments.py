"""One segment: its pending file is written, synced and verified, then published under its final name.

The final name contains number, rows and checksum: `000000000042-7.pend`, of the 7th owner of the lane, becomes
`000000000042-1000-9f3a1c22.arrow`. A reader of a published segment finds the whole segment, and can check its bytes against
the checksum. This file knows files; it knows neither the format of their contents nor the history of lanes.
"""

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from mqflow.journal.errors import JournalFullError, TornSegmentError
from mqflow.journal.schemas import Kind
from mqflow.journal.segment_data import checksum, decode_batches, decode_table, encode

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = (
    "Segment",
    "Written",
    "check_room",
    "pending_path",
    "publish",
    "read_batches",
    "read_pending",
    "read_table",
    "segment_of",
    "sync_folder",
    "verify",
    "write_durably",
    "write_pending",
)

_PUBLISHED: Final = re.compile(r"(\d{12})-(\d+)-([0-9a-f]{8})\.arrow")
_RESERVE_BYTES: Final = 16 * 1024 * 1024
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Segment(Struct, frozen=True, order=True):
    """A published segment."""

    lane: str
    number: int
    rows: int
    #: CRC-32 of the whole file.
    crc: int
    path: Path
    size_bytes: int


class Written(Struct, frozen=True):
    """The number, size and checksum of a pending segment; the marker on the queue has the same values."""

    number: int
    rows: int
    crc: int
    size_bytes: int
    #: The owner of the lane that wrote the file. The number keeps two owners from overwriting each other's files.
    owner: int = 0


def pending_path(folder: Path, number: int, owner: int = 0) -> Path:
    """Return the path of the pending file, in which segment `number` is until it is published."""
    return folder / f"{number:012d}-{owner}.pend"


def write_pending(folder: Path, number: int, kind: Kind, columns: Mapping[str, Sequence[Any]], *, owner: int = 0) -> Written:
    """Write, sync and read back a pending segment. Afterwards the segment is whole and durable, but not published.

    Raises `JournalFullError` if the disk has no room, `TornSegmentError` if the disk returns other bytes.
    """
    encoded = encode(kind, columns)
    written = Written(number, encoded.rows, encoded.crc, encoded.data.size, owner)
    path = pending_path(folder, number, owner)
    write_durably(path, encoded.data)
    sync_folder(folder)
    verify(path, written)
    return written


def check_room(folder: Path) -> None:
    """Check the disk before a message is got. Raises `JournalFullError` if the disk has no room for a segment."""
    free = disk_usage(folder).free
    if free < _RESERVE_BYTES:
        raise JournalFullError(folder, f"{free:,} bytes are free, and a segment needs at least {_RESERVE_BYTES:,}")


def verify(path: Path, expected: Written) -> None:
    """Check that the file is whole. Raises `TornSegmentError` if the file is not whole."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise TornSegmentError(path, "it is not there") from None
    if len(data) != expected.size_bytes or checksum(data) != expected.crc:
        raise TornSegmentError(
            path, f"{len(data)} bytes with checksum {checksum(data):08x}, not {expected.size_bytes} with {expected.crc:08x}"
        )


def publish(folder: Path, written: Written) -> Path:
    """Give the pending segment its final name, durably. Does nothing if the segment is published already."""
    target = folder / f"{written.number:012d}-{written.rows}-{written.crc:08x}.arrow"
    try:
        pending_path(folder, written.number, written.owner).rename(target)
    except FileNotFoundError:
        if not target.exists():
            raise
    sync_folder(folder)
    return target


def segment_of(lane: str, path: Path, size_bytes: int) -> Segment | None:
    """Return the segment that the name of a file describes, or None if the file is not a segment."""
    found = _PUBLISHED.fullmatch(path.name)
    if found is None:
        return None
    return Segment(lane, int(found[1]), int(found[2]), int(found[3], 16), path, size_bytes)


def read_batches(
    segment: Segment, kind: Kind, columns: Sequence[str] | None = None, *, verified: bool = True
) -> Iterator["pa.RecordBatch"]:
    """Yield the record batches of the segment, in order. `columns` chooses columns and their order.

    Raises `TornSegmentError` if the bytes differ from those that were written (`verified=False` skips this check), and
    `SchemaError` if the segment does not have the columns of its kind.
    """
    yield from decode_batches(_bytes_of(segment, verified=verified), kind, columns, where=segment.path)


def read_table(segment: Segment, kind: Kind, columns: Sequence[str] | None = None, *, verified: bool = True) -> "pa.Table":
    """Return the whole segment as one table. Raises what `read_batches` raises."""
    return decode_table(_bytes_of(segment, verified=verified), kind, columns, where=segment.path)


def read_pending(path: Path, kind: Kind) -> "tuple[Written, pa.Table]":
    """Return the contents of a pending segment. Raises `TornSegmentError` and `SchemaError`, like `read_batches`."""
    data = path.read_bytes()
    number, _, owner = path.stem.partition("-")
    table = decode_table(data, kind, where=path)
    return Written(int(number), table.num_rows, checksum(data), len(data), int(owner)), table


def write_durably(path: Path, data: "bytes | pa.Buffer") -> None:
    """Write the file and sync it. If the disk has no room, raises `JournalFullError` and leaves no file."""
    with _disk_full_error(path), path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync the folder, so that the names of its files are durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _bytes_of(segment: Segment, *, verified: bool) -> bytes:
    try:
        data = segment.path.read_bytes()
    except FileNotFoundError:
        raise TornSegmentError(segment.path, "the file does not exist; was it trimmed meanwhile?") from None
    if verified and checksum(data) != segment.crc:
        raise TornSegmentError(
            segment.path, f"its {len(data)} bytes have checksum {checksum(data):08x}, and its name says {segment.crc:08x}"
        )
    return data


@contextmanager
def _disk_full_error(path: Path) -> Iterator[None]:
    """Raise `JournalFullError` instead of the error of a full disk, and remove the partial file."""
    try:
        yield
    except OSError as error:
        path.unlink(missing_ok=True)
        if error.errno in _NO_ROOM:
            raise JournalFullError(path, error.strerror or "the disk is full") from error
        raise
