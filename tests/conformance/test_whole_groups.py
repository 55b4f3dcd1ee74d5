"""Gets of whole groups only: MQGMO_ALL_MSGS_AVAILABLE and MQGMO_ALL_SEGMENTS_AVAILABLE.

Source: IBM, MQGMO options (q096780): "Messages in a group become available for retrieval only when all messages in the
group are available"; with LOGICAL_ORDER the option "has an effect only when there is no current group or logical message"; it
"implies MQGMO_ALL_SEGMENTS_AVAILABLE".
"""

import pytest

from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.options import GetOption, MessageFlag, OpenOption
from tests.conformance.programs import Program
from tests.conformance.test_groups import bodies, put_physically
from tests.conformance.under_test import UnderTest

IN_GROUP, LAST = int(MessageFlag.MSG_IN_GROUP), int(MessageFlag.LAST_MSG_IN_GROUP)
SEGMENT, LAST_SEGMENT = int(MessageFlag.SEGMENT), int(MessageFlag.LAST_SEGMENT)
WHOLE = GetOption.ALL_MSGS_AVAILABLE | GetOption.NO_SYNCPOINT
WHOLE_IN_ORDER = WHOLE | GetOption.LOGICAL_ORDER
WHOLE_MESSAGES = GetOption.ALL_SEGMENTS_AVAILABLE | GetOption.NO_SYNCPOINT
Y, Z = b"Y" * 24, b"Z" * 24
Y1, Y2, Y3 = (b"Y1", Y, 1, 0, IN_GROUP), (b"Y2", Y, 2, 0, IN_GROUP), (b"Y3", Y, 3, 0, LAST)
Z1, Z2 = (b"Z1", Z, 1, 0, IN_GROUP), (b"Z2", Z, 2, 0, LAST)
ALONE = (b"A", NO_ID, 1, 0, 0)


@pytest.mark.parametrize(
    ("rows", "found"),
    [pytest.param([Y1, Y2], [], id="the last message is missing"),
     pytest.param([Y2, Y3], [], id="the first message is missing"),
     pytest.param([Y1, Y3], [], id="a message between is missing"),
     pytest.param([Y1, Y1, Y3], [], id="a message that is there twice stands for no other"),
     pytest.param([Y3, Y1, Y2], [b"Y1", b"Y2", b"Y3"], id="the group is complete, in another order"),
     pytest.param([Y1, Z1, ALONE, Z2], [b"Z1", b"Z2", b"A"], id="an incomplete group lets others pass"),
     pytest.param([(b"Y", Y, 1, 0, LAST)], [b"Y"], id="a group of one message"),
     pytest.param([(b"ab", Y, 1, 0, IN_GROUP | SEGMENT), (b"d", Y, 2, 0, LAST)], [], id="a segment of a message is missing"),
     pytest.param([(b"ab", Y, 1, 0, IN_GROUP | SEGMENT), (b"c", Y, 1, 2, IN_GROUP | LAST_SEGMENT), (b"d", Y, 2, 0, LAST)],
         [b"ab", b"c", b"d"], id="a group with a segmented message is complete")],
)  # fmt: skip
def test_a_get_in_logical_order_finds_only_complete_groups(
    queue: str, program: Program, rows: list[tuple[bytes, bytes, int, int, int]], found: list[bytes]
) -> None:
    put_physically(program, queue, *rows)

    assert found == bodies(program, queue, WHOLE_IN_ORDER)


def test_the_messages_of_an_incomplete_group_count_for_the_depth(
    queue_manager: UnderTest, queue: str, program: Program
) -> None:
    put_physically(program, queue, Y1, Y2)

    assert program.get(queue, WHOLE_IN_ORDER) is None
    assert 2 == queue_manager.depth(queue)


def test_in_physical_order_the_rest_of_a_group_that_was_begun_is_not_whole(queue: str, program: Program) -> None:
    put_physically(program, queue, Y1, Y2, Y3)

    assert b"Y1" == program.got(queue, WHOLE).body
    assert program.get(queue, WHOLE) is None
    assert [b"Y2", b"Y3"] == bodies(program, queue, GetOption.NO_SYNCPOINT)


@pytest.mark.parametrize("held", [GetOption.SYNCPOINT, GetOption.BROWSE_FIRST | GetOption.LOCK], ids=["in a unit", "locked"])
def test_a_message_of_a_group_that_another_program_holds_is_not_available(
    queue: str, program: Program, other: Program, held: GetOption
) -> None:
    put_physically(program, queue, Y1, Y2, Y3)
    assert b"Y2" == other.got(queue, held, sequence_number=2).body

    assert program.get(queue, WHOLE_IN_ORDER) is None
    other.killed()
    assert [b"Y1", b"Y2", b"Y3"] == bodies(program, queue, WHOLE_IN_ORDER)


def test_a_locked_message_outside_of_the_group_makes_no_group_incomplete(queue: str, program: Program, other: Program) -> None:
    put_physically(program, queue, ALONE, Y1, Y2, Y3)
    assert b"A" == other.got(queue, GetOption.BROWSE_FIRST | GetOption.LOCK).body

    assert [b"Y1", b"Y2", b"Y3"] == bodies(program, queue, WHOLE_IN_ORDER)


def test_a_browse_finds_only_complete_groups(queue: str, program: Program) -> None:
    put_physically(program, queue, Y1, Y2, Z2, Z1)
    handle = program.open(queue, OpenOption.BROWSE)
    options = GetOption.LOGICAL_ORDER | GetOption.ALL_MSGS_AVAILABLE

    seen = [program.browse(handle, options | which) for which in (GetOption.BROWSE_FIRST, *[GetOption.BROWSE_NEXT] * 2)]
    assert [b"Z1", b"Z2", None] == [each and each.body for each in seen]


def test_all_segments_available_waits_for_the_segments_of_one_message_only(queue: str, program: Program) -> None:
    first = (b"ab", Y, 1, 0, IN_GROUP | SEGMENT)
    put_physically(program, queue, first, (b"de", Y, 2, 0, LAST | SEGMENT), (b"f", Y, 2, 2, LAST | LAST_SEGMENT))

    assert b"de" == program.got(queue, WHOLE_MESSAGES).body
    put_physically(program, queue, (b"c", Y, 1, 2, IN_GROUP | LAST_SEGMENT))
    assert b"ab" == program.got(queue, WHOLE_MESSAGES).body
