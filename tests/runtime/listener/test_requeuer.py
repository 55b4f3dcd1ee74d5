"""A decision is valid only on its connection: after a reconnection, the attributes are inquired again."""

import pytest
from msgspec.structs import replace

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison import moved_message
from mqflow.policy.poison.disposition import Behaviour, Requeue
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.long_retries import get_again
from mqflow.runtime.listener.requeuer import Requeuer, Task
from mqflow.testing.faults import Fault, Faults
from mqflow.verbs import GetOptions
from mqflow.world import SYSTEM_CLOCK, SYSTEM_WORLD

pytestmark = pytest.mark.anyio


async def test_a_message_is_not_moved_by_what_was_inquired_before_an_outage() -> None:
    """Issue: cached attributes end with the generation. Seed 2221 of the simulation, on trio, found this."""
    faults = Faults()
    with EmbeddedQueueManager("QM1") as queue_manager:
        for name in ("IN", "OLD", "NEW"):
            queue_manager.administration.define(QueueAttributes(name=name))
        supervisor = Supervisor(faults.wrap(queue_manager), broadcast=Broadcast(()), world=SYSTEM_WORLD)
        first = await supervisor.connect()
        put = await first.call(first.connection.put1, "IN", MessageDescriptor(), b"an order", PutOption.NO_SYNCPOINT)
        requeuer = Requeuer("IN", supervisor, behaviour=Behaviour.JMS_LISTENER, application_name="test", clock=SYSTEM_CLOCK)
        before = Task(
            message_id=put.descriptor.message_id,
            correlation_id=put.descriptor.correlation_id,
            backout_count=0,
            decide=lambda _: (Requeue("OLD"),),
            generation=supervisor.generation,
            why=moved_message.Why(),
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


@pytest.mark.parametrize("gone", [False, True], ids=["there", "taken by another meanwhile"])
async def test_of_messages_with_the_same_identifiers_the_one_that_failed_is_moved(*, gone: bool) -> None:
    """The other message, which was never delivered, is left. The requeuer's check has added a backout to its count too."""
    faults = Faults()
    alike = MessageDescriptor(message_id=b"M" * 24, correlation_id=b"C" * 24)
    with EmbeddedQueueManager("QM1") as queue_manager:
        for name in ("IN", "BOQ"):
            queue_manager.administration.define(QueueAttributes(name=name))
        connection = queue_manager.connect()
        connection.put1("IN", alike, b"failed", PutOption.NO_SYNCPOINT)
        handle = connection.open("IN", OpenOption.INPUT_SHARED)
        connection.get(handle, GetOptions(options=GetOption.SYNCPOINT))
        connection.backout()
        connection.put1("IN", replace(alike, priority=9), b"new", PutOption.NO_SYNCPOINT)
        supervisor = Supervisor(faults.wrap(queue_manager), broadcast=Broadcast(()), world=SYSTEM_WORLD)
        session = await supervisor.connect()
        requeuer = Requeuer("IN", supervisor, behaviour=Behaviour.JMS_LISTENER, application_name="test", clock=SYSTEM_CLOCK)
        task = Task(
            message_id=alike.message_id,
            correlation_id=alike.correlation_id,
            backout_count=1,
            decide=lambda _: (Requeue("BOQ"),),
            generation=supervisor.generation,
            why=moved_message.Why(),
        )
        if gone:
            faults.add(Fault(verb="MQGET", object_name="IN", nth=4, reason=Reason.NO_MSG_UNDER_CURSOR))

        disposal = await requeuer.move(task)

        left = [got.body for got in iter(lambda: connection.get(handle, GetOptions()), None)]
        await requeuer.close()
        await session.close()

    assert gone is (disposal is None)
    assert ([b"new", b"failed"] if gone else [b"new"]) == left


@pytest.mark.parametrize("reason", [Reason.MATCH_OPTIONS_ERROR, Reason.MSG_TOKEN_ERROR])
def test_a_message_is_got_again_by_its_identifiers_where_its_queue_matches_no_tokens(reason: Reason) -> None:
    """Facts: 2247 F. Otherwise the poison message cannot be got again, and stays on its queue for ever."""
    faults = Faults()
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="IN"))
        connection = faults.wrap(queue_manager).connect(application_name="test")
        connection.put1("IN", MessageDescriptor(), b"failed", PutOption.NO_SYNCPOINT)
        handle = connection.open("IN", OpenOption.INPUT_SHARED)
        failed = connection.get(handle, GetOptions(options=GetOption.SYNCPOINT))
        assert failed is not None
        connection.backout()
        faults.add(Fault(verb="MQGET", object_name="IN", reason=reason))

        descriptor = failed.descriptor
        again = get_again(connection, handle, descriptor.message_id, descriptor.correlation_id, failed.message_token)

    assert again is not None
    assert (b"failed", 1) == (again.body, again.descriptor.backout_count)
