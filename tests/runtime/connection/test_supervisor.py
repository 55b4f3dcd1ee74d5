"""The supervisor gives a session at once to a caller that must not wait for a reconnection, or refuses."""

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.faults import CONNECT, Fault, Faults
from mqflow.world import SYSTEM_WORLD

pytestmark = pytest.mark.anyio


async def test_a_caller_that_cannot_wait_gets_a_session_of_a_queue_manager_that_answers() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        supervisor = Supervisor(queue_manager, broadcast=Broadcast(()), world=SYSTEM_WORLD)

        session = await supervisor.connect_now()

        assert "QM1" == session.connection.queue_manager_name
        await session.close()


async def test_a_caller_that_cannot_wait_is_refused_while_another_caller_reconnects() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        faults = Faults()
        supervisor = Supervisor(faults.wrap(queue_manager), broadcast=Broadcast(()), world=SYSTEM_WORLD)
        await (await supervisor.connect()).close()
        faults.add(Fault(verb=CONNECT, reason=Reason.HOST_NOT_AVAILABLE, times=1_000))
        supervisor.lost(error_for(Reason.CONNECTION_BROKEN, "MQGET", "Q"))

        async with anyio.create_task_group() as group:
            group.start_soon(supervisor.connect)
            await wait_all_tasks_blocked()
            with pytest.raises(MQIError, match="Another caller is getting the connection back") as refused:
                await supervisor.connect_now()
            assert Reason.CONNECTION_BROKEN == refused.value.reason
            group.cancel_scope.cancel()
