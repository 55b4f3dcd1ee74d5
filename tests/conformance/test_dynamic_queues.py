"""Model queues and the dynamic queues they make. Source: IBM q003140, q026100."""

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import CloseOption, OpenOption, PutOption, QueueType
from mqflow.mqi.reason_codes import Reason
from tests.conformance.programs import EVERYTHING, SELECTORS, Program
from tests.conformance.under_test import UnderTest, refused

PERMANENT, TEMPORARY = 2, 3
MODELS = {PERMANENT: "PERM.MODEL", TEMPORARY: "TEMP.MODEL"}


@pytest.fixture(autouse=True)
def models(queue_manager: UnderTest) -> None:
    for definition_type, name in MODELS.items():
        queue_manager.define(name, kind=QueueType.MODEL, definition_type=definition_type, default_priority=4)


@pytest.mark.parametrize("options", [EVERYTHING, OpenOption.INQUIRE])
def test_opening_a_model_makes_a_queue(queue_manager: UnderTest, program: Program, options: OpenOption) -> None:
    handle = program.open("TEMP.MODEL", options)

    made = queue_manager.administration.queue(handle.name)
    assert made is not None
    assert (QueueType.LOCAL, TEMPORARY, 4) == (made.kind, made.definition_type, made.default_priority)
    assert handle.name == handle.resolved_queue


def test_the_default_name_starts_with_amq(program: Program) -> None:
    assert program.open("TEMP.MODEL").name.startswith("AMQ.")


def test_a_prefix_is_completed(program: Program) -> None:
    names = [program.open("TEMP.MODEL", dynamic_name="REPLIES.*").name for _ in range(2)]

    assert all(name.startswith("REPLIES.") and len(name) <= 48 for name in names)
    assert 2 == len(set(names))


def test_a_whole_name_is_taken_as_it_is(program: Program) -> None:
    assert "MY.QUEUE" == program.open("TEMP.MODEL", dynamic_name="MY.QUEUE").name


def test_a_prefix_may_have_32_characters(program: Program) -> None:
    assert 48 == len(program.open("TEMP.MODEL", dynamic_name="P" * 32 + "*").name)


@pytest.mark.parametrize("name", ["P" * 33 + "*", "A*B", "NO NAME", "", "**", "Q" * 49])
def test_a_bad_dynamic_name_is_2011(program: Program, name: str) -> None:
    with refused(Reason.DYNAMIC_Q_NAME_ERROR):
        program.open("TEMP.MODEL", dynamic_name=name)


def test_a_dynamic_name_that_is_taken_is_2100(queue: str, program: Program) -> None:
    with refused(Reason.OBJECT_ALREADY_EXISTS):
        program.open("TEMP.MODEL", dynamic_name=queue)


@pytest.mark.parametrize("model", MODELS.values())
def test_mqput1_takes_no_model(queue_manager: UnderTest, program: Program, model: str) -> None:
    """The message would be lost with the queue that MQPUT1 would make for it. Source: rc2057."""
    before = queue_manager.administration.queues()
    with refused(Reason.Q_TYPE_ERROR):
        program.connection.put1(model, MessageDescriptor(persistence=0), b"", PutOption.NO_SYNCPOINT)

    assert before == queue_manager.administration.queues()


def test_a_temporary_queue_takes_no_persistent_message(program: Program) -> None:
    handle = program.open("TEMP.MODEL")

    with refused(Reason.PERSISTENT_NOT_ALLOWED):
        program.put(handle, b"", persistence=1)


def test_a_temporary_queue_is_deleted_when_its_creating_handle_closes(queue_manager: UnderTest, program: Program) -> None:
    handle = program.open("TEMP.MODEL")
    program.put(handle, b"1")
    program.close(handle)

    assert queue_manager.administration.queue(handle.name) is None


def test_a_temporary_queue_outlives_the_closing_of_other_handles(program: Program, other: Program) -> None:
    creating = program.open("TEMP.MODEL")
    other.close(other.open(creating.name))
    program.put(creating, b"1")

    assert program.get(creating) is not None


def test_a_model_can_be_deleted_while_its_queue_is_open(queue_manager: UnderTest, program: Program) -> None:
    handle = program.open("TEMP.MODEL")
    queue_manager.administration.delete("TEMP.MODEL")

    program.put(handle, b"1")


@pytest.mark.parametrize("end", ["disconnect", "kill"])
def test_a_temporary_queue_goes_with_its_program(queue_manager: UnderTest, program: Program, end: str) -> None:
    name = program.open("TEMP.MODEL").name
    program.disconnect() if end == "disconnect" else program.killed()

    assert queue_manager.administration.queue(name) is None


