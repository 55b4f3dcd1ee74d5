"""One conversation subscribes, stages delayed messages, and puts messages without an answer, on a line in memory."""

from typing import Any

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.fap.fields import Reader, Writer
from mqflow.fap.spi import SpiVerb
from mqflow.fap.structures import ObjectFields, PutFields, SubscriptionFields, write_descriptor
from mqflow.fap.transmission_segments import SegmentType
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import delay, rfh2
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.options import CloseOption, ObjectType, OpenOption, PutOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import ObjectDescriptor
from tests.doubles import queue_manager_with
from tests.embedded.channel.memory_program import Program
from tests.fap.client_half import ORDER
from tests.queue_contents import browsed

MANAGED = SubscribeOption.CREATE | SubscribeOption.MANAGED | SubscribeOption.ANY_USERID
UNANSWERED = PutOption.ASYNC_RESPONSE | PutOption.SYNCPOINT
SHARED = 0x50
MQSC = """
DEFINE QLOCAL(Q1)
DEFINE QLOCAL(ONE) MAXDEPTH(1)
DEFINE TOPIC(FISH) TOPICSTR('fish') PMSGDLV(ALLAVAIL) NPMSGDLV(ALLAVAIL)
"""
OK = 0, 0


queue_manager = queue_manager_with(MQSC)


@pytest.fixture
def program(queue_manager: EmbeddedQueueManager) -> Program:
    return Program(queue_manager)


def publish(queue_manager: EmbeddedQueueManager, body: bytes, options: PutOption = PutOption.NO_SYNCPOINT) -> None:
    connection = queue_manager.connect()
    target = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="prices/fish")
    connection.put1(target, MessageDescriptor(), body, options)
    connection.disconnect()


def wanted(options: SubscribeOption = MANAGED, name: str = "", topic: str = "prices/fish") -> SubscriptionDescriptor:
    return SubscriptionDescriptor(options=options, name=name, object_string=topic)


def subscribed(program: Program, descriptor: SubscriptionDescriptor, queue: int = -1) -> tuple[tuple[int, int], int, int]:
    """Call MQSUB; return the codes, and the handles of queue and subscription."""
    completion, reason, handle = program.call(SegmentType.MQSUB, subscribe_body(descriptor), queue)
    return (completion, reason), handle, Reader(program.body, ORDER, "a reply").number()


def shared(program: Program, descriptor: SubscriptionDescriptor, options: int = SHARED) -> tuple[tuple[int, int], int, int]:
    """Call the subscribe of the SPI; return the codes, and the handles of queue and subscription."""
    completion, reason, handle = program.call(SegmentType.SPI, spi_subscribe_body(descriptor, options))
    reader = Reader(program.body, ORDER, "a reply", 36)
    return (completion, reason), handle, reader.number()


def subscribe_body(descriptor: SubscriptionDescriptor) -> bytes:
    writer = Writer(ORDER).number(-1, 0)
    SubscriptionFields(version=1, descriptor=descriptor).write(writer)
    return writer.done()


def spi_subscribe_body(descriptor: SubscriptionDescriptor, options: int = SHARED) -> bytes:
    writer = Writer(ORDER).number(SpiVerb.SUBSCRIBE, 1, 536).raw(b"SPBU").number(1, 12).raw(b"SPBI").number(1, 536, 0)
    writer.raw(b"LSD ").number(1, options).raw(bytes(184))
    SubscriptionFields(version=1, descriptor=descriptor).write(writer)
    return writer.done()


def put_body(body: bytes, options: PutOption, **fields: Any) -> bytes:
    writer = Writer(ORDER)
    write_descriptor(writer, MessageDescriptor(**fields), 1)
    PutFields(version=1, options=int(options)).write(writer)
    return writer.number(len(body)).raw(body).done()


def spi_put_body(descriptor: MessageDescriptor, body: bytes, options: int = 0) -> bytes:
    writer = Writer(ORDER).number(SpiVerb.PUT, 1, 12).raw(b"SPPU").number(1, 464)
    write_descriptor(writer, descriptor, 1)
    PutFields(version=1, options=int(PutOption.NO_SYNCPOINT | PutOption.NEW_MSG_ID)).write(writer)
    return writer.raw(b"SPPI").number(1, 20 + len(body), options, len(body)).raw(body).done()


