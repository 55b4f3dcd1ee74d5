"""A folder of Delta tables: readers see one state, a killed run leaves no trace, and one of two writers is refused."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from msgspec.json import decode, encode
from msgspec.structs import replace
from pyspark.sql import SparkSession

from mqflow.pipeline import PipelineError
from mqflow.pipeline.schemas import Table
from mqflow.pipeline.tables import table_set as tables_folder
from mqflow.pipeline.tables.table_set import Run, TableSet

pytestmark = pytest.mark.usefixtures("interpreted")

TABLES = {name: Table(name=name, row="", dated="at", ddl="at timestamp, n int") for name in ("one", "two")}
DAY = [datetime(2026, 1, number, 12, tzinfo=UTC) for number in range(1, 5)]


class Killed(BaseException):
    """The process ends here: nothing of the run follows."""


def put(spark: SparkSession, run: Run, name: str, *numbers: int) -> None:
    """Give the table these numbers, on a day each."""
    run.write_small(name, spark.createDataFrame([(DAY[at], number) for at, number in enumerate(numbers)], TABLES[name].ddl))


def change(spark: SparkSession, run: Run, name: str, number: int) -> None:
    """Give the first day of the table this number."""
    run.replace_dates(name, spark.createDataFrame([(DAY[0], number)], TABLES[name].ddl), [DAY[0].date()])


def numbers(spark: SparkSession, tables: TableSet, name: str) -> list[int]:
    return sorted(row["n"] for row in tables.read(spark, name).collect())


def last(tables: TableSet, name: str) -> list[int]:
    """The contents that a foreign reader finds: the last version, whatever CURRENT.json says."""
    return sorted(DeltaTable(tables.uri_of(name)).to_pyarrow_dataset().to_table()["n"].to_pylist())


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> TableSet:
    """Both tables after a first run, which ended at the time 1."""
    made = TableSet(tmp_path / "tables", TABLES, wall=iter(range(1, 100)).__next__)
    with made.next() as run:
        put(spark, run, "one", 1, 2)
        put(spark, run, "two", 1, 2)
    return made


@pytest.mark.parametrize("commits", [1, 2])
def test_a_run_killed_before_current_is_seen_by_no_reader_and_set_back_by_the_next_run(
    spark: SparkSession, tables: TableSet, commits: int
) -> None:
    def killed() -> None:
        with tables.next() as run:
            for name in ("one", "two")[:commits]:
                change(spark, run, name, 9)
            raise Killed

    with pytest.raises(Killed):
        killed()

    assert [[1, 2], [1, 2]] == [numbers(spark, tables, name) for name in TABLES]
    assert [2, 9] == last(tables, "one"), "the commit is there, so the kill hit the place that this test is about"
    with tables.next() as run:
        seen = [last(tables, name) for name in TABLES]
        change(spark, run, "two", 7)
    assert [[1, 2], [1, 2]] == seen
    assert [[1, 2], [2, 7]] == [numbers(spark, tables, name) for name in TABLES] == [last(tables, name) for name in TABLES]


def test_a_run_killed_by_the_system_between_its_commits_leaves_one_state(spark: SparkSession, tables: TableSet) -> None:
    """A real SIGKILL: the process commits to one table, and dies before `CURRENT.json`."""
    code = f"""
import os, signal
from deltalake import DeltaTable
from mqflow.pipeline.tables import delta_writes
from mqflow.pipeline.tables.table_set import TableSet
from tests.pipeline.tables.test_table_set import TABLES
with TableSet({str(tables.uri)!r}, TABLES).next() as run:
    def commit(at):
        DeltaTable(at.uri).delete("n = 1", commit_properties=delta_writes._properties(run.number))
        return delta_writes.head(at), 1
    run._committed("one", commit)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    died = subprocess.run([sys.executable, "-c", code], check=False, env=os.environ | {"PYTHONPATH": str(Path.cwd())})

    assert -signal.SIGKILL == died.returncode
    assert ([2], [1, 2]) == (last(tables, "one"), numbers(spark, tables, "one"))
    with tables.next() as run:
        pass
    assert ([1, 2], 3) == (last(tables, "one"), run.number), "a number is used once, so the transaction of a run is its own"


