"""Incremental silver equals silver made from scratch; `dedupe` counts a row that landed twice once."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mqflow.journal.schemas import Kind
from mqflow.pipeline.tables import silver
from mqflow.pipeline.tables.folder import TableSet
from mqflow.pipeline.tables.frames import first_landings
from mqflow.pipeline.tables.medallion import BronzeFrames, run_gold, run_silver
from tests.pipeline.tables import oracle
from tests.pipeline.tables.oracle import Record

pytestmark = pytest.mark.usefixtures("interpreted")


def made(path: Path) -> TableSet:
    return TableSet(path)


def rows_of(frame: DataFrame) -> Counter[str]:
    return Counter(str(row) for row in frame.toArrow().to_pylist())


def silver_of(spark: SparkSession, tables: TableSet) -> dict[str, Counter[str]]:
    return {name: rows_of(tables.read(spark, name)) for name in ("attempt", "message")}


def dealt(rows: Sequence[Record], runs: int, seed: int) -> list[list[Record]]:
    """Deal the records to this many runs, in two lanes: those of one message to any run, in any order."""
    random = Random(seed)  # noqa: S311 - invented data
    hands: list[list[Record]] = [[] for _ in range(runs)]
    for row in rows:
        run = random.choice([0, 0, *range(runs)])
        hands[run].append(row | {"lane": random.choice("AB"), "segment": run + 1})
    return hands


def test_going_on_is_making_anew_whatever_came_in_whichever_run(spark: SparkSession, tmp_path: Path) -> None:
    hands = dealt(oracle.records(120, seed=2), 3, seed=2)
    gone_on, anew = made(tmp_path / "on"), made(tmp_path / "anew")

    landed: list[Record] = []
    for hand in hands:
        landed += hand
        run_silver(spark, gone_on, BronzeFrames(dispositions=oracle.frame(spark, landed)))
    run_silver(spark, anew, BronzeFrames(dispositions=oracle.frame(spark, landed)))

    assert silver_of(spark, anew) == silver_of(spark, gone_on)


def test_a_run_makes_only_messages_anew_that_something_new_is_about(spark: SparkSession, tmp_path: Path) -> None:
    """Rows from records that are gone from bronze: their messages stay unchanged until a run makes silver whole."""
    first = [oracle._record("committed", at, **of(b"%d" % at), backout_count=0, get_ts=at, done_ts=at) for at in (1, 2)]
    second = [oracle._record("committed", 3, **of(b"3"), backout_count=0, get_ts=3, done_ts=3, segment=2)]
    tables = made(tmp_path / "silver")

    run_silver(spark, tables, BronzeFrames(dispositions=oracle.frame(spark, first)))
    run_silver(spark, tables, BronzeFrames(dispositions=oracle.frame(spark, first[:1] + second)))
    kept = tables.read(spark, "message").count()
    run_silver(spark, tables, BronzeFrames(dispositions=oracle.frame(spark, first[:1] + second)), whole=True)

    assert (3, 2) == (kept, tables.read(spark, "message").count())


def of(msg_id: bytes) -> dict[str, Any]:
    return {"queue": "Q", "handler": "h", "msg_id": msg_id, "put_ts": 1, "bothresh": 3}


def test_a_bronze_that_was_made_again_makes_silver_anew(spark: SparkSession, tmp_path: Path) -> None:
    row = oracle._record("committed", 1, **of(b"1"), backout_count=0, get_ts=1, done_ts=1)
    other = oracle._record("committed", 2, **of(b"2"), backout_count=0, get_ts=2, done_ts=2)
    tables = made(tmp_path / "silver")

    run_silver(spark, tables, BronzeFrames(dispositions=oracle.frame(spark, [row | {"segment": 7}])))
    run_silver(spark, tables, BronzeFrames(dispositions=oracle.frame(spark, [other])))

    assert [b"2"] == [bytes(found["msg_id"]) for found in tables.read(spark, "message").collect()]


def test_what_was_landed_twice_counts_once_where_that_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    rows = oracle.records(80)
    again = [row | {"segment": 2, "landed_ts": row["landed_ts"] + 1} for row in rows[10:60]]
    deduped = made(tmp_path / "deduped")
    clean, both = oracle.frame(spark, rows), oracle.frame(spark, rows + again)

    run_silver(spark, deduped, BronzeFrames(dispositions=both), dedupe=True)

    attempts = rows_of(silver.attempts(clean))
    assert attempts == silver_of(spark, deduped)["attempt"]
    assert attempts != rows_of(silver.attempts(both))
    gold = made(tmp_path / "gold")
    run_gold(spark, gold, deduped, both)
    redriven = sum(row["redriven"] for row in gold.read(spark, "redrive").collect())
    assert silver.redrives(clean).count() == redriven


def test_of_one_record_the_first_landed_stays(spark: SparkSession) -> None:
    row = oracle._record("committed", 1, **of(b"1"), backout_count=0)
    twice = [row | {"segment": 2, "landed_ts": 9}, row | {"segment": 5, "landed_ts": 8}]
    raw = [row | {"disp_id": None, "qmgr": None, "raw": text} for text in (b"x", b"y")]

    found = first_landings(oracle.frame(spark, twice + raw), Kind.DISPOSITION).collect()

    assert [(5, None), (1, b"x"), (1, b"y")] == sorted(
        ((each["segment"], each["raw"] and bytes(each["raw"])) for each in found), key=lambda one: one[1] or b""
    )
