"""`call_handler` returns an outcome for everything that a handler does, except for a stop, and leaves its task as it was."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.poison.disposition import Completed, Failed, Outcome
from mqflow.runtime.listener import handler_call
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.handler_call import COMPLETED, call_handler, call_handler_in_middleware, call_handler_within
from mqflow.verbs import Got

pytestmark = pytest.mark.anyio


def own_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


@pytest.mark.parametrize("call", [call_handler, call_handler_in_middleware])
async def test_an_interrupt_by_a_person_is_raised(call: Callable[..., Awaitable[Outcome]]) -> None:
    async def interrupted(exception: BaseException) -> None:
        raise exception

    with pytest.raises(KeyboardInterrupt):
        await call(interrupted, KeyboardInterrupt(), ())
    with pytest.raises(BaseExceptionGroup):
        await call(interrupted, BaseExceptionGroup("both", [KeyboardInterrupt(), ValueError()]), ())


async def test_the_text_of_an_outcome_that_a_handler_returns_can_be_written_in_utf_8() -> None:
    async def fails(text: str) -> Outcome:
        return Failed("Down", text)

    assert Failed("Down", "caf\\udce9") == await call_handler(fails, "caf\udce9", ())


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("then", ["returns", "raises", "waits"])
async def test_no_cancellation_of_the_handler_reaches_the_next_wait_of_the_worker(then: str) -> None:
    async def handle(then: str) -> None:
        own_task().cancel()
        if then == "raises":
            raise ValueError("other")
        if then == "waits":
            await asyncio.sleep(60)

    outcome = await call_handler(handle, then, ())
    await asyncio.sleep(0)  # the settlement

    assert isinstance(outcome, Failed)
    assert ("ValueError" if then == "raises" else "asyncio.CancelledError") == outcome.error
    assert 0 == own_task().cancelling()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_reason_says_whether_the_handler_was_cancelled_or_something_under_it() -> None:
    async def cancelled(_: None) -> None:
        own_task().cancel("by hand")
        await asyncio.sleep(60)

    async def under(_: None) -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    own, other = await call_handler(cancelled, None, ()), await call_handler(under, None, ())

    assert own == Failed("asyncio.CancelledError", "the handler's own task was cancelled, and not by the listener. by hand")
    assert other == Failed(
        "asyncio.CancelledError", "something that the handler waited for was cancelled, and not the handler."
    )


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_is_final_if_the_listener_never_retries_it() -> None:
    async def cancelled(_: None) -> None:
        own_task().cancel()
        await asyncio.sleep(60)

    outcome = await call_handler(cancelled, None, (asyncio.CancelledError,))

    assert isinstance(outcome, Failed)
    assert outcome.final


async def test_a_handler_that_swallows_the_stop_keeps_its_outcome() -> None:
    async def stubborn(_: None) -> None:
        try:
            await anyio.sleep(3600)
        except anyio.get_cancelled_exc_class():
            return

    outcome: Outcome = Failed("nothing")
    with anyio.CancelScope() as scope:
        scope.cancel()
        outcome = await call_handler(stubborn, None, ())
        await anyio.lowlevel.checkpoint()

    assert COMPLETED == outcome
    assert scope.cancelled_caught  # the stop itself was not swallowed


async def test_the_stop_is_raised_and_is_not_an_outcome() -> None:
    async def handle(_: Sequence[Delivery]) -> None:
        await anyio.sleep(3600)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await call_handler_within(60, handle, (), ())
        pytest.fail("the call returned")

    assert scope.cancelled_caught


async def test_a_handler_that_ends_late_without_a_further_wait_has_its_own_outcome() -> None:
    async def handle(_: Sequence[Delivery]) -> None:
        return

    assert isinstance(await call_handler_within(0, handle, (), ()), Completed)


async def test_the_log_of_a_batch_that_outlasts_its_time_limit_names_its_first_message(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_call, "_LATE_S", -1.0)
    session: Any = None
    batch = [
        Delivery(
            Got(descriptor=MessageDescriptor(message_id=bytes([number]) * 24), body=b"", data_bytes=0),
            "IN",
            "listener",
            session,
        )
        for number in (1, 2, 3)
    ]

    async def handle(_: Sequence[Delivery]) -> Outcome | None:
        return None

    await call_handler_within(0.5, handle, batch, ())

    assert f"listener: the handler of message {'01' * 24} took" in caplog.text
