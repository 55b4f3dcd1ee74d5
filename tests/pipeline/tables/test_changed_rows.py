"""Incremental silver equals silver made from scratch; `dedupe` counts a row that landed twice once."""

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from mqflow.journal.schemas import Kind
from mqflow.pipeline import jobs
from mqflow.pipeline.schemas import GOLD
from mqflow.pipeline.tables import silver
from mqflow.pipeline.tables.changed_rows import days_of, lanes_of, on_days
from mqflow.pipeline.tables.frames import first_landings
from mqflow.pipeline.tables.medallion import BronzeFrames, run_gold, run_silver
from mqflow.pipeline.tables.table_set import TableSet
from tests.long import LONG, usually
from tests.pipeline.tables import oracle
from tests.pipeline.tables.oracle import Record

pytestmark = pytest.mark.usefixtures("interpreted")


def rows_of(frame: DataFrame) -> Counter[str]:
    return Counter(str(row) for row in frame.toArrow().to_pylist())


ABOUT_MESSAGES = ("attempt", "message", "message_end", "delay", "redriven_message")
OF_QUEUES = ("dead_letter", "backout_message", "payload")


def silver_of(spark: SparkSession, tables: TableSet, names: Sequence[str] = ABOUT_MESSAGES) -> dict[str, Counter[str]]:
    return {name: rows_of(tables.read(spark, name)) for name in names}


def dealt(rows: Sequence[Record], runs: int, seed: int) -> list[list[Record]]:
    """Deal the records to this many runs, in two lanes: those of one message to any run, in any order."""
    random = Random(seed)  # noqa: S311 - invented data
    hands: list[list[Record]] = [[] for _ in range(runs)]
    for row in rows:
        run = random.choice([0, 0, *range(runs)])
        hands[run].append(row | {"lane": random.choice("AB"), "segment": run + 1})
    return hands


def test_going_on_is_making_again_whatever_came_in_whichever_run(spark: SparkSession, tmp_path: Path) -> None:
    hands = dealt(oracle.records(120, seed=2), usually(2, long=3), seed=2)
    gone_on, anew = TableSet(tmp_path / "on"), TableSet(tmp_path / "anew")

    landed: list[Record] = []
    for hand in hands:
        landed += hand
        run_silver(spark, gone_on, BronzeFrames(dispositions=oracle.frame(spark, landed)))
    run_silver(spark, anew, BronzeFrames(dispositions=oracle.frame(spark, landed)))

    assert silver_of(spark, anew) == silver_of(spark, gone_on)


def test_a_run_finds_the_new_rows_of_a_folder_by_the_log_of_the_version_that_it_reads(
    spark: SparkSession, tmp_path: Path
) -> None:
    gone_on, anew = jobs.table_set(tmp_path, "silver"), TableSet(tmp_path / "anew")
    bronze = tmp_path / "bronze" / "disposition"
    hands = dealt(oracle.records(60, seed=4), 2, seed=4)
    for hand in hands:
        write_deltalake(bronze, oracle.arrow(hand), mode="append", partition_by=["lane"])
        jobs.silver(spark, tmp_path)
    # A later version has one more segment.
    write_deltalake(bronze, oracle.arrow([hands[0][0] | {"segment": 9}]), mode="append")

    read = jobs.bronze_table(spark, tmp_path, Kind.DISPOSITION, version=1)
    run_silver(spark, anew, BronzeFrames(dispositions=read))

    assert silver_of(spark, anew) == silver_of(spark, gone_on)
    assert {"lane:A": 2, "lane:B": 2} == lanes_of(anew.current().state) == lanes_of(gone_on.current().state)
    assert gone_on.current().state["made_anew"] < gone_on.current().run


def test_a_run_without_new_rows_runs_no_query(spark: SparkSession, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "bronze" / "disposition", oracle.arrow(oracle.records(9)), partition_by=["lane"])

    for run in ("first", "second"):
        spark.sparkContext.setJobGroup(f"silver: {run}", run)
        jobs.silver(spark, tmp_path)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None clears it

    queries = spark.sparkContext.statusTracker()
    assert queries.getJobIdsForGroup("silver: first")
    assert [] == queries.getJobIdsForGroup("silver: second")