def with_delay(given: str, expiry_tenths: int = -1) -> tuple[MessageDescriptor, bytes]:
    header = RFH2(folders=(Folder("mqext", (FolderProperty("Dly", given),)),), format="MQSTR", ccsid=1208)
    descriptor = MessageDescriptor(format="MQHRF2", encoding=273, ccsid=1208, expiry_tenths=expiry_tenths)
    return descriptor, rfh2.to_bytes(header, encoding=273, ccsid=1208) + b"later"


def test_a_managed_subscription_returns_two_handles_that_work(program: Program, queue_manager: EmbeddedQueueManager) -> None:
    codes, queue, subscription = subscribed(program, wanted())
    publish(queue_manager, b"5")

    assert OK == codes
    assert [SegmentType.ASYNC_MESSAGE] == [flow.header.kind for flow in program.ask(1, handle=queue)]
    assert OK == program.call(SegmentType.MQCLOSE, bytes(4), subscription)[:2]
    assert OK == program.call(SegmentType.MQCLOSE, int(CloseOption.QUIESCE).to_bytes(4), queue)[:2]
    assert () == queue_manager.administration.publishing.subscriptions()


def test_a_subscription_without_managed_uses_the_queue_of_the_call(
    program: Program, queue_manager: EmbeddedQueueManager
) -> None:
    codes, queue, _ = subscribed(program, wanted(SubscribeOption.CREATE), program.handle)
    publish(queue_manager, b"5")

    assert (OK, program.handle, 1) == (codes, queue, len(browsed(queue_manager, "Q1")))


def test_a_subscription_with_a_wrong_handle_is_refused(program: Program) -> None:
    assert (2, Reason.HOBJ_ERROR) == subscribed(program, wanted(SubscribeOption.CREATE), 77)[0]


def test_publications_on_request_come_when_they_are_requested(program: Program, queue_manager: EmbeddedQueueManager) -> None:
    publish(queue_manager, b"5", PutOption.NO_SYNCPOINT | PutOption.RETAIN)
    _, _, subscription = subscribed(program, wanted(MANAGED | SubscribeOption.PUBLICATIONS_ON_REQUEST))
    body = Writer(ORDER).number(1).raw(b"SRO ").number(1, 0, 0).done()

    assert OK == program.call(SegmentType.MQSUBRQ, body, subscription)[:2]
    assert 1 == Reader(program.body, ORDER, "a reply", 16).number()
    assert (2, Reason.ACTION_ERROR) == program.call(SegmentType.MQSUBRQ, bytes(4) + body[4:], subscription)[:2]


def test_a_shared_subscription_has_several_handles_and_ends_with_the_last(
    program: Program, queue_manager: EmbeddedQueueManager
) -> None:
    descriptor = wanted(MANAGED | SubscribeOption.ALTER, "both")
    other = Program(queue_manager)
    first, second = shared(program, descriptor), shared(other, descriptor)

    assert (OK, OK) == (first[0], second[0])
    assert (2, Reason.SUBSCRIPTION_IN_USE) == shared(Program(queue_manager), descriptor, 0)[0]

    program.call(SegmentType.MQCLOSE, bytes(4), first[1])
    assert OK == program.call(SegmentType.MQCLOSE, bytes(4), first[2])[:2]
    publish(queue_manager, b"5")
    assert [SegmentType.ASYNC_MESSAGE] == [flow.header.kind for flow in other.ask(1, handle=second[1])]

    other.call(SegmentType.MQCLOSE, bytes(4), second[2])
    assert () == queue_manager.administration.publishing.subscriptions()


def test_a_durable_shared_subscription_in_use_is_not_removed(program: Program, queue_manager: EmbeddedQueueManager) -> None:
    descriptor = wanted(MANAGED | SubscribeOption.ALTER | SubscribeOption.DURABLE, "both")
    other = Program(queue_manager)
    _, _, subscription = shared(program, descriptor)
    _, _, others = shared(other, descriptor)
    remove = int(CloseOption.REMOVE_SUB).to_bytes(4)

    assert (2, Reason.SUBSCRIPTION_IN_USE) == program.call(SegmentType.MQCLOSE, remove, subscription)[:2]
    assert OK == other.call(SegmentType.MQCLOSE, bytes(4), others)[:2]
    assert OK == program.call(SegmentType.MQCLOSE, remove, subscription)[:2]
    assert () == queue_manager.administration.publishing.subscriptions()


