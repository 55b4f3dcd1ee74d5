"""One conversation answers flows on a line in memory: a request for messages gets what it asks for, and nothing more."""

import pytest

from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.fap.async_messages import Notice, Notification, RequestFlag
from mqflow.fap.fields import Reader, Writer
from mqflow.fap.structures import GetFields, ObjectFields, PutFields, write_descriptor
from mqflow.fap.transmission_segments import Flow, Header, SegmentType
from mqflow.mqi.descriptor import MQMD2_BYTES, MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import ObjectDescriptor
from tests.doubles import queue_manager_with
from tests.embedded.channel.memory_program import Program
from tests.fap.client_half import ORDER, open_body
from tests.queue_contents import put

# MQIA_INHIBIT_GET.
INHIBIT_GET = 9


queue_manager = queue_manager_with("DEFINE QLOCAL(Q1)")


@pytest.fixture
def program(queue_manager: EmbeddedQueueManager) -> Program:
    return Program(queue_manager)


def kinds(flows: list[Flow]) -> list[int]:
    return [flow.header.kind for flow in flows]


@pytest.mark.parametrize("body", [b"", b"a body"])
def test_a_request_for_one_byte_gets_one_message(program: Program, queue_manager: EmbeddedQueueManager, body: bytes) -> None:
    put(queue_manager, "Q1", *[body] * 5)

    assert [SegmentType.ASYNC_MESSAGE] == kinds(program.ask(1))


def test_a_message_without_a_body_uses_the_bytes_of_its_descriptor(
    program: Program, queue_manager: EmbeddedQueueManager
) -> None:
    put(queue_manager, "Q1", *[b""] * 5)

    assert [SegmentType.ASYNC_MESSAGE] * 3 == kinds(program.ask(2 * MQMD2_BYTES + 1))


def test_a_request_for_many_bytes_gets_every_message(program: Program, queue_manager: EmbeddedQueueManager) -> None:
    put(queue_manager, "Q1", *[b""] * 1_000)

    assert [SegmentType.ASYNC_MESSAGE] * 1_000 == kinds(program.ask(1_000 * MQMD2_BYTES))


def test_spi_verbs_that_are_not_known_give_the_same_complaint(program: Program) -> None:
    for verb in (-1, 1_000, 2**31 - 1):
        front = verb.to_bytes(4, signed=True) + bytes(32)
        assert Reason.FUNCTION_NOT_SUPPORTED == program.call(SegmentType.SPI, front)[1]

    assert 1 == len(set(program.line.complaints))


def get_body(options: GetOption, bytes_max: int = 100, wait_ms: int = 1_000) -> bytes:
    """Return the structures of MQGET. The wait counts if the options have it."""
    writer = Writer(ORDER)
    write_descriptor(writer, MessageDescriptor(), 2)
    GetFields(version=2, options=int(options), wait_ms=wait_ms).write(writer)
    return writer.number(bytes_max).done()


def test_an_unlock_that_succeeds_has_no_reason(program: Program, queue_manager: EmbeddedQueueManager) -> None:
    put(queue_manager, "Q1", b"")
    other = Program(queue_manager)
    locked = get_body(GetOption.BROWSE_FIRST | GetOption.LOCK)
    assert (0, 0) == program.call(SegmentType.MQGET, locked, program.handle)[:2]
    assert Reason.NO_MSG_AVAILABLE == other.call(SegmentType.MQGET, get_body(GetOption.NO_SYNCPOINT), other.handle)[1]

    assert (0, 0) == program.call(SegmentType.MQGET, get_body(GetOption.UNLOCK), program.handle)[:2]

    assert (0, 0) == other.call(SegmentType.MQGET, get_body(GetOption.NO_SYNCPOINT), other.handle)[:2]


@pytest.mark.parametrize("option", [GetOption.UNLOCK, GetOption.MSG_UNDER_CURSOR, GetOption.BROWSE_MSG_UNDER_CURSOR], ids=str)
def test_a_wait_for_nothing_is_refused_with_2046(program: Program, option: GetOption) -> None:
    refused = program.call(SegmentType.MQGET, get_body(option | GetOption.WAIT), program.handle)

    assert Reason.OPTIONS_ERROR == refused[1]


def test_a_wait_below_minus_one_is_refused_with_2090(program: Program) -> None:
    refused = program.call(SegmentType.MQGET, get_body(GetOption.WAIT, wait_ms=-2), program.handle)

    assert Reason.WAIT_INTERVAL_ERROR == refused[1]
    for flags in (RequestFlag.WAITS, RequestFlag.CHECK, RequestFlag.CALLS_BACK):
        asked = program.ask(1, flags, options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=-2)
        assert (program.handle, Notice.STREAMING_FAILURE, Reason.WAIT_INTERVAL_ERROR) == notices(asked)[0]


