"""How much of the long tests one run has.

`MQFLOW_LONG=1` asks for all: tests that start several Sparks, each planted defect, and more rounds of campaigns. Any other run
has the samples of its day. They change with the date, so that each part runs within two weeks. `TESTS_DAY=2026-11-23` repeats
the samples of that day.
"""

import os
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from typing import Final, TypeVar
from zlib import crc32

import pytest

__all__ = ("DAY", "LONG", "SPARK_TURNS", "of_other_days", "of_the_day", "rotated", "seeds_of_the_day", "usually")

T = TypeVar("T")
_ASKED: Final = os.environ.get("MQFLOW_LONG") == "1"
#: It goes into the environment so that all processes of a run have the same day, also at midnight. A name with MQFLOW_ would be
#: an unknown setting for each application of the tests.
DAY: Final = date.fromisoformat(os.environ.setdefault("TESTS_DAY", datetime.now(UTC).date().isoformat()))
"""The day whose samples this run has."""
LONG: Final = pytest.mark.skipif(not _ASKED, reason="it takes long: MQFLOW_LONG=1 asks for it")
"""The mark of a long test."""
SPARK_TURNS: Final = (
    ("killing/test_killing.py",),
    ("test_flights_on_spark.py",),
    ("test_spark_benchmarks.py", "report/test_secrets.py"),
    ("tables/test_changed_rows.py",),
    ("dead_letters/test_redrive_command.py",),
    ("dead_letters/test_rules_columns.py", "test_connections.py"),
    ("tables/test_medallion.py",),
    ("tables/test_erasure.py",),
    ("report/test_report.py",),
    ("tables/test_silver_messages.py", "tables/test_upkeep.py"),
    ("sinks/test_queue.py", "stream/test_stream_command.py"),
    ("tables/test_bronze.py", "tables/test_delta_table.py", "tables/test_table_set.py"),
    ("sources/test_journal_in_a_store.py", "sources/test_journal_stream.py", "test_commands.py"),
    ("sources/test_hadoop_folder.py",),
)  # fmt: skip
"""Files of tests/pipeline that need Spark for long. A run of all tests has one turn, and each turn comes once in two weeks."""


def of_other_days(files: Collection[str]) -> set[str]:
    """Return the files of `SPARK_TURNS` among these that have no turn today; none if these files are of one turn only."""
    turns = [set(turn).intersection(files) for turn in SPARK_TURNS]
    if sum(map(bool, turns)) < 2:
        return set()
    return set[str]().union(*turns).difference(*of_the_day(turns, 1, name="Spark"))


def usually(small: T, *, long: T) -> T:
    """Return the size of a test in each run of the tests, or with `MQFLOW_LONG=1` its long size."""
    return long if _ASKED else small


def of_the_day(whole: Sequence[T], count: int, *, name: str = "") -> Sequence[T]:
    """Return `count` entries, or with `MQFLOW_LONG=1` all. Lists with different names begin at different entries."""
    return usually(rotated(whole, count, DAY.toordinal() + crc32(name.encode())), long=whole)


def seeds_of_the_day(count: int) -> range:
    """Return `count` seeds that no other day has. They are far from the small seeds that tests have on all days."""
    first = DAY.toordinal() * 100
    return range(first, first + count)


def rotated(whole: Sequence[T], count: int, day: int) -> Sequence[T]:
    """Return `count` entries in their order. They begin where those of the day before end, so each entry has its day."""
    chosen = {(day * count + place) % len(whole) for place in range(count)}
    return [each for place, each in enumerate(whole) if place in chosen]
