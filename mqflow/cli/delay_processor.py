"""The delay processor of a queue manager that a command serves to others: none of their applications has it in its own process.

Puts the parts together; knows no message.
"""

from mqflow.ambient import SYSTEM_CLOCK, SYSTEM_RANDOM, THREADS
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.runtime.broadcast import Broadcast, LogEvents
from mqflow.runtime.connection_recorder import ConnectionRecorder
from mqflow.runtime.delay_processor import DelayProcessor
from mqflow.runtime.staging import EMBEDDED_STAGING_QUEUE
from mqflow.runtime.supervisor import Supervisor

__all__ = ("delay_processor",)


def delay_processor(queue_manager: EmbeddedQueueManager, disposition_queue: str) -> DelayProcessor:
    """Return what delivers its delayed messages, with a record of each on the disposition queue, where that has a name."""
    broadcast = Broadcast((LogEvents(),))
    supervisor = Supervisor(
        queue_manager,
        broadcast=broadcast,
        clock=SYSTEM_CLOCK,
        random=SYSTEM_RANDOM,
        runner=THREADS,
        name="mqflow delay processor",
    )
    records = None
    if disposition_queue:
        who = "mqflow qmgr/delay processor"
        records = ConnectionRecorder(disposition_queue, consumer=who, clock=SYSTEM_CLOCK, random=SYSTEM_RANDOM)
    return DelayProcessor(EMBEDDED_STAGING_QUEUE, supervisor, broadcast=broadcast, clock=SYSTEM_CLOCK, records=records)
