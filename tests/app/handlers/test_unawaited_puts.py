"""A put that a handler never awaits does not begin. The handler fails, and the reason names the line of the call."""

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mqflow import App, Context
from mqflow.app.handlers.middleware import Call, Incoming
from mqflow.policy.poison.disposition import Outcome
from mqflow.verbs import Put
from tests.app.handlers.session_forms import WAIT_S, Manager, failure

HERE = Path(__file__).name


@pytest.fixture(params=["inline", "thread"])
def manager(request: pytest.FixtureRequest) -> Manager:
    return Manager(request.param)


def line_here() -> int:
    """Return the number of the line after the call."""
    return sys._getframe(1).f_lineno + 1


CALLS: dict[str, Callable[[App, Context], Awaitable[object]]] = {
    "ctx.put": lambda _, ctx: ctx.put("OUT", "lost"),
    "ctx.publish": lambda _, ctx: ctx.publish("a/b", "lost"),
    "app.put": lambda app, _: app.put("OUT", "lost"),
    "app.publish": lambda app, _: app.publish("a/b", "lost"),
    "app.request": lambda app, _: app.request("OUT", "lost", reply=str),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_never_awaited_fails_the_handler_with_its_line(manager: Manager, backend: str, name: str) -> None:
    app = App()

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        await ctx.put("OUT", body)
        CALLS[name](app, ctx)

    told = anyio.run(lambda: manager.run(app, "x"), backend=backend)

    failed = failure(told)
    assert "mqflow.app.errors.NeverAwaitedError" == failed.error
    assert f"{name} at {__file__}:{CALLS[name].__code__.co_firstlineno} was never awaited" in failed.text
    assert ([], [b"x"]) == (manager.bodies("OUT"), manager.bodies("BOQ"))


def test_the_line_is_the_line_of_the_call_and_not_of_the_handler(manager: Manager, backend: str) -> None:
    app, lines = App(), list[int]()

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        await ctx.put("OUT", body)
        lines.append(line_here())
        ctx.put("OUT", "lost")  # type: ignore[unused-coroutine]  # the mistake
        await ctx.put("OUT", body)

    told = anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert f"{HERE}:{lines[0]} was never awaited" in failure(told).text


def test_a_call_of_middleware_that_is_never_awaited_fails_the_delivery_too(manager: Manager, backend: str) -> None:
    class Forgets:
        async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
            outcome = await call_next(delivery)
            app.put("OUT", "lost")  # type: ignore[unused-coroutine]  # the mistake
            return outcome

    app = App(middleware=[Forgets()])

    @app.listener("IN")
    async def handle(body: str) -> None: ...

    told = anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert "app.put" in failure(told).text


@pytest.mark.parametrize("name", CALLS)
def test_in_a_plain_function_the_call_says_at_once_which_function_to_call(manager: Manager, backend: str, name: str) -> None:
    app, after = App(), list[str]()

    @app.listener("IN")
    def handle(body: str, ctx: Context) -> None:
        CALLS[name](app, ctx)
        after.append(body)

    told = anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert [] == after
    assert "TypeError" == failure(told).error
    assert f"{name} must be awaited" in failure(told).text
    assert "Call ctx.put_blocking(...) instead" in failure(told).text


async def gathered(put: Callable[[str, str], Any]) -> None:
    await asyncio.gather(put("OUT", "x"), put("OUT", "x"))


async def in_tasks(put: Callable[[str, str], Any]) -> None:
    await asyncio.create_task(put("OUT", "x"))
    async with asyncio.timeout(5):
        await asyncio.wait_for(put("OUT", "x"), 5)


async def in_a_task_group(put: Callable[[str, str], Any]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(put, "OUT", "x")
        group.start_soon(functools.partial(put, "OUT"), "x")


async def assigned_first(put: Callable[[str, str], Any]) -> None:
    first, second = put("OUT", "x"), put("OUT", "x")
    await second
    await first


@pytest.mark.parametrize("way", [gathered, in_tasks, in_a_task_group, assigned_first])
@pytest.mark.parametrize("of", ["ctx", "app"])
def test_every_way_to_await_a_put_counts(
    manager: Manager, backend: str, way: Callable[[Any], Awaitable[None]], of: str
) -> None:
    if backend == "trio" and way in {gathered, in_tasks}:
        pytest.skip("asyncio only")
    app = App()

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        await way(ctx.put if of == "ctx" else app.put)

    anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert [b"x", b"x"] == manager.bodies("OUT")


def test_a_task_that_has_not_begun_when_its_handler_returns_still_begins_its_put(manager: Manager) -> None:
    app, tasks, handled = App(), list[asyncio.Task[Put]](), asyncio.Event()

    @app.listener("IN")
    async def handle(body: str) -> None:
        tasks.append(asyncio.create_task(app.put("OUT", body)))
        handled.set()

    async def main() -> None:
        async with app.running(manager.queue_manager):
            manager.put("x")
            with anyio.fail_after(WAIT_S):
                await handled.wait()
            await tasks[0]  # an application that stops answers no put that begins afterwards

    asyncio.run(main())

    assert [b"x"] == manager.bodies("OUT")


def test_a_put_that_was_cancelled_does_not_fail_its_handler(manager: Manager, backend: str) -> None:
    app = App()

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
            await ctx.put("OUT", "never reached")
        putting = ctx.put("OUT", "withdrawn")
        putting.close()
        await ctx.put("OUT", body)

    anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert [b"x"] == manager.bodies("OUT")
