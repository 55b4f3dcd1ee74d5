"""A real Spark reads `mqflow_journal` from an object store, in batches and as a stream, and refuses other schemes."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mqflow.folders import FolderError
from mqflow.journal import Consumers, Journal, Kind
from mqflow.pipeline.sources.journal import JournalSource
from mqflow.pipeline.sources.queue import QueueSource
from mqflow.testing.journals import generate_journal


def test_a_journal_in_a_store_is_read_as_one_on_a_disk(spark: SparkSession, bucket: str, tmp_path: Path) -> None:
    uri = f"{bucket}/journal"
    for place in (uri, tmp_path / "journal"):
        generate_journal(place, Kind.DEAD_LETTER, segments=3, rows=20)
        generate_journal(place, Kind.DEAD_LETTER, segments=1, rows=20, lane="A/B#2")

    stored, local = (
        spark.read.format("mqflow_journal").load(place).drop("landed_ts").orderBy("lane", "segment", "ordinal").toArrow()
        for place in (uri, f"file://{tmp_path}/journal")
    )

    assert 80 == stored.num_rows
    assert stored.equals(local)


def test_a_stream_follows_a_journal_in_a_store_and_acknowledges_it_there(
    spark: SparkSession, bucket: str, tmp_path: Path
) -> None:
    uri = f"{bucket}/journal"

    def copied() -> int:
        rows = spark.readStream.format("mqflow_journal").option("consumer", "copy").load(uri)
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query = writer.format("parquet").option("path", str(tmp_path / "copy")).start()
        query.awaitTermination()
        return spark.read.parquet(str(tmp_path / "copy")).select("segment", "ordinal").distinct().count()

    generate_journal(uri, Kind.PAYLOAD, segments=2, rows=10)
    first = copied()
    lane = generate_journal(uri, Kind.PAYLOAD, segments=1, rows=10)

    assert (20, 30) == (first, copied())
    consumers = Consumers(Journal.open(uri))
    assert {"payload": 3} == consumers.register("copy").offsets
    assert [3] == [len(each.segments) for each in consumers.trim()]
    assert () == lane.all_segments()


@pytest.mark.parametrize("uri", ["hdfs://namenode/journal", "viewfs:///journal", "gs://bucket/journal"])
def test_another_scheme_is_refused_before_anything_is_read(spark: SparkSession, uri: str) -> None:
    with pytest.raises(PySparkException, match=r"are not supported\. Use a path, file:///path or s3://bucket/prefix"):
        spark.read.format("mqflow_journal").load(uri)
    with pytest.raises(FolderError, match="are not supported"):
        JournalSource({"path": uri}).schema()
    with pytest.raises(FolderError, match="are not supported"):
        QueueSource({"url": "embedded:./data?qmgr=QM1", "queue": "Q", "manifest": uri}).schema()
