"""Reads one version of a Delta table in tasks, with pyarrow: from a disk, or from an object store without a jar.

The driver reads the log; a task reads whole files. This file loads Spark, so only sinks and sources import it.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mqflow.folders import folder_at
from mqflow.pipeline.delta.columns import arrow_schema_of, struct_of
from mqflow.pipeline.delta.log import DeltaFile, delta_snapshot
from mqflow.pipeline.extras import pa, pq
from mqflow.pipeline.spark_options import options_of

if TYPE_CHECKING:
    from mqflow.folders import Folder

__all__ = ("DeltaReader", "columns_of_table")

_KNOWN: Final = ("path", "version")
_PART_BYTES: Final = 64 * 1024 * 1024


class _Settings(Struct, frozen=True):
    uri: str
    version: int | None


@dataclass(frozen=True)
class _Part(InputPartition):
    """The files of one task."""

    files: tuple[DeltaFile, ...]


class DeltaReader(DataSourceReader):
    """Reads the version that the options name, or the version that is the last one when Spark plans the query."""

    def __init__(self, name: str, options: MutableMapping[str, str], schema: StructType) -> None:
        self._settings = _settings(name, options)
        self._schema = schema.json()

    def partitions(self) -> Sequence[InputPartition]:
        """Return the files, packed."""
        found = delta_snapshot(folder_at(self._settings.uri), self._settings.version)
        parts: list[list[DeltaFile]] = []
        size = 0
        for file in found.files:
            if not parts or size + file.size_bytes > _PART_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(file)
            size += file.size_bytes
        return [_Part(tuple(part)) for part in parts] or [_Part(())]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the rows of one part; columns that a file lacks are null."""
        assert isinstance(partition, _Part)  # noqa: S101 - Spark passes our own parts
        folder, schema = folder_at(self._settings.uri), arrow_schema_of(self._schema)
        for file in partition.files:
            yield from _rows(folder, file, schema)


def columns_of_table(name: str, options: MutableMapping[str, str]) -> StructType:
    """Return the columns of the version that the options name. Raises the errors of `delta_snapshot`."""
    settings = _settings(name, options)
    return struct_of(delta_snapshot(folder_at(settings.uri), settings.version).schema)


def _rows(folder: "Folder", file: DeltaFile, schema: "pa.Schema") -> Iterator["pa.RecordBatch"]:
    *parents, name = file.path.split("/")
    inside = reduce(lambda parent, each: parent.folder(each), parents, folder)
    with pq.ParquetFile(pa.BufferReader(inside.read(name))) as found:
        there = set(found.schema_arrow.names) - set(file.partition)
        for batch in found.iter_batches(columns=[each for each in schema.names if each in there]):
            columns = [
                batch.column(field.name).cast(field.type)
                if field.name in there
                else pa.repeat(pa.scalar(file.partition.get(field.name), field.type), batch.num_rows)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _settings(name: str, given: MutableMapping[str, str]) -> _Settings:
    options = options_of(name, given, _KNOWN)
    uri = options.text("path")
    folder_at(uri)  # raises for a scheme that is not supported
    return _Settings(uri, options.number("version", None, least=0))
