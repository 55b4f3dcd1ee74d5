"""MQGET: matching, refusals and results. Source: IBM q024040 and q096780 (options), rc2079, rc2080."""

from typing import Any

import pytest

from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.options import GetOption, MatchOption, MessageFlag, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused

A, B, C = (bytes([number]) * 24 for number in (1, 2, 3))
INPUT = OpenOption.INPUT_SHARED


def test_a_get_on_an_empty_queue_returns_none(queue: str, program: Program) -> None:
    """2033."""
    assert program.get(queue) is None


@pytest.mark.parametrize(
    ("wanted", "bodies"),
    [
        ({}, [b"1", b"2", b"3", b"4"]),
        ({"message_id": B}, [b"2"]),
        ({"message_id": C}, [b"3", b"4"]),
        ({"correlation_id": A}, [b"1", b"2", b"4"]),
        ({"message_id": C, "correlation_id": A}, [b"4"]),
        ({"message_id": A, "correlation_id": B}, []),
        ({"message_id": NO_ID, "correlation_id": NO_ID}, [b"1", b"2", b"3", b"4"]),
        ({"message_id": NO_ID, "correlation_id": B}, [b"3"]),
        ({"group_id": B}, [b"2", b"3"]),
        ({"group_id": B, "sequence_number": 2}, [b"3"]),
        ({"sequence_number": 2}, [b"3"]),
        ({"offset": 7}, [b"4"]),
    ],
    ids=str,
)
def test_a_get_takes_matching_messages_in_order(
    queue: str, program: Program, wanted: dict[str, Any], bodies: list[bytes]
) -> None:
    """An identifier of zeros matches any (q024040)."""
    program.put(queue, b"1", message_id=A, correlation_id=A)
    grouped, segment = int(MessageFlag.MSG_IN_GROUP), int(MessageFlag.LAST_SEGMENT)
    program.put(queue, b"2", message_id=B, correlation_id=A, group_id=B, message_flags=grouped)
    program.put(queue, b"3", message_id=C, correlation_id=B, group_id=B, sequence_number=2, message_flags=grouped)
    program.put(queue, b"4", message_id=C, correlation_id=A, offset=7, message_flags=segment)

    found = []
    while (got := program.get(queue, **wanted)) is not None:
        found.append(got.body)

    assert bodies == found


def test_identifiers_are_ignored_unless_matching_is_asked_for(queue: str, program: Program) -> None:
    program.put(queue, b"1", message_id=A)

    got = program.get(queue, match=MatchOption.NONE, message_id=B)

    assert got is not None


def test_a_message_is_found_by_its_token(queue: str, program: Program) -> None:
    program.put(queue, b"1")
    program.put(queue, b"2", priority=4)
    program.put(queue, b"3")
    handle = program.open(queue, OpenOption.BROWSE)
    tokens = {got.body: got.message_token for got in iter(lambda: program.browse(handle), None)}

    assert b"3" == program.got(queue, message_token=tokens[b"3"]).body
    assert b"2" == program.got(queue, message_token=tokens[b"2"]).body
    assert program.get(queue, message_token=tokens[b"2"]) is None


def test_a_token_of_another_message_does_not_match_an_own_uncommitted_put(queue: str, program: Program) -> None:
    program.put(queue, b"1")
    token = program.got(queue).message_token
    program.put_in_unit(queue, b"2")

    assert program.get_in_unit(queue, message_token=token) is None


def test_own_uncommitted_puts_are_matched_too(queue: str, program: Program) -> None:
    program.put_in_unit(queue, b"1", correlation_id=A)
    program.put_in_unit(queue, b"2", correlation_id=B)

    got = program.get_in_unit(queue, correlation_id=B)

    assert got is not None
    assert b"2" == got.body


def test_a_message_that_came_back_is_found_by_its_identifier(queue: str, program: Program) -> None:
    program.put(queue, b"1", message_id=A)
    program.get_in_unit(queue, message_id=A)
    program.backout()

    assert program.get(queue, message_id=A) is not None
    assert program.get(queue, message_id=A) is None


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(GetOption.SYNCPOINT | GetOption.NO_SYNCPOINT, id="two syncpoint options"),
        pytest.param(GetOption.SYNCPOINT | GetOption.SYNCPOINT_IF_PERSISTENT, id="two of three"),
        pytest.param(GetOption.SYNCPOINT | GetOption.BROWSE_FIRST, id="browse in a unit of work"),
        pytest.param(GetOption.SYNCPOINT | GetOption.BROWSE_NEXT, id="browse next in a unit of work"),
        pytest.param(GetOption.SYNCPOINT_IF_PERSISTENT | GetOption.BROWSE_FIRST, id="browse in one if persistent"),
        pytest.param(GetOption.SYNCPOINT | GetOption.UNLOCK, id="unlock in a unit of work"),
        pytest.param(GetOption.BROWSE_FIRST | GetOption.BROWSE_NEXT, id="two browses"),
        pytest.param(GetOption.MSG_UNDER_CURSOR | GetOption.BROWSE_NEXT, id="take and browse"),
        pytest.param(GetOption.LOCK, id="lock without a browse"),
        pytest.param(GetOption.UNLOCK | GetOption.BROWSE_NEXT, id="unlock and browse"),
        pytest.param(GetOption.UNLOCK | GetOption.WAIT, id="unlock and wait"),
        pytest.param(GetOption.UNLOCK | GetOption.CONVERT, id="unlock and convert"),
        pytest.param(GetOption.WAIT | GetOption.MSG_UNDER_CURSOR, id="wait under the cursor"),
        pytest.param(GetOption.WAIT | GetOption.BROWSE_MSG_UNDER_CURSOR, id="wait for the same again"),
        pytest.param(GetOption.MARK_BROWSE_HANDLE, id="mark without a browse"),
        pytest.param(GetOption.SET_SIGNAL, id="z/OS only"),
        pytest.param(GetOption(0x40000000), id="an unknown option"),
    ],
)
def test_options_that_do_not_go_together_are_2046(queue: str, program: Program, options: GetOption) -> None:
    with refused(Reason.OPTIONS_ERROR):
        program.get(queue, options, wait_ms=1_000)


