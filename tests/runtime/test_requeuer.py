"""A decision does not outlive its connection: what another queue manager says by now is asked for afresh."""

import pytest
from msgspec.structs import replace

from mqflow.ambient import SYSTEM_CLOCK, SYSTEM_RANDOM, THREADS
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy import moved
from mqflow.policy.disposition import Behaviour, Requeue
from mqflow.runtime.broadcast import Broadcast
from mqflow.runtime.requeuer import Requeuer, Task
from mqflow.runtime.supervisor import Supervisor
from mqflow.testing.faults import Faults

pytestmark = pytest.mark.anyio


async def test_a_message_is_not_moved_by_what_was_inquired_before_an_outage() -> None:
    """Issue: cached attributes die with the generation. Found by seed 2221 of the simulation, on trio."""
    faults = Faults()
    with EmbeddedQueueManager("QM1") as queue_manager:
        for name in ("IN", "OLD", "NEW"):
            queue_manager.administration.define(QueueAttributes(name=name))
        supervisor = Supervisor(
            faults.wrap(queue_manager), broadcast=Broadcast(()), clock=SYSTEM_CLOCK, random=SYSTEM_RANDOM, runner=THREADS
        )
        first = await supervisor.connect()
        put = await first.call(first.connection.put1, "IN", MessageDescriptor(), b"an order", PutOption.NO_SYNCPOINT)
        requeuer = Requeuer("IN", supervisor, behaviour=Behaviour.JMS_LISTENER, application_name="test", clock=SYSTEM_CLOCK)
        before = Task(
            message_id=put.descriptor.message_id,
            correlation_id=put.descriptor.correlation_id,
            backout_count=0,
            decide=lambda _: (Requeue("OLD"),),
            generation=supervisor.generation,
            why=moved.Why(),
        )

        faults.break_connections()
        supervisor.lost(error_for(Reason.CONNECTION_BROKEN, "MQGET"))
        second = await supervisor.connect()
        kept = await requeuer.move(before)
        stayed = queue_manager.administration.queue_status("IN").depth
        now = replace(before, decide=lambda _: (Requeue("NEW"),), generation=supervisor.generation)
        disposal = await requeuer.move(now)

        depths = {name: queue_manager.administration.queue_status(name).depth for name in ("IN", "OLD", "NEW")}
        await requeuer.close()
        for session in (first, second):
            await session.close()

    assert (None, 1) == (kept, stayed)
    assert disposal is not None
    assert {"IN": 0, "OLD": 0, "NEW": 1} == depths
