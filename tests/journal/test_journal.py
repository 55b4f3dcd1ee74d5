"""The journal for readers and writers: segments are whole or absent, gaps are errors, and unread segments are kept."""

import errno
import json
import os
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.journal import (
    ConsumerError,
    Consumers,
    ForeignJournalError,
    Journal,
    JournalFullError,
    JournalVersionError,
    Kind,
    Lane,
    LaneError,
    MissingSegmentError,
    SchemaError,
    TornSegmentError,
    arrow_schema,
    check_segment,
    columns_of,
    ddl,
    read_table,
)
from mqflow.journal.rows import Position, columns
from mqflow.journal.segments import Written, publish, verify, write_pending
from mqflow.journal.verification import verify_journal
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.dead_letter import DeadLetterHeader, to_bytes
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome, many_to_bytes
from mqflow.testing.journals import START_US, add_segment, generate_journal, invented
from mqflow.verbs import Got
from tests.journal.files import path_of
from tests.journal.old_segments import add_old_segment

AT = Position(lane="L", segment=1, landed_us=START_US, queue="Q", queue_manager="QM1")


@pytest.fixture
def lane(tmp_path: Path) -> Lane:
    return generate_journal(tmp_path / "journal", Kind.DEAD_LETTER, segments=3, rows=20)


def journal_of(lane: Lane) -> Journal:
    return Journal.open(lane.journal)


@pytest.mark.parametrize("kind", Kind)
def test_rows_of_each_kind_are_read_again_with_their_columns(kind: Kind, tmp_path: Path) -> None:
    lane = generate_journal(tmp_path / "journal", kind, segments=2, rows=50)

    tables = [read_table(segment, kind) for segment in lane.all_segments()]

    assert [50, 50] == [table.num_rows for table in tables]
    assert all(table.schema.equals(arrow_schema(kind)) for table in tables)
    assert [column.name for column in columns_of(kind)] == tables[0].column_names
    assert [1] * 50 + [2] * 50 == [number for table in tables for number in table["segment"].to_pylist()]
    assert list(range(50)) == tables[1]["ordinal"].to_pylist()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [  # facts, section 5, Bronze
        (Kind.DISPOSITION, "disp_id string, event_ts timestamp, qmgr string, queue string, handler string"),
        (Kind.DISPOSITION, "schema_version int, lane string, segment long, ordinal int, landed_ts timestamp"),
        (Kind.DEAD_LETTER, "qmgr string, dlq string, has_dlh boolean, dlh_reason int, dlh_dest_q string"),
        (Kind.DEAD_LETTER, "backout_count int, feedback int, appl_identity_data string"),  # the fields FEEDBACK and APPLIDAT
        (Kind.DEAD_LETTER, "body binary, body_sha256 binary, body_truncated boolean"),
        (Kind.BACKOUT_MESSAGE, "boq string, source_queue string"),
        (Kind.PAYLOAD, "rfh2 map<string,string>, body binary"),
    ],
)
def test_the_columns_are_those_of_the_bronze_tables(kind: Kind, expected: str) -> None:
    assert expected in ddl(kind)


def test_a_reader_may_ask_for_some_columns_in_its_own_order(lane: Lane) -> None:
    table = read_table(lane.all_segments()[0], Kind.DEAD_LETTER, ["msg_id", "lane"])

    assert ["msg_id", "lane"] == table.column_names
    assert ["dead_letter"] * 20 == table["lane"].to_pylist()


def test_a_body_that_is_not_a_record_keeps_its_bytes(tmp_path: Path) -> None:
    lane = Journal.create(tmp_path / "j").add_lane("L", Kind.DISPOSITION, queue="Q", queue_manager="QM1")
    bodies = [b"", b"{", b'{"schema_version": 99, "disp_id": "x"}', b"\xff\xfe", b"[]"]

    add_segment(lane, [Got(descriptor=MessageDescriptor(), body=body, data_bytes=len(body)) for body in bodies])

    rows = read_table(lane.all_segments()[0], Kind.DISPOSITION).to_pylist()
    assert bodies == [row["raw"] for row in rows]
    assert [None] * 5 == [row["disp_id"] for row in rows]


