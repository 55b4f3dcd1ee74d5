"""The reader of Delta tables follows the log, with Spark's own scan and without a jar."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from mqflow.folders import FolderError
from mqflow.pipeline import PipelineError
from mqflow.pipeline.delta import log
from mqflow.pipeline.tables.delta_table import read_delta

pytestmark = pytest.mark.usefixtures("interpreted")

COLUMNS = "n int, lane string, day date, more string"


def added(
    spark: SparkSession, path: str | Path, *rows: tuple[Any, ...], mode: str = "append", partition_by: str = "lane,day"
) -> None:
    frame = spark.createDataFrame(list(rows), "n int, lane string, day date")
    frame.write.format("mqflow_delta").mode(mode).option("partitionBy", partition_by).save(str(path))


def found(spark: SparkSession, path: str | Path) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in read_delta(spark, path, COLUMNS).collect()), key=repr)


def test_rows_have_what_the_log_says_of_their_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """Lanes with a slash, an empty name, and Spark's name of a null partition, which folder names cannot express."""
    day = date(2026, 1, 2)
    rows = [(1, "A.DLQ", day), (2, "b/ü =", day), (3, None, day), (4, "__HIVE_DEFAULT_PARTITION__", None)]
    added(spark, tmp_path / "t", *rows)

    assert sorted([(*row, None) for row in rows], key=repr) == found(spark, tmp_path / "t")


def test_partitions_that_are_the_same_in_all_files_need_no_join(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def joins() -> int:
        read_delta(spark, tmp_path / "t", COLUMNS).explain()
        return capsys.readouterr().out.count("BroadcastHashJoin")

    for number in range(2):
        added(spark, tmp_path / "t", (number, "A", None))
    assert 0 == joins()
    assert [(number, "A", None, None) for number in range(2)] == found(spark, tmp_path / "t")

    added(spark, tmp_path / "t", (2, "B", None))
    assert 1 == joins()


def test_a_folder_can_have_a_name_that_spark_takes_for_a_pattern(spark: SparkSession, tmp_path: Path) -> None:
    added(spark, tmp_path / "{prod,test}" / "t", (1, "A", None))

    assert [(1, "A", None, None)] == found(spark, tmp_path / "{prod,test}" / "t")


def test_files_of_no_version_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    added(spark, tmp_path / "t", (1, "A", None))
    added(spark, tmp_path / "t", (2, "A", None), mode="overwrite")
    added(spark, tmp_path / "t", (3, "B", None))

    assert 3 == len(list((tmp_path / "t").rglob("*.parquet")))
    assert [(2, "A", None, None), (3, "B", None, None)] == found(spark, tmp_path / "t")


def test_a_table_without_partitions_and_one_without_rows_are_read(spark: SparkSession, tmp_path: Path) -> None:
    added(spark, tmp_path / "t", (1, "A", None), partition_by="")
    added(spark, tmp_path / "empty")

    assert [(1, "A", None, None)] == found(spark, tmp_path / "t")
    assert [] == found(spark, tmp_path / "empty")


def test_without_deltalake_the_extra_is_named(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "find_spec", lambda _: None)

    with pytest.raises(PipelineError, match=r"pip install 'mqflow\[delta\]'"):
        read_delta(spark, tmp_path, COLUMNS)


def test_a_table_whose_files_do_not_say_its_rows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    added(spark, tmp_path / "t", (1, "A", None))
    DeltaTable(tmp_path / "t").alter.set_table_properties({"delta.enableDeletionVectors": "true"})

    with pytest.raises(PipelineError, match="uses deletionVectors: its files alone do not have its rows"):
        read_delta(spark, tmp_path / "t", COLUMNS)


def test_a_version_stays_readable_and_a_frame_of_the_last_version_keeps_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    added(spark, tmp_path / "t", (1, "A", None))
    last = read_delta(spark, tmp_path / "t", COLUMNS)
    added(spark, tmp_path / "t", (2, "B", None), mode="overwrite")

    assert [1] == [row["n"] for row in last.collect()]
    assert [1] == [row["n"] for row in read_delta(spark, tmp_path / "t", COLUMNS, version=0).collect()]
    assert [2] == [row["n"] for row in read_delta(spark, tmp_path / "t", COLUMNS).collect()]
    with pytest.raises(PipelineError, match="cannot be read at version 7"):
        read_delta(spark, tmp_path / "t", COLUMNS, version=7)
    with pytest.raises(PipelineError, match="There is no Delta table"):
        read_delta(spark, tmp_path / "nowhere", COLUMNS)


def test_a_compacted_table_of_odd_partitions_has_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """delta-rs quotes the values in the names of folders, and the log quotes these names again."""
    rows = [(1, "b/ü =", date(2026, 1, 2)), (3, None, None)]
    for _ in range(2):
        added(spark, tmp_path / "t", *rows)
    before = found(spark, tmp_path / "t")
    table = DeltaTable(tmp_path / "t")
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)

    assert 4 == len(before)
    assert before == found(spark, tmp_path / "t")
    assert before == sorted(map(tuple, by_tasks(spark, str(tmp_path / "t"))), key=repr)


def by_tasks(spark: SparkSession, uri: str) -> list[Any]:
    return list(spark.read.format("mqflow_delta").schema(COLUMNS).load(uri).collect())


def test_a_table_of_a_disk_is_read_from_that_disk_whatever_the_default_file_system_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With viewfs as default, Spark looked for the table elsewhere."""
    added(spark, tmp_path / "t", (1, "A", None))
    (tmp_path / "elsewhere").mkdir()
    settings = {
        "fs.defaultFS": "viewfs://cluster/",
        "fs.viewfs.mounttable.cluster.linkFallback": (tmp_path / "elsewhere").as_uri(),
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        added(spark, tmp_path / "t", (2, "B", None))

        with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
            spark.read.parquet(str(tmp_path / "t"))
        assert [(1, "A", None, None), (2, "B", None, None)] == found(spark, tmp_path / "t")
        assert [(1, "A", None, None), (2, "B", None, None)] == found(spark, (tmp_path / "t").as_uri())
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_a_table_in_an_object_store_is_written_and_read_by_tasks(spark: SparkSession, bucket: str) -> None:
    uri = f"{bucket}/some tables/t"
    rows = [(1, "A.DLQ", date(2026, 1, 2)), (2, "b/ü =", None), (3, None, None)]
    added(spark, uri, *rows)
    added(spark, uri, (4, "A.DLQ", None))

    assert sorted([*((*row, None) for row in rows), (4, "A.DLQ", None, None)], key=repr) == found(spark, uri)
    assert [1, 2, 3] == sorted(row["n"] for row in read_delta(spark, uri, COLUMNS, version=0).collect())
    assert ["n", "lane", "day"] == spark.read.format("mqflow_delta").load(uri).columns
    with pytest.raises(FolderError, match="NoSuchBucket"):
        read_delta(spark, "s3://no-such-bucket/t", COLUMNS)
    with pytest.raises(FolderError, match="hdfs: are not supported"):
        read_delta(spark, "hdfs://host/t", COLUMNS)
