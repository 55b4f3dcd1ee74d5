"""Segments as mqflow wrote them before they were Parquet files: Arrow IPC, without a link."""

import zlib
from collections.abc import Sequence

import pyarrow as pa

from mqflow.journal import Lane, arrow_schema
from mqflow.journal.rows import Position, columns
from mqflow.testing.journals import START_US
from mqflow.verbs import Got

__all__ = ("add_old_segment", "arrow_bytes")


def arrow_bytes(
    lane: Lane, unit: Sequence[Got], number: int, *, version: str | bytes = "1", without: Sequence[str] = ()
) -> bytes:
    """Return the bytes of an old segment. `version` and `without` make one of another schema version."""
    position = Position(lane=lane.name, segment=number, landed_us=START_US, queue=lane.queue, queue_manager=lane.queue_manager)
    made = columns(lane.kind, unit, position)
    schema = pa.schema([field for field in arrow_schema(lane.kind) if field.name not in without])
    said = schema.with_metadata({"mqflow.kind": lane.kind.value, "mqflow.schema_version": version})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, said, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(pa.table({field.name: pa.array(made[field.name], field.type) for field in schema}, schema=said))
    return bytes(sink.getvalue())


def add_old_segment(lane: Lane, unit: Sequence[Got], *, version: str | bytes = "1", without: Sequence[str] = ()) -> None:
    """Publish one more segment, as an old mqflow did."""
    number = lane.last + 1
    data = arrow_bytes(lane, unit, number, version=version, without=without)
    lane.folder.write(f"{number:012d}-{len(unit)}-{zlib.crc32(data):08x}.arrow", data)
