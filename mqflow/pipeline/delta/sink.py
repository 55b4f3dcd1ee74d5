"""`mqflow_delta`: Delta tables as a source and a sink of Spark without a jar, in batches and as a stream, exactly once.

Tasks write Parquet files. The driver adds them to the table in one commit of delta-rs with a transaction (application, batch),
so a replayed batch is not added twice. Files of failed tasks belong to no version; `vacuumHours` removes them by age, because
Spark does not name them. It also removes the files that only earlier versions have. This file needs `mqflow[delta]`. It loads
Spark, so only `register` imports it.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType, StructType, TimestampType

from mqflow.folders import folder_at
from mqflow.pipeline.delta.columns import arrow_schema_of
from mqflow.pipeline.delta.commit import Added, Commit, add_files
from mqflow.pipeline.delta.files import WrittenFile, write_files
from mqflow.pipeline.delta.log import check_path
from mqflow.pipeline.delta.reader import DeltaReader, columns_of_table
from mqflow.pipeline.errors import OptionError
from mqflow.pipeline.sinks.queue import QUERY_ID
from mqflow.pipeline.spark_options import options_of
from mqflow.world import SYSTEM_RANDOM

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ("DeltaSink",)

NAME: Final = "mqflow_delta"
_KNOWN: Final = ("path", "appId", "batch", "partitionBy", "vacuumHours", "transactions", "rows")
_PARTITIONS: Final = (StringType, IntegralType, BooleanType, DateType, TimestampType)
"""Types whose values come back unchanged from a table's log."""


class _Files(WriterCommitMessage):
    """The files that a task wrote, and its query, which is empty for a batch job."""

    def __init__(self, files: Sequence[WrittenFile], query: str = "") -> None:
        self.files = tuple(files)
        self.query = query


class DeltaSink(DataSource):
    """The format `mqflow_delta`: `df.write`, `df.writeStream` and `spark.read`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the table. Raises `PipelineError` if there is no such table or version."""
        return columns_of_table(NAME, self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of these columns of one version; columns that a file lacks are null."""
        return DeltaReader(NAME, self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's signature
        """Return a writer that adds the rows of a table: exactly once if the option `appId` is set."""
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
    def __init__(self, settings: Commit) -> None:
        self._settings = settings

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one partition into files that belong to no version yet."""
        return _Files(_written(self._settings, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Add the files to the table."""
        _commit(self._settings, messages)


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, settings: Commit) -> None:
        self._settings = settings

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one partition into files that belong to no version yet."""
        task = TaskContext.get()
        return _Files(_written(self._settings, iterator), (None if task is None else task.getLocalProperty(QUERY_ID)) or "")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Add the files to the table, unless this batch was committed before."""
        _commit(msgspec.structs.replace(self._settings, batch=batchId), messages)


def _written(asked: Commit, batches: Iterator["pa.RecordBatch"]) -> list[WrittenFile]:
    task = TaskContext.get()
    # Several attempts of a task can write at the same time, so file names are unique.
    token = f"{int(SYSTEM_RANDOM.random() * 2**48):012x}{int(SYSTEM_RANDOM.random() * 2**48):012x}"
    prefix = f"part-{0 if task is None else task.partitionId():05d}-{token}"
    return write_files(folder_at(asked.uri), arrow_schema_of(asked.schema), asked.partition_by, batches, prefix=prefix)


def _commit(asked: Commit, messages: Sequence[WriterCommitMessage | None]) -> None:
    done = [message for message in messages if isinstance(message, _Files)]
    add_files(asked, [file for message in done for file in message.files], query=next((each.query for each in done), ""))


def _settings(given: MutableMapping[str, str], schema: StructType, *, overwrite: bool) -> Commit:
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
    folder = folder_at(options.text("path"))
    check_path(folder)  # before the tasks write their files
    return Commit(
        uri=folder.uri,
        schema=schema.json(),
        partition_by=partition_by,
        overwrite=overwrite,
        merge_schema=options.boolean("mergeSchema", default=False),
        transactions=_transactions(options.text("transactions", "{}")),
        app_id=options.text("appId", ""),
        batch=options.number("batch", 0, least=0) or 0,
        rows=options.number("rows", None, least=0),
        vacuum_hours=options.number("vacuumHours", None, least=1),
    )


def _transactions(text: str) -> dict[str, Added]:
    try:
        return msgspec.json.decode(text, type=dict[str, Added])
    except msgspec.DecodeError as error:
        raise OptionError(
            f'{NAME}: transactions={text!r} is not JSON like {{"name": [null, 7]}}: the numbers before and after. ({error})'
        ) from error
