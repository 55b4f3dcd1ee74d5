"""The common part of sources that read segments: their columns, and the part of one task.

This file loads Spark, so only sources import the file. It knows segments and their kinds, but no lane, offset or queue.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from mqflow.journal import Kind, Segment, check_segment, columns_of, read_batches
from mqflow.journal.segment_chain import Before
from mqflow.journal.segment_data import decode_batches
from mqflow.pipeline.errors import OptionError
from mqflow.pipeline.payload import Payload, limited

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ("Part", "chosen_columns", "ddl_of", "read_bytes", "read_part")

_BATCH_BYTES: Final = 1024 * 1024


@dataclass(frozen=True)
class Part(InputPartition):
    """The segments of one task: all that a worker needs to read them."""

    segments: tuple[Segment, ...]


def chosen_columns(source: str, kind: Kind, names: Sequence[str]) -> tuple[str, ...]:
    """Return the named columns, or all columns of the kind. Raises `OptionError` for an unknown column."""
    known = [column.name for column in columns_of(kind)]
    if strange := [name for name in names if name not in known]:
        raise OptionError(f"{source}: {kind} has no column {', '.join(strange)}; it has {', '.join(known)}.")
    return tuple(names) or tuple(known)


def ddl_of(kind: Kind, columns: Sequence[str]) -> str:
    """Return these columns as Spark writes a schema, with their types from the segments."""
    types = {column.name: column.type for column in columns_of(kind)}
    return ", ".join(f"{name} {types[name]}" for name in columns)


def read_part(partition: InputPartition, kind: Kind, columns: Sequence[str], payload: Payload) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of one part. Raises the errors of `read_batches`."""
    assert isinstance(partition, Part)  # noqa: S101 - Spark passes our own parts
    for segment in partition.segments:
        for batch in read_batches(segment, kind, columns):
            yield from _handy(limited(batch, payload))


def read_bytes(segment: Segment, data: bytes, kind: Kind, before: Before, payload: Payload) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of a segment whose bytes the caller has read. Raises the errors of `check_segment`."""
    check_segment(segment, kind, before, data)
    for batch in decode_batches(data, kind, where=segment.uri, place=segment.place):
        yield from _handy(limited(batch, payload))


def _handy(batch: "pa.RecordBatch") -> Iterator["pa.RecordBatch"]:
    """Yield the batch in slices of about a megabyte, which fit the caches of the processor and so make the JVM fast."""
    rows = max(1, batch.num_rows * _BATCH_BYTES // max(1, batch.nbytes))
    for at in range(0, batch.num_rows, rows):
        yield batch.slice(at, rows)
