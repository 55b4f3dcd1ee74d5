"""Gets and browses by a selection string given to MQOPEN. Source: IBM, MQOD SelectionString, "Selectors"; rc2459, rc2516."""

import threading

import pytest

from mqflow.app.handlers.outgoing_message import framed, outgoing
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, ObjectType, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import ObjectDescriptor, ObjectHandle
from tests.conformance.programs import Program
from tests.conformance.under_test import refused

BOTH = OpenOption.INPUT_SHARED | OpenOption.BROWSE
RED = "colour = 'red'"


def put(program: Program, queue: str, body: bytes, colour: str, options: PutOption = PutOption.NO_SYNCPOINT) -> None:
    descriptor, data = framed(outgoing(queue, body, properties={"colour": colour}))
    program.connection.put(program.handle(queue), descriptor, data, options)


@pytest.fixture
def red(program: Program, queue: str) -> ObjectHandle:
    return program.open(queue, BOTH, selection=RED)


def taken(program: Program, handle: ObjectHandle, options: GetOption = GetOption.NO_SYNCPOINT) -> list[bytes]:
    found: list[bytes] = []
    while (got := program.get(handle, options | GetOption.PROPERTIES_FORCE_MQRFH2)) is not None:
        found.append(got.body[-1:])
    return found


def test_a_get_skips_messages_that_its_selector_does_not_select(program: Program, queue: str, red: ObjectHandle) -> None:
    for body, colour in ((b"1", "blue"), (b"2", "red"), (b"3", "blue"), (b"4", "red")):
        put(program, queue, body, colour)

    assert [b"2", b"4"] == taken(program, red)
    assert [b"1", b"3"] == taken(program, program.handle(queue))


def test_a_browse_passes_it_over_as_well(program: Program, queue: str, red: ObjectHandle) -> None:
    for body, colour in ((b"1", "red"), (b"2", "blue"), (b"3", "red")):
        put(program, queue, body, colour)

    assert [b"1", b"3"] == taken(program, red, GetOption.BROWSE_NEXT)


def test_the_descriptor_can_be_selected_by(program: Program, queue: str) -> None:
    important = program.open(queue, BOTH, selection="Root.MQMD.Priority > 5")
    for priority in (1, 9):
        program.put(queue, str(priority).encode(), priority=priority)

    assert [b"9"] == taken(program, important)


def test_a_backed_out_message_is_selected_again(program: Program, queue: str, red: ObjectHandle) -> None:
    put(program, queue, b"1", "red")
    assert program.get_in_unit(red) is not None
    assert [] == taken(program, red)
    program.backout()

    assert [b"1"] == taken(program, red)


def test_puts_of_the_own_unit_of_work_are_selected(program: Program, queue: str, red: ObjectHandle) -> None:
    put(program, queue, b"1", "blue", PutOption.SYNCPOINT)
    put(program, queue, b"2", "red", PutOption.SYNCPOINT)

    assert program.got(red, GetOption.SYNCPOINT).body.endswith(b"2")
    program.commit()
    assert [b"1"] == taken(program, program.handle(queue))


def test_a_put_of_the_own_unit_of_work_is_selected_in_front_of_messages_that_are_not(program: Program, queue: str) -> None:
    important = program.open(queue, BOTH, selection="Root.MQMD.Priority > 5")
    program.put(queue, b"not selected", priority=1)
    assert program.get_in_unit(important) is None

    program.put_in_unit(queue, b"selected", priority=9)

    assert b"selected" == program.got(important, GetOption.SYNCPOINT).body


def test_a_wait_ends_with_a_message_that_is_selected(program: Program, other: Program, queue: str, red: ObjectHandle) -> None:
    def publish() -> None:
        put(other, queue, b"1", "blue")
        put(other, queue, b"2", "red")

    later = threading.Timer(0.05, publish)
    later.start()
    got = program.got(red, GetOption.NO_SYNCPOINT | GetOption.WAIT, wait_ms=30_000)
    later.join()

    assert got.body.endswith(b"2")


def test_two_waiters_with_other_selectors_do_not_keep_a_message_from_a_third(
    program: Program, other: Program, queue: str
) -> None:
    """A message wakes the get that selects it, not a get that does not."""
    program.open(queue, BOTH, selection=RED)
    got: list[bytes] = []
    handle = other.open(queue, BOTH, selection="colour = 'blue'")
    waiting = threading.Thread(target=lambda: got.append(other.got(handle, GetOption.WAIT, wait_ms=30_000).body[-1:]))
    waiting.start()
    assert program.get(program.open(queue, BOTH, selection=RED), GetOption.WAIT, wait_ms=50) is None
    put(program, queue, b"1", "blue")
    waiting.join()

    assert [b"1"] == got


def test_a_selector_that_makes_no_sense_is_2459(program: Program, queue: str) -> None:
    with refused(Reason.SELECTOR_SYNTAX_ERROR):
        program.open(queue, BOTH, selection="colour =")


@pytest.mark.parametrize("selection", ["1 = 2", "FALSE AND colour = 'red'"])
def test_a_selector_that_is_false_without_any_property_is_2504(program: Program, queue: str, selection: str) -> None:
    """q023000: such a string gets MQRC_SELECTOR_ALWAYS_FALSE from the call that presented it."""
    with refused(Reason.SELECTOR_ALWAYS_FALSE):
        program.open(queue, BOTH, selection=selection)


@pytest.mark.parametrize(
    ("options", "more"),
    [
        pytest.param(OpenOption.OUTPUT, {}, id="for output"),
        pytest.param(OpenOption.OUTPUT, {"object_type": ObjectType.TOPIC, "object_string": "Prices"}, id="a topic"),
    ],
)
def test_a_selector_without_input_or_browse_is_2516(
    program: Program, queue: str, options: OpenOption, more: dict[str, object]
) -> None:
    with refused(Reason.SELECTOR_INVALID_FOR_TYPE):
        program.open("" if more else queue, options, selection=RED, **more)


def test_a_selector_for_mqput1_is_2516(program: Program, queue: str) -> None:
    with refused(Reason.SELECTOR_INVALID_FOR_TYPE):
        program.connection.put1(ObjectDescriptor(queue, selection=RED), MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)
