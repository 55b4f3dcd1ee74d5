"""Segmentation and reassembly by the queue manager: MQMF_SEGMENTATION_ALLOWED and MQGMO_COMPLETE_MSG.

Source: IBM, "Segmentation and reassembly by queue manager" (q026380), MQMD.MsgFlags, MQGMO options (q096780): "COMPLETE_MSG is
the only option that causes the queue manager to reassemble message segments"; the descriptor is that of the first segment, and
MsgFlags says that the message is the only segment; rc2030, rc2243, rc2244, rc2255.
"""

import pytest

from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.options import GetOption, MatchOption, MessageFlag, OpenOption, Persistence, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from tests.conformance.programs import Program
from tests.conformance.test_groups import Y, bodies, put, put_physically
from tests.conformance.under_test import UnderTest, refused

ALLOWED = int(MessageFlag.SEGMENTATION_ALLOWED)
SEGMENT, LAST_SEGMENT = int(MessageFlag.SEGMENT), int(MessageFlag.LAST_SEGMENT)
ONLY_SEGMENT = SEGMENT | LAST_SEGMENT
IN_GROUP, LAST = int(MessageFlag.MSG_IN_GROUP), int(MessageFlag.LAST_MSG_IN_GROUP)
PUT, IN_UNIT = PutOption.NO_SYNCPOINT, PutOption.SYNCPOINT
COMPLETE = GetOption.COMPLETE_MSG | GetOption.NO_SYNCPOINT
COMPLETE_IN_UNIT = GetOption.COMPLETE_MSG | GetOption.SYNCPOINT
BODY = bytes(range(100))


@pytest.fixture
def narrow(queue_manager: UnderTest) -> str:
    """A queue for messages of up to 40 bytes."""
    return queue_manager.define("NARROW", max_message_bytes=40)


def test_a_message_that_is_too_long_for_the_queue_becomes_segments_of_multiples_of_16_bytes(
    narrow: str, program: Program
) -> None:
    done = put(program, narrow, BODY, ALLOWED, PUT)
    segments = [program.got(narrow) for _ in range(4)]

    assert [BODY[:32], BODY[32:64], BODY[64:96], BODY[96:]] == [each.body for each in segments]
    assert [0, 32, 64, 96] == [each.descriptor.offset for each in segments]
    middle = ALLOWED | SEGMENT
    assert [middle, middle, middle, middle | LAST_SEGMENT] == [each.descriptor.message_flags for each in segments]
    assert NO_ID != done.descriptor.group_id
    assert {(done.descriptor.group_id, 1)} == {(each.descriptor.group_id, each.descriptor.sequence_number) for each in segments}
    assert ALLOWED == done.descriptor.message_flags, "the descriptor of the program keeps its flags"
    assert done.descriptor.message_id == segments[0].descriptor.message_id
    assert 4 == len({each.descriptor.message_id for each in segments})


def test_a_message_that_fits_stays_one_message(narrow: str, program: Program) -> None:
    put(program, narrow, BODY[:40], ALLOWED, PUT)

    got = program.got(narrow, COMPLETE)
    assert (BODY[:40], ALLOWED, NO_ID) == (got.body, got.descriptor.message_flags, got.descriptor.group_id)


@pytest.mark.parametrize(
    ("flags", "max_message_bytes"),
    [pytest.param(0, 40, id="the program does not allow it"), pytest.param(ALLOWED, 15, id="a segment has at least 16 bytes")],
)
def test_a_message_that_may_not_be_split_is_too_big(
    queue_manager: UnderTest, program: Program, flags: int, max_message_bytes: int
) -> None:
    name = queue_manager.define("NARROW", max_message_bytes=max_message_bytes)

    with refused(Reason.MSG_TOO_BIG_FOR_Q):
        put(program, name, BODY, flags, PUT)


@pytest.mark.parametrize("persistence", list(Persistence)[:2])
def test_a_split_message_comes_back_whole(
    queue_manager: UnderTest, narrow: str, program: Program, persistence: Persistence
) -> None:
    done = put(program, narrow, BODY, ALLOWED, PUT, persistence=persistence)
    assert 4 == queue_manager.depth(narrow)

    got = program.got(narrow, COMPLETE)

    assert (BODY, 100) == (got.body, got.data_bytes)
    assert ALLOWED | ONLY_SEGMENT == got.descriptor.message_flags
    assert (done.descriptor.message_id, 0) == (got.descriptor.message_id, got.descriptor.offset)
    assert 0 == queue_manager.depth(narrow)


