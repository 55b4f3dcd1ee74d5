"""Segments name the segment before them, records name the last one, and older schema versions stay readable."""

import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.journal import Consumers, Journal, Kind, Lane, MissingSegmentError, SchemaError, TornSegmentError, read_table
from mqflow.journal.heads import read_head
from mqflow.journal.segment_chain import NOTHING, FoundSegment, Rewrite, Tip, findings
from mqflow.journal.segment_data import Contents, Link, checksum, encode, inspect
from mqflow.journal.verification import verify_journal
from mqflow.testing.journals import add_segment, generate_journal, invented
from tests.journal.files import path_of
from tests.journal.old_segments import add_old_segment

KIND = Kind.PAYLOAD


@pytest.fixture
def lane(tmp_path: Path) -> Lane:
    return generate_journal(tmp_path / "journal", KIND, segments=3, rows=5, lane="L")


def texts(lane: Lane) -> list[str]:
    return [finding.text for one in verify_journal(Journal.open(lane.journal)) for finding in one.findings]


# -- links and records


@given(st.binary())
def test_the_checksum_is_the_same_on_a_machine_with_another_library(data: bytes) -> None:
    assert zlib.crc32(data) == checksum(data)


def test_a_segment_names_its_journal_its_lane_and_the_segment_before_it(lane: Lane) -> None:
    segments = lane.all_segments()

    links = [inspect(path_of(each).read_bytes(), KIND, where="x").link for each in segments]

    before = [(0, 0), *((each.rows, each.crc) for each in segments)]
    assert [
        Link(journal=Journal.open(lane.journal).id, lane="L", number=number + 1, rows_before=rows, crc_before=crc)
        for number, (rows, crc) in enumerate(before[:3])
    ] == links


def test_the_head_record_names_the_last_segment(lane: Lane) -> None:
    head = read_head(lane.journal, "L")

    assert head is not None
    assert lane.all_segments()[-1].tip == head.tip == lane.tip


def test_a_reader_without_the_last_segments_gets_an_error_and_not_less_rows(lane: Lane) -> None:
    for segment in lane.segments(after=1):
        path_of(segment).unlink()

    with pytest.raises(MissingSegmentError, match="Lane L has no segments 2 to 3"):
        lane.all_segments()
    with pytest.raises(MissingSegmentError, match="Lane L has no segments 2 to 3"):
        lane.segments(after=1)


def test_a_head_record_that_cannot_be_written_stops_no_landing(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse)
        add_segment(lane, invented(KIND, 2, seed=1))

    assert 4 == lane.last
    assert [] == texts(lane)


def test_a_segment_under_the_number_of_another_is_refused_by_readers(lane: Lane) -> None:
    one, two, _ = lane.all_segments()
    path_of(two).unlink()
    path_of(two).with_name(f"000000000002{one.name[12:]}").write_bytes(path_of(one).read_bytes())

    with pytest.raises(TornSegmentError, match="it holds segment 1 of lane L, not 2 of L"):
        read_table(lane.all_segments()[1], KIND)


def test_a_trim_keeps_the_chain(lane: Lane) -> None:
    consumers = Consumers(Journal.open(lane.journal))
    last = lane.all_segments()[1]
    for number in (2, 3):
        consumers.commit("reader", {"L": number})
        consumers.trim()
        assert [] == texts(lane)
        if number == 2:
            assert last.tip == lane.trimmed_tip

    add_segment(lane, invented(KIND, 2, seed=1))

    assert [] == texts(lane)
    assert [4] == [segment.number for segment in lane.all_segments()]


# -- decisions


def found(number: int, *, before: tuple[int, int] | None, crc: int = 0, rows: int = 5, journal: str = "J") -> FoundSegment:
    link = None
    if before is not None:
        link = Link(journal=journal, lane="L", number=number, rows_before=before[0], crc_before=before[1])
    crc = crc or number * 11
    contents = Contents(rows=rows, lane="L", number=number, link=link)
    return FoundSegment(file=f"{number}-{crc}", number=number, rows=rows, crc=crc, crc_of_bytes=crc, contents=contents)


ONE, TWO, THREE = (found(1, before=(0, 0)), found(2, before=(5, 11)), found(3, before=(5, 22)))
TIP = Tip(number=3, rows=5, crc=33)


