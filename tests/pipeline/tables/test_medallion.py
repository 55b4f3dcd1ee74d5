"""Silver and gold equal counts in plain Python over the same records; closed windows stay, and late rows are counted."""

from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mqflow.pipeline.schemas import TABLES, WINDOWS, Table
from mqflow.pipeline.tables import gold, medallion, silver
from mqflow.pipeline.tables.medallion import BronzeFrames, run_gold, run_silver
from mqflow.pipeline.tables.table_set import TableSet, TableVersionError
from tests.pipeline.tables import oracle

START, MINUTE = oracle.START_US, oracle.MINUTE_US


pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture(scope="module")
def rows() -> list[oracle.Record]:
    return oracle.records(400)


@pytest.fixture(scope="module")
def records(spark: SparkSession, rows: list[oracle.Record]) -> DataFrame:
    return silver.lives(oracle.frame(spark, rows)).cache()


@pytest.fixture(scope="module")
def attempted(records: DataFrame) -> DataFrame:
    return silver.attempts(records).cache()


@pytest.fixture(scope="module")
def told(records: DataFrame, attempted: DataFrame) -> DataFrame:
    return silver.messages(records, attempted).cache()


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows, with times in microseconds since 1970, and windows by their beginning."""
    micros = [
        f.unix_micros(f.col("window")["start"]).alias(name)
        if name == "window"
        else f.unix_micros(name).alias(name)
        if kind == "timestamp"
        else f.col(name)
        for name, kind in frame.dtypes
    ]
    found = [row.asDict() for row in frame.select(*micros).collect()]
    return [{name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.items()} for row in found]


def test_attempts_are_those_that_plain_python_finds(attempted: DataFrame, rows: list[oracle.Record]) -> None:
    expected = oracle.attempts(rows)

    found = collected(attempted)

    names = [name for name in expected[0] if name != "key"]
    assert Counter((one["key"], *(one[name] for name in names)) for one in expected) == Counter(
        (oracle.key_of(row), *(row[name] for name in names)) for row in found
    )
    assert {True, False} == {row["observed"] for row in found}
    assert {0, 1} == {row["life"] for row in found}


MOST = 2**31 - 1


def test_more_attempts_than_anybody_wants_rows_of_are_one_row_that_says_how_many(spark: SparkSession) -> None:
    """BackoutCount is four bytes that any program can write into a record: 2**31 - 1 would fill the disk, or overflow."""
    limit = silver.UNOBSERVED_MAX
    counts = {b"forged": [MOST], b"looped": [2, limit + 4], b"just": [limit], b"odd": [-7]}
    landed = oracle.frame(
        spark,
        [
            oracle._record(
                "committed" if count == told[-1] else "rolled_back", START + at, queue="Q", handler="h", msg_id=name,
                put_ts=START, get_ts=START, done_ts=START, backout_count=count,
            )
            for name, told in counts.items()
            for at, count in enumerate(told)
        ],
    )  # fmt: skip

    records = silver.lives(landed)
    attempted = silver.attempts(records).cache()

    found: dict[bytes, list[tuple[int, int, bool]]] = defaultdict(list)
    for row in attempted.orderBy("attempt_no").collect():
        found[bytes(row["msg_id"])].append((row["attempt_no"], row["attempts"], row["observed"]))
    assert {
        b"forged": [(MOST - 1, MOST - 1, False), (MOST, 1, True)],
        b"looped": [(1, 1, False), (2, 1, False), (3, 1, True), (limit + 4, limit + 1, False), (limit + 5, 1, True)],
        b"just": [*((number, 1, False) for number in range(1, limit + 1)), (limit + 1, 1, True)],
        b"odd": [(-6, 1, True)],
    } == found
    numbers = {b"forged": MOST, b"looped": limit + 5, b"just": limit + 1, b"odd": 1}
    messages = silver.messages(records, attempted).collect()
    assert len(messages) == len(numbers)
    assert numbers == {bytes(row["msg_id"]): row["attempts"] for row in messages}
    [rate] = gold.poison_rate(attempted, silver.ends(records), ["5 minutes"]).where("exc_class is null").collect()
    assert (sum(numbers.values()), sum(numbers.values()) - 4) == (rate["deliveries"], rate["rolled_back"])
    assert {1} == {row["entered"] for row in gold.retry_curve(attempted).where("attempt_no > 3").collect()}
    attempted.unpersist()


def test_messages_are_those_that_plain_python_finds(told: DataFrame, rows: list[oracle.Record]) -> None:
    expected = oracle.messages(rows)

    every = collected(told)
    found = {oracle.key_of(row): row for row in every}

    assert len(every) == len(expected)
    assert expected.keys() == found.keys()
    names = next(iter(expected.values())).keys()
    assert expected == {key: {name: row[name] for name in names} for key, row in found.items()}
    assert {0, 1} == {row["redrives"] for row in found.values()}


@pytest.mark.parametrize("size", WINDOWS)
def test_poison_rates_are_those_of_plain_python(
    size: str, attempted: DataFrame, records: DataFrame, rows: list[oracle.Record]
) -> None:
    found = collected(gold.poison_rate(attempted, silver.ends(records), [size]))

    expected = oracle.poison_rate(rows, size)
    assert len(found) == len(expected)
    assert expected == {
        (row["window"], row["queue"], row["handler"], row["exc_class"]): (
            row["deliveries"], row["messages"], row["rolled_back"], row["poisoned"],
        )
        for row in found
    }  # fmt: skip
    assert all(row["poison_rate"] == row["poisoned"] / row["messages"] for row in found)
    assert all(row["retry_amplification"] == row["deliveries"] / row["messages"] for row in found)


def test_the_other_counts_are_those_of_plain_python(
    attempted: DataFrame, told: DataFrame, records: DataFrame, rows: list[oracle.Record]
) -> None:
    messages = oracle.messages(rows)
    curve: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for one in oracle.attempts(rows):
        curve[one["key"][1], one["attempt_no"]][0] += 1
        curve[one["key"][1], one["attempt_no"]][1] += one["outcome"] == "committed"
    hour = oracle.SIZES_US["1 hour"]
    times, delays = defaultdict(list), defaultdict(list)
    for one in oracle.ends(rows):
        if one["final_outcome"] in oracle.POISON:
            times[one["final_ts"] // hour * hour, one["key"][1]].append(one["time_to_final_ms"])
    for queue, over, error in oracle.delays(rows):
        delays[over // hour * hour, queue].append(error)
    redriven = Counter((key[1], one["redrive_outcome"]) for key, one in messages.items() if one["redrives"])

    backouts = collected(gold.time_to_backout(silver.ends(records), ["1 hour"]))
    late = collected(gold.delay_accuracy(silver.delays(records), ["1 hour"]))
    again = collected(gold.redrive(silver.redrives(records)))

    found = collected(gold.retry_curve(attempted))
    assert [len(curve), len(times), len(delays)] == [len(found), len(backouts), len(late)]
    assert curve == {(row["queue"], row["attempt_no"]): [row["entered"], row["succeeded"]] for row in found}
    assert {
        at: (len(all_), *(oracle.rank(all_, share) for share in (0.5, 0.95, 0.99)), max(all_)) for at, all_ in times.items()
    } == {
        (row["window"], row["queue"]): tuple(row[n] for n in ("n", "p50_ms", "p95_ms", "p99_ms", "max_ms")) for row in backouts
    }
    assert {
        at: (len(all_), sum(one < 0 for one in all_), oracle.rank(all_, 0.5), oracle.rank(all_, 0.99), max(all_))
        for at, all_ in delays.items()
    } == {
        (row["window"], row["queue"]): tuple(row[n] for n in ("n", "early", "p50_error_ms", "p99_error_ms", "max_error_ms"))
        for row in late
    }
    assert redriven == Counter({
        (row["queue"], outcome): row[name]
        for row in again
        for name, outcome in (("succeeded", "committed"), ("poisoned_again", "backed_out"), ("dead_lettered", "dead_lettered"))
        if row[name]
    })  # fmt: skip


def test_a_letter_is_counted_from_its_coming_to_its_going(spark: SparkSession) -> None:
    # The last letter left a minute before it arrived: two clocks.
    minutes = [(0, 7, None), (1, 12, None), (6, 30, None), (8, 9, "browsed"), (40, 39, None)]
    data = [
        ("QM1", "DLQ", 2053, "A", "web", True, START + came * MINUTE, START + went * MINUTE, look)
        for came, went, look in minutes
    ]
    names = "qmgr string, dlq string, dlh_reason int, dlh_dest_q string, put_appl_name string, has_dlh boolean"
    letters = spark.createDataFrame(data, f"{names}, came long, went long, snapshot_id string").withColumns(
        {"dlh_put_ts": f.timestamp_micros("came"), "landed_ts": f.timestamp_micros("went")}
    )

    found = collected(gold.dlq_reason(letters, ["5 minutes"]).orderBy("window"))

    assert [
        (0, 2, 0, 2, 300),  # two came
        (5, 2, 1, 3, 540),  # one of them left; the oldest of the others came at minute 1
        (10, 0, 1, 2, 540),
        (30, 0, 1, 1, 1620),  # the browsed letter is still there
        (40, 1, 1, 1, 2220),
    ] == [((r["window"] - START) // MINUTE, r["arrived"], r["removed"], r["depth_end"], r["oldest_s"]) for r in found]


def test_closed_windows_stay_and_late_rows_are_counted(spark: SparkSession, tmp_path: Path, rows: list[oracle.Record]) -> None:
    """Two runs, the second with old rows: closed windows have the first batch only, open windows have both."""
    half = START + 45 * MINUTE
    late = [row | {"segment": 2} for row in rows if row["event_ts"] < START + 10 * MINUTE][:7]
    gone = {row["disp_id"] for row in late}
    first = [row for row in rows if row["event_ts"] < half and row["disp_id"] not in gone]
    second = late + [row | {"segment": 2} for row in rows if row["event_ts"] >= half]
    silver_tables, tables = TableSet(tmp_path / "silver"), TableSet(tmp_path / "gold")

    every = oracle.frame(spark, first + second)
    for made_of in (oracle.frame(spark, first), every):
        run_silver(spark, silver_tables, BronzeFrames(dispositions=made_of))
        # Bronze has more records than silver in the first run: a window closed without its attempts would stay so.
        ran = run_gold(spark, tables, silver_tables, every)

    counts = sum(row["outcome"] != "heartbeat" for row in late)  # no table counts heartbeats, so none is late
    assert 0 < counts < len(late)
    assert counts == ran.late
    counted = collected(tables.read(spark, "late_data"))
    assert counts == sum(row["rows"] for row in counted)  # the hour was open
    rates = [row for row in collected(tables.read(spark, "poison_rate")) if row["exc_class"] is None]
    watermark = max(row["event_ts"] for row in first) - 10 * MINUTE
    closed = {at: n for at, n in oracle.poison_rate(first, "5 minutes").items() if at[0] + 5 * MINUTE <= watermark}
    opened = {at: n for at, n in oracle.poison_rate(first + second, "5 minutes").items() if at[0] + 5 * MINUTE > watermark}
    expected = Counter((at[0], at[1], *n) for at, n in (closed | opened).items() if at[3] is None)
    found = Counter((r["window"], r["queue"], r["deliveries"], r["messages"], r["rolled_back"], r["poisoned"]) for r in rates)
    hours = oracle.poison_rate(first + second, "1 hour")  # none of which was closed by the first run
    assert expected + Counter((at[0], at[1], *n) for at, n in hours.items() if at[3] is None) == found
    assert closed


def test_how_far_landing_is_behind_and_what_was_landed_twice_is_counted(spark: SparkSession) -> None:
    told = [(0, 1, 0, 30), (1, 1, 1, 5), (1, 1, 1, 5), (2, 2, 0, 90), (7, 3, 0, 1)]
    records = [
        oracle._record("committed", START + at * MINUTE, queue="Q", msg_id=bytes(24), handler="h")
        | {"landed_ts": START + at * MINUTE + late_s * 1_000_000, "segment": segment, "ordinal": ordinal, "lane": "L"}
        for at, segment, ordinal, late_s in told
    ]

    found = collected(gold.pipeline_health(oracle.frame(spark, records), ["5 minutes"]).orderBy("window"))

    assert [(START, 4, 90.0, 2, 1), (START + 5 * MINUTE, 1, 1.0, 1, 0)] == [
        tuple(row[name] for name in ("window", "landed_rows", "journal_lag_s", "segments", "replays_skipped")) for row in found
    ]


def test_a_clock_that_is_ahead_closes_no_window(spark: SparkSession) -> None:
    """No event is later than its landing: otherwise one record of the year 2300 would close all windows for ever."""
    now = oracle._record("committed", START + MINUTE, queue="Q", msg_id=bytes(24), handler="h")
    ahead = now | {"event_ts": START + 10**7 * MINUTE, "landed_ts": START + 2 * MINUTE}

    assert START - 8 * MINUTE == medallion._news(oracle.frame(spark, [now, ahead]), None).watermark_us


def test_a_heartbeat_closes_the_windows_of_an_idle_queue(spark: SparkSession) -> None:
    """Without heartbeats the last windows of a run would never close (facts, section 5)."""
    last = oracle._record("committed", START + MINUTE, queue="Q", msg_id=bytes(24), handler="h")
    beat = oracle._record("heartbeat", START + 30 * MINUTE, queue="Q", msg_id=None, handler="h")

    assert START - 9 * MINUTE == medallion._news(oracle.frame(spark, [last]), None).watermark_us
    assert START + 20 * MINUTE == medallion._news(oracle.frame(spark, [last, beat]), None).watermark_us


def test_the_row_of_a_message_after_a_redrive_describes_that_redrive(spark: SparkSession) -> None:
    of = {"queue": "Q", "handler": "h", "msg_id": bytes(24), "put_ts": START}
    at = [START + number * MINUTE for number in range(6)]
    told = [
        oracle._record("dead_lettered", at[0], **of, get_ts=at[0], done_ts=at[0], backout_count=0),
        oracle._record("redriven", at[1], **of | {"handler": None}, redrive_id="R1"),
        oracle._record("dead_lettered", at[2], **of, get_ts=at[2] - 2_000, done_ts=at[2], backout_count=0),
        oracle._record("redriven", at[3], **of | {"handler": None}, redrive_id="R2"),
        oracle._record("committed", at[4], **of, get_ts=at[4] - 1_000, done_ts=at[4], backout_count=0),
        oracle._record("redriven", at[5], **of | {"msg_id": b"x" * 24}, redrive_id="R2"),
    ]

    found = (
        silver.redrives(silver.lives(oracle.frame(spark, told))).select("msg_id", "redrive_id", "outcome", "took_ms").collect()
    )

    assert [(bytes(24), "R1", "dead_lettered", 2), (bytes(24), "R2", "committed", 1), (b"x" * 24, "R2", None, None)] == sorted(
        ((bytes(row[0]), *row[1:]) for row in found), key=lambda row: row[:2]
    )


def test_an_alert_names_the_message_that_began_it(spark: SparkSession, tmp_path: Path) -> None:
    """The second run has the incident, and a part of the history is from the run before."""
    made = []
    for number in range(600):
        at = START + number * MINUTE // 10
        poison = number % 50 == 0 or (400 <= number < 450 and number % 3 == 0)
        more = {"queue": "Q", "handler": "h", "msg_id": number.to_bytes(24), "put_ts": at, "bothresh": 1}
        more["segment"] = 1 if number < 380 else 2
        outcome, error = ("dead_lettered", "ValueError") if poison else ("committed", None)
        made.append(oracle._record(outcome, at, **more, get_ts=at, done_ts=at, backout_count=0, exc_class=error))
    silver_tables, tables = TableSet(tmp_path / "silver"), TableSet(tmp_path / "gold")

    for run in (1, 2):
        landed = oracle.frame(spark, [row for row in made if row["segment"] <= run])
        run_silver(spark, silver_tables, BronzeFrames(dispositions=landed))
        run_gold(spark, tables, silver_tables, landed)

    [alert] = collected(tables.read(spark, "poison_alert").where("window.end - window.start = interval 5 minutes"))
    assert (START + 40 * MINUTE, 50, 17 + 1 - 1) == (alert["window"], alert["messages"], alert["poisoned"])
    assert 400 == int.from_bytes(alert["first_msg_id"])
    assert (400, 8 / 400) == (alert["history_messages"], alert["expected_rate"])


def test_every_table_has_exactly_its_columns(spark: SparkSession, tmp_path: Path, records: DataFrame) -> None:
    made: dict[str, DataFrame] = {
        "attempt": silver.attempts(records),
        "message": silver.messages(records, silver.attempts(records)),
    }
    for name, frame in made.items():
        assert TABLES[name].columns == tuple(frame.columns)
    for table in TABLES.values():
        assert table.columns == tuple(spark.createDataFrame([], table.ddl).columns)


OLD = Table(name="late_data", row="", dated="at", ddl="at timestamp, lane string, rows bigint")
NEW = replace(OLD, version=2, ddl=f"{OLD.ddl}, why string")


AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_columns_that_an_older_version_lacks_are_null(spark: SparkSession, tmp_path: Path) -> None:
    with TableSet(tmp_path, {"late_data": OLD}).next() as run:
        run.write("late_data", spark.createDataFrame([(AT, "A", 3)], OLD.ddl))

    found = TableSet(tmp_path, {"late_data": NEW}).read(spark, "late_data")

    assert [(AT, "A", 3, None)] == [(row["at"].astimezone(UTC), *row[1:]) for row in found.collect()]


@pytest.mark.parametrize("write", ["write", "write_small"])
def test_a_run_makes_an_older_table_again_with_the_new_columns(spark: SparkSession, tmp_path: Path, write: str) -> None:
    with TableSet(tmp_path, {"late_data": OLD}).next() as run:
        run.write("late_data", spark.createDataFrame([(AT, "A", 3)], OLD.ddl))
    newer = TableSet(tmp_path, {"late_data": NEW})

    with newer.next() as run:
        fits = run.fits("late_data")
        getattr(run, write)("late_data", newer.read(spark, "late_data").withColumn("why", f.lit("not told")))

    assert not fits
    assert [("A", 3, "not told")] == [tuple(row)[1:] for row in newer.read(spark, "late_data").collect()]
    assert [("A", 3, None)] == [tuple(row)[1:] for row in newer.as_of(1).read(spark, "late_data").collect()]


def test_a_table_of_a_newer_version_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with TableSet(tmp_path, {"late_data": NEW}).next() as run:
        run.write("late_data", spark.createDataFrame([(AT, "A", 3, "")], NEW.ddl))

    with pytest.raises(TableVersionError, match="is of version 2; this mqflow knows versions up to 1"):
        TableSet(tmp_path, {"late_data": OLD}).read(spark, "late_data")


def test_a_writer_that_fails_leaves_the_tables_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    tables = TableSet(tmp_path, {"late_data": OLD})
    with tables.next() as run:
        run.write("late_data", spark.createDataFrame([(AT, "A", 3)], OLD.ddl))

    def failing() -> None:
        with tables.next() as run:
            run.write("late_data", spark.createDataFrame([(AT, "A", 4)], OLD.ddl))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()

    assert [3] == [row["rows"] for row in tables.read(spark, "late_data").collect()]
    assert 1 == tables.current().run