def test_a_request_for_messages_of_an_unknown_handle_is_refused_once(program: Program) -> None:
    asked = program.ask(1, RequestFlag.CALLS_BACK, handle=77)
    assert [(77, Notice.STREAMING_FAILURE, Reason.HOBJ_ERROR)] == notices(asked)

    start = Writer(ORDER).number(1, -1, Notice.CONNECTION_STATE, 0).done()
    program.conversation.receive(Flow(Header(kind=SegmentType.NOTIFICATION, conversation=1), start))

    assert [] == program.line.taken()


def notices(flows: list[Flow]) -> list[tuple[int, int, int]]:
    read = [Notification.read(Reader(flow.body, ORDER, "a notice")) for flow in flows]
    return [(notice.handle, notice.notice, notice.value) for notice in read]


@pytest.mark.parametrize(("name", "resolved"), [("Q1", ("Q1", "QM1")), ("FAR.Q", ("Q2", "QM2"))])
def test_an_open_returns_the_names_that_the_name_resolves_to(
    program: Program, queue_manager: EmbeddedQueueManager, name: str, resolved: tuple[str, str]
) -> None:
    script = "DEFINE QLOCAL(QM2) USAGE(XMITQ)\nDEFINE QREMOTE(FAR.Q) RNAME(Q2) RQMNAME(QM2)"
    assert 0 == run(script, queue_manager.administration).exit_code()
    writer = Writer(ORDER)
    ObjectFields(version=3, descriptor=ObjectDescriptor(name)).write(writer)

    assert (0, 0) == program.call(SegmentType.MQOPEN, writer.number(OpenOption.OUTPUT).done())[:2]

    opened = ObjectFields.read(Reader(program.body, ORDER, "an open"))
    assert resolved == (opened.resolved_queue, opened.resolved_queue_manager)


def test_mqput1_and_mqget_carry_a_message(program: Program) -> None:
    writer = Writer(ORDER)
    ObjectFields(version=2, descriptor=ObjectDescriptor("Q1")).write(writer)
    write_descriptor(writer, MessageDescriptor(), 2)
    PutFields(version=2, options=int(PutOption.NO_SYNCPOINT)).write(writer)
    assert (0, 0) == program.call(SegmentType.MQPUT1, writer.number(5).raw(b"hello").done())[:2]

    assert (0, 0) == program.call(SegmentType.MQGET, get_body(GetOption.NO_SYNCPOINT), program.handle)[:2]

    assert program.body.endswith((5).to_bytes(4) + b"hello")
    assert Reason.NO_MSG_AVAILABLE == program.call(SegmentType.MQGET, get_body(GetOption.NO_SYNCPOINT), program.handle)[1]


def test_a_listener_goes_on_when_gets_are_allowed_again(queue_manager: EmbeddedQueueManager, program: Program) -> None:
    run("ALTER QLOCAL(Q1) GET(DISABLED)", queue_manager.administration)
    assert [] == program.ask(1, RequestFlag.CALLS_BACK)
    assert 1.0 == program.conversation.next_end()
    program.line.time_s = 1.0
    program.conversation.progress()
    assert (2.0, []) == (program.conversation.next_end(), program.line.taken())

    run("ALTER QLOCAL(Q1) GET(ENABLED)", queue_manager.administration)
    put(queue_manager, "Q1", b"")
    program.line.time_s = 2.0
    program.conversation.progress()

    assert [SegmentType.ASYNC_MESSAGE] == kinds(program.line.taken())
    assert program.conversation.next_end() is None


CHECK = RequestFlag.WAITS | RequestFlag.CHECK


def test_a_client_that_asks_again_while_its_message_is_under_way_gets_no_second_message(
    program: Program, queue_manager: EmbeddedQueueManager
) -> None:
    put(queue_manager, "Q1", *[b""] * 3)
    assert [SegmentType.ASYNC_MESSAGE] == kinds(program.ask(1))

    assert [SegmentType.NOTIFICATION] == kinds(program.ask(1, CHECK))  # sent before the program received the first message
    assert [SegmentType.ASYNC_MESSAGE] == kinds(program.ask(1, received_bytes=MQMD2_BYTES, received=1))
    assert [SegmentType.ASYNC_MESSAGE, SegmentType.NOTIFICATION] == kinds(program.ask(1, CHECK, received=2))
    assert [SegmentType.NOTIFICATION] == kinds(program.ask(1, CHECK, received=3))


