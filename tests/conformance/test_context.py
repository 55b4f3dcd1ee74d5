"""Message context: the user, the program and the time of a put. Source: IBM, MQPMO context options; rc2093 to rc2098."""

from typing import Any

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import ApplicationType, GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions, ObjectHandle
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused

ALL_RIGHTS = OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT | OpenOption.SET_ALL_CONTEXT
SAVING = OpenOption.INPUT_SHARED | OpenOption.BROWSE | OpenOption.SAVE_ALL_CONTEXT
SET: dict[str, Any] = {
    "user_identifier": "sombra", "accounting_token": b"a" * 32, "application_identity_data": "identity",
    "put_application_type": ApplicationType.JAVA, "put_application_name": "origin.Main", "put_date": "20200229",
    "put_time": "23595999", "application_origin_data": "orig",
}  # fmt: skip
IDENTITY = ("user_identifier", "accounting_token", "application_identity_data")
ORIGIN = ("put_application_type", "put_application_name", "put_date", "put_time", "application_origin_data")


def fields(descriptor: MessageDescriptor, names: tuple[str, ...]) -> list[object]:
    return [getattr(descriptor, name) for name in names]


@pytest.fixture
def source(queue_manager: UnderTest, other: Program) -> str:
    """A queue with one message whose context is known."""
    queue_manager.define("SOURCE")
    handle = other.open("SOURCE", ALL_RIGHTS)
    other.put(handle, b"from", PutOption.SET_ALL_CONTEXT, **SET)
    return "SOURCE"


def passed_on(program: Program, queue: str, source: str, option: PutOption) -> MessageDescriptor:
    """Get a message from the source, put it to the queue with its context, and return its descriptor on that queue."""
    saved = program.open(source, SAVING)
    program.get(saved)
    target = program.open(queue, ALL_RIGHTS)
    program.connection.put(target, MessageDescriptor(), b"", option | PutOption.NO_SYNCPOINT, context=saved)
    return program.got(queue).descriptor


def test_by_default_the_queue_manager_fills_everything_in(queue: str, program: Program) -> None:
    program.put(queue, b"", **SET)
    got = program.got(queue).descriptor

    assert ["tester", bytes(32), ""] == fields(got, IDENTITY)
    assert [ApplicationType.UNIX, "conformance", "20260102", "03040567", ""] == fields(got, ORIGIN)


def test_default_context_may_be_asked_for(queue: str, program: Program) -> None:
    program.put(queue, b"", PutOption.DEFAULT_CONTEXT, **SET)

    assert "tester" == program.got(queue).descriptor.user_identifier


def test_no_context_is_blank(queue: str, program: Program) -> None:
    program.put(queue, b"", PutOption.NO_CONTEXT, **SET)
    got = program.got(queue).descriptor

    assert ["", bytes(32), ""] == fields(got, IDENTITY)
    assert [ApplicationType.NO_CONTEXT, "", "", "", ""] == fields(got, ORIGIN)


def test_set_all_takes_everything_from_the_program(queue: str, program: Program) -> None:
    program.put(program.open(queue, ALL_RIGHTS), b"", PutOption.SET_ALL_CONTEXT, **SET)
    got = program.got(queue).descriptor

    assert list(SET.values()) == fields(got, IDENTITY + ORIGIN)


def test_set_identity_takes_the_identity_only(queue: str, program: Program) -> None:
    program.put(program.open(queue, ALL_RIGHTS), b"", PutOption.SET_IDENTITY_CONTEXT, **SET)
    got = program.got(queue).descriptor

    assert ["sombra", b"a" * 32, "identity"] == fields(got, IDENTITY)
    assert [ApplicationType.UNIX, "conformance", "20260102", "03040567", ""] == fields(got, ORIGIN)


@pytest.mark.parametrize(
    "field", [{"accounting_token": b"short"}, {"user_identifier": "u" * 13}, {"application_origin_data": "12345"}], ids=str
)
def test_a_context_without_room_in_its_field_is_2026(queue: str, program: Program, field: dict[str, Any]) -> None:
    handle = program.open(queue, ALL_RIGHTS)

    with refused(Reason.MD_ERROR):
        program.put(handle, b"", PutOption.SET_ALL_CONTEXT, **SET | field)


