"""A task of a consumer that ends by itself starts again, after a pause that grows with the incidents in a row."""

from collections.abc import Callable

import anyio
import pytest

from mqflow.events import ConsumerFailed
from mqflow.mqi.errors import MQIError
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.restarts import Restarts, Task
from mqflow.testing.kit import QueueManagerKit
from mqflow.world import World

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


class Kept:
    """A task whose runs take these times and then fail; the last run ends well."""

    def __init__(self, mq: QueueManagerKit, runs_s: list[float], *, has_run: bool = True) -> None:
        self.events: list[ConsumerFailed] = []
        self.lacked = 0
        self.left_s = list(runs_s)
        self.error: Callable[[], BaseException] = lambda: KeyError("price")
        self.stopping = anyio.Event()
        self.restarts = Restarts(Broadcast([self]), World(mq.clock, mq.random))
        self.task = Task(
            name="book", queue="IN", run=self.run, has_run=lambda: has_run, lacks=self.lacks, stopping=self.stopping
        )

    def __call__(self, event: object) -> None:
        assert isinstance(event, ConsumerFailed)
        self.events.append(event)

    def lacks(self) -> None:
        self.lacked += 1

    async def run(self) -> None:
        if self.left_s:
            await anyio.sleep(self.left_s.pop(0))
            raise self.error()


async def test_each_incident_in_a_row_makes_the_pause_longer_and_a_minute_of_work_makes_it_short_again(
    mq: QueueManagerKit,
) -> None:
    kept = Kept(mq, [0, 0, 59.9, 60, 0])
    began = anyio.current_time()
    await kept.restarts.keep(kept.task)

    pauses = [event.restarts_in_s for event in kept.events]
    assert [1, 2, 3, 1, 2] == [event.failures for event in kept.events]
    assert all(0.75 * most <= pause <= most for most, pause in zip([1, 2, 4, 1, 2], pauses, strict=True))
    assert pytest.approx(59.9 + 60 + sum(pauses)) == anyio.current_time() - began
    assert (5, 5) == (kept.restarts.incidents, kept.lacked)


async def test_an_incident_is_reported_with_its_error_and_its_traceback(mq: QueueManagerKit) -> None:
    kept = Kept(mq, [0])
    await kept.restarts.keep(kept.task)

    [event] = kept.events
    assert ("book", "IN", "KeyError: 'price'", 1) == (event.consumer, event.queue, event.error, event.failures)
    assert event.traceback.startswith("Traceback (most recent call last):\n")
    assert event.traceback.endswith("raise self.error()\nKeyError: 'price'\n")


async def test_a_stop_ends_the_pause_after_an_incident(mq: QueueManagerKit) -> None:
    kept = Kept(mq, [0, 0])
    kept.stopping.set()
    began = anyio.current_time()
    await kept.restarts.keep(kept.task)

    assert (1, [0], 0) == (kept.restarts.incidents, kept.left_s, anyio.current_time() - began)


@pytest.mark.parametrize(
    ("error", "has_run"),
    [
        (MQIError(2035, "MQOPEN"), True),
        (KeyError("price"), False),
        (BaseExceptionGroup("two", [ValueError(), MQIError(2009, "MQGET")]), True),
    ],
    ids=["an error of the queue manager", "before the task has worked", "one of several errors"],
)
async def test_an_error_that_must_end_the_application_is_no_incident(
    mq: QueueManagerKit, error: BaseException, *, has_run: bool
) -> None:
    kept = Kept(mq, [0], has_run=has_run)
    kept.error = lambda: error

    with pytest.raises(type(error)) as raised:
        await kept.restarts.keep(kept.task)

    assert error is raised.value
    assert (0, [], 0) == (kept.restarts.incidents, kept.events, kept.lacked)
