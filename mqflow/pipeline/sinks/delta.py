"""`mqflow_delta`: Delta tables as a sink of Spark without a jar, in batches and as a stream, exactly once.

Tasks write Parquet files. The driver adds them to the table in one commit of delta-rs with a transaction (application, batch),
so a replayed batch is not added twice. Files of failed tasks belong to no version; `vacuumHours` removes them by age, because
Spark does not name them. It needs `mqflow[delta]`. This file loads Spark, so only `register` imports it.
"""

import errno
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType, StructType, TimestampType

from mqflow.pipeline.errors import OptionError, SinkError
from mqflow.pipeline.options import options_of
from mqflow.pipeline.sinks.queue import QUERY_ID
from mqflow.world import SYSTEM_CLOCK, SYSTEM_RANDOM

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable, Schema

__all__ = ("DeltaSink",)

NAME: Final = "mqflow_delta"
_KNOWN: Final = ("path", "appId", "batch", "partitionBy", "vacuumHours")
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_RUST_ERRNO: Final = re.compile(r"\(os error (\d+)\)")
_PARTITIONS: Final = (StringType, IntegralType, BooleanType, DateType, TimestampType)
"""Types whose values come back unchanged from a table's log."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}")


class _Settings(Struct, frozen=True, kw_only=True):
    path: str
    app_id: str
    #: The number of a write outside of a stream; a write of this number or a lower one is there already.
    batch: int
    partition_by: tuple[str, ...]
    vacuum_hours: int | None
    #: Spark's schema, as JSON, from which driver and workers make the Arrow schema.
    schema: str
    overwrite: bool


class _File(Struct, frozen=True):
    path: str
    size_bytes: int
    rows: int
    partition: dict[str, str | None]


class _Files(WriterCommitMessage):
    """The files that a task wrote, and its query, which is empty for a batch job."""

    def __init__(self, files: Sequence[_File], query: str = "") -> None:
        self.files = tuple(files)
        self.query = query


class DeltaSink(DataSource):
    """`df.write.format("mqflow_delta")` and `df.writeStream.format("mqflow_delta")`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's signature
        """Return a writer that adds the rows of a table, once if there is an `appId`."""
        return _Writer(_settings(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802 - Spark's
        """Return a writer that adds each batch of a stream once. Raises `OptionError` without an `appId`."""
        settings = _settings(self.options, schema, overwrite=overwrite)
        if not settings.app_id:
            raise OptionError(
                f"{NAME} needs 'appId' for a stream: a name for the query in the table's log. Use another for each query."
            )
        return _StreamWriter(settings)


class _Writer(DataSourceArrowWriter):
    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one partition into files that belong to no version yet."""
        return _Files(_write(self._settings, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Add the files to the table."""
        _commit(self._settings, messages, batch=self._settings.batch)


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one partition into files that belong to no version yet."""
        task = TaskContext.get()
        return _Files(_write(self._settings, iterator), (None if task is None else task.getLocalProperty(QUERY_ID)) or "")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Add the files to the table, unless this batch was committed before."""
        _commit(self._settings, messages, batch=batchId)


def _write(settings: _Settings, batches: Iterator["pa.RecordBatch"]) -> list[_File]:
    import pyarrow as pa  # noqa: PLC0415 - loaded by writers only
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    schema = _arrow_schema(settings)
    kept = pa.schema([field for field in schema if field.name not in settings.partition_by])
    task = TaskContext.get()
    task_number = 0 if task is None else task.partitionId()
    # Several attempts of a task can write at once, so file names are unique.
    token = f"{int(SYSTEM_RANDOM.random() * 2**48):012x}{int(SYSTEM_RANDOM.random() * 2**48):012x}"
    writers: dict[tuple[str | None, ...], tuple[Path, Any]] = {}  # Any: a ParquetWriter, and pyarrow has no types
    counts: dict[tuple[str | None, ...], int] = {}
    with _no_partial_files(settings.path, writers):
        for batch in batches:
            table = pa.Table.from_batches([batch]).cast(schema)
            for key, part in _by_partition(table, settings.partition_by):
                if key not in writers:
                    path = Path(settings.path, *(_folder(n, v) for n, v in zip(settings.partition_by, key, strict=True)))
                    path.mkdir(parents=True, exist_ok=True)
                    file = path / f"part-{task_number:05d}-{token}-{len(writers):04d}.zstd.parquet"
                    writers[key] = (file, pq.ParquetWriter(file, kept, compression="zstd"))
                writers[key][1].write_table(part.select(kept.names))
                counts[key] = counts.get(key, 0) + part.num_rows
        for _, writer in writers.values():
            writer.close()
    files = []
    for key, (file, _) in writers.items():
        relative = file.relative_to(settings.path).as_posix()
        partition = dict(zip(settings.partition_by, key, strict=True))
        files.append(_File(relative, file.stat().st_size, counts[key], partition))
    return files


@contextmanager
def _no_partial_files(path: str, writers: Mapping[Any, tuple[Path, Any]]) -> Iterator[None]:
    """Remove the files of a failed task: they belong to no version, and on a full disk they block the next attempt."""
    try:
        with _disk_full_error(path):
            yield
    except BaseException:
        for file, writer in writers.values():
            with suppress(OSError):  # closing writes more data, and the disk is full
                writer.close()
            file.unlink(missing_ok=True)
        raise


@contextmanager
def _disk_full_error(path: str) -> Iterator[None]:
    """Turn an error for a full disk into `SinkError`."""
    try:
        yield
    except OSError as error:
        told = _RUST_ERRNO.search(str(error))  # delta-rs sets no errno
        number = error.errno or (int(told[1]) if told else None)
        if number not in _NO_ROOM:
            raise
        raise SinkError(
            f"{NAME}: there is no room for the table {path}: {os.strerror(number)}. The table keeps its last version. "
            "Free space there and start again, which writes the same batch."
        ) from error


def _by_partition(table: "pa.Table", names: tuple[str, ...]) -> Iterator[tuple[tuple[str | None, ...], "pa.Table"]]:
    if not names:
        if table.num_rows:
            yield (), table
        return
    import pyarrow as pa  # noqa: PLC0415 - as above

    keys = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    for key in dict.fromkeys(keys):
        mask = pa.array([each == key for each in keys])
        yield tuple(None if value is None else str(value) for value in key), table.filter(mask)


def _folder(name: str, value: str | None) -> str:
    """Return a folder for the value. The log has the value; the folder name is for people, and needs no quoting."""
    if value is not None and _PLAIN.fullmatch(value):
        return f"{name}={value}"
    return f"{name}=_{sha256(repr(value).encode()).hexdigest()[:16]}"


def _commit(settings: _Settings, messages: Sequence[WriterCommitMessage | None], *, batch: int) -> None:
    """Add the files in one version of the table. Raises `SinkError` if the table has other columns."""
    from deltalake import CommitProperties, DeltaTable, Transaction  # noqa: PLC0415 - optional
    from deltalake.transaction import AddAction, create_table_with_add_actions  # noqa: PLC0415 - optional

    now_ms = int(SYSTEM_CLOCK.wall() * 1_000)
    actions = [
        AddAction(file.path, file.size_bytes, dict(file.partition), now_ms, True, f'{{"numRecords": {file.rows}}}')
        for message in messages
        if isinstance(message, _Files)
        for file in message.files
    ]
    query = next((message.query for message in messages if isinstance(message, _Files)), "")
    told = [settings.app_id, *([f"{settings.app_id} {query}"] if query else [])] if settings.app_id else []
    properties = CommitProperties(app_transactions=[Transaction(name, batch) for name in told] or None)
    mode: Literal["overwrite", "append"] = "overwrite" if settings.overwrite else "append"
    schema = _delta_schema(settings)
    if not DeltaTable.is_deltatable(settings.path):
        with _disk_full_error(settings.path):
            create_table_with_add_actions(
                settings.path, schema, actions, mode, partition_by=list(settings.partition_by), commit_properties=properties
            )
        return
    table = DeltaTable(settings.path)
    before = table.transaction_version(settings.app_id) if settings.app_id else None
    if before is not None and before >= batch:
        if query and table.transaction_version(told[-1]) is None:
            raise SinkError(
                f"{NAME}: the table {settings.path} has batches of {settings.app_id} up to {before}, of another query, and is "
                f"given batch {batch} of a new one (checkpoint): the table would count its rows as written. "
                "Nothing was added. Use the former checkpoint, or give this query another appId."
            )
        return
    _check(settings, table, schema)
    with _disk_full_error(settings.path):
        table.create_write_transaction([*actions], mode, schema, list(settings.partition_by), commit_properties=properties)
    if settings.vacuum_hours is not None:
        table.vacuum(settings.vacuum_hours, dry_run=False, enforce_retention_duration=False, full=True)


def _check(settings: _Settings, table: "DeltaTable", schema: "Schema") -> None:
    there = {field.name: field.type for field in table.schema().fields}
    wanted = {field.name: field.type for field in schema.fields}
    if there != wanted:
        odd = sorted(name for name in {*there, *wanted} if there.get(name) != wanted.get(name))
        raise SinkError(
            f"{NAME}: the table {settings.path} has other columns: {', '.join(odd)} differ. Nothing was added. Write to "
            "another "
            "path, or migrate the table first."
        )
    partitions = tuple(table.metadata().partition_columns)
    if partitions != settings.partition_by:
        raise SinkError(
            f"{NAME}: the table {settings.path} is partitioned by {', '.join(partitions) or 'nothing'}, not "
            f"{', '.join(settings.partition_by) or 'nothing'}. Nothing was added."
        )


def _arrow_schema(settings: _Settings) -> "pa.Schema":
    import json  # noqa: PLC0415 - one use

    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - private to Spark

    # Without a time zone it asks a session, which a worker does not have.
    return to_arrow_schema(StructType.fromJson(json.loads(settings.schema)), timezone="UTC")


def _delta_schema(settings: _Settings) -> "Schema":
    from deltalake import Schema  # noqa: PLC0415 - optional

    return Schema.from_arrow(_arrow_schema(settings))


def _settings(given: MutableMapping[str, str], schema: StructType, *, overwrite: bool) -> _Settings:
    if find_spec("deltalake") is None:
        raise OptionError(f"{NAME} needs deltalake: pip install 'mqflow[delta]'. The format parquet does not need it.")
    options = options_of(NAME, given, _KNOWN)
    partition_by = options.names("partitionBy")
    if strange := [name for name in partition_by if name not in schema.names]:
        raise OptionError(f"{NAME}: partitionBy names {strange[0]}, which is not a column. Columns: {', '.join(schema.names)}.")
    if odd := [name for name in partition_by if not isinstance(schema[name].dataType, _PARTITIONS)]:
        raise OptionError(
            f"{NAME}: a table cannot be partitioned by {odd[0]}, which is {schema[odd[0]].dataType.simpleString()}: its log "
            "has partitions as text. Text, whole numbers, booleans, dates and timestamps are possible."
        )
    return _Settings(
        path=str(Path(options.text("path")).absolute()),
        app_id=options.text("appId", ""),
        batch=options.number("batch", 0, least=0) or 0,
        partition_by=partition_by,
        vacuum_hours=options.number("vacuumHours", None, least=1),
        schema=schema.json(),
        overwrite=overwrite,
    )
