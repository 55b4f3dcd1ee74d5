"""`mqflow_journal` as a stream: offsets, limits, replay and acknowledgement, in the order of Spark's real calls."""

import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from mqflow.journal import ConsumerError, Consumers, Journal, Kind, LaneError, MissingSegmentError
from mqflow.pipeline.sources.journal import JournalSource
from mqflow.pipeline.sources.offsets import ForeignOffsetError
from mqflow.testing.journals import generate_journal, invented
from tests.journal.files import every_row
from tests.journal.old_segments import add_old_segment

#: Spark parses a schema in its JVM, even if the test needs no query.
pytestmark = pytest.mark.usefixtures("spark")


def reader_of(path: Path, **options: str) -> Any:
    source = JournalSource({"path": str(path), **options})
    return source.streamReader(cast("StructType", StructType.fromDDL(source.schema())))


def lanes(offset: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = offset["lanes"]
    return found


def run(spark: SparkSession, journal: Path, table: Path, **options: str) -> StreamingQuery:
    query = (
        spark.readStream.format("mqflow_journal")
        .options(**options)
        .load(str(journal))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(table.with_suffix(".checkpoint")))
        .option("path", str(table))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def rows(spark: SparkSession, table: Path) -> list[tuple[str, int, int]]:
    found = spark.read.parquet(str(table)).select("lane", "segment", "ordinal").collect()
    return sorted((row.lane, row.segment, row.ordinal) for row in found)


def test_a_stream_takes_everything_once_within_its_limit_and_goes_on_where_it_was(
    spark: SparkSession, journal: Path, tmp_path: Path
) -> None:
    first = run(spark, journal, tmp_path / "table", maxRowsPerTrigger="40")
    assert every_row(journal) == rows(spark, tmp_path / "table")
    assert [40, 40, 20] == [progress.numInputRows for progress in first.recentProgress]

    generate_journal(journal, Kind.DEAD_LETTER, segments=1, rows=7, lane="C.DLQ", seed=3)
    second = run(spark, journal, tmp_path / "table", maxRowsPerTrigger="40")

    assert every_row(journal) == rows(spark, tmp_path / "table")
    assert [7] == [progress.numInputRows for progress in second.recentProgress if progress.numInputRows]


def test_a_batch_takes_segments_of_older_versions_too(spark: SparkSession, tmp_path: Path) -> None:
    lane = generate_journal(tmp_path / "journal", Kind.PAYLOAD, segments=1, rows=4)
    add_old_segment(lane, invented(Kind.PAYLOAD, 4, seed=2), version="0", without=["rfh2", "user_id"])
    generate_journal(tmp_path / "journal", Kind.PAYLOAD, segments=1, rows=4)

    query = run(spark, tmp_path / "journal", tmp_path / "table")

    assert [12] == [progress.numInputRows for progress in query.recentProgress]
    assert every_row(tmp_path / "journal") == rows(spark, tmp_path / "table")
    assert 4 == spark.read.parquet(str(tmp_path / "table")).where("user_id is null").count()


def test_a_batch_that_was_not_committed_is_replayed_from_the_log_without_latest_offset(
    spark: SparkSession, journal: Path, tmp_path: Path
) -> None:
    """Spark calls `partitions` straight from its log after a kill between sink and commit log, in a new process."""
    run(spark, journal, tmp_path / "table", maxRowsPerTrigger="60")
    checkpoint = tmp_path / "replayed.checkpoint"
    shutil.copytree(tmp_path / "table.checkpoint", checkpoint)
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    generate_journal(
        journal, Kind.DEAD_LETTER, segments=1, rows=5, lane="A.DLQ"
    )  # latestOffset would continue with this segment

    query = run(spark, journal, tmp_path / "replayed", maxRowsPerTrigger="1000")  # another table, to show the new rows

    shutil.rmtree(tmp_path / "replayed" / "_spark_metadata")  # it has no batch 0, so Spark cannot read it
    first = lanes(json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[-1]))
    assert [40, 5] == [progress.numInputRows for progress in query.recentProgress]
    assert [each for each in every_row(journal) if each[1] > first[each[0]]] == rows(spark, tmp_path / "replayed")


