"""Bronze: the rows of a journal in a table, unchanged, each once. It loads Spark when it runs.

A stream writes from `mqflow_journal` into Parquet or Delta, partitioned by the day of landing and by lane. Both sinks remember
their batches. A new run continues after the last run, from its checkpoint.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from msgspec import Struct

from mqflow.folders import folder_at
from mqflow.journal import Journal, Kind
from mqflow.pipeline.payload import payload_of
from mqflow.pipeline.tables.checkpoints import check_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ("Batches", "Bronze", "WrittenTable", "bronze", "kinds_of", "table_path")

Format = Literal["parquet", "delta"]
_ROWS_PER_BATCH: Final = 500_000
_POLL_S: Final = 1


class Bronze(Struct, frozen=True, kw_only=True):
    """The journal, the tables and the options of one run."""

    #: A path or a URI, as `folder_at` reads it.
    journal: str | Path
    #: The folder of the tables, which gets `bronze/<kind>` and `checkpoints/bronze/<kind>`.
    tables: Path
    kind: Kind
    format: Format = "parquet"
    payload: str = "full"
    #: The consumer that keeps segments from a trim until they are in the table; empty for no consumer.
    consumer: str = "bronze"
    rows_per_batch: int = _ROWS_PER_BATCH


class WrittenTable(Struct, frozen=True):
    """The result of one run."""

    kind: Kind
    rows: int
    batches: int
    table: Path


def kinds_of(journal: str | Path) -> tuple[Kind, ...]:
    """Return the kinds of the journal's lanes. Raises the errors of `Journal.open`."""
    return tuple(sorted({lane.kind for lane in Journal.open(journal).lanes()}))


def table_path(tables: Path, kind: Kind) -> Path:
    """Return the folder of the bronze table of a kind."""
    return tables / "bronze" / kind.value


def bronze(spark: "SparkSession", asked: Bronze, tell: Callable[[int], None] = lambda _: None) -> WrittenTable:
    """Write everything that is in the journal at the start to the table; `tell` receives the number of rows so far.

    Raises `StreamingQueryException` with the message of an error of the journal or the table, and `PipelineError` if the table
    and its checkpoint do not belong together.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's convention; only a run loads Spark

    payload_of(asked.payload)
    table, app_id = table_path(asked.tables, asked.kind).absolute(), f"mqflow-bronze-{asked.kind.value}"
    checkpoint = asked.tables.absolute() / "checkpoints" / "bronze" / asked.kind.value
    check_checkpoint(table, checkpoint, asked.format, app_id)
    consumer = f"{asked.consumer}-{asked.kind.value}" if asked.consumer else ""
    rows = (
        spark.readStream.format("mqflow_journal")
        .option("kind", asked.kind.value)
        .option("payload", asked.payload)
        .option("consumer", consumer)
        .option("maxRowsPerTrigger", str(asked.rows_per_batch))
        .load(folder_at(asked.journal).uri)
        .withColumn("ingest_date", F.to_date("landed_ts"))
    )
    writer = rows.writeStream.format("mqflow_delta" if asked.format == "delta" else "parquet")
    if asked.format == "delta":
        writer = writer.option("partitionBy", "ingest_date,lane").option("appId", app_id)
    else:
        writer = writer.partitionBy("ingest_date", "lane")
    # Private, because the tables have message bodies, as the journal does.
    asked.tables.mkdir(mode=0o700, parents=True, exist_ok=True)
    query = writer.option("path", str(table)).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    batches = Batches()
    while not query.awaitTermination(_POLL_S):
        tell(batches.add(query.recentProgress))
    batches.add(query.recentProgress)
    return WrittenTable(asked.kind, batches.rows, len(batches.by_number), table)


class BronzeProgress(Protocol):
    """One batch of a query, as its progress names it."""

    @property
    def batchId(self) -> int:  # noqa: N802 - Spark's name
        """The number of the batch."""
        ...

    @property
    def numInputRows(self) -> int:  # noqa: N802 - Spark's name
        """How many rows it read."""
        ...


class Batches:
    """The rows of each batch of a query; Spark itself keeps the progress of the last hundred batches only."""

    def __init__(self) -> None:
        self.by_number: dict[int, int] = {}

    @property
    def rows(self) -> int:
        """The rows of all batches."""
        return sum(self.by_number.values())

    def add(self, progress: Iterable[BronzeProgress]) -> int:
        """Add the progress that the query has now; return the rows so far."""
        self.by_number.update({each.batchId: int(each.numInputRows) for each in progress if each.numInputRows})
        return self.rows
