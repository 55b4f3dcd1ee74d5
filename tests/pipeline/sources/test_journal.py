"""A real Spark reads `mqflow_journal` in batches."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own pages have it
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, LessThanOrEqual, StringStartsWith
from pyspark.sql.types import StructType

from mqflow.journal import Journal, Kind, arrow_schema
from mqflow.journal.errors import LaneError
from mqflow.pipeline import OptionError
from mqflow.pipeline.sources.journal import JournalSource
from mqflow.testing.journals import generate_journal
from tests.journal.files import path_of

#: Spark parses a schema in its JVM, even if the test needs no query.
pytestmark = pytest.mark.usefixtures("spark")


def read(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("mqflow_journal").options(**options).load(str(path))


def positions(found: DataFrame) -> list[tuple[str, int, int]]:
    return sorted((row.lane, row.segment, row.ordinal) for row in found.select("lane", "segment", "ordinal").collect())


def source(path: Path, **options: str) -> JournalSource:
    return JournalSource({"path": str(path), **options})


def test_every_message_of_every_lane_is_read_once(spark: SparkSession, journal: Path) -> None:
    expected = [(lane, n, at) for lane, last in (("A.DLQ", 3), ("B.DLQ", 2)) for n in range(1, last + 1) for at in range(20)]

    assert expected == positions(read(spark, journal))


@pytest.mark.parametrize("kind", Kind)
def test_the_columns_of_every_kind_arrive_with_their_types(spark: SparkSession, tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / "journal"
    generate_journal(path, kind, segments=1, rows=60)

    found = read(spark, path, kind=kind).toArrow()

    assert [(field.name, field.type) for field in arrow_schema(kind)] == [(field.name, field.type) for field in found.schema]
    assert 60 == found.num_rows


def test_a_large_batch_leaves_in_slices_and_a_row_that_is_larger_than_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate_journal(tmp_path / "journal", Kind.DEAD_LETTER, segments=2, rows=50, body_bytes=1_000)
    asked = source(tmp_path / "journal", columns="segment,ordinal,body")
    schema: Any = StructType.fromDDL(asked.schema())
    reader: Any = asked.reader(schema)

    for size, slices in ((1024 * 1024, 2), (10_000, 2 * 7), (1, 2 * 50)):  # an MQDLH and a body: eight in 10 KB
        monkeypatch.setattr("mqflow.pipeline.sources.segment_rows._BATCH_BYTES", size)
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]

        assert slices == len(batches)
        rows = [(row["segment"], row["ordinal"]) for batch in batches for row in batch.to_pylist()]
        assert [(segment, at) for segment in (1, 2) for at in range(50)] == rows


def test_the_jvm_does_not_check_arrow_twice_with_any_other_options(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm

    assert "-XX:+UseSerialGC" in (spark.conf.get("spark.driver.extraJavaOptions") or "")
    for name, value in (("enable_unsafe_memory_access", "true"), ("enable_null_check_for_get", "false")):
        assert value == jvm.System.getProperty(f"arrow.{name}")


def test_a_filter_is_evaluated_by_spark_where_it_is_pushed_and_where_not(spark: SparkSession, journal: Path) -> None:
    wanted = (F.col("lane") == "A.DLQ") & (F.col("segment") > 1) & (F.col("ordinal") < 5)
    expected = [("A.DLQ", n, at) for n in (2, 3) for at in range(5)]

    assert expected == positions(read(spark, journal).where(wanted))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert expected == positions(read(spark, journal, pushdown="true").where(wanted))
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], 5),
        ([EqualTo(("lane",), "A.DLQ")], 3),
        ([In(("lane",), ("B.DLQ", "C"))], 2),
        ([GreaterThan(("segment",), 1), LessThanOrEqual(("segment",), 2)], 2),
        ([EqualTo(("qmgr",), "nobody"), StringStartsWith(("lane",), "Z")], 5),  # Spark filters the rows
    ],
)
def test_pushed_filters_leave_out_segments_that_cannot_match(journal: Path, filters: list[Filter], expected: int) -> None:
    reader = source(journal, pushdown="true").reader(schema_of(journal))

    assert filters == list(reader.pushFilters(filters))
    parts: Sequence[Any] = reader.partitions()
    assert expected == sum(len(part.segments) for part in parts)


def schema_of(path: Path, **options: str) -> Any:
    from pyspark.sql.types import StructType  # noqa: PLC0415 - one use

    return StructType.fromDDL(source(path, **options).schema())


def test_a_reader_has_no_push_filters_by_default(journal: Path) -> None:
    """Spark refuses every query of a reader that defines it if pushdown is off (DATA_SOURCE_PUSHDOWN_DISABLED)."""
    assert (
        type(source(journal).reader(schema_of(journal))).pushFilters
        is not type(source(journal, pushdown="true").reader(schema_of(journal))).pushFilters
    )


def test_columns_and_payload_choose_what_leaves_the_journal(spark: SparkSession, journal: Path) -> None:
    found = read(spark, journal, columns="body,segment", payload="head:4", lanes="B.DLQ", startingSegment="2").collect()

    assert ["body", "segment"] == found[0].__fields__
    assert ({2}, {4}) == ({row.segment for row in found}, {len(row.body) for row in found})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"columns": "lane,boddy"}, "has no column boddy"),
        ({"kind": "letters"}, "kind='letters' is not known. Use one of: disposition"),
        ({"startingSegment": "0"}, "not earliest, latest or a number"),
        ({"startingSegment": "9" * 5_000}, "not earliest, latest or a number"),
        ({"startingSegment": "latest"}, "latest works for streams"),
        ({"lanes": "A.DLQ", "kind": "payload"}, "lane A.DLQ of .* holds dead_letter, not payload"),
        ({"segments": "A.DLQ"}, "segments='A.DLQ' is not JSON like"),
    ],
)
def test_an_option_that_does_not_fit_says_what_would(journal: Path, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        source(journal, **options).reader(schema_of(journal, **options)).partitions()


@pytest.mark.parametrize("options", [{}, {"kind": "dead_letter"}], ids=["any kind", "a kind"])
def test_a_lane_that_does_not_exist_is_answered_with_those_that_do(journal: Path, options: dict[str, str]) -> None:
    asked = {"lanes": "NONE,A.DLQ", **options}

    with pytest.raises(LaneError, match=r"has no lane 'NONE'\. It has: A\.DLQ, B\.DLQ"):
        source(journal, **asked).reader(schema_of(journal, **asked)).partitions()


def test_a_journal_of_several_kinds_asks_which(journal: Path) -> None:
    generate_journal(journal, Kind.PAYLOAD, segments=1, rows=1)

    with pytest.raises(OptionError, match=r"has dead_letter, payload\. Set the option 'kind' to one of: "):
        source(journal).schema()


def plant_version(path: Path) -> None:
    file = path / "journal.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": 99}))


def plant_torn(path: Path) -> None:
    segment = path_of(Journal.open(path).lane("A.DLQ").all_segments()[1])
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)


def plant_gap(path: Path) -> None:
    path_of(Journal.open(path).lane("A.DLQ").all_segments()[1]).unlink()


def plant_kind(path: Path) -> None:
    ours = path_of(Journal.open(path).lane("A.DLQ").all_segments()[1])
    foreign = path_of(generate_journal(path.parent / "other", Kind.PAYLOAD, segments=2, rows=20).all_segments()[1])
    ours.unlink()
    (ours.parent / foreign.name).write_bytes(foreign.read_bytes())


@pytest.mark.parametrize(
    ("plant", "sentence"),
    [
        (plant_version, "is of version 99; this mqflow knows versions up to 1"),
        (plant_torn, "is damaged"),
        (plant_gap, "Lane A.DLQ has no segment 2"),
        (plant_kind, "it holds payload of schema version 1, not dead_letter"),
    ],
)
def test_a_journal_that_cannot_be_read_whole_fails_the_query_with_a_sentence(
    spark: SparkSession, journal: Path, plant: Any, sentence: str
) -> None:
    plant(journal)

    with pytest.raises(PySparkException, match=sentence):
        read(spark, journal).count()


def test_no_secret_reaches_a_plan(spark: SparkSession, journal: Path) -> None:
    with pytest.raises(PySparkException) as caught:
        read(spark, journal, password="hunter2")  # noqa: S106 - planted

    assert "Spark shows options in plans" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_parts_of_a_read_are_as_many_as_asked(journal: Path) -> None:
    parts: Sequence[Any] = source(journal, minPartitions="5").reader(schema_of(journal)).partitions()

    assert 5 == len(parts)
