"""Calls from other threads into the event loop: in order, none lost, and one wake-up for each turn of the loop."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from mqflow.runtime.connection.loop_call import LoopCaller, OneShot, WaitingCalls
from mqflow.world import woken_together


class Loop:
    """An event loop that turns when the test says so."""

    def __init__(self) -> None:
        self.woken: list[Callable[[], object]] = []

    def turn(self) -> None:
        due = tuple(self.woken)
        self.woken.clear()
        for each in due:
            each()


def fail() -> None:
    raise ValueError("a defect")


def test_calls_of_several_threads_wake_the_loop_once_and_run_in_order() -> None:
    loop, ran = Loop(), list[int]()
    calls = WaitingCalls(loop.woken.append)

    for number in range(4):
        thread = threading.Thread(target=calls.add, args=(lambda number=number: ran.append(number),))
        thread.start()
        thread.join()
    wakes = len(loop.woken)
    loop.turn()

    assert (1, [0, 1, 2, 3]) == (wakes, ran)


def test_calls_of_a_thread_that_has_more_to_do_wake_the_loop_when_it_is_done() -> None:
    loop, ran, wakes = Loop(), list[int](), list[int]()
    calls = WaitingCalls(loop.woken.append)

    with woken_together():
        for number in range(2):
            calls.add(partial(ran.append, number))
            wakes.append(len(loop.woken))
    wakes.append(len(loop.woken))
    loop.turn()

    assert ([0, 0, 1], [0, 1]) == (wakes, ran)


def test_a_call_wakes_the_loop_although_its_thread_then_fails() -> None:
    loop = Loop()
    calls = WaitingCalls(loop.woken.append)

    def call_and_fail() -> None:
        with woken_together():
            calls.add(fail)
            fail()

    with pytest.raises(ValueError, match="a defect"):
        call_and_fail()

    assert 1 == len(loop.woken)


def test_a_call_that_comes_after_the_turn_wakes_the_loop_again() -> None:
    loop, ran = Loop(), list[str]()
    calls = WaitingCalls(loop.woken.append)

    calls.add(lambda: ran.append("first"))
    loop.turn()
    calls.add(lambda: ran.append("second"))
    wakes = len(loop.woken)
    loop.turn()

    assert (1, ["first", "second"]) == (wakes, ran)


def test_a_call_that_another_call_adds_runs_in_the_same_turn_or_wakes_the_loop() -> None:
    loop, ran = Loop(), list[str]()
    calls = WaitingCalls(loop.woken.append)

    calls.add(lambda: calls.add(lambda: ran.append("inner")))
    while loop.woken:
        loop.turn()

    assert ["inner"] == ran


def test_a_call_that_raises_holds_up_no_later_call() -> None:
    loop, ran = Loop(), list[str]()
    calls = WaitingCalls(loop.woken.append)

    calls.add(fail)
    calls.add(lambda: ran.append("later"))
    with pytest.raises(ValueError, match="a defect"):
        loop.turn()
    loop.turn()

    assert ["later"] == ran


def test_a_call_into_a_loop_that_has_ended_is_dropped() -> None:
    def refuse(_: Callable[[], object]) -> None:
        raise RuntimeError("the loop is closed")

    WaitingCalls(refuse).add(fail)


@pytest.mark.anyio
async def test_each_waiter_gets_its_value_from_its_thread() -> None:
    waiters = [OneShot(LoopCaller()) for _ in range(8)]

    def pass_on(first: int) -> None:
        for number in range(first, 8, 2):
            waiters[number].pass_on(number)

    values: list[object] = []
    async with anyio.create_task_group() as group:
        for first in range(2):
            group.start_soon(anyio.to_thread.run_sync, pass_on, first)
        with anyio.fail_after(10):
            values += [await waiter.wait() for waiter in waiters]

    assert list(range(8)) == values


@pytest.mark.anyio
async def test_a_call_from_another_thread_can_use_anyio_as_tasks_can() -> None:
    loop_caller, times, has_run = LoopCaller(), list[float](), anyio.Event()

    def note() -> None:
        times.append(anyio.current_time())
        has_run.set()

    began = anyio.current_time()
    await anyio.to_thread.run_sync(loop_caller, note)
    with anyio.fail_after(10):
        await has_run.wait()

    assert began <= times[0] <= anyio.current_time()


@pytest.mark.mq_backend("asyncio", "trio")
@pytest.mark.usefixtures("mq")  # virtual time
async def test_each_wait_ends_at_its_own_limit_also_after_a_shorter_wait_was_answered() -> None:
    loop_caller, over = LoopCaller(), list[tuple[str, bool, float]]()
    began = anyio.current_time()

    async def wait(name: str, limit_s: float) -> None:
        one_shot = OneShot(loop_caller)
        if name == "answered":
            one_shot.pass_on()
        has_come = await one_shot.comes_within(limit_s)
        over.append((name, has_come, anyio.current_time() - began))

    async with anyio.create_task_group() as group:
        group.start_soon(wait, "long", 30)
        group.start_soon(wait, "short", 10)
        group.start_soon(wait, "answered", 5)
        await anyio.sleep(1)
        group.start_soon(wait, "later", 30)

    assert [("answered", True, 0), ("short", False, 10), ("long", False, 30), ("later", False, 31)] == over


@pytest.mark.mq_backend("asyncio")
@pytest.mark.usefixtures("mq")
async def test_answered_waits_set_one_timer_which_does_not_end_later_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    loop_caller, loop, timers = LoopCaller(), asyncio.get_running_loop(), list[float]()
    call_at = loop.call_at

    def counted(when: float, *given: Any, **more: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *given, **more)

    monkeypatch.setattr(loop, "call_at", counted)
    for _ in range(20):
        one_shot = OneShot(loop_caller)
        loop.call_soon(one_shot.pass_on)
        assert await one_shot.comes_within(30)

    assert 1 == len(timers)
    await anyio.sleep(20)
    began = anyio.current_time()
    assert not await OneShot(loop_caller).comes_within(30)
    assert 30 == anyio.current_time() - began