@pytest.mark.parametrize(
    "odd",
    [
        {"backout_count": 2**31},
        {"msg_type": -(2**31) - 1},
        {"msg_len": 2**63},
        {"event_ts": 2**70},
        {"due_ts": 253_402_300_800_000_000},  # the year 10000: Spark supports it, and Python does not
        {"event_ts": 253_402_300_799_999_999},  # its window would end in the year 10000
        {"event_ts": -62_135_596_800_000_000},  # Python makes no local time of the first day of the year 1
    ],
    ids=str,
)
def test_a_record_whose_numbers_fit_no_column_is_in_nobodys_way(odd: dict[str, int], lane: Lane) -> None:
    """Any program can put a message on the record queue; one that cannot be written would block all later ones for ever."""
    said = {"disp_id": "x", "event_ts": 1, "qmgr": "QM1", "queue": "Q", "outcome": "committed"}
    unit = [Got(descriptor=MessageDescriptor(), body=json.dumps(one).encode(), data_bytes=0) for one in (said | odd, said)]
    dispositions = journal_of(lane).add_lane("D", Kind.DISPOSITION, queue="D", queue_manager="QM1")

    add_segment(dispositions, unit)

    rows = read_table(dispositions.all_segments()[0], Kind.DISPOSITION).to_pylist()
    assert [(unit[0].body, None), (None, "committed")] == [(row["raw"], row["outcome"]) for row in rows]


def test_a_message_of_several_records_is_a_row_for_each(tmp_path: Path) -> None:
    lane = Journal.create(tmp_path / "j").add_lane("L", Kind.DISPOSITION, queue="Q", queue_manager="QM1")
    one, two, three = (
        DispositionRecord(disp_id=name, event_ts=1, qmgr="QM1", queue="Q", outcome=RecordOutcome.COMMITTED)
        for name in ("one", "two", "three")
    )
    bodies = [many_to_bytes([one, two]), b"none", many_to_bytes([three])]

    add_segment(lane, [Got(descriptor=MessageDescriptor(), body=body, data_bytes=len(body)) for body in bodies])

    [segment] = lane.all_segments()
    rows = read_table(segment, Kind.DISPOSITION).to_pylist()
    assert 4 == segment.rows == len(rows)
    assert [0, 1, 2, 3] == [row["ordinal"] for row in rows]
    assert ["one", "two", None, "three"] == [row["disp_id"] for row in rows]
    assert [None, None, b"none", None] == [row["raw"] for row in rows]


@pytest.mark.parametrize("ccsid", [1208, 500])
@pytest.mark.parametrize("message_format", ["MQDEAD", "MQSTR"])
def test_a_dead_letter_is_landed_as_the_handler_sees_it(ccsid: int, message_format: str, tmp_path: Path) -> None:
    """The beginning of the data decides, in the character set of its descriptor; the columns have all fields of rules."""
    lane = Journal.create(tmp_path / "journal").add_lane("d", Kind.DEAD_LETTER, queue="DLQ", queue_manager="QM1")
    header = DeadLetterHeader(reason=2053, destination_queue="ORDERS.IN")
    descriptor = MessageDescriptor(
        format=message_format, ccsid=ccsid, encoding=273, feedback=260, application_identity_data="north"
    )
    body = to_bytes(header, encoding=273, ccsid=ccsid)

    add_segment(lane, [Got(descriptor=descriptor, body=body, data_bytes=len(body))])

    [row] = read_table(lane.all_segments()[0], Kind.DEAD_LETTER).to_pylist()
    assert (True, 2053, "ORDERS.IN") == (row["has_dlh"], row["dlh_reason"], row["dlh_dest_q"])
    assert (260, "north") == (row["feedback"], row["appl_identity_data"])


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400), st.sampled_from(["MQDEAD", "MQHRF2", "MQHMDE", "MQSTR", "MFLDISP", ""]), st.sampled_from(Kind))
def test_no_message_is_refused_and_every_body_is_kept(body: bytes, message_format: str, kind: Kind) -> None:
    got = Got(descriptor=MessageDescriptor(format=message_format), body=body, data_bytes=len(body))

    made = columns(kind, [got], AT)

    table = pa.table({field.name: pa.array(made[field.name], field.type) for field in arrow_schema(kind)})
    assert body in (table["raw" if kind is Kind.DISPOSITION else "body"].to_pylist())


