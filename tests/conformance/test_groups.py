"""Message groups and segments: put and got in logical order.

Source: IBM, "Logical and physical ordering" (q026270), "Message groups" (q023060), MatchOptions (q096750); rc2185, rc2241,
rc2242, rc2245, rc2247, rc2252, rc2253, rc2259.
"""

import pytest

from mqflow.many_verbs import put_many
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.options import GetOption, MessageFlag, MessageType, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.verbs import ObjectHandle, Put
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused

IN_GROUP, LAST = MessageFlag.MSG_IN_GROUP, MessageFlag.LAST_MSG_IN_GROUP
SEGMENT, LAST_SEGMENT = MessageFlag.SEGMENT, MessageFlag.LAST_SEGMENT
PUT = PutOption.LOGICAL_ORDER | PutOption.NO_SYNCPOINT
GET = GetOption.LOGICAL_ORDER | GetOption.NO_SYNCPOINT


def put(
    program: Program, where: str | ObjectHandle, body: bytes, flags: int, options: PutOption = PUT, **fields: object
) -> Put:
    return program.put(where, body, options, message_flags=int(flags), **fields)


def place(done: Put) -> tuple[int, int]:
    return done.descriptor.sequence_number, done.descriptor.offset


def bodies(program: Program, where: str | ObjectHandle, options: GetOption = GET) -> list[bytes]:
    found: list[bytes] = []
    while (got := program.get(where, options)) is not None:
        found.append(got.body)
    return found


def put_physically(program: Program, queue: str, *rows: tuple[bytes, bytes, int, int, int], persistence: int = 0) -> None:
    """Put messages in the order of arrival: body, group, sequence number, offset, flags."""
    for body, group, number, offset, flags in rows:
        fields = {"group_id": group, "sequence_number": number, "offset": offset, "persistence": persistence}
        put(program, queue, body, flags, PutOption.NO_SYNCPOINT, **fields)


Y, Z = b"Y" * 24, b"Z" * 24


def test_the_messages_of_a_group_are_numbered(queue: str, program: Program) -> None:
    done = [put(program, queue, b"x", flags) for flags in (IN_GROUP, IN_GROUP, LAST)]
    group = done[0].descriptor.group_id

    assert [(1, 0), (2, 0), (3, 0)] == [place(each) for each in done]
    assert NO_ID != group
    assert {group} == {each.descriptor.group_id for each in done}
    assert int(IN_GROUP | LAST) == done[2].descriptor.message_flags


def test_each_group_has_an_identifier_of_its_own(queue: str, program: Program) -> None:
    first, second = put(program, queue, b"x", LAST), put(program, queue, b"x", LAST)

    assert first.descriptor.group_id != second.descriptor.group_id
    assert [(1, 0), (1, 0)] == [place(first), place(second)]


def test_segments_say_where_they_begin(queue: str, program: Program) -> None:
    rows = ((b"abc", SEGMENT), (b"de", SEGMENT), (b"f", LAST_SEGMENT))
    done = [put(program, queue, body, flags) for body, flags in rows]

    assert [(1, 0), (1, 3), (1, 5)] == [place(each) for each in done]
    assert 1 == len({each.descriptor.group_id for each in done})


def test_a_group_may_have_messages_of_segments(queue: str, program: Program) -> None:
    rows = ((b"a", IN_GROUP), (b"bc", LAST | SEGMENT), (b"d", LAST | LAST_SEGMENT))
    done = [put(program, queue, body, flags) for body, flags in rows]

    assert [(1, 0), (2, 0), (2, 2)] == [place(each) for each in done]
    assert 0 == put(program, queue, b"alone", 0).descriptor.message_flags


def test_a_message_in_no_group_has_no_group_identifier(queue: str, program: Program) -> None:
    done = put(program, queue, b"x", 0, group_id=Y, sequence_number=7)

    assert (NO_ID, 1) == (done.descriptor.group_id, done.descriptor.sequence_number)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [(0, (NO_ID, 1, 0)), (IN_GROUP, (Y, 7, 0)), (SEGMENT, (Y, 1, 5)), (IN_GROUP | SEGMENT, (Y, 7, 5))],
    ids=["alone", "in a group", "a segment", "a segment in a group"],
)
def test_a_put_in_physical_order_keeps_the_place_that_its_flags_give_it(
    queue: str, program: Program, flags: int, expected: tuple[bytes, int, int]
) -> None:
    fields = {"group_id": Y, "sequence_number": 7, "offset": 5}
    done = put(program, queue, b"x", flags, PutOption.NO_SYNCPOINT, **fields).descriptor

    assert expected == (done.group_id, done.sequence_number, done.offset)


