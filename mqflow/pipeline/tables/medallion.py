"""Brings silver and gold up to date with bronze. A run makes one new state of all tables; its cost depends on the new rows.

A window closes when the watermark (the latest event, heartbeats included, less `LATENESS`) passes its end. A run never counts a
closed window again; rows that land for it later count in `late_data`. Each run counts open windows again, from the rows since
the first open window. Silver keeps the days with changed rows in its state, and a run counts the tables by day again for these
days. Gold uses exactly the records that silver was made from: newer records could close windows before silver has their
attempts. This file knows frames and table sets, but no journal.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final
from zlib import crc32

from msgspec import Struct

from mqflow.journal.schemas import Kind
from mqflow.pipeline.dead_letters.rules_columns import CompiledRules
from mqflow.pipeline.extras import f, pc
from mqflow.pipeline.payload import Payload, payload_of
from mqflow.pipeline.schemas import GOLD, LENGTHS_US
from mqflow.pipeline.session import settings
from mqflow.pipeline.tables import alerts, changed_rows, gold, silver, silver_messages
from mqflow.pipeline.tables.frames import first_landings
from mqflow.pipeline.tables.table_set import Current, Run, TableSet

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ("LATENESS", "BronzeFrames", "GoldRun", "run_gold", "run_silver")

LATENESS: Final = timedelta(minutes=10)
"""The time that a window stays open after its end."""
_WATERMARK: Final = "watermark_us"
_DEDUPE: Final = "dedupe"
_PAYLOAD: Final = "payload:"
_RULES: Final = "rules"
_ANEW: Final = "made_anew"
"""The run of silver that last made attempts and messages from all records."""
_CHANGED: Final = "changed:"
"""The prefix of a day with events of changed messages; the value is the last run of silver that changed them."""
_SILVER: Final = "silver"
"""The run of silver that gold was counted from."""
_LETTERS: Final = "letters"
"""The version of the table `dead_letter` that gold was counted from."""
_SLICE: Final = 500_000
"""How many messages one MERGE changes: its rows are in the memory of the driver."""
_FEW_ROWS: Final = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""Settings for queries of at most about `_SLICE` rows. To plan them again after each stage would cost more than their rows."""
_POSITION: Final = ("lane", "segment", "ordinal")
_ABOUT_MESSAGES: Final = ("attempt", "message", "message_end", "delay", "redriven_message")
_MOVED: Final = ("qmgr", "msg_id", "put_ts")
_COUNTED: Final = "outcome <> 'heartbeat'"
"""No gold table but `pipeline_health` counts heartbeats, so none is late."""
_HOUR_US: Final = max(LENGTHS_US.values())


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
    #: The last segment of each lane by kind and name of the lane, without the kinds that have no table. None if a scan must
    #: find the last segments.
    lasts: Mapping[Kind, Mapping[str, int]] | None = None

    def last_segments(self) -> Mapping[Kind, Mapping[str, int]]:
        """Return the last segments of the lanes of each kind; after a scan, a kind has the lanes of all kinds."""
        if self.lasts is not None:
            return self.lasts
        frames = (self.dispositions, self.letters, self.backed_out, self.payloads)
        return dict.fromkeys(Kind, changed_rows.last_segments([frame for frame in frames if frame is not None]))