def test_a_client_that_waits_hears_of_inhibited_gets_after_a_moment(
    queue_manager: EmbeddedQueueManager, program: Program
) -> None:
    run("ALTER QLOCAL(Q1) GET(DISABLED)", queue_manager.administration)
    for _ in range(2):
        assert [] == program.ask(1, RequestFlag.WAITS)
        program.line.time_s += 0.25
        program.conversation.progress()
        assert [(program.handle, Notice.GET_INHIBITED, Reason.GET_INHIBITED)] == notices(program.line.taken())
        assert program.conversation.next_end() is None

    inhibited = (program.handle, Notice.GET_INHIBITED, Reason.GET_INHIBITED)
    assert [inhibited, (program.handle, Notice.CHECK_MESSAGE, 0)] == notices(program.ask(1, RequestFlag.CHECK))


def test_mqset_sets_an_attribute(program: Program) -> None:
    handle = program.call(SegmentType.SPI, open_body("Q1", OpenOption.SET | OpenOption.INQUIRE, 0x20), -1)[2]
    inhibit = Writer(ORDER).number(1, 1, 0, INHIBIT_GET, 1).done()

    assert (0, 0) == program.call(SegmentType.MQSET, inhibit, handle)[:2]

    assert Reason.GET_INHIBITED == program.call(SegmentType.MQGET, get_body(GetOption.NO_SYNCPOINT), program.handle)[1]


def test_each_text_of_an_inquiry_has_its_length_in_mq_also_with_umlauts(
    queue_manager: EmbeddedQueueManager, program: Program
) -> None:
    run("ALTER QLOCAL(Q1) DESCR('Aufträge für Köln')", queue_manager.administration)
    handle = program.call(SegmentType.SPI, open_body("Q1", OpenOption.INQUIRE, 0x20), -1)[2]

    assert (0, 0) == program.call(SegmentType.MQINQ, Writer(ORDER).number(2, 0, 112, 2013, 2016).done(), handle)[:2]

    reader = Reader(program.body, ORDER, "a reply", 20)
    assert ("Aufträge für Köln", "Q1", 0) == (reader.text(64), reader.text(48), reader.left)


@pytest.mark.parametrize(("keyword", "response"), [("SYNC", 1), ("ASYNC", 2)])
def test_an_open_tells_the_client_defpsist_and_defpresp_of_the_queue(
    queue_manager: EmbeddedQueueManager, program: Program, keyword: str, response: int
) -> None:
    run(f"DEFINE QLOCAL(LATE) DEFPSIST(YES) DEFPRESP({keyword})", queue_manager.administration)
    plain = Writer(ORDER)
    ObjectFields(version=1, descriptor=ObjectDescriptor("LATE")).write(plain)

    program.call(SegmentType.MQOPEN, plain.number(int(OpenOption.OUTPUT)).raw(b"FOPA" + bytes(80)).done(), -1)
    told = [Reader(program.body, ORDER, "a reply", program.body.index(b"FOPA") + 12)]
    program.call(SegmentType.SPI, open_body("LATE", OpenOption.OUTPUT, 0x20), -1)
    told.append(Reader(program.body, ORDER, "a reply", program.body.index(b"LPOO") + 16))

    assert [(1, response)] * 2 == [(reader.number(), reader.number()) for reader in told]


def test_an_open_by_a_user_without_inq_has_the_defaults_of_the_queue_and_causes_no_event(
    queue_manager: EmbeddedQueueManager,
) -> None:
    script = """
        ALTER QMGR AUTHOREV(ENABLED)
        ALTER QLOCAL(Q1) DEFPSIST(YES) DEFPRESP(ASYNC)
        SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT)
        SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,GET,BROWSE)"""
    assert 0 == run(script, queue_manager.administration).exit_code()
    program = Program(queue_manager, user="app")
    writer = Writer(ORDER)
    ObjectFields(version=2, descriptor=ObjectDescriptor("Q1")).write(writer)
    asked = writer.number(int(OpenOption.OUTPUT)).raw(b"FOPA").done()

    assert (0, 0) == program.call(SegmentType.MQOPEN, asked, -1)[:2]
    defaults = Reader(program.body[program.body.index(b"FOPA") :], ORDER, "the defaults")
    defaults.raw(12)
    assert (1, 2) == (defaults.number(), defaults.number())
    assert 0 == queue_manager.administration.queue_status("SYSTEM.ADMIN.QMGR.EVENT").depth