def test_a_kill_after_current_leaves_the_run_as_it_is(
    spark: SparkSession, tables: TableSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise Killed

    def run_to_the_record() -> None:
        with tables.next() as run:
            monkeypatch.setattr(TableSet, "_record", killed)
            change(spark, run, "one", 9)

    with monkeypatch.context(), pytest.raises(Killed):
        run_to_the_record()
    monkeypatch.undo()

    assert [2, 9] == numbers(spark, tables, "one")
    with tables.next() as run:
        change(spark, run, "one", 8)
    assert [1, 2, 3] == [each.run for each in tables.runs()]
    assert [[1, 2], [2, 9], [2, 8]] == [numbers(spark, tables.as_of(number), "one") for number in (1, 2, 3)]


def test_the_second_of_two_writers_is_refused_and_nothing_of_it_is_seen(spark: SparkSession, tables: TableSet) -> None:
    other = replace(tables)

    def slower() -> None:
        with tables.next() as run:
            change(spark, run, "one", 9)
            with other.next() as faster:  # sets `one` back, because for it the slower run is a killed one
                change(spark, faster, "two", 7)

    with pytest.raises(PipelineError, match=r"it changed CURRENT\.json during this run"):
        slower()

    assert [[1, 2], [2, 7]] == [numbers(spark, tables, name) for name in TABLES] == [last(tables, name) for name in TABLES]


def test_a_commit_of_another_writer_to_the_same_table_ends_the_run(spark: SparkSession, tables: TableSet) -> None:
    def slower() -> None:
        with tables.next() as run:
            with replace(tables).next() as faster:
                change(spark, faster, "one", 7)
            change(spark, run, "one", 9)

    with pytest.raises(PipelineError, match=r"Another process writes the tables in .*: it changed one"):
        slower()

    assert [2, 7] == numbers(spark, tables, "one")


def test_the_second_of_two_first_writers_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    tables = TableSet(tmp_path / "new", TABLES)

    def slower() -> None:
        with tables.next() as slow:
            with replace(tables).next() as faster:
                put(spark, faster, "two", 7)
            put(spark, slow, "one", 1)

    with pytest.raises(PipelineError, match=r"it changed CURRENT\.json"):
        slower()

    assert [[], [7]] == [numbers(spark, tables, name) for name in TABLES]


def test_a_run_that_changes_nothing_writes_nothing(tables: TableSet) -> None:
    before = (tables.current(), DeltaTable(tables.uri_of("one")).version())

    with tables.next() as run:
        run.state = dict(run.before.state)

    assert before == (tables.current(), DeltaTable(tables.uri_of("one")).version())


def test_rows_are_replaced_by_key_and_null_equals_null(spark: SparkSession, tables: TableSet) -> None:
    """A MERGE: rows that vanished go, rows about nothing changed stay, and a row of the null date is found."""
    ddl = TABLES["one"].ddl
    with tables.next() as run:
        run.write("one", spark.createDataFrame([(DAY[0], 1), (DAY[0], 1), (DAY[1], 2), (None, None), (None, 5)], ddl))
    with tables.next() as run:
        gone = run.dated("one", spark.createDataFrame([(DAY[0], 1), (None, None)], ddl))
        run.replace_rows("one", spark.createDataFrame([(DAY[0], 10), (DAY[3], 11)], ddl), ("n",), gone)

    assert {2, 5, 10, 11} == {row["n"] for row in tables.read(spark, "one").collect()}
    assert 4 == tables.read(spark, "one").count()


def test_the_state_of_a_time_is_that_of_the_last_run_before_it(spark: SparkSession, tables: TableSet) -> None:
    with tables.next() as run:  # ends at the time 2
        change(spark, run, "one", 9)

    then = {at: numbers(spark, tables.as_of(datetime.fromtimestamp(at, UTC)), "one") for at in (0.5, 1, 1.5, 2, 60)}

    assert {0.5: [], 1: [1, 2], 1.5: [1, 2], 2: [2, 9], 60: [2, 9]} == then
    with pytest.raises(PipelineError, match=r"has no run 7\. Its runs: 1, 2\."):
        tables.as_of(7)


def test_a_state_names_versions_that_are_there(tables: TableSet) -> None:
    current = tables.current()
    gone = replace(current, tables=current.tables | {"one": tables_folder.Pinned(99, 1)})
    tables.folder.replace("CURRENT.json", encode(gone))

    with pytest.raises(PipelineError, match="names version 99 of the table one, which does not exist"), tables.next():
        pass


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (b'{"format": "mqflow-tables", "snapshot": 3}', "plain Parquet files, which an earlier mqflow made"),
        (b'{"format": "other"}', "holds 'other', not tables of mqflow"),
        (b"{", "cannot be read"),
    ],
)
def test_a_folder_of_something_else_is_refused(tmp_path: Path, found: bytes, said: str) -> None:
    (tmp_path / "CURRENT.json").write_bytes(found)

    with pytest.raises(PipelineError, match=said), TableSet(tmp_path, TABLES).next():
        pass

    assert found == (tmp_path / "CURRENT.json").read_bytes()


