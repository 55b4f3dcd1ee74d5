"""The marks that a browser sets over days, and which marks its handle keeps."""

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.verbs import GetOptions, ObjectDescriptor
from mqflow.world import World

QUEUE = "Q"
MARKING = GetOptions(options=GetOption.BROWSE_FIRST | GetOption.UNMARKED_BROWSE_MSG | GetOption.MARK_BROWSE_HANDLE)
GETTING = GetOptions(options=GetOption.SYNCPOINT)


@pytest.mark.parametrize(("event", "left"), [("get", 2), ("get many", 1), ("expiry", 2)])
def test_marks_of_messages_that_are_gone_are_forgotten_and_the_other_marks_stay(event: str, left: int) -> None:
    """A delay processor marks each staged message that it has seen, and keeps one handle while it runs."""
    clock = VirtualClock()
    with EmbeddedQueueManager("QM1", world=World(clock)) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name=QUEUE))
        connection = queue_manager.connect()
        handle = connection.open(QUEUE, OpenOption.BROWSE | OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        for expiry_tenths in (10 if event == "expiry" else -1, -1, -1):
            connection.put(handle, MessageDescriptor(expiry_tenths=expiry_tenths), b"", PutOption.NO_SYNCPOINT)
            assert connection.get(handle, MARKING) is not None

        match event:
            case "get":
                connection.get(handle, GETTING)
            case "get many":
                connection.get_many(handle, GETTING, 2)
            case _:
                clock.advance(2)

        assert connection.get(handle, MARKING) is None
        assert left == len(handle.marks)


def test_a_closed_handle_no_longer_follows_the_messages_of_the_queue() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name=QUEUE))
        connection = queue_manager.connect()
        keeps = connection.open(QUEUE, OpenOption.BROWSE | OpenOption.OUTPUT)
        connection.put(keeps, MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)
        for _ in range(3):
            marks = connection.open(ObjectDescriptor(QUEUE, selection="JMSPriority >= 0"), OpenOption.BROWSE)
            assert connection.get(marks, MARKING) is not None
            connection.close(marks)

        assert keeps.queue is not None
        assert ([], []) == (keeps.queue.marking, keeps.queue.selecting)
