"""Virtual time: waits take no real time, order repeats, and a hang is an error that names the waiting tasks."""

import asyncio
import threading

import anyio
import anyio.to_thread
import pytest
import trio.testing
from anyio.lowlevel import checkpoint

from mqflow import App
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import DeadlockError, SeededRandom, VirtualClock
from mqflow.testing.virtual_time import Backend, run
from mqflow.world import SYSTEM_CLOCK, THREADS


def test_a_day_of_sleeping_takes_no_time(backend: Backend) -> None:
    clock = VirtualClock()
    started = SYSTEM_CLOCK.monotonic()

    async def main() -> float:
        await anyio.sleep(86_400)
        return anyio.current_time()

    assert run(main, backend=backend, clock=clock) == 86_400
    assert clock.monotonic() == 86_400
    assert SYSTEM_CLOCK.monotonic() - started < 30  # a limit for hangs, not a measurement


def test_timers_fire_in_the_order_of_their_deadlines(backend: Backend) -> None:
    seen: list[tuple[float, float]] = []

    async def sleeper(seconds: float) -> None:
        await anyio.sleep(seconds)
        seen.append((seconds, anyio.current_time()))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for seconds in (30, 0.25, 7, 1e6):
                group.start_soon(sleeper, seconds)

    run(main, backend=backend)

    assert [(0.25, 0.25), (7, 7), (30, 30), (1e6, 1e6)] == seen


def test_the_wall_clock_follows_the_loop_and_can_jump_on_its_own(backend: Backend) -> None:
    clock = VirtualClock(epoch_s=1_000.0)

    async def main() -> None:
        await anyio.sleep(5)
        clock.jump_wall(-3_600)
        await anyio.sleep(5)

    run(main, backend=backend, clock=clock)

    assert clock.wall() == 1_000.0 + 10 - 3_600
    assert clock.monotonic() == 10


def test_advancing_the_clock_by_hand_makes_timers_due(backend: Backend) -> None:
    clock = VirtualClock()

    async def main() -> float:
        with anyio.move_on_after(60) as scope:
            clock.advance(61)
            await anyio.Event().wait()
        assert scope.cancelled_caught
        return anyio.current_time()

    assert run(main, backend=backend, clock=clock) == 61


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_advancing_by_no_time_that_can_pass_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match=rf"cannot advance by {seconds:g} s"):
        VirtualClock().advance(seconds)


def test_a_deadlock_is_an_error_that_names_each_waiting_task_and_its_line(backend: Backend) -> None:
    async def waits_for_godot() -> None:
        await anyio.Event().wait()

    async def main() -> None:
        await anyio.sleep(12.5)
        async with anyio.create_task_group() as group:
            group.start_soon(waits_for_godot, name="estragon")

    with pytest.raises(DeadlockError) as caught:
        run(main, backend=backend)

    text = str(caught.value)
    assert "After 12.5 virtual seconds" in text
    assert "estragon: " in text
    assert "waits_for_godot" in text
    assert "test_virtual_time.py:" in text


@pytest.mark.parametrize("listens", [False, True])
def test_the_error_of_a_receive_that_waits_for_ever_names_the_line_of_the_test_first(
    backend: Backend, *, listens: bool
) -> None:
    mq, app = QueueManagerKit(), App()
    mq.mqsc("DEFINE QLOCAL(IN)", "DEFINE QLOCAL(IDLE) BOTHRESH(1)")

    async def handle(body: str) -> None: ...

    async def main() -> None:
        async with mq.run(app), app.consumer("IN") as consumer:
            await consumer.receive()

    if listens:
        app.listener("IDLE")(handle)
    with pytest.raises(DeadlockError) as caught:
        run(main, backend=backend, clock=mq.clock)

    qualified, line = main.__qualname__, main.__code__.co_firstlineno + 2
    assert f"  the test: {qualified} ({__file__}:{line})" == str(caught.value).splitlines()[1]


def test_a_test_can_sleep_for_days_beside_an_idle_listener(backend: Backend) -> None:
    mq, app = QueueManagerKit(), App()
    mq.define("IDLE")

    @app.listener("IDLE")
    async def handle(body: str) -> None: ...

    async def main() -> float:
        async with mq.run(app):
            await anyio.sleep(2 * 86_400)
            return anyio.current_time()

    assert 2 * 86_400 == run(main, backend=backend, clock=mq.clock)


