"""The refusals that end a worker, those that let its listener wait, and the readiness of the application meanwhile."""

from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.backout import decide
from mqflow.policy.poison.disposition import Behaviour, Completed, Outcome
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.backout_settings import SettingsCache
from mqflow.runtime.listener.delivery import ListenerSpec
from mqflow.runtime.listener.listener import RunningListener, _WorkerSlot
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.testing.kit import QueueManagerKit
from mqflow.world import World

pytestmark = pytest.mark.mq_backend("asyncio")

MISSING = error_for(Reason.UNKNOWN_OBJECT_NAME, "MQOPEN", "IN")
INHIBITED = error_for(Reason.GET_INHIBITED, "MQGET", "IN")
DENIED = error_for(Reason.NOT_AUTHORIZED, "MQINQ", queue_manager="QM1")


class Lost:
    """A session of the present generation."""

    generation = 0


class Bench:
    """A listener without workers, and a slot of one of them."""

    def __init__(self, mq: QueueManagerKit) -> None:
        async def handle(_: object) -> Outcome:
            return Completed()

        world, broadcast = World(mq.clock, mq.random), Broadcast(())
        self.supervisor = Supervisor(mq.queue_manager, broadcast=broadcast, world=world)
        spec = ListenerSpec(name="book", queue="IN", handle=handle, decide=decide)
        self.state = ListenerState(spec, self.supervisor, broadcast=broadcast, world=world, application_name="orders")
        restarts: Any = None  # it starts no worker
        self.listener = RunningListener(self.state, restarts)
        self.slot = _WorkerSlot(self.supervisor, "IN")

    def refused(self, error: MQIError) -> bool:
        """Return whether the listener pauses; otherwise the refusal ends the worker."""
        session: Any = SimpleNamespace()
        try:
            self.listener._refused(error, session, self.slot)
        except MQIError:
            assert not self.state.refused
            return False
        assert (True, str(error)) == (self.state.refused, self.state.why_refused)
        return True

    def not_connected(self, error: MQIError) -> bool:
        try:
            self.listener._not_connected(error, self.slot)
        except MQIError:
            return False
        return True


@pytest.mark.parametrize(
    ("was_open", "started", "error", "pauses"),
    [
        (False, False, MISSING, False),
        (True, False, MISSING, True),
        (False, True, MISSING, True),
        (False, False, INHIBITED, True),
    ],
)
async def test_a_queue_that_was_open_once_lets_its_listener_wait_for_its_administrator(
    mq: QueueManagerKit, *, was_open: bool, started: bool, error: MQIError, pauses: bool
) -> None:
    bench = Bench(mq)
    readiness = bench.supervisor.readiness
    bench.slot.closed()
    assert ["IN"] == list(readiness.missing)
    if was_open:
        bench.slot.opened()
        assert [] == list(readiness.missing)
    bench.listener._started = started

    assert pauses is bench.refused(error)
    assert ["IN"] == list(readiness.missing)
    assert (was_open or started) is bench.not_connected(error)


async def test_a_worker_that_lost_its_connection_waits_with_the_whole_application(mq: QueueManagerKit) -> None:
    bench = Bench(mq)
    bench.slot.opened()
    session: Any = Lost()

    bench.slot.lose(error_for(Reason.CONNECTION_BROKEN, "MQGET", "IN"), session)

    assert (session, True, ("IN",)) == (bench.slot.lost, bench.supervisor.away, bench.supervisor.readiness.missing)
    assert not bench.not_connected(MISSING)


@pytest.mark.anyio
async def test_the_settings_of_each_queue_are_inquired_once_in_a_generation() -> None:
    inquired = list[str]()

    async def call(_verb: object, _connection: object, *names: str) -> object:
        inquired.extend(names)
        return QueueAttributes(name=names[0]) if names else ("DLQ", None)

    session: Any = SimpleNamespace(call=call, connection=SimpleNamespace(queue_manager_name="QM1"))
    cache = SettingsCache(None, None, Behaviour.JMS_LISTENER, pytest.fail)
    for generation in (1, 1, 2):
        for name in ("A", "B"):
            handle: Any = SimpleNamespace(resolved_queue=name)
            assert name == (await cache.get(session, handle, generation)).attributes.name

    assert ["A", "B", "A", "B"] == inquired


def test_an_unknown_dead_letter_queue_is_warned_about_once_until_it_is_known_and_for_each_queue_manager() -> None:
    warned = list[str]()
    cache = SettingsCache(None, None, Behaviour.JMS_LISTENER, warned.append)

    counts = list[int]()
    for queue_manager, refusal in (
        ("QM1", None), ("QM1", DENIED), ("QM1", DENIED), ("QM2", DENIED), ("QM1", DENIED), ("QM1", None), ("QM2", DENIED),
        ("QM1", DENIED),
    ):  # fmt: skip
        cache._tell(queue_manager, refusal)
        counts.append(len(warned))

    text = (
        "the name of the dead-letter queue cannot be inquired, so a poison message that the backout requeue queue does not "
        f"take stays on its queue. {DENIED}"
    )
    assert ([0, 1, 1, 2, 2, 2, 2, 3], [text] * 3) == (counts, warned)
