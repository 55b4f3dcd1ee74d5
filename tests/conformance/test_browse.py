"""Browse cursors, locks and marks. Source: IBM, "The browse cursor"; MQGMO options; rc2034, rc2200, rc2209."""

import pytest

from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.verbs import Got, ObjectHandle
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused

BOTH = OpenOption.BROWSE | OpenOption.INPUT_SHARED
CO_OP = OpenOption.BROWSE | OpenOption.CO_OP
FIRST, NEXT = GetOption.BROWSE_FIRST, GetOption.BROWSE_NEXT
SAME, TAKE = GetOption.BROWSE_MSG_UNDER_CURSOR, GetOption.MSG_UNDER_CURSOR
LOCK, UNLOCK = GetOption.LOCK, GetOption.UNLOCK
UNMARKED = GetOption.UNMARKED_BROWSE_MSG


@pytest.fixture
def three(queue: str, program: Program) -> str:
    """A queue with the messages 1, 2 and 3."""
    for body in (b"1", b"2", b"3"):
        program.put(queue, body)
    return queue


def body(got: Got | None) -> bytes | None:
    return None if got is None else got.body


def all_of(program: Program, handle: ObjectHandle, options: GetOption) -> list[bytes]:
    return [got.body for got in iter(lambda: program.browse(handle, options), None)]


def test_a_browse_leaves_the_messages_on_the_queue(three: str, program: Program) -> None:
    program.seen(three)

    assert [b"1", b"2", b"3"] == program.bodies(three)


def test_the_first_browse_next_is_the_first_message(three: str, program: Program) -> None:
    handle = program.open(three, BOTH)

    assert [b"1", b"2", b"3"] == all_of(program, handle, NEXT)


def test_browse_first_starts_again(three: str, program: Program) -> None:
    handle = program.open(three, BOTH)

    assert [b"1", b"2", b"1", b"2"] == [body(program.browse(handle, options)) for options in (FIRST, NEXT, FIRST, NEXT)]


def test_every_handle_has_a_cursor_of_its_own(three: str, program: Program) -> None:
    one, two = program.open(three, BOTH), program.open(three, BOTH)
    program.browse(one)
    program.browse(one)

    assert b"1" == body(program.browse(two))


def test_the_end_of_the_queue_is_not_for_ever(three: str, program: Program) -> None:
    handle = program.open(three, BOTH)
    all_of(program, handle, NEXT)
    program.put(three, b"4")

    assert b"4" == body(program.browse(handle))


def test_a_higher_priority_behind_the_cursor_is_seen_from_the_first_only(three: str, program: Program) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle)
    program.put(three, b"urgent", priority=9)

    assert [b"2", b"3"] == all_of(program, handle, NEXT)
    assert b"urgent" == body(program.browse(handle, FIRST))


def test_a_browse_goes_on_behind_a_message_that_is_gone(three: str, program: Program, other: Program) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle)
    other.get(three)
    other.get(three)

    assert b"3" == body(program.browse(handle))


def test_a_browse_can_match(queue: str, program: Program) -> None:
    wanted = b"w" * 24
    for text, identifier in ((b"1", wanted), (b"2", bytes(24)), (b"3", wanted)):
        program.put(queue, text, correlation_id=identifier)
    handle = program.open(queue, BOTH)

    found = [body(program.browse(handle, NEXT, correlation_id=wanted)) for _ in range(3)]

    assert [b"1", b"3", None] == found


def test_the_message_under_the_cursor_can_be_looked_at_again(three: str, program: Program) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle)

    assert [b"1", b"1"] == [body(program.browse(handle, SAME)) for _ in range(2)]


def test_the_message_under_the_cursor_can_be_taken(three: str, program: Program) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle)
    program.browse(handle)

    assert b"2" == body(program.get(handle, TAKE))
    assert [b"1", b"3"] == program.bodies(three)


def test_match_options_do_not_matter_under_the_cursor(three: str, program: Program) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle)

    assert b"1" == body(program.browse(handle, SAME, match=MatchOption(0x100)))
    assert b"1" == body(program.get(handle, TAKE, message_id=b"x" * 24))


@pytest.mark.parametrize("options", [SAME, TAKE])
def test_there_is_nothing_under_a_new_cursor(three: str, program: Program, options: GetOption) -> None:
    """The get is refused with 2034 (rc2034)."""
    handle = program.open(three, BOTH)

    with refused(Reason.NO_MSG_UNDER_CURSOR):
        program.get(handle, options)