def test_segments_of_a_program_are_assembled_in_their_order(queue: str, program: Program) -> None:
    put_physically(program, queue, (b"c", Y, 1, 3, LAST_SEGMENT), (b"ab", Y, 1, 0, SEGMENT), (b"x", Y, 1, 2, SEGMENT))

    assert [b"abxc"] == bodies(program, queue, COMPLETE)


@pytest.mark.parametrize(
    "again", [(b"ab", Y, 1, 0, SEGMENT), (b"b", Y, 1, 1, SEGMENT), (b"xy", Y, 1, 3, LAST_SEGMENT), (b"z", Y, 1, 9, SEGMENT)]
)
def test_a_segment_that_was_put_again_does_not_count(
    queue: str, program: Program, again: tuple[bytes, bytes, int, int, int]
) -> None:
    put_physically(program, queue, (b"ab", Y, 1, 0, SEGMENT), (b"c", Y, 1, 2, LAST_SEGMENT), again)

    assert [b"abc"] == bodies(program, queue, COMPLETE)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([(b"ab", Y, 1, 0, SEGMENT)], id="the last segment is missing"),
        pytest.param([(b"c", Y, 1, 2, LAST_SEGMENT)], id="the first segment is missing"),
    ],
)
def test_an_incomplete_message_stays_and_a_later_one_passes(
    queue: str, program: Program, rows: list[tuple[bytes, bytes, int, int, int]]
) -> None:
    put_physically(program, queue, *rows, (b"alone", NO_ID, 1, 0, 0))

    assert [b"alone"] == bodies(program, queue, COMPLETE)
    assert rows[0][0] == program.got(queue).body


def test_a_waiting_get_returns_when_the_last_segment_arrives(queue: str, program: Program, other: Program) -> None:
    put_physically(other, queue, (b"ab", Y, 1, 0, SEGMENT))
    assert program.get(queue, COMPLETE | GetOption.WAIT, wait_ms=0) is None
    put_physically(other, queue, (b"c", Y, 1, 2, LAST_SEGMENT))

    assert b"abc" == program.got(queue, COMPLETE | GetOption.WAIT, wait_ms=10_000).body


def test_a_backout_returns_each_segment_and_counts_it(queue_manager: UnderTest, narrow: str, program: Program) -> None:
    put(program, narrow, BODY, ALLOWED, PUT)
    assert program.got(narrow, COMPLETE_IN_UNIT).body == BODY
    program.backout()

    assert 4 == queue_manager.depth(narrow)
    again = program.got(narrow, COMPLETE_IN_UNIT)
    assert (BODY, 1) == (again.body, again.descriptor.backout_count)
    program.commit()
    assert 0 == queue_manager.depth(narrow)


def test_a_backout_of_the_put_removes_each_segment(queue_manager: UnderTest, narrow: str, program: Program) -> None:
    put(program, narrow, BODY, ALLOWED, IN_UNIT)
    assert BODY == program.got(narrow, COMPLETE_IN_UNIT).body, "a get of the same unit of work finds the segments"
    program.backout()

    assert 0 == queue_manager.depth(narrow)


def test_each_segment_and_each_of_its_reports_count_for_maxumsgs(
    queue_manager: UnderTest, narrow: str, queue: str, program: Program
) -> None:
    queue_manager.administration.alter_queue_manager({"max_uncommitted_messages": 8})
    put(program, narrow, BODY, ALLOWED, IN_UNIT)
    with refused(Reason.SYNCPOINT_LIMIT_REACHED):
        put(program, narrow, BODY, ALLOWED, IN_UNIT, report=int(Report.COA), reply_to_queue=queue)
    program.backout()

    put(program, narrow, BODY, ALLOWED, IN_UNIT, report=int(Report.COA), reply_to_queue=queue)
    assert (4, 4) == (queue_manager.depth(narrow), queue_manager.depth(queue))


@pytest.mark.parametrize("persistence", list(Persistence)[:2])
def test_outside_an_open_unit_of_work_the_segments_have_no_unit_of_their_own(
    narrow: str, queue: str, program: Program, persistence: Persistence
) -> None:
    put(program, narrow, BODY, ALLOWED, PUT, persistence=persistence)
    put(program, queue, b"opens the unit of work", 0, IN_UNIT)

    with refused(Reason.UOW_NOT_AVAILABLE):
        put(program, narrow, BODY, ALLOWED, PUT, persistence=persistence)
    if persistence is Persistence.PERSISTENT:
        with refused(Reason.UOW_NOT_AVAILABLE):
            program.get(narrow, COMPLETE)
    else:
        assert BODY == program.got(narrow, COMPLETE).body


