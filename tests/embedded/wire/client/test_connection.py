"""A connection to a served queue manager."""

from pathlib import Path

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.verbs import GetOptions

QUEUES = ("ORDERS.IN", "ORDERS.BOQ")


def test_equal_exchanges_of_two_handles_get_from_two_queues(owner: EmbeddedQueueManager, folder: Path) -> None:
    owner.administration.define(QueueAttributes(name="ORDERS.BOQ"))
    options = GetOptions(options=GetOption.SYNCPOINT)
    with serve(owner, folder / "qm"):
        connection = ServedQueueManager(folder / "qm").connect()
        for queue in QUEUES:
            connection.put1(queue, MessageDescriptor(), queue.encode(), PutOption.NO_SYNCPOINT)
        handles = [connection.open(queue, OpenOption.INPUT_SHARED) for queue in QUEUES]
        units = [connection.exchange(handle, options, commit=None, most=1).unit for handle in handles]
        connection.abandon()

    assert [[b"ORDERS.IN"], [b"ORDERS.BOQ"]] == [[got.body for got in unit] for unit in units]
