"""One segment: its pending file is written, synced and verified, then published under its final name.

The final name contains the segment number, the number of rows and the checksum: `000000000042-7.pend`, of the 7th lander of the
lane, becomes `000000000042-1000-9f3a1c22.parquet`. A reader of a published segment finds the whole segment, and can check its
bytes against the checksum. This file knows files of a folder; it knows neither the format of their contents nor the history of
lanes.
"""

import errno
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from mqflow.folders import Entry, Folder
from mqflow.journal.errors import JournalFullError, TornSegmentError
from mqflow.journal.schemas import Kind
from mqflow.journal.segment_chain import Before, Tip
from mqflow.journal.segment_data import Contents, Link, checksum, decode_batches, decode_table, encode, inspect

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = (
    "Segment",
    "Written",
    "check_room",
    "check_segment",
    "is_pending",
    "pending_name",
    "publish",
    "published_name",
    "read_batches",
    "read_pending",
    "read_table",
    "segment_of",
    "verify",
    "write_durably",
    "write_pending",
)

_PUBLISHED: Final = re.compile(r"(\d{12})-(\d+)-([0-9a-f]{8})\.(?:parquet|arrow)")
_PENDING: Final = re.compile(r"[0-9]{12}-[0-9]+\.pend")
_RESERVE_BYTES: Final = 16 * 1024 * 1024
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Segment(Struct, frozen=True, order=True):
    """A published segment."""

    lane: str
    number: int
    rows: int
    #: CRC-32 of the whole file.
    crc: int
    folder: Folder
    name: str
    size_bytes: int
    #: The time of the publication, in seconds since 1970.
    modified_s: float

    @property
    def place(self) -> tuple[str, int]:
        """The lane and the number."""
        return self.lane, self.number

    @property
    def tip(self) -> Tip:
        """The number of the segment, its number of rows and its checksum, as in a marker or a head record."""
        return Tip(number=self.number, rows=self.rows, crc=self.crc)

    @property
    def uri(self) -> str:
        """The name of the file for people."""
        return self.folder.uri_of(self.name)


class Written(Struct, frozen=True):
    """The number, size and checksum of a pending segment; the marker, the lander's message on a queue, has the same values."""

    number: int
    rows: int
    crc: int
    size_bytes: int
    #: The number of the lander that wrote the file, so that two landers never overwrite each other's files.
    owner: int = 0

    @property
    def tip(self) -> Tip:
        """The number of the segment, its number of rows and its checksum, as in a marker or a head record."""
        return Tip(number=self.number, rows=self.rows, crc=self.crc)

    @property
    def pending(self) -> str:
        """The name of the pending file."""
        return pending_name(self.number, self.owner)


def pending_name(number: int, owner: int = 0) -> str:
    """Return the name of the pending file of segment `number`; this file exists until the segment is published."""
    return f"{number:012d}-{owner}.pend"


def is_pending(name: str) -> bool:
    """Return whether a lander has given this name to a pending file; a copy that a person made has another name."""
    return _PENDING.fullmatch(name) is not None


def write_pending(folder: Folder, link: Link, kind: Kind, columns: Mapping[str, Sequence[Any]], *, owner: int = 0) -> Written:
    """Write, sync and read back a pending segment for this place. Afterwards it is whole and durable, but not published.

    Raises `JournalFullError` if the disk has no room, `TornSegmentError` if the folder returns other bytes, and `FolderError`
    if an object store refuses.
    """
    encoded = encode(kind, columns, link)
    written = Written(link.number, encoded.rows, encoded.crc, len(encoded.data), owner)
    write_durably(folder, written.pending, encoded.data)
    verify(folder, written)
    return written


def check_room(folder: Folder) -> None:
    """Check the disk before a message is got. Raises `JournalFullError` if the disk has no room for a segment."""
    free = folder.room_bytes()
    if free is not None and free < _RESERVE_BYTES:
        raise JournalFullError(folder.uri, f"{free:,} bytes are free, and a segment needs at least {_RESERVE_BYTES:,}")