@pytest.mark.parametrize(
    ("files", "records", "expected"),
    [
        ([ONE, TWO, THREE], {"head": TIP}, []),
        ([ONE, TWO, THREE], {"head": TIP, "marker": TIP}, []),
        ([ONE, TWO, THREE], {}, []),  # a head record of a killed lander
        ([ONE, TWO], {"head": TIP}, [(3, 3)]),
        ([ONE, TWO], {"marker": TIP}, [(3, 3)]),  # the head record is lost too
        ([], {"head": TIP}, [(1, 3)]),
        ([ONE, TWO, THREE], {"marker": Tip(number=2, rows=5, crc=22)}, [(3, 3)]),
        ([ONE, found(2, before=(5, 11), crc=99), THREE], {"head": TIP}, [(2, 2)]),
        ([ONE, TWO, found(3, before=(5, 22), crc=99)], {"head": TIP}, [(3, 3)]),
        ([ONE, TWO, found(3, before=(5, 22), crc=99)], {"marker": TIP}, [(3, 3)]),
        ([ONE, TWO, found(2, before=(5, 11), crc=99), THREE], {}, [(2, 2)]),
        ([found(1, before=(0, 0), journal="K"), TWO], {}, [(1, 1)]),
        ([TWO, THREE], {"trimmed": Tip(number=1, rows=5, crc=11)}, []),
        ([TWO, THREE], {"trimmed": Tip(number=1, rows=5, crc=12)}, [(2, 2)]),
        ([TWO, THREE], {"trimmed": Tip(number=1)}, []),  # an older mqflow trimmed it
        ([found(1, before=None), TWO], {}, []),  # an older mqflow wrote the first
        ([found(1, before=None, crc=99), TWO], {}, [(1, 1)]),
        (
            [ONE, found(2, before=(5, 11), crc=77, rows=4), THREE],
            {"rewrites": [Rewrite(number=2, rows_before=5, crc_before=22, rows=4, crc=77)]},
            [],
        ),
        (
            [ONE, found(2, before=(5, 11), crc=77, rows=4), THREE],
            {"rewrites": [Rewrite(number=2, rows_before=5, crc_before=22, rows=4, crc=78)]},
            [(2, 2)],
        ),
    ],
)
def test_the_records_and_the_segments_must_fit_together(
    files: list[FoundSegment], records: dict[str, object], expected: list[tuple[int, int]]
) -> None:
    damages = findings("J", "L", files, **{"head": NOTHING, **records})  # type: ignore[arg-type]  # each row has its records

    assert expected == [(damage.first, damage.last) for damage in damages]


# -- other versions of mqflow


def test_a_journal_with_segments_of_an_older_mqflow_is_read_and_verified(lane: Lane) -> None:
    old = Journal.open(lane.journal).add_lane("OLD", KIND, queue="OLD", queue_manager="QM1")
    add_old_segment(old, invented(KIND, 4, seed=1))
    add_old_segment(old, invented(KIND, 4, seed=2))
    add_segment(old, invented(KIND, 4, seed=3))

    bodies = [read_table(each, KIND)["body"].to_pylist() for each in old.all_segments()]

    assert [[got.body for got in invented(KIND, 4, seed=seed)] for seed in (1, 2, 3)] == bodies
    assert [] == texts(lane)
    path_of(old.all_segments()[1]).write_bytes(b"")
    assert 1 == len(texts(lane))


def test_the_columns_that_an_older_schema_version_does_not_have_are_null(lane: Lane) -> None:
    add_old_segment(lane, invented(KIND, 4, seed=1), version="0", without=["rfh2", "user_id"])

    table = read_table(lane.all_segments()[-1], KIND)

    assert read_table(lane.all_segments()[0], KIND).schema == table.schema
    assert ([None] * 4, [None] * 4) == (table["rfh2"].to_pylist(), table["user_id"].to_pylist())
    assert [got.body for got in invented(KIND, 4, seed=1)] == table["body"].to_pylist()
    assert [None] * 4 == read_table(lane.all_segments()[-1], KIND, ["user_id"])["user_id"].to_pylist()


@pytest.mark.parametrize(
    ("version", "without", "sentence"),
    [
        ("1", ["rfh2"], "its columns differ from those of payload: no rfh2"),
        ("7", [], "mqflow unknown wrote it with schema version 7; this mqflow reads versions up to 1"),
        ("x", [], "it holds payload of schema version x, not payload of 1"),
        ("9" * 5_000, [], "it holds payload of schema version 9{40}, not payload of 1"),
        (b"\xff", [], "it holds payload of schema version \N{REPLACEMENT CHARACTER}, not payload of 1"),
    ],
)
def test_a_newer_or_a_wrong_segment_is_refused(version: str | bytes, without: list[str], sentence: str, lane: Lane) -> None:
    add_old_segment(lane, invented(KIND, 4, seed=1), version=version, without=without)

    with pytest.raises(SchemaError, match=sentence):
        read_table(lane.all_segments()[-1], KIND)


def test_an_unknown_column_is_refused_also_in_an_older_version(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    link = lane.link_after(lane.tip)
    with monkeypatch.context() as newer:  # the version that writes has one column more
        import pyarrow as pa  # noqa: PLC0415 - one use

        from mqflow.journal import arrow_schema, segment_data  # noqa: PLC0415 - one use

        schema = arrow_schema(KIND).append(pa.field("mood", pa.string()))
        newer.setattr(segment_data, "arrow_schema", lambda _: schema)
        newer.setattr(segment_data, "SCHEMA_VERSION", 0)
        data = encode(KIND, {name: [None] for name in schema.names}, link).data

    with pytest.raises(SchemaError, match="its columns differ from those of payload: mood string"):
        inspect(data, KIND, where="x")
    with pytest.raises(TornSegmentError):
        inspect(data[:-20], KIND, where="x")
