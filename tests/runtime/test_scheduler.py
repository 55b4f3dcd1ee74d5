"""Two workers look at one schedule, and each has its turn inside the step of the other."""

from collections.abc import Callable
from typing import Any

import pytest

from mqflow.app.schedules import Schedule, schedule_of
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.scheduler import Scheduler
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import ObjectHandle
from mqflow.world import World

pytestmark = pytest.mark.mq_backend("asyncio")

SCHEDULE: Schedule = schedule_of(60, "TICKS", "ticks", "UTC", "STATES", None, {})


class Interrupted:
    """A connection on which another worker has its turn before the queue is opened for input."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.before_input: Callable[[], None] = lambda: None

    def open(self, target: Any, options: OpenOption) -> ObjectHandle:
        if options & (OpenOption.INPUT_SHARED | OpenOption.INPUT_EXCLUSIVE):
            turn, self.before_input = self.before_input, lambda: None
            turn()
        handle: ObjectHandle = self._connection.open(target, options)
        return handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class Worker:
    def __init__(self, mq: QueueManagerKit) -> None:
        self.mq, self.connection = mq, Interrupted(mq.queue_manager.connect())
        connection: Any = self.connection  # it has all verbs
        self.session = InlineSession(connection)
        broadcast, world = Broadcast(()), World(mq.clock, mq.random)
        supervisor = Supervisor(mq.queue_manager, broadcast=broadcast, world=world, name="orders")
        self.scheduler = Scheduler([SCHEDULE], supervisor, broadcast=broadcast, clock=mq.clock, application="orders")

    def begin(self) -> Any:
        return self.scheduler._step(self.session, SCHEDULE)

    def commit(self, step: Any) -> None:
        self.connection.commit()
        self.connection.close(step.handle)

    def whole(self) -> None:
        self.commit(self.begin())


def workers(mq: QueueManagerKit) -> tuple[Worker, Worker]:
    mq.define("TICKS")
    mq.define("STATES")
    return Worker(mq), Worker(mq)


def depths(mq: QueueManagerKit) -> tuple[int, int]:
    return len(mq.browse("TICKS")), len(mq.browse("STATES"))


async def test_no_second_state_is_put_while_the_first_is_not_committed(mq: QueueManagerKit) -> None:
    first, second = workers(mq)
    step = first.begin()
    with pytest.raises(MQIError) as refused:
        second.begin()
    first.commit(step)

    assert Reason.OBJECT_IN_USE == refused.value.reason
    assert not second.begin().has_unit
    assert (0, 1) == depths(mq)


async def test_no_second_state_is_put_if_the_first_appears_before_the_queue_is_open(mq: QueueManagerKit) -> None:
    first, second = workers(mq)
    second.connection.before_input = first.whole
    second.whole()

    assert (0, 1) == depths(mq)


async def test_no_state_is_put_while_the_state_is_in_a_unit_of_work_that_fires(mq: QueueManagerKit) -> None:
    first, second = workers(mq)
    first.whole()
    mq.clock.advance(60)
    step = first.begin()
    with pytest.raises(MQIError) as refused:
        second.begin()
    first.commit(step)

    assert Reason.OBJECT_IN_USE == refused.value.reason
    assert (1, 1) == depths(mq)


async def test_only_the_worker_that_gets_the_state_fires(mq: QueueManagerKit) -> None:
    first, second = workers(mq)
    first.whole()
    mq.clock.advance(60)
    second.connection.before_input = first.whole
    late = second.begin()

    assert not late.has_unit
    assert (1, 1) == depths(mq)


async def test_a_worker_that_dies_after_it_has_got_the_state_leaves_it_to_the_next(mq: QueueManagerKit) -> None:
    first, second = workers(mq)
    first.whole()
    mq.clock.advance(60)
    assert first.begin().fired is not None
    await first.session.settle(Settlement.BACKOUT)
    await first.session.close()
    second.whole()

    assert (1, 1) == depths(mq)


async def test_a_refused_firing_gives_its_state_back_before_another_worker_looks(mq: QueueManagerKit) -> None:
    first, second = workers(mq)
    first.whole()
    mq.clock.advance(60)
    mq.mqsc("ALTER QLOCAL(TICKS) PUT(DISABLED)")
    with pytest.raises(MQIError):
        first.begin()
    mq.mqsc("ALTER QLOCAL(TICKS) PUT(ENABLED)")
    second.whole()

    assert (1, 1) == depths(mq)


async def test_a_worker_that_cannot_begin_leaves_the_queue_to_the_others(mq: QueueManagerKit) -> None:
    first, second = workers(mq)
    mq.mqsc("ALTER QLOCAL(STATES) PUT(DISABLED)")
    with pytest.raises(MQIError):
        first.begin()
    mq.mqsc("ALTER QLOCAL(STATES) PUT(ENABLED)")
    second.whole()

    assert (0, 1) == depths(mq)
