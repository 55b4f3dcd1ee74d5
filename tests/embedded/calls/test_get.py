"""A get of the message under the cursor after it has expired. Source: IBM, "Message expiry"."""

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions
from mqflow.world import World
from tests.conformance.under_test import ManualClock, refused


def test_a_message_that_expired_under_the_cursor_is_discarded() -> None:
    clock = ManualClock()
    with EmbeddedQueueManager("QM1", world=World(clock)) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q"))
        connection = queue_manager.connect()
        handle = connection.open("Q", OpenOption.BROWSE | OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        connection.put(handle, MessageDescriptor(expiry_tenths=10), b"1", PutOption.NO_SYNCPOINT)
        connection.get(handle, GetOptions(options=GetOption.BROWSE_FIRST))
        clock.advance(1)

        with refused(Reason.NO_MSG_UNDER_CURSOR):
            connection.get(handle, GetOptions(options=GetOption.MSG_UNDER_CURSOR))

        assert 0 == queue_manager.administration.queue_status("Q").depth
