"""Every number of the report equals a plain count in Python over the same records, and the numbers agree with each other."""

from collections import Counter, defaultdict
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqflow.pipeline.report.data import Report, gather, sentences
from mqflow.pipeline.tables.folder import TableSet
from mqflow.pipeline.tables.medallion import BronzeFrames, run_gold, run_silver
from tests.pipeline.tables import oracle

pytestmark = [pytest.mark.usefixtures("interpreted"), pytest.mark.xdist_group("long on spark")]


@pytest.fixture(scope="module")
def rows() -> list[oracle.Record]:
    return oracle.records(200)


@pytest.fixture(scope="module")
def report(spark: SparkSession, rows: list[oracle.Record], tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("counted")
    silver, gold = TableSet(folder / "silver"), TableSet(folder / "gold")
    landed = oracle.frame(spark, rows)
    for tables in (silver, gold):
        tables.path.mkdir()
    run_silver(spark, silver, BronzeFrames(dispositions=landed))
    run_gold(spark, gold, silver, landed)
    return gather(spark, gold, silver)


def micros(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1_000_000)


def sums(found: list[dict[str, Any]], *names: str, by: tuple[str, ...]) -> dict[Any, tuple[int, ...]]:
    """Return the sums of the columns `names` by the values of the columns `by`."""
    made: dict[Any, list[int]] = defaultdict(lambda: [0] * len(names))
    for row in found:
        for at, name in enumerate(names):
            made[tuple(row[each] for each in by)][at] += row[name]
    return {key: tuple(values) for key, values in made.items()}


def test_the_totals_are_those_of_plain_python(report: Report, rows: list[oracle.Record]) -> None:
    handled = [each for each in oracle.messages(rows).values() if each["handler"]]
    tried = oracle.attempts(rows)

    assert (len(handled), sum(each["final_outcome"] in oracle.POISON for each in handled)) == (report.messages, report.poisoned)
    assert len(tried) == report.deliveries == sum(each["attempts"] for each in handled)
    assert [min(each["event_ts"] for each in tried), max(each["event_ts"] for each in tried)] == [
        micros(report.first), micros(report.last),
    ]  # fmt: skip
    retries = f"{len(tried) - len(handled):,} of {len(tried):,} deliveries"
    assert retries in " ".join(sentences(report))


def test_the_steps_of_time_are_those_of_plain_python(report: Report, rows: list[oracle.Record]) -> None:
    assert "5 minutes" == report.step

    found = {
        (micros(row["start"]), row["queue"], row["handler"]): (row["deliveries"], row["messages"], row["poisoned"])
        for row in report.poison_over_time
    }

    wanted = {at[:3]: counts for at, counts in oracle.poison_rate(rows, "5 minutes").items() if at[3] is None}
    assert {at: (counts[0], counts[1], counts[3]) for at, counts in wanted.items()} == found
    assert len(found) == len(report.poison_over_time)
    assert report.deliveries == sum(row["deliveries"] for row in report.poison_over_time)


def test_the_causes_are_those_of_plain_python(report: Report, rows: list[oracle.Record]) -> None:
    failed = Counter((one["key"][1], one["handler"], one["exc_class"]) for one in oracle.attempts(rows) if one["exc_class"])
    poisoned = Counter(
        (one["key"][1], one["handler"], one["last_exc_class"])
        for one in oracle.ends(rows)
        if one["final_outcome"] in oracle.POISON and one["last_exc_class"]
    )

    found = sums(report.culprits, "deliveries", "poisoned", by=("queue", "handler", "exc_class"))

    assert {cause: (failed[cause], poisoned[cause]) for cause in failed.keys() | poisoned.keys()} == found


def test_the_success_of_each_attempt_is_that_of_plain_python(report: Report, rows: list[oracle.Record]) -> None:
    curve: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for one in oracle.attempts(rows):
        at = (one["key"][1], one["handler"], one["attempt_no"])
        curve[at][0] += 1
        curve[at][1] += one["outcome"] == "committed"

    found = sums(report.retry_curve, "entered", "succeeded", by=("queue", "handler", "attempt_no"))

    assert {at: tuple(both) for at, both in curve.items()} == found
    assert report.deliveries == sum(row["entered"] for row in report.retry_curve)


def test_moves_delays_and_redrives_are_those_of_plain_python(report: Report, rows: list[oracle.Record]) -> None:
    poison = Counter(one["key"][1] for one in oracle.ends(rows) if one["final_outcome"] in oracle.POISON)
    delays = oracle.delays(rows)
    late = Counter(queue for queue, _, _ in delays)
    again = [one["redrive_outcome"] for one in oracle.messages(rows).values() if one["redrives"]]

    assert dict(poison) == {queue: n for (queue,), (n,) in sums(report.backout, "n", by=("queue",)).items()}
    assert dict(late) == {queue: n for (queue,), (n,) in sums(report.delays, "n", by=("queue",)).items()}
    errors = [error for _, _, error in delays]
    assert (len(errors), sum(error < 0 for error in errors), max(errors)) == (report.delayed, report.early, report.latest_ms)
    assert sum(row["redriven"] for row in report.redrives) == len(again)
    assert sum(row["succeeded"] for row in report.redrives) == again.count("committed")
