"""The traps of the client packages, each with the remedy of the adapter.

In a child process, with the real packages on the stand-in library. The traps are those of ibmmq 2.1.2 and pymqi 1.12.13, read
in their sources.
"""

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mqflow.bindings.connection import BoundConnection
from mqflow.bindings.structures import MQGMO, fresh
from mqflow.many_verbs import inquire_base_queue
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Format, GetOption, MatchOption, MessageFlag, ObjectType, OpenOption, PutOption
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.standin.library import install
from mqflow.verbs import WAIT_UNLIMITED, GetOptions, Got, ObjectDescriptor
from tests.bindings.bound import EVERYTHING, connected, refused
from tests.doubles import SteppingClock
from tests.standin.harness import Program, only_in

pytestmark = pytest.mark.xdist_group("standin")

ALONE = PutOption.NO_SYNCPOINT
GET = GetOptions(options=GetOption.NO_SYNCPOINT)
LONG = b"x" * 300_000


def put(connection: BoundConnection, body: bytes, options: PutOption = ALONE, **fields: Any) -> MessageDescriptor:
    handle = connection.open("Q", OpenOption.OUTPUT)
    try:
        return connection.put(handle, MessageDescriptor(**fields), body, options).descriptor
    finally:
        connection.close(handle)


def got(connection: BoundConnection, options: GetOptions = GET) -> Got:
    handle = connection.open("Q", EVERYTHING)
    found = connection.get(handle, options)
    connection.close(handle)
    assert found is not None
    return found


