"""Bronze: a journal into a table, as it was landed, each message once. Loads Spark when it runs.

A stream from `mqflow_journal` into Parquet (whose sink remembers its batches) or Delta (which does too), partitioned by the day
it was landed and by lane. Run again it goes on where it was; between runs nothing is held but a checkpoint.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from msgspec import Struct

from mqflow.journal import Journal, Kind
from mqflow.pipeline.payload import payload_of
from mqflow.pipeline.tables.checkpoints import check_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ("Batches", "Bronze", "Written", "bronze", "kinds_of", "table_path")

Format = Literal["parquet", "delta"]
_ROWS_PER_BATCH: Final = 500_000
_POLL_S: Final = 1


class Bronze(Struct, frozen=True, kw_only=True):
    """What goes where."""

    journal: Path
    #: The folder of the tables: `bronze/<kind>` and `checkpoints/bronze/<kind>` are made in it.
    tables: Path
    kind: Kind
    format: Format = "parquet"
    payload: str = "full"
    #: The name under which segments are kept from being trimmed until they are in the table; empty keeps none.
    consumer: str = "bronze"
    rows_per_batch: int = _ROWS_PER_BATCH


class Written(Struct, frozen=True):
    """What one run wrote."""

    kind: Kind
    rows: int
    batches: int
    table: Path


def kinds_of(journal: Path) -> tuple[Kind, ...]:
    """Return the kinds of messages that the journal has lanes for. Raises what `Journal.open` does."""
    return tuple(sorted({lane.kind for lane in Journal.open(journal).lanes()}))


def table_path(tables: Path, kind: Kind) -> Path:
    """Return where the bronze table of a kind is."""
    return tables / "bronze" / kind.value


def bronze(spark: "SparkSession", asked: Bronze, tell: Callable[[int], None] = lambda _: None) -> Written:
    """Return when everything that was in the journal at the start is in the table; `tell` is given the rows written so far.

    Raises `StreamingQueryException` with the sentence of what is wrong with the journal or the table in it, and `PipelineError`
    where the table and its checkpoint are not of one another.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own habit; only who runs it pays

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
        .load(str(asked.journal.absolute()))
        .withColumn("ingest_date", F.to_date("landed_ts"))
    )
    writer = rows.writeStream.format("mqflow_delta" if asked.format == "delta" else "parquet")
    if asked.format == "delta":
        writer = writer.option("partitionBy", "ingest_date,lane").option("appId", app_id)
    else:
        writer = writer.partitionBy("ingest_date", "lane")
    asked.tables.mkdir(mode=0o700, parents=True, exist_ok=True)  # bodies are in it, as in the journal
    query = writer.option("path", str(table)).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    batches = Batches()
    while not query.awaitTermination(_POLL_S):
        tell(batches.add(query.recentProgress))
    batches.add(query.recentProgress)
    return Written(asked.kind, batches.rows, len(batches.by_number), table)


class Progress(Protocol):
    """One batch of a query, as its progress names it."""

    @property
    def batchId(self) -> int:  # noqa: N802 - Spark's name
        """The number of the batch."""

    @property
    def numInputRows(self) -> int:  # noqa: N802 - Spark's name
        """How many rows it read."""


class Batches:
    """How many rows each batch had, of a query that forgets its progress beyond the last hundred batches."""

    def __init__(self) -> None:
        self.by_number: dict[int, int] = {}

    @property
    def rows(self) -> int:
        """The rows of all of them."""
        return sum(self.by_number.values())

    def add(self, progress: Iterable[Progress]) -> int:
        """Add what the query remembers now; return the rows so far."""
        self.by_number.update({each.batchId: int(each.numInputRows) for each in progress if each.numInputRows})
        return self.rows