def test_unknown_match_options_are_2247(queue: str, program: Program) -> None:
    with refused(Reason.MATCH_OPTIONS_ERROR):
        program.get(queue, match=MatchOption(0x100))


@pytest.mark.parametrize("number", [0, 1_000_000_000])
def test_a_sequence_number_to_match_that_no_message_has_is_2250(queue: str, program: Program, number: int) -> None:
    with refused(Reason.MSG_SEQ_NUMBER_ERROR):
        program.get(queue, match=MatchOption.MSG_SEQ_NUMBER, sequence_number=number)


@pytest.mark.parametrize("wait_ms", [-2, 2**31])
def test_a_wait_below_minus_one_or_beyond_an_mqlong_is_2090(queue: str, program: Program, wait_ms: int) -> None:
    program.put(queue, b"one")

    with refused(Reason.WAIT_INTERVAL_ERROR):
        program.get(queue, GetOption.WAIT, wait_ms=wait_ms)


@pytest.mark.parametrize("field", ["message_id", "correlation_id", "group_id"])
def test_an_identifier_to_match_that_is_not_24_bytes_long_is_2026(queue: str, program: Program, field: str) -> None:
    wanted: dict[str, Any] = {field: b"short"}

    with refused(Reason.MD_ERROR):
        program.get(queue, **wanted)


def test_a_buffer_of_less_than_no_bytes_is_2005(queue: str, program: Program) -> None:
    program.put(queue, b"one")

    with refused(Reason.BUFFER_LENGTH_ERROR):
        program.get(queue, GetOption.ACCEPT_TRUNCATED_MSG, buffer_bytes_max=-1)

    assert [b"one"] == program.bodies(queue)


def test_a_wait_interval_without_wait_is_ignored(queue: str, program: Program) -> None:
    assert program.get(queue, GetOption.NO_SYNCPOINT, wait_ms=-2) is None


@pytest.mark.parametrize(("persistence", "left"), [(1, [b"1"]), (0, [])])
def test_syncpoint_if_persistent_takes_only_a_persistent_message_into_the_unit_of_work(
    queue: str, program: Program, other: Program, persistence: int, left: list[bytes]
) -> None:
    program.put(queue, b"1", persistence=persistence)
    program.get(queue, GetOption.SYNCPOINT_IF_PERSISTENT)
    program.backout()

    assert left == other.seen(queue)


def test_a_message_longer_than_the_buffer_stays_with_a_warning(queue: str, program: Program) -> None:
    """The warning 2080 (rc2080) comes with the descriptor, the part of the body that fits, and the full length."""
    put = program.put(queue, b"123456", format="MQSTR")
    got = program.got(queue, buffer_bytes_max=4)

    assert (Reason.TRUNCATED_MSG_FAILED, b"1234", 6) == (got.reason, got.body, got.data_bytes)
    assert put.descriptor == got.descriptor
    assert [b"123456"] == program.bodies(queue)


def test_accept_truncated_takes_it_and_loses_the_rest(queue: str, program: Program) -> None:
    """The warning is 2079 (rc2079)."""
    program.put(queue, b"123456")
    got = program.got(queue, GetOption.ACCEPT_TRUNCATED_MSG, buffer_bytes_max=4)

    assert (Reason.TRUNCATED_MSG_ACCEPTED, b"1234", 6) == (got.reason, got.body, got.data_bytes)
    assert program.get(queue) is None


def test_a_buffer_of_the_exact_length_is_enough(queue: str, program: Program) -> None:
    program.put(queue, b"1234")

    assert program.got(queue, buffer_bytes_max=4).reason == Reason.NONE


def test_a_buffer_of_no_length_takes_an_empty_message(queue: str, program: Program) -> None:
    program.put(queue, b"")

    assert program.got(queue, buffer_bytes_max=0).reason == Reason.NONE


def test_a_truncated_get_in_the_unit_of_work_takes_nothing_into_it(
    queue_manager: UnderTest, queue: str, program: Program
) -> None:
    program.put(queue, b"1234")
    program.get_in_unit(queue, buffer_bytes_max=1)
    program.commit()

    assert queue_manager.depth(queue) == 1


def test_an_inhibited_queue_is_2016_even_with_messages(queue_manager: UnderTest, queue: str, program: Program) -> None:
    handle = program.open(queue)
    program.put(handle, b"1")
    queue_manager.administration.alter(queue, {"get_inhibited": True})

    with refused(Reason.GET_INHIBITED):
        program.get(handle)
    with refused(Reason.GET_INHIBITED):
        program.browse(handle)

    queue_manager.administration.alter(queue, {"get_inhibited": False})
    assert [b"1"] == program.bodies(queue)


def test_the_same_options_serve_many_gets(queue: str, program: Program) -> None:
    options = GetOptions(options=GetOption.NO_SYNCPOINT)
    program.put(queue, b"1")
    program.put(queue, b"2")
    handle = program.open(queue, INPUT)

    assert [b"1", b"2"] == [got.body for got in iter(lambda: program.connection.get(handle, options), None)]


def test_a_get_says_which_queue_it_came_from(queue: str, program: Program) -> None:
    program.put(queue)

    assert queue == program.got(queue).resolved_queue