def test_pass_all_passes_identity_and_origin_on(queue: str, source: str, program: Program) -> None:
    got = passed_on(program, queue, source, PutOption.PASS_ALL_CONTEXT)

    assert list(SET.values()) == fields(got, IDENTITY + ORIGIN)


def test_pass_identity_passes_the_identity_on_only(queue: str, source: str, program: Program) -> None:
    got = passed_on(program, queue, source, PutOption.PASS_IDENTITY_CONTEXT)

    assert ["sombra", b"a" * 32, "identity"] == fields(got, IDENTITY)
    assert [ApplicationType.UNIX, "conformance", "20260102", "03040567", ""] == fields(got, ORIGIN)


def _target(program: Program, queue: str) -> ObjectHandle:
    return program.open(queue, ALL_RIGHTS)


def test_a_context_handle_that_saves_nothing_is_2097(queue: str, source: str, program: Program) -> None:
    plain = program.open(source, OpenOption.INPUT_SHARED)
    program.get(plain)

    with refused(Reason.CONTEXT_HANDLE_ERROR):
        program.connection.put(_target(program, queue), MessageDescriptor(), b"", PutOption.PASS_ALL_CONTEXT, context=plain)


@pytest.mark.parametrize("which", ["none", "closed", "of another connection"])
def test_an_invalid_context_handle_is_2097(queue: str, source: str, program: Program, other: Program, which: str) -> None:
    handle = None
    if which == "closed":
        handle = program.open(source, SAVING)
        program.close(handle)
    elif which == "of another connection":
        handle = other.open(source, SAVING)
        other.get(handle)

    with refused(Reason.CONTEXT_HANDLE_ERROR):
        program.connection.put(_target(program, queue), MessageDescriptor(), b"", PutOption.PASS_ALL_CONTEXT, context=handle)


def test_a_context_handle_before_its_first_get_is_2098(queue: str, source: str, program: Program) -> None:
    saved = program.open(source, SAVING)

    with refused(Reason.CONTEXT_NOT_AVAILABLE):
        program.connection.put(_target(program, queue), MessageDescriptor(), b"", PutOption.PASS_ALL_CONTEXT, context=saved)


def test_a_browse_saves_no_context(queue: str, source: str, program: Program) -> None:
    saved = program.open(source, SAVING)
    program.get(saved, GetOption.BROWSE_FIRST)

    with refused(Reason.CONTEXT_NOT_AVAILABLE):
        program.connection.put(_target(program, queue), MessageDescriptor(), b"", PutOption.PASS_ALL_CONTEXT, context=saved)


def test_pass_all_rights_include_pass_identity(queue: str, source: str, program: Program) -> None:
    saved = program.open(source, SAVING)
    program.get(saved)
    target = program.open(queue, OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT)

    program.connection.put(target, MessageDescriptor(), b"", PutOption.PASS_IDENTITY_CONTEXT, context=saved)


def test_set_all_rights_include_set_identity(queue: str, program: Program) -> None:
    target = program.open(queue, OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT)

    program.put(target, b"", PutOption.SET_IDENTITY_CONTEXT, **SET)


def test_put1_needs_no_open_options_for_its_context(queue: str, source: str, program: Program) -> None:
    saved = program.open(source, SAVING)
    program.connection.get(saved, GetOptions(options=GetOption.NO_SYNCPOINT))
    program.connection.put1(queue, MessageDescriptor(), b"", PutOption.PASS_ALL_CONTEXT, context=saved)

    assert "sombra" == program.got(queue).descriptor.user_identifier


def test_two_context_options_are_2046(queue: str, program: Program) -> None:
    with refused(Reason.OPTIONS_ERROR):
        program.put(_target(program, queue), b"", PutOption.SET_ALL_CONTEXT | PutOption.NO_CONTEXT)


def test_names_longer_than_their_field_are_cut(queue: str, queue_manager: UnderTest) -> None:
    long_named = Program(queue_manager, application_name="a" * 40, user="u" * 20)
    long_named.put(queue)
    got = long_named.got(queue).descriptor

    assert ("a" * 28, "u" * 12) == (got.put_application_name, got.user_identifier)