def test_the_last_batch_is_acknowledged_by_the_next_run_because_spark_never_commits_it(
    spark: SparkSession, journal: Path, tmp_path: Path
) -> None:
    run(spark, journal, tmp_path / "table", consumer="bronze", maxRowsPerTrigger="60")
    run(spark, journal, tmp_path / "table", consumer="bronze")

    found = Consumers(Journal.open(journal)).find("bronze")
    assert found is not None
    assert {"A.DLQ": 3, "B.DLQ": 2} == found.offsets


def test_the_start_of_latest_offset_acknowledges_the_segments_read_and_can_be_repeated(journal: Path) -> None:
    reader = reader_of(journal, consumer="c")
    consumers = Consumers(Journal.open(journal))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert {} == getattr(consumers.find("c"), "offsets", None)  # registered, and nothing is read yet

    restarted = reader_of(journal, consumer="c")
    restarted.latestOffset(end, ReadAllAvailable())
    restarted.commit(end)
    restarted.latestOffset(end, ReadAllAvailable())

    assert lanes(end) == getattr(consumers.find("c"), "offsets", None)


def test_a_second_query_under_the_same_name_is_refused_instead_of_missing_what_was_trimmed(journal: Path) -> None:
    first = reader_of(journal, consumer="c")
    end = first.latestOffset(first.initialOffset(), ReadMaxRows(40))
    first.commit(end)

    second = reader_of(journal, consumer="c", startingSegment="1")
    second.latestOffset(second.initialOffset(), ReadAllAvailable())
    with pytest.raises(ConsumerError, match="cannot go back"):
        Consumers(Journal.open(journal)).commit("c", {"A.DLQ": lanes(end)["A.DLQ"] - 1})


def test_segments_that_were_trimmed_before_they_were_read_stop_the_query(journal: Path) -> None:
    reader = reader_of(journal)
    start = reader.initialOffset()
    consumers = Consumers(Journal.open(journal))
    consumers.commit("other", {"A.DLQ": 2, "B.DLQ": 2})
    consumers.trim()

    with pytest.raises(MissingSegmentError, match="were trimmed"):
        reader.latestOffset(start, ReadAllAvailable())


def test_a_journal_from_an_older_copy_stops_the_query_because_its_next_rows_would_be_skipped(
    journal: Path, tmp_path: Path
) -> None:
    shutil.copytree(journal, tmp_path / "older")
    generate_journal(journal, Kind.DEAD_LETTER, segments=1, rows=5, lane="A.DLQ")
    reader = reader_of(journal)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())

    with pytest.raises(LaneError, match=r"A\.DLQ up to 4, and the last segment in the journal is 3\. The journal lost"):
        reader_of(tmp_path / "older").latestOffset(end, ReadAllAvailable())


def make_again(journal: Path, lane: str, segments: int) -> None:
    """Remove a lane as docs/landing.md says, and make it again with other rows."""
    shutil.rmtree(journal / "lanes" / lane)
    (journal / "heads" / f"{lane}.json").unlink()
    generate_journal(journal, Kind.DEAD_LETTER, segments=segments, rows=7, lane=lane, seed=9)


def test_a_lane_that_was_removed_and_made_again_stops_the_query_although_it_is_longer_now(journal: Path) -> None:
    reader = reader_of(journal, consumer="c")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    make_again(journal, "A.DLQ", 5)

    steps = (reader.latestOffset, end, ReadAllAvailable()), (reader.partitions, start, end), (reader.commit, end)
    for step, *arguments in steps:
        with pytest.raises(LaneError, match=r"segments of an earlier lane A\.DLQ: the lane was removed and created again"):
            step(*arguments)
    assert 0 == Consumers(Journal.open(journal)).register("c").offsets.get("A.DLQ", 0)
    assert {"A.DLQ": 5, "B.DLQ": 2} == lanes(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))