def test_gold_that_goes_on_is_gold_made_at_once_if_nothing_comes_late(spark: SparkSession, tmp_path: Path) -> None:
    """Records in the order of their events: no window closes before its last record, so every count must be equal."""
    rows = oracle.records(150, seed=3, minutes=180)
    cuts = [oracle.START_US + minutes * oracle.MINUTE_US for minutes in (70, 110, 200)[-usually(2, long=3) :]]
    landed = [
        row | {"lane": "AB"[at % 2], "segment": sum(row["event_ts"] >= cut for cut in cuts)} for at, row in enumerate(rows)
    ]
    gone_on, anew = [(TableSet(tmp_path / name / "silver"), TableSet(tmp_path / name / "gold")) for name in ("on", "anew")]

    late = 0
    for run in range(len(cuts)):
        have = oracle.frame(spark, [row for row in landed if row["segment"] <= run])
        run_silver(spark, gone_on[0], BronzeFrames(dispositions=have))
        late += run_gold(spark, gone_on[1], gone_on[0], have).late
    every = oracle.frame(spark, landed)
    run_silver(spark, anew[0], BronzeFrames(dispositions=every))
    run_gold(spark, anew[1], anew[0], every)

    names = [table.name for table in GOLD]
    assert silver_of(spark, anew[1], names) == silver_of(spark, gone_on[1], names)
    assert 0 == late
    assert 0 < gone_on[1].read(spark, "poison_rate").count()
    again = gone_on[1].current()
    run_silver(spark, gone_on[0], BronzeFrames(dispositions=every))
    run_gold(spark, gone_on[1], gone_on[0], every)
    assert again == gone_on[1].current(), "nothing is new, so nothing is written"