def test_a_handle_on_a_queue_that_was_deleted_is_2052(program: Program, other: Program) -> None:
    creating = program.open("TEMP.MODEL")
    theirs = other.open(creating.name)
    program.close(creating)

    with refused(Reason.Q_DELETED):
        other.put(theirs, b"")
    other.close(theirs)


def test_work_under_way_on_a_deleted_temporary_queue_ends_in_nothing(program: Program, other: Program) -> None:
    creating = program.open("TEMP.MODEL")
    program.put(creating, b"1")
    theirs = other.open(creating.name)
    other.get_in_unit(theirs)
    other.put_in_unit(theirs, b"2")
    program.close(creating)

    other.backout()
    with refused(Reason.UNKNOWN_OBJECT_NAME):
        other.open(creating.name)


def test_a_permanent_queue_outlives_its_handle(queue_manager: UnderTest, program: Program) -> None:
    handle = program.open("PERM.MODEL")
    program.put(handle, b"1", persistence=1)
    program.close(handle)

    assert [b"1"] == program.bodies(handle.name)


def test_an_empty_permanent_queue_can_be_deleted_by_closing_it(queue_manager: UnderTest, program: Program) -> None:
    handle = program.open("PERM.MODEL")
    program.close(handle, CloseOption.DELETE)

    assert queue_manager.administration.queue(handle.name) is None


def test_a_permanent_queue_with_messages_is_not_deleted(queue_manager: UnderTest, program: Program) -> None:
    handle = program.open("PERM.MODEL")
    program.put(handle, b"1")

    with refused(Reason.Q_NOT_EMPTY):
        program.close(handle, CloseOption.DELETE)
    assert 1 == queue_manager.depth(handle.name)


def test_delete_purge_deletes_the_messages_as_well(queue_manager: UnderTest, program: Program) -> None:
    handle = program.open("PERM.MODEL")
    program.put(handle, b"1")
    program.close(handle, CloseOption.DELETE_PURGE)

    assert queue_manager.administration.queue(handle.name) is None


def test_not_even_delete_purge_deletes_uncommitted_work(program: Program, other: Program) -> None:
    handle = program.open("PERM.MODEL")
    other.put_in_unit(handle.name, b"1")

    with refused(Reason.Q_NOT_EMPTY):
        program.close(handle, CloseOption.DELETE_PURGE)


def test_a_predefined_queue_cannot_be_deleted_by_closing_it(queue: str, program: Program) -> None:
    handle = program.open(queue)

    with refused(Reason.OPTION_NOT_VALID_FOR_TYPE):
        program.close(handle, CloseOption.DELETE)


def test_only_the_creating_handle_deletes_a_temporary_queue(program: Program, other: Program) -> None:
    creating = program.open("TEMP.MODEL")
    theirs = other.open(creating.name)

    with refused(Reason.OPTION_NOT_VALID_FOR_TYPE):
        other.close(theirs, CloseOption.DELETE)
    program.close(creating, CloseOption.DELETE)


def test_a_permanent_queue_can_be_deleted_through_any_handle(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    creating = program.open("PERM.MODEL")
    other.close(other.open(creating.name), CloseOption.DELETE)

    assert queue_manager.administration.queue(creating.name) is None
    with refused(Reason.Q_DELETED):
        program.get(creating)
    program.close(creating, CloseOption.DELETE)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (CloseOption.KEEP_SUB, Reason.OPTION_NOT_VALID_FOR_TYPE),
        (CloseOption.DELETE | CloseOption.DELETE_PURGE, Reason.OPTIONS_ERROR),
        pytest.param(CloseOption(0x40), Reason.OPTIONS_ERROR, id="rc2046: Options contains options that are not valid"),
    ],
)
def test_close_options_that_make_no_sense_are_refused(program: Program, options: CloseOption, reason: Reason) -> None:
    handle = program.open("PERM.MODEL")
    with refused(reason):
        program.close(handle, options)
    program.close(program.open(handle.name))


def test_a_close_with_quiesce_closes_at_once_because_no_message_is_read_ahead(program: Program) -> None:
    handle = program.open("PERM.MODEL")
    program.close(handle, CloseOption.QUIESCE | CloseOption.DELETE)

    with refused(Reason.UNKNOWN_OBJECT_NAME):
        program.open(handle.name)


def test_a_dynamic_queue_is_inquired_as_one(program: Program) -> None:
    handle = program.open("TEMP.MODEL")
    selector = SELECTORS["definition_type"]

    assert TEMPORARY == program.connection.inquire(handle, [selector]).values[selector]


def test_a_refused_open_of_a_model_makes_no_queue(queue_manager: UnderTest, program: Program) -> None:
    before = len(queue_manager.administration.queues())
    with refused(Reason.OPTIONS_ERROR):
        program.open("TEMP.MODEL", OpenOption(0))

    assert before == len(queue_manager.administration.queues())
