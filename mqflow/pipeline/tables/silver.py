"""Makes the rows of attempts, messages and dead letters from the rows of bronze.

The columns get their types, and BackoutCount restores missing attempts. The record of a rollback is put after the rollback and
can be missing. BackoutCount k of a later delivery proves k rollbacks before it. Each rollback without a record becomes an
attempt with the outcome `unobserved`. Many consecutive attempts of this kind share one row, which has the number of these
attempts. The functions take frames and return frames; they know no table and no clock.
"""

from typing import TYPE_CHECKING, Final

from mqflow.mqi.reason_codes import Reason
from mqflow.pipeline.dead_letters.rules_columns import CompiledRules
from mqflow.pipeline.extras import f, window
from mqflow.pipeline.schemas import TABLES
from mqflow.pipeline.tables.frames import null_safe_join

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = (
    "COUNT_MAX",
    "DEFERRED",
    "FINAL",
    "KEY",
    "POISON",
    "REASON_GROUPS",
    "RELEASED",
    "UNOBSERVED_MAX",
    "attempts",
    "dead_letters",
    "delays",
    "ends",
    "lives",
    "messages",
    "redrives",
)

KEY: Final = ("qmgr", "queue", "msg_id", "put_ts")
POISON: Final = ("backed_out", "dead_lettered", "discarded")
"""Outcomes of poison messages."""
FINAL: Final = ("committed", *POISON, "expired")
"""Outcomes after which the message is no longer on its queue."""
DEFERRED: Final = "deferred"
"""The outcome of a failed delivery whose message waits on the staging queue for a retry."""
RELEASED: Final = "released"
"""The outcome of a message whose delay is over and that is on its queue again; the delay processor records it."""
UNOBSERVED_MAX: Final = 1_000
"""The most consecutive unobserved attempts with a row each; more attempts share one row. A program can write a count of two
thousand million into a record, and as many rows would stop the pipeline."""
COUNT_MAX: Final = 2**31 - 1
"""The highest number of attempts in a column."""
_HANDLED: Final = ("committed", "rolled_back")
_STILL_THERE: Final = ("left", DEFERRED)
_OF_RECORD: Final = (
    "disp_id", "event_ts", "outcome", "handler", "consumer", "get_ts", "done_ts", "due_ts", "delay_req_ms", "target_queue",
    "exc_class", "exc_fingerprint", "redrive_id",
)  # fmt: skip
"""The columns of a record that silver needs, apart from `KEY` and the BackoutCount."""

REASON_GROUPS: Final[dict[str, tuple[Reason, ...]]] = {
    "space": (Reason.Q_FULL, Reason.Q_SPACE_NOT_AVAILABLE, Reason.STORAGE_NOT_AVAILABLE),
    "auth": (Reason.NOT_AUTHORIZED,),
    "unknown_object": (
        Reason.UNKNOWN_OBJECT_NAME,
        Reason.UNKNOWN_OBJECT_Q_MGR,
        Reason.UNKNOWN_REMOTE_Q_MGR,
        Reason.UNKNOWN_XMIT_Q,
        Reason.UNKNOWN_ALIAS_BASE_Q,
        Reason.UNKNOWN_DEF_XMIT_Q,
    ),
    "size": (Reason.MSG_TOO_BIG_FOR_Q, Reason.MSG_TOO_BIG_FOR_Q_MGR, Reason.MSG_TOO_BIG_FOR_CHANNEL, Reason.DATA_LENGTH_ERROR),
    "convert": (Reason.NOT_CONVERTED, Reason.FORMAT_ERROR, Reason.SOURCE_CCSID_ERROR, Reason.TARGET_CCSID_ERROR),
    "expiry": (),
}
"""The reasons of an MQDLH by group; every other reason is in the group `app`."""
_FEEDBACK_EXPIRATION: Final = 258


