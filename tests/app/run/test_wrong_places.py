"""Calls of an application from another thread, from another event loop, after its end, and without its listeners."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.from_thread
import pytest

from mqflow import App, ConfigurationError
from mqflow.app.run.running_application import RunningApplication
from mqflow.events import ReadinessChanged
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


async def put(app: App) -> None:
    await app.put("IN", b"one")


async def put_many(app: App) -> None:
    await app.put_many("IN", [b"one"])


async def request(app: App) -> None:
    await app.request("IN", b"one", reply=bytes)


async def consume(app: App) -> None:
    async with app.consumer("IN"):
        pass


@pytest.mark.parametrize("call", [put, put_many, request, consume])
async def test_a_call_on_the_event_loop_of_another_thread_does_nothing_and_says_where_to_call(
    mq: QueueManagerKit, mq_backend: str, call: Callable[[App], Awaitable[None]]
) -> None:
    mq.define("IN")
    app = App()

    def on_another_loop() -> None:
        anyio.run(call, app, backend=mq_backend)

    async with mq.run(app):
        with pytest.raises(RuntimeError, match=r"in the event loop of another thread\. Call it there: asyncio\.run_coroutine"):
            await anyio.to_thread.run_sync(on_another_loop)
        assert 0 == mq.depth("IN")


async def test_a_thread_puts_through_the_event_loop_of_the_application(mq: QueueManagerKit) -> None:
    mq.define("IN")

    async with mq.run(app := App()):
        await anyio.to_thread.run_sync(lambda: anyio.from_thread.run(put, app))

    assert 1 == mq.depth("IN")


async def test_a_stop_by_another_thread_is_carried_out_on_the_event_loop(mq: QueueManagerKit) -> None:
    stopped_in = list[int]()
    app = App(hooks=[lambda event: stopped_in.append(threading.get_ident()) if isinstance(event, ReadinessChanged) else None])
    mq.define("IN")

    @app.listener("IN")
    async def handle(body: bytes) -> None: ...

    async with mq.run(app) as running:
        await running.wait_ready()
        await anyio.to_thread.run_sync(app.stop)
        await anyio.sleep(1)
        assert not running.ready

    assert {threading.get_ident()} == set(stopped_in)


@pytest.mark.parametrize(
    "call",
    [
        lambda running: running.put("IN", b"one"),
        lambda running: running.request("IN", b"one", reply=bytes, timeout_s=5),
        lambda running: running.unsubscribe("NEWS"),
        lambda running: running.wait_ready(),
    ],
)
async def test_an_application_that_has_ended_does_nothing_more(
    mq: QueueManagerKit, call: Callable[[RunningApplication], Awaitable[Any]]
) -> None:
    mq.define("IN")
    async with mq.run(App()) as running:
        pass

    with pytest.raises(ConfigurationError, match="The application is not running any more"):
        await call(running)
    assert 0 == mq.depth("IN")


async def test_waiting_for_readiness_without_listeners_is_refused_instead_of_never_ending(mq: QueueManagerKit) -> None:
    async with App().running(mq.queue_manager, clock=mq.clock, listen=False) as running:
        with pytest.raises(ConfigurationError, match="runs with listen=False, so it is never ready"):
            await running.wait_ready()
