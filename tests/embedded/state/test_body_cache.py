"""Bodies that exceed the memory limit, and damaged bodies."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.state.backlog import QueuedMessage, order_key
from mqflow.embedded.state.body_cache import BodyCache
from mqflow.embedded.state.objects import LocalQueue
from mqflow.embedded.storage.store import MessageRemoved, Snapshot, StoredMessage, StoredSerials
from mqflow.mqi.attributes.queue import QueueAttributes, QueueManagerAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.verbs import GetOptions
from tests.embedded.storage.scripted_store import ScriptedStore

BODY = b"0123456789"


def stored(serial: int) -> QueuedMessage:
    return QueuedMessage(
        key=order_key(0, serial),
        serial=serial,
        descriptor=MessageDescriptor(persistence=1),
        body=BODY,
        body_bytes=len(BODY),
        put_at=0.0,
        expires_at=None,
        stored=True,
    )


def in_store(serials: Iterable[int]) -> dict[int, StoredMessage | None]:
    return {
        serial: StoredMessage(
            serial=serial,
            queue="Q",
            order_priority=0,
            descriptor=MessageDescriptor(persistence=1),
            body=BODY,
            body_bytes=len(BODY),
        )
        for serial in serials
    }


@pytest.fixture
def store() -> ScriptedStore:
    return ScriptedStore(messages=in_store(range(1, 1001)))


def test_bodies_that_fit_stay(store: ScriptedStore) -> None:
    messages = [stored(serial) for serial in (1, 2)]
    BodyCache(store, bytes_max=20).keep(messages)

    assert [BODY, BODY] == [message.body for message in messages]


def test_bodies_that_do_not_fit_are_left_on_disk(store: ScriptedStore) -> None:
    messages = [stored(serial) for serial in (1, 2, 3)]
    BodyCache(store, bytes_max=20).keep(messages)

    assert [BODY, BODY, None] == [message.body for message in messages]


def test_messages_that_are_not_stored_take_no_room(store: ScriptedStore) -> None:
    """A message that is not stored is only in memory."""
    bodies = BodyCache(store, bytes_max=10)
    bodies.keep([replace(stored(serial), stored=False) for serial in (1, 2, 3)])
    later = stored(4)
    bodies.keep([later])

    assert BODY == later.body


def test_a_message_that_is_gone_makes_room(store: ScriptedStore) -> None:
    bodies = BodyCache(store, bytes_max=10)
    first, second = stored(1), stored(2)
    bodies.keep([first])
    bodies.forget(first)
    bodies.keep([second])

    assert BODY == second.body


def test_a_body_is_read_back_with_the_bodies_behind_it(store: ScriptedStore) -> None:
    queue = LocalQueue(QueueAttributes(name="Q"))
    messages = [stored(serial) for serial in range(1, 1001)]
    for message in messages:
        message.body = None
    queue.load(messages)
    bodies = BodyCache(store)

    assert bodies.read(queue, messages[10])
    assert [tuple(range(11, 11 + 256))] == store.asked_for
    assert BODY == messages[10].body


def test_a_body_in_memory_is_not_read_again(store: ScriptedStore) -> None:
    queue = LocalQueue(QueueAttributes(name="Q"))
    messages = [stored(serial) for serial in (1, 2, 3)]
    messages[0].body = messages[2].body = None
    queue.load(messages)
    BodyCache(store).read(queue, messages[0])

    assert [(1, 3)] == store.asked_for


def test_a_batch_of_large_bodies_is_cut(store: ScriptedStore) -> None:
    queue = LocalQueue(QueueAttributes(name="Q"))
    messages = [replace(stored(serial), body=None, body_bytes=9 * 1024 * 1024) for serial in (1, 2, 3)]
    queue.load(messages)
    BodyCache(store).read(queue, messages[0])

    assert [(1,)] == store.asked_for


def test_a_body_larger_than_a_batch_is_a_batch(store: ScriptedStore) -> None:
    queue = LocalQueue(QueueAttributes(name="Q"))
    message = replace(stored(1), body=None, body_bytes=20 * 1024 * 1024)
    queue.load([message])

    assert BodyCache(store).read(queue, message)


def test_bodies_that_were_read_back_take_room(store: ScriptedStore) -> None:
    queue = LocalQueue(QueueAttributes(name="Q"))
    read, later = replace(stored(1), body=None), stored(2)
    queue.load([read])
    bodies = BodyCache(store, bytes_max=10)
    bodies.read(queue, read)
    bodies.keep([later])

    assert later.body is None


def test_a_browse_through_a_deep_queue_does_not_have_all_of_it_in_memory(store: ScriptedStore) -> None:
    """The bodies have ten times the limit. The memory holds at most the limit, a quarter of the limit, and a batch."""
    bytes_max = 400
    queue = LocalQueue(QueueAttributes(name="Q"))
    messages = [stored(serial) for serial in range(1, 1001)]
    for message in messages:
        message.body = None
    queue.load(messages)
    bodies = BodyCache(store, bytes_max=bytes_max)

    most = 0
    for message in messages:
        assert message.body is not None or bodies.read(queue, message)
        most = max(most, sum(each.body is not None for each in messages))

    assert most * len(BODY) <= bytes_max * 5 // 4 + 256 * len(BODY)


def test_two_readers_on_queues_that_do_not_fit_do_not_read_the_same_again_and_again() -> None:
    size = 600
    store = ScriptedStore(messages=in_store(range(1, 2 * size + 1)))
    queues = [LocalQueue(QueueAttributes(name=name)) for name in ("A", "B")]
    for nth, queue in enumerate(queues):
        queue.load([replace(stored(serial), body=None) for serial in range(nth * size + 1, (nth + 1) * size + 1)])
    bytes_max = 8 * 256 * len(BODY)
    bodies = BodyCache(store, bytes_max=bytes_max)
    bodies.keep([replace(stored(5_000 + each)) for each in range(bytes_max // len(BODY))])

    for pair in zip(*(list(queue.messages.values()) for queue in queues), strict=True):
        for queue, message in zip(queues, pair, strict=True):
            assert message.body is not None or bodies.read(queue, message)
            queue.take(message)
            bodies.forget(message)

    assert len(store.asked_for) == 2 * -(-size // 256)


def test_a_damaged_message_is_set_aside_and_the_next_one_delivered() -> None:
    snapshot = Snapshot(
        queue_manager=QueueManagerAttributes(name="QM1"),
        queues=(QueueAttributes(name="Q"),),
        serials=(StoredSerials("Q", 0, (1, 2)),),
        next_serial=3,
        quarantined=((99, "earlier"),),
    )
    store = ScriptedStore(snapshot=snapshot, messages={**in_store([2]), 1: None})
    with EmbeddedQueueManager("QM1", store=store) as queue_manager:
        connection = queue_manager.connect()
        handle = connection.open("Q", OpenOption.INPUT_SHARED | OpenOption.INQUIRE)
        got = connection.get(handle, GetOptions(options=GetOption.SYNCPOINT))

        assert got is not None
        assert BODY == got.body
        assert [99, 1] == [serial for serial, _ in queue_manager.quarantined]
        assert 1 == connection.inquire(handle, [3]).values[3]
    assert MessageRemoved(1) not in store.written  # the damaged message is set aside: the store keeps the rest of it