@pytest.mark.parametrize("options", [SAME, TAKE])
def test_there_is_nothing_under_the_cursor_once_it_is_taken(
    three: str, program: Program, other: Program, options: GetOption
) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle)
    other.get(three)

    with refused(Reason.NO_MSG_UNDER_CURSOR):
        program.get(handle, options)


def test_there_is_nothing_under_the_cursor_once_it_expired(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.put(queue, b"1", expiry_tenths=10)
    handle = program.open(queue, BOTH)
    program.browse(handle)
    queue_manager.advance(1)

    with refused(Reason.NO_MSG_UNDER_CURSOR):
        program.get(handle, TAKE)


def test_taking_under_the_cursor_needs_input(three: str, program: Program) -> None:
    handle = program.open(three, OpenOption.BROWSE)
    program.browse(handle)

    with refused(Reason.NOT_OPEN_FOR_INPUT):
        program.get(handle, TAKE)


def test_taking_under_the_cursor_needs_browse(three: str, program: Program) -> None:
    handle = program.open(three, OpenOption.INPUT_SHARED)

    with refused(Reason.NOT_OPEN_FOR_BROWSE):
        program.get(handle, TAKE)


def test_a_browse_that_was_too_long_does_not_move_the_cursor(queue: str, program: Program) -> None:
    program.put(queue, b"1")
    program.put(queue, b"longer")
    handle = program.open(queue, BOTH)
    program.browse(handle)
    failed = program.browse(handle, NEXT, buffer_bytes_max=2)

    assert failed is not None
    assert (Reason.TRUNCATED_MSG_FAILED, b"1") == (failed.reason, body(program.browse(handle, SAME)))


def test_a_browse_first_that_was_too_long_is_before_the_first_message(queue: str, program: Program) -> None:
    program.put(queue, b"longer")
    program.put(queue, b"2")
    handle = program.open(queue, BOTH)
    program.browse(handle)
    program.browse(handle, FIRST, buffer_bytes_max=2)

    with refused(Reason.NO_MSG_UNDER_CURSOR):
        program.browse(handle, SAME)
    assert b"longer" == body(program.browse(handle, NEXT))


def test_a_truncated_browse_that_is_accepted_moves_the_cursor(queue: str, program: Program) -> None:
    program.put(queue, b"longer")
    program.put(queue, b"2")
    handle = program.open(queue, BOTH)
    program.browse(handle, NEXT | GetOption.ACCEPT_TRUNCATED_MSG, buffer_bytes_max=2)

    assert b"2" == body(program.browse(handle))


def test_a_locked_message_is_invisible_to_other_handles(three: str, program: Program, other: Program) -> None:
    program.browse(program.open(three, BOTH), FIRST | LOCK)

    assert [b"2", b"3"] == other.seen(three)
    assert b"2" == body(other.get(three))


def test_a_locked_message_is_hidden_from_another_handle_of_the_same_connection(three: str, program: Program) -> None:
    program.browse(program.open(three, BOTH), FIRST | LOCK)

    assert b"2" == body(program.get(three))


def test_a_locked_message_can_be_taken_by_its_own_handle(three: str, program: Program) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle, FIRST | LOCK)

    assert b"1" == body(program.get(handle, TAKE))


def test_a_locked_message_that_was_taken_and_came_back_is_there_for_others(
    three: str, program: Program, other: Program
) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle, FIRST | LOCK)
    program.get(handle, TAKE | GetOption.SYNCPOINT)
    program.backout()

    assert [b"1", b"2", b"3"] == other.seen(three)


def test_a_lock_needs_input(three: str, program: Program) -> None:
    with refused(Reason.NOT_OPEN_FOR_INPUT):
        program.browse(program.open(three, OpenOption.BROWSE), FIRST | LOCK)


def test_the_next_browse_gives_the_lock_up(three: str, program: Program, other: Program) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle, FIRST | LOCK)
    program.browse(handle, NEXT | LOCK)

    assert [b"1", b"3"] == other.seen(three)


def test_taking_another_message_gives_the_lock_up(three: str, program: Program, other: Program) -> None:
    handle = program.open(three, BOTH)
    last = program.put(three, b"4").descriptor.message_id
    program.browse(handle, FIRST | LOCK)
    program.get(handle, message_id=last)

    assert [b"1", b"2", b"3"] == other.seen(three)


