"""Writes the rows of one task into Parquet files that belong to no version of their table yet.

Each file is in memory until it is whole, and then durable in its folder, on a disk or in an object store. A failed task leaves
no file. This file knows folders and Arrow, but no log.
"""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct

from mqflow.folders import Folder
from mqflow.pipeline.delta.column_bounds import Bounds, bounds_of
from mqflow.pipeline.errors import SinkError
from mqflow.pipeline.extras import compute as pc
from mqflow.pipeline.extras import pa, pq

__all__ = ("WrittenFile", "disk_full_error", "write_files")

_ROW_GROUP_BYTES: Final = 32 * 1024 * 1024
_FILE_BYTES: Final = 128 * 1024 * 1024
_WAITING_BYTES: Final = 256 * 1024 * 1024
"""The bytes that a task keeps in memory before it writes all its files, even small ones."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}")
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_RUST_ERRNO: Final = re.compile(r"\(os error (\d+)\)")

_Key = tuple[str | None, ...]
"""The values of the partition columns, as the log has them."""


class WrittenFile(Struct, frozen=True):
    """A file that a task wrote."""

    #: The path in the folder of the table.
    path: str
    size_bytes: int
    rows: int
    partition: dict[str, str | None]
    #: None if the bounds of a column are not known.
    bounds: Bounds | None


class _Open:
    """The file of one partition, while it is in memory."""

    def __init__(self, kept: "pa.Schema") -> None:
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._sink, kept, compression="zstd")
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self.rows = 0

    @property
    def size_bytes(self) -> int:
        """The bytes in memory."""
        return int(self._sink.tell()) + self._waiting_bytes

    def add(self, rows: "pa.Table") -> None:
        """Add rows, and write a row group when enough rows are in memory."""
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self.rows += rows.num_rows
        if self._waiting_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def data(self) -> bytes:
        """Return the whole file."""
        self._flush()
        self._writer.close()
        return bytes(self._sink.getvalue())

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
        self._waiting, self._waiting_bytes = [], 0


class _Task:
    """The files of one task: some are whole, the others are in memory."""

    def __init__(self, table: Folder, schema: "pa.Schema", partition_by: Sequence[str], prefix: str) -> None:
        self._table = table
        self._partition_by = partition_by
        self._prefix = prefix
        self._kept = pa.schema([field for field in schema if field.name not in partition_by])
        self._opened: dict[_Key, _Open] = {}
        self.written: list[WrittenFile] = []

    def add(self, key: _Key, rows: "pa.Table") -> None:
        """Add rows to the file of their partition."""
        if key not in self._opened:
            self._opened[key] = _Open(self._kept)
        made = self._opened[key]
        made.add(rows.select(self._kept.names))
        if made.size_bytes >= _FILE_BYTES:
            self._write(key)
        if sum(each.size_bytes for each in self._opened.values()) >= _WAITING_BYTES:
            self.finish()

    def finish(self) -> None:
        """Write the files that are in memory."""
        for key in tuple(self._opened):
            self._write(key)

    def remove(self) -> None:
        """Delete the files: they belong to no version, and on a full disk they block the next attempt."""
        for file in self.written:
            *parents, name = file.path.split("/")
            with suppress(OSError):
                reduce(lambda folder, parent: folder.folder(parent), parents, self._table).remove(name)

    def _write(self, key: _Key) -> None:
        folder, path = self._table, ""
        for name, value in zip(self._partition_by, key, strict=True):
            part = _folder_name(name, value)
            folder, path = folder.folder(part), f"{path}{part}/"
            folder.make()
        made = self._opened.pop(key)
        data = made.data()
        name = f"{self._prefix}-{len(self.written):04d}.zstd.parquet"
        partition = dict(zip(self._partition_by, key, strict=True))
        bounds = bounds_of(pq.read_metadata(pa.BufferReader(data)), self._kept)
        self.written.append(WrittenFile(f"{path}{name}", len(data), made.rows, partition, bounds))
        folder.write(name, data)


def write_files(
    table: Folder, schema: "pa.Schema", partition_by: Sequence[str], batches: Iterator["pa.RecordBatch"], *, prefix: str
) -> list[WrittenFile]:
    """Write the rows into files whose names begin with the prefix, which no other task uses; return the files.

    Raises `SinkError` if the disk is full. After an error none of the files exists.
    """
    task = _Task(table, schema, partition_by, prefix)
    try:
        with disk_full_error(table.uri):
            table.make()
            for batch in batches:
                for key, rows in _by_partition(pa.Table.from_batches([batch]).cast(schema), partition_by):
                    task.add(key, rows)
            task.finish()
    except BaseException:
        task.remove()
        raise
    return task.written


@contextmanager
def disk_full_error(uri: str) -> Iterator[None]:
    """Turn an error for a full disk into `SinkError`."""
    try:
        yield
    except OSError as error:
        matched = _RUST_ERRNO.search(str(error))  # delta-rs sets no errno
        number = error.errno or (int(matched[1]) if matched else None)
        if number not in _NO_ROOM:
            raise
        raise SinkError(
            f"mqflow_delta: there is no room for the table {uri}: {os.strerror(number)}. The table keeps its last version. "
            "Free space there and start again, which writes the same batch."
        ) from error


def _by_partition(table: "pa.Table", names: Sequence[str]) -> Iterator[tuple[_Key, "pa.Table"]]:
    if not table.num_rows:
        return
    if not names:
        yield (), table
        return
    keys: list[dict[str, Any]] = table.select(list(names)).group_by(list(names), use_threads=False).aggregate([]).to_pylist()
    if len(keys) == 1:
        yield _key(keys[0], names), table
        return
    for values in keys:
        mask = pa.scalar(True)
        for name in names:
            column, value = table[name], pa.scalar(values[name], table.schema.field(name).type)
            same = pc.is_null(column) if values[name] is None else pc.fill_null(pc.equal(column, value), False)
            mask = pc.and_(mask, same)
        yield _key(values, names), table.filter(mask)


def _key(values: dict[str, Any], names: Sequence[str]) -> _Key:
    return tuple(None if values[name] is None else str(values[name]) for name in names)


def _folder_name(name: str, value: str | None) -> str:
    """Return the name of the folder for a value. The name is only for people, because the log has the value."""
    if value is not None and _PLAIN.fullmatch(value):
        return f"{name}={value}"
    return f"{name}=_{sha256(repr(value).encode()).hexdigest()[:16]}"