def test_an_exception_of_the_main_function_is_raised(backend: Backend) -> None:
    async def main() -> None:
        await anyio.sleep(1)
        raise LookupError("as it is")

    with pytest.raises(LookupError, match="as it is"):
        run(main, backend=backend)


def test_time_stands_still_while_a_worker_thread_works(backend: Backend) -> None:
    go = threading.Event()
    answers: list[str] = []

    async def main() -> float:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(_release_soon, go)
                work = anyio.to_thread.run_sync(lambda: "done" if go.wait(10) else "late", limiter=anyio.CapacityLimiter(1))
                answers.append(await work)
        return anyio.current_time()

    assert run(main, backend=backend) == 0.0
    assert answers == ["done"]


async def _release_soon(go: threading.Event) -> None:
    for _ in range(20):
        await checkpoint()
    go.set()


def test_time_stands_still_while_announced_work_is_under_way(backend: Backend) -> None:
    clock = VirtualClock()

    async def main() -> float:
        clock.hold()
        finished = anyio.Event()
        token = anyio.lowlevel.current_token()

        def work() -> None:
            anyio.from_thread.run_sync(finished.set, token=token)
            clock.release()

        THREADS.start(work, "test work")
        with anyio.fail_after(60):
            await finished.wait()
        return anyio.current_time()

    assert run(main, backend=backend, clock=clock) == 0.0


def test_time_runs_on_without_a_thread_that_never_ends(backend: Backend) -> None:
    clock = VirtualClock(real_work_s_max=0.05)
    stuck = threading.Event()

    async def main() -> float:
        with anyio.move_on_after(30):
            await anyio.to_thread.run_sync(stuck.wait, abandon_on_cancel=True)
        stuck.set()
        return anyio.current_time()

    assert run(main, backend=backend, clock=clock) == 30.0


def test_an_unannounced_thread_is_not_mistaken_for_a_deadlock(backend: Backend) -> None:
    async def main() -> str:
        event = anyio.Event()
        token = anyio.lowlevel.current_token()
        THREADS.start(lambda: anyio.from_thread.run_sync(event.set, token=token), "stranger")
        await event.wait()
        return "heard"

    assert run(main, backend=backend) == "heard"


def test_a_busy_task_cannot_stop_time(backend: Backend) -> None:
    async def main() -> bool:
        with anyio.move_on_after(1) as scope:
            while True:
                await checkpoint()
        return scope.cancelled_caught

    assert run(main, backend=backend)


def test_the_same_seed_gives_the_same_order(backend: Backend) -> None:
    def order(seed: int) -> list[int]:
        seen: list[int] = []

        async def worker(number: int) -> None:
            for _ in range(3):
                await checkpoint()
                seen.append(number)

        async def main() -> None:
            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(worker, number)

        run(main, backend=backend, seed=seed)
        return seen

    assert order(7) == order(7)
    assert len({tuple(order(seed)) for seed in range(5)}) == (1 if backend == "asyncio" else 5)


def test_chance_with_a_seed_repeats_itself() -> None:
    first, again, other = SeededRandom(1), SeededRandom(1), SeededRandom(2)

    drawn = [first.random() for _ in range(5)]

    assert drawn == [again.random() for _ in range(5)]
    assert drawn != [other.random() for _ in range(5)]
    assert repr(first) == "SeededRandom(1)"


def test_waiting_for_all_tasks_to_block_comes_before_a_jump_on_trio() -> None:
    moments: list[float] = []

    async def main() -> float:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 100)
            await trio.testing.wait_all_tasks_blocked()
            moments.append(anyio.current_time())
        return moments[0]

    assert run(main, backend="trio") == 0.0


def test_work_given_to_an_asyncio_executor_is_real_work() -> None:
    go = threading.Event()

    async def main() -> float:
        async with asyncio.timeout(60), anyio.create_task_group() as group:
            group.start_soon(_release_soon, go)
            await asyncio.to_thread(go.wait, 10)
        return anyio.current_time()

    assert run(main, backend="asyncio") == 0.0
