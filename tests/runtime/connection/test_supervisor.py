"""The supervisor gives a session at once to a caller that must not wait for a reconnection, or refuses."""

import math

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import ConnectionTried, Event, Reconnecting
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.runtime.connection.supervisor import Reconnection, Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.faults import CONNECT, Fault, Faults
from mqflow.world import SYSTEM_WORLD

pytestmark = pytest.mark.anyio
DELAYS = ((0.001, 0.0),)


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


# ---- a queue manager that is not there yet


def _not_there(times: int, reason: Reason = Reason.Q_MGR_NOT_AVAILABLE) -> Faults:
    faults = Faults()
    faults.add(Fault(verb=CONNECT, reason=reason, times=times))
    return faults


async def _first_session(faults: Faults, reconnection: Reconnection) -> int:
    """Return the number of failed attempts before the first session."""
    with EmbeddedQueueManager("QM1") as queue_manager:
        supervisor = Supervisor(
            faults.wrap(queue_manager), broadcast=Broadcast(()), world=SYSTEM_WORLD, reconnection=reconnection
        )
        await (await supervisor.connect()).close()
        return supervisor.generation


async def test_a_start_that_waits_connects_when_the_queue_manager_is_there() -> None:
    assert 1 == await _first_session(_not_there(5), Reconnection(delays=DELAYS, start_limit_s=math.inf))


async def test_the_event_of_an_outage_says_whether_there_was_a_connection() -> None:
    happened: list[Event] = []
    with EmbeddedQueueManager("QM1") as queue_manager:
        faults = _not_there(1)
        supervisor = Supervisor(
            faults.wrap(queue_manager),
            broadcast=Broadcast((lambda event: happened.append(event),)),  # noqa: PLW0108 - `append` has another parameter's name
            world=SYSTEM_WORLD,
            reconnection=Reconnection(delays=DELAYS, start_limit_s=math.inf),
        )
        await (await supervisor.connect()).close()
        supervisor.lost(error_for(Reason.CONNECTION_BROKEN, "MQGET", "Q"))

    begun = [event for event in happened if isinstance(event, Reconnecting) and not event.attempt]
    assert [False, True] == [event.was_connected for event in begun]


async def test_each_attempt_to_connect_is_an_event_with_its_number_and_its_result() -> None:
    happened: list[Event] = []
    with EmbeddedQueueManager("QM1") as queue_manager:
        supervisor = Supervisor(
            _not_there(2).wrap(queue_manager),
            broadcast=Broadcast((lambda event: happened.append(event),)),  # noqa: PLW0108 - `append` has another parameter's name
            world=SYSTEM_WORLD,
            reconnection=Reconnection(delays=DELAYS, start_limit_s=math.inf),
        )
        await (await supervisor.connect()).close()

    refused = int(Reason.Q_MGR_NOT_AVAILABLE)
    tried = [event for event in happened if isinstance(event, ConnectionTried)]
    assert [(0, 0.0, refused), (1, 0.001, refused), (2, 0.001, 0)] == [
        (event.attempt, event.delay_s, event.reason) for event in tried
    ]
    assert [True, True, False] == [event.detail.startswith("MQCONNX") for event in tried]
    assert "" == tried[-1].detail


@pytest.mark.parametrize(
    ("times", "reason", "reconnection"),
    [
        (1, Reason.Q_MGR_NOT_AVAILABLE, Reconnection(delays=DELAYS)),
        (1, Reason.NOT_AUTHORIZED, Reconnection(delays=DELAYS, start_limit_s=math.inf)),
        (1, Reason.HOST_NOT_AVAILABLE, Reconnection(delays=DELAYS, start_limit_s=math.inf, mode=lambda: ReconnectMode.NO)),
        (10**9, Reason.HOST_NOT_AVAILABLE, Reconnection(delays=DELAYS, start_limit_s=0.01)),
    ],
    ids=["without a limit of the start", "a reason that no retry helps", "reconnecting is off", "the limit is over"],
)
async def test_a_start_ends_with_the_reason_of_the_queue_manager(
    times: int, reason: Reason, reconnection: Reconnection
) -> None:
    with pytest.raises(MQIError) as refused:
        await _first_session(_not_there(times, reason), reconnection)

    assert reason == refused.value.reason
    assert "lost" not in str(refused.value)


async def test_the_limit_of_the_start_does_not_limit_a_later_outage() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        faults = Faults()
        supervisor = Supervisor(
            faults.wrap(queue_manager),
            broadcast=Broadcast(()),
            world=SYSTEM_WORLD,
            reconnection=Reconnection(delays=DELAYS, start_limit_s=0.0),
        )
        await (await supervisor.connect()).close()
        faults.add(Fault(verb=CONNECT, reason=Reason.HOST_NOT_AVAILABLE, times=20))
        supervisor.lost(error_for(Reason.CONNECTION_BROKEN, "MQGET", "Q"))

        await (await supervisor.connect()).close()

        assert 1 == supervisor.generation
