"""Connections, units of work and their isolation. Source: IBM q026790 (commit and backout), MQDISC, rc2024."""

from collections.abc import Callable

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused


def test_an_uncommitted_put_is_invisible_to_others(queue: str, program: Program, other: Program) -> None:
    program.put_in_unit(queue, b"one")

    assert other.get(queue) is None
    assert other.seen(queue) == []


def test_an_uncommitted_put_is_got_in_its_own_unit_of_work(queue: str, program: Program) -> None:
    program.put_in_unit(queue, b"one")

    got = program.get_in_unit(queue)

    assert got is not None
    assert b"one" == got.body


def test_an_uncommitted_put_is_not_there_for_a_get_outside_its_unit_of_work(queue: str, program: Program) -> None:
    program.put_in_unit(queue, b"one")

    assert program.get(queue) is None


@pytest.mark.parametrize("end", [Program.commit, Program.backout])
def test_a_put_that_its_own_unit_of_work_got_again_is_gone_after_its_end(
    queue_manager: UnderTest, queue: str, program: Program, end: Callable[[Program], None]
) -> None:
    program.put_in_unit(queue, b"one")
    program.get_in_unit(queue)
    end(program)

    assert queue_manager.depth(queue) == 0


def test_own_and_committed_messages_are_got_in_one_order(queue: str, program: Program, other: Program) -> None:
    other.put(queue, b"first", priority=5)
    program.put_in_unit(queue, b"second", priority=5)
    other.put(queue, b"third", priority=5)
    program.put_in_unit(queue, b"urgent", priority=6)

    order = [program.get_in_unit(queue) for _ in range(4)]

    assert [b"urgent", b"first", b"second", b"third"] == [got.body for got in order if got is not None]


def test_a_commit_shows_every_put_of_the_unit_of_work(queue: str, program: Program, other: Program) -> None:
    program.put_in_unit(queue, b"one")
    program.put_in_unit(queue, b"two")
    program.commit()

    assert [b"one", b"two"] == other.bodies(queue)


def test_a_backout_takes_every_put_back(queue_manager: UnderTest, queue: str, program: Program, other: Program) -> None:
    program.put_in_unit(queue, b"one")
    program.backout()

    assert other.get(queue) is None
    assert queue_manager.depth(queue) == 0