def verify(folder: Folder, expected: Written) -> None:
    """Check that the pending file is whole. Raises `TornSegmentError` if the file is not whole."""
    uri = folder.uri_of(expected.pending)
    try:
        data = folder.read(expected.pending)
    except FileNotFoundError:
        raise TornSegmentError(uri, "it is not there") from None
    if len(data) != expected.size_bytes or checksum(data) != expected.crc:
        raise TornSegmentError(
            uri, f"{len(data)} bytes with checksum {checksum(data):08x}, not {expected.size_bytes} with {expected.crc:08x}"
        )


def publish(folder: Folder, written: Written) -> str:
    """Give the pending segment its final name, durably, and return this name.

    Does nothing if the segment is published already. Raises `TornSegmentError` if the object of this name has other contents.
    """
    final = published_name(written.tip)
    try:
        folder.publish(written.pending, final)
    except FileExistsError:
        raise TornSegmentError(folder.uri_of(final), f"its contents are not those of {written.pending}") from None
    return final


def published_name(tip: Tip) -> str:
    """Return the name of the file of a published segment."""
    return f"{tip.number:012d}-{tip.rows}-{tip.crc:08x}.parquet"


def segment_of(lane: str, folder: Folder, file: Entry) -> Segment | None:
    """Return the segment that the name of a file describes, or None if the file is not a segment."""
    found = _PUBLISHED.fullmatch(file.name)
    if found is None:
        return None
    return Segment(lane, int(found[1]), int(found[2]), int(found[3], 16), folder, file.name, file.size_bytes, file.modified_s)


def read_batches(segment: Segment, kind: Kind, columns: Sequence[str] | None = None) -> Iterator["pa.RecordBatch"]:
    """Yield the record batches of the segment, in order. `columns` chooses columns and their order.

    Raises `TornSegmentError` if the bytes differ from those that were written, or belong to another segment. Raises
    `SchemaError` if the segment does not have the columns of its kind.
    """
    yield from decode_batches(_bytes_of(segment), kind, columns, where=segment.uri, place=segment.place)


def read_table(segment: Segment, kind: Kind, columns: Sequence[str] | None = None) -> "pa.Table":
    """Return the whole segment as one table. Raises the errors of `read_batches`."""
    return decode_table(_bytes_of(segment), kind, columns, where=segment.uri, place=segment.place)


def check_segment(segment: Segment, kind: Kind, before: Before | None = None, data: bytes | None = None) -> Contents:
    """Check that another reader can read the file; `data` is the bytes of the file if the caller has them already.

    Raises the errors of `read_batches`, and `TornSegmentError` if the segment follows another segment than `before`.
    """
    data = _checked(segment, data) if data is not None else _bytes_of(segment)
    contents = inspect(data, kind, where=segment.uri, place=segment.place)
    if before is not None and (problem := before.problem(contents.link)):
        raise TornSegmentError(segment.uri, problem)
    return contents


def read_pending(folder: Folder, name: str, kind: Kind) -> "tuple[Written, pa.Table]":
    """Return the contents of a pending segment. Raises `TornSegmentError` and `SchemaError`, like `read_batches`."""
    data = folder.read(name)
    number, _, owner = name.removesuffix(".pend").partition("-")
    table = decode_table(data, kind, where=folder.uri_of(name))
    return Written(int(number), table.num_rows, checksum(data), len(data), int(owner)), table


def write_durably(folder: Folder, name: str, data: bytes) -> None:
    """Write the file, durably. If the disk has no room, raises `JournalFullError` and leaves no file."""
    try:
        folder.write(name, data)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise JournalFullError(folder.uri_of(name), error.strerror or "the disk is full") from error
        raise


def _bytes_of(segment: Segment) -> bytes:
    try:
        return _checked(segment, segment.folder.read(segment.name))
    except FileNotFoundError:
        raise TornSegmentError(segment.uri, "the file does not exist; was it trimmed meanwhile?") from None


def _checked(segment: Segment, data: bytes) -> bytes:
    if checksum(data) != segment.crc:
        raise TornSegmentError(
            segment.uri, f"its {len(data)} bytes have checksum {checksum(data):08x}, and its name says {segment.crc:08x}"
        )
    return data