@LONG
def test_messages_of_queues_that_go_on_are_those_made_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Equal data lands in different runs, in any order; the end of a backed-out message lands before or after it."""
    random = Random(5)  # noqa: S311 - invented data
    told = oracle.records(60, seed=5)
    runs = range(3)

    def some(of: dict[str, Any], number: int) -> list[dict[str, Any]]:
        return [
            of
            | {
                "msg_id": random.randrange(60).to_bytes(24), "put_ts": oracle.START_US + at, "lane": of["lane"],
                "segment": random.choice(runs), "ordinal": at, "landed_ts": oracle.START_US + random.randrange(10**12),
                "body_sha256": random.choice([None, b"1", b"2", b"%d" % at]), "body_truncated": False, "qmgr": "QM1",
            }
            for at in range(number)
        ]  # fmt: skip

    moved = [row for row in told if row["outcome"] == "backed_out"]
    kinds = {
        Kind.DEAD_LETTER: [
            row | {"dlh_put_ts": random.randrange(9), "dlh_dest_q": random.choice("XY")}
            for row in some({"dlq": "DLQ", "lane": "D", "has_dlh": True, "dlh_reason": 2053}, 40)
        ],
        Kind.BACKOUT_MESSAGE: [
            row | {"msg_id": end["msg_id"], "put_ts": end["put_ts"]}
            for end, row in zip(moved, some({"boq": "BOQ", "lane": "B"}, len(moved)), strict=True)
        ],
        Kind.PAYLOAD: some({"queue": "Q", "lane": "P"}, 40),
    }
    told = [row | {"segment": random.choice(runs)} for row in told]

    def bronze(until: int) -> BronzeFrames:
        frames = [oracle.frame(spark, [row for row in rows if row["segment"] <= until], kind) for kind, rows in kinds.items()]
        had = oracle.frame(spark, [row for row in told if row["segment"] <= until])
        return BronzeFrames(dispositions=had, letters=frames[0], backed_out=frames[1], payloads=frames[2])

    gone_on, anew = TableSet(tmp_path / "on"), TableSet(tmp_path / "anew")
    for run in runs:
        run_silver(spark, gone_on, bronze(run), payload="hash")
    run_silver(spark, anew, bronze(2), payload="hash")

    found = silver_of(spark, gone_on, OF_QUEUES)
    assert silver_of(spark, anew, OF_QUEUES) == found
    assert all(found.values())
    assert 5 < gone_on.read(spark, "backout_message").where("handler is not null").count()
    assert 5 < gone_on.read(spark, "payload").where("duplicate_of is not null").count()


def test_rows_on_days_are_found_up_to_the_ends_of_the_calendar(spark: SparkSession) -> None:
    times = ["0001-01-01 00:00:00", "2026-01-01 23:59:59.999999", "2026-01-02 00:00:00", "9999-12-31 23:59:59.999999", None]
    frame = spark.createDataFrame([(text,) for text in times], "at string").selectExpr("at", "cast(at as timestamp) as ts")
    days = {date(1, 1, 1), date(2026, 1, 1), date(9999, 12, 31), None}

    assert days | {date(2026, 1, 2)} == days_of(frame, "ts")
    found = [row["at"] for row in on_days(frame, "ts", days).select("at").collect()]

    assert [times[0], times[1], times[3], None] == found


def test_duckdb_and_polars_read_silver_and_gold(spark: SparkSession, tmp_path: Path) -> None:
    rows = oracle.records(80)
    silver_tables, tables = TableSet(tmp_path / "silver"), TableSet(tmp_path / "gold")
    landed = oracle.frame(spark, rows)
    run_silver(spark, silver_tables, BronzeFrames(dispositions=landed))
    run_gold(spark, tables, silver_tables, landed)

    messages = DeltaTable(silver_tables.uri_of("message")).to_pyarrow_dataset()
    by_duckdb = duckdb.from_arrow(messages).aggregate("final_outcome, count(*)", "final_outcome").fetchall()
    rates = pl.read_delta(tables.uri_of("poison_rate")).filter(pl.col("exc_class").is_null())
    by_polars = rates.filter(pl.col("window").struct["end"] - pl.col("window").struct["start"] == timedelta(hours=1))

    assert Counter(one["final_outcome"] for one in oracle.messages(rows).values()) == Counter(dict(by_duckdb))
    expected = [found for at, found in oracle.poison_rate(rows, "1 hour").items() if at[3] is None]
    assert Counter(expected) == Counter(by_polars.select("deliveries", "messages", "rolled_back", "poisoned").rows())


def test_a_run_makes_only_messages_again_that_something_new_is_about(spark: SparkSession, tmp_path: Path) -> None:
    """Rows from records that are gone from bronze: their messages stay unchanged until a run makes silver whole."""
    first = [oracle._record("committed", at, **of(b"%d" % at), backout_count=0, get_ts=at, done_ts=at) for at in (1, 2)]
    second = [oracle._record("committed", 3, **of(b"3"), backout_count=0, get_ts=3, done_ts=3, segment=2)]
    tables = TableSet(tmp_path / "silver")

    run_silver(spark, tables, BronzeFrames(dispositions=oracle.frame(spark, first)))
    run_silver(spark, tables, BronzeFrames(dispositions=oracle.frame(spark, first[:1] + second)))
    kept = tables.read(spark, "message").count()
    run_silver(spark, tables, BronzeFrames(dispositions=oracle.frame(spark, first[:1] + second)), whole=True)

    assert (3, 2) == (kept, tables.read(spark, "message").count())


def of(msg_id: bytes) -> dict[str, Any]:
    return {"queue": "Q", "handler": "h", "msg_id": msg_id, "put_ts": 1, "bothresh": 3}


def test_a_bronze_that_was_made_again_makes_silver_again(spark: SparkSession, tmp_path: Path) -> None:
    row = oracle._record("committed", 1, **of(b"1"), backout_count=0, get_ts=1, done_ts=1)
    other = oracle._record("committed", 2, **of(b"2"), backout_count=0, get_ts=2, done_ts=2)
    tables = TableSet(tmp_path / "silver")

    run_silver(spark, tables, BronzeFrames(dispositions=oracle.frame(spark, [row | {"segment": 7}])))
    run_silver(spark, tables, BronzeFrames(dispositions=oracle.frame(spark, [other])))

    assert [b"2"] == [bytes(found["msg_id"]) for found in tables.read(spark, "message").collect()]


def test_a_message_that_was_landed_twice_counts_once_if_the_user_asks_for_that(spark: SparkSession, tmp_path: Path) -> None:
    rows = oracle.records(80)
    again = [row | {"segment": 2, "landed_ts": row["landed_ts"] + 1} for row in rows[10:60]]
    deduped = TableSet(tmp_path / "deduped")
    clean, both = oracle.frame(spark, rows), oracle.frame(spark, rows + again)

    run_silver(spark, deduped, BronzeFrames(dispositions=both), dedupe=True)

    attempts = rows_of(silver.attempts(silver.lives(clean)))
    assert attempts == silver_of(spark, deduped)["attempt"]
    assert attempts != rows_of(silver.attempts(silver.lives(both)))
    gold = TableSet(tmp_path / "gold")
    run_gold(spark, gold, deduped, both)
    redriven = sum(row["redriven"] for row in gold.read(spark, "redrive").collect())
    assert silver.redrives(silver.lives(clean)).count() == redriven


def test_of_one_record_the_first_landed_stays(spark: SparkSession) -> None:
    row = oracle._record("committed", 1, **of(b"1"), backout_count=0)
    twice = [row | {"segment": 2, "landed_ts": 9}, row | {"segment": 5, "landed_ts": 8}]
    raw = [row | {"disp_id": None, "qmgr": None, "raw": text} for text in (b"x", b"y")]

    found = first_landings(oracle.frame(spark, twice + raw), Kind.DISPOSITION).collect()

    assert [(5, None), (1, b"x"), (1, b"y")] == sorted(
        ((each["segment"], each["raw"] and bytes(each["raw"])) for each in found), key=lambda one: one[1] or b""
    )