def opened(program: Program, name: str, object_type: ObjectType = ObjectType.Q) -> int:
    writer = Writer(ORDER)
    ObjectFields(version=1, descriptor=ObjectDescriptor(name, object_type)).write(writer)
    return program.call(SegmentType.MQOPEN, writer.number(int(OpenOption.OUTPUT)).done(), -1)[2]


def test_a_message_that_asks_for_a_delay_is_staged(program: Program, queue_manager: EmbeddedQueueManager) -> None:
    handle = opened(program, "Q1")

    assert OK == program.call(SegmentType.SPI, spi_put_body(*with_delay("60000", 1_200)), handle)[:2]

    [staged] = browsed(queue_manager, queue_manager.staging_queue)
    header = delay.parse(staged.body)
    assert (60_000, "Q1", "MQHRF2", 1_200, 1_000_000) == (
        header.delay_ms, header.target, header.format, header.expiry_tenths, header.sent_wall_ms,
    )  # fmt: skip
    assert b"later" == staged.body[-5:]
    assert [] == browsed(queue_manager, "Q1")


def test_maxmsgl_of_the_channel_counts_a_delayed_message_without_its_staging_header(program: Program) -> None:
    handle, (descriptor, body) = opened(program, "Q1"), with_delay("60000")

    reasons: list[int] = []
    for most in (len(body), len(body) - 1):
        program.line.message_bytes_max = most
        reasons.append(program.call(SegmentType.SPI, spi_put_body(descriptor, body), handle)[1])

    assert [Reason.NONE, Reason.DATA_LENGTH_ERROR] == reasons


def test_a_put_of_the_spi_without_a_delay_is_a_put(program: Program, queue_manager: EmbeddedQueueManager) -> None:
    handle = opened(program, "Q1")

    for descriptor, body in (with_delay("0"), (MessageDescriptor(), b"plain")):
        assert OK == program.call(SegmentType.SPI, spi_put_body(descriptor, body), handle)[:2]

    assert [b"later", b"plain"] == [got.body[-5:] for got in browsed(queue_manager, "Q1")]


@pytest.mark.parametrize(
    ("given", "expiry_tenths", "reason"),
    [
        ("soon", -1, Reason.OPTIONS_ERROR),
        ("-1", -1, Reason.OPTIONS_ERROR),
        ("9" * 30, -1, Reason.OPTIONS_ERROR),
        ("60000", 599, Reason.EXPIRY_ERROR),
    ],
)
def test_a_delay_that_is_not_valid_is_refused(
    program: Program, queue_manager: EmbeddedQueueManager, given: str, expiry_tenths: int, reason: Reason
) -> None:
    body = spi_put_body(*with_delay(given, expiry_tenths))

    assert (2, reason) == program.call(SegmentType.SPI, body, opened(program, "Q1"))[:2]
    assert [] == browsed(queue_manager, queue_manager.staging_queue)


def test_a_delayed_publication_that_would_expire_before_its_delay_is_refused(program: Program) -> None:
    handle = opened(program, "FISH", ObjectType.TOPIC)

    assert (2, Reason.EXPIRY_ERROR) == program.call(SegmentType.SPI, spi_put_body(*with_delay("60000", 599)), handle)[:2]
    assert OK == program.call(SegmentType.SPI, spi_put_body(*with_delay("60000", 600)), handle)[:2]


def test_a_put_of_the_spi_with_options_is_refused_by_its_name(program: Program) -> None:
    body = spi_put_body(MessageDescriptor(), b"", 4)

    assert (2, Reason.FUNCTION_NOT_SUPPORTED) == program.call(SegmentType.SPI, body, opened(program, "Q1"))[:2]
    assert ["the SPI verb PUT with options" in sentence for sentence in program.line.complaints] == [True]


def test_a_put_that_the_client_does_not_wait_for_has_no_answer(program: Program, queue_manager: EmbeddedQueueManager) -> None:
    assert [] == program.send(SegmentType.MQPUT, put_body(b"quick", UNANSWERED), opened(program, "Q1"))
    assert OK == program.call(SegmentType.MQCMIT)[:2]

    assert [b"quick"] == [got.body for got in browsed(queue_manager, "Q1")]


