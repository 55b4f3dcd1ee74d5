"""The benchmarks of the pipeline work, at a size too small for results."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks import landing, triage
from benchmarks import spark as benchmark
from benchmarks import spark_sides as sides
from benchmarks.samples import Sample
from mqflow.verbs import GetOptions, Got

ROWS = 40


def test_each_side_of_a_ratio_does_its_work(spark: SparkSession, tmp_path: Path, interpreted: None) -> None:
    assert spark.version
    sides.made_journal(tmp_path, ROWS)

    of_spark = [ratio for ratio in benchmark.RATIOS if ratio.master]
    for side in {side for ratio in of_spark for side in (ratio.of, ratio.over)}:
        assert ROWS == side(tmp_path, ROWS).messages

    assert ROWS == spark.read.parquet(str(tmp_path / "by-spark")).count()


def test_a_table_is_tried_on_letters_that_are_made_as_they_are_judged(spark: SparkSession) -> None:
    assert spark.version
    assert 500 == triage.tried(500, triage.UNLIKE).messages
    assert (500, 500) == (triage.generated(500).messages, triage.first_rules(500).messages)


def test_what_needs_no_spark_is_measured_without_one_and_written_into_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    kept = f"| {benchmark.RATIOS[0].name} | 1 |"
    page.write_text(f"before\n{benchmark.BEGIN}\n| a ratio of old | 1 |\n{kept}\n{benchmark.END}\nafter\n")
    given = ["--only", "lane", "--rounds", "1", "--share", "0.001", "--patience", "0", "--page", str(page), "--write"]

    assert 0 == benchmark.main(given)

    assert f"{kept}\n| 2 lanes / 1 lane, 50 µs a get |" in page.read_text()
    assert "a ratio of old" not in page.read_text()
    assert "measuring" in capsys.readouterr().err


def test_a_slow_connection_waits_for_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb for many messages, passed to the inner connection, would wait once for all of them."""
    gets: list[int] = []
    get = landing.Slow.get

    def counted(self: landing.Slow, handle: Any, options: GetOptions) -> Got | None:
        gets.append(1)
        return get(self, handle, options)

    monkeypatch.setattr(landing.Slow, "get", counted)

    assert 0 < landing.landed(100, call_us=1)
    assert 100 < len(gets)


def test_the_goal_of_triage_is_judged_for_a_hundred_million_letters_only() -> None:
    few, many = Sample(10, 61.0, 1e6), Sample(100_000_000, 61.0, 1e6)
    sides = [(what, sample, 0.0) for what in ("tried by 26 rules", triage.FIRST) for sample in (few, many)]

    shown = triage.render(sides, "today").splitlines()

    assert ["missed" in line for line in shown[-4:]] == [False, True, False, True]
