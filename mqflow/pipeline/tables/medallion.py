"""Brings silver and gold up to bronze: a run makes one new state of all tables, and a second run changes nothing.

A window closes when the watermark (the latest event, heartbeats included, less `LATENESS`) passes its end. A run never counts a
closed window again; rows that land for it later count in `late_data`. Each run counts open windows again. Gold uses exactly the
records that silver was made from: newer records could close windows before silver has their attempts. This file knows frames
and table sets, but no journal.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from mqflow.journal.schemas import Kind, ddl
from mqflow.pipeline.dead_letters.rules_columns import CompiledRules
from mqflow.pipeline.payload import payload_of
from mqflow.pipeline.schemas import LENGTHS_US
from mqflow.pipeline.tables import alerts, gold, incremental, silver, silver_messages
from mqflow.pipeline.tables.folder import Current, Snapshot, TableSet
from mqflow.pipeline.tables.frames import first_landings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ("LATENESS", "BronzeFrames", "GoldRun", "run_gold", "run_silver")

LATENESS: Final = timedelta(minutes=10)
"""How long after its end a window stays open."""
_WATERMARK: Final = "watermark_us"
_DEDUPE: Final = "dedupe"
_PAYLOAD: Final = "payload:"


class GoldRun(Struct, frozen=True, kw_only=True):
    """The result of `run_gold`."""

    #: Windows that end at or before this time are closed; None if nothing has landed yet.
    watermark: datetime | None
    #: Rows of this run that landed after their windows had closed.
    late: int


class BronzeFrames(Struct, frozen=True, kw_only=True):
    """The frames of the bronze tables that silver is made from; a missing frame leaves its table empty."""

    dispositions: "DataFrame | None" = None
    letters: "DataFrame | None" = None
    backed_out: "DataFrame | None" = None
    payloads: "DataFrame | None" = None


def run_silver(
    spark: "SparkSession",
    tables: TableSet,
    bronze: BronzeFrames,
    *,
    rules: CompiledRules | None = None,
    payload: str | None = None,
    dedupe: bool | None = None,
    whole: bool = False,
) -> None:
    """Bring silver up to bronze: update the attempts and messages with new records, and make every other table again.

    With `dedupe`, rows that landed twice count once; `payload` limits the data in `silver.payload`. By default both are as in
    the run before; the first run uses no `dedupe`, and `none` for `payload`. `whole` makes attempts and messages again too.
    This also happens if the old state does not fit: other columns, another `dedupe`, or a bronze table that was made again.
    """
    before = tables.current()
    dedupe = bool(before.state.get(_DEDUPE, 0)) if dedupe is None else dedupe
    payload = _payload_before(before) if payload is None else payload
    kept_data = payload_of(payload)
    with tables.next() as snapshot:
        snapshot.state |= {_DEDUPE: int(dedupe), f"{_PAYLOAD}{payload}": 1}
        landed = None
        if bronze.dispositions is not None:
            landed = _deduplicated(bronze.dispositions, Kind.DISPOSITION, dedupe=dedupe)
            lasts = incremental.last_segments(bronze.dispositions)
            old = None if whole or not _fits(tables, before, lasts, dedupe=dedupe) else before
            _attempts_and_messages(spark, tables, snapshot, landed, old)
            snapshot.state |= lasts
        if bronze.letters is not None:
            letters = _deduplicated(bronze.letters, Kind.DEAD_LETTER, dedupe=dedupe)
            snapshot.write("dead_letter", silver.dead_letters(letters, rules))
        if bronze.backed_out is not None:
            kept = _deduplicated(bronze.backed_out, Kind.BACKOUT_MESSAGE, dedupe=dedupe)
            told = landed if landed is not None else spark.createDataFrame([], ddl(Kind.DISPOSITION))
            attempted = silver.attempts(told) if landed is None else snapshot.read(spark, "attempt")
            snapshot.write("backout_message", silver_messages.backout_messages(kept, silver.ends(told), attempted))
        if bronze.payloads is not None:
            snapshot.write(
                "payload", silver_messages.payloads(_deduplicated(bronze.payloads, Kind.PAYLOAD, dedupe=dedupe), kept_data)
            )


def _attempts_and_messages(
    spark: "SparkSession", tables: TableSet, snapshot: Snapshot, landed: "DataFrame", before: Current | None
) -> None:
    """Write both tables: from all records, or from the messages with new records. All other messages keep their rows."""
    part, new = landed, None
    if before is not None:
        new = incremental.new_since(landed, before.state).where("msg_id is not null").select(*silver.KEY).distinct().cache()
        part = incremental.rows_about(landed, new)
    attempted = silver.attempts(part)
    if before is None or new is None:
        snapshot.write("attempt", attempted)
        snapshot.write("message", silver.messages(landed, snapshot.read(spark, "attempt")))
        return
    snapshot.write("attempt", incremental.rows_not_about(tables.read(spark, "attempt", before), new).unionByName(attempted))
    counted = incremental.rows_about(snapshot.read(spark, "attempt"), new)
    told = silver.messages(part, counted)
    snapshot.write("message", incremental.rows_not_about(tables.read(spark, "message", before), new).unionByName(told))
    new.unpersist()


def _payload_before(before: Current) -> str:
    return next((name.removeprefix(_PAYLOAD) for name in before.state if name.startswith(_PAYLOAD)), "none")


def _deduplicated(landed: "DataFrame", kind: Kind, *, dedupe: bool) -> "DataFrame":
    return first_landings(landed, kind) if dedupe else landed


def _fits(tables: TableSet, before: Current, lasts: Mapping[str, int], *, dedupe: bool) -> bool:
    """Whether the run can continue from the old state."""
    same = all(before.versions.get(name) == tables.tables[name].version for name in ("attempt", "message"))
    had = {name: last for name, last in before.state.items() if name.startswith(incremental.LANE)}
    return same and before.state.get(_DEDUPE, 0) == dedupe and all(lasts.get(name, 0) >= last for name, last in had.items())


def run_gold(spark: "SparkSession", tables: TableSet, silver_tables: TableSet, dispositions: "DataFrame") -> GoldRun:
    """Bring every gold table up to silver, in one step; `dispositions` can have newer records, which are ignored."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is optional

    before, made = tables.current(), silver_tables.current()
    closed_us = before.state.get(_WATERMARK)
    dispositions = incremental.landed_until(dispositions, made.state)
    counted_once = _deduplicated(dispositions, Kind.DISPOSITION, dedupe=bool(made.state.get(_DEDUPE, 0)))
    told = counted_once.where("event_ts is not null")
    after_us = _watermark_us(told, closed_us)
    counted = told.where("outcome <> 'heartbeat'")  # no table counts heartbeats, so none is late
    late = counted.limit(0) if closed_us is None else incremental.new_since(counted, before.state)
    ended = silver.ends(counted_once).cache()  # three tables use it
    with tables.next() as snapshot:
        attempted = silver_tables.read(spark, "attempt", made)
        for name, frame in _windowed(attempted, counted_once, ended).items():
            snapshot.write(name, _continued(spark, tables, before, name, frame))
        letters = silver_tables.read(spark, "dead_letter", made)
        # A letter's arrival is known only when it lands, perhaps hours later, so windows of these two tables never close.
        snapshot.write("dlq_reason", gold.dlq_reason(letters))
        snapshot.write("pipeline_health", gold.pipeline_health(dispositions.where("event_ts is not null")))
        snapshot.write("poison_alert", alerts.poison_alert(snapshot.read(spark, "poison_rate"), ended))
        snapshot.write("retry_curve", gold.retry_curve(attempted))
        snapshot.write("redrive", gold.redrive(silver.redrives(counted_once)))
        closed = gold.late_data(late).where(f.unix_micros(f.col("window")["end"]) <= (closed_us or 0))
        every = tables.read(spark, "late_data", before).unionByName(closed)
        summed = every.groupBy("window", "lane").agg(f.sum("rows").alias("rows"))
        snapshot.write("late_data", summed)
        snapshot.state |= {name: value for name, value in before.state.items() if name.startswith(incremental.LANE)}
        snapshot.state |= incremental.last_segments(dispositions)
        if after_us is not None:
            snapshot.state[_WATERMARK] = after_us
    ended.unpersist()
    watermark = None if after_us is None else datetime.fromtimestamp(after_us / 1_000_000, UTC)
    return GoldRun(watermark=watermark, late=_count_late(late, closed_us))