def test_a_failed_put_without_an_answer_backs_the_unit_of_work_out_at_the_commit(
    program: Program, queue_manager: EmbeddedQueueManager
) -> None:
    handle = opened(program, "ONE")
    for body in (b"fits", b"does not fit"):
        assert [] == program.send(SegmentType.MQPUT, put_body(body, UNANSWERED), handle)

    assert (2, Reason.BACKED_OUT) == program.call(SegmentType.MQCMIT)[:2]
    assert [] == browsed(queue_manager, "ONE")
    assert OK == program.call(SegmentType.MQCMIT)[:2]


def test_a_failed_put_of_a_non_persistent_message_without_an_answer_leaves_its_unit(
    program: Program, queue_manager: EmbeddedQueueManager
) -> None:
    handle = opened(program, "ONE")
    for body in (b"fits", b"does not fit"):
        assert [] == program.send(SegmentType.MQPUT, put_body(body, UNANSWERED, persistence=0), handle)

    assert OK == program.call(SegmentType.MQCMIT)[:2]
    assert [b"fits"] == [got.body for got in browsed(queue_manager, "ONE")]


@pytest.mark.parametrize(("end", "said"), [(SegmentType.MQBACK, OK), (SegmentType.MQDISC, (1, Reason.BACKED_OUT))])
def test_a_failed_put_without_an_answer_leaves_nothing_after_a_backout_or_a_disconnect_which_says_so(
    program: Program, queue_manager: EmbeddedQueueManager, end: SegmentType, said: tuple[int, int]
) -> None:
    handle = opened(program, "ONE")
    for body in (b"fits", b"does not fit"):
        program.send(SegmentType.MQPUT, put_body(body, UNANSWERED), handle)

    assert said == program.call(end)[:2]
    assert [] == browsed(queue_manager, "ONE")


def test_mqstat_counts_the_puts_without_an_answer_and_names_the_first_failure(program: Program) -> None:
    handle, full = opened(program, "Q1"), opened(program, "ONE")
    no_unit = PutOption.ASYNC_RESPONSE | PutOption.NO_SYNCPOINT
    for target in (handle, full, full, handle, 77):
        program.send(SegmentType.MQPUT, put_body(b"", no_unit), target)
    body = Writer(ORDER).number(0).raw(b"STAT").number(1).raw(bytes(216)).done()

    assert OK == program.call(SegmentType.MQSTAT, body)[:2]
    reader = Reader(program.body, ORDER, "a reply", 12)
    assert [2, Reason.Q_FULL, 3, 0, 2, ObjectType.Q] == [reader.number() for _ in range(6)]
    assert "ONE" == reader.text(48)

    program.call(SegmentType.MQSTAT, body)
    assert [0] * 5 == [Reader(program.body, ORDER, "a reply", 12 + 4 * place).number() for place in range(5)]
    assert (2, Reason.STAT_TYPE_ERROR) == program.call(SegmentType.MQSTAT, b"\0\0\0\3" + body[4:])[:2]


@pytest.mark.parametrize("kind", [1, 2])
def test_mqstat_reports_no_reconnection_and_leaves_the_counts_of_puts(program: Program, kind: int) -> None:
    program.send(SegmentType.MQPUT, put_body(b"", PutOption.ASYNC_RESPONSE | PutOption.NO_SYNCPOINT), opened(program, "Q1"))
    body = Writer(ORDER).raw(b"STAT").number(1).raw(bytes(216)).done()

    assert OK == program.call(SegmentType.MQSTAT, kind.to_bytes(4) + body)[:2]
    assert [0] * 5 == [Reader(program.body, ORDER, "a reply", 12 + 4 * place).number() for place in range(5)]

    program.call(SegmentType.MQSTAT, bytes(4) + body)
    assert 1 == Reader(program.body, ORDER, "a reply", 20).number()


def test_a_reservation_gives_identifiers_that_the_client_counts_up(program: Program) -> None:
    body = Writer(ORDER).number(SpiVerb.RESERVE, 1, 44).raw(b"SPRU").number(1, 12).raw(b"SPRI").number(1, 20, 24, 0xFFFFFF)

    assert OK == program.call(SegmentType.SPI, body.done())[:2]
    reader = Reader(program.body, ORDER, "a reply", 36)
    assert (250, 20, b"R" * 19 + bytes(5)) == (reader.number(), reader.number(), reader.raw(24))