def test_the_checkpoint_of_an_older_mqflow_goes_on_and_knows_the_lanes_from_then_on(journal: Path) -> None:
    reader = reader_of(journal)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    older = {name: value for name, value in end.items() if name != "identities"}

    assert end != older
    assert end == reader.latestOffset(older, ReadAllAvailable())


def test_a_query_waits_for_a_first_segment_that_is_not_there_yet(journal: Path) -> None:
    reader = reader_of(journal, startingSegment="4", consumer="c")
    start = reader.initialOffset()
    assert start == reader.latestOffset(start, ReadAllAvailable())

    generate_journal(journal, Kind.DEAD_LETTER, segments=1, rows=5, lane="A.DLQ")

    assert {"A.DLQ": 4, "B.DLQ": 3} == lanes(reader.latestOffset(start, ReadAllAvailable()))


def test_a_new_query_begins_at_the_first_segment_that_is_still_there(journal: Path) -> None:
    consumers = Consumers(Journal.open(journal))
    consumers.commit("other", {"A.DLQ": 2})
    consumers.trim()

    assert {"A.DLQ": 2, "B.DLQ": 0} == lanes(reader_of(journal).initialOffset())


def test_available_now_ends_at_what_was_there_when_it_began(journal: Path) -> None:
    reader = reader_of(journal)
    reader.prepareForTriggerAvailableNow()
    generate_journal(journal, Kind.DEAD_LETTER, segments=1, rows=5, lane="A.DLQ")
    generate_journal(journal, Kind.DEAD_LETTER, segments=1, rows=5, lane="NEW")

    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())

    assert {"A.DLQ": 3, "B.DLQ": 2} == {lane: number for lane, number in lanes(end).items() if number}
    assert end == reader.latestOffset(end, ReadAllAvailable())


def test_a_trigger_that_wants_everything_gets_it_whatever_the_options_say(journal: Path) -> None:
    reader = reader_of(journal, maxRowsPerTrigger="20")

    assert ReadMaxRows(20) == reader.getDefaultReadLimit()
    assert {"A.DLQ": 3, "B.DLQ": 2} == lanes(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))


def test_spark_learns_of_a_limit_of_bytes_alone(journal: Path) -> None:
    reader = reader_of(journal, maxBytesPerTrigger="1")

    assert ReadMaxBytes(1) == reader.getDefaultReadLimit()
    assert {"A.DLQ": 1, "B.DLQ": 0} == lanes(reader.latestOffset(reader.initialOffset(), ReadMaxBytes(1)))


def test_the_backlog_is_reported_in_rows_and_seconds(journal: Path) -> None:
    reader = reader_of(journal)
    before = reader.reportLatestOffset()
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    after = reader.reportLatestOffset()

    assert (100, 0) == (before["backlog_rows"], after["backlog_rows"])
    assert 0 <= before["backlog_seconds"]
    assert 0 == after["backlog_seconds"]


def test_a_stream_can_begin_at_the_end(journal: Path) -> None:
    assert {"A.DLQ": 3, "B.DLQ": 2} == lanes(reader_of(journal, startingSegment="latest").initialOffset())


def test_an_empty_lane_gives_an_empty_range(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "journal")
    journal.add_lane("A", Kind.PAYLOAD, queue="A", queue_manager="QM1")
    reader = reader_of(tmp_path / "journal", kind="payload")
    start = reader.initialOffset()

    assert start == reader.latestOffset(start, ReadAllAvailable())
    assert [] == reader.partitions(start, start)


def test_a_checkpoint_of_another_journal_is_refused(spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    run(spark, journal, tmp_path / "table")
    other = tmp_path / "other"
    generate_journal(other, Kind.DEAD_LETTER, segments=9, rows=1, lane="A.DLQ")

    with pytest.raises(StreamingQueryException, match=r"checkpoint belongs to journal"):
        run(spark, other, tmp_path / "table")
    with pytest.raises(ForeignOffsetError):
        reader_of(other).partitions(reader_of(journal).initialOffset(), reader_of(other).initialOffset())
