"""A commit to a Delta table, without Spark: its files, its transactions, and other programs that commit at the same time."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction
from pyspark.sql.types import LongType, StringType, StructField, StructType

from mqflow.folders import folder_at
from mqflow.pipeline import PipelineError, SinkError
from mqflow.pipeline.delta import commit as commit_module
from mqflow.pipeline.delta import files as files_module
from mqflow.pipeline.delta.columns import arrow_schema_of
from mqflow.pipeline.delta.commit import Added, Commit, add_files
from mqflow.pipeline.delta.files import WrittenFile, write_files
from mqflow.pipeline.delta.log import maxima_of
from tests.object_store import new_bucket, object_store

SCHEMA = StructType([StructField("n", LongType()), StructField("lane", StringType())]).json()
NUMBERS = iter(range(1_000))


@pytest.fixture(params=["a disk", "an object store"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URI of a table that does not exist yet."""
    if request.param == "a disk":
        yield str(tmp_path / "t")
        return
    with object_store():
        yield f"{new_bucket()}/t"


def written(uri: str, *numbers: int, lane: str | None = "A") -> list[WrittenFile]:
    schema = arrow_schema_of(SCHEMA)
    batch = pa.record_batch({"n": pa.array(numbers, pa.int64()), "lane": pa.array([lane] * len(numbers), pa.string())})
    batches = (batch.slice(at, 1) for at in range(len(numbers)))
    return write_files(folder_at(uri), schema, ["lane"], batches, prefix=f"part-{next(NUMBERS)}")


def added(uri: str, *numbers: int, lane: str | None = "A", **options: Any) -> None:
    asked = Commit(uri=uri, schema=SCHEMA, partition_by=("lane",), **options)
    add_files(asked, written(uri, *numbers, lane=lane))


def content(uri: str) -> list[int]:
    return sorted(DeltaTable(uri).to_pyarrow_table()["n"].to_pylist())


@pytest.mark.parametrize("name", ["a%20b", "a\\b", "a[1]", "a|b", "a\tb"])
def test_a_folder_whose_path_deltalake_reads_as_another_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineError, match=r"deltalake cannot use a folder with .* in its path\. Nothing was changed"):
        add_files(Commit(uri=str(tmp_path / name / "t"), schema=SCHEMA), [])

    assert [] == [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["50%", "a b", "a#b?", "ü", "%2"])
def test_a_folder_can_have_other_special_characters(tmp_path: Path, name: str) -> None:
    added(str(tmp_path / name / "t"), 1)

    assert [1] == content(str(tmp_path / name / "t"))


def test_a_commit_with_its_transactions_is_made_once(table: str) -> None:
    for _ in range(2):
        added(table, 1, 2, transactions={"app A": Added(None, 6), "app": Added(None, 0)})
        added(table, 3, lane="b/ü", transactions={"app A": Added(6, 9), "app": Added(0, 0)})

    assert [1, 2, 3] == content(table)
    assert (9, 0) == (DeltaTable(table).transaction_version("app A"), DeltaTable(table).transaction_version("app"))


@pytest.mark.parametrize("before", [None, 5, 8])
def test_a_commit_after_other_transactions_than_those_in_the_log_adds_nothing(tmp_path: Path, before: int | None) -> None:
    uri = str(tmp_path / "t")
    added(uri, 1, transactions={"app": Added(None, 6)})

    with pytest.raises(SinkError, match=r"has 6 for app, not .*another program writes the same rows\. Nothing was added"):
        added(uri, 2, transactions={"app": Added(before, 9)})
    assert [1] == content(uri)


def test_the_log_of_a_table_that_is_gone_has_no_transactions(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="has None for app, not 6"):
        added(str(tmp_path / "t"), 2, transactions={"app": Added(6, 9)})
    assert not (tmp_path / "t" / "_delta_log").exists()


@pytest.mark.parametrize("exists", [True, False], ids=["a table that exists", "a new table"])
def test_of_two_programs_that_commit_the_same_at_the_same_time_one_adds_its_rows(
    table: str, monkeypatch: pytest.MonkeyPatch, *, exists: bool
) -> None:
    if exists:
        added(table, 1, transactions={"app": Added(None, 6)})
    same = {"app": Added(6 if exists else None, 9)}
    check = commit_module._is_added

    def overtaken(*arguments: Any) -> bool:
        monkeypatch.setattr(commit_module, "_is_added", check)
        found = check(*arguments)
        added(table, 2, 3, transactions=same)
        return found

    monkeypatch.setattr(commit_module, "_is_added", overtaken)
    added(table, 2, 3, transactions=same)

    assert [1, 2, 3] == content(table) if exists else [2, 3] == content(table)


def test_a_compaction_at_the_same_time_refuses_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    added(uri, 1, transactions={"app": Added(None, 1)})
    added(uri, 2, transactions={"app": Added(1, 2)})
    check = commit_module._is_added

    def overtaken(*arguments: Any) -> bool:
        found = check(*arguments)
        DeltaTable(uri).optimize.compact()
        return found

    monkeypatch.setattr(commit_module, "_is_added", overtaken)
    added(uri, 3, transactions={"app": Added(2, 3)})

    assert [1, 2, 3] == content(uri)


def test_a_file_that_the_driver_does_not_find_is_not_committed(tmp_path: Path) -> None:
    """Executors with disks of their own: the table had files that no reader found."""
    uri = str(tmp_path / "t")
    files = written(uri, 1, 2)
    (tmp_path / "t" / files[0].path).unlink()

    with pytest.raises(
        SinkError, match=r"executors and driver have different disks\. Nothing was added\. Use a folder that all"
    ):
        add_files(Commit(uri=uri, schema=SCHEMA, partition_by=("lane",)), files)
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_a_commit_with_fewer_rows_than_were_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="the tasks wrote 2 rows of the 3 for"):
        added(str(tmp_path / "t"), 1, 2, rows=3)
    added(str(tmp_path / "t"), 1, 2, rows=2)


