"""The driver side of the Delta sink, without Spark: the query of a batch, and the columns that can partition a table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import BinaryType, DoubleType, LongType, MapType, StringType, StructField, StructType

from mqflow.pipeline import OptionError, SinkError
from mqflow.pipeline.delta.sink import DeltaSink

SCHEMA = StructType([StructField("n", LongType())])


def numbers(*found: int) -> Iterator[pa.RecordBatch]:
    return iter([pa.record_batch({"n": pa.array(found, pa.int64())})])


def written(table: Path, query: str, batch: int, *found: int) -> None:
    sink: Any = DeltaSink({"path": str(table), "appId": "job"}).streamWriter(SCHEMA, overwrite=False)
    files = sink.write(numbers(*found))
    files.query = query  # what a task knows
    sink.commit([files], batch)


def content(table: Path) -> list[int]:
    return sorted(DeltaTable(table).to_pyarrow_table()["n"].to_pylist())


def test_a_batch_of_a_query_is_there_once_however_often_it_is_replayed(tmp_path: Path) -> None:
    for batch, number in ((0, 1), (1, 2), (1, 2)):
        written(tmp_path / "t", "one", batch, number)

    assert [1, 2] == content(tmp_path / "t")


@pytest.mark.parametrize("batch", [0, 1])
def test_a_new_query_under_an_old_name_is_refused_and_its_rows_are_not_taken_for_old_ones(batch: int, tmp_path: Path) -> None:
    """A deleted checkpoint: batches begin at 0 again, and the sink skipped them silently as replays."""
    for number in range(2):
        written(tmp_path / "t", "one", number, number)

    with pytest.raises(SinkError, match=r"has batches of job up to 1, of another query\. It got batch"):
        written(tmp_path / "t", "two", batch, 7)

    assert [0, 1] == content(tmp_path / "t")


def test_a_table_of_before_is_gone_on_with(tmp_path: Path) -> None:
    """Its log names no query."""
    written(tmp_path / "t", "", 0, 1)
    written(tmp_path / "t", "one", 1, 2)
    written(tmp_path / "t", "one", 1, 2)

    assert [1, 2] == content(tmp_path / "t")


@pytest.mark.parametrize("kind", [BinaryType(), DoubleType(), MapType(StringType(), StringType())], ids=str)
def test_what_a_log_cannot_say_in_words_partitions_no_table(kind: Any, tmp_path: Path) -> None:
    """The log had bytes as Python's repr, so readers got `b'...'`."""
    sink = DeltaSink({"path": str(tmp_path / "t"), "partitionBy": "p"})

    with pytest.raises(OptionError, match="cannot be partitioned by p, which is"):
        sink.writer(StructType([*SCHEMA.fields, StructField("p", kind)]), overwrite=False)
