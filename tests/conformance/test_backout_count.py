"""The deliveries that increase BackoutCount. Source: IBM q097450, "BackoutCount"."""

from mqflow.mqi.options import GetOption, OpenOption, PutOption
from tests.conformance.programs import Program


def test_a_message_starts_at_zero(queue: str, program: Program) -> None:
    program.put(queue, b"one")

    assert program.got(queue).descriptor.backout_count == 0


def test_the_count_a_program_puts_is_ignored(queue: str, program: Program) -> None:
    """BackoutCount is an output-only field."""
    program.put(queue, b"one", backout_count=7)

    assert program.got(queue).descriptor.backout_count == 0


def test_each_unit_of_work_that_is_backed_out_adds_one(queue: str, program: Program) -> None:
    program.put(queue, b"one")
    counts = []
    for _ in range(3):
        counts.append(program.got(queue, GetOption.SYNCPOINT).descriptor.backout_count)
        program.backout()

    assert [0, 1, 2] == counts


def test_every_message_of_the_unit_of_work_is_counted(queue: str, program: Program) -> None:
    program.put(queue, b"one")
    program.put(queue, b"two")
    program.get_in_unit(queue)
    program.get_in_unit(queue)
    program.backout()

    assert [1, 1] == [program.got(queue).descriptor.backout_count for _ in range(2)]


def test_a_killed_program_adds_one(queue: str, program: Program, other: Program) -> None:
    program.put(queue, b"one")
    program.get_in_unit(queue)
    program.killed()

    assert other.got(queue).descriptor.backout_count == 1


def test_a_browse_adds_nothing(queue: str, program: Program) -> None:
    program.put(queue, b"one")
    program.browse(queue, GetOption.BROWSE_FIRST | GetOption.LOCK)
    program.backout()

    assert program.got(queue).descriptor.backout_count == 0


def test_a_get_outside_the_unit_of_work_has_nothing_to_back_out(queue: str, program: Program) -> None:
    program.put(queue, b"one")
    program.get(queue)
    program.backout()

    assert program.get(queue) is None


def test_a_get_that_was_refused_as_too_long_adds_nothing(queue: str, program: Program) -> None:
    program.put(queue, b"longer")
    program.get_in_unit(queue, buffer_bytes_max=1)
    program.backout()

    assert program.got(queue).descriptor.backout_count == 0


def test_a_copy_starts_at_zero(queue: str, program: Program) -> None:
    program.put(queue, b"one")
    program.get_in_unit(queue)
    program.backout()
    got = program.got(queue)
    program.connection.put(program.handle(queue), got.descriptor, got.body, PutOption.NO_SYNCPOINT)

    assert (1, 0) == (got.descriptor.backout_count, program.got(queue).descriptor.backout_count)


def test_a_browse_shows_the_count(queue: str, program: Program) -> None:
    program.put(queue, b"one")
    program.get_in_unit(queue)
    program.backout()
    seen = program.browse(queue, GetOption.BROWSE_FIRST)

    assert seen is not None
    assert seen.descriptor.backout_count == 1


def test_a_returned_message_is_at_its_old_place(queue: str, program: Program) -> None:
    for body in (b"one", b"two", b"three"):
        program.put(queue, body)
    program.get_in_unit(queue)
    program.backout()

    assert [b"one", b"two", b"three"] == program.bodies(queue)


def test_a_message_returned_from_the_middle_is_at_its_old_place(queue: str, program: Program) -> None:
    middle = [program.put(queue, body) for body in (b"one", b"two", b"three")][1]
    program.get_in_unit(queue, message_id=middle.descriptor.message_id)
    program.backout()

    assert [b"one", b"two", b"three"] == program.bodies(queue)


def test_a_message_taken_under_the_cursor_counts_when_it_is_backed_out(queue: str, program: Program) -> None:
    program.put(queue, b"one")
    handle = program.open(queue, OpenOption.INPUT_SHARED | OpenOption.BROWSE)
    program.get(handle, GetOption.BROWSE_FIRST)
    program.get(handle, GetOption.MSG_UNDER_CURSOR | GetOption.SYNCPOINT)
    program.backout()

    assert program.got(queue).descriptor.backout_count == 1