class _Silver(Struct, frozen=True, kw_only=True):
    """One run of silver."""

    spark: "SparkSession"
    run: Run
    dedupe: bool
    #: True if the existing rows can stay.
    goes_on: bool
    #: The last segment of each lane, before this run and after it.
    before: Mapping[str, int]
    lasts: Mapping[str, int]
    #: The kinds that have rows, and the kinds that have new rows.
    kinds: Collection[Kind]
    news: Collection[Kind]

    def new(self, landed: "DataFrame") -> "DataFrame":
        """Return the rows that landed since the previous run."""
        return changed_rows.new_since(landed, self.before, self.lasts)

    def landed(self, frame: "DataFrame", kind: Kind) -> "DataFrame":
        """Return the rows; with `dedupe`, each record or message only once."""
        return _deduplicated(frame, kind, dedupe=self.dedupe)


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
    """Bring silver up to date with bronze: make the rows about messages with new records again, and leave all other rows.

    With `dedupe`, rows that landed twice count once; `payload` limits the data in `silver.payload`. By default both options are
    as in the run before; the first run uses no `dedupe`, and `none` for `payload`. `whole` makes every row again. This also
    happens if the old state does not fit: other columns, another `dedupe`, or a bronze table that was made again. If the rules
    differ from the run before, the table `dead_letter` is made again; if `payload` differs, the table `payload`.
    """
    with tables.next() as run:
        before = run.before.state
        dedupe = bool(before.get(_DEDUPE, 0)) if dedupe is None else dedupe
        payload = _payload_before(run.before) if payload is None else payload
        kept_data = payload_of(payload)
        found = bronze.last_segments()
        lasts: dict[str, int] = {}
        news: set[Kind] = set()
        for kind, lanes in found.items():
            of_kind = {f"{changed_rows.LANE}{lane}": last for lane, last in lanes.items()}
            if changed_rows.advanced(before, of_kind):
                news.add(kind)
            lasts |= {lane: max(last, lasts.get(lane, last)) for lane, last in of_kind.items()}
        fits = before.get(_DEDUPE, 0) == dedupe and all(
            lasts.get(name, 0) >= last for name, last in changed_rows.lanes_of(before).items()
        )
        making = _Silver(
            spark=spark, run=run, dedupe=dedupe, goes_on=fits and not whole, before=before, lasts=lasts, kinds=found, news=news
        )
        rules_sum = crc32(repr(None if rules is None else rules.rules).encode())
        run.state |= {name: value for name, value in before.items() if name.startswith((_CHANGED, _ANEW))}
        run.state |= {_DEDUPE: int(dedupe), f"{_PAYLOAD}{payload}": 1, _RULES: rules_sum, **lasts}
        changed = None
        if bronze.dispositions is not None:
            changed = _messages(making, bronze.dispositions)
        if bronze.letters is not None:
            _dead_letters(making, bronze.letters, rules, anew=before.get(_RULES) != rules_sum)
        if bronze.backed_out is not None:
            _backed_out(making, bronze.backed_out, changed)
        if bronze.payloads is not None:
            _payloads(making, bronze.payloads, kept_data, anew=f"{_PAYLOAD}{payload}" not in before)
        if changed is not None:
            changed.unpersist()


