"""The supervisor gives a session at once to a caller that must not wait for a reconnection, or refuses."""

import math
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from msgspec.structs import replace

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import ConnectionTried, Event, ReadinessChanged, Reconnected, Reconnecting
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Reconnection, Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.faults import CONNECT, Fault, Faults
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from mqflow.world import SYSTEM_WORLD, World

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
    with EmbeddedQueueManager("QM1") as queue_manager:
        heard = Heard(queue_manager, start_limit_s=math.inf)
        heard.faults.add(Fault(verb=CONNECT, reason=Reason.Q_MGR_NOT_AVAILABLE))
        await (await heard.supervisor.connect()).close()
        heard.supervisor.lost(BROKEN)

    begun = [event for event in heard.events if isinstance(event, Reconnecting) and not event.attempt]
    assert [False, True] == [event.was_connected for event in begun]


async def test_each_attempt_to_connect_is_an_event_with_its_number_and_its_result() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        heard = Heard(queue_manager, start_limit_s=math.inf)
        heard.faults.add(Fault(verb=CONNECT, reason=Reason.Q_MGR_NOT_AVAILABLE, times=2))
        await (await heard.supervisor.connect()).close()

    refused = int(Reason.Q_MGR_NOT_AVAILABLE)
    tried = [event for event in heard.events if isinstance(event, ConnectionTried)]
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


class Heard:
    """A supervisor of QM1 and its events, in order. No time passes on its clock."""

    def __init__(self, queue_manager: EmbeddedQueueManager, *, delays: Any = DELAYS, **reconnection: Any) -> None:
        self.events: list[Event] = []
        self.clock = VirtualClock()
        self.faults = Faults()
        self.supervisor = Supervisor(
            self.faults.wrap(queue_manager),
            broadcast=Broadcast((self._heard,)),
            world=World(self.clock, SeededRandom(1)),
            reconnection=Reconnection(delays=delays, **reconnection),
        )

    def _heard(self, event: Event) -> None:
        self.events.append(event)

    def told(self) -> list[Event]:
        """Return the events since the last call, without those of the readiness, and without the advice of an error."""
        told, self.events = self.events, []
        return [
            replace(event, detail=event.detail.partition(" A planned fault")[0])
            if isinstance(event, ConnectionTried)
            else event
            for event in told
            if not isinstance(event, ReadinessChanged)
        ]


def tried(attempt: int, reason: int = 0) -> ConnectionTried:
    delay_s = 0.001 if attempt else 0.0
    detail = f"MQCONNX (QM1) failed: MQRC_HOST_NOT_AVAILABLE ({reason})." if reason else ""
    return ConnectionTried(queue_manager="QM1", attempt=attempt, delay_s=delay_s, reason=reason, detail=detail)


BROKEN = error_for(Reason.CONNECTION_BROKEN, "MQGET", "Q")


async def test_an_outage_has_events_from_its_loss_until_every_owner_is_back() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q"))
        heard = Heard(queue_manager)
        first, other = [await heard.supervisor.connect(owner=owner) for owner in ("one", "two")]
        await first.call(first.open_objects.hold, "Q", OpenOption.BROWSE)
        started = heard.told()

        heard.faults.add(Fault(verb=CONNECT, reason=Reason.HOST_NOT_AVAILABLE, times=2))
        heard.supervisor.lost(BROKEN, first)
        heard.supervisor.lost(BROKEN, other)
        is_away = heard.supervisor.away
        heard.clock.advance(2)
        sessions = [await heard.supervisor.connect(owner="one", before=first)]
        back = heard.told()
        heard.clock.advance(3)
        sessions.append(await heard.supervisor.connect(owner="two", before=other))
        over = heard.told()
        heard.supervisor.lost(BROKEN, first)  # its owner reads of the old loss only now
        for each in sessions:
            await each.close()

    lost = Reconnecting(queue_manager="QM1", attempt=0, reason=2009, delay_s=0.0)
    refused = Reconnecting(queue_manager="QM1", attempt=1, reason=2538, delay_s=0.001, lost_for_s=2.0, next_in_s=0.001)
    assert [tried(0), tried(0)] == started
    assert [lost, tried(1, 2538), refused, tried(2, 2538), replace(refused, attempt=2), tried(3)] == back
    gone = ("Q: the position of the browse cursor, with its lock and its marks",)
    end = Reconnected(queue_manager="QM1", generation=1, objects=("Q",), gone=gone, attempts=3, downtime_ms=5_000.0)
    assert [tried(0), end] == over
    assert (True, False, [1, 1], []) == (
        is_away,
        heard.supervisor.away,
        [session.generation for session in sessions],
        heard.told(),
    )