def test_new_columns_join_a_table_only_when_asked_and_others_stay(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write_deltalake(uri, pa.table({"n": [1], "lane": ["A"], "more": ["x"]}), partition_by=["lane"])
    write_deltalake(f"{uri}2", pa.table({"lane": ["A"], "other": ["y"]}), partition_by=["lane"])
    write_deltalake(f"{uri}3", pa.table({"n": ["text"], "lane": ["A"]}), partition_by=["lane"])

    with pytest.raises(SinkError, match=r"has other columns: more differ\. Nothing was added"):
        added(uri, 2)
    with pytest.raises(SinkError, match=r"has other columns: n differ\. Nothing was added"):
        added(f"{uri}3", 2, merge_schema=True)
    added(uri, 2, merge_schema=True)
    added(f"{uri}2", 2, merge_schema=True)

    rows = DeltaTable(uri).to_pyarrow_table().sort_by("n").select(["n", "more"]).to_pylist()
    assert [{"n": 1, "more": "x"}, {"n": 2, "more": None}] == rows
    assert [2, None] == sorted(DeltaTable(f"{uri}2").to_pyarrow_table()["n"].to_pylist(), key=str)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The entries of logs that are on the disk."""
    names: set[str] = set()
    fsync = os.fsync

    def told(number: int) -> None:
        names.add(Path(f"/proc/self/fd/{number}").readlink().name)
        fsync(number)

    monkeypatch.setattr(os, "fsync", told)
    return names


@pytest.mark.parametrize(("column", "last"), [("n", 1), ("other", 2)], ids=["a version", "also the version of new columns"])
def test_a_commit_is_on_the_disk(tmp_path: Path, synced: set[str], column: str, last: int) -> None:
    """After a commit a trim can delete the segments. A log that lacks a version after a power failure cannot be read."""
    uri = str(tmp_path / "t")
    write_deltalake(uri, pa.table({column: [1], "lane": ["A"]}), partition_by=["lane"])

    added(uri, 2, merge_schema=True)

    assert last == DeltaTable(uri).version()
    assert {f"{number:020}.json" for number in range(1, last + 1)} <= synced


def test_a_commit_with_a_vacuum_keeps_its_own_files_and_is_on_the_disk(tmp_path: Path, synced: set[str]) -> None:
    """A task can write its files hours before the commit."""
    uri = str(tmp_path / "t")
    added(uri, 1)
    files = written(uri, 2)
    for name in (files[0].path, "lane=A/left-by-a-failed-task.parquet"):
        (tmp_path / "t" / name).touch()
        os.utime(tmp_path / "t" / name, (0, 0))

    add_files(Commit(uri=uri, schema=SCHEMA, partition_by=("lane",), vacuum_hours=1), files)

    assert [1, 2] == content(uri)
    assert [] == list((tmp_path / "t").rglob("left-by-*"))
    assert {f"{number:020}.json" for number in range(DeltaTable(uri).version() + 1)} <= synced


def test_the_largest_number_of_each_partition_in_the_log_is_that_of_its_rows(table: str) -> None:
    """Also after Delta engines join files, delete rows and write a checkpoint. The result is None if the log lacks a number."""
    for lane, numbers in (("A", (3, 9, 2)), ("A", (4,)), ("b/ü", (-8, -5))):
        added(table, *numbers, lane=lane)
    found = [maxima_of(DeltaTable(table), "n", "lane")]
    for change in (
        lambda at: at.optimize.compact(),
        lambda at: at.create_checkpoint(),
        lambda at: at.delete("n = 9"),
        lambda at: at.delete("lane = 'A'"),
        lambda at: at.delete(),
        lambda at: write_deltalake(at, pa.table({"n": [7], "lane": ["A"]}), mode="append"),
    ):
        change(DeltaTable(table))
        found.append(maxima_of(DeltaTable(table), "n", "lane"))
    blind = AddAction("x.parquet", 1, {"lane": "A"}, 1, True, '{"numRecords": 1}')
    DeltaTable(table).create_write_transaction([blind], "append", DeltaTable(table).schema(), ["lane"])

    whole = {"A": 9, "b/ü": -5}
    assert [whole, whole, whole, whole | {"A": 4}, {"b/ü": -5}, {}, {"A": 7}] == found
    assert maxima_of(DeltaTable(table), "n", "lane") is None
    assert whole == maxima_of(DeltaTable(table, version=2), "n", "lane")


def test_a_task_writes_row_groups_and_files_of_limited_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "_ROW_GROUP_BYTES", 4_000)
    monkeypatch.setattr(files_module, "_FILE_BYTES", 5_000)
    schema = pa.schema([("n", pa.int64())])
    batches = [pa.record_batch({"n": pa.array(range(at, at + 100))}) for at in range(0, 5_000, 100)]

    files = write_files(folder_at(tmp_path), schema, [], iter(batches), prefix="part")

    assert 5_000 == sum(file.rows for file in files)
    assert len(files) > 1
    found = [pq.ParquetFile(tmp_path / file.path) for file in files]
    assert list(range(5_000)) == [number for file in found for number in file.read()["n"].to_pylist()]
    assert any(file.num_row_groups > 1 for file in found)
    assert max(file.metadata.row_group(0).num_rows for file in found) <= 600
