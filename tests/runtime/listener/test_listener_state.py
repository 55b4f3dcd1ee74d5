"""The pauses of a listener: how long they are, what ends them, and the messages that must stay meanwhile."""

from functools import partial

import anyio
import pytest

from mqflow.events import Event, ListenerPaused, ListenerResumed
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.backout import decide
from mqflow.policy.poison.disposition import Completed, Failed, Outcome
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.delivery import ListenerSpec
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.world import World

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


class Lowest(SeededRandom):
    """Each pause has its whole length."""

    def random(self) -> float:
        return 0.0


class Bounded(ListenerState):
    """A listener whose rest asks only so often whether an operator has paused it. Without a wait, it would ask for ever."""

    asked = 0
    held = False

    @property
    def is_held(self) -> bool:
        self.asked += 1
        assert self.asked < 100, "it rests without a wait"
        return self.held

    @is_held.setter
    def is_held(self, held: bool) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # reads are counted
        self.held = held


class Bench:
    def __init__(self, mq: QueueManagerKit, **options: bool | int) -> None:
        self.events = list[Event]()
        world, broadcast = World(mq.clock, Lowest(1)), Broadcast((self._heard,))

        async def handle(_: object) -> Outcome:
            return Completed()

        spec = ListenerSpec(name="book", queue="IN", handle=handle, decide=decide, **options)  # type: ignore[arg-type]  # by name
        supervisor = Supervisor(mq.queue_manager, broadcast=broadcast, world=world)
        self.state = Bounded(spec, supervisor, broadcast=broadcast, world=world, application_name="orders")

    def _heard(self, event: Event) -> None:
        self.events.append(event)

    def refuse(self, why: str = "full", *, stop_delivery: bool = False) -> float:
        """Refuse a call. Return the pause that the event names."""
        self.state.refuse(why, int(Reason.Q_FULL), b"m", stop_delivery=stop_delivery)
        [*_, event] = self.events
        assert isinstance(event, ListenerPaused)
        expected = ListenerPaused(
            queue="IN", listener="book", why=why, delay_s=event.delay_s, message_id=b"m", reason=Reason.Q_FULL
        )
        assert expected == event
        assert event.delay_s == pytest.approx(self.state.rest_left_s)
        return event.delay_s

    async def rests_s(self, *, after_s: float = 0.0, **order: bool | int | None) -> float:
        """Return how long a rest takes. With `after_s`, an operator gives this order after so many seconds."""
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            if after_s:
                tasks.start_soon(self._order, after_s, order)
            with anyio.move_on_after(500):
                await self.state.rest()
            tasks.cancel_scope.cancel()
        return round(anyio.current_time() - began, 3)

    async def _order(self, after_s: float, order: dict[str, bool | int | None]) -> None:
        await anyio.sleep(after_s)
        if order:
            self.state.order(**order)  # type: ignore[arg-type]  # by name
        else:
            self.state.stop()


async def test_each_refusal_before_a_success_doubles_the_pause_up_to_a_minute(mq: QueueManagerKit) -> None:
    bench = Bench(mq)
    state = bench.state
    assert [False, False, ""] == [state.refused, state.resting, state.why_refused]
    state.accept()

    assert [1, 2, 4, 8, 16, 32, 60, 60] == [bench.refuse() for _ in range(8)]
    assert [True, True, "full"] == [state.refused, state.resting, state.why_refused]
    state.accept()
    state.accept()
    assert [False, False, ""] == [state.refused, state.resting, state.why_refused]
    assert [1, 60, 4] == [bench.refuse("a"), bench.refuse("b", stop_delivery=True), bench.refuse("c")]
    assert [ListenerResumed(queue="IN", listener="book")] == [
        event for event in bench.events if not isinstance(event, ListenerPaused)
    ]


async def test_a_get_that_is_allowed_again_ends_the_pause_of_a_refused_get_and_not_of_a_refused_message(
    mq: QueueManagerKit,
) -> None:
    bench = Bench(mq)
    state = bench.state
    state.refuse("GET(DISABLED)", int(Reason.GET_INHIBITED))
    state.accept_get()
    assert (False, "") == (state.refused, state.why_refused)

    bench.refuse("full")
    state.accept_get()
    assert (True, "full") == (state.refused, state.why_refused)


async def test_a_rest_ends_with_its_pause_or_with_an_order_or_a_stop(mq: QueueManagerKit) -> None:
    bench = Bench(mq)
    assert 0 == await bench.rests_s()
    bench.refuse()
    assert [1, 0] == [await bench.rests_s(), await bench.rests_s()]
    assert (False, True) == (bench.state.resting, bench.state.refused)
    bench.refuse(stop_delivery=True)
    assert 7 == await bench.rests_s(after_s=7, concurrency=2)
    assert 5 == await bench.rests_s(after_s=5)
    assert 0 == await bench.rests_s()


async def test_a_held_listener_rests_until_it_is_resumed_and_then_until_the_end_of_its_pause(mq: QueueManagerKit) -> None:
    bench = Bench(mq)
    bench.state.order(held=True)
    bench.refuse(stop_delivery=True)
    assert 500 == await bench.rests_s(after_s=9, concurrency=2)
    bench.refuse(stop_delivery=True)
    assert 60 == await bench.rests_s(after_s=10, held=False)
    bench.state.order(held=True)
    assert 3 == await bench.rests_s(after_s=3)


async def test_an_order_begins_a_term_and_changes_only_what_it_names(mq: QueueManagerKit) -> None:
    state = Bench(mq, concurrency=4).state

    found = [(state.term, state.is_held, state.concurrency)]
    orders = (
        state.order,
        partial(state.order, held=True),
        partial(state.order, concurrency=2),
        partial(state.order, held=False),
    )
    for order in orders:
        order()
        found.append((state.term, state.is_held, state.concurrency))

    assert [(0, False, 4), (1, False, 4), (2, True, 4), (3, True, 2), (4, False, 2)] == found
    assert 1 == Bench(mq, concurrency=4, strict_order=True).state.concurrency


async def test_a_pause_of_a_worker_ends_after_its_time_or_with_the_stop(mq: QueueManagerKit) -> None:
    bench = Bench(mq)
    began = anyio.current_time()
    await bench.state.pause(5)
    assert (5, False, False) == (round(anyio.current_time() - began), bench.state.is_stopping, bench.state.stopping.is_set())
    bench.state.stop()
    await bench.state.pause(100)
    assert (5, True, True) == (round(anyio.current_time() - began), bench.state.is_stopping, bench.state.stopping.is_set())


async def test_a_message_that_stays_keeps_the_listener_refused_until_it_is_moved_or_two_minutes_old(
    mq: QueueManagerKit,
) -> None:
    bench = Bench(mq)
    state = bench.state
    for key in (b"first", b"second"):
        state.stays(key)
        state.refused_groups[key] = 1, 2_053
    state.stays(b"second")
    bench.refuse()
    state.accept()
    assert (True, {b"first": (1, 2_053)}) == (state.refused, state.refused_groups)
    state.moved(b"first")
    assert ([False, True], True) == ([key in state.stuck for key in (b"first", b"second")], state.refused)
    assert {} == state.refused_groups
    await anyio.sleep(119)
    state.accept()
    assert (True, 2) == (state.refused, bench.refuse())
    await anyio.sleep(1)
    state.accept()
    assert (False, 1) == (state.refused, bench.refuse())
    state.notes.note_failure(b"third", Failed("ValueError", "bad"))
    state.moved(b"third")
    assert (False, None) == (state.refused, state.notes.read(b"third").failure)