@pytest.mark.parametrize("flags", [IN_GROUP, SEGMENT])
def test_a_put_in_physical_order_without_a_group_identifier_gets_a_new_one(queue: str, program: Program, flags: int) -> None:
    first, second = (put(program, queue, b"x", flags, PutOption.NO_SYNCPOINT).descriptor for _ in range(2))

    assert 3 == len({NO_ID, first.group_id, second.group_id})


@pytest.mark.parametrize(
    ("flags", "fields", "reason"),
    [
        (IN_GROUP, {"sequence_number": 0}, Reason.MSG_SEQ_NUMBER_ERROR),
        (IN_GROUP, {"sequence_number": 1_000_000_000}, Reason.MSG_SEQ_NUMBER_ERROR),
        (SEGMENT, {"offset": -1}, Reason.OFFSET_ERROR),
        (LAST_SEGMENT, {"offset": 999_999_999}, Reason.OFFSET_ERROR),
        (SEGMENT, {"body": b""}, Reason.SEGMENT_LENGTH_ZERO),
        (SEGMENT, {"message_type": MessageType.REPORT}, Reason.ORIGINAL_LENGTH_ERROR),
        (SEGMENT, {"message_type": MessageType.REPORT, "original_length": 1, "body": b"xy"}, Reason.ORIGINAL_LENGTH_ERROR),
        (LAST_SEGMENT, {"message_type": MessageType.REPORT, "body": b""}, Reason.ORIGINAL_LENGTH_ERROR),
    ],
)
def test_a_put_in_physical_order_at_an_impossible_place_is_refused(
    queue: str, program: Program, flags: int, fields: dict[str, object], reason: Reason
) -> None:
    """rc2250, rc2251, rc2252, rc2253."""
    given = {"body": b"x", "options": PutOption.NO_SYNCPOINT} | fields

    with refused(reason):
        put(program, queue, flags=flags, **given)  # type: ignore[arg-type]  # columns of a table


@pytest.mark.parametrize(
    ("flags", "message_type", "original_length", "body"),
    [
        (SEGMENT, MessageType.REPORT, 3, b"abc"),
        (LAST_SEGMENT, MessageType.REPORT, 0, b""),
        (SEGMENT, MessageType.DATAGRAM, -1, b"abc"),
        (0, MessageType.REPORT, -1, b"abc"),
    ],
)
@pytest.mark.parametrize("options", [PUT, PutOption.NO_SYNCPOINT])
def test_only_a_report_that_is_a_segment_needs_the_length_of_the_segment_that_it_is_about(
    queue: str, program: Program, options: PutOption, flags: int, message_type: int, original_length: int, body: bytes
) -> None:
    """q097590."""
    fields = {"message_type": message_type, "original_length": original_length}

    assert put(program, queue, body, flags, options, **fields).descriptor.message_type == message_type


# The flags of the put before, the flags of this put, more fields of this put, and the reason.
REFUSED: tuple[tuple[int, int, dict[str, object], Reason], ...] = (
    (IN_GROUP, 0, {}, Reason.INCOMPLETE_GROUP),
    (SEGMENT, 0, {}, Reason.INCOMPLETE_MSG),
    (SEGMENT, LAST, {}, Reason.INCOMPLETE_MSG),
    (IN_GROUP | SEGMENT, LAST | SEGMENT, {}, Reason.INCOMPLETE_MSG),
    (IN_GROUP, LAST, {"persistence": Persistence.PERSISTENT}, Reason.INCONSISTENT_PERSISTENCE),
    (IN_GROUP, LAST, {"options": PutOption.LOGICAL_ORDER | PutOption.SYNCPOINT}, Reason.INCONSISTENT_UOW),
    (0, SEGMENT, {"body": b""}, Reason.SEGMENT_LENGTH_ZERO),
    (0, SEGMENT, {"message_type": MessageType.REPORT}, Reason.ORIGINAL_LENGTH_ERROR),
)


@pytest.mark.parametrize(("before", "flags", "more", "reason"), REFUSED)
def test_a_group_that_continues_with_other_options_is_refused(
    queue: str, program: Program, before: int, flags: int, more: dict[str, object], reason: Reason
) -> None:
    begun = put(program, queue, b"x", before)
    given = {"body": b"y", "options": PUT} | more

    with refused(reason):
        put(program, queue, flags=flags, **given)  # type: ignore[arg-type]  # columns of a table
    if before:
        goes_on = put(program, queue, b"z", before)
        assert begun.descriptor.group_id == goes_on.descriptor.group_id


