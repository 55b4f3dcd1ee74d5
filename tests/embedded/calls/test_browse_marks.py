"""The marks that a browser sets over days, and which marks its handle keeps."""

from msgspec.structs import replace

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.verbs import GetOptions

QUEUE = "Q"
MARKING = GetOptions(options=GetOption.BROWSE_FIRST | GetOption.UNMARKED_BROWSE_MSG | GetOption.MARK_BROWSE_HANDLE)
NEXT = GetOption.BROWSE_NEXT | GetOption.UNMARKED_BROWSE_MSG | GetOption.MARK_BROWSE_HANDLE


def test_marks_of_messages_that_are_gone_are_forgotten() -> None:
    """A delay processor marks each staged message that it has seen, and keeps one handle while it runs."""
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name=QUEUE))
        connection = queue_manager.connect()
        handle = connection.open(QUEUE, OpenOption.BROWSE | OpenOption.INPUT_SHARED | OpenOption.OUTPUT)

        for _ in range(2_500):
            connection.put(handle, MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)
            assert connection.get(handle, MARKING) is not None
            connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT))

        assert len(handle.marks) < 1_500


def test_marks_of_messages_that_are_there_stay() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name=QUEUE))
        connection = queue_manager.connect()
        handle = connection.open(QUEUE, OpenOption.BROWSE | OpenOption.OUTPUT)
        for _ in range(1_200):
            connection.put(handle, MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)

        marked = [connection.get(handle, replace(MARKING, options=NEXT)) for _ in range(1_200)]

        assert None not in marked
        assert connection.get(handle, MARKING) is None
