"""An application is ready while it runs and nothing is missing; several queue managers are ready together."""

import anyio
import pytest

from mqflow.events import Event, ReadinessChanged
from mqflow.mqi.errors import MQIError
from mqflow.runtime.connection.readiness import Readiness
from mqflow.runtime.hooks import Broadcast


class Told:
    """The readiness of an application, and its events as pairs."""

    def __init__(self) -> None:
        self.changes: list[tuple[bool, tuple[str, ...]]] = []
        self.broadcast = Broadcast((self._heard,))
        self.whole = Readiness(self.broadcast)

    def _heard(self, event: Event) -> None:
        assert isinstance(event, ReadinessChanged)
        self.changes.append((event.ready, event.missing))


def test_an_application_is_ready_when_it_has_started_and_has_all_its_objects() -> None:
    told = Told()
    readiness = told.whole
    readiness.lacks("worker 1", "IN")
    readiness.lacks("worker 2", "IN")
    readiness.lacks("service", "DLQ")
    assert (False, ("IN", "DLQ")) == (readiness.ready, readiness.missing)

    readiness.started()
    readiness.has("worker 1")
    readiness.has("service")
    assert (False, ("IN",)) == (readiness.ready, readiness.missing)
    readiness.has("worker 2")
    assert (True, ()) == (readiness.ready, readiness.missing)
    readiness.lacks("worker 1", "IN")
    readiness.lacks("worker 2", "IN")
    readiness.has("worker 2")
    assert not readiness.ready
    readiness.has("worker 1")
    readiness.has("a stranger")
    readiness.stopped()
    assert not readiness.ready
    readiness.started()

    assert [(True, ()), (False, ("IN",)), (True, ()), (False, ()), (True, ())] == told.changes


def test_the_parts_of_an_application_are_ready_together_and_each_missing_part_has_its_name() -> None:
    told = Told()
    east, west = (Readiness(told.broadcast, name=name, whole=told.whole) for name in ("east", "west"))
    told.whole.started()
    east.started()
    assert ("west",) == told.whole.missing
    west.lacks("worker", "IN")
    west.lacks("service", "DLQ")
    assert ("west: IN, DLQ",) == told.whole.missing
    west.started()
    west.has("worker")
    assert [] == told.changes
    west.has("service")
    assert [(True, ())] == told.changes
    east.lacks("worker", "OUT")
    assert ([True, False, False], ("east: OUT",)) == ([west.ready, east.ready, told.whole.ready], told.whole.missing)
    east.has("worker")
    west.stopped()

    assert [(True, ()), (False, ("east: OUT",)), (True, ()), (False, ("west",))] == told.changes


@pytest.mark.mq_backend("asyncio", "trio")
async def test_a_wait_ends_when_the_application_is_ready_at_that_moment(mq: object) -> None:
    readiness = Told().whole

    async def become_ready() -> None:
        await anyio.sleep(5)
        readiness.started()
        readiness.lacks("worker", "IN")  # before the task that waits has run
        await anyio.sleep(5)
        readiness.has("worker")

    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(become_ready)
        with anyio.move_on_after(60):
            await readiness.wait()
            assert readiness.ready
        assert 10 == round(anyio.current_time() - began)
    await readiness.wait()


@pytest.mark.mq_backend("asyncio", "trio")
async def test_a_wait_ends_with_2202_when_the_application_stops(mq: object) -> None:
    readiness = Told().whole

    async def stop() -> None:
        await anyio.sleep(5)
        readiness.stopped()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        for after_s in (5, 5):
            with pytest.raises(MQIError, match="2202"), anyio.fail_after(60):
                await readiness.wait()
            assert after_s == round(anyio.current_time())