def _messages(making: _Silver, landed: "DataFrame") -> "DataFrame | None":
    """Write the tables about messages. Returns the keys of the changed messages; None if all of them were made again."""
    run = making.run
    if not making.goes_on or not all(run.fits(name) for name in _ABOUT_MESSAGES):
        records = silver.lives(making.landed(landed, Kind.DISPOSITION)).cache()
        run.write("attempt", silver.attempts(records))
        for name, made in _about(records, run.read(making.spark, "attempt")).items():
            run.write(name, made)
        records.unpersist()
        run.state[_ANEW] = run.number
        return None
    new = making.new(landed).where("msg_id is not null").select(*silver.KEY).distinct().cache()
    slices = -(-new.count() // _SLICE) if Kind.DISPOSITION in making.news else 0
    with settings(making.spark, _FEW_ROWS):
        for number in range(slices):
            keys = new.where(f.pmod(f.xxhash64(*silver.KEY), f.lit(slices)) == number)
            about = changed_rows.rows_about(landed, f.broadcast(keys))  # without the hint, Spark can sort all rows of the days
            records = silver.lives(making.landed(about, Kind.DISPOSITION)).cache()
            attempted = silver.attempts(records).cache()
            gone = run.dated("message", keys)  # all tables about messages are partitioned by the put time
            for name, made in {"attempt": attempted, **_about(records, attempted)}.items():
                run.replace_rows(name, made, silver.KEY, gone)
            # The times in the rows of a message, old and new, are times of its records.
            run.state |= {f"{_CHANGED}{day or ''}": run.number for day in changed_rows.days_of(records, "event_ts")}
            attempted.unpersist()
            records.unpersist()
    return new


def _about(records: "DataFrame", attempted: "DataFrame") -> "dict[str, DataFrame]":
    return {
        "message": silver.messages(records, attempted),
        "message_end": silver.ends(records),
        "delay": silver.delays(records),
        "redriven_message": silver.redrives(records),
    }


def _dead_letters(making: _Silver, landed: "DataFrame", rules: CompiledRules | None, *, anew: bool) -> None:
    run, new = making.run, making.new(landed)
    many = _new_rows(making, "dead_letter", Kind.DEAD_LETTER, new, anew=anew)
    if many is None:
        run.write("dead_letter", silver.dead_letters(making.landed(landed, Kind.DEAD_LETTER), rules))
    elif many:
        part = changed_rows.alike(landed, new, ("qmgr", "dlq", "dlh_dest_q", "body_sha256"))
        run.replace_rows("dead_letter", silver.dead_letters(part, rules), _POSITION)


def _backed_out(making: _Silver, landed: "DataFrame", changed: "DataFrame | None") -> None:
    run, new = making.run, making.new(landed)
    many = _new_rows(making, "backout_message", Kind.BACKOUT_MESSAGE, new, anew=changed is None)
    if many == 0 and (Kind.BACKOUT_MESSAGE not in making.kinds or Kind.DISPOSITION not in making.news):
        return
    ended, attempted = (run.read(making.spark, name) for name in ("message_end", "attempt"))
    if changed is None or many is None:
        kept = making.landed(landed, Kind.BACKOUT_MESSAGE)
        run.write("backout_message", silver_messages.backout_messages(kept, ended, attempted))
        return
    old = changed_rows.landed_until(landed, making.before)
    both = new.unionByName(changed_rows.rows_about(old, changed, _MOVED)).cache()
    if not both.isEmpty():
        part = changed_rows.alike(landed, both, ("qmgr", "boq", "body_sha256")).cache()
        about = (changed_rows.rows_about(frame, part, _MOVED) for frame in (ended, attempted))
        run.replace_rows("backout_message", silver_messages.backout_messages(part, *about), _POSITION)
        part.unpersist()
    both.unpersist()


def _payloads(making: _Silver, landed: "DataFrame", kept_data: Payload, *, anew: bool) -> None:
    run, new = making.run, making.new(landed)
    many = _new_rows(making, "payload", Kind.PAYLOAD, new, anew=anew)
    if many is None:
        run.write("payload", silver_messages.payloads(making.landed(landed, Kind.PAYLOAD), kept_data))
    elif many:
        part = changed_rows.alike(landed, new, ("qmgr", "queue", "body_sha256"))
        run.replace_rows("payload", silver_messages.payloads(part, kept_data), _POSITION)


def _new_rows(making: _Silver, name: str, kind: Kind, new: "DataFrame", *, anew: bool) -> int | None:
    """Return the number of new rows; None if the run must make all rows of the table again.

    If the result is a number, the changed rows fit into the memory of the driver.
    """
    if anew or not making.goes_on or not making.run.fits(name):
        return None
    if kind not in making.news:
        return 0
    many = new.limit(_SLICE).count()
    # With `dedupe`, a row that lands again can be the first landing of another group.
    return None if many == _SLICE or (making.dedupe and many) else many


def _payload_before(before: Current) -> str:
    return next((name.removeprefix(_PAYLOAD) for name in before.state if name.startswith(_PAYLOAD)), "none")


def _deduplicated(landed: "DataFrame", kind: Kind, *, dedupe: bool) -> "DataFrame":
    return first_landings(landed, kind) if dedupe else landed


class _News(Struct, frozen=True, kw_only=True):
    """The new records of one run of gold."""

    rows: int
    #: The latest event less the lateness; it never moves back. No event counts as later than its landing.
    watermark_us: int | None
    #: The earliest landing.
    landed_us: int | None
    #: Rows of closed windows.
    late: int


def run_gold(spark: "SparkSession", tables: TableSet, silver_tables: TableSet, dispositions: "DataFrame") -> GoldRun:
    """Bring every gold table up to date with silver, in one step; `dispositions` can have newer records, which are ignored."""
    made = silver_tables.current()
    with tables.next() as run:
        before = run.before.state
        closed_us = before.get(_WATERMARK)
        if before.get(_SILVER) == made.run and all(run.fits(table.name) for table in GOLD):
            run.state |= before
            return GoldRun(watermark=_watermark(closed_us), late=0)
        dedupe = bool(made.state.get(_DEDUPE, 0))
        records = _deduplicated(dispositions, Kind.DISPOSITION, dedupe=dedupe).where("event_ts is not null")
        new = changed_rows.new_since(records, before, made.state).select("event_ts", "landed_ts", "lane", "outcome").cache()
        news = _news(new, closed_us)
        anew = made.state.get(_ANEW, 0) > before.get(_SILVER, -1)
        few = news.rows <= _SLICE and not anew and all(run.fits(table.name) for table in GOLD)
        with settings(spark, _FEW_ROWS if few else {}):
            _count_windows(spark, run, silver_tables, made, closed_us)
            _count_days(spark, run, silver_tables, made, anew=anew)
            landed = changed_rows.landed_until(dispositions, made.state).where("event_ts is not null")
            _count_landed(run, landed, news.landed_us)
        letters = made.tables.get("dead_letter")
        run.state[_LETTERS] = -1 if letters is None else letters.delta
        # A letter's arrival is known only when it lands, perhaps hours later, so the windows of this table never close.
        if not run.fits("dlq_reason") or before.get(_LETTERS) != run.state[_LETTERS]:
            run.write_small("dlq_reason", gold.dlq_reason(silver_tables.read(spark, "dead_letter", made)))
        if news.late or not run.fits("late_data"):
            late = gold.late_data(new.where(_COUNTED)).where(_closed(f.unix_micros(f.col("window")["end"]), closed_us))
            every = run.read(spark, "late_data").unionByName(late)
            run.write_small("late_data", every.groupBy("window", "lane").agg(f.sum("rows").alias("rows")))
        run.state |= changed_rows.lanes_of(before) | changed_rows.lanes_of(made.state) | {_SILVER: made.run}
        if news.watermark_us is not None:
            run.state[_WATERMARK] = news.watermark_us
        new.unpersist()
    return GoldRun(watermark=_watermark(news.watermark_us), late=news.late)


def _watermark(closed_us: int | None) -> datetime | None:
    return None if closed_us is None else _time(closed_us)


def _count_windows(spark: "SparkSession", run: Run, of: TableSet, made: Current, closed_us: int | None) -> None:
    """Write the tables with closing windows: closed windows stay, and the rows since the first open window are counted."""
    since_us = None if closed_us is None else closed_us // _HOUR_US * _HOUR_US  # all windows divide an hour

    def recent(name: str, column: str) -> "DataFrame":
        frame = of.read(spark, name, made)
        return frame.where(f.col(column).isNotNull() if since_us is None else f.col(column) >= _time(since_us))

    ended = recent("message_end", "final_ts").cache()
    windowed = {
        "poison_rate": gold.poison_rate(recent("attempt", "event_ts"), ended),
        "time_to_backout": gold.time_to_backout(ended),
        "delay_accuracy": gold.delay_accuracy(recent("delay", "over_ts")),
    }
    for name, counted in windowed.items():
        _continue(spark, run, name, counted, closed_us)
    _continue(spark, run, "poison_alert", _alerts(spark, run, ended, closed_us), closed_us)
    ended.unpersist()


def _alerts(spark: "SparkSession", run: Run, ended: "DataFrame", closed_us: int | None) -> "DataFrame":
    """Return the alerts in open windows. Most runs have none, and need no query to know it."""
    name, where = "poison_rate", pc.field("exc_class").is_null()
    since = None if closed_us is None else _time(closed_us).date()
    many = run.rows(name, where & (pc.field("poisoned") >= alerts.POISONED_LEAST), since)
    alarms = alerts.alarming(run.rows(name, where & pc.field("queue").isin(many["queue"].unique())), closed_us)
    return (
        alerts.poison_alert(spark.createDataFrame(alarms), ended)
        if alarms.num_rows
        else run.table_set.empty(spark, "poison_alert")
    )


def _continue(spark: "SparkSession", run: Run, name: str, counted: "DataFrame", closed_us: int | None) -> None:
    """Write the closed windows of the old state, and the new counts of all other windows."""
    if closed_us is None:
        run.write_small(name, counted)
        return
    closed = f.unix_micros(f.col("window")["end"]) <= closed_us
    opened = counted.where(~closed)
    if run.fits(name):
        run.replace_windows(name, opened, _time(closed_us))
    else:
        run.write_small(name, run.read(spark, name).where(closed).unionByName(opened))


def _count_days(spark: "SparkSession", run: Run, of: TableSet, made: Current, *, anew: bool) -> None:
    """Write the tables by day: only the days with changed rows are counted again."""
    had = run.before.state.get(_SILVER, -1)
    days = {
        date.fromisoformat(text) if (text := name.removeprefix(_CHANGED)) else None
        for name, number in made.state.items()
        if name.startswith(_CHANGED) and number > had
    }
    counts = {"retry_curve": ("attempt", gold.retry_curve), "redrive": ("redriven_message", gold.redrive)}
    for name, (source, count) in counts.items():
        rows = of.read(spark, source, made)
        if anew or not run.fits(name):
            run.write_small(name, count(rows))
        elif days:
            run.replace_dates(name, count(changed_rows.on_days(rows, "event_ts", days)), days)


def _count_landed(run: Run, landed: "DataFrame", earliest: int | None) -> None:
    """Write the table by time of landing: only the windows since the earliest new row are counted again."""
    name = "pipeline_health"
    if not run.fits(name):
        run.write_small(name, gold.pipeline_health(landed))
        return
    if earliest is None:
        return
    since = _time(earliest // _HOUR_US * _HOUR_US)
    run.replace_windows(name, gold.pipeline_health(landed.where(f.col("landed_ts") >= since)), since)


def _time(micros: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)


def _news(new: "DataFrame", closed_us: int | None) -> _News:
    """Return the facts about these records; `closed_us` is the watermark before them."""
    happened = f.least(f.unix_micros("event_ts"), f.unix_micros("landed_ts"))
    length_us = min(LENGTHS_US.values())  # a short window closes before the long ones
    end = (f.floor(f.unix_micros("event_ts") / length_us) + 1) * length_us
    [found] = new.agg(
        f.count(f.lit(1)).alias("rows"),
        f.max(happened).alias("latest"),
        f.min(f.unix_micros("landed_ts")).alias("landed"),
        f.count_if(f.expr(_COUNTED) & _closed(end, closed_us)).alias("late"),
    ).collect()
    lateness_us = LATENESS // timedelta(microseconds=1)
    watermark_us = closed_us if found["latest"] is None else max(found["latest"] - lateness_us, closed_us or 0)
    return _News(rows=found["rows"], watermark_us=watermark_us, landed_us=found["landed"], late=found["late"])


def _closed(end_us: "Column", closed_us: int | None) -> "Column":
    """Return whether a window with this end is closed at this watermark."""
    return f.lit(False) if closed_us is None else end_us <= closed_us
