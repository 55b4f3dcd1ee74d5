"""A caller abandons a put before the put has ended: the events are true, and the put is not in the next unit of work.

On a session with a thread, the put continues. anyio's cancellation waits for its end; asyncio's own cancellation does not.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from mqflow import App, Context
from mqflow.app.errors import DeliveryOverError
from mqflow.app.handlers.outgoing_message import Outgoing, Send
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Event, InDoubt, Settled
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.policy.poison.disposition import Completed, Failed, Settlement
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Connection, GetOptions, Got, Put
from tests.queue_contents import taken

WAIT_S = 10


class Told(list[Event]):
    """Collects the events of an application."""

    def __call__(self, event: Event) -> None:
        self.append(event)


class Slow:
    """A connection on which the open of SLOW, a put of "slow", or the commit after that put waits for the test."""

    def __init__(self, behind: Connection, manager: "SlowQueueManager") -> None:
        self._behind = behind
        self._manager = manager
        self._put_slow = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def open(self, target: Any, options: OpenOption) -> Any:
        handle = self._behind.open(target, options)
        if self._manager.dawdles_in == "open" and handle.name == "SLOW":
            self._dawdle()
        return handle

    def put(self, handle: Any, descriptor: MessageDescriptor, body: bytes, options: PutOption, *, context: Any = None) -> Put:
        put = self._behind.put(handle, descriptor, body, options, context=context)
        self._put_slow = body == b"slow"
        if self._put_slow and self._manager.dawdles_in == "put":
            self._dawdle()
        return put

    def get(self, handle: Any, options: GetOptions) -> Got | None:
        return self._behind.get(handle, replace(options, wait_ms=min(options.wait_ms, 20)))  # so that a stop takes effect soon

    def commit(self) -> None:
        if self._put_slow and self._manager.dawdles_in == "commit":
            self._dawdle()
        was_slow, self._put_slow = self._put_slow, False
        self._behind.commit()
        if was_slow:
            self._manager.is_committed.set()

    def _dawdle(self) -> None:
        self._manager.under_way.set()
        self._manager.may_end.wait(WAIT_S)


class SlowQueueManager:
    """The embedded queue manager with blocking calls, so that its sessions have threads."""

    name = "QM1"

    def __init__(self, dawdles_in: str) -> None:
        self.behind = EmbeddedQueueManager("QM1")
        self.dawdles_in = dawdles_in
        self.under_way, self.may_end, self.is_committed = threading.Event(), threading.Event(), threading.Event()
        for queue in ("IN", "OUT", "SLOW", "BOQ"):
            attributes = QueueAttributes(name=queue, backout_threshold=1, backout_requeue_queue="BOQ")
            self.behind.administration.define(attributes)

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        return cast("Connection", Slow(self.behind.connect(application_name=application_name, user=user), self))

    async def give_up(self, cancel: Callable[[], object]) -> None:
        """Cancel the scope while the verb runs, and let the verb end afterwards."""
        await anyio.to_thread.run_sync(self.under_way.wait, WAIT_S)
        cancel()
        await checkpoint()
        self.may_end.set()

    def on(self, queue: str) -> list[bytes]:
        """Get all messages of the queue."""
        return [got.body for got in taken(self.behind, queue)]


async def _until(true: Callable[[], object]) -> None:
    with anyio.fail_after(WAIT_S):
        while not true():  # noqa: ASYNC110 - a thread changes the condition
            await anyio.sleep(0.005)


async def _run(app: App, manager: SlowQueueManager, *bodies: str, units: int) -> list[Event]:
    """Put these messages for the application, and stop it after the given number of units of work."""
    told: list[Event] = []
    app.hooks.append(lambda event: told.append(event))  # noqa: PLW0108 - a hook is called by keyword too
    async with app.running(manager):
        for body in bodies:
            await app.put("IN", body)
        await _until(lambda: sum(isinstance(event, Settled) for event in told) >= units)
    return told


def test_a_put_that_asyncio_gave_up_is_not_made_and_leaves_the_unit_of_work_of_its_handler_alone() -> None:
    """At the call the session only opens the queue. Nothing of that is in the unit of work."""
    app, manager = App(), SlowQueueManager("open")

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        if body == "first":
            putting = asyncio.create_task(ctx.put("SLOW", b"given up"))
            await manager.give_up(putting.cancel)
            try:
                await putting
            except asyncio.CancelledError:
                return  # like `asyncio.timeout` in a handler that continues without its put
        await ctx.put("OUT", b"second")

    told = asyncio.run(_run(app, manager, "first", "second", units=2))

    assert ([b"second"], [], []) == (manager.on("OUT"), manager.on("SLOW"), manager.on("BOQ"))
    outcomes = [(event.settlement, type(event.outcome)) for event in told if isinstance(event, Settled)]
    assert [(Settlement.COMMIT, Completed), (Settlement.COMMIT, Completed)] == outcomes


def test_a_handler_that_is_cancelled_during_its_put_has_failed_and_its_put_is_not_committed_with_its_message() -> None:
    app, manager = App(), SlowQueueManager("put")
    given_up: list[asyncio.Task[None]] = []

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        if body == "first":
            task = asyncio.current_task()
            assert task is not None
            given_up.append(asyncio.create_task(manager.give_up(task.cancel)))
        await ctx.put("OUT", b"slow" if body == "first" else b"second")

    told = asyncio.run(_run(app, manager, "first", "second", units=3))

    assert [b"second"] == manager.on("OUT")
    [moved] = manager.on("BOQ")
    assert moved.endswith(b"first")
    ends = [(event.settlement, type(event.outcome)) for event in told if isinstance(event, Settled)]
    assert [(Settlement.BACKOUT, Failed), (Settlement.COMMIT, Completed)] == ends[:1] + ends[-1:]


def test_a_put_in_a_cancel_scope_has_ended_when_the_scope_has_and_counts(backend: str) -> None:
    app, manager = App(), SlowQueueManager("open")
    came_back: list[bool] = []

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                group.start_soon(manager.give_up, scope.cancel)
                await ctx.put("SLOW", b"slow")
                came_back.append(True)

    told = anyio.run(lambda: _run(app, manager, "first", units=1), backend=backend)

    assert [True] == came_back
    assert [b"slow"] == manager.on("SLOW")
    assert [Settlement.COMMIT] == [event.settlement for event in told if isinstance(event, Settled)]


@pytest.mark.parametrize("verb", ["put", "commit"])
def test_a_put_that_asyncio_abandoned_is_not_committed_with_the_next_put_and_its_commit_is_in_doubt(verb: str) -> None:
    told = Told()
    app, manager = App(hooks=[told]), SlowQueueManager(verb)

    async def main() -> None:
        async with app.running(manager, listen=False):
            putting = asyncio.create_task(app.put("OUT", b"slow"))
            await manager.give_up(putting.cancel)
            with pytest.raises(asyncio.CancelledError):
                await putting
            await app.put("OUT", b"next")

    asyncio.run(main())

    if verb == "commit":  # nobody waits for the commit that was sent, so it can end after the application
        assert manager.is_committed.wait(WAIT_S)
    assert ([b"next"] if verb == "put" else [b"slow", b"next"]) == sorted(manager.on("OUT"), reverse=True)
    doubts = [event for event in told if isinstance(event, InDoubt)]
    assert (0 if verb == "put" else 1) == len(doubts)
    assert all(len(doubt.put_message_ids) == 1 for doubt in doubts)


class Dawdling:
    """Publish middleware that is slow for some messages."""

    def __init__(self) -> None:
        self.may_end = anyio.Event()

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        if message.body == b"ghost":
            await self.may_end.wait()
        return await call_next(message)


@pytest.mark.mq_backend("asyncio", "trio")
async def test_a_put_that_middleware_makes_after_its_delivery_is_refused(mq: QueueManagerKit) -> None:
    for queue in ("OUT", "IN"):
        mq.define(queue)
    middleware, refused = Dawdling(), list[BaseException]()
    app = App(middleware=[middleware])

    async def left_behind(put: Callable[..., Awaitable[Put]]) -> None:
        try:
            await put("OUT", b"ghost")
        except DeliveryOverError as error:
            refused.append(error)

    async with anyio.create_task_group() as group:

        @app.listener("IN")
        async def handle(body: bytes, ctx: Context) -> None:
            if body == b"first":
                group.start_soon(left_behind, ctx.put)
                await anyio.sleep(1)  # the put has begun
                return
            middleware.may_end.set()
            await anyio.sleep(1)

        async with mq.run(app):
            await mq.put("IN", b"first")
            await anyio.sleep(2)
            await mq.put("IN", b"second")
            await anyio.sleep(5)

    assert [] == mq.browse("OUT")
    assert 1 == len(refused)
