"""Makes the gold tables: counts of poison messages, of the success of retries and redrives, and of dead letters by queue.

The counts over silver, in tumbling windows, are exact: each number equals a plain count of the records. The functions take
frames and return frames; `medallion` decides which windows are closed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mqflow.pipeline.extras import f, window
from mqflow.pipeline.schemas import DAY_US, LENGTHS_US, TABLES, WINDOWS
from mqflow.pipeline.tables.frames import null_safe_join
from mqflow.pipeline.tables.silver import KEY, POISON

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = (
    "day_of",
    "delay_accuracy",
    "dlq_reason",
    "late_data",
    "length_us",
    "pipeline_health",
    "poison_rate",
    "redrive",
    "retry_curve",
    "time_to_backout",
    "window_of",
)

_HANDLER: Final = ("qmgr", "queue", "handler")


def poison_rate(attempted: "DataFrame", ended: "DataFrame", sizes: Sequence[str] = WINDOWS) -> "DataFrame":
    """Return `gold.poison_rate` from attempts and `silver.ends`: the share of poison among the messages of a window.

    A row with an exception counts the deliveries that failed with this exception, and the poison messages whose last exception
    it was. The column `messages` counts all messages of the handler. So the rates of the handler's exceptions add up to the
    rate of the handler.
    """
    poisoned = ended.where(f.col("final_outcome").isin(*POISON))
    key = f.struct(*KEY)
    facts = attempted.select(
        window_of("event_ts", sizes), *_HANDLER, "exc_class", key.alias("key"), f.col("attempts").alias("delivery"),
        f.when(f.col("outcome") != "committed", f.col("attempts")).otherwise(0).alias("failed"), f.lit(0).alias("poison"),
    ).unionByName(
        poisoned.select(
            window_of("final_ts", sizes), *_HANDLER, f.col("last_exc_class").alias("exc_class"), key.alias("key"),
            f.lit(0).alias("delivery"), f.lit(0).alias("failed"), f.lit(1).alias("poison"),
        )
    )  # fmt: skip
    # Each fact counts for its handler, and a fact with an exception counts for the exception too.
    counted_for = f.explode(f.array_distinct(f.array(f.lit(None).cast("string"), "exc_class")))
    counted = (
        facts.withColumn("exc_class", counted_for)
        .groupBy("window", *_HANDLER, "exc_class")
        .agg(
            f.sum("delivery").alias("deliveries"),
            f.sum("failed").alias("rolled_back"),
            f.sum("poison").alias("poisoned"),
            f.count_distinct("key").alias("messages"),
        )
    )
    of_handler = window.Window.partitionBy("window", *_HANDLER)
    every = counted.withColumn("messages", f.max(f.when(f.col("exc_class").isNull(), f.col("messages"))).over(of_handler))
    rated = every.withColumn("poison_rate", f.col("poisoned") / f.col("messages")).withColumn(
        "retry_amplification", f.col("deliveries") / f.col("messages")
    )
    return rated.select(*TABLES["poison_rate"].columns)


def retry_curve(attempted: "DataFrame") -> "DataFrame":
    """Return `gold.retry_curve`: how often each attempt succeeds. Rows that stand for many attempts are left out."""
    counted = (
        attempted.where("attempts = 1")
        .groupBy(day_of("event_ts").alias("day"), "queue", "handler", "attempt_no")
        .agg(f.count(f.lit(1)).alias("entered"), f.count_if(f.col("outcome") == "committed").alias("succeeded"))
    )
    return counted.withColumn("p_success", f.col("succeeded") / f.col("entered")).select(*TABLES["retry_curve"].columns)


def time_to_backout(ended: "DataFrame", sizes: Sequence[str] = WINDOWS) -> "DataFrame":
    """Return `gold.time_to_backout` from `silver.ends`: the time from first delivery to disposal of poison messages."""
    poisoned = ended.where(f.col("final_outcome").isin(*POISON) & f.col("time_to_final_ms").isNotNull())
    return (
        poisoned.withColumn("window", window_of("final_ts", sizes))
        .groupBy("window", "queue")
        .agg(
            f.count(f.lit(1)).alias("n"),
            _rank("time_to_final_ms", 0.5).alias("p50_ms"),
            _rank("time_to_final_ms", 0.95).alias("p95_ms"),
            _rank("time_to_final_ms", 0.99).alias("p99_ms"),
            f.max("time_to_final_ms").alias("max_ms"),
        )
    )


def redrive(redriven: "DataFrame") -> "DataFrame":
    """Return `gold.redrive` from `silver.redrives`."""
    outcome = f.col("outcome")
    return redriven.groupBy(day_of("event_ts").alias("day"), "queue", "redrive_id").agg(
        f.count(f.lit(1)).alias("redriven"),
        f.count_if(outcome == "committed").alias("succeeded"),
        f.count_if(outcome.isin("backed_out", "discarded")).alias("poisoned_again"),
        f.count_if(outcome == "dead_lettered").alias("dead_lettered"),
        _rank("took_ms", 0.5).alias("p50_ms"),
    )


def delay_accuracy(delayed: "DataFrame", sizes: Sequence[str] = WINDOWS) -> "DataFrame":
    """Return `gold.delay_accuracy` from `silver.delays`: how late each delay ended; below zero is early."""
    return (
        delayed.withColumn("window", window_of("over_ts", sizes))
        .groupBy("window", "queue")
        .agg(
            f.count(f.lit(1)).alias("n"),
            f.count_if(f.col("error_ms") < 0).alias("early"),
            _rank("error_ms", 0.5).alias("p50_error_ms"),
            _rank("error_ms", 0.99).alias("p99_error_ms"),
            f.max("error_ms").alias("max_error_ms"),
        )
    )


def dlq_reason(letters: "DataFrame", sizes: Sequence[str] = WINDOWS) -> "DataFrame":
    """Return `gold.dlq_reason`: dead letters that arrived and left, and the depth at the end of each window.

    An archived letter left its queue when it landed; a browsed letter (`snapshot_id`) is still there. A window without arrivals
    and departures has no row.
    """
    of = ("qmgr", "dlq", "dlh_reason", "dlh_dest_q", "put_appl_name")
    # The two times come from different clocks, and no letter leaves before it arrives.
    went = f.when(f.col("snapshot_id").isNull(), f.greatest("landed_ts", "dlh_put_ts"))
    there = letters.where("has_dlh and dlh_put_ts is not null").select(
        *of, f.col("dlh_put_ts").alias("came"), went.alias("went")
    )
    none = f.lit(0)
    came = there.select(window_of("came", sizes), *of, f.lit(1).alias("arrived"), none.alias("removed"))
    gone = there.where("went is not null").select(
        window_of("went", sizes), *of, none.alias("arrived"), f.lit(1).alias("removed")
    )
    changes = (
        came.unionByName(gone).groupBy("window", *of).agg(f.sum("arrived").alias("arrived"), f.sum("removed").alias("removed"))
    )
    ends = changes.groupBy(*of).agg(f.sort_array(f.collect_set(f.col("window")["end"])).alias("ends"))
    # A letter counts at the ends of windows between its arrival and its departure.
    still = f.filter("ends", lambda end: (end > f.col("came")) & (f.col("went").isNull() | (end <= f.col("went"))))
    lying = null_safe_join(there, ends, of).select(*of, "came", f.explode(still).alias("end"))
    oldest = lying.groupBy(*of, "end").agg(f.min("came").alias("oldest"))
    running = window.Window.partitionBy(*of, "length").orderBy("end")
    ended = changes.withColumn("end", f.col("window")["end"]).withColumn("length", length_us())
    deep = ended.withColumn("depth_end", f.sum(f.col("arrived") - f.col("removed")).over(running))
    age = f.floor((f.unix_micros("end") - f.unix_micros("oldest")) / 1_000_000)
    aged = null_safe_join(deep, oldest, (*of, "end"), "left").withColumn("oldest_s", age)
    return aged.select(*TABLES["dlq_reason"].columns)


def pipeline_health(landed: "DataFrame", sizes: Sequence[str] = WINDOWS) -> "DataFrame":
    """Return `gold.pipeline_health` from `bronze.disposition`: the lag of landing, and rows that landed twice."""
    lag_s = (f.unix_micros("landed_ts") - f.unix_micros("event_ts")) / 1_000_000
    return (
        landed.withColumn("window", window_of("landed_ts", sizes))
        .groupBy("window", "lane")
        .agg(
            f.count(f.lit(1)).alias("landed_rows"),
            f.max(lag_s).alias("journal_lag_s"),
            f.count_distinct("segment").alias("segments"),
            (f.count(f.lit(1)) - f.count_distinct("segment", "ordinal")).alias("replays_skipped"),
        )
    )


def late_data(landed: "DataFrame") -> "DataFrame":
    """Return `gold.late_data` from the records that landed after their windows had closed."""
    return (
        landed.withColumn("window", window_of("event_ts", WINDOWS))
        .groupBy("window", "lane")
        .agg(f.count(f.lit(1)).alias("rows"))
    )


def window_of(column: str, sizes: Sequence[str]) -> "Column":
    """Return the windows that contain the time: one window, and so one row, for each size."""
    made = []
    for size in sizes:
        size_us = LENGTHS_US[size]
        start = f.floor(f.unix_micros(column) / size_us) * size_us
        made.append(f.struct(f.timestamp_micros(start).alias("start"), f.timestamp_micros(start + size_us).alias("end")))
    return f.explode(f.array(*made)).alias("window")


def length_us() -> "Column":
    """Return the length of the window, in microseconds of UTC: Spark's difference of local times is wrong twice a year."""
    return f.unix_micros(f.col("window")["end"]) - f.unix_micros(f.col("window")["start"])


def day_of(column: str) -> "Column":
    """Return the day (UTC) of the time; the time zone of the session does not matter."""
    return f.date_from_unix_date(f.floor(f.unix_micros(column) / DAY_US).cast("int"))


def _rank(column: str, share: float) -> "Column":
    """Return the smallest value that this share of all values does not exceed: an actual value, never a mean of two."""
    return f.expr(f"cast(percentile_disc({share}) WITHIN GROUP (ORDER BY {column}) as bigint)")
