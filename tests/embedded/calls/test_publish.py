"""The limits of publications: their length, their format, and the last tenth of a second of a retained publication."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.delay import FORMAT as STAGED
from mqflow.mqi.options import GetOption, ObjectType, PutOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import GetOptions, ObjectDescriptor, Subscribed
from mqflow.world import World
from tests.conformance.under_test import ManualClock, refused

TOPIC = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="a")
NEXT = GetOptions(options=GetOption.NO_SYNCPOINT)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue_manager(clock: ManualClock) -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1", world=World(clock)) as made:
        yield made


@pytest.fixture
def connection(queue_manager: EmbeddedQueueManager) -> EmbeddedConnection:
    return queue_manager.connect()


def subscribe(connection: EmbeddedConnection, topic: str = "a") -> Subscribed:
    options = SubscribeOption.CREATE | SubscribeOption.MANAGED
    return connection.subscribe(SubscriptionDescriptor(object_string=topic, options=options))


def test_a_publication_may_be_as_long_as_maxmsgl_of_the_queue_manager(
    queue_manager: EmbeddedQueueManager, connection: EmbeddedConnection
) -> None:
    queue_manager.administration.alter_queue_manager({"max_message_bytes": 40_000})
    subscribed = subscribe(connection)

    connection.put1(TOPIC, MessageDescriptor(), bytes(40_000), PutOption.NO_SYNCPOINT)
    with refused(Reason.MSG_TOO_BIG_FOR_Q_MGR):
        connection.put1(TOPIC, MessageDescriptor(), bytes(40_001), PutOption.NO_SYNCPOINT)

    assert [40_000] == [got.data_bytes for got in connection.get_many(subscribed.queue, NEXT, 2)]


def test_a_publication_with_the_format_of_staged_messages_is_kept_off_the_staging_queue_only(
    connection: EmbeddedConnection,
) -> None:
    """An MQRFH2 cannot hold this topic string, so the copy keeps the format."""
    topic = "a/\x01"
    subscribed = subscribe(connection, topic)

    connection.put1(replace(TOPIC, object_string=topic), MessageDescriptor(format=STAGED), b"no header", PutOption.NO_SYNCPOINT)

    assert [b"no header"] == [got.body for got in connection.get_many(subscribed.queue, NEXT, 2)]


@pytest.mark.parametrize(("later_s", "found"), [(0.05, 1), (0.15, 0)])
def test_a_copy_of_a_retained_publication_that_is_about_to_expire_lives_for_a_tenth_of_a_second(
    connection: EmbeddedConnection, clock: ManualClock, later_s: float, found: int
) -> None:
    connection.put1(TOPIC, MessageDescriptor(expiry_tenths=10), b"1", PutOption.NO_SYNCPOINT | PutOption.RETAIN)
    clock.advance(0.95)
    subscribed = subscribe(connection)
    clock.advance(later_s)

    assert found == len(connection.get_many(subscribed.queue, NEXT, 2))