def lives(dispositions: "DataFrame") -> "DataFrame":
    """Return the records about messages, without heartbeats and unreadable records, from `bronze.disposition`.

    `life` is the number of ends of the message before the record; `count_max` is the highest BackoutCount of the message. All
    records of a message are in one partition of the frame, so a cached frame needs no shuffle to group by message.
    """
    # For two records of the same time, the lower count is first; a record without a delivery (a release) comes before both.
    order = "event_ts, rank, disp_id"
    in_order = window.Window.partitionBy(*KEY).orderBy(*order.split(", "))
    always = in_order.rowsBetween(window.Window.unboundedPreceding, window.Window.unboundedFollowing)
    ended = f.sum(f.col("outcome").isin(*FINAL).cast("int")).over(in_order.rowsBetween(window.Window.unboundedPreceding, -1))
    # A disposal after a handling has the time at which the handling ended. A message that is already poison when it is got has
    # no handling, so no time. BOTHRESH cannot show this: backouts that other messages of the unit caused do not count.
    disposed = f.col("outcome").isin(*POISON, *_STILL_THERE) & f.col("done_ts").isNotNull()
    # The next event of the message: a release or a get.
    came = f.when((f.col("outcome") == RELEASED) | f.col("get_ts").isNotNull(), f.struct("outcome", "get_ts"))
    count = f.col("backout_count")
    return (
        dispositions.where("outcome is not null and outcome <> 'heartbeat' and msg_id is not null")
        .select(
            *KEY, *_OF_RECORD, f.coalesce(count, f.lit(-1)).alias("rank"), f.coalesce(count, f.lit(0)).alias("backout_count")
        )
        .withColumn("life", f.coalesce(ended, f.lit(0)).cast("int"))
        .withColumn("count_max", f.max("backout_count").over(always))
        .withColumn("is_attempt", f.col("outcome").isin(*_HANDLED) | disposed)
        .withColumn("came", came)
        .withColumn("following", f.expr(f"lead(came) IGNORE NULLS OVER (PARTITION BY {', '.join(KEY)} ORDER BY {order})"))
        .drop("came")
    )


def attempts(records: "DataFrame") -> "DataFrame":
    """Return `silver.attempt` from the records of `lives`."""
    seen = (
        records.where("is_attempt")
        .withColumn("attempt_no", _attempt_number())
        .select(
            *KEY, "life", "attempt_no", f.lit(1).alias("attempts"), "get_ts", "done_ts", "event_ts", "outcome",
            f.lit(True).alias("observed"), "handler", "exc_class", "exc_fingerprint", "consumer",
        )
    )  # fmt: skip
    nothing = f.lit(None)
    missing = _unobserved(records).select(
        *KEY, "life", "attempt_no", "attempts",
        nothing.cast("timestamp").alias("get_ts"), nothing.cast("timestamp").alias("done_ts"),
        "event_ts", f.lit("unobserved").alias("outcome"), f.lit(False).alias("observed"), "handler",
        nothing.cast("string").alias("exc_class"), nothing.cast("string").alias("exc_fingerprint"),
        nothing.cast("string").alias("consumer"),
    )  # fmt: skip
    in_order = window.Window.partitionBy(*KEY, "life").orderBy("attempt_no")
    every = seen.unionByName(missing).withColumn("wait_ms", _ms(f.lag("done_ts").over(in_order), f.col("get_ts")))
    handled = every.withColumn("handle_ms", _ms(f.col("get_ts"), f.col("done_ts"))).withColumnRenamed("get_ts", "first_get_ts")
    return handled.select(*TABLES["attempt"].columns)


def messages(records: "DataFrame", attempted: "DataFrame") -> "DataFrame":
    """Return `silver.message` from the records of `lives` and their attempts."""
    when = f.struct("life", "backout_count", "event_ts")
    final = f.col("outcome").isin(*FINAL)
    failed = f.col("exc_class").isNotNull()
    grouped = records.groupBy(*KEY).agg(
        f.min_by("handler", f.when(f.col("handler").isNotNull(), when)).alias("handler"),
        f.max_by("outcome", f.when(final, when)).alias("final_outcome"),
        f.min("get_ts").alias("first_get_ts"),
        f.max(f.when(final, f.col("event_ts"))).alias("final_ts"),
        f.max_by("target_queue", f.when(final, when)).alias("target_queue"),
        f.min_by("exc_class", f.when(failed, when)).alias("first_exc_class"),
        f.max_by("exc_class", f.when(failed, when)).alias("last_exc_class"),
        f.max("life").alias("redrives"),
        f.max_by("outcome", f.when(final & (f.col("life") > 0), when)).alias("redrive_outcome"),
        f.max("delay_req_ms").alias("delay_req_ms"),
        f.max(_ms(f.col("due_ts"), _delay_end())).alias("delay_error_ms"),
    )
    sum_of = f.sum(f.col("attempts").cast("long"))
    counted = attempted.groupBy(*KEY).agg(f.least(sum_of, f.lit(COUNT_MAX)).cast("int").alias("attempts"))
    both = null_safe_join(grouped, counted, KEY, "left").withColumn("attempts", f.coalesce("attempts", f.lit(0)))
    timed = both.withColumn("time_to_final_ms", _ms(f.col("first_get_ts"), f.col("final_ts")))
    return timed.select(*TABLES["message"].columns)


