"""The state that a restart keeps, for queue managers that survive one. Source: IBM q023090 (backed-out messages), q003140."""

import pytest

from mqflow.mqi.options import GetOption, QueueType
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest


@pytest.fixture
def restarted(queue_manager: UnderTest) -> "Restart":
    return Restart(queue_manager)


class Restart:
    """Restarts the queue manager and connects a program to it."""

    def __init__(self, queue_manager: UnderTest) -> None:
        self._queue_manager = queue_manager

    def __call__(self) -> Program:
        if self._queue_manager.restart is None:
            pytest.skip("nothing survives here")
        return Program(self._queue_manager.restart())


def test_persistent_messages_are_there_again_in_order(queue: str, program: Program, restarted: Restart) -> None:
    for body, priority in ((b"1", 0), (b"2", 9), (b"3", 0)):
        program.put(queue, body, priority=priority, persistence=1)

    assert [b"2", b"1", b"3"] == restarted().bodies(queue)


def test_other_messages_are_gone(queue: str, program: Program, restarted: Restart) -> None:
    program.put(queue, b"1", persistence=0)

    assert [] == restarted().bodies(queue)


def test_a_message_is_there_again_with_its_whole_descriptor(queue: str, program: Program, restarted: Restart) -> None:
    put = program.put(queue, b"1", persistence=1, format="MQSTR", correlation_id=b"c" * 24, reply_to_queue="R", priority=3)

    assert put.descriptor == restarted().got(queue).descriptor


def test_a_committed_get_is_not_undone(queue: str, program: Program, restarted: Restart) -> None:
    program.put(queue, b"1", persistence=1)
    program.get_in_unit(queue)
    program.commit()

    assert [] == restarted().bodies(queue)


def test_a_get_outside_the_unit_of_work_is_not_undone(queue: str, program: Program, restarted: Restart) -> None:
    program.put(queue, b"1", persistence=1)
    program.get(queue)

    assert [] == restarted().bodies(queue)


def test_an_uncommitted_put_is_gone(queue: str, program: Program, restarted: Restart) -> None:
    program.put_in_unit(queue, b"1", persistence=1)

    assert [] == restarted().bodies(queue)


def test_an_uncommitted_get_is_backed_out_and_counted(queue: str, program: Program, restarted: Restart) -> None:
    program.put(queue, b"1", persistence=1)
    program.get_in_unit(queue)

    assert 1 == restarted().got(queue).descriptor.backout_count


def test_the_backout_count_survives(queue: str, program: Program, restarted: Restart) -> None:
    program.put(queue, b"1", persistence=1)
    for _ in range(3):
        program.get_in_unit(queue)
        program.backout()

    assert 3 == restarted().got(queue).descriptor.backout_count


def test_a_hardened_backout_count_survives(queue_manager: UnderTest, program: Program, restarted: Restart) -> None:
    queue_manager.define("HARD", harden_get_backout=True)
    program.put("HARD", b"1", persistence=1)
    program.get_in_unit("HARD")
    program.backout()

    assert 1 == restarted().got("HARD").descriptor.backout_count


def test_expiry_goes_on_while_the_queue_manager_is_down(
    queue_manager: UnderTest, queue: str, program: Program, restarted: Restart
) -> None:
    program.put(queue, b"short", persistence=1, expiry_tenths=10)
    program.put(queue, b"long", persistence=1, expiry_tenths=100)
    queue_manager.advance(4)
    again = restarted()

    got = again.got(queue)
    assert (b"long", 60) == (got.body, got.descriptor.expiry_tenths)


def test_identifiers_are_not_used_again(queue: str, program: Program, restarted: Restart) -> None:
    before = program.put(queue, b"1", persistence=1).descriptor.message_id
    after = restarted().put(queue, b"2").descriptor.message_id

    assert before < after


def test_definitions_survive(queue_manager: UnderTest, restarted: Restart) -> None:
    queue_manager.define("SPECIAL", backout_threshold=3, description="kept")
    queue_manager.define_alias("ALIAS", "SPECIAL")
    queue_manager.administration.alter("SPECIAL", {"max_depth": 7})
    queue_manager.administration.alter_queue_manager({"description": "kept"})
    administration = restarted().queue_manager.administration
    special = administration.queue("SPECIAL")
    alias = administration.queue("ALIAS")

    assert special is not None
    assert alias is not None
    assert (3, "kept", 7) == (special.backout_threshold, special.description, special.max_depth)
    assert "SPECIAL" == alias.target
    assert "kept" == administration.queue_manager.description


def test_deleted_and_cleared_queues_stay_so(queue_manager: UnderTest, restarted: Restart) -> None:
    for name in ("GONE", "EMPTY"):
        queue_manager.define(name)
        program = Program(queue_manager)
        program.put(name, b"1", persistence=1)
        program.disconnect()
    queue_manager.administration.delete("GONE", purge=True)
    queue_manager.administration.clear("EMPTY")
    again = restarted()

    assert again.queue_manager.administration.queue("GONE") is None
    assert [] == again.bodies("EMPTY")


@pytest.mark.parametrize(("definition_type", "survives"), [(2, True), (3, False)], ids=["permanent", "temporary"])
def test_only_permanent_dynamic_queues_survive(
    queue_manager: UnderTest, program: Program, restarted: Restart, definition_type: int, *, survives: bool
) -> None:
    queue_manager.define("MODEL", kind=QueueType.MODEL, definition_type=definition_type)
    name = program.open("MODEL").name

    assert survives == (restarted().queue_manager.administration.queue(name) is not None)


def test_an_expired_message_that_was_discarded_does_not_come_back(
    queue_manager: UnderTest, queue: str, program: Program, restarted: Restart
) -> None:
    program.put(queue, b"1", persistence=1, expiry_tenths=10)
    queue_manager.advance(1)
    program.get(queue, GetOption.BROWSE_FIRST)
    queue_manager.advance(-1)

    assert [] == restarted().bodies(queue)


def test_a_unit_of_work_over_persistent_and_other_messages_is_whole(
    queue_manager: UnderTest, queue: str, program: Program, other: Program
) -> None:
    program.put_in_unit(queue, b"1", persistence=1)
    program.put_in_unit(queue, b"2", persistence=0)
    before = queue_manager.depth(queue), other.seen(queue)
    program.commit()

    assert ((2, []), [b"1", b"2"]) == (before, other.seen(queue))
