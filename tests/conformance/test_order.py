"""The order in which messages are delivered. Source: IBM q103300 (MsgDeliverySequence), q026260."""

from mqflow.mqi.options import GetOption
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest

FIFO = 1
BY_PRIORITY = 0


def test_higher_priority_comes_first_and_equal_ones_in_order_of_arrival(queue: str, program: Program) -> None:
    for body, priority in ((b"a0", 0), (b"b9", 9), (b"c4", 4), (b"d9", 9), (b"e0", 0)):
        program.put(queue, body, priority=priority)

    assert [b"b9", b"d9", b"c4", b"a0", b"e0"] == program.bodies(queue)


def test_a_fifo_queue_does_not_look_at_priorities(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("FIFO", message_delivery_sequence=FIFO)
    for body, priority in ((b"a", 0), (b"b", 9), (b"c", 4)):
        program.put("FIFO", body, priority=priority)

    assert [b"a", b"b", b"c"] == program.bodies("FIFO")


def test_a_fifo_queue_leaves_the_priority_in_the_descriptor(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("FIFO", message_delivery_sequence=FIFO)
    program.put("FIFO", b"", priority=7)

    assert program.got("FIFO").descriptor.priority == 7


def test_the_sequence_in_force_at_arrival_decides(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.define("CHANGING", message_delivery_sequence=FIFO, default_priority=0)
    program.put("CHANGING", b"fifo, low", priority=1)
    program.put("CHANGING", b"fifo, high", priority=9)
    queue_manager.administration.alter("CHANGING", {"message_delivery_sequence": BY_PRIORITY})
    program.put("CHANGING", b"by priority", priority=5)

    assert [b"by priority", b"fifo, low", b"fifo, high"] == program.bodies("CHANGING")


def test_the_place_is_that_of_the_put_not_of_the_commit(queue: str, program: Program, other: Program) -> None:
    program.put_in_unit(queue, b"put first")
    other.put(queue, b"put second")
    program.commit()

    assert [b"put first", b"put second"] == other.bodies(queue)


def test_a_late_commit_puts_a_message_before_consumed_messages(queue: str, program: Program, other: Program) -> None:
    """The place of the message can be before messages that were consumed already (q026260)."""
    program.put_in_unit(queue, b"early")
    other.put(queue, b"late")
    consumed = other.got(queue).body
    program.commit()

    assert (b"late", [b"early"]) == (consumed, other.bodies(queue))


def test_backed_out_messages_come_before_later_ones(queue: str, program: Program, other: Program) -> None:
    other.put(queue, b"one")
    other.put(queue, b"two")
    program.get_in_unit(queue)
    other.put(queue, b"three")
    program.backout()

    assert [b"one", b"two", b"three"] == other.bodies(queue)


def test_two_units_of_work_backed_out_in_any_order_restore_the_order(queue: str, program: Program, other: Program) -> None:
    for body in (b"one", b"two", b"three"):
        other.put(queue, body)
    program.get(queue, GetOption.SYNCPOINT)
    other.get(queue, GetOption.SYNCPOINT)
    program.backout()
    other.backout()

    assert [b"one", b"two", b"three"] == other.bodies(queue)
