"""Brings silver and gold up to what has landed: one run is one state of all tables, and running again changes nothing.

A window is closed when the watermark (the latest event, heartbeats included, less `LATENESS`) has passed its end. Closed
windows are never counted again: what lands for one later is counted in `late_data`. Open ones are counted anew by each run.
Knows frames and table sets; knows no journal.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from mqflow.pipeline import alerts, gold, silver
from mqflow.pipeline.rules_columns import CompiledRules
from mqflow.pipeline.schemas import LENGTHS_US
from mqflow.pipeline.tables import Current, TableSet

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ("LATENESS", "Ran", "run_gold", "run_silver")

LATENESS: Final = timedelta(minutes=10)
"""How long after its end a window stays open."""
_WATERMARK: Final = "watermark_us"
_LANE: Final = "lane:"


class Ran(Struct, frozen=True, kw_only=True):
    """What a run of `run_gold` did."""

    #: Windows that end at or before this are closed; None where nothing has landed yet.
    watermark: datetime | None
    #: Rows that landed after their windows had been closed, in this run.
    late: int


def run_silver(
    spark: "SparkSession",
    tables: TableSet,
    *,
    dispositions: "DataFrame | None" = None,
    letters: "DataFrame | None" = None,
    rules: CompiledRules | None = None,
) -> None:
    """Make silver of bronze, whole; of what is not given, tables stay empty."""
    with tables.next() as snapshot:
        if dispositions is not None:
            snapshot.write("attempt", silver.attempts(dispositions))
            snapshot.write("message", silver.messages(dispositions, snapshot.read(spark, "attempt")))
        if letters is not None:
            snapshot.write("dead_letter", silver.dead_letters(letters, rules))


def run_gold(spark: "SparkSession", tables: TableSet, silver_tables: TableSet, dispositions: "DataFrame") -> Ran:
    """Bring every gold table up to silver and `bronze.disposition`, in one step."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is optional

    before = tables.current()
    closed_us = before.state.get(_WATERMARK)
    told = dispositions.where("event_ts is not null")
    after_us = _watermark_us(told, closed_us)
    late = _late(told, before, closed_us)
    ended = silver.ends(dispositions).cache()  # three tables are made of them
    with tables.next() as snapshot:
        for name, counted in _windowed(spark, silver_tables, ended).items():
            snapshot.write(name, _continued(spark, tables, before, name, counted))
        letters = silver_tables.read(spark, "dead_letter")
        # When a letter came is known when it is landed, hours later maybe: windows of these two are never closed.
        snapshot.write("dlq_reason", gold.dlq_reason(letters))
        snapshot.write("pipeline_health", gold.pipeline_health(told))
        snapshot.write("poison_alert", alerts.poison_alert(snapshot.read(spark, "poison_rate"), ended))
        snapshot.write("retry_curve", gold.retry_curve(silver_tables.read(spark, "attempt")))
        snapshot.write("redrive", gold.redrive(silver.redrives(dispositions)))
        ended = gold.late_data(late).where(f.unix_micros(f.col("window")["end"]) <= (closed_us or 0))
        counted = tables.read(spark, "late_data", before).unionByName(ended)
        summed = counted.groupBy("window", "lane").agg(f.sum("rows").alias("rows"))
        snapshot.write("late_data", summed)
        snapshot.state |= {name: value for name, value in before.state.items() if name.startswith(_LANE)}
        snapshot.state |= {f"{_LANE}{row['lane']}": row["last"] for row in _lasts(dispositions)}
        if after_us is not None:
            snapshot.state[_WATERMARK] = after_us
    ended.unpersist()
    watermark = None if after_us is None else datetime.fromtimestamp(after_us / 1_000_000, UTC)
    return Ran(watermark=watermark, late=_count_late(late, closed_us))


def _windowed(spark: "SparkSession", silver_tables: TableSet, ended: "DataFrame") -> "dict[str, DataFrame]":
    """The tables whose windows are closed, of all there is."""
    attempted, messages = silver_tables.read(spark, "attempt"), silver_tables.read(spark, "message")
    return {
        "poison_rate": gold.poison_rate(attempted, ended),
        "time_to_backout": gold.time_to_backout(ended),
        "delay_accuracy": gold.delay_accuracy(messages),
    }


def _continued(spark: "SparkSession", tables: TableSet, before: Current, name: str, counted: "DataFrame") -> "DataFrame":
    """What was closed as it is, and everything else as it is counted now."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    closed_us = before.state.get(_WATERMARK)
    if closed_us is None:
        return counted
    closed = f.unix_micros(f.col("window")["end"]) <= closed_us
    return tables.read(spark, name, before).where(closed).unionByName(counted.where(~closed))


def _watermark_us(told: "DataFrame", closed_us: int | None) -> int | None:
    """The latest event less the lateness; never back."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    latest: int | None = told.agg(f.max(f.unix_micros("event_ts")).alias("latest")).collect()[0]["latest"]
    if latest is None:
        return closed_us
    return max(latest - LATENESS // timedelta(microseconds=1), closed_us or 0)


def _late(told: "DataFrame", before: Current, closed_us: int | None) -> "DataFrame":
    """The rows that no run before this one had."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    if closed_us is None:
        return told.limit(0)
    had: Column = f.lit(False)
    for name, last in before.state.items():
        if name.startswith(_LANE):
            had |= (f.col("lane") == name.removeprefix(_LANE)) & (f.col("segment") <= last)
    return told.where(~had)


def _count_late(rows: "DataFrame", closed_us: int | None) -> int:
    """How many of them belong to a window that was closed: to a short one, which is closed first."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    length_us = min(LENGTHS_US.values())
    end = (f.floor(f.unix_micros("event_ts") / length_us) + 1) * length_us
    return rows.where(end <= (closed_us or 0)).count()


def _lasts(dispositions: "DataFrame") -> "list[dict[str, int]]":
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    return [row.asDict() for row in dispositions.groupBy("lane").agg(f.max("segment").alias("last")).collect()]
