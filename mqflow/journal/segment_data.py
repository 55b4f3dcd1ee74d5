"""The contents of one segment: columns become bytes, and bytes become columns.

A segment is a Parquet file. Its metadata has the kind, the schema version, and the link to the segment before it. Segments of
older versions of mqflow are Arrow IPC files without a link. Pure: this file knows bytes, and no file.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import msgspec
from msgspec import Struct

try:
    from isal.isal_zlib import crc32  # five times as fast as zlib's
except ImportError:  # installed with mqflow[journal] on Linux with x86-64 only
    from zlib import crc32

from mqflow.journal.arrow import pa, pq
from mqflow.journal.errors import SchemaError, TornSegmentError
from mqflow.journal.schemas import SCHEMA_VERSION, Kind, arrow_schema

__all__ = ("Contents", "Encoded", "Link", "checksum", "decode_batches", "decode_table", "encode", "encode_table", "inspect")

_ROWS_PER_BATCH: Final = 10_000
_PARQUET: Final = b"PAR1"
_KIND: Final = b"mqflow.kind"
_VERSION: Final = b"mqflow.schema_version"
_VERSION_DIGITS_MAX: Final = 9
_LINK: Final = b"mqflow.link"
_WRITER: Final = b"mqflow.version"
#: Columns whose values differ in most rows: a dictionary would make the file larger, and slower to read and write.
_DISTINCT: Final = frozenset(
    {"msg_id", "correl_id", "body", "body_sha256", "mqmd", "raw", "disp_id", "uow_id", "event_ts", "put_ts", "rfh2"}
    | {"get_ts", "done_ts", "ordinal"}
)


class Link(Struct, frozen=True, kw_only=True):
    """The place of a segment: its journal, lane and number, and the segment before it in the lane."""

    journal: str
    lane: str
    number: int
    #: The number of rows and the checksum of the segment before it; 0 and 0 for the first segment.
    rows_before: int = 0
    crc_before: int = 0


class Encoded(Struct, frozen=True):
    """The bytes of a segment, and their number of rows."""

    data: bytes
    rows: int

    @property
    def crc(self) -> int:
        """The checksum that the name of the segment contains."""
        return checksum(self.data)


class Contents(Struct, frozen=True, kw_only=True):
    """The facts that the bytes of a segment state about themselves."""

    rows: int
    lane: str
    number: int
    #: None in a segment of an older mqflow.
    link: Link | None


def checksum(data: bytes) -> int:
    """Return the CRC-32 of a segment's bytes."""
    return crc32(data)


def encode(kind: Kind, columns: Mapping[str, Sequence[Any]], link: Link) -> Encoded:
    """Return the segment with these columns, at this place."""
    schema = arrow_schema(kind)
    table = pa.table({field.name: pa.array(columns[field.name], field.type) for field in schema}, schema=schema)
    return encode_table(kind, table, link)


def encode_table(kind: Kind, table: "pa.Table", link: Link) -> Encoded:
    """Return the segment with these rows, at this place; the table has the columns of the kind."""
    schema = arrow_schema(kind)
    sink = pa.BufferOutputStream()
    # Any: pyarrow annotates a truth value, and also takes the names of columns.
    dictionaries: Any = [name for name in schema.names if name not in _DISTINCT]
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=dictionaries,
        write_statistics=False,  # readers choose whole segments by their numbers
        store_schema=False,  # the types of Parquet are enough
    ) as writer:
        writer.write_table(table)
        said = {_KIND: kind.value, _VERSION: str(SCHEMA_VERSION), _WRITER: _own_version()}
        writer.add_key_value_metadata({**said, _LINK: msgspec.json.encode(link)})
    return Encoded(sink.getvalue().to_pybytes(), table.num_rows)


def decode_batches(
    data: bytes, kind: Kind, columns: Sequence[str] | None = None, *, where: str, place: tuple[str, int] | None = None
) -> Iterator["pa.RecordBatch"]:
    """Yield the record batches of the segment, in order. `columns` chooses columns and their order; `where` is for errors.

    A column that an older schema version does not have is null. Raises `TornSegmentError` if the bytes cannot be read, or
    belong to another lane or number than `place`. Raises `SchemaError` for a newer schema version, or other columns.
    """
    wanted = _wanted(kind, columns)
    try:
        file = _opened(data, kind, where, place)
        there = [name for name in wanted.names if name in file.schema.names]
        for batch in file.batches(there):
            yield pa.RecordBatch.from_arrays(
                [batch.column(field.name) if field.name in there else pa.nulls(batch.num_rows, field.type) for field in wanted],
                schema=wanted,
            )
    except (pa.ArrowException, OSError, UnicodeDecodeError, msgspec.DecodeError) as error:  # cut off, or other bytes
        raise TornSegmentError(where, _one_line(error)) from error