def _windowed(attempted: "DataFrame", told: "DataFrame", ended: "DataFrame") -> "dict[str, DataFrame]":
    """Return the tables with closing windows, counted from all records."""
    return {
        "poison_rate": gold.poison_rate(attempted, ended),
        "time_to_backout": gold.time_to_backout(ended),
        "delay_accuracy": gold.delay_accuracy(silver.delays(told)),
    }


def _continued(spark: "SparkSession", tables: TableSet, before: Current, name: str, counted: "DataFrame") -> "DataFrame":
    """Return the closed windows of the old state, and the new counts of all other windows."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    closed_us = before.state.get(_WATERMARK)
    if closed_us is None:
        return counted
    closed = f.unix_micros(f.col("window")["end"]) <= closed_us
    return tables.read(spark, name, before).where(closed).unionByName(counted.where(~closed))


def _watermark_us(told: "DataFrame", closed_us: int | None) -> int | None:
    """Return the latest event less the lateness; it never moves back. No event counts as later than its landing."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    happened = f.least(f.unix_micros("event_ts"), f.unix_micros("landed_ts"))
    latest: int | None = told.agg(f.max(happened).alias("latest")).collect()[0]["latest"]
    if latest is None:
        return closed_us
    return max(latest - LATENESS // timedelta(microseconds=1), closed_us or 0)


def _count_late(rows: "DataFrame", closed_us: int | None) -> int:
    """Return how many rows belong to a closed window. Short windows close first, so a look at the short windows is enough."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    length_us = min(LENGTHS_US.values())
    end = (f.floor(f.unix_micros("event_ts") / length_us) + 1) * length_us
    return rows.where(end <= (closed_us or 0)).count()
