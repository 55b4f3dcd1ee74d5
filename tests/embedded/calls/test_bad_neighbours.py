"""If an application makes a wrong call, or a call at the wrong moment, the queue manager and its storage go on.

Without its check, each of these calls would stop the writer of the storage and the queue manager, with unknown outcomes for all
applications.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields, replace

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.rules import put_plan
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import CloseOption, GetOption, MessageFlag, ObjectType, OpenOption, PutOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import GetOptions, ObjectDescriptor
from tests.conformance.under_test import refused

QUEUE = "ORDERS.IN"
BOTH = OpenOption.INPUT_SHARED | OpenOption.OUTPUT
PERSISTENT = MessageDescriptor(persistence=1)
NO_TEXT = "\ud800"
"""Half of a surrogate pair. Python decodes an argument or file name that is not UTF-8 to such characters."""
TOO_LONG = 2**31
NUMBERS = [field.name for field in fields(MessageDescriptor) if field.type is int]


@pytest.fixture
def queue_manager(folder: Path) -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as opened:
        opened.administration.define(QueueAttributes(name=QUEUE))
        yield opened


def still_works(queue_manager: EmbeddedQueueManager) -> bool:
    """Return whether another application can put a durable message, and get it."""
    other = queue_manager.connect()
    handle = other.open(QUEUE, BOTH)
    other.put(handle, PERSISTENT, b"an order", PutOption.NO_SYNCPOINT)
    got = other.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT))
    return got is not None and got.body == b"an order"


def test_a_subscriber_may_go_while_a_publication_for_it_is_not_committed(queue_manager: EmbeddedQueueManager) -> None:
    subscriber, publisher = queue_manager.connect(), queue_manager.connect()
    made = SubscribeOption.CREATE | SubscribeOption.DURABLE | SubscribeOption.MANAGED
    subscribed = subscriber.subscribe(SubscriptionDescriptor(options=made, name="NEWS", object_string="news"))
    topic = publisher.open(ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="news"), OpenOption.OUTPUT)
    queue = publisher.open(QUEUE, BOTH)

    publisher.put(topic, PERSISTENT, b"for nobody", PutOption.SYNCPOINT)
    publisher.put(queue, PERSISTENT, b"in the same unit of work", PutOption.SYNCPOINT)
    subscriber.close(subscribed.handle, CloseOption.REMOVE_SUB)
    subscriber.close(subscribed.queue)
    publisher.commit()

    got = publisher.get(queue, GetOptions(options=GetOption.NO_SYNCPOINT))
    assert got is not None
    assert got.body == b"in the same unit of work"
    assert still_works(queue_manager)


@pytest.mark.parametrize(
    "field",
    [
        {"reply_to_queue": NO_TEXT},
        {"format": NO_TEXT},
        {"feedback": 2**64},
        {"expiry_tenths": 2**80},
        # Earlier versions accepted these values, and the next header failed: a dead-letter header has 32 bits for a CCSID.
        {"ccsid": TOO_LONG},
        {"encoding": -TOO_LONG - 1},
        {"priority": TOO_LONG},
        {"original_length": TOO_LONG},
        {"report": TOO_LONG},
        {"backout_count": 2**80},
        {"put_date": ...},
        {"message_type": 1.5},
        # Values of another type that compare and have a length like the right ones: a restart could not read such a message.
        *({field: True} for field in NUMBERS),
        {"persistence": 1.0},
        {"backout_count": None},
        {"message_id": "m" * 24},
        {"group_id": "g" * 24},
        {"format": b"MQSTR"},
        {"reply_to_queue": b"REPLIES"},
        {"accounting_token": "t" * 32},
    ],
    ids=str,
)
def test_a_descriptor_that_no_mqmd_could_be_is_refused(queue_manager: EmbeddedQueueManager, field: dict[str, Any]) -> None:
    connection = queue_manager.connect()
    handle = connection.open(QUEUE, BOTH)

    with pytest.raises(MQIError) as refused:
        connection.put(handle, replace(PERSISTENT, **{"reply_to_queue": "REPLIES"} | field), b"", PutOption.NO_SYNCPOINT)

    reasons = {("feedback", 2**64): Reason.FEEDBACK_ERROR, ("message_type", 1.5): Reason.MSG_TYPE_ERROR}
    assert refused.value.reason == reasons.get(next(iter(field.items())), Reason.MD_ERROR)
    assert still_works(queue_manager)


def test_a_message_with_a_field_of_another_type_does_not_block_its_queue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_plan, "_check_values", lambda _: None)  # as if a store held such a message already
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as opened:
        opened.administration.define(QueueAttributes(name=QUEUE))
        connection = opened.connect()
        handle = connection.open(QUEUE, BOTH)
        connection.put(handle, replace(PERSISTENT, priority=True), b"1", PutOption.NO_SYNCPOINT)

    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as opened:
        assert still_works(opened)
        assert ["A message on ORDERS.IN is damaged"] == [why for _, why in opened.quarantined]


def test_a_context_that_is_not_text_is_refused(queue_manager: EmbeddedQueueManager) -> None:
    connection = queue_manager.connect()
    handle = connection.open(QUEUE, OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT)
    descriptor = MessageDescriptor(persistence=1, user_identifier=NO_TEXT)

    with refused(Reason.MD_ERROR):
        connection.put(handle, descriptor, b"", PutOption.NO_SYNCPOINT | PutOption.SET_ALL_CONTEXT)

    assert still_works(queue_manager)


def test_a_program_or_a_user_with_an_undecoded_name_gets_a_valid_name(queue_manager: EmbeddedQueueManager) -> None:
    connection = queue_manager.connect(application_name=f"caf{NO_TEXT}.py", user=f"ren{NO_TEXT}")
    handle = connection.open(QUEUE, BOTH)
    connection.put(handle, PERSISTENT, b"", PutOption.NO_SYNCPOINT)

    got = connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT))

    assert got is not None
    assert (got.descriptor.put_application_name, got.descriptor.user_identifier) == ("caf?.py", "ren?")


def test_a_definition_that_is_not_text_is_refused(queue_manager: EmbeddedQueueManager) -> None:
    with refused(Reason.ITEM_VALUE_ERROR):
        queue_manager.administration.define(QueueAttributes(name="Q2", description=NO_TEXT))

    assert still_works(queue_manager)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ({"name": NO_TEXT}, Reason.SUB_NAME_ERROR),
        ({"object_string": NO_TEXT}, Reason.TOPIC_STRING_ERROR),
        ({"user_data": NO_TEXT}, Reason.SD_ERROR),
        ({"expiry_tenths": 2**80}, Reason.EXPIRY_ERROR),
    ],
    ids=str,
)
def test_a_subscription_that_could_not_be_kept_is_refused(
    queue_manager: EmbeddedQueueManager, field: dict[str, Any], reason: Reason
) -> None:
    connection = queue_manager.connect()
    made = SubscribeOption.CREATE | SubscribeOption.DURABLE | SubscribeOption.MANAGED
    wanted = SubscriptionDescriptor(options=made, name="NEWS", object_string="news")

    with refused(reason):
        connection.subscribe(replace(wanted, **field))

    assert still_works(queue_manager)


def test_a_waiter_with_a_long_selector_keeps_no_application_from_committing(queue_manager: EmbeddedQueueManager) -> None:
    """The selector is evaluated for each message that becomes available, on the thread of the storage."""
    connection = queue_manager.connect()
    waiting = connection.open(ObjectDescriptor(QUEUE, selection="1+" * 5_000 + "a=1"), OpenOption.INPUT_SHARED)
    assert connection.on_arrival(waiting, GetOptions(options=GetOption.NO_SYNCPOINT), lambda: None) is not None

    assert still_works(queue_manager)


def test_a_selector_that_takes_too_long_to_compile_is_refused(queue_manager: EmbeddedQueueManager) -> None:
    connection = queue_manager.connect()

    with refused(Reason.SELECTION_STRING_ERROR):
        connection.open(ObjectDescriptor(QUEUE, selection="a=1 AND " * 10_000 + "a=1"), OpenOption.INPUT_SHARED)


def test_a_temporary_queue_that_was_altered_is_gone_after_a_restart_nevertheless(folder: Path) -> None:
    inhibit_put = 10
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as queue_manager:
        connection = queue_manager.connect()
        made = connection.open("SYSTEM.DEFAULT.MODEL.QUEUE", OpenOption.INPUT_SHARED | OpenOption.SET)
        connection.set(made, {inhibit_put: 1})
        queue_manager.administration.alter(made.name, {"max_depth": 7})

    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as queue_manager:
        assert queue_manager.administration.queue(made.name) is None


@pytest.mark.parametrize(
    "looks", [GetOption.NO_SYNCPOINT, GetOption.NO_SYNCPOINT | GetOption.ACCEPT_TRUNCATED_MSG, GetOption.BROWSE_FIRST]
)
def test_a_logical_message_that_is_longer_than_any_message_is_not_assembled_and_stays(looks: GetOption) -> None:
    """An application can put segments without an end. Together they can be larger than the memory."""
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name=QUEUE))
        connection = queue_manager.connect()
        handle = connection.open(QUEUE, BOTH | OpenOption.BROWSE)
        body = bytes(1024 * 1024)
        for number in range(101):
            flags = MessageFlag.SEGMENT if number < 100 else MessageFlag.LAST_SEGMENT
            segment = MessageDescriptor(group_id=b"G" * 24, offset=number * len(body), message_flags=flags)
            connection.put(handle, segment, body, PutOption.NO_SYNCPOINT)

        with pytest.raises(MQIError, match="get its segments one by one") as refused:
            connection.get(handle, GetOptions(options=looks | GetOption.COMPLETE_MSG))
        depth = queue_manager.administration.queue_status(QUEUE).depth

        assert (Reason.STORAGE_NOT_AVAILABLE, 101) == (refused.value.reason, depth)
        assert connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT)) is not None
