"""The bounds of the columns in the log: a filter finds the same rows as without them, and a reader leaves out other files."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, create_table_with_add_actions
from hypothesis import given
from hypothesis import strategies as st

from mqflow.folders import folder_at
from mqflow.pipeline.delta import commit
from mqflow.pipeline.delta.column_bounds import Bounds
from mqflow.pipeline.delta.files import WrittenFile, write_files

EARLY, LATE = datetime(1, 1, 1), datetime(9990, 1, 1)  # noqa: DTZ001 - hypothesis adds the zone
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.int32(), st.integers(-5, 5)),
    "number": (pa.float64(), st.floats()),
    "yes": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(max_size=3) | st.text(min_size=63, max_size=70)),
    "day": (pa.date32(), st.dates()),
    "moment": (pa.timestamp("us", "UTC"), st.datetimes(EARLY, LATE, timezones=st.just(UTC))),
    "local": (pa.timestamp("us"), st.datetimes(EARLY, LATE)),
    "body": (pa.binary(), st.binary(max_size=3)),
    "parts": (pa.list_(pa.int64()), st.lists(st.integers(0, 5), max_size=2)),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
ROW = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()})


def written(folder: Path, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> list[WrittenFile]:
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    return write_files(folder_at(folder), schema, [], iter([batch]), prefix="part")


def logged(folder: Path, files: list[WrittenFile], schema: pa.Schema = SCHEMA) -> DeltaTable:
    """Return a new table of these files, with the statistics that a commit writes for them."""
    actions = [AddAction(each.path, each.size_bytes, {}, 0, True, commit._statistics(each)) for each in files]
    create_table_with_add_actions(str(folder), Schema.from_arrow(schema), actions, "overwrite", [])
    return DeltaTable(folder)


@given(rows=st.lists(ROW, min_size=1, max_size=4))
def test_a_filter_on_any_column_finds_the_rows_that_it_finds_without_a_log(
    rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("table")

    found = logged(folder, written(folder, rows)).to_pyarrow_dataset()

    there = pa.Table.from_pylist(rows, schema=SCHEMA)
    for name in ("whole", "small", "number", "yes", "text", "day", "moment", "local"):
        column = pc.field(name)
        values = {row[name] for row in rows if row[name] is not None}
        conditions = [column.is_null(), column.is_valid()]
        conditions += [each for value in values for each in (column == value, column <= value, column >= value)]
        for condition in conditions:
            assert there.filter(condition).num_rows == found.count_rows(filter=condition), condition


def test_the_bounds_have_the_forms_of_the_log(tmp_path: Path) -> None:
    """Source: Delta, "Per-file Statistics": times have milliseconds, and a text may be shortened."""
    moment = datetime(2026, 1, 30, 16, 48, 0, 123_456, UTC)
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {
        "whole": 7, "text": "x" * 100, "day": date(2026, 1, 30), "moment": moment, "local": moment.replace(tzinfo=None),
    }  # fmt: skip

    [file] = written(tmp_path, [row, row | {"whole": None, "text": "b"}])

    least: dict[str, Any] = {"whole": 7, "text": "b", "day": "2026-01-30", "moment": "2026-01-30T16:48:00.123Z"}
    most = least | {"text": "x" * 64 + "\U0010ffff", "moment": "2026-01-30T16:48:00.124Z", "local": "2026-01-30T16:48:00.124"}
    nulls = {"whole": 1, "small": 2, "number": 2, "yes": 2, "text": 0, "day": 0, "moment": 0, "local": 0}
    assert Bounds(least | {"local": "2026-01-30T16:48:00.123"}, most, nulls) == file.bounds


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [1.0, float("inf")]),
        (pa.float64(), [float("nan")]),
        (pa.string(), ["a", "b" * 10_000]),
        (pa.decimal128(9, 2), [Decimal("1.25")]),
        (pa.timestamp("us", "UTC"), [datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)]),
        (pa.timestamp("us", "UTC"), pa.array([2**62]).cast(pa.timestamp("us", "UTC"))),
        (pa.date32(), pa.array([10**7], pa.int32()).cast(pa.date32())),
    ],
)
def test_a_file_with_a_column_whose_bounds_are_not_known_has_no_bounds(tmp_path: Path, kind: pa.DataType, values: Any) -> None:
    schema = pa.schema([("n", pa.int64()), ("odd", kind)])

    batch = pa.record_batch([pa.array([1] * len(values)), pa.array(values, kind)], schema=schema)
    files = write_files(folder_at(tmp_path), schema, [], iter([batch]), prefix="part")

    assert [None] == [file.bounds for file in files]
    assert len(values) == logged(tmp_path, files, schema).to_pyarrow_dataset().count_rows(filter=pc.field("n") == 1)


def test_a_reader_leaves_out_a_file_whose_bounds_match_no_row(tmp_path: Path) -> None:
    files = [*written(tmp_path / "a", [{"whole": 1}]), *written(tmp_path / "b", [{"whole": 2}])]
    found = logged(tmp_path, files).to_pyarrow_dataset()

    assert [] == list(found.get_fragments(pc.field("whole") > 2))
