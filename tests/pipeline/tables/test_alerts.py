"""Planted faults raise alerts, and steady handlers raise almost none."""

from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mqflow.pipeline.tables.alerts import POISONED_LEAST, alarming, poison_alert
from tests.long import usually
from tests.pipeline.tables.oracle import MINUTE_US, START_US

pytestmark = pytest.mark.usefixtures("interpreted")

WINDOWS = usually(100, long=300)
SERIES = {
    (messages, share): f"{messages}/{share}" for messages in (20, 100, 1_000) for share in (0.001, 0.005, 0.02, 0.05, 0.2)
}


def poisoned(random: Random, messages: int, share: float) -> int:
    return sum(random.random() < share for _ in range(messages))


def alerts(spark: SparkSession, counts: dict[str, list[tuple[int, int]]]) -> DataFrame:
    """Return the alerts of handlers with these numbers of messages and poison messages in consecutive windows."""
    rows = [
        (handler, START_US + at * 5 * MINUTE_US, messages, poison)
        for handler, windows in counts.items()
        for at, (messages, poison) in enumerate(windows)
    ]
    start = f.timestamp_micros("start")
    window = f.struct(start.alias("start"), (start + f.expr("interval 5 minutes")).alias("end"))
    rates = spark.createDataFrame(rows, "handler string, start long, messages long, poisoned long").select(
        window.alias("window"), f.lit("QM1").alias("qmgr"), f.lit("Q").alias("queue"), "handler",
        f.lit(None).cast("string").alias("exc_class"), "messages", "poisoned", f.lit(0.0).alias("poison_rate"),
    )  # fmt: skip
    ended = rates.select(
        "qmgr", "queue", "handler", f.lit("discarded").alias("final_outcome"), f.col("window.start").alias("final_ts"),
        f.encode(f.col("window.start").cast("string"), "utf-8").alias("msg_id"), f.lit("E").alias("last_exc_class"),
    )  # fmt: skip
    return poison_alert(spark.createDataFrame(alarming(rates.toArrow())), ended, ["5 minutes"])


def test_steady_counts_raise_next_to_no_alert(spark: SparkSession) -> None:
    """Windows of fifteen handlers, from one poison message in a thousand to one in five, from 20 to 1,000 messages."""
    random = Random(1)  # noqa: S311 - invented data
    counts = {
        name: [(messages, poisoned(random, messages, share)) for _ in range(WINDOWS)]
        for (messages, share), name in SERIES.items()
    }
    made = sum(poison >= POISONED_LEAST for windows in counts.values() for _, poison in windows)

    assert 0 == alerts(spark, counts).count()
    assert made > 5 * WINDOWS  # possible windows


def test_a_handler_that_fails_four_times_as_often_is_an_alert_and_no_other(spark: SparkSession) -> None:
    random = Random(2)  # noqa: S311 - invented data
    steady = [(200, poisoned(random, 200, 0.05)) for _ in range(60)]
    counts = {"steady": steady, "planted": [*steady[:40], *((200, poisoned(random, 200, 0.2)) for _ in range(20))]}

    found = alerts(spark, counts).orderBy("window").collect()

    assert {"planted"} == {row["handler"] for row in found}
    assert bytes(found[0]["first_msg_id"]).startswith(b"2026-01-01 03:20:00")  # the fortieth window


def test_a_short_history_that_was_lucky_proves_little(spark: SparkSession) -> None:
    """None of 50 messages was poison, although one in twenty is: seven of a hundred such handlers begin like that."""
    found = alerts(spark, {"lucky": [(50, 0), (100, 5)], "grown": [(50, 0), (100, 40)]})

    assert ["grown"] == [row["handler"] for row in found.collect()]
