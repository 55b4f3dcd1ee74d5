"""Every number of the report equals a plain count in Python over the same records, and the numbers agree with each other."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqflow.pipeline.report.data import Report, _weeks, gather, sentences
from mqflow.pipeline.tables.medallion import BronzeFrames, run_gold, run_silver
from mqflow.pipeline.tables.table_set import TableSet
from tests.long import LONG
from tests.pipeline.tables import oracle

pytestmark = [LONG, pytest.mark.usefixtures("interpreted"), pytest.mark.xdist_group("long on spark")]


@pytest.fixture(scope="module")
def rows() -> list[oracle.Record]:
    return oracle.records(200)


@pytest.fixture(scope="module")
def report(spark: SparkSession, rows: list[oracle.Record], tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("counted")
    silver, gold = TableSet(folder / "silver"), TableSet(folder / "gold")
    landed = oracle.frame(spark, rows)
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


WEEK_US = 7 * 86_400_000_000


def test_failures_by_week_are_those_of_plain_python(report: Report, rows: list[oracle.Record]) -> None:
    deliveries: Counter[Any] = Counter()
    messages: dict[Any, set[oracle.Key]] = defaultdict(set)
    for one in oracle.attempts(rows):
        if one["exc_class"] and one["outcome"] != "committed":
            day = datetime.fromtimestamp(one["event_ts"] / 1_000_000, UTC).date()
            group = (str(day - timedelta(days=day.weekday())), one["key"][1], one["handler"], one["exc_class"])
            deliveries[group] += 1
            messages[group].add(one["key"])

    found = sums(report.groups, "deliveries", "messages", by=("week", "queue", "handler", "exc_class"))

    assert len(found) == len(report.groups)
    assert {group: (n, len(messages[group])) for group, n in deliveries.items()} == found
    named = {key[2].hex() for keys in messages.values() for key in keys}
    assert {row[name] for row in report.groups for name in ("first_msg_id", "last_msg_id")} <= named


def test_the_weeks_and_the_messages_without_an_end_are_those_of_plain_python(report: Report, rows: list[oracle.Record]) -> None:
    last = max(each["event_ts"] for each in oracle.attempts(rows))
    weeks: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    unfinished: dict[Any, list[int]] = defaultdict(list)
    for key, each in oracle.messages(rows).items():
        of = (key[1], each["handler"])
        if each["handler"] and each["final_ts"] is None:
            unfinished[of].append(each["first_get_ts"])
        elif each["handler"]:
            ago = max(0, (last - each["final_ts"]) // WEEK_US)
            weeks[of][2 * ago] += 1
            weeks[of][2 * ago + 1] += each["final_outcome"] in oracle.POISON

    names = ("messages", "poisoned", "messages_before", "poisoned_before")
    assert {of: tuple(counts) for of, counts in weeks.items()} == sums(report.weeks, *names, by=("queue", "handler"))
    assert {of: (len(since), max(0, last - min(since)) // 1_000_000) for of, since in unfinished.items()} == sums(
        report.unfinished, "messages", "oldest_s", by=("queue", "handler")
    )


def test_a_recorder_whose_clock_is_years_ahead_does_not_move_the_weeks(spark: SparkSession, tmp_path: Path) -> None:
    silver, gold = TableSet(tmp_path / "silver"), TableSet(tmp_path / "gold")
    rows = oracle.records(20)
    wrong = next(row for row in rows if row["outcome"] == "committed")
    later_us = 1_000 * WEEK_US
    ahead = {name: wrong[name] + later_us for name in ("event_ts", "get_ts", "done_ts", "put_ts") if wrong.get(name)}
    landed = oracle.frame(spark, [*rows, wrong | ahead | {"msg_id": b"ahead" * 4 + b"1234", "disp_id": "ahead"}])
    run_silver(spark, silver, BronzeFrames(dispositions=landed))
    run_gold(spark, gold, silver, landed)

    report = gather(spark, gold, silver)

    ended = [each for each in oracle.messages(rows).values() if each["handler"] and each["final_ts"] is not None]
    assert len(ended) + 1 == sum(row["messages"] for row in report.weeks)


def test_a_week_ends_seven_days_before_the_last_event(spark: SparkSession) -> None:
    hour = 3_600_000_000
    ages = {0: "now", 7 * 24 - 1: "now", 7 * 24: "before", 14 * 24 - 1: "before", 14 * 24: "earlier"}
    last = oracle.START_US + 20 * 24 * hour
    told = spark.createDataFrame(
        [("Q", "h", "discarded" if name == "before" else "committed", last - age * hour) for age, name in ages.items()],
        "queue string, handler string, final_outcome string, at bigint",
    ).selectExpr("queue", "handler", "final_outcome", "timestamp_micros(at) as final_ts")

    [found] = _weeks(told, last).collect()

    assert (2, 0, 2, 2) == (found["messages"], found["poisoned"], found["messages_before"], found["poisoned_before"])