def test_a_put_in_physical_order_warns_of_an_incomplete_group(queue: str, program: Program) -> None:
    put(program, queue, b"x", IN_GROUP)
    warned = put(program, queue, b"y", 0, PutOption.NO_SYNCPOINT)

    assert (Reason.INCOMPLETE_GROUP, Reason.NONE) == (
        warned.reason,
        put(program, queue, b"z", 0, PutOption.NO_SYNCPOINT).reason,
    )


def test_of_many_puts_in_physical_order_only_the_first_warns_of_an_incomplete_group(queue: str, program: Program) -> None:
    put(program, queue, b"x", IN_GROUP)
    like = MessageDescriptor()

    made = put_many(program.connection, program.handle(queue), [(like, b"y"), (like, b"z")], PutOption.SYNCPOINT)

    assert [Reason.INCOMPLETE_GROUP, Reason.NONE] == [each.reason for each in made.puts]


def test_logical_order_goes_on_where_a_put_in_physical_order_left_off(queue: str, program: Program) -> None:
    """After a restart, a program ends its group in this way."""
    fields = {"group_id": Y, "sequence_number": 4}
    put(program, queue, b"x", IN_GROUP, PutOption.NO_SYNCPOINT, **fields)
    done = put(program, queue, b"y", LAST)

    assert (Y, 5) == (done.descriptor.group_id, done.descriptor.sequence_number)


def test_a_backout_takes_the_handle_back_to_where_it_was(queue: str, program: Program) -> None:
    in_unit = PutOption.LOGICAL_ORDER | PutOption.SYNCPOINT
    first = put(program, queue, b"1", IN_GROUP, in_unit)
    program.commit()
    put(program, queue, b"2", IN_GROUP, in_unit)
    put(program, queue, b"3", LAST, in_unit)
    program.backout()
    again = put(program, queue, b"2", LAST, in_unit)

    assert (first.descriptor.group_id, 2) == (again.descriptor.group_id, again.descriptor.sequence_number)


def test_put1_puts_no_group(queue: str, program: Program) -> None:
    with refused(Reason.OPTIONS_ERROR):
        program.connection.put1(queue, MessageDescriptor(), b"x", PUT)


@pytest.mark.parametrize(("flags", "reason"), [(IN_GROUP, Reason.INCOMPLETE_GROUP), (SEGMENT, Reason.INCOMPLETE_MSG)])
def test_a_close_warns_of_an_incomplete_group(queue: str, program: Program, flags: int, reason: Reason) -> None:
    handle = program.open(queue, OpenOption.OUTPUT)
    put(program, handle, b"x", flags)

    with refused(reason) as raised:
        program.close(handle)
    assert CompletionCode.WARNING is raised.value.completion
    with refused(Reason.HOBJ_ERROR):
        program.close(handle)


def test_a_group_is_got_in_its_order_wherever_its_messages_are(queue: str, program: Program) -> None:
    """Source: IBM q026270, the second figure: message 2 of group Z is before message 1 on the queue."""
    put_physically(
        program, queue, (b"A", NO_ID, 1, 0, 0), (b"Y1", Y, 1, 0, IN_GROUP), (b"Z2", Z, 2, 0, LAST), (b"Y2", Y, 2, 0, IN_GROUP),
        (b"Y3a", Y, 3, 0, LAST | SEGMENT), (b"Y3b", Y, 3, 3, LAST | LAST_SEGMENT), (b"Z1", Z, 1, 0, IN_GROUP),
        (b"B", NO_ID, 1, 0, 0),
    )  # fmt: skip
    logical = [b"A", b"Y1", b"Y2", b"Y3a", b"Y3b", b"Z1", b"Z2", b"B"]

    browser = program.open(queue, OpenOption.BROWSE)
    assert logical == bodies(program, browser, GetOption.BROWSE_NEXT | GetOption.LOGICAL_ORDER)
    assert logical == bodies(program, queue)


def test_a_later_message_of_a_group_waits_for_the_first(queue: str, program: Program) -> None:
    put_physically(program, queue, (b"Y2", Y, 2, 0, LAST))
    assert program.get(queue, GET) is None

    put_physically(program, queue, (b"Y1", Y, 1, 0, IN_GROUP))
    assert [b"Y1", b"Y2"] == bodies(program, queue)