def ends(records: "DataFrame") -> "DataFrame":
    """Return each end of a message from the records of `lives`: the first end, and another after each redrive.

    Tables that count by time use these rows, because a redrive does not undo that the message was poison before. Ends that no
    handler decided are left out: an action of the DLQ handler or the delay processor is not poison of a handler.
    """
    when = f.struct("backout_count", "event_ts")
    final, failed = f.col("outcome").isin(*FINAL), f.col("exc_class").isNotNull()
    ended = (
        records.groupBy(*KEY, "life")
        .agg(
            f.min_by("handler", f.when(f.col("handler").isNotNull(), when)).alias("handler"),
            f.max_by("outcome", f.when(final, when)).alias("final_outcome"),
            f.min("get_ts").alias("first_get_ts"),
            f.max(f.when(final, f.col("event_ts"))).alias("final_ts"),
            f.max_by("exc_class", f.when(failed, when)).alias("last_exc_class"),
            f.max_by("target_queue", f.when(final, when)).alias("target_queue"),
            f.max_by("handler", f.when(final, when)).alias("ended_by"),
        )
        .where("final_outcome is not null and ended_by is not null")
    )
    return ended.withColumn("time_to_final_ms", _ms(f.col("first_get_ts"), f.col("final_ts")))


def dead_letters(letters: "DataFrame", rules: CompiledRules | None = None) -> "DataFrame":
    """Return `silver.dead_letter` from `bronze.dead_letter`; `rule_index` is the first matching rule, null without rules.

    `duplicate_of` is the MsgId of the first message with the same data and destination; null for that message itself.
    """
    number = f.lit(None).cast("int") if rules is None else rules.first_match()
    action = f.lit(None).cast("string") if rules is None else f.when(f.col("has_dlh"), rules.action(f.col("rule_index")))
    alike = window.Window.partitionBy("qmgr", "dlq", "dlh_dest_q", "body_sha256").orderBy(
        "dlh_put_ts", "lane", "segment", "ordinal"
    )
    first = f.first("msg_id").over(alike)
    known = f.col("body_sha256").isNotNull() & (f.row_number().over(alike) > 1)
    age_s = (_ms(f.col("dlh_put_ts"), f.col("landed_ts")) / 1000).cast("long")
    made = (
        letters.withColumn("reason_name", _reason_name(f.col("dlh_reason")))
        .withColumn("reason_group", _reason_group(f.col("dlh_reason")))
        .withColumn("age_s", f.when(age_s < 0, 0).otherwise(age_s))  # two clocks
        .withColumn("rule_index", number)
        .withColumn("rule_action", action)
        .withColumn("duplicate_of", f.when(known, first))
    )
    return made.select(*TABLES["dead_letter"].columns)


def redrives(records: "DataFrame") -> "DataFrame":
    """Return the outcome of each message that a redrive with an id put back, from the records of `lives`.

    The record of the redrive has the id. Later records of the message, until the next redrive, belong to that id.
    """
    final = f.col("outcome").isin(*FINAL)
    in_order = window.Window.partitionBy(*KEY).orderBy("event_ts", "rank", "disp_id")
    last = f.last("redrive_id", ignorenulls=True).over(in_order.rowsBetween(window.Window.unboundedPreceding, 0))
    return (
        records.withColumn("redrive_id", last)
        .where("redrive_id is not null")
        .groupBy(*KEY, "redrive_id")
        .agg(
            f.max_by("outcome", f.when(final, f.col("event_ts"))).alias("outcome"),
            f.min("event_ts").alias("event_ts"),
            _ms(f.min("get_ts"), f.max(f.when(final, f.col("event_ts")))).alias("took_ms"),
        )
    )


