"""The contents of one segment: columns become bytes, and bytes become columns.

The format is Arrow IPC, with zstd; its metadata has the kind and the schema version. Pure: this file knows bytes, and no file.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from mqflow.journal.errors import SchemaError, TornSegmentError
from mqflow.journal.schemas import SCHEMA_VERSION, Kind, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ("Encoded", "checksum", "decode_batches", "decode_table", "encode")

_ROWS_PER_BATCH: Final = 10_000


class Encoded(Struct, frozen=True):
    """The bytes of a segment, and their number of rows."""

    data: "pa.Buffer"
    rows: int

    @property
    def crc(self) -> int:
        """The checksum that the name of the segment contains."""
        return checksum(self.data)


def checksum(data: "bytes | pa.Buffer") -> int:
    """Return the CRC-32 of a segment's bytes."""
    return zlib.crc32(data)


def encode(kind: Kind, columns: Mapping[str, Sequence[Any]]) -> Encoded:
    """Return the segment with these columns."""
    import pyarrow as pa  # noqa: PLC0415 - as in `arrow_schema`

    schema = arrow_schema(kind)
    metadata = {"mqflow.kind": kind.value, "mqflow.schema_version": str(SCHEMA_VERSION)}
    table = pa.table({field.name: pa.array(columns[field.name], field.type) for field in schema}, schema=schema)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, schema.with_metadata(metadata), options=options) as writer:
        writer.write_table(table.replace_schema_metadata(metadata), max_chunksize=_ROWS_PER_BATCH)
    return Encoded(sink.getvalue(), table.num_rows)


def decode_batches(
    data: bytes, kind: Kind, columns: Sequence[str] | None = None, *, where: Path | str
) -> Iterator["pa.RecordBatch"]:
    """Yield the record batches of the segment, in order. `columns` chooses columns and their order; `where` is for errors.

    Raises `TornSegmentError` if the bytes cannot be read, and `SchemaError` if they do not have the columns of the kind.
    """
    import pyarrow as pa  # noqa: PLC0415 - as in `arrow_schema`

    try:
        reader = pa.ipc.open_file(pa.BufferReader(data))
        _check_schema(where, reader.schema, kind)
        if columns is not None:
            wanted = [reader.schema.get_field_index(name) for name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=sorted(wanted))
            reader = pa.ipc.open_file(pa.BufferReader(data), options=options)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            yield batch if columns is None else batch.select(list(columns))
    except (pa.ArrowInvalid, OSError) as error:  # the bytes are cut off, or do not unpack
        raise TornSegmentError(where, str(error)) from error


def decode_table(data: bytes, kind: Kind, columns: Sequence[str] | None = None, *, where: Path | str) -> "pa.Table":
    """Return the whole segment as one table. Raises what `decode_batches` raises."""
    import pyarrow as pa  # noqa: PLC0415 - as in `arrow_schema`

    schema = arrow_schema(kind)
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    found = [batch.replace_schema_metadata(None) for batch in decode_batches(data, kind, columns, where=where)]
    return pa.Table.from_batches(found, schema=wanted)


def _check_schema(where: Path | str, found: "pa.Schema", kind: Kind) -> None:
    metadata = found.metadata or {}
    version = metadata.get(b"mqflow.schema_version", b"none").decode()
    if metadata.get(b"mqflow.kind", b"").decode() != kind.value or version != str(SCHEMA_VERSION):
        what = metadata.get(b"mqflow.kind", b"nothing known").decode()
        raise SchemaError(where, f"it holds {what} of schema version {version}, not {kind.value} of {SCHEMA_VERSION}")
    if not found.equals(arrow_schema(kind), check_metadata=False):
        odd = sorted(set(map(str, found)) ^ set(map(str, arrow_schema(kind))))
        raise SchemaError(where, f"its columns differ from those of {kind.value}: {', '.join(odd) or 'another order'}")