def test_a_buffer_that_is_too_small_leaves_each_segment(queue_manager: UnderTest, narrow: str, program: Program) -> None:
    put(program, narrow, BODY, ALLOWED, PUT)

    got = program.got(narrow, COMPLETE, buffer_bytes_max=50)
    assert (Reason.TRUNCATED_MSG_FAILED, BODY[:50], 100) == (got.reason, got.body, got.data_bytes)
    assert 4 == queue_manager.depth(narrow)
    accepted = program.got(narrow, COMPLETE | GetOption.ACCEPT_TRUNCATED_MSG, buffer_bytes_max=50)
    assert (Reason.TRUNCATED_MSG_ACCEPTED, BODY[:50]) == (accepted.reason, accepted.body)
    assert 0 == queue_manager.depth(narrow)


@pytest.mark.parametrize(
    ("field", "reason"), [("ccsid", Reason.INCONSISTENT_CCSIDS), ("encoding", Reason.INCONSISTENT_ENCODINGS)]
)
def test_segments_that_differ_are_returned_up_to_the_difference(
    queue: str, program: Program, field: str, reason: Reason
) -> None:
    for offset, (body, flags, value) in enumerate(((b"a", SEGMENT, 819), (b"b", SEGMENT, 819), (b"c", LAST_SEGMENT, 273))):
        put(program, queue, body, flags, PUT, group_id=Y, offset=offset, **{field: value})

    got = program.got(queue, COMPLETE)

    assert (reason, b"ab", SEGMENT) == (got.reason, got.body, got.descriptor.message_flags)
    assert b"c" == program.got(queue).body


def test_a_browse_returns_whole_messages_and_a_get_under_the_cursor_takes_one(
    queue_manager: UnderTest, narrow: str, program: Program
) -> None:
    put(program, narrow, BODY, ALLOWED, PUT)
    put(program, narrow, b"alone", 0, PUT)
    handle = program.open(narrow, OpenOption.INPUT_SHARED | OpenOption.BROWSE)
    browse = GetOption.COMPLETE_MSG | GetOption.BROWSE_NEXT

    assert [BODY, b"alone"] == bodies(program, handle, browse)
    assert BODY == program.got(handle, GetOption.COMPLETE_MSG | GetOption.BROWSE_FIRST).body
    assert BODY == program.got(handle, COMPLETE | GetOption.MSG_UNDER_CURSOR).body
    assert 1 == queue_manager.depth(narrow)


@pytest.mark.parametrize("options", [GetOption.MSG_UNDER_CURSOR, GetOption.BROWSE_MSG_UNDER_CURSOR])
def test_a_later_segment_under_the_cursor_gives_no_whole_message(narrow: str, program: Program, options: GetOption) -> None:
    """rc2246."""
    put(program, narrow, BODY, ALLOWED, PUT)
    handle = program.open(narrow, OpenOption.INPUT_SHARED | OpenOption.BROWSE)
    for _ in range(2):
        program.got(handle, GetOption.BROWSE_NEXT)

    with refused(Reason.INVALID_MSG_UNDER_CURSOR):
        program.get(handle, GetOption.COMPLETE_MSG | options)


def test_a_group_with_a_split_message_comes_in_logical_order(narrow: str, program: Program) -> None:
    handle = program.open(narrow, OpenOption.OUTPUT | OpenOption.INPUT_SHARED)
    order = PutOption.LOGICAL_ORDER | PutOption.NO_SYNCPOINT
    for body, flags in ((b"first", IN_GROUP), (BODY, IN_GROUP | ALLOWED), (b"last", LAST)):
        put(program, handle, body, flags, order)

    assert [b"first", BODY, b"last"] == bodies(program, handle, COMPLETE | GetOption.LOGICAL_ORDER)


def test_a_message_is_found_by_the_identifier_of_its_put(narrow: str, program: Program) -> None:
    put(program, narrow, BODY, ALLOWED, PUT)
    wanted = put(program, narrow, BODY[::-1], ALLOWED, PUT).descriptor.message_id

    got = program.got(narrow, COMPLETE, match=MatchOption.MSG_ID, message_id=wanted)
    assert BODY[::-1] == got.body