@pytest.mark.parametrize("by", ["unlock", "close"])
def test_unlock_and_the_close_of_the_handle_give_the_lock_up(three: str, program: Program, other: Program, by: str) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle, FIRST | LOCK)
    if by == "unlock":
        program.get(handle, UNLOCK)
    else:
        program.close(handle)

    assert b"1" == body(other.get(three))


def test_a_backout_does_not_give_the_lock_up(three: str, program: Program, other: Program) -> None:
    """The lock is not part of the unit of work."""
    program.browse(program.open(three, BOTH), FIRST | LOCK)
    program.backout()

    assert b"2" == body(other.get(three))


def test_unlocking_nothing_is_a_warning(three: str, program: Program) -> None:
    """The warning is 2209 (rc2209)."""
    with refused(Reason.NO_MSG_LOCKED) as raised:
        program.get(program.open(three, BOTH), UNLOCK)

    assert CompletionCode.WARNING is raised.value.completion


def test_a_lock_on_a_message_in_the_middle_hides_only_that(three: str, program: Program, other: Program) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle)
    program.browse(handle, NEXT | LOCK)

    assert [b"1", b"3"] == other.bodies(three)


@pytest.mark.parametrize("mark", [GetOption.MARK_BROWSE_CO_OP, GetOption.MARK_BROWSE_HANDLE])
def test_a_marked_message_that_was_taken_and_came_back_is_not_marked_any_more(
    three: str, program: Program, other: Program, mark: GetOption
) -> None:
    """From memory: the mark ends at the destructive get, and a backout does not set it again."""
    handle = program.open(three, CO_OP)
    program.browse(handle, FIRST | mark)
    other.get_in_unit(three)
    other.backout()

    assert b"1" == body(program.browse(handle, FIRST | UNMARKED))


def test_a_message_marked_for_the_handle_is_skipped_by_its_unmarked_browse(three: str, program: Program) -> None:
    handle = program.open(three, BOTH)
    program.browse(handle, FIRST | GetOption.MARK_BROWSE_HANDLE)

    assert b"2" == body(program.browse(handle, FIRST | UNMARKED))


def test_a_mark_for_one_handle_says_nothing_to_another(three: str, program: Program) -> None:
    program.browse(program.open(three, BOTH), FIRST | GetOption.MARK_BROWSE_HANDLE)

    assert b"1" == body(program.browse(program.open(three, BOTH), FIRST | UNMARKED))


def test_cooperating_browsers_share_the_messages_between_them(three: str, program: Program, other: Program) -> None:
    mine, theirs = program.open(three, CO_OP), other.open(three, CO_OP)
    options = NEXT | UNMARKED | GetOption.MARK_BROWSE_CO_OP

    taken = [body(program.browse(mine, options)), body(other.browse(theirs, options)), body(program.browse(mine, options))]

    assert [b"1", b"2", b"3"] == taken


def test_a_cooperating_mark_lapses_after_the_mark_interval(
    queue_manager: UnderTest, three: str, program: Program, other: Program
) -> None:
    """The mark interval is MARKINT, 5000 ms by default."""
    program.browse(program.open(three, CO_OP), FIRST | GetOption.MARK_BROWSE_CO_OP)
    theirs = other.open(three, CO_OP)
    before = body(other.browse(theirs, FIRST | UNMARKED))
    queue_manager.advance(5)

    assert (b"2", b"1") == (before, body(other.browse(theirs, FIRST | UNMARKED)))


@pytest.mark.parametrize("by", ["unmark", "close"])
def test_a_cooperating_mark_can_be_taken_off_and_ends_with_its_handle(
    three: str, program: Program, other: Program, by: str
) -> None:
    mine = program.open(three, CO_OP)
    program.browse(mine, FIRST | GetOption.MARK_BROWSE_CO_OP)
    if by == "unmark":
        program.browse(mine, SAME | GetOption.UNMARK_BROWSE_CO_OP)
    else:
        program.close(mine)

    assert b"1" == body(other.browse(other.open(three, CO_OP), FIRST | UNMARKED))


