"""Puts with a delay, as single calls: the queue manager checks what it stages, and does not trust its callers."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from mqflow.embedded import mqsc
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, MessageFlag, ObjectType, OpenOption, PutOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.policy.delivery_delay import staged
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.delay.delayed_move import DelayedMove
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE as STAGING
from mqflow.runtime.delay.stage import moment
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.verbs import GetOptions, ObjectDescriptor
from mqflow.world import World

NEXT = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT)
PERSISTENT = MessageDescriptor(persistence=1, priority=0)
TOPIC = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="a")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue_manager(clock: VirtualClock) -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1", world=World(clock)) as made:
        made.administration.define(QueueAttributes(name="LATER"))
        yield made


@pytest.fixture
def connection(queue_manager: EmbeddedQueueManager) -> EmbeddedConnection:
    return queue_manager.connect()


def asked(clock: VirtualClock, delay_ms: int = 1_000, **fields: int) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and data of a put with a delay."""
    return staged(replace(PERSISTENT, **fields), b"x", delay_ms=delay_ms, now=moment(clock))


def depth(queue_manager: EmbeddedQueueManager) -> int:
    return queue_manager.administration.queue_status(STAGING).depth


def test_outside_a_unit_of_work_the_message_is_staged_at_once(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: VirtualClock
) -> None:
    put = connection.put1("LATER", *asked(clock), PutOption.NO_SYNCPOINT)
    connection.backout()
    got = connection.get(connection.open(STAGING, OpenOption.BROWSE), NEXT)

    assert 1 == depth(queue_manager)
    assert got is not None
    assert put.descriptor.message_id == got.descriptor.correlation_id
    assert ("LATER", "QM1") == (put.resolved_queue, put.resolved_queue_manager)


def test_a_processor_that_waits_for_a_staged_message_is_woken_once(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: VirtualClock
) -> None:
    woken: list[str] = []
    queue_manager.when_staged(lambda: woken.append("first"))
    assert [] == woken

    for _ in range(2):
        connection.put1("LATER", *asked(clock), PutOption.NO_SYNCPOINT)
    queue_manager.when_staged(lambda: woken.append("second"))

    assert ["first", "second"] == woken


def test_a_unit_of_work_takes_no_more_delayed_messages_than_others(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: VirtualClock
) -> None:
    queue_manager.administration.alter_queue_manager({"max_uncommitted_messages": 2})
    for _ in range(2):
        connection.put1("LATER", *asked(clock), PutOption.SYNCPOINT)

    with pytest.raises(MQIError) as refused:
        connection.put1("LATER", *asked(clock), PutOption.SYNCPOINT)

    assert Reason.SYNCPOINT_LIMIT_REACHED == refused.value.reason
    connection.commit()
    assert 2 == depth(queue_manager)


@pytest.mark.parametrize(
    ("fields", "delay_ms", "reason"),
    [
        ({"expiry_tenths": 5}, 1_000, Reason.EXPIRY_ERROR),
        ({"message_flags": int(MessageFlag.MSG_IN_GROUP)}, 1_000, Reason.OPTIONS_ERROR),
    ],
    ids=["an expiry shorter than the delay", "a message of a group"],
)
def test_a_message_that_cannot_be_delayed_is_refused_without_checks_of_the_caller(
    queue_manager: EmbeddedQueueManager,
    connection: EmbeddedConnection,
    clock: VirtualClock,
    fields: dict[str, int],
    delay_ms: int,
    reason: Reason,
) -> None:
    with pytest.raises(MQIError) as refused:
        connection.put1("LATER", *asked(clock, delay_ms, **fields), PutOption.NO_SYNCPOINT)

    assert (reason, 0) == (refused.value.reason, depth(queue_manager))


def test_a_delay_beyond_the_capexpry_of_the_target_is_2013(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: VirtualClock
) -> None:
    queue_manager.administration.alter("LATER", {"cap_expiry_tenths": 9})

    with pytest.raises(MQIError, match="2013"):
        connection.put1("LATER", *asked(clock, delay_ms=1_000), PutOption.NO_SYNCPOINT)
    connection.put1("LATER", *asked(clock, delay_ms=900), PutOption.NO_SYNCPOINT)

    assert 1 == depth(queue_manager)


def test_logical_order_is_refused_and_begins_no_group(connection: EmbeddedConnection, clock: VirtualClock) -> None:
    handle = connection.open("LATER", OpenOption.OUTPUT)

    with pytest.raises(MQIError, match="MQRC_OPTIONS_ERROR"):
        connection.put(handle, *asked(clock), PutOption.NO_SYNCPOINT | PutOption.LOGICAL_ORDER)

    connection.close(handle)


