"""A handler that is cancelled from within has failed, and its consumer lives. Only a stop of the listener interrupts it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest

from mqflow import App, Batch
from mqflow.events import Decided, ListenerStopped, Settled
from mqflow.policy.poison.disposition import Completed, Interrupted, Outcome, Settlement
from mqflow.testing.kit import Found, QueueManagerKit
from tests.running import defining, moved

Act = Callable[[], Awaitable[None]]

BOTH = pytest.mark.mq_backend("asyncio", "trio")
ASYNCIO = pytest.mark.mq_backend("asyncio")
queues = defining("BOQ", bothresh=2, boqname="BOQ")


class HandingOn:
    """A middleware that only calls the next middleware."""

    async def consume(self, delivery: Any, call_next: Any) -> Outcome:
        outcome: Outcome = await call_next(delivery)
        return outcome


def own_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def cancels_its_task() -> None:
    own_task().cancel("by hand")
    await asyncio.sleep(60)


async def cancels_its_task_three_times() -> None:
    for _ in range(3):
        own_task().cancel()
    await asyncio.sleep(60)


async def cancels_its_task_and_returns() -> None:
    own_task().cancel()


async def cancels_its_task_from_a_child() -> None:
    task = own_task()

    async def child() -> None:
        task.cancel()

    await asyncio.gather(child(), asyncio.sleep(60))


async def cancels_its_task_in_a_task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(60))
        own_task().cancel()
        await asyncio.sleep(60)


async def cancels_its_task_in_an_anyio_task_group() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 60)
        own_task().cancel()
        await anyio.sleep(60)


async def cancels_its_task_in_an_async_generator() -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            own_task().cancel()
            await asyncio.sleep(60)
            yield 2
        finally:
            await asyncio.sleep(0)

    async for _ in numbers():
        pass


async def has_a_librarys_timeout_that_forgets_to_uncancel() -> None:
    asyncio.get_running_loop().call_later(1, own_task().cancel)
    await asyncio.sleep(60)


async def raises_an_old_cancellation() -> None:
    raise asyncio.CancelledError("old")


async def dead_letter_of_bad_before_good(mq: QueueManagerKit, app: App) -> Found:
    """Put the message "bad", wait until it is on the backout queue, and put "good". The application is ready at the end."""
    async with mq.run(app) as running:
        await mq.put("IN", b"bad")
        [dead] = await mq.drain("BOQ")
        await mq.put("IN", b"good")
        await anyio.sleep(5)
        assert running.ready
    return dead


@ASYNCIO
@pytest.mark.parametrize("middleware", [[], [HandingOn()]], ids=["alone", "in middleware"])
@pytest.mark.parametrize("time_limit_s", [None, 3600], ids=["without a limit", "with a limit"])
@pytest.mark.parametrize(
    "act",
    [
        cancels_its_task,
        cancels_its_task_three_times,
        cancels_its_task_and_returns,
        cancels_its_task_from_a_child,
        cancels_its_task_in_a_task_group,
        cancels_its_task_in_an_anyio_task_group,
        cancels_its_task_in_an_async_generator,
        has_a_librarys_timeout_that_forgets_to_uncancel,
        raises_an_old_cancellation,
    ],
)
async def test_a_handler_whose_own_task_is_cancelled_has_failed(
    mq: QueueManagerKit, act: Act, time_limit_s: float | None, middleware: list[HandingOn]
) -> None:
    app, calls = App(middleware=middleware), list[bytes]()

    @app.listener("IN", time_limit_s=time_limit_s)
    async def handle(body: bytes) -> None:
        calls.append(body)
        if body == b"bad":
            await act()

    dead = await dead_letter_of_bad_before_good(mq, app)

    assert [b"bad", b"bad", b"good"] == calls
    assert "asyncio.CancelledError" == dead.why.error
    assert 1 == [event.outcome for event in mq.told(Settled)].count(Completed())


class Leaks:
    """Keeps the exception of a cancellation, and raises it later."""

    def __init__(self) -> None:
        self.kept: BaseException | None = None

    async def __call__(self) -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await anyio.sleep(1)
            except anyio.get_cancelled_exc_class() as error:
                self.kept = error
        assert self.kept is not None
        raise self.kept


async def raises_a_group_with_a_cancellation() -> None:
    leaks = Leaks()
    try:
        await leaks()
    except anyio.get_cancelled_exc_class() as error:
        raise BaseExceptionGroup("several", [error, ValueError("other")]) from None


async def leaves_the_process() -> None:
    raise SystemExit(3)


async def leaves_the_process_in_a_group() -> None:
    raise BaseExceptionGroup("several", [SystemExit(3), ValueError("other")])


@BOTH
@pytest.mark.parametrize("middleware", [[], [HandingOn()]], ids=["alone", "in middleware"])
@pytest.mark.parametrize(
    ("act", "error"),
    [
        (Leaks(), ".Cancelled"),
        (raises_a_group_with_a_cancellation, "BaseExceptionGroup"),
        (leaves_the_process, "SystemExit"),
        (leaves_the_process_in_a_group, "BaseExceptionGroup"),
    ],
)
async def test_an_exception_that_is_not_an_ordinary_one_fails_the_message_alone(
    mq: QueueManagerKit, act: Act, error: str, middleware: list[HandingOn]
) -> None:
    app, calls = App(middleware=middleware), list[bytes]()

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        calls.append(body)
        if body == b"bad":
            await act()

    dead = await dead_letter_of_bad_before_good(mq, app)

    assert [b"bad", b"bad", b"good"] == calls
    assert error in dead.why.error


@BOTH
@pytest.mark.parametrize("exception", [SystemExit(3), asyncio.CancelledError("in a thread"), StopIteration()], ids=repr)
async def test_a_plain_handler_that_raises_such_an_exception_in_its_thread_fails_its_message_alone(
    mq: QueueManagerKit, exception: BaseException
) -> None:
    app, calls = App(), list[bytes]()

    @app.listener("IN")
    def handle(body: bytes) -> None:
        calls.append(body)
        if body == b"bad":
            raise exception

    dead = await dead_letter_of_bad_before_good(mq, app)

    assert [b"bad", b"bad", b"good"] == calls
    assert dead.why.error


@ASYNCIO
async def test_a_batch_whose_task_is_cancelled_has_failed_as_a_whole(mq: QueueManagerKit) -> None:
    app, calls = App(), list[list[bytes]]()

    @app.listener("IN", batch=Batch(max=3, wait_ms=100))
    async def handle(bodies: list[bytes]) -> None:
        calls.append(bodies)
        if b"bad" in bodies:
            await cancels_its_task()

    for body in (b"one", b"bad", b"two"):
        await mq.put("IN", body)
    async with mq.run(app):
        [dead] = await mq.drain("BOQ")
        await anyio.sleep(60)

    assert b"bad" == dead.body
    assert "asyncio.CancelledError" == dead.why.error
    assert [b"one", b"two"] == sorted(body for bodies in calls if b"bad" not in bodies for body in bodies)


@ASYNCIO
async def test_a_timeout_around_a_handler_in_middleware_still_ends_as_a_timeout(mq: QueueManagerKit) -> None:
    class Timeout:
        async def consume(self, delivery: Any, call_next: Any) -> Outcome:
            async with asyncio.timeout(1):
                outcome: Outcome = await call_next(delivery)
                return outcome

    app = App(middleware=[Timeout()])

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        await asyncio.sleep(60)

    dead = await moved(mq, app, b"slow")

    assert "TimeoutError" == dead.why.error


@ASYNCIO
async def test_a_handler_that_catches_its_cancellation_has_completed(mq: QueueManagerKit) -> None:
    app, calls = App(), list[bytes]()

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        calls.append(body)
        with contextlib.suppress(asyncio.CancelledError):
            await cancels_its_task()

    async with mq.run(app):
        await mq.put("IN", b"one")
        await mq.put("IN", b"two")
        await anyio.sleep(5)

    assert [b"one", b"two"] == calls
    assert [Settlement.COMMIT] * 2 == [event.settlement for event in mq.told(Settled)]


@ASYNCIO
async def test_a_handler_that_cancels_its_task_and_then_takes_too_long_is_over_its_time_limit(mq: QueueManagerKit) -> None:
    app, calls = App(), list[bytes]()

    @app.listener("IN", time_limit_s=1)
    async def handle(body: bytes) -> None:
        calls.append(body)
        with contextlib.suppress(asyncio.CancelledError):
            await cancels_its_task()
        await asyncio.sleep(60 if body == b"bad" else 0)

    dead = await dead_letter_of_bad_before_good(mq, app)

    assert [b"bad", b"bad", b"good"] == calls
    assert "TimeLimitExceeded" == dead.why.error


@BOTH
async def test_a_stop_of_the_listener_interrupts_a_handler_that_was_cancelled_before(
    mq: QueueManagerKit, mq_backend: str
) -> None:
    app = App()

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        if mq_backend == "asyncio":
            with contextlib.suppress(asyncio.CancelledError):
                await cancels_its_task()
        await anyio.sleep(3600)

    await mq.put("IN", b"one")
    async with mq.run(app, drain_s=1):
        await anyio.sleep(5)

    [settled] = mq.told(Settled)
    assert isinstance(settled.outcome, Interrupted)
    assert [] == mq.told(Decided)
    assert 1 == len(mq.told(ListenerStopped))
    assert [1] == [each.descriptor.backout_count for each in mq.browse("IN")]


@BOTH
async def test_a_group_with_the_cancellation_of_a_stop_interrupts_the_handler(mq: QueueManagerKit) -> None:
    app = App()

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        try:
            await anyio.sleep(3600)
        except anyio.get_cancelled_exc_class() as error:
            raise BaseExceptionGroup("at the stop", [error, ValueError("while cleaning up")]) from None

    await mq.put("IN", b"one")
    async with mq.run(app, drain_s=1):
        await anyio.sleep(5)

    [settled] = mq.told(Settled)
    assert isinstance(settled.outcome, Interrupted)
    assert [] == mq.told(Decided)


@BOTH
@pytest.mark.parametrize("then", ["returns", "waits"])
async def test_a_handler_that_blocks_beyond_its_time_limit_is_named_with_the_outcome(
    mq: QueueManagerKit, then: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()

    @app.listener("IN", time_limit_s=2)
    async def handle(body: bytes) -> None:
        mq.clock.advance(5)  # a call that blocks the event loop
        if then == "waits":
            await anyio.sleep(1)

    async with mq.run(app):
        put = await mq.put("IN", b"one")
        await anyio.sleep(60)

    assert (1 if then == "returns" else 0) == [event.outcome for event in mq.told(Settled)].count(Completed())
    assert (0 if then == "returns" else 1) == len(mq.browse("BOQ"))
    named = f"handle: the handler of message {put.descriptor.message_id.hex()} took 5 s, and its time limit is 2 s."
    assert named in caplog.text
    assert f"Its outcome: {'Completed' if then == 'returns' else 'Failed'}. {__file__}:" in caplog.text


@BOTH
async def test_a_handler_that_ends_when_its_time_limit_cancels_it_is_not_named(
    mq: QueueManagerKit, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()

    @app.listener("IN", time_limit_s=2)
    async def handle(body: bytes) -> None:
        await anyio.sleep(60)

    dead = await moved(mq, app, b"one")

    assert "TimeLimitExceeded" == dead.why.error
    assert "its time limit is" not in caplog.text
