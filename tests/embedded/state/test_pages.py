"""Messages that exceed the memory limit are on disk only, and a get reads them back. Damaged messages are set aside."""

from collections.abc import Iterable
from itertools import islice

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.rules.get_plan import Match
from mqflow.embedded.state.backlog import BEFORE_FIRST, Backlog, QueuedMessage, order_key
from mqflow.embedded.state.objects import LocalQueue
from mqflow.embedded.state.pages import MESSAGE_BYTES, StoredPages, queued
from mqflow.embedded.storage.store import MessageRemoved, Snapshot, StoredMessage, StoredSerials
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.verbs import GetOptions
from tests.embedded.storage.scripted_store import ScriptedStore

BODY = b"0123456789"
SIZE = len(BODY) + MESSAGE_BYTES


def in_store(serial: int, priority: int = 0, body: bytes = BODY, correlation: int = 0) -> StoredMessage:
    return StoredMessage(
        serial=serial, queue="Q", order_priority=priority,
        descriptor=MessageDescriptor(persistence=1, correlation_id=correlation.to_bytes(24)), body=body, body_bytes=len(body),
    )  # fmt: skip


def store_of(serials: Iterable[int], body: bytes = BODY) -> ScriptedStore:
    return ScriptedStore(messages={serial: in_store(serial, body=body) for serial in serials})


def lose(backlog: Backlog, key: int) -> None:
    backlog.lose(key)


def queue_on(store: ScriptedStore, messages: int) -> tuple[LocalQueue, StoredPages]:
    """Return a queue with so many messages of the store in memory."""
    pages = StoredPages(store, lose, bytes_max=messages * SIZE)
    return LocalQueue(QueueAttributes(name="Q"), pages), pages


def in_memory(queue: LocalQueue) -> list[int]:
    return sorted(message.serial for message in queue.messages.values())


def drained(queue: LocalQueue, pages: StoredPages) -> list[int]:
    found = []
    while (message := queue.next_match(None, BEFORE_FIRST)) is not None:
        queue.take(message)
        pages.forget(message)
        found.append(message.serial)
    return found


def test_messages_that_fit_stay_in_memory_and_the_others_are_on_disk_only() -> None:
    store = store_of(range(1, 1001))
    queue, pages = queue_on(store, 300)
    for serial in range(1, 1001):
        queue.add(queued(in_store(serial)))

    assert list(range(1, 301)) == in_memory(queue)
    assert 1000 == queue.depth
    assert list(range(1, 1001)) == drained(queue, pages)
    assert 0 == pages.bytes


def test_a_message_that_is_not_stored_stays_in_memory() -> None:
    queue, pages = queue_on(store_of(()), 0)
    for serial in range(1, 1001):
        message = queued(in_store(serial))
        message.stored = False
        queue.add(message)

    assert (1000, 0) == (len(queue.messages), pages.bytes)


def test_a_message_with_a_new_backout_count_stays_in_memory() -> None:
    """The store may not have its count yet, so a read could return an old count."""
    queue, _ = queue_on(store_of(()), 0)
    for serial in range(1, 1001):
        message = queued(in_store(serial))
        message.recounted = True
        queue.add(message)

    assert 1000 == len(queue.messages)


def test_a_message_that_left_its_queue_makes_room() -> None:
    queue, pages = queue_on(store_of(range(1, 1001)), 300)
    for serial in range(1, 1001):
        queue.add(queued(in_store(serial)))
    first = queue.at(order_key(0, 1))
    assert first is not None
    queue.take(first)
    pages.forget(first)
    queue.add(queued(in_store(2_000)))

    assert 2_000 in in_memory(queue)


def test_a_shallow_queue_has_its_messages_in_memory_even_if_a_deep_queue_fills_it() -> None:
    deep, pages = queue_on(store_of(range(1, 1001)), 300)
    shallow = LocalQueue(QueueAttributes(name="SHALLOW"), pages)
    for serial in range(1, 1001):
        deep.add(queued(in_store(serial)))
    shallow.add(queued(in_store(2_000)))

    assert [2_000] == in_memory(shallow)


def test_a_message_is_read_back_with_the_messages_behind_it() -> None:
    store = store_of(range(1, 1001))
    queue, _ = queue_on(store, 1_000)
    queue.load(order_key(0, serial) for serial in range(1, 1001))

    assert queue.next_match(None, order_key(0, 10)) is queue.at(order_key(0, 11))
    assert [tuple(range(11, 11 + 256))] == store.asked_for


def test_a_message_in_memory_is_not_read_again() -> None:
    store = store_of((1, 2, 3))
    queue, _ = queue_on(store, 1_000)
    queue.load(order_key(0, serial) for serial in (1, 3))
    queue.add(queued(in_store(2)))
    list(queue.first(3))

    assert [(1, 3)] == store.asked_for