def before_the_second_get(connection: BoundConnection, do: Callable[[], object]) -> None:
    """Call a function between a get that had no room and the next get."""
    calls = 0
    mqi: Any = connection._mqi
    real = mqi.get

    def get(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            do()
        return real(*arguments)

    mqi.get = get


def get_options_of(connection: BoundConnection) -> list[bytes]:
    """Return the MQGMO of every MQGET from now on."""
    seen: list[bytes] = []
    mqi: Any = connection._mqi
    real = mqi.get

    def get(hconn: int, hobj: int, md: bytes, gmo: bytes, room: int) -> Any:
        seen.append(fresh(gmo))
        return real(hconn, hobj, md, gmo, room)

    mqi.get = get
    return seen


def test_a_connection_that_is_dropped_commits_nothing(program: Program) -> None:
    """Both packages' QueueManager disconnects when it is collected, and MQDISC commits."""
    connection = connected(program)
    put(connection, b"half done", PutOption.SYNCPOINT)

    del connection
    gc.collect()

    other = connected(program)
    assert other.get(other.open("Q", OpenOption.INPUT_SHARED), GET) is None


def test_a_handler_that_fails_far_down_commits_nothing(program: Program) -> None:
    """The last reference goes with a traceback."""

    def handle() -> None:
        connection = connected(program)
        put(connection, b"half done", PutOption.SYNCPOINT)
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - ours
        handle()
    gc.collect()

    other = connected(program)
    assert other.get(other.open("Q", OpenOption.INPUT_SHARED), GET) is None


def test_a_message_of_any_length_comes_whole(program: Program) -> None:
    connection = connected(program)
    for options in (GetOption.NO_SYNCPOINT, GetOption.NO_SYNCPOINT | GetOption.ACCEPT_TRUNCATED_MSG):
        put(connection, LONG)

        found = got(connection, GetOptions(options=options))

        assert (LONG, Reason.NONE, len(LONG)) == (found.body, found.reason, found.data_bytes)


def test_the_second_get_of_a_long_message_takes_that_message(program: Program) -> None:
    """pymqi gets again with the MQMD that the first get filled in. Here a message of a higher priority arrives in between."""
    connection, other = connected(program), connected(program)
    long = put(connection, LONG)
    before_the_second_get(connection, lambda: put(other, b"urgent", priority=9))

    assert (LONG, long.message_id) == ((found := got(connection)).body, found.descriptor.message_id)


def test_after_a_long_message_that_another_program_took_the_next_one_is_returned(program: Program) -> None:
    connection, other = connected(program), connected(program)
    put(connection, LONG)
    put(connection, b"next")
    before_the_second_get(connection, lambda: got(other))

    assert b"next" == got(connection, GetOptions(options=GetOption.WAIT | GetOption.NO_SYNCPOINT, wait_ms=5_000)).body


def test_the_wait_continues_after_another_program_took_the_message(program: Program) -> None:
    for wait_ms, left_ms in (5_000, 3_000), (WAIT_UNLIMITED, WAIT_UNLIMITED):
        connection, other = connected(program), connected(program)
        put(connection, LONG)
        put(connection, b"next")
        before_the_second_get(connection, lambda other=other: got(other))  # type: ignore[misc]
        asked = get_options_of(connection)
        connection._clock = SteppingClock(2.0)

        got(connection, GetOptions(options=GetOption.WAIT | GetOption.NO_SYNCPOINT, wait_ms=wait_ms))

        assert [wait_ms, 0, left_ms] == [MQGMO.number(gmo, "WaitInterval") for gmo in asked]


def test_the_get_returns_none_if_another_program_took_the_last_long_message(program: Program) -> None:
    connection, other = connected(program), connected(program)
    put(connection, LONG)
    before_the_second_get(connection, lambda: got(other))

    assert connection.get(connection.open("Q", EVERYTHING), GET) is None


def test_a_long_message_is_browsed_once_and_the_cursor_moves_on(program: Program) -> None:
    connection = connected(program)
    put(connection, LONG)
    put(connection, b"next")
    handle = connection.open("Q", OpenOption.BROWSE)
    browse = GetOptions(options=GetOption.BROWSE_NEXT)

    bodies = [found.body for found in iter(lambda: connection.get(handle, browse), None)]

    assert [LONG, b"next"] == bodies


def test_bytes_that_the_mqi_writes_do_not_change_the_next_get(program: Program) -> None:
    """The packages let the MQI write MsgId and CorrelId into the bytes they are given; the next get would ask for those."""
    connection = connected(program)
    put(connection, b"1")
    put(connection, b"2")
    handle = connection.open("Q", EVERYTHING)
    any_of_them = GetOptions(match=MatchOption.MSG_ID | MatchOption.CORREL_ID)  # the initial values: nulls match any

    assert [b"1", b"2"] == [found.body for found in iter(lambda: connection.get(handle, any_of_them), None)]


def test_group_fields_are_in_the_descriptor_and_not_before_the_data(program: Program) -> None:
    """pymqi's MD is of version 1: the group would come as an MQMDE in front of the data."""
    connection = connected(program)
    flags = int(MessageFlag.MSG_IN_GROUP)
    put(connection, b"data", group_id=b"G" * 24, sequence_number=2, message_flags=flags)

    found = got(connection)

    assert (b"data", "") == (found.body, found.descriptor.format)
    assert (b"G" * 24, 2, flags) == (
        found.descriptor.group_id, found.descriptor.sequence_number, found.descriptor.message_flags
    )  # fmt: skip


def test_a_warning_that_took_the_message_comes_with_its_data(program: Program) -> None:
    """The packages raise for every warning, and the message is off the queue."""
    connection = connected(program)
    put(connection, b"\xff\xfe", ccsid=9_999, format=Format.STRING)

    found = got(connection, GetOptions(options=GetOption.CONVERT, ccsid=1208))

    assert (b"\xff\xfe", 9_999) == (found.body, found.descriptor.ccsid)
    assert found.reason in {Reason.SOURCE_CCSID_ERROR, Reason.NOT_CONVERTED}
    assert 0 == program.depth()


def test_attributes_that_do_not_apply_come_with_those_that_do(program: Program) -> None:
    """ibmmq drops every number of an MQINQ that ends with a warning, 2068 here: an alias has no BOTHRESH."""
    program.kit.mqsc("DEFINE QALIAS(A) TARGET(Q) PUT(DISABLED)")
    connection = connected(program)
    selectors = {spec.field: spec.selector for spec in QUEUE_ATTRIBUTES}
    asked = [selectors[name] for name in ("put_inhibited", "backout_threshold", "target", "backout_requeue_queue")]

    answer = connection.inquire(connection.open("A", OpenOption.INQUIRE), asked)

    assert ([1, -1, "Q".ljust(48), "*" * 48], Reason.SELECTOR_NOT_FOR_TYPE) == (list(answer.values.values()), answer.reason)


def test_a_text_in_other_letters_does_not_shift_the_texts_behind_it(program: Program) -> None:
    program.kit.mqsc("DEFINE PROCESS(P) DESCR('Größe in €') APPLICID('app') USERDATA('data')")
    connection = connected(program)
    handle = connection.open(ObjectDescriptor("P", ObjectType.PROCESS), OpenOption.INQUIRE)

    found = connection.inquire(handle, (2011, 2001, 2021)).values

    assert {2011: "Größe in €".ljust(64), 2001: "app".ljust(256), 2021: "data".ljust(128)} == found


def test_texts_come_without_their_padding(program: Program) -> None:
    program.kit.mqsc("DEFINE QLOCAL(IN) BOTHRESH(3) BOQNAME(Q)")

    attributes = inquire_base_queue(connected(program), "IN")

    assert (3, "Q") == (attributes.backout_threshold, attributes.backout_requeue_queue)


def test_an_attribute_that_an_older_queue_manager_does_not_know_keeps_its_default(program: Program) -> None:
    """MQINQ refuses all of them for one (2067): CAPEXPRY, say, which was no attribute of its own before 9.3."""
    program.kit.mqsc("DEFINE QLOCAL(IN) BOTHRESH(3) BOQNAME(Q) CAPEXPRY(7)")
    connection = connected(program)
    mqi: Any = connection._mqi
    real = mqi.inquire

    def inquire(hconn: int, hobj: int, selectors: Any) -> Any:
        return ({}, CompletionCode.FAILED, Reason.SELECTOR_ERROR) if 276 in selectors else real(hconn, hobj, selectors)

    mqi.inquire = inquire

    attributes = inquire_base_queue(connection, "IN")

    assert (3, "Q", -1) == (attributes.backout_threshold, attributes.backout_requeue_queue, attributes.cap_expiry_tenths)


def test_two_threads_do_not_use_one_handle_at_a_time(program: Program) -> None:
    """ibmmq has one receive buffer for each handle: a longer get frees the buffer of a get that waits."""
    connection, other = connected(program), connected(program)
    handle = connection.open("Q", EVERYTHING)
    waiting = GetOptions(options=GetOption.WAIT | GetOption.NO_SYNCPOINT, wait_ms=30_000)
    found: list[Got | None] = []
    thread = threading.Thread(target=lambda: found.append(connection.get(handle, waiting)))
    thread.start()
    while not connection._turn.locked():
        pass

    error = refused(Reason.CALL_IN_PROGRESS, lambda: connection.get(handle, GetOptions(buffer_bytes_max=10_000_000)))

    assert "Another call of this connection is not over yet" in str(error)
    put(other, b"at last")
    thread.join()
    assert [b"at last"] == [each.body for each in found if each]


def test_every_message_is_got_once_by_threads_with_a_connection_each(program: Program) -> None:
    sent = [f"{number:04}".encode() * (1 + number % 50) for number in range(400)]
    filling = connected(program)
    out = filling.open("Q", OpenOption.OUTPUT)
    for body in sent:
        filling.put(out, MessageDescriptor(), body, ALONE)
    found: list[bytes] = []

    def drain() -> None:
        connection = connected(program)
        handle = connection.open("Q", OpenOption.INPUT_SHARED)
        bodies = [each.body for each in iter(lambda: connection.get(handle, GET), None)]
        connection.disconnect()
        found.extend(bodies)

    threads = [threading.Thread(target=drain) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(sent) == sorted(found)


def test_a_malformed_header_is_returned_unchanged(program: Program) -> None:
    """If OpenTelemetry is installed, ibmmq's own get parses an MQRFH2, and raises for a malformed MQRFH2."""
    connection = connected(program)
    put(connection, b"RFH garbage", format=Format.RF_HEADER_2)

    assert (b"RFH garbage", Format.RF_HEADER_2) == ((found := got(connection)).body, found.descriptor.format)


@only_in("ibmmq", "pymqi knows nothing of OpenTelemetry")
def test_nothing_is_added_for_opentelemetry(program: Program) -> None:
    """ibmmq's own put adds the context of the active span to each message; where mqflow does too, it would be there twice."""
    from mqcommon import OTelFunctions  # type: ignore[import-not-found]  # noqa: PLC0415 - ibmmq's own, in the child only
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above

    connection = connected(program)
    asked: list[bytes] = []
    real = OTelFunctions.put_trace_before
    OTelFunctions.put_trace_before = lambda _qmgr, _md, _pmo, body: asked.append(body)
    try:
        with TracerProvider().get_tracer("test").start_as_current_span("around"):
            put(connection, b"ours")
            theirs = program.open(program.c.MQOO_OUTPUT)
            theirs.put(b"theirs")
    finally:
        OTelFunctions.put_trace_before = real

    first = got(connection)
    assert (b"ours", "") == (first.body, first.descriptor.format)
    assert asked == [b"theirs"]


def test_no_message_handle_is_made(program: Program) -> None:
    """pymqi has no MQDLTMH: each handle it makes stays until the disconnect."""
    connection = connected(program)
    host = install._state.host
    assert host is not None
    hconns = list(host._hconns.values())

    put(connection, b"1")
    got(connection)

    assert [] == [handle for hconn in hconns for handle in hconn.message_handles] + list(host.message_handles)


def test_a_refusal_names_verb_object_and_queue_manager(program: Program) -> None:
    """The packages' error has completion code and reason, and nothing else."""
    connection = connected(program)

    error = refused(Reason.UNKNOWN_OBJECT_NAME, lambda: connection.open("NOT.THERE", OpenOption.OUTPUT))

    assert str(error).startswith("MQOPEN on NOT.THERE (QM1) failed: MQRC_UNKNOWN_OBJECT_NAME (2085).")
    assert CompletionCode.FAILED is error.completion


def test_properties_come_in_the_data_and_never_in_a_message_handle(program: Program) -> None:
    """In pymqi the content of a handle leaks with it. mqflow sets PROPERTIES_FORCE_MQRFH2 if it must not lose properties."""
    connection = connected(program)
    put(connection, b"1")
    handle = connection.open("Q", EVERYTHING)

    for options in GetOptions(options=GetOption.PROPERTIES_IN_HANDLE, message_handle=True), GetOptions(message_handle=True):
        refused(Reason.FUNCTION_NOT_SUPPORTED, lambda options=options: connection.get(handle, options))  # type: ignore[misc]

    assert b"1" == got(connection, GetOptions(options=GetOption.PROPERTIES_FORCE_MQRFH2)).body


def test_an_identifier_that_does_not_fit_is_refused_and_not_cut(program: Program) -> None:
    connection = connected(program)
    handle = connection.open("Q", EVERYTHING)

    for wrong in (b"short", bytes(25)):
        refused(Reason.MD_ERROR, lambda wrong=wrong: connection.get(handle, GetOptions(message_id=wrong)))  # type: ignore[misc]


def test_of_an_open_queue_it_is_known_whose_it_is(program: Program) -> None:
    """A remote queue's definition may stand for a queue of the same name elsewhere."""
    handle = connected(program).open("Q", EVERYTHING)

    assert ("Q", "QM1") == (handle.resolved_queue, handle.resolved_queue_manager)