def test_the_whole_descriptor_is_landed(tmp_path: Path) -> None:
    unit = invented(Kind.PAYLOAD, 5, seed=4)

    made = columns(Kind.PAYLOAD, unit, AT)

    assert [got.descriptor for got in unit] == [MessageDescriptor.from_bytes(data) for data in made["mqmd"]]


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_torn_segment_is_refused_by_name(cut: int, lane: Lane) -> None:
    segment = lane.all_segments()[1]
    path_of(segment).write_bytes(path_of(segment).read_bytes()[:cut])

    with pytest.raises(TornSegmentError, match=r"000000000002-20-.*is damaged"):
        read_table(segment, Kind.DEAD_LETTER)


def test_one_turned_bit_is_seen(lane: Lane) -> None:
    segment = lane.all_segments()[0]
    data = bytearray(path_of(segment).read_bytes())
    data[len(data) // 2] ^= 1
    path_of(segment).write_bytes(data)

    with pytest.raises(TornSegmentError, match="its name says"):
        read_table(segment, Kind.DEAD_LETTER)


def test_an_old_segment_without_rows_is_damaged_because_its_place_is_unknown(lane: Lane) -> None:
    add_old_segment(lane, [])

    with pytest.raises(TornSegmentError, match="it has no row, and so it does not say which segment it is"):
        check_segment(lane.all_segments()[-1], lane.kind)


def test_a_pending_segment_is_no_segment(lane: Lane) -> None:
    write_pending(lane.folder, lane.link_after(lane.tip), lane.kind, columns(lane.kind, invented(lane.kind, 3, seed=1), AT))

    assert 3 == lane.last
    assert 1 == len(lane.pending())


def test_publishing_twice_is_publishing_once(lane: Lane) -> None:
    written = write_pending(
        lane.folder, lane.link_after(lane.tip), lane.kind, columns(lane.kind, invented(lane.kind, 3, seed=1), AT)
    )

    assert publish(lane.folder, written) == publish(lane.folder, written)
    assert 4 == lane.last


def test_a_pending_segment_that_is_cut_short_is_not_verified(lane: Lane) -> None:
    written = write_pending(
        lane.folder, lane.link_after(lane.tip), lane.kind, columns(lane.kind, invented(lane.kind, 3, seed=1), AT)
    )
    lane.folder.write(written.pending, lane.folder.read(written.pending)[:-1])

    with pytest.raises(TornSegmentError):
        verify(lane.folder, written)
    with pytest.raises(TornSegmentError, match="it is not there"):
        verify(lane.folder, Written(5, 1, 1, 1))


def test_a_full_disk_leaves_nothing_behind_and_says_so(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(JournalFullError, match="back on their queue"):
        write_pending(lane.folder, lane.link_after(lane.tip), lane.kind, columns(lane.kind, invented(lane.kind, 3, seed=1), AT))

    assert () == lane.pending()


def test_a_gap_is_an_error_and_not_less_rows(lane: Lane) -> None:
    path_of(lane.all_segments()[1]).unlink()

    with pytest.raises(MissingSegmentError, match="no segment 2: its last segment is 3"):
        lane.segments()
    with pytest.raises(MissingSegmentError, match="no segments 4 to 9"):
        lane.segments(after=2, through=9)


def test_segments_are_given_between_two_numbers(lane: Lane) -> None:
    assert [2] == [segment.number for segment in lane.segments(after=1, through=2)]
    assert () == lane.segments(after=3)


def test_a_lane_name_may_hold_what_a_queue_name_may(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "j")

    for name in ("A/B%C", "..", ".", "A.B_C"):
        lane = journal.add_lane(name, Kind.PAYLOAD, queue=name, queue_manager="QM1")
        assert path_of(journal) / "lanes" == path_of(lane).parent
        assert name == journal.lane(name).name
    assert 4 == len(journal.lanes())


def test_a_lane_name_is_utf_8(lane: Lane) -> None:
    with pytest.raises(LaneError, match=r"'\\udcff' is not UTF-8, so it cannot be the name of a lane"):
        journal_of(lane).add_lane("\udcff", Kind.PAYLOAD, queue="A", queue_manager="QM1")


def test_a_copy_of_a_lane_beside_it_is_refused_and_its_rows_are_not_there_twice(lane: Lane) -> None:
    copy = path_of(lane).with_name("dead_letter.bak")
    shutil.copytree(path_of(lane), copy)

    with pytest.raises(LaneError, match=r"dead_letter\.bak says that it is lane dead_letter, .* copied or renamed"):
        journal_of(lane).lanes()


def test_a_lane_belongs_to_one_queue(lane: Lane) -> None:
    with pytest.raises(LaneError, match=r"holds dead_letter of INVENTED\.QUEUE"):
        journal_of(lane).add_lane("dead_letter", Kind.DEAD_LETTER, queue="OTHER", queue_manager="QM1")
    with pytest.raises(LaneError, match=r"no lane 'x'\. It has: dead_letter"):
        journal_of(lane).lane("x")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b'{"format":"mqflow-journal","version":2,"id":"x"}', JournalVersionError),
        (b'{"format":"other","version":1}', ForeignJournalError),
        (b"\xff", ForeignJournalError),
        (b"[]", ForeignJournalError),
    ],
)
def test_another_version_or_something_else_is_refused(content: bytes, error: type[Exception], lane: Lane) -> None:
    file = path_of(journal_of(lane)) / "journal.json"
    file.write_bytes(content)

    with pytest.raises(error, match=str(file.parent)):
        Journal.open(file.parent)


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")

    with pytest.raises(ForeignJournalError, match="something else"):
        Journal.create(tmp_path)
    with pytest.raises(ForeignJournalError, match=r"no journal\.json"):
        Journal.open(tmp_path)