def test_a_state_counts_when_all_of_it_is_on_the_disk(
    spark: SparkSession, tables: TableSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run never counts closed windows again, so a power cut must not leave a file name without its rows."""
    synced: list[str] = []
    fsync = os.fsync

    def told(number: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{number}").readlink()))
        fsync(number)

    before = set(DeltaTable(tables.uri_of("one")).file_uris())
    monkeypatch.setattr(os, "fsync", told)

    with tables.next() as run:
        change(spark, run, "one", 9)

    first = synced[: next(at for at, path in enumerate(synced) if "CURRENT" in path)]
    one = Path(tables.uri_of("one"))
    new = {Path(uri) for uri in DeltaTable(str(one)).file_uris()} - {Path(uri) for uri in before}
    wanted = {*new, *(path.parent for path in new), one, one / "_delta_log", one / "_delta_log" / f"{1:020d}.json"}
    assert {str(path) for path in wanted} <= set(first)


def test_in_an_object_store_a_killed_run_is_set_back_and_the_second_writer_is_refused(spark: SparkSession, bucket: str) -> None:
    tables = TableSet(f"{bucket}/tables", TABLES)
    with tables.next() as run:
        run.write("one", spark.createDataFrame([(DAY[0], 1), (DAY[1], 2)], TABLES["one"].ddl))

    def killed() -> None:
        with tables.next() as run:
            change(spark, run, "one", 9)
            raise Killed

    def slower() -> None:
        with tables.next() as run:
            with replace(tables).next() as faster:
                change(spark, faster, "one", 7)
            run.state["mine"] = 1

    with pytest.raises(Killed):
        killed()
    left = last(tables, "one")
    # delta-rs restores without releasing the lock of the interpreter, and the server of this test runs in this process.
    code = f"""
from mqflow.pipeline.tables.table_set import TableSet
from tests.pipeline.tables.test_table_set import TABLES
with TableSet({tables.uri!r}, TABLES).next():
    pass
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": str(Path.cwd())})
    back = last(tables, "one")
    with pytest.raises(PipelineError, match=r"it changed CURRENT\.json during this run"):
        slower()

    assert ([2, 9], [1, 2]) == (left, back)
    assert [2, 7] == numbers(spark, tables, "one") == last(tables, "one")
    assert [1, 2] == numbers(spark, tables.as_of(1), "one")


def test_the_record_of_a_run_can_be_read_by_anybody(tables: TableSet) -> None:
    record = decode(tables.folder.folder("runs").read("00000001.json"))

    assert {"one": {"delta": 0, "columns": 1}, "two": {"delta": 0, "columns": 1}} == record["tables"]
