"""The data of the report: bounded counts from gold, and sentences about them. This file knows tables, and draws nothing."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.pipeline.dead_letters.triage import Triage
from mqflow.pipeline.extras import f
from mqflow.pipeline.schemas import DAY_US, LENGTHS_US
from mqflow.pipeline.tables.gold import day_of, length_us
from mqflow.pipeline.tables.silver import KEY, POISON
from mqflow.pipeline.tables.table_set import TableSet
from mqflow.policy.dead_letters.rules import Action

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ("ROWS_MAX", "Report", "Row", "gather", "minute", "poison_by", "sentences", "step_of")

ROWS_MAX: Final = 20_000
"""The most rows of one table in the report: the latest. Totals cover all rows, and the report names the tables that it cuts."""
_SHOWN: Final = 12
_MONDAY: Final = 3
"""The days from Monday to 1 January 1970, a Thursday."""
_BY_MINUTES: Final = timedelta(hours=6)
_BY_HOURS: Final = timedelta(days=10)

Row = dict[str, Any]  # values of many types: counts, rates, names, times


class Report(Struct, frozen=True, kw_only=True):
    """The data of a report, without its layout. Times are ISO 8601, UTC; identifiers hexadecimal."""

    #: The times of the first and last counted event.
    first: str
    last: str
    messages: int
    poisoned: int
    deliveries: int
    #: The length of the steps of `poison_over_time`: "5 minutes", "1 hour" or "1 day": longer for a longer time.
    step: str = "1 hour"
    #: Poison by step and handler; each row has its `start` and `end`.
    poison_over_time: list[Row]
    #: By queue, handler and exception, the largest number first.
    culprits: list[Row]
    retry_curve: list[Row]
    alerts: list[Row]
    backout: list[Row]
    delays: list[Row]
    dead_letters: list[Row]
    redrives: list[Row]
    #: Failed deliveries by week (its Monday), handler, exception and fingerprint, latest week first.
    groups: list[Row] = []
    #: By handler: messages that ended in the last seven days, and in the seven days before those. These weeks end at `last`, or
    #: at the last landing if the clock of a recorder was ahead.
    weeks: list[Row] = []
    #: By handler: messages that a handler got and that have not ended, with the age of the oldest.
    unfinished: list[Row] = []
    late_rows: int
    #: The numbers of all dead letters, alerts, ended delays and early delays, and the latest delay.
    letters: int = 0
    alarms: int = 0
    delayed: int = 0
    early: int = 0
    latest_ms: int | None = None
    triage: Triage | None = None
    #: Tables of which the report has only the latest rows.
    cut: list[str] = []


def gather(spark: "SparkSession", gold: TableSet, silver: TableSet, dry_run: Triage | None = None) -> Report:
    """Return the report of the current tables: of one state of gold, and one of silver, even if runs end meanwhile."""
    current, cut = gold.current(), list[str]()
    silver = replace(silver, pinned=silver.current())
    hours = length_us() == LENGTHS_US["1 hour"]

    def rows(name: str, frame: "DataFrame") -> list[Row]:
        found = frame.limit(ROWS_MAX + 1).collect()
        if len(found) > ROWS_MAX:
            cut.append(name)
        return [{name: _plain_value(value) for name, value in row.asDict(recursive=True).items()} for row in found[:ROWS_MAX]]

    def latest(name: str, frame: "DataFrame", *order: str) -> list[Row]:
        return rows(name, frame.orderBy(f.desc(order[0]), *order[1:]))[::-1]

    rates = gold.read(spark, "poison_rate", current).where(hours)
    parts = rates.where("exc_class is not null")
    # Messages without a handler were moved, by a rule or after a delay: they count on the queue where they are handled.
    messages, attempted = silver.read(spark, "message").where("handler is not null"), silver.read(spark, "attempt")
    poison = f.count_if(f.col("final_outcome").isin("backed_out", "dead_lettered", "discarded"))
    totals = messages.agg(f.count(f.lit(1)).alias("n"), poison.alias("poisoned")).collect()[0]
    deliveries = f.coalesce(f.sum("attempts"), f.lit(0)).alias("n")
    last = f.max("event_ts")
    ends = (f.min("event_ts").alias("first"), last.alias("last"), f.unix_micros(last).alias("last_us"))
    span = attempted.agg(*ends, deliveries).collect()[0]
    step = step_of(span["first"], span["last"])
    health = gold.read(spark, "pipeline_health", current).where(length_us() == LENGTHS_US["5 minutes"])
    [landed] = health.agg(f.unix_micros(f.max("window.end")).alias("us")).collect()
    # The clock of one recorder can be ahead, but no event is later than its landing.
    now_us = min((each for each in (span["last_us"], landed["us"]) if each is not None), default=None)
    alarms, delays = (gold.read(spark, name, current).where(hours) for name in ("poison_alert", "delay_accuracy"))
    late_by = f.max("max_error_ms").alias("latest_ms")
    [delayed] = delays.agg(f.sum("n").alias("n"), f.sum("early").alias("early"), late_by).collect()
    culprits = parts.groupBy("queue", "handler", "exc_class").agg(
        f.sum("deliveries").alias("deliveries"), f.sum("poisoned").alias("poisoned"), f.min("window.start").alias("since")
    )
    letters = silver.read(spark, "dead_letter").where("has_dlh")
    [shown] = letters.agg(f.unix_micros(f.max("landed_ts")).alias("us")).collect()
    lettered = letters.groupBy("dlq", "reason_name", "reason_group", "dlh_dest_q").agg(
        f.count(f.lit(1)).alias("messages"),
        f.min("dlh_put_ts").alias("oldest"),
        _age_s(f.min("dlh_put_ts"), shown["us"]).alias("oldest_s"),
        f.min_by("msg_id", "dlh_put_ts").alias("first_msg_id"),
    )
    curve = (
        gold.read(spark, "retry_curve", current)
        .groupBy("queue", "handler", "attempt_no")
        .agg(f.sum("entered").alias("entered"), f.sum("succeeded").alias("succeeded"))
    )
    late = gold.read(spark, "late_data", current).where(length_us() == LENGTHS_US["5 minutes"]).agg(f.sum("rows").alias("n"))
    return Report(
        first=_plain_value(span["first"]) or "",
        last=_plain_value(span["last"]) or "",
        messages=totals["n"],
        poisoned=totals["poisoned"],
        deliveries=span["n"],
        step=step,
        poison_over_time=latest(
            "poison_rate", poison_by(gold.read(spark, "poison_rate", current), step), "start", "queue", "handler"
        ),
        culprits=rows(
            "culprits", culprits.orderBy(f.desc("poisoned"), f.desc("deliveries"), "queue", "exc_class").limit(_SHOWN)
        ),
        retry_curve=rows(
            "retry_curve",
            curve.withColumn("p_success", f.col("succeeded") / f.col("entered")).orderBy("queue", "handler", "attempt_no"),
        ),
        alerts=latest(
            "poison_alert",
            alarms.select(
                f.col("window.start").alias("hour"),
                "queue",
                "handler",
                "messages",
                "poisoned",
                "poison_rate",
                "expected_rate",
                "score",
                "first_msg_id",
                "first_ts",
                "exc_class",
            ),
            "hour",
        ),
        backout=latest(
            "time_to_backout",
            gold.read(spark, "time_to_backout", current)
            .where(hours)
            .select(f.col("window.start").alias("hour"), "queue", "n", "p50_ms", "p95_ms", "p99_ms", "max_ms"),
            "hour",
            "queue",
        ),
        delays=latest(
            "delay_accuracy",
            delays.select(
                f.col("window.start").alias("hour"), "queue", "n", "early", "p50_error_ms", "p99_error_ms", "max_error_ms"
            ),
            "hour",
            "queue",
        ),
        dead_letters=rows("dead_letter", lettered.orderBy(f.desc("messages"), "reason_name", "dlh_dest_q").limit(_SHOWN)),
        redrives=latest("redrive", _redrives(gold.read(spark, "redrive", current), messages), "day", "queue"),
        groups=rows("groups", _groups(attempted)),
        weeks=rows("weeks", _weeks(messages, now_us)),
        unfinished=rows("unfinished", _unfinished(messages, now_us)),
        late_rows=late.collect()[0]["n"] or 0,
        letters=letters.count(),
        alarms=alarms.count(),
        delayed=delayed["n"] or 0,
        early=delayed["early"] or 0,
        latest_ms=delayed["latest_ms"],
        triage=dry_run,
        cut=cut,
    )


def step_of(first: datetime | None, last: datetime | None) -> str:
    """Return the length of the steps: short enough to see when something began, and long enough for a readable chart."""
    if first is None or last is None or last - first <= _BY_MINUTES:
        return "5 minutes"
    return "1 hour" if last - first <= _BY_HOURS else "1 day"


def poison_by(rates: "DataFrame", step: str) -> "DataFrame":
    """Return the poison messages of each step, from `gold.poison_rate`."""
    length = LENGTHS_US["5 minutes" if step == "5 minutes" else "1 hour"]
    start, end = f.col("window.start").alias("start"), f.col("window.end").alias("end")
    if step == "1 day":
        midnight_us = f.floor(f.unix_micros("window.start") / DAY_US) * DAY_US
        start, end = f.timestamp_micros(midnight_us).alias("start"), f.timestamp_micros(midnight_us + DAY_US)
    return (
        rates.where(f.col("exc_class").isNull() & (length_us() == length))
        .groupBy(start, end.alias("end"), "queue", "handler")
        .agg(f.sum("messages").alias("messages"), f.sum("poisoned").alias("poisoned"), f.sum("deliveries").alias("deliveries"))
        .withColumn("poison_rate", f.col("poisoned") / f.col("messages"))
        .orderBy("start", "queue", "handler")
    )


def _groups(attempted: "DataFrame") -> "DataFrame":
    """Return the failed deliveries with an exception, by week, handler, exception and fingerprint."""
    of = ("queue", "handler", "exc_class", "exc_fingerprint")
    day = f.floor(f.unix_micros("event_ts") / DAY_US)
    monday = f.date_from_unix_date((day - f.pmod(day + _MONDAY, f.lit(7))).cast("int"))
    found = (
        attempted.where("exc_class is not null and outcome <> 'committed'")
        .groupBy(monday.alias("week"), *of)
        .agg(
            f.sum("attempts").alias("deliveries"),
            f.count_distinct(f.struct(*KEY)).alias("messages"),
            f.min("event_ts").alias("since"),
            f.min_by("msg_id", "event_ts").alias("first_msg_id"),
            f.max_by("msg_id", "event_ts").alias("last_msg_id"),
        )
    )
    return found.orderBy(f.desc("week"), f.desc("deliveries"), *of)


def _weeks(messages: "DataFrame", last_us: int | None) -> "DataFrame":
    """Return the ended messages of the last seven days, and of the seven days before those, by handler."""
    ago = f.floor((f.lit(last_us) - f.unix_micros("final_ts")) / (7 * DAY_US))
    poison = f.col("final_outcome").isin(*POISON)
    both = messages.where("final_ts is not null").withColumn("ago", f.greatest(ago, f.lit(0))).where("ago < 2")
    found = both.groupBy("queue", "handler").agg(
        f.count_if(f.col("ago") == 0).alias("messages"),
        f.count_if((f.col("ago") == 0) & poison).alias("poisoned"),
        f.count_if(f.col("ago") == 1).alias("messages_before"),
        f.count_if((f.col("ago") == 1) & poison).alias("poisoned_before"),
    )
    return found.orderBy(f.desc("poisoned"), "queue", "handler")


def _unfinished(messages: "DataFrame", last_us: int | None) -> "DataFrame":
    """Count the messages without an end for each queue and handler. The row with the oldest message comes first."""
    oldest = f.min("first_get_ts")
    found = (
        messages.where("final_outcome is null")
        .groupBy("queue", "handler")
        .agg(
            f.count(f.lit(1)).alias("messages"),
            oldest.alias("oldest"),
            _age_s(oldest, last_us).alias("oldest_s"),
            f.min_by("msg_id", "first_get_ts").alias("first_msg_id"),
        )
    )
    return found.orderBy("oldest", "queue", "handler")


def _age_s(oldest: "Column", now_us: int | None) -> "Column":
    """Return the whole seconds from a time until `now_us`; 0 if another clock was ahead, null if a time is unknown."""
    age = f.floor((f.lit(now_us) - f.unix_micros(oldest)) / 1_000_000)
    return f.when(age < 0, 0).otherwise(age)


def _redrives(by_id: "DataFrame", messages: "DataFrame") -> "DataFrame":
    """Return the outcomes of redriven messages by redrive id.

    If `messages` has more redriven messages than `by_id`, returns the outcomes from `messages`, without redrive ids.
    """
    outcome = f.col("redrive_outcome")
    by_life = (
        messages.where("redrives > 0")
        .groupBy(day_of("final_ts").alias("day"), "queue", f.lit("").alias("redrive_id"))
        .agg(
            f.count(f.lit(1)).alias("redriven"),
            f.count_if(outcome == "committed").alias("succeeded"),
            f.count_if(outcome.isin("backed_out", "discarded")).alias("poisoned_again"),
            f.count_if(outcome == "dead_lettered").alias("dead_lettered"),
        )
    )
    total = f.coalesce(f.sum("redriven"), f.lit(0)).alias("n")
    by_id = by_id.select(*by_life.columns)
    [known], [lived] = by_id.agg(total).collect(), by_life.agg(total).collect()
    return by_id if known["n"] >= lived["n"] else by_life


def sentences(report: Report) -> list[str]:
    """Return the sentences of the summary, for readers who read only the summary."""
    nothing = "No handler got a message in this time, or no record of such a message has landed."
    said = _of_messages(report) if report.messages else [nothing]
    if report.dead_letters:
        most = report.dead_letters[0]
        came, where = _count(report.letters, "dead letter"), most["dlh_dest_q"] or "no queue"
        said.append(f"{came} arrived; most often {most['reason_name']} for {where} ({most['messages']:,}).")
    if report.triage is not None:
        left, of = report.triage.unmatched + report.triage.strays, report.triage.messages
        ignored = sum(use.first for use in report.triage.rules if use.action == Action.IGNORE.value)
        kept = f"IGNORE leaves {ignored:,}, and " if ignored else ""
        said.append(
            f"The rules would act on {of - left - ignored:,} of {of:,} dead letters; {kept}no rule matches the other {left:,}."
        )
    if report.delayed:
        said.append(
            f"{_count(report.delayed, 'message delay')} ended, {report.early:,} of them early, the latest "
            f"{report.latest_ms:,} ms late."
        )
    if report.late_rows:
        records = _count(report.late_rows, "record")
        said.append(f"{records} landed after their time windows had closed: no count by time includes them.")
    return said


def _of_messages(report: Report) -> list[str]:
    share, retries = report.poisoned / report.messages, max(0, report.deliveries - report.messages)
    were, are = "was" if report.messages == 1 else "were", "is" if report.poisoned == 1 else "are"
    handled, delivered = _count(report.messages, "message"), _count(report.deliveries, "delivery", "deliveries")
    said = [
        f"{handled} {were} handled, and {report.poisoned:,} of them ({share:.2%}) {are} poison, and put aside.",
        (
            f"{retries:,} of {delivered} ({retries / max(1, report.deliveries):.1%}) were retries: "
            f"{report.deliveries / report.messages:.2f} deliveries a message."
        ),
    ]
    if report.redrives:
        back, done = (sum(row[name] for row in report.redrives) for name in ("redriven", "succeeded"))
        said.append(f"{back:,} finished messages were put back, and {done:,} of them then succeeded.")
    if report.culprits and report.culprits[0]["poisoned"]:
        worst = report.culprits[0]
        said.append(
            f"Most poison, {_count(worst['poisoned'], 'message')}, came from {worst['exc_class']} in handler "
            f"{worst['handler']} on {worst['queue']}, since {minute(worst['since'])}."
        )
    if sum(row["messages_before"] for row in report.weeks):
        now, before = (sum(row[name] for row in report.weeks) for name in ("poisoned", "poisoned_before"))
        of = sum(row["messages"] for row in report.weeks)
        of_before = sum(row["messages_before"] for row in report.weeks)
        said.append(
            f"In the last seven days {now:,} of {of:,} ended messages were poison; in the seven days before, {before:,} of "
            f"{of_before:,}."
        )
    if report.alerts:
        first = report.alerts[0]
        said.append(
            f"{_times(report.alarms)} a handler had more poison in an hour than its history predicts; first "
            f"{first['handler']} on {first['queue']} at {minute(first['hour'])}, beginning with message "
            f"{first['first_msg_id']}."
        )
    return said


def _count(count: int, one: str, many: str = "") -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {many or one + 's'}"


def _times(count: int) -> str:
    return {1: "Once", 2: "Twice"}.get(count, f"{count:,} times")


def minute(text: str) -> str:
    """Return a time for people, without its seconds."""
    return text[:16].replace("T", " ")


def _plain_value(value: object) -> Any:  # of many types, as in a row
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()  # Spark gives times without a zone, in the zone of this machine
        case bytes() | bytearray():
            return bytes(value).hex()
        case None | int() | float() | str():
            return value
        case _:
            return str(value)