def test_a_browse_without_unmarked_sees_marked_messages(three: str, program: Program, other: Program) -> None:
    program.browse(program.open(three, CO_OP), FIRST | GetOption.MARK_BROWSE_CO_OP)

    assert b"1" == body(other.browse(other.open(three, CO_OP), FIRST))


def test_a_marked_message_can_still_be_taken(three: str, program: Program, other: Program) -> None:
    program.browse(program.open(three, CO_OP), FIRST | GetOption.MARK_BROWSE_CO_OP)

    assert b"1" == body(other.get(three))


@pytest.mark.parametrize("options", [SAME, TAKE])
def test_a_message_that_another_marked_meanwhile_is_2200_under_the_cursor(
    three: str, program: Program, other: Program, options: GetOption
) -> None:
    mine = program.open(three, BOTH | OpenOption.CO_OP)
    program.browse(mine, FIRST)
    other.browse(other.open(three, CO_OP), FIRST | GetOption.MARK_BROWSE_CO_OP)

    with refused(Reason.MSG_MARKED_BROWSE_CO_OP):
        program.get(mine, options | UNMARKED)


# ---- read-ahead of a queue manager does not change the result


@pytest.fixture
def many(queue: str, program: Program) -> str:
    """A queue with the messages 0 to 29. After the first few, a browse reads several messages in one step."""
    for number in range(30):
        program.put(queue, b"%d" % number)
    return queue


def five_browsed(program: Program, queue: str, options: OpenOption = BOTH) -> ObjectHandle:
    """Return a handle that is on the fifth message."""
    handle = program.open(queue, options)
    for _ in range(5):
        program.browse(handle)
    return handle


def test_a_long_browse_sees_every_message_once_in_order(many: str, program: Program) -> None:
    assert [b"%d" % number for number in range(30)] == all_of(program, program.open(many, OpenOption.BROWSE), NEXT)


@pytest.mark.parametrize("options", [OpenOption.BROWSE, BOTH], ids=["browse", "browse and input"])
def test_the_message_under_the_cursor_is_the_last_browsed_one(many: str, program: Program, options: OpenOption) -> None:
    handle = program.open(many, options)

    seen = [body(program.browse(handle)) for _ in range(5)]

    assert seen[-1] == body(program.browse(handle, SAME)) == b"4"
    assert b"5" == body(program.browse(handle))


def test_a_get_under_the_cursor_takes_the_last_browsed_message(many: str, program: Program) -> None:
    handle = five_browsed(program, many)

    assert b"4" == body(program.get(handle, TAKE | GetOption.NO_SYNCPOINT))
    assert b"5" == body(program.browse(handle))


def test_a_browse_with_lock_locks_the_message_that_it_shows(many: str, program: Program, other: Program) -> None:
    handle = five_browsed(program, many)

    locked = program.browse(handle, NEXT | LOCK)

    assert b"5" == body(locked)
    assert b"5" not in other.seen(many)


def test_a_program_does_not_browse_a_message_that_it_has_got(many: str, program: Program) -> None:
    handle = five_browsed(program, many)
    taken = [body(program.get(many)) for _ in range(7)]  # beginning with 0

    assert [b"%d" % number for number in range(7)] == taken
    assert b"7" == body(program.browse(handle))


def test_a_browse_goes_on_behind_where_it_was_when_that_message_is_gone(many: str, program: Program, other: Program) -> None:
    handle = five_browsed(program, many)
    for _ in range(5):
        other.get(many)

    with refused(Reason.NO_MSG_UNDER_CURSOR):
        program.browse(handle, SAME)
    assert b"5" == body(program.browse(handle))


def test_two_browses_of_a_program_do_not_disturb_each_other(many: str, program: Program) -> None:
    one, two = program.open(many, OpenOption.BROWSE), program.open(many, OpenOption.BROWSE)

    seen = [(body(program.browse(one)), body(program.browse(two))) for _ in range(30)]

    assert [(b"%d" % number, b"%d" % number) for number in range(30)] == seen


def test_a_browse_may_change_its_options_on_the_way(many: str, program: Program) -> None:
    handle = five_browsed(program, many, OpenOption.BROWSE)

    cut = [body(program.browse(handle, NEXT | GetOption.ACCEPT_TRUNCATED_MSG, buffer_bytes_max=1)) for _ in range(7)]

    assert [b"5", b"6", b"7", b"8", b"9", b"1", b"1"] == cut
    assert b"12" == body(program.browse(handle))