async def test_a_caller_that_cannot_wait_makes_one_attempt_and_no_pause_inside_a_unit_of_work() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        heard = Heard(queue_manager)
        first = await heard.supervisor.connect()
        heard.faults.add(Fault(verb=CONNECT, reason=Reason.HOST_NOT_AVAILABLE, times=1))
        heard.supervisor.lost(BROKEN, first)
        heard.told()

        with pytest.raises(MQIError, match="MQRC_HOST_NOT_AVAILABLE"):
            await heard.supervisor.connect_now(before=first)
        refused = heard.told()
        session = await heard.supervisor.connect_now(before=first, pauses=False)
        await session.close()

    attempt = Reconnecting(queue_manager="QM1", attempt=1, reason=2538, delay_s=0.001)
    assert [tried(1, 2538), attempt] == refused
    end = Reconnected(queue_manager="QM1", generation=1, objects=(), attempts=1, downtime_ms=0.0)
    assert [replace(tried(1), delay_s=0.0), end] == heard.told()


@pytest.mark.parametrize(
    ("reconnection", "after_s", "reason", "why"),
    [
        pytest.param({"mode": lambda: ReconnectMode.NO}, 0, 2009, "forbids reconnecting", id="reconnecting is off"),
        pytest.param(
            {"limit_s": 30.0}, 31, 2556, "lost 31 s ago, and the limit for getting it back is 30 s", id="the limit is over"
        ),
    ],
)
async def test_an_outage_that_cannot_end_is_the_error_of_its_callers(
    reconnection: dict[str, Any], after_s: float, reason: int, why: str
) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        heard = Heard(queue_manager, **reconnection)
        first = await heard.supervisor.connect()
        heard.supervisor.lost(BROKEN, first)
        heard.clock.advance(after_s)

        with pytest.raises(MQIError, match=why) as refused:
            await heard.supervisor.connect(before=first)

    assert reason == refused.value.reason
    assert heard.supervisor.ended is (reason == 2009)


@pytest.mark.parametrize("delay_s", [60.0, 0.0], ids=["long before the attempt", "just before the attempt"])
async def test_a_stop_ends_the_wait_for_a_queue_manager(delay_s: float) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        heard = Heard(queue_manager, delays=((delay_s, 0.0),))
        first = await heard.supervisor.connect()
        heard.supervisor.lost(BROKEN, first)
        heard.supervisor.stop()

        with pytest.raises(MQIError, match="no longer waits for a queue manager") as refused:
            await heard.supervisor.connect(before=first)

    assert Reason.CONNECTION_QUIESCING == refused.value.reason


async def test_the_owners_of_idle_sessions_let_go_when_the_queue_manager_quiesces() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        heard = Heard(queue_manager)
        asked: list[int] = []

        async def let_go() -> None:
            asked.append(1)

        heard.supervisor.let_go_when_quiescing(let_go)
        first = await heard.supervisor.connect()
        for reason, times in ((Reason.CONNECTION_BROKEN, 0), (Reason.Q_MGR_QUIESCING, 1)):
            heard.supervisor.lost(error_for(reason, "MQGET", "Q"))
            first = await heard.supervisor.connect(before=first)
            assert times == len(asked)
        await first.close()


async def test_an_outage_goes_on_while_an_owner_is_expected_and_the_next_outage_is_another() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        heard = Heard(queue_manager)
        supervisor = heard.supervisor
        first, expected = await supervisor.connect(), await supervisor.connect()
        ends: list[Reconnected] = []

        async def lose_and_return(lost: Session) -> Session:
            supervisor.lost(BROKEN, lost)
            heard.clock.advance(1)
            session = await supervisor.connect(before=lost)
            ends.extend(event for event in heard.told() if isinstance(event, Reconnected))
            return session

        supervisor.lost(BROKEN, first)
        supervisor.expect(expected)
        heard.clock.advance(1)
        first = await supervisor.connect(before=first)
        first = await lose_and_return(first)  # broken again before all are back
        assert [] == ends
        supervisor.release(expected)
        ends.extend(event for event in heard.told() if isinstance(event, Reconnected))
        heard.clock.advance(10)
        first = await lose_and_return(first)
        await first.close()

    made = Reconnected(queue_manager="QM1", generation=2, objects=(), attempts=2, downtime_ms=2_000.0)
    assert [made, replace(made, generation=3, attempts=1, downtime_ms=1_000.0)] == ends