def test_a_publication_for_the_staging_queue_does_not_go_round_for_ever(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: VirtualClock
) -> None:
    """A subscriber can name the staging queue. At the due time, the copy would be put there, and be due again."""
    mqsc.run("ALTER TOPIC(SYSTEM.BASE.TOPIC) PMSGDLV(ALLAVAIL) NPMSGDLV(ALLAVAIL)", queue_manager.administration)
    handle = connection.open(STAGING, OpenOption.OUTPUT)
    connection.subscribe(SubscriptionDescriptor(object_string="a", options=SubscribeOption.CREATE), handle)
    connection.put1(TOPIC, *asked(clock), PutOption.NO_SYNCPOINT)
    clock.advance(2)
    found = connection.get(connection.open(STAGING, OpenOption.BROWSE), NEXT)
    assert found is not None

    move = DelayedMove(connection, connection.open(STAGING, INPUT), STAGING, clock, "processor")
    moved = move.deliver(found.descriptor.message_id)
    connection.commit()

    assert moved is not None
    assert 0 == depth(queue_manager)


def test_a_delayed_copy_has_the_priority_that_its_subscription_wants(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: VirtualClock
) -> None:
    mqsc.run(
        "ALTER TOPIC(SYSTEM.BASE.TOPIC) PMSGDLV(ALLAVAIL)\nALTER QLOCAL(LATER) DEFPRTY(3)\n"
        "DEFINE SUB(1) TOPICSTR('a') DEST(LATER)\nDEFINE SUB(2) TOPICSTR('a') DEST(LATER) PUBPRTY(ASQDEF)",
        queue_manager.administration,
    )

    connection.put1(TOPIC, *asked(clock, priority=7), PutOption.NO_SYNCPOINT)

    browse = connection.open(STAGING, OpenOption.BROWSE)
    assert [7, 3] == [got.descriptor.priority for got in iter(lambda: connection.get(browse, NEXT), None)]


def test_the_expiry_of_a_delayed_copy_is_shorter_by_its_wait(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: VirtualClock
) -> None:
    """Once with the time of the clock that never goes back, and once after a restart of the machine."""
    mqsc.run(
        "ALTER TOPIC(SYSTEM.BASE.TOPIC) NPMSGDLV(ALLAVAIL) PMSGDLV(ALLAVAIL)\nDEFINE SUB(1) TOPICSTR('a') DEST(LATER)",
        queue_manager.administration,
    )
    connection.put1(TOPIC, *asked(clock, expiry_tenths=900), PutOption.NO_SYNCPOINT)
    descriptor, body = staged(
        replace(PERSISTENT, expiry_tenths=900), b"x", delay_ms=1_000, now=replace(moment(clock), epoch=b"an earlier start")
    )
    connection.put1(TOPIC, descriptor, body, PutOption.NO_SYNCPOINT)
    clock.advance(60)
    move = DelayedMove(connection, connection.open(STAGING, INPUT), STAGING, clock, "processor")
    browse = connection.open(STAGING, OpenOption.BROWSE)
    for found in list(iter(lambda: connection.get(browse, NEXT), None)):
        move.deliver(found.descriptor.message_id)
    connection.commit()

    later = connection.open("LATER", OpenOption.BROWSE)
    assert [300, 300] == [got.descriptor.expiry_tenths for got in iter(lambda: connection.get(later, NEXT), None)]


def test_a_delayed_publication_may_fill_the_staging_queue(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: VirtualClock
) -> None:
    mqsc.run(
        "ALTER TOPIC(SYSTEM.BASE.TOPIC) PMSGDLV(ALLAVAIL)\nDEFINE SUB(1) TOPICSTR('a') DEST(LATER)\n"
        f"DEFINE SUB(2) TOPICSTR('a') DEST(LATER)\nALTER QLOCAL({STAGING}) MAXDEPTH(2)",
        queue_manager.administration,
    )

    connection.put1(TOPIC, *asked(clock), PutOption.NO_SYNCPOINT)

    assert 2 == depth(queue_manager)


@pytest.mark.parametrize("longer", ["1", "2"])
def test_a_delayed_publication_is_refused_if_one_copy_is_too_long_for_the_staging_queue(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection, clock: VirtualClock, longer: str
) -> None:
    mqsc.run(
        "ALTER TOPIC(SYSTEM.BASE.TOPIC) PMSGDLV(ALLAVAIL)\n"
        "DEFINE SUB(1) TOPICSTR('a') DEST(LATER)\nDEFINE SUB(2) TOPICSTR('a') DEST(LATER)\n"
        f"ALTER SUB({longer}) USERDATA('{'x' * 1_000}')\nALTER QLOCAL({STAGING}) MAXMSGL(1000)",
        queue_manager.administration,
    )

    with pytest.raises(MQIError, match="2030"):
        connection.put1(TOPIC, *asked(clock), PutOption.NO_SYNCPOINT)

    assert 0 == depth(queue_manager)
