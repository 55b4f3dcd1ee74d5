"""`journal_frame`: the same rows as the Python source, read by Spark's own scan, and nothing of a segment that is not sound."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from mqflow.journal import Journal, Kind, SchemaError, TornSegmentError, read_table
from mqflow.journal.schemas import ddl
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.pipeline.payload import payload_of
from mqflow.pipeline.sources.journal_frame import journal_frame
from mqflow.testing.journals import add_segment, generate_journal, invented
from mqflow.verbs import Got
from tests.journal.files import exchange, path_of
from tests.journal.old_segments import add_old_segment


def rows_of(frame: DataFrame) -> list[dict[str, object]]:
    return sorted(frame.toArrow().to_pylist(), key=lambda row: (row["lane"], row["segment"], row["ordinal"]))


def plan_of(frame: DataFrame) -> str:
    java: Any = frame._jdf  # Any: py4j has no types
    return str(java.queryExecution().executedPlan())


@pytest.mark.parametrize("kind", Kind)
def test_the_scan_gives_the_rows_and_types_of_the_segments(spark: SparkSession, tmp_path: Path, kind: Kind) -> None:
    """Also from a folder whose name is a pattern, and with a put time of the Julian calendar."""
    lane = generate_journal(tmp_path / "a[b]{c}* d%2F", kind, segments=2, rows=60, lane="X/Y")
    early = MessageDescriptor(put_date="14920101", put_time="10000000")
    add_segment(lane, [Got(descriptor=early, body=b"early", data_bytes=5)])
    segments = lane.all_segments()

    frame = journal_frame(spark, Journal.open(lane.journal), kind, segments)

    assert spark.createDataFrame([], ddl(kind)).schema == frame.schema
    assert ("FileScan parquet" in plan_of(frame), "MapInArrow" in plan_of(frame)) == (True, False)
    assert [row for segment in segments for row in read_table(segment, kind).to_pylist()] == rows_of(frame)


def test_only_the_asked_segments_are_read(spark: SparkSession, tmp_path: Path) -> None:
    lane = generate_journal(tmp_path / "journal", Kind.PAYLOAD, segments=5, rows=4)
    journal = Journal.open(lane.journal)

    some = journal_frame(spark, journal, Kind.PAYLOAD, lane.segments(after=1, through=3))
    none = journal_frame(spark, journal, Kind.PAYLOAD, ())

    assert {2, 3} == {row["segment"] for row in rows_of(some)}
    assert ([], ddl(Kind.PAYLOAD).split(", ")[0]) == (rows_of(none), f"{none.columns[0]} string")


def test_segments_of_older_versions_are_read_with_null_in_new_columns(spark: SparkSession, tmp_path: Path) -> None:
    lane = generate_journal(tmp_path / "journal", Kind.PAYLOAD, segments=1, rows=4)
    add_old_segment(lane, invented(Kind.PAYLOAD, 4, seed=2))
    add_old_segment(lane, invented(Kind.PAYLOAD, 4, seed=3), version="0", without=["rfh2", "user_id"])
    add_segment(lane, invented(Kind.PAYLOAD, 4, seed=4))

    rows = rows_of(journal_frame(spark, Journal.open(lane.journal), Kind.PAYLOAD, lane.all_segments()))

    assert [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4 == [row["segment"] for row in rows]
    assert [False] * 8 + [True] * 4 + [False] * 4 == [row["user_id"] is None for row in rows]


def test_a_limited_payload_leaves_no_body(spark: SparkSession, tmp_path: Path) -> None:
    lane = generate_journal(tmp_path / "journal", Kind.PAYLOAD, segments=2, rows=4)

    frame = journal_frame(spark, Journal.open(lane.journal), Kind.PAYLOAD, lane.all_segments(), payload=payload_of("hash"))

    assert [(None, True)] * 8 == [(row["body"], row["body_sha256"] is not None) for row in rows_of(frame)]


def test_a_damaged_or_renamed_segment_is_refused_before_a_row_is_read(spark: SparkSession, tmp_path: Path) -> None:
    lane = generate_journal(tmp_path / "journal", Kind.PAYLOAD, segments=3, rows=4)
    journal = Journal.open(lane.journal)
    path = path_of(lane.all_segments()[1])
    data = path.read_bytes()

    path.write_bytes(data[:-9] + b"x" + data[-8:])
    with pytest.raises(TornSegmentError, match="is damaged"):
        journal_frame(spark, journal, Kind.PAYLOAD, lane.all_segments())
    segments = lane.all_segments()
    path.unlink()
    with pytest.raises(TornSegmentError, match="the file does not exist"):
        journal_frame(spark, journal, Kind.PAYLOAD, segments)
    third = lane.segments(after=2)[0]
    path_of(third).with_name(f"000000000002{third.name[12:]}").write_bytes(path_of(third).read_bytes())
    with pytest.raises(TornSegmentError, match="it holds segment 3 of lane payload, not 2"):
        journal_frame(spark, journal, Kind.PAYLOAD, lane.all_segments())
    with pytest.raises(SchemaError, match="it holds payload of schema version 1, not dead_letter"):
        journal_frame(spark, journal, Kind.DEAD_LETTER, [replace(third)])


@pytest.mark.parametrize(
    ("damage", "said"), [("journal", "it comes from the journal"), ("history", "it follows a segment of 4 rows with checksum")]
)
def test_a_sound_segment_that_does_not_belong_to_the_lane_is_refused(
    spark: SparkSession, tmp_path: Path, damage: str, said: str
) -> None:
    """Also the first segment of a run: the segment before it is in a table already, or was trimmed."""
    lane = generate_journal(tmp_path / "journal", Kind.PAYLOAD, segments=3, rows=4)
    journal_frame(spark, Journal.open(lane.journal), Kind.PAYLOAD, lane.segments(after=1))
    exchange(lane.all_segments()[1], damage, tmp_path)
    after = 1 if damage == "journal" else 2

    with pytest.raises(TornSegmentError, match=said):
        journal_frame(spark, Journal.open(lane.journal), Kind.PAYLOAD, lane.segments(after=after))
    lane.note(trimmed=lane.all_segments()[after - 1])
    lane.remove_trimmed()
    with pytest.raises(TornSegmentError, match=said):
        journal_frame(spark, Journal.open(lane.journal), Kind.PAYLOAD, lane.all_segments())


def test_a_frame_of_many_segments_starts_no_job_that_looks_at_them(spark: SparkSession, tmp_path: Path) -> None:
    lane = generate_journal(tmp_path / "journal", Kind.PAYLOAD, segments=33, rows=1)
    before = spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold")

    spark.sparkContext.setJobGroup("the frame", "only what the frame itself starts")
    frame = journal_frame(spark, Journal.open(lane.journal), Kind.PAYLOAD, lane.all_segments())
    jobs = list(spark.sparkContext.statusTracker().getJobIdsForGroup("the frame"))
    spark.sparkContext.setJobGroup("", "")

    assert ([], 33) == (jobs, frame.count())
    assert before == spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold")
