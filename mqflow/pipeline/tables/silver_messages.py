"""Makes the silver tables of backout requeue queues and other queues, with no more message data than the options allow.

The functions take frames and return frames; they know no table and no clock. The disposition records name the handler that
failed on a backed-out message.
"""

from typing import TYPE_CHECKING, Final

from mqflow.pipeline.extras import f, window
from mqflow.pipeline.payload import Payload
from mqflow.pipeline.schemas import TABLES
from mqflow.pipeline.tables.frames import null_safe_join
from mqflow.pipeline.tables.silver import COUNT_MAX, KEY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ("backout_messages", "payloads")

_MOVED: Final = ("qmgr", "boq", "msg_id", "put_ts")


def backout_messages(kept: "DataFrame", ended: "DataFrame", attempted: "DataFrame") -> "DataFrame":
    """Return `silver.backout_message` from `bronze.backout_message`, `silver.ends` and `silver.attempt`.

    `attempts` are the deliveries until the move, as `silver.message` counts them: also the deliveries before a redrive.

    Moves to the backout requeue queue match a message by MsgId, put time and source queue. The failed handler is known only if
    all matching moves come from one queue. If a message was moved several times (put back, and failed again), the last move
    before its landing counts. For a message without a source queue (no MQRFH2 of mqflow) the records alone decide.
    """
    # The time is first, because the latest move counts.
    maker = f.struct("final_ts", "queue", "handler", "attempts", f.col("last_exc_class").alias("exc_class"))
    moved = (
        _with_attempts(ended.where("final_outcome = 'backed_out'"), attempted)
        .withColumn("boq", f.col("target_queue"))
        .groupBy(*_MOVED)
        .agg(f.collect_list(maker).alias("makers"))
    )
    here = f.col("source_queue")
    of_it = f.filter("makers", lambda one: here.isNull() | (one["queue"] == here))
    earlier = f.filter("of_it", lambda one: one["final_ts"] <= f.col("landed_ts"))
    certain = f.size(f.array_distinct(f.transform("of_it", lambda one: one["queue"]))) == 1
    last = f.array_max(f.when(f.size(earlier) > 0, earlier).otherwise(f.col("of_it")))
    made = null_safe_join(kept, moved, _MOVED, "left").withColumn("of_it", of_it).withColumn("maker", f.when(certain, last))
    return (
        made.withColumn("source_queue", f.coalesce(here, f.col("maker.queue")))
        .withColumns({name: f.col(f"maker.{name}") for name in ("handler", "attempts", "exc_class")})
        .withColumn("backed_out_ts", f.col("maker.final_ts"))
        .withColumn("duplicate_of", _duplicate_of("boq"))
        .select(*TABLES["backout_message"].columns)
    )


def _with_attempts(ended: "DataFrame", attempted: "DataFrame") -> "DataFrame":
    """Return the ends with the number of deliveries until each end."""
    sums = attempted.groupBy(*KEY, f.col("life").alias("life_of")).agg(f.sum(f.col("attempts").cast("long")).alias("n"))
    until = f.coalesce(f.sum(f.when(f.col("life_of") <= f.col("life"), f.col("n"))), f.lit(0))
    joined = null_safe_join(ended, sums, KEY, "left").groupBy(*ended.columns)
    return joined.agg(f.least(until, f.lit(COUNT_MAX)).cast("int").alias("attempts"))


def payloads(landed: "DataFrame", payload: Payload) -> "DataFrame":
    """Return `silver.payload` from `bronze.payload`, with this part of the data; data that bronze lacks stays missing."""
    made = landed.withColumn("duplicate_of", _duplicate_of("queue"))
    return _limited(made, payload).select(*TABLES["payload"].columns)


def _duplicate_of(queue: str) -> "Column":
    """Return the MsgId of the first message of the same queue with the same data; null for this first message."""
    alike = window.Window.partitionBy("qmgr", queue, "body_sha256").orderBy("put_ts", "lane", "segment", "ordinal")
    known = f.col("body_sha256").isNotNull() & (f.row_number().over(alike) > 1)
    return f.when(known, f.first("msg_id").over(alike))


def _limited(frame: "DataFrame", payload: Payload) -> "DataFrame":
    """Cut bodies by the rule of `pipeline.payload.limited`. The column `body_truncated` marks a cut body."""
    if payload.kind == "full":
        return frame
    body = f.col("body")
    kept = f.substring(body, 1, payload.head_bytes) if payload.kind == "head" else f.lit(None).cast("binary")
    cut = f.col("body_truncated") | (f.octet_length(body) > payload.head_bytes)
    digest = f.lit(None).cast("binary") if payload.kind == "none" else f.col("body_sha256")
    nothing = f.lit(None).cast("map<string,string>")
    return frame.withColumns({"body_truncated": cut, "body": kept, "body_sha256": digest, "rfh2": nothing})
