"""A recorder of decisions on a queue manager of its own, and the records that it has put."""

from typing import Any

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Event
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome, many_from_bytes
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from mqflow.verbs import Connection
from mqflow.world import World
from tests.queue_contents import taken

__all__ = ("NOW_S", "NOW_US", "ORDER", "Recorded")

NOW_S = 1_760_000_000.25
NOW_US = 1_760_000_000_250_000
ORDER = MessageDescriptor(
    message_id=b"M" * 24, correlation_id=b"C" * 24, group_id=b"G" * 24, message_type=1, format="MQSTR", ccsid=1208,
    encoding=273, persistence=1, priority=4, expiry_tenths=25, put_date="19700101", put_time="00000150",
    put_application_name="orders", put_application_type=6, user_identifier="alice", reply_to_queue="REPLIES",
    reply_to_queue_manager="QM2", backout_count=3,
)  # fmt: skip


class Recorded:
    """A recorder on a queue manager of its own, and the warnings that it gives."""

    def __init__(self, queue_manager: EmbeddedQueueManager) -> None:
        self.queue_manager = queue_manager
        self.connection: Connection = queue_manager.connect()
        self.events: list[Event] = []
        self.clock = VirtualClock(NOW_S)
        world = World(self.clock, SeededRandom(1))
        self.recorder = ConnectionRecorder("RECORDS", consumer="orders/mover", world=world, notify=self.events.append)

    def messages(self) -> list[list[DispositionRecord]]:
        """Get the records of each message that another connection sees."""
        return [list(many_from_bytes(got.body)) for got in taken(self.queue_manager, "RECORDS")]

    def define(self) -> None:
        self.queue_manager.administration.define(QueueAttributes(name="RECORDS"))

    def put(self, **options: Any) -> int:
        """Put a record. Return the reason of its refusal, or 0."""
        error = self.recorder.put(self.connection, RecordOutcome.BACKED_OUT, ORDER, queue="IN", **options)
        return int(error.reason) if error is not None else 0