def test_a_unit_of_work_spans_every_handle_of_its_connection(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    queue_manager.define("IN")
    queue_manager.define("OUT")
    other.put("IN", b"order")
    got = program.get_in_unit("IN")
    assert got is not None
    program.put_in_unit("OUT", b"booked")

    program.backout()

    assert [b"order"] == other.seen("IN")
    assert [] == other.seen("OUT")


def test_a_message_got_in_a_unit_of_work_is_invisible_to_other_programs(queue: str, program: Program, other: Program) -> None:
    other.put(queue, b"one")
    program.get_in_unit(queue)

    assert other.get(queue) is None
    assert other.seen(queue) == []


def test_the_depth_counts_uncommitted_puts_and_gets(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.put(queue, b"one")
    program.get_in_unit(queue)
    program.put_in_unit(queue, b"two")

    assert queue_manager.depth(queue) == 2


def test_a_get_without_a_syncpoint_option_is_outside_the_unit_of_work(queue: str, program: Program, other: Program) -> None:
    program.put(queue, b"one")
    program.get(queue, GetOption.NONE)
    program.backout()

    assert other.seen(queue) == []


def test_a_put_without_a_syncpoint_option_is_outside_the_unit_of_work(queue: str, program: Program, other: Program) -> None:
    program.put(queue, b"one", PutOption.NONE)

    assert [b"one"] == other.seen(queue)


def test_a_disconnect_commits_the_open_unit_of_work(queue: str, program: Program, other: Program) -> None:
    program.put_in_unit(queue, b"one")
    program.disconnect()

    assert [b"one"] == other.seen(queue)


def test_a_killed_program_is_backed_out(queue: str, program: Program, other: Program) -> None:
    other.put(queue, b"got")
    program.get_in_unit(queue)
    program.put_in_unit(queue, b"put")
    program.killed()

    assert [b"got"] == other.seen(queue)


def test_a_verb_after_the_disconnect_is_2018(queue: str, program: Program) -> None:
    handle = program.open(queue)
    program.disconnect()

    with refused(Reason.HCONN_ERROR):
        program.get(handle)
    with refused(Reason.HCONN_ERROR):
        program.open(queue)
    with refused(Reason.HCONN_ERROR):
        program.commit()
    with refused(Reason.HCONN_ERROR):
        program.backout()
    with refused(Reason.HCONN_ERROR):
        program.disconnect()


def test_a_handle_is_good_on_its_own_connection_only(queue: str, program: Program, other: Program) -> None:
    handle = program.open(queue)

    with refused(Reason.HOBJ_ERROR):
        other.get(handle)


def test_a_closed_handle_is_2019(queue: str, program: Program) -> None:
    handle = program.open(queue)
    program.close(handle)

    with refused(Reason.HOBJ_ERROR):
        program.put(handle, b"")
    with refused(Reason.HOBJ_ERROR):
        program.close(handle)


def test_an_object_that_is_no_handle_is_2019(program: Program) -> None:
    with refused(Reason.HOBJ_ERROR):
        program.connection.get(None, GetOptions())  # type: ignore[arg-type]  # this is the test


def test_a_commit_and_a_backout_with_nothing_in_the_unit_of_work_are_fine(program: Program) -> None:
    program.commit()
    program.backout()


def test_a_rolled_back_handle_stays_open(queue: str, program: Program) -> None:
    program.put_in_unit(queue, b"one")
    program.backout()
    program.put_in_unit(queue, b"two")
    program.commit()

    assert [b"two"] == program.bodies(queue)


@pytest.mark.parametrize("verb", ["put", "get"])
def test_more_than_maxumsgs_operations_are_2024(queue_manager: UnderTest, queue: str, program: Program, verb: str) -> None:
    """Source: rc2024; puts and gets both count."""
    queue_manager.administration.alter_queue_manager({"max_uncommitted_messages": 2})
    program.put(queue, b"there")
    program.put_in_unit(queue, b"one")
    program.put_in_unit(queue, b"two")

    with refused(Reason.SYNCPOINT_LIMIT_REACHED):
        program.put_in_unit(queue) if verb == "put" else program.get_in_unit(queue)


def test_a_unit_of_work_at_its_limit_stays_usable(queue_manager: UnderTest, queue: str, program: Program) -> None:
    """Source: rc2024."""
    queue_manager.administration.alter_queue_manager({"max_uncommitted_messages": 1})
    program.put_in_unit(queue, b"one")
    with refused(Reason.SYNCPOINT_LIMIT_REACHED):
        program.put_in_unit(queue, b"two")
    program.commit()

    assert [b"one"] == program.bodies(queue)


@pytest.mark.parametrize("persistence", [0, 1])
def test_operations_outside_the_unit_of_work_do_not_count_for_maxumsgs(
    queue_manager: UnderTest, queue: str, program: Program, persistence: int
) -> None:
    queue_manager.administration.alter_queue_manager({"max_uncommitted_messages": 1})
    program.put_in_unit(queue, b"in")

    program.put(queue, b"out", persistence=persistence)

    assert [b"out"] == program.bodies(queue)


def test_a_connection_knows_its_queue_manager(queue_manager: UnderTest, program: Program) -> None:
    assert queue_manager.name == program.connection.queue_manager_name


def test_put1_in_a_unit_of_work_shows_after_the_commit(queue: str, program: Program, other: Program) -> None:
    program.connection.put1(queue, MessageDescriptor(), b"one", PutOption.SYNCPOINT)
    before = other.seen(queue)
    program.commit()

    assert ([], [b"one"]) == (before, other.seen(queue))


def test_closing_a_handle_leaves_its_unit_of_work_open(queue: str, program: Program, other: Program) -> None:
    handle = program.open(queue, OpenOption.OUTPUT)
    program.put_in_unit(handle, b"one")
    program.close(handle)
    before = other.seen(queue)
    program.commit()

    assert ([], [b"one"]) == (before, other.seen(queue))
