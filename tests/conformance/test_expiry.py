"""Messages with an expiry. Source: IBM q097490, "Message expiry"."""

import pytest

from mqflow.mqi.options import GetOption
from mqflow.mqi.reason_codes import Reason
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest

FIFO = 1


@pytest.mark.parametrize(
    ("sent", "seconds", "how", "left"),
    [
        pytest.param(100, 2.5, GetOption.NO_SYNCPOINT, 75, id="the rest"),
        pytest.param(100, 2.5, GetOption.BROWSE_FIRST, 75, id="the rest, to a browse"),
        pytest.param(-1, 1_000_000, GetOption.NO_SYNCPOINT, -1, id="unlimited"),
        pytest.param(10, 0.999, GetOption.NO_SYNCPOINT, 1, id="never zero"),
        pytest.param(10, -3600, GetOption.NO_SYNCPOINT, 10, id="no more than its sender gave, if the clock is set back"),
    ],
)
def test_a_message_shows_its_remaining_expiry(
    queue_manager: UnderTest, queue: str, program: Program, sent: int, seconds: float, how: GetOption, left: int
) -> None:
    program.put(queue, b"1", expiry_tenths=sent)
    queue_manager.advance(seconds)

    assert left == program.got(queue, how).descriptor.expiry_tenths


def test_an_expired_message_is_not_got(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.put(queue, b"1", expiry_tenths=10)
    queue_manager.advance(1)

    assert program.get(queue) is None


def test_an_expired_message_is_not_browsed(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.put(queue, b"1", expiry_tenths=10)
    program.put(queue, b"2")
    queue_manager.advance(1)

    assert [b"2"] == program.seen(queue)


def test_an_expired_message_counts_until_something_looks_for_it(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.put(queue, b"1", expiry_tenths=10)
    queue_manager.advance(1)
    before = queue_manager.depth(queue)
    program.seen(queue)

    assert (1, 0) == (before, queue_manager.depth(queue))


def test_a_get_discards_only_expired_messages_that_match(queue_manager: UnderTest, queue: str, program: Program) -> None:
    """On a queue in order of priority, these are messages of higher priority, or earlier messages of the same priority."""
    program.put(queue, b"high", priority=9, expiry_tenths=10)
    program.put(queue, b"first", priority=5, expiry_tenths=10)
    program.put(queue, b"live", priority=5)
    program.put(queue, b"behind", priority=5, expiry_tenths=10)
    program.put(queue, b"low", priority=0, expiry_tenths=10)
    queue_manager.advance(1)

    assert b"live" == program.got(queue).body
    assert 2 == queue_manager.depth(queue)


def test_a_get_by_identifier_leaves_other_expired_messages(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.put(queue, b"1", expiry_tenths=10)
    wanted = program.put(queue, b"2").descriptor.message_id
    queue_manager.advance(1)
    program.get(queue, message_id=wanted)

    assert 1 == queue_manager.depth(queue)


def test_a_message_in_a_unit_of_work_does_not_expire_in_it(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.put(queue, b"1", expiry_tenths=10)
    program.get_in_unit(queue)
    queue_manager.advance(1)
    program.backout()

    assert 1 == queue_manager.depth(queue)
    assert program.get(queue) is None


def test_expired_messages_make_room_only_once_they_are_discarded(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("ONE", max_depth=1)
    program.put("ONE", b"1", expiry_tenths=10)
    queue_manager.advance(1)
    program.seen("ONE")

    program.put("ONE", b"2")

    assert [b"2"] == program.bodies("ONE")


def test_an_own_uncommitted_message_expires_too(queue_manager: UnderTest, queue: str, program: Program) -> None:
    program.put_in_unit(queue, b"1", expiry_tenths=10)
    queue_manager.advance(1)

    assert program.get_in_unit(queue) is None


def test_a_message_that_is_put_again_keeps_its_remaining_expiry(queue_manager: UnderTest, queue: str, program: Program) -> None:
    """A requeued message lives no longer than its sender intended."""
    program.put(queue, b"1", expiry_tenths=100)
    queue_manager.advance(4)
    got = program.got(queue)
    program.put(queue, b"1", expiry_tenths=got.descriptor.expiry_tenths)
    queue_manager.advance(6)

    assert program.get(queue) is None
    assert got.reason == Reason.NONE
