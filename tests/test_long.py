"""The samples of a day: nothing is left out for long, and a run can be repeated."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.long import SPARK_TURNS, of_other_days, rotated, usually

ROOT = Path(__file__).parents[1]
TABLE = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", range(5))
def test_a_row(row: int) -> None: ...

def test_without_rows() -> None: ...

@pytest.mark.rare
@pytest.mark.parametrize("row", range(5))
def test_rare(row: int) -> None: ...
"""


@pytest.mark.parametrize(("length", "count"), [(1, 1), (2, 1), (4, 1), (7, 2), (5, 3), (6, 4), (2, 2), (3, 5)])
def test_in_as_many_days_as_the_list_needs_each_entry_has_its_day(length: int, count: int) -> None:
    whole = range(length)

    for first in range(20):
        days = [rotated(whole, count, first + day) for day in range(-(-length // count))]
        assert set(whole) == {each for day in days for each in day}


@pytest.mark.parametrize("day", range(20))
def test_a_day_has_so_many_entries_in_their_order(day: int) -> None:
    entries = rotated("abcde", 2, day)

    assert 2 == len(entries)
    assert sorted(entries) == entries


def rows_of(folder: Path, **environment: str) -> set[str]:
    """Return the names of the tests that a run collects in a folder with the settings of these tests."""
    (folder / "conftest.py").write_text("from tests.conftest import pytest_collection_modifyitems, pytest_configure\n")
    (folder / "test_table.py").write_text(TABLE)
    words = ["-m", "pytest", "-q", "--collect-only", "-n0", "-p", "no:cacheprovider", f"--rootdir={folder}", "test_table.py"]
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env={"PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stdout
    return {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}


def test_a_run_has_the_rows_of_its_day_and_each_test_that_is_not_sampled(tmp_path: Path) -> None:
    every = {"test_without_rows", *(f"{name}[{row}]" for name in ("test_a_row", "test_rare") for row in range(5))}
    days = [rows_of(tmp_path, TESTS_DAY=f"2026-11-2{day}") for day in (3, 4, 5)]

    assert {6} == {len(day) for day in days}
    assert "test_without_rows" in set.intersection(*days)
    assert every == set.union(*days)
    assert every == rows_of(tmp_path, MQFLOW_LONG="1")


def test_each_file_of_a_turn_is_there_and_has_one_turn() -> None:
    files = [name for turn in SPARK_TURNS for name in turn]

    assert len(files) == len(set(files))
    assert [] == [name for name in files if not (ROOT / "tests/pipeline" / name).is_file()]


def test_each_turn_comes_within_two_weeks() -> None:
    assert len(SPARK_TURNS) <= 14


def test_a_run_of_all_files_has_those_of_one_turn() -> None:
    files = {name for turn in SPARK_TURNS for name in turn}

    run = files.difference(of_other_days(files | {"sources/test_journal.py"}))

    assert run in usually([set(turn) for turn in SPARK_TURNS], long=[files])


@pytest.mark.parametrize("turn", SPARK_TURNS)
def test_files_of_one_turn_run_whenever_they_are_asked_for(turn: tuple[str, ...]) -> None:
    assert set() == of_other_days(turn) == of_other_days({turn[0], "sources/test_journal.py"})
