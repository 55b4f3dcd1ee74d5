"""`mqflow_mq`: queues as a sink of Spark, in batches and as a stream, exactly once.

This file loads Spark, so only `register` imports it.

A task puts the rows of its partition with a marker in the same unit of work (`exactly_once`). The commit that Spark calls on
the driver does nothing. A task's rows are on their queues when it ends, and stay there if another task fails.
"""

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mqflow.mqi.options import PutOption
from mqflow.pipeline.connections import check_url, connected
from mqflow.pipeline.errors import SinkError
from mqflow.pipeline.sinks.exactly_once import Batch, prepare, put_batch, put_plainly, rows_per_unit
from mqflow.pipeline.sinks.row_messages import check_columns, in_order, messages
from mqflow.pipeline.spark_options import options_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ("QUERY_ID", "QueueSink", "keyed")

NAME: Final = "mqflow_mq"
MARKER_QUEUE: Final = "MQFLOW.SINK.STATE"
_KNOWN: Final = ("url", "queue", "mode", "name", "partitions", "markerQueue", "msgIdFrom", "orderBy", "context", "rowsPerUnit")
_UNIT_ROWS: Final = 1_000
_BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"


class _Settings(Struct, frozen=True, kw_only=True):
    url: str
    queue: str
    exact: bool
    name: str
    partitions: int
    marker_queue: str
    msg_id_from: str
    order_by: tuple[str, ...]
    put_options: PutOption
    unit_rows: int


class _Put(WriterCommitMessage):
    """The number of rows that a task put."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class QueueSink(DataSource):
    """`df.write.format("mqflow_mq")` and `df.writeStream.format("mqflow_mq")`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's signature
        """Return a writer that puts the rows of a table. With the same option `name`, a job that runs again puts no row twice.

        Raises `SinkError` and `OptionError`.
        """
        if overwrite:
            raise SinkError("mqflow_mq: a queue cannot be overwritten. Use mode('append').")
        return _Writer(_ready(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802 - Spark's
        """Return a writer that puts the batches of a stream. Raises `SinkError` and `OptionError`."""
        if overwrite:
            raise SinkError("mqflow_mq: rows can only be added to a queue. Use outputMode('append').")
        return _StreamWriter(_ready(self.options, schema))


class _Writer(DataSourceArrowWriter):
    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Put the rows of one partition of the table."""
        return _write(self._settings, iterator, number=0, query="")


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Put the rows of one partition of the batch that the task belongs to.

        Raises `SinkError` if Spark does not name the batch. Spark names the batch in undocumented properties, and the sink
        needs these to put rows once.
        """
        task = TaskContext.get()
        number = None if task is None else task.getLocalProperty(_BATCH_ID)
        query = None if task is None else task.getLocalProperty(QUERY_ID)
        if self._settings.exact and (number is None or query is None):
            raise SinkError(
                f"mqflow_mq: this Spark does not give its tasks {_BATCH_ID} and {QUERY_ID}, so the sink cannot tell "
                "batches apart. Nothing was put. mode=atleastonce works without them."
            )
        return _write(self._settings, iterator, number=int(number or 0), query=query or "")


def keyed(rows: DataFrame, partitions: int, *keys: str) -> DataFrame:
    """Partition the rows by these columns, so that a replay has each row in the same partition.

    The sink orders the rows within a partition, because Spark cannot sort a stream.
    """
    return rows.repartition(partitions, *keys)


def _write(settings: _Settings, batches: Iterator["pa.RecordBatch"], *, number: int, query: str) -> WriterCommitMessage:
    task = TaskContext.get()
    partition = 0 if task is None else task.partitionId()
    seed = f"{settings.name}\0{query}\0{number}\0{partition}" if not settings.msg_id_from else settings.name
    if settings.exact:
        batches = in_order(batches, settings.order_by)
    rows = messages(batches, queue=settings.queue, msg_id_from=settings.msg_id_from, seed=seed)
    with connected(settings.url, f"mqflow {settings.name}".rstrip()) as connection:
        unit_rows = rows_per_unit(connection, settings.unit_rows)
        if not settings.exact:
            return _Put(put_plainly(connection, rows, unit_rows=unit_rows, options=settings.put_options))
        batch = Batch(sink=settings.name, query=query, number=number, partition=partition, partitions=settings.partitions)
        return _Put(
            put_batch(connection, settings.marker_queue, batch, rows, unit_rows=unit_rows, options=settings.put_options)
        )


def _ready(given: MutableMapping[str, str], schema: StructType) -> _Settings:
    """Parse the options and create the markers: once, on the driver, before any task."""
    options = options_of(NAME, given, _KNOWN)
    exact = options.one_of("mode", ("exact", "atleastonce"), "exact") == "exact"
    context = options.one_of("context", ("default", "set_all"), "default")
    put_options = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
    settings = _Settings(
        url=options.text("url"),
        queue=options.text("queue", ""),
        exact=exact,
        name=options.text("name", None if exact else ""),
        partitions=(options.number("partitions", None) or 0),
        marker_queue=options.text("markerQueue", MARKER_QUEUE),
        msg_id_from=options.text("msgIdFrom", ""),
        order_by=options.names("orderBy"),
        put_options=put_options | PutOption.SET_ALL_CONTEXT if context == "set_all" else put_options,
        unit_rows=options.number("rowsPerUnit", _UNIT_ROWS) or _UNIT_ROWS,
    )
    check_url(NAME, settings.url)
    check_columns(schema.names, settings.queue, settings.msg_id_from, settings.order_by)
    if exact and not settings.partitions:
        options.text("partitions")
    if exact:
        with connected(settings.url, f"mqflow {settings.name}") as connection:
            prepare(connection, settings.marker_queue, settings.name, settings.partitions)
    return settings