@pytest.mark.parametrize("left", [(), ("lanes",), ("lanes", "consumers"), ("lanes", "consumers", ".journal.json.x1")])
def test_a_journal_whose_making_was_killed_is_made_by_the_next(left: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for name in left:
        if name.startswith("."):
            (path / name).touch()
        else:
            (path / name).mkdir(parents=True)

    assert Journal.create(path).id == Journal.open(path).id


def test_two_who_make_a_journal_at_once_have_the_same(tmp_path: Path) -> None:
    """Both looked before it existed. Markers contain the journal's id: with two ids, one lander's markers would be invalid."""
    path = tmp_path / "journal"

    class Other:
        """Another, faster process: its journal exists before this one has made its id."""

        def random(self) -> float:
            found.append(Journal.create(path).id) if not found else None
            return 0.25

    found: list[str] = []

    assert found == [Journal.create(path, random=Other()).id]


def test_a_segment_of_another_kind_does_not_fit(lane: Lane) -> None:
    with pytest.raises(SchemaError, match="it holds dead_letter of schema version 1, not payload of 1"):
        read_table(lane.all_segments()[0], Kind.PAYLOAD)


def test_nothing_is_trimmed_that_a_consumer_has_not_read(lane: Lane) -> None:
    consumers = Consumers(journal_of(lane))
    with pytest.raises(ConsumerError, match="no registered consumer"):
        consumers.trim()
    consumers.register("slow")
    consumers.commit("fast", {"dead_letter": 3})

    nothing = consumers.trim()
    consumers.commit("slow", {"dead_letter": 2})
    (done,) = consumers.trim()

    assert [()] == [each.segments for each in nothing]
    assert ([1, 2], "slow") == ([segment.number for segment in done.segments], done.held_by)
    assert [3] == [segment.number for segment in lane.all_segments()]
    assert (3, 2) == (lane.last, lane.trimmed)
    with pytest.raises(MissingSegmentError, match="segments up to 2 were trimmed"):
        lane.segments(after=0)


def test_a_lane_that_is_trimmed_whole_still_knows_its_last_number(lane: Lane) -> None:
    consumers = Consumers(journal_of(lane))
    consumers.commit("only", {"dead_letter": 3})

    consumers.trim()

    assert (3, ()) == (lane.last, lane.all_segments())


def test_a_trim_that_was_killed_is_finished_by_the_next(lane: Lane) -> None:
    consumers = Consumers(journal_of(lane))
    consumers.commit("only", {"dead_letter": 2})
    lane.note(trimmed=lane.segments()[1])

    consumers.trim()

    assert 1 == len(list(path_of(lane).glob("*.parquet")))


def test_a_number_of_a_trim_above_every_segment_is_refused_and_nothing_is_deleted(lane: Lane) -> None:
    consumers = Consumers(journal_of(lane))
    consumers.commit("only", {"dead_letter": 1})
    lane.note(trimmed=replace(lane.segments()[2], number=4))

    said = re.escape(f"{lane.folder.uri}/lane.json says that segments up to 4 were trimmed, but the last segment of lane ")
    for use in (consumers.trim, lane.all_segments, lambda: lane.last):
        with pytest.raises(LaneError, match=f"{said}dead_letter is 3"):
            use()
    [one] = verify_journal(journal_of(lane))
    assert re.match(said, one.findings[0].text)
    assert 3 == len(list(path_of(lane).glob("*.parquet")))


def test_a_lane_knows_its_last_number_whichever_files_a_killed_trim_left(lane: Lane) -> None:
    """A folder lists files in any order, so the last file can be gone while the first remains."""
    consumers = Consumers(journal_of(lane))
    consumers.commit("only", {"dead_letter": 3})
    lane.note(trimmed=lane.segments()[2])
    for segment in lane.segments()[1:]:
        path_of(segment).unlink()

    assert (3, ()) == (lane.last, lane.all_segments())
    assert {"dead_letter": 3} == consumers.commit("only", {"dead_letter": 3}).offsets


def test_a_file_that_goes_while_the_folder_is_read_is_a_file_that_is_gone(lane: Lane) -> None:
    first = path_of(lane.segments()[0])
    first.unlink()
    first.symlink_to("nowhere")  # listed, but deleted

    assert [2, 3] == [segment.number for segment in lane.segments(after=1)]
    with pytest.raises(MissingSegmentError, match="no segment 1"):
        lane.segments()


def test_a_consumer_holds_the_lanes_that_it_reads_and_no_others(lane: Lane) -> None:
    """A consumer holds lanes of its kind, or its named lanes, or all lanes; it holds a new lane from its first segment."""
    journal = journal_of(lane)
    generate_journal(journal.folder, Kind.PAYLOAD, segments=2, rows=5, lane="OTHER")
    generate_journal(journal.folder, Kind.PAYLOAD, segments=2, rows=5, lane="THIRD")
    consumers = Consumers(journal)
    consumers.commit("letters", {"dead_letter": 2}, kind=Kind.DEAD_LETTER)
    consumers.commit("named", {"THIRD": 1}, kind=Kind.PAYLOAD, lanes=("THIRD",))

    found = {each.lane: ([one.number for one in each.segments], each.held_by) for each in consumers.trim(dry_run=True)}

    assert {"dead_letter": ([1, 2], "letters"), "OTHER": ([], ""), "THIRD": ([1], "named")} == found
    consumers.register("all")
    assert [(0, "all")] * 3 == [(len(each.segments), each.held_by) for each in consumers.trim()]


def test_a_name_that_another_kind_is_read_under_is_refused(lane: Lane) -> None:
    """Otherwise a trim would delete segments that only one of them has read."""
    consumers = Consumers(journal_of(lane))
    consumers.commit("mine", {}, kind=Kind.DEAD_LETTER)

    with pytest.raises(ConsumerError, match="mine reads dead_letter, and now asks for payload"):
        consumers.commit("mine", {}, kind=Kind.PAYLOAD)


def test_a_consumer_of_before_holds_everything_until_it_says_what_it_reads(lane: Lane) -> None:
    consumers = Consumers(journal_of(lane))
    consumers.commit("old", {"dead_letter": 1})
    generate_journal(lane.journal, Kind.PAYLOAD, segments=2, rows=5, lane="OTHER")
    assert {"old"} == {each.held_by for each in consumers.trim(dry_run=True)}

    consumers.commit("old", {"dead_letter": 2}, kind=Kind.DEAD_LETTER)

    assert ["old", ""] == [
        each.held_by for each in sorted(consumers.trim(dry_run=True), key=lambda one: one.lane != "dead_letter")
    ]


def test_an_offset_does_not_go_back_or_ahead_of_the_last_segment(lane: Lane) -> None:
    consumers = Consumers(journal_of(lane))
    consumers.commit("one", {"dead_letter": 2})

    with pytest.raises(ConsumerError, match="cannot go back to 1"):
        consumers.commit("one", {"dead_letter": 1})
    with pytest.raises(ConsumerError, match="whose last is 3"):
        consumers.commit("one", {"dead_letter": 4})
    with pytest.raises(ConsumerError, match="not a valid name of a consumer"):
        consumers.register("../x")
    assert {"dead_letter": 2} == consumers.commit("one", {"dead_letter": 2}).offsets


def test_a_forgotten_consumer_holds_nothing(lane: Lane) -> None:
    consumers = Consumers(journal_of(lane))
    consumers.register("gone")
    consumers.commit("there", {"dead_letter": 3})

    consumers.forget("gone")

    assert ["there"] == [each.held_by for each in consumers.trim()]


@pytest.mark.parametrize("offset", [1, 3])
def test_a_lane_that_is_removed_and_made_again_is_trimmed_only_after_it_is_read_again(tmp_path: Path, offset: int) -> None:
    lane = generate_journal(tmp_path / "j", Kind.PAYLOAD, segments=3, rows=2, lane="A")
    generate_journal(tmp_path / "j", Kind.PAYLOAD, segments=1, rows=2, lane="B")
    consumers = Consumers(Journal.open(tmp_path / "j"))
    consumers.commit("reader", {"A": offset, "B": 1}, kind=Kind.PAYLOAD)
    shutil.rmtree(path_of(lane))

    again = generate_journal(tmp_path / "j", Kind.PAYLOAD, segments=1, rows=2, lane="A")
    trimmed = consumers.trim()

    assert [("A", 0), ("B", 1)] == [(each.lane, len(each.segments)) for each in trimmed]
    assert 1 == len(again.all_segments())
    consumers.commit("reader", {"A": 1})
    assert 1 == len(consumers.trim()[0].segments)


def test_a_lane_that_was_made_again_differs_from_the_removed_one_unless_one_of_them_has_no_identity(tmp_path: Path) -> None:
    removed = generate_journal(tmp_path / "j", Kind.PAYLOAD, segments=1, rows=2, lane="A")
    old, journal = removed.file.identity, Journal.open(tmp_path / "j")
    assert not journal.lane("A").is_another(old)
    shutil.rmtree(path_of(removed))
    generate_journal(tmp_path / "j", Kind.PAYLOAD, segments=1, rows=2, lane="A")

    again = journal.lane("A")
    assert (True, False) == (again.is_another(old), again.is_another(0))
    (path_of(again) / "lane.json").unlink()  # the segments are those of the same lane
    found = journal.add_lane("A", Kind.PAYLOAD, queue="A", queue_manager="QM1")
    assert (0, False) == (found.file.identity, found.is_another(old))


def test_a_trim_ignores_and_names_an_offset_above_the_last_segment(tmp_path: Path) -> None:
    lane = generate_journal(tmp_path / "j", Kind.PAYLOAD, segments=3, rows=2, lane="A")
    consumers = Consumers(Journal.open(tmp_path / "j"))
    consumers.commit("reader", {"A": 3})
    path_of(lane.all_segments()[2]).unlink()
    (tmp_path / "j" / "heads" / "A.json").unlink()

    [trimmed] = consumers.trim()

    assert ((), ("reader",)) == (trimmed.segments, trimmed.beyond)
    assert "reader is the slowest; reader has an offset above the last segment, which the trim ignores" == trimmed.why
