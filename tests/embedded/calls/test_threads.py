"""Many threads on one queue manager: no message is lost or delivered twice, and no thread waits for ever."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Barrier, Thread

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions
from tests.conformance.under_test import refused
from tests.queue_contents import put

TAKE = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=20_000)
STOP = b"stop"
CONSUMERS = 4
PRODUCERS = 2
EACH = 300


def produce(queue_manager: EmbeddedQueueManager, number: int, start: Barrier) -> None:
    """Put messages in units of work of five. Every third unit is backed out once and put again."""
    connection = queue_manager.connect()
    handle = connection.open("Q", OpenOption.OUTPUT)
    start.wait()
    for first in range(0, EACH, 5):
        for attempt in (0, 1) if first % 3 == 0 else (1,):
            for index in range(first, first + 5):
                connection.put(handle, MessageDescriptor(), b"%d/%d" % (number, index), PutOption.SYNCPOINT)
            connection.commit() if attempt else connection.backout()
    connection.disconnect()


def consume(queue_manager: EmbeddedQueueManager, start: Barrier) -> list[bytes]:
    """Get messages until a stop message comes. Back out every seventh message at its first delivery."""
    connection = queue_manager.connect()
    handle = connection.open("Q", OpenOption.INPUT_SHARED)
    start.wait()
    taken: list[bytes] = []
    while True:
        got = connection.get(handle, TAKE)
        assert got is not None, "waited for nothing"
        if got.body == STOP:
            connection.commit()
            return taken
        if got.descriptor.backout_count == 0 and got.body.endswith(b"7"):
            connection.backout()
        else:
            connection.commit()
            taken.append(got.body)


def test_nothing_is_lost_and_nothing_comes_twice() -> None:
    start = Barrier(CONSUMERS + PRODUCERS)
    with EmbeddedQueueManager("QM1") as queue_manager, ThreadPoolExecutor(CONSUMERS + PRODUCERS) as threads:
        queue_manager.administration.define(QueueAttributes(name="Q"))
        consumers = [threads.submit(consume, queue_manager, start) for _ in range(CONSUMERS)]
        producers = [threads.submit(produce, queue_manager, number, start) for number in range(PRODUCERS)]
        for producer in producers:
            producer.result()
        # at the lowest priority, so behind all other messages
        put(queue_manager, "Q", *[STOP] * CONSUMERS, descriptor=MessageDescriptor(priority=0))
        taken = Counter(body for consumer in consumers for body in consumer.result())

        assert Counter(b"%d/%d" % (number, index) for number in range(PRODUCERS) for index in range(EACH)) == taken
        assert 0 == queue_manager.administration.queue_status("Q").depth


def test_a_second_call_on_a_connection_that_waits_is_2219() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q"))
        connection = queue_manager.connect()
        handle = connection.open("Q", OpenOption.INPUT_SHARED)
        answers: SimpleQueue[object] = SimpleQueue()
        waiting = Thread(target=lambda: answers.put(connection.get(handle, TAKE)), daemon=True)
        waiting.start()
        _until_it_waits(queue_manager, "Q")

        for verb in (connection.commit, connection.backout, connection.disconnect):
            with refused(Reason.CALL_IN_PROGRESS):
                verb()
        queue_manager.connect().put1("Q", MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)
        assert answers.get(timeout=120) is not None
        connection.backout()


@pytest.mark.parametrize("way", ["abandon", "lose"])
def test_a_connection_can_be_ended_while_it_waits(way: str) -> None:
    """The server does this after a socket is lost."""
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q"))
        connection = queue_manager.connect()
        handle = connection.open("Q", OpenOption.INPUT_SHARED)
        answers: SimpleQueue[object] = SimpleQueue()

        def get() -> None:
            try:
                answers.put(connection.get(handle, TAKE))
            except MQIError as error:
                answers.put(error.reason)

        Thread(target=get, daemon=True).start()
        _until_it_waits(queue_manager, "Q")
        connection.abandon() if way == "abandon" else connection.lose()

        assert {"abandon": Reason.CONNECTION_BROKEN, "lose": Reason.Q_MGR_STOPPING}[way] == answers.get(timeout=120)


@pytest.mark.parametrize("way", ["disconnect", "abandon"])
def test_a_queue_manager_forgets_connections_that_ended(way: str) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        connection = queue_manager.connect()
        connection.open("SYSTEM.DEFAULT.LOCAL.QUEUE", OpenOption.INPUT_SHARED)
        connection.disconnect() if way == "disconnect" else connection.abandon()

        assert not queue_manager._state.connections


def _until_it_waits(queue_manager: EmbeddedQueueManager, name: str) -> None:
    """Wait until a get waits on the queue. Each check takes the lock, so the other thread gets its turn."""
    queue = queue_manager._state.local_queue(name)
    while not queue.waiters:
        queue_manager.administration.queue_status(name)
