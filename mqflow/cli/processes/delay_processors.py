"""The delay processors of a queue manager that a command serves. They run in the process of the queue manager.

This file reads no message.
"""

import anyio

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.delay.processor import DelayProcessor
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE
from mqflow.runtime.hooks import Broadcast, LogEvents
from mqflow.world import SYSTEM_CLOCK, SYSTEM_WORLD

__all__ = ("DelayProcessors",)


class DelayProcessors:
    """A processor for the queue manager's own staging queue, and one for the queue of the setting `delay_queue`, if set."""

    def __init__(self, queue_manager: EmbeddedQueueManager, *, disposition_queue: str, delay_queue: str) -> None:
        """Make the processors. If `disposition_queue` is not empty, each delivered message gets a record there."""
        queues = dict.fromkeys((EMBEDDED_STAGING_QUEUE, delay_queue or EMBEDDED_STAGING_QUEUE))
        self._processors = [_processor(queue_manager, queue, disposition_queue) for queue in queues]

    async def run(self) -> None:
        """Deliver messages that are due, until `stop` is called."""
        async with anyio.create_task_group() as group:
            for processor in self._processors:
                group.start_soon(processor.run)

    def stop(self) -> None:
        """Begin no further move. The current move is finished."""
        for processor in self._processors:
            processor.stop()


def _processor(queue_manager: EmbeddedQueueManager, queue: str, disposition_queue: str) -> DelayProcessor:
    broadcast = Broadcast((LogEvents(),))
    supervisor = Supervisor(queue_manager, broadcast=broadcast, world=SYSTEM_WORLD, name="mqflow delay processor")
    records = None
    if disposition_queue:
        consumer = "mqflow qmgr/delay processor"
        records = ConnectionRecorder(disposition_queue, consumer=consumer, world=SYSTEM_WORLD)
    return DelayProcessor(queue, supervisor, broadcast=broadcast, clock=SYSTEM_CLOCK, records=records)
