"""A queue manager that quiesces or stops. Source: IBM q083320 (ending a queue manager), rc2161, rc2162."""

import pytest

from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from tests.conformance.programs import EVERYTHING, Program
from tests.conformance.under_test import UnderTest, refused


def test_a_quiescing_queue_manager_takes_no_new_connection(queue_manager: UnderTest) -> None:
    queue_manager.quiesce()

    with refused(Reason.Q_MGR_QUIESCING):
        Program(queue_manager)


@pytest.mark.parametrize("verb", ["open", "put", "get"])
def test_new_work_that_asks_for_it_fails_while_quiescing(
    queue_manager: UnderTest, queue: str, program: Program, verb: str
) -> None:
    handle = program.open(queue)
    queue_manager.quiesce()

    with refused(Reason.Q_MGR_QUIESCING):
        match verb:
            case "open":
                program.open(queue, EVERYTHING | OpenOption.FAIL_IF_QUIESCING)
            case "put":
                program.put(handle, b"", PutOption.FAIL_IF_QUIESCING)
            case _:
                program.get(handle, GetOption.FAIL_IF_QUIESCING)


def test_other_work_goes_on_while_quiescing(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.put(queue, b"1")
    queue_manager.quiesce()
    program.get_in_unit(queue)
    program.put_in_unit(queue, b"2")
    program.commit()

    assert [b"2"] == program.bodies(queue)


def test_a_stopped_queue_manager_cannot_be_connected_to(queue_manager: UnderTest) -> None:
    queue_manager.stop()

    with refused(Reason.Q_MGR_NOT_AVAILABLE):
        Program(queue_manager)


@pytest.mark.parametrize("verb", ["open", "put", "get", "backout", "close"])
def test_a_verb_after_the_stop_is_2162(queue_manager: UnderTest, queue: str, program: Program, verb: str) -> None:
    handle = program.open(queue)
    queue_manager.stop()

    with refused(Reason.Q_MGR_STOPPING):
        match verb:
            case "open":
                program.open(queue)
            case "put":
                program.put(handle)
            case "get":
                program.get(handle)
            case "close":
                program.close(handle)
            case _:
                program.backout()


def test_a_commit_after_the_stop_says_that_the_unit_of_work_was_backed_out(
    queue_manager: UnderTest, queue: str, program: Program
) -> None:
    """The reason is 2003 only if the backout is certain: here the stop backed out the unit of work."""
    program.put_in_unit(queue, b"1")
    queue_manager.stop()

    with refused(Reason.BACKED_OUT):
        program.commit()


def test_a_disconnect_after_the_stop_raises_that_its_unit_was_backed_out(
    queue_manager: UnderTest, queue: str, program: Program
) -> None:
    """MQDISC commits: if the commit is no longer possible, the disconnect must fail."""
    program.put_in_unit(queue, b"1")
    queue_manager.stop()

    with refused(Reason.BACKED_OUT):
        program.disconnect()


def test_a_disconnect_after_the_stop_is_quiet(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.stop()

    program.disconnect()


def test_a_stop_can_be_asked_for_twice(queue_manager: UnderTest) -> None:
    queue_manager.stop()
    queue_manager.stop()