def test_a_group_that_is_being_got_is_not_left_for_another_message(queue: str, program: Program, other: Program) -> None:
    put_physically(program, queue, (b"Y1", Y, 1, 0, IN_GROUP), (b"B", NO_ID, 1, 0, 0))

    assert b"Y1" == program.got(queue, GET).body
    assert program.get(queue, GET) is None
    assert b"B" == other.got(queue, GET).body


def test_match_options_choose_a_group_and_nothing_within_one(queue: str, program: Program) -> None:
    put_physically(
        program, queue, (b"Y1", Y, 1, 0, IN_GROUP), (b"Y2", Y, 2, 0, LAST), (b"Z1", Z, 1, 0, IN_GROUP), (b"Z2", Z, 2, 0, LAST)
    )

    assert b"Z1" == program.got(queue, GET, group_id=Z).body
    with refused(Reason.MATCH_OPTIONS_ERROR):
        program.get(queue, GET, group_id=Y)
    assert b"Z2" == program.got(queue, GET, group_id=Z, sequence_number=2).body


@pytest.mark.parametrize("persistence", [0, 1])
def test_a_group_is_got_within_units_of_work_or_without(queue: str, program: Program, persistence: int) -> None:
    put_physically(program, queue, (b"Y1", Y, 1, 0, IN_GROUP), (b"Y2", Y, 2, 0, LAST), persistence=persistence)
    in_unit = GetOption.LOGICAL_ORDER | GetOption.SYNCPOINT

    assert b"Y1" == program.got(queue, in_unit).body
    with refused(Reason.INCONSISTENT_UOW):
        program.get(queue, GET)
    assert b"Y2" == program.got(queue, in_unit).body


def test_a_backout_takes_a_get_back_to_where_it_was(queue: str, program: Program) -> None:
    rows = tuple((f"Y{number}".encode(), Y, number, 0, int(LAST if number == 3 else IN_GROUP)) for number in (1, 2, 3))
    put_physically(program, queue, *rows)
    in_unit = GetOption.LOGICAL_ORDER | GetOption.SYNCPOINT
    program.got(queue, in_unit)
    program.commit()
    program.got(queue, in_unit)
    program.got(queue, in_unit)
    program.backout()

    assert [b"Y2", b"Y3"] == bodies(program, queue, in_unit)


def test_a_get_in_physical_order_warns_of_an_incomplete_group(queue: str, program: Program) -> None:
    put_physically(program, queue, (b"Y1", Y, 1, 0, IN_GROUP), (b"B", NO_ID, 1, 0, 0), (b"C", NO_ID, 1, 0, 0))
    program.got(queue, GET)

    warned = program.got(queue)
    assert (b"B", Reason.INCOMPLETE_GROUP) == (warned.body, warned.reason)
    assert Reason.NONE == program.got(queue).reason


@pytest.mark.parametrize("begins", [GetOption.BROWSE_FIRST, GetOption.BROWSE_NEXT])
def test_a_browse_is_in_logical_order_from_the_first_on_or_never(queue: str, program: Program, begins: GetOption) -> None:
    for body in (b"1", b"2"):
        program.put(queue, body)
    handle = program.open(queue, OpenOption.BROWSE)
    next_logically = GetOption.BROWSE_NEXT | GetOption.LOGICAL_ORDER

    program.browse(handle, begins)
    with refused(Reason.INCONSISTENT_BROWSE):
        program.browse(handle, next_logically)
    program.browse(handle, GetOption.BROWSE_FIRST | GetOption.LOGICAL_ORDER)
    with refused(Reason.INCONSISTENT_BROWSE):
        program.browse(handle, GetOption.BROWSE_NEXT)
    seen = program.browse(handle, next_logically)
    assert seen is not None
    assert b"2" == seen.body


def test_a_get_that_waits_for_the_next_of_its_group_is_not_woken_by_another(
    queue_manager: UnderTest, queue: str, program: Program, other: Program
) -> None:
    put_physically(program, queue, (b"Y1", Y, 1, 0, IN_GROUP))
    program.got(queue, GET)
    put_physically(other, queue, (b"B", NO_ID, 1, 0, 0))

    assert program.get(queue, GET | GetOption.WAIT, wait_ms=0) is None
    put_physically(other, queue, (b"Y2", Y, 2, 0, LAST))
    assert b"Y2" == program.got(queue, GET | GetOption.WAIT, wait_ms=0).body
    assert 1 == queue_manager.depth(queue)