def test_a_browse_through_a_deep_queue_does_not_have_all_of_it_in_memory() -> None:
    """The memory holds at most the limit, a quarter of the limit, and a batch."""
    queue, pages = queue_on(store_of(range(1, 3001)), 400)
    queue.load(order_key(0, serial) for serial in range(1, 3001))

    most = after = 0
    while (message := queue.next_match(None, after)) is not None:
        after = message.key
        most = max(most, len(queue.messages))
        assert pages.bytes == len(queue.messages) * SIZE

    assert most <= 400 + 100 + 256


def test_readers_of_two_queues_that_do_not_fit_do_not_read_the_same_messages_again_and_again() -> None:
    size = 600
    store = store_of(range(1, 2 * size + 1))
    pages = StoredPages(store, lose, bytes_max=8 * 256 * SIZE)
    full = LocalQueue(QueueAttributes(name="FULL"), pages)
    for serial in range(5_000, 5_000 + 8 * 256):
        full.add(queued(in_store(serial)))
    queues = [LocalQueue(QueueAttributes(name=name), pages) for name in ("A", "B")]
    for nth, queue in enumerate(queues):
        queue.load(order_key(0, serial) for serial in range(nth * size + 1, (nth + 1) * size + 1))

    for _ in range(size):
        for queue in queues:
            message = queue.next_match(None, BEFORE_FIRST)
            assert message is not None
            queue.take(message)
            pages.forget(message)

    assert len(store.asked_for) == 2 * -(-size // 256)


def test_a_message_that_stays_does_not_keep_the_record_of_messages_that_left_behind_it() -> None:
    store = store_of(range(1, 5001))
    queue, pages = queue_on(store, 400)
    other = LocalQueue(QueueAttributes(name="OTHER"), pages)
    other.load([order_key(0, 5_000)])
    queue.load(order_key(0, serial) for serial in range(1, 5_000))

    assert other.at(order_key(0, 5_000)) is not None
    assert list(range(1, 5_000)) == drained(queue, pages)
    assert len(pages._read_back) <= 400
    assert other.at(order_key(0, 5_000)) is not None


def test_a_batch_of_large_bodies_is_cut() -> None:
    store = store_of((1, 2, 3), body=bytes(3 * 1024 * 1024))
    queue, _ = queue_on(store, 100_000)
    queue.load(order_key(0, serial) for serial in (1, 2, 3))
    list(queue.first(1))

    assert [1, 2] == in_memory(queue)


def test_a_reader_that_stops_early_reads_no_further_batch() -> None:
    store = store_of(range(1, 101), body=bytes(3 * 1024 * 1024))
    queue, _ = queue_on(store, 100_000)
    queue.load(order_key(0, serial) for serial in range(1, 101))
    [first, *_] = islice(queue.first(100), 2)

    assert 1 == first.serial
    assert 1 == len(store.asked_for)


def test_an_index_finds_messages_on_disk_and_reads_no_other() -> None:
    store = ScriptedStore(messages={serial: in_store(serial, correlation=serial) for serial in range(1, 1001)})
    queue, _ = queue_on(store, 1)
    queue.load(order_key(0, serial) for serial in range(1, 1001))
    found = queue.next_match(Match(correlation_id=(900).to_bytes(24)), BEFORE_FIRST)

    assert found is not None
    assert 900 == found.serial
    assert [(900,)] == store.asked_for


@pytest.mark.parametrize("bits", [GetOption.SYNCPOINT, GetOption.BROWSE_FIRST], ids=["get", "browse"])
def test_a_damaged_message_is_set_aside_with_a_log_line_and_the_next_one_delivered(
    bits: GetOption, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = Snapshot(
        queue_manager=QueueManagerAttributes(name="QM1"),
        queues=(QueueAttributes(name="Q"),),
        serials=(StoredSerials("Q", 0, (1, 2)),),
        next_serial=3,
        quarantined=((99, "earlier"),),
    )
    store = ScriptedStore(snapshot=snapshot, messages={1: None, 2: in_store(2)})
    with EmbeddedQueueManager("QM1", store=store) as queue_manager:
        connection = queue_manager.connect()
        handle = connection.open("Q", OpenOption.INPUT_SHARED | OpenOption.BROWSE | OpenOption.INQUIRE)
        got = connection.get(handle, GetOptions(options=bits))

        assert got is not None
        assert BODY == got.body
        assert [99, 1] == [serial for serial, _ in queue_manager.quarantined]
        assert 1 == connection.inquire(handle, [3]).values[3]
    at_the_start, when_found = caplog.messages
    assert at_the_start.startswith(
        "QM1: the number of damaged messages that are set aside in its data folder is 1. No program gets"
    )
    assert when_found.startswith(
        "QM1: a message on Q is damaged, and is set aside in the data folder (serial number 1). No program"
    )
    assert MessageRemoved(1) not in store.written  # the damaged message is set aside: the store keeps the rest of it


def test_a_message_whose_row_names_another_priority_is_set_aside() -> None:
    store = ScriptedStore(messages={1: in_store(1, priority=5), 2: in_store(2)})
    queue, _ = queue_on(store, 10)
    queue.load(order_key(0, serial) for serial in (1, 2))

    assert [2] == [message.serial for message in queue.first(2)]
    assert 1 == queue.depth


class QueueOnDiskIsAList(RuleBasedStateMachine):
    """Compares a queue with few messages in memory with a list: adds, gets, backouts, browses, clears and damage."""

    def __init__(self) -> None:
        super().__init__()
        self.store = ScriptedStore()
        self.queue, self.pages = queue_on(self.store, 5)
        self.kept: dict[int, QueuedMessage] = {}
        self.held: list[QueuedMessage] = []
        self.damaged: set[int] = set()
        self.serial = 0

    def expected(self) -> list[int]:
        return sorted(self.kept.keys() - self.damaged)

    @rule(priority=st.integers(0, 2), count=st.integers(1, 40), stored=st.booleans(), correlation=st.integers(0, 3))
    def put(self, priority: int, count: int, *, stored: bool, correlation: int) -> None:
        for _ in range(count):
            self.serial += 1
            put = in_store(self.serial, priority, correlation=correlation)
            message = queued(put)
            message.stored = stored
            if stored:
                self.store.messages[self.serial] = put
            self.queue.add(message)
            self.kept[message.key] = message

    @precondition(lambda self: self.expected())
    @rule(data=st.data())
    def get(self, data: st.DataObject) -> None:
        expected = self.expected()
        key = data.draw(st.sampled_from([expected[0], expected[-1], expected[len(expected) // 2]]))
        message = self.queue.at(key)
        assert message is not None
        self.queue.take(message)
        self.held.append(message)
        del self.kept[key]

    @rule(count=st.integers(0, 50))
    def get_many(self, count: int) -> None:
        expected = self.expected()[:count]
        messages = list(self.queue.first(count))
        assert set(expected) >= {message.key for message in messages}
        if not self.damaged:
            assert expected == [message.key for message in messages]
            self.queue.take_first(messages)
            self.held += messages
            for key in expected:
                del self.kept[key]

    @rule(counted=st.booleans())
    def back_out(self, *, counted: bool) -> None:
        for message in self.held:
            if counted:
                message.recounted = True
                self.pages.forget(message)
            self.queue.add(message)
            self.kept[message.key] = message
        self.held.clear()

    @rule()
    def commit(self) -> None:
        for message in self.held:
            self.pages.forget(message)
        self.held.clear()

    @rule(correlation=st.integers(1, 3))
    def find(self, correlation: int) -> None:
        wanted = correlation.to_bytes(24)
        found = self.queue.next_match(Match(correlation_id=wanted), BEFORE_FIRST)
        expected = [key for key in self.expected() if self.kept[key].descriptor.correlation_id == wanted]

        assert expected[:1] == ([] if found is None else [found.key])

    @rule()
    def browse(self) -> None:
        found, after = [], BEFORE_FIRST
        while (message := self.queue.next_match(None, after)) is not None:
            after = message.key
            found.append(after)
            assert self.kept[after].descriptor == message.descriptor
        assert self.expected() == found
        for key in self.damaged:
            self.kept.pop(key, None)
        self.damaged.clear()

    @precondition(lambda self: self.expected())
    @rule(data=st.data())
    def damage(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.expected()))
        if self.kept[key].stored and key not in self.queue.messages:
            self.store.messages[self.kept[key].serial] = None
            self.damaged.add(key)

    @rule()
    def clear_and_put_back(self) -> None:
        emptied = self.queue.clear()
        for message in emptied.messages:
            self.pages.forget(message)
        assert 0 == self.queue.depth
        stored = {message.serial for key, message in self.kept.items() if message.stored and key not in self.damaged}
        damaged = {self.kept[key].serial for key in self.damaged}
        assert stored == set(emptied.stored_serials) - damaged
        self.queue.put_back(emptied)

    @invariant()
    def the_depth_is_exact(self) -> None:
        assert len(self.kept) - len(self.damaged) <= self.queue.depth <= len(self.kept)


TestQueueOnDiskIsAList = QueueOnDiskIsAList.TestCase