def decode_table(
    data: bytes, kind: Kind, columns: Sequence[str] | None = None, *, where: str, place: tuple[str, int] | None = None
) -> "pa.Table":
    """Return the whole segment as one table. Raises the errors of `decode_batches`."""
    batches = decode_batches(data, kind, columns, where=where, place=place)
    return pa.Table.from_batches(list(batches), schema=_wanted(kind, columns))


def inspect(data: bytes, kind: Kind, *, where: str, place: tuple[str, int] | None = None) -> Contents:
    """Return the facts that the bytes state about themselves. Raises the errors of `decode_batches`."""
    try:
        file = _opened(data, kind, where, place)
        if file.link is not None:
            return Contents(rows=file.rows(), lane=file.link.lane, number=file.link.number, link=file.link)
        first = next(file.batches(["lane", "segment"]), None)  # an older mqflow states the place in each row only
        if first is None or not first.num_rows:
            raise TornSegmentError(where, "it has no row, and so it does not say which segment it is")
        lane, number = first.column("lane")[0].as_py(), first.column("segment")[0].as_py()
        return Contents(rows=file.rows(), lane=lane, number=number, link=None)
    except (pa.ArrowException, OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise TornSegmentError(where, _one_line(error)) from error


def _wanted(kind: Kind, columns: Sequence[str] | None) -> "pa.Schema":
    schema = arrow_schema(kind)
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


class _Parquet:
    def __init__(self, data: bytes) -> None:
        self._file = pq.ParquetFile(pa.BufferReader(data))
        said = self._file.metadata.metadata or {}
        self.schema: pa.Schema = self._file.schema_arrow.with_metadata(said)
        self.link = msgspec.json.decode(said[_LINK], type=Link) if _LINK in said else None

    def rows(self) -> int:
        return int(self._file.metadata.num_rows)

    def batches(self, names: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        yield from self._file.iter_batches(_ROWS_PER_BATCH, columns=list(names), use_threads=False)


class _ArrowFile:
    """A segment of an older mqflow."""

    link: Link | None = None

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.schema: pa.Schema = pa.ipc.open_file(pa.BufferReader(data)).schema

    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches(self.schema.names[:1]))

    def batches(self, names: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        options = pa.ipc.IpcReadOptions(included_fields=sorted(self.schema.get_field_index(name) for name in names))
        reader = pa.ipc.open_file(pa.BufferReader(self._data), options=options)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _opened(data: bytes, kind: Kind, where: str, place: tuple[str, int] | None) -> _Parquet | _ArrowFile:
    file = _Parquet(data) if data[:4] == _PARQUET else _ArrowFile(data)
    _check_schema(where, file.schema, kind)
    link = file.link
    if link is not None and place is not None and (link.lane, link.number) != place:
        raise TornSegmentError(where, f"it holds segment {link.number} of lane {link.lane}, not {place[1]} of {place[0]}")
    return file


def _check_schema(where: str, found: "pa.Schema", kind: Kind) -> None:
    metadata = found.metadata or {}
    there = metadata.get(_KIND, b"nothing known").decode(errors="replace")
    said = metadata.get(_VERSION, b"none").decode(errors="replace")
    number = int(said) if said.isascii() and said.isdigit() and len(said) <= _VERSION_DIGITS_MAX else None
    if there != kind.value or number is None:
        raise SchemaError(where, f"it holds {there} of schema version {said:.40}, not {kind.value} of {SCHEMA_VERSION}")
    if number > SCHEMA_VERSION:
        writer = metadata.get(_WRITER, b"").decode(errors="replace") or "unknown"
        raise SchemaError(
            where, f"mqflow {writer} wrote it with schema version {number}; this mqflow reads versions up to {SCHEMA_VERSION}"
        )
    known = arrow_schema(kind)
    types = {field.name: field.type for field in known}
    odd = [f"{field.name} {field.type}" for field in found if types.get(field.name) != field.type]
    if number == SCHEMA_VERSION:  # only an older version can lack columns
        odd += [f"no {name}" for name in known.names if name not in found.names]
    if odd:
        raise SchemaError(where, f"its columns differ from those of {kind.value}: {', '.join(odd)}")


@cache
def _own_version() -> str:
    with suppress(PackageNotFoundError):  # mqflow runs from a zip
        return version("mqflow")
    return ""


def _one_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
