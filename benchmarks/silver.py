"""`python -m benchmarks.silver`: the time of silver and gold for new records, as a share of a run over all records.

One warm Spark session makes the tables from 99 % of the records, and then adds the last 1 %. The records describe messages that
are spread evenly over 30 days. One message in twenty fails and is delivered three times, and half of the failed messages are
backed out. With `--late`, this share of the new records is about old messages of any day. The time includes no start of Spark.
`--write` writes the figures into docs/performance.md. The goal is for ten million records.
"""

import argparse
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from benchmarks.page import PAGE, replaced_between
from benchmarks.samples import Sample
from benchmarks.spark_processes import metered
from mqflow.journal.schemas import Kind, columns_of
from mqflow.pipeline import jobs, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ("main",)

BEGIN: Final = "<!-- silver: begin (python -m benchmarks.silver --write writes what stands between these two lines) -->"
END: Final = "<!-- silver: end -->"
_DAYS: Final = 30
_START_S: Final = 1_767_225_600
_SEGMENT_ROWS: Final = 20_000
_NEW: Final = 0.01


def main(arguments: list[str]) -> int:
    """Measure once, and print the times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.silver", description=__doc__)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=1_000_000, help="records in all (1,000,000)")
    parser.add_argument("--late", type=float, default=0.0, help="share of the new records about old messages (0)")
    parser.add_argument("--memory", default="3g", help="memory of the JVM (3g)")
    parser.add_argument("--write", action="store_true", help="write the figures into the page")
    given = parser.parse_args(arguments)
    spark = spark_session("silver", master="local[2]", config={"spark.driver.memory": given.memory})
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="mqflow-bench-") as name:
        _measured(spark, Path(name, "warm"), 10_000, given.late)
        whole, new = _measured(spark, Path(name, "tables"), given.rows, given.late)
    text = (
        f"Measured on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by `python -m benchmarks.silver --rows {given.rows}`, load "
        f"average at the end {os.getloadavg()[0]:.1f}.\n\n| records | silver and gold of 99 % | of 1 % new | share of the "
        f"time | of processor time | must |\n|---|---|---|---|---|---|\n| {given.rows:,} | {_said(whole)} | {_said(new)} | "
        f"{new.wall_s / whole.wall_s:.1%} | {new.cpu_s / whole.cpu_s:.1%} | 3 % of 10,000,000 |"
    )
    if given.write:
        PAGE.write_text(replaced_between(PAGE.read_text(), text, BEGIN, END))
    print(text)
    spark.stop()
    return 0


def _said(sample: Sample) -> str:
    return f"{sample.wall_s:.1f} s ({sample.cpu_s:.1f} s of processor time)"


def _measured(spark: "SparkSession", tables: Path, rows: int, late: float) -> tuple[Sample, Sample]:
    old = int(rows * (1 - _NEW))
    _land(records(spark, 0, old, rows), tables)
    whole = metered(old, lambda: _made(spark, tables))
    _land(records(spark, old, rows, rows, late), tables)
    return whole, metered(rows - old, lambda: _made(spark, tables))


def _made(spark: "SparkSession", tables: Path) -> None:
    jobs.silver(spark, tables)
    jobs.gold(spark, tables)


def records(spark: "SparkSession", first: int, end: int, rows: int, late: float = 0.0) -> "DataFrame":
    """Return about `end - first` disposition records: the part `first` to `end` of all `rows`."""
    per_message = 1.1  # 95 % have one record, 5 % have three
    at = f.col("id") * (_DAYS * 86_400 * 1_000_000 / rows * per_message)
    fails = f.pmod(f.xxhash64("id"), f.lit(20)) == 0
    old = f.pmod(f.xxhash64("id", f.lit(7)), f.lit(1_000)) < late * 1_000
    number = f.when(old, f.pmod(f.xxhash64("id", f.lit(8)), f.lit(max(1, first)))).otherwise(f.col("id"))
    failed = f.when(f.pmod(f.xxhash64("id"), f.lit(40)) == 0, "backed_out").otherwise("committed")
    put_us = (_START_S * 1_000_000 + number * (_DAYS * 86_400 * 1_000_000 / rows * per_message)).cast("long")
    landed_us = (_START_S * 1_000_000 + at).cast("long")
    made = (
        spark.range(int(first / per_message), int(end / per_message), numPartitions=4)
        .withColumn("count", f.explode(f.when(fails, f.array(f.lit(0), f.lit(1), f.lit(2))).otherwise(f.array(f.lit(0)))))
        .withColumn("fails", fails)
        .withColumn("number", number)
    )
    event_us = f.when(old, landed_us).otherwise(put_us) + 1_000_000 * (f.col("count") + 1)
    queue = f.pmod(f.col("number"), f.lit(10)).cast("string")
    outcome = f.when(~f.col("fails"), "committed").when(f.col("count") < 2, "rolled_back").otherwise(failed)
    values = {
        "schema_version": f.lit(1),
        "lane": f.lit("A"),
        "segment": (f.col("id") * per_message / _SEGMENT_ROWS).cast("long") + 1,
        "ordinal": f.pmod(f.col("id"), f.lit(_SEGMENT_ROWS)).cast("int"),
        "landed_ts": f.timestamp_micros(landed_us + 5_000_000),
        "disp_id": f.concat(f.lpad(f.col("id").cast("string"), 12, "0"), f.lit("/"), f.col("count").cast("string")),
        "event_ts": f.timestamp_micros(event_us),
        "qmgr": f.lit("QM1"),
        "queue": f.concat(f.lit("APP"), queue, f.lit(".IN")),
        "handler": f.concat(f.lit("app"), queue),
        "consumer": f.lit("c1"),
        "msg_id": f.unhex(f.sha2(f.col("number").cast("string"), 256)).substr(1, 24),
        "put_ts": f.timestamp_micros(put_us),
        "get_ts": f.timestamp_micros(event_us - 20_000),
        "done_ts": f.timestamp_micros(event_us),
        "backout_count": f.col("count"),
        "outcome": outcome,
        "target_queue": f.when(outcome == "backed_out", "APP.BOQ"),
        "exc_class": f.when(outcome != "committed", f.concat(f.lit("Error"), f.pmod(f.col("id"), f.lit(5)).cast("string"))),
    }
    columns = columns_of(Kind.DISPOSITION)
    return made.select(*(values.get(each.name, f.lit(None)).cast(each.type).alias(each.name) for each in columns))


def _land(rows: "DataFrame", tables: Path) -> None:
    dated = rows.withColumn("ingest_date", f.to_date("landed_ts"))
    path = str(tables / "bronze" / Kind.DISPOSITION.value)
    dated.write.format("mqflow_delta").mode("append").option("partitionBy", "ingest_date,lane").save(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