def delays(records: "DataFrame") -> "DataFrame":
    """Return each ended delay of a message, from the records of `lives`: a delay from its sender, or the delay of a retry.

    `over_ts` is the end of the delay; `error_ms` is the time from the due time to the end. A delay ends when the message is
    released. If no record of the release exists, the delay ends at the next delivery.
    """
    over = records.withColumn("over_ts", _delay_end()).where("over_ts is not null")
    return over.select(*KEY, "over_ts", _ms(f.col("due_ts"), f.col("over_ts")).alias("error_ms"))


def _delay_end() -> "Column":
    """Return the end of the delay in a record; null if the record has no delay, or another record has the end."""
    due, following = f.col("due_ts").isNotNull(), f.col("following")
    delivered = (f.col("outcome") == DEFERRED) & (following["outcome"] != RELEASED)
    return f.when(due & (f.col("outcome") == RELEASED), f.col("event_ts")).when(due & delivered, following["get_ts"])


def _unobserved(records: "DataFrame") -> "DataFrame":
    """Return the attempts that a later BackoutCount proves but no record has, at the time of the earliest proof."""
    # A poison message that stayed on its queue has a record, but no handler got it: this is not an attempt.
    stayed = (f.col("outcome") == "left") & f.col("handler").isNotNull()
    number = f.when(f.col("is_attempt") | stayed, _attempt_number())
    proof = f.struct("event_ts", "backout_count", "handler")
    # Most messages have no backout: their records need no groups.
    grouped = (
        records.where("count_max > 0")
        .groupBy(*KEY, "life")
        .agg(f.max("backout_count").alias("proved"), f.collect_set(number).alias("seen"), f.collect_list(proof).alias("proofs"))
    )
    missing = f.explode(f.flatten(f.transform(_gaps(), _gap_rows)))
    every = (
        grouped.where("proved > 0")
        .withColumn("missing", missing)
        .withColumns({"attempt_no": f.col("missing")["attempt_no"], "attempts": f.col("missing")["attempts"]})
    )
    first = f.array_min(f.filter("proofs", lambda one: one["backout_count"] >= f.col("attempt_no")))
    return every.withColumn("event_ts", first["event_ts"]).withColumn("handler", first["handler"])


def _attempt_number() -> "Column":
    """Return the attempt number of a delivery: its BackoutCount plus one, but at most `COUNT_MAX`."""
    return f.least("backout_count", f.lit(COUNT_MAX - 1)) + 1


def _gaps() -> "Column":
    """Return the gaps in the attempt numbers from 1 to `proved`: the number before each gap, and its last missing number."""
    seen = f.array_sort(f.filter("seen", lambda one: one.between(1, f.col("proved"))))
    before, last = f.concat(f.array(f.lit(0)), seen), f.concat(f.transform(seen, lambda one: one - 1), f.array("proved"))
    gaps = f.zip_with(before, last, lambda one, other: f.struct(one.alias("before"), other.alias("last")))
    return f.filter(gaps, lambda gap: gap["before"] < gap["last"])


def _gap_rows(gap: "Column") -> "Column":
    """Return a row for each missing attempt of a gap, or one row for all of them if there are more than `UNOBSERVED_MAX`."""

    def row(number: "Column", attempts: "Column") -> "Column":
        return f.struct(number.alias("attempt_no"), attempts.alias("attempts"))

    before, last = gap["before"], gap["last"]
    each = f.transform(f.sequence(before + 1, last), lambda number: row(number, f.lit(1)))
    return f.when(last - before <= UNOBSERVED_MAX, each).otherwise(f.array(row(last, last - before)))


def _ms(start: "Column", end: "Column") -> "Column":
    return f.floor((f.unix_micros(end) - f.unix_micros(start)) / 1000)


def _reason_name(reason: "Column") -> "Column":
    pairs = [part for one in Reason for part in (f.lit(int(one)), f.lit(one.mq_name))]
    return f.coalesce(f.element_at(f.create_map(*pairs), reason), reason.cast("string"))


def _reason_group(reason: "Column") -> "Column":
    group = f.when(reason == _FEEDBACK_EXPIRATION, "expiry")
    for name, reasons in REASON_GROUPS.items():
        if reasons:
            group = group.when(reason.isin(*(int(one) for one in reasons)), name)
    return f.when(reason.isNotNull(), group.otherwise("app"))
