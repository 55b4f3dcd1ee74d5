"""mqflow refuses handlers, middleware and cancellations that otherwise commit a message without handling it."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest

from mqflow import App, Batch, ConfigurationError, Context, Message, Reject
from mqflow.app.errors import DeliveryOverError
from mqflow.events import Delivered, HookFailed, Settled, Warned
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Deliver, Failed, Settlement
from mqflow.testing.faults import Fault
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining, moved, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")
queues = defining("OUT", "BOQ", bothresh=2, boqname="BOQ")


def hiding(function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Decorate a function like a decorator that does not know async functions."""

    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Awaitable[None]:
        return function(*args, **kwargs)

    return around


class Handle:
    """A handler that is an object."""

    def __init__(self, seen: list[bytes]) -> None:
        self._seen = seen

    async def __call__(self, body: bytes) -> None:
        await anyio.sleep(1)
        self._seen.append(body)


async def noted(body: bytes, seen: list[bytes]) -> None:
    await anyio.sleep(1)
    seen.append(body)


@pytest.mark.parametrize("kind", ["hidden by a decorator", "an object", "a partial"])
async def test_a_handler_is_awaited_however_it_hides_that_it_is_async(mq: QueueManagerKit, kind: str) -> None:
    seen: list[bytes] = []

    async def handle(body: bytes) -> None:
        await noted(body, seen)

    handlers: dict[str, Callable[..., Awaitable[None]]] = {
        "hidden by a decorator": hiding(handle),
        "an object": Handle(seen),
        "a partial": functools.partial(noted, seen=seen),
    }
    app = App()
    app.listener("IN")(handlers[kind])

    await run_for(mq, 5, app, b"one")

    assert [b"one"] == seen
    assert [1] == [event.handled_s for event in mq.told(Settled)]


def plain_generator(body: bytes) -> Iterator[bytes]:
    yield body


async def async_generator(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def default(body: bytes = b"") -> None:
    """Take only a parameter with a default: such a parameter never gets a message."""


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (plain_generator, "plain_generator is a generator, so its body would never run"),
        (async_generator, "async_generator is a generator, so its body would never run"),
        (functools.partial(plain_generator), "plain_generator is a generator, so its body would never run"),
        (default, "parameter 'body' would keep its default, and no message would reach the handler"),
    ],
)
def test_a_function_that_would_ignore_its_messages_is_no_handler(handler: Callable[..., Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        App().listener("IN")(handler)

    assert said in str(refused.value)


@pytest.mark.parametrize("returned", [None, True])
async def test_middleware_that_returns_no_outcome_commits_nothing(mq: QueueManagerKit, returned: object) -> None:
    class Forgetful:
        async def consume(self, delivery: Any, call_next: Any) -> object:
            await call_next(delivery)
            return returned

    app = App(middleware=[Forgetful()])

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        raise ValueError("broken")

    dead = await moved(mq, app, b"one")

    assert "TypeError" == dead.why.error
    assert f"Forgetful) returned {returned}, which is not an outcome" in dead.why.text


async def test_an_outcome_that_a_handler_returns_is_its_outcome(mq: QueueManagerKit) -> None:
    app = App()

    @app.listener("IN")
    async def handle(body: bytes) -> Failed:
        return Failed("Mine", "no")

    dead = await moved(mq, app, b"one")

    assert ("Mine", "no") == (dead.why.error, dead.why.text)


class HandingOn:
    """A middleware that only calls the next middleware."""

    async def consume(self, delivery: Any, call_next: Any) -> Any:
        return await call_next(delivery)


@pytest.mark.mq_backend("asyncio")
@pytest.mark.parametrize("middleware", [[], [HandingOn()]], ids=["alone", "in middleware"])
async def test_a_task_that_was_cancelled_under_a_handler_does_not_end_its_worker(
    mq: QueueManagerKit, middleware: list[HandingOn]
) -> None:
    app, seen = App(middleware=middleware), []

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        if body == b"bad":
            task = asyncio.create_task(asyncio.sleep(60))
            asyncio.get_running_loop().call_later(1, task.cancel)
            await task
        seen.append(body)

    async with mq.run(app):
        await mq.put("IN", b"bad")
        await mq.put("IN", b"good")
        [dead] = await mq.drain("BOQ")
        await anyio.sleep(5)

    assert [b"good"] == seen
    assert (b"bad", "asyncio.CancelledError") == (dead.body, dead.why.error)


async def test_hooks_that_raise_touch_no_message_however_many_they_are(mq: QueueManagerKit) -> None:
    def broken(event: object) -> None:
        raise RuntimeError("hook")

    def broken_too(event: object) -> None:
        raise RuntimeError("hook")

    app, seen = App(hooks=[broken, broken_too]), []

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        seen.append(body)

    await run_for(mq, 5, app, b"one")

    assert [b"one"] == seen
    assert ["broken", "broken_too"] == sorted(event.hook.rpartition(".")[2] for event in mq.told(HookFailed))


async def test_a_handler_that_was_cut_off_puts_in_no_other_unit_of_work(mq: QueueManagerKit) -> None:
    app, contexts = App(), []
    refused: list[str] = []

    @app.listener("IN", time_limit_s=1)
    async def handle(body: bytes, ctx: Context) -> None:
        contexts.append(ctx)
        if body == b"first":
            await anyio.sleep(60)
        try:  # like a task or a thread of the first handler
            await contexts[0].put("OUT", b"ghost")
        except DeliveryOverError as error:
            refused.append(str(error))

    async with mq.run(app):
        await mq.put("IN", b"first")
        [dead] = await mq.drain("BOQ")
        await mq.put("IN", b"second")
        await anyio.sleep(5)

    assert [] == mq.browse("OUT")
    assert f"Nothing was put on OUT: the handling of message {dead.message_id.hex()} is over" in refused[0]
    assert Settlement.COMMIT is mq.told(Settled)[-1].settlement


@pytest.mark.parametrize("hook", [noted, Handle([])])
def test_an_async_hook_is_refused(hook: Any) -> None:
    with pytest.raises(ConfigurationError, match="mqflow calls a hook as a plain function, so async code never runs"):
        App(hooks=[hook])


def test_a_filter_that_would_always_say_yes_is_refused() -> None:
    async def where(message: Message) -> bool:
        return False

    with pytest.raises(ConfigurationError, match="`where` is async"):
        App().listener("IN", where=where)(noted)  # type: ignore[arg-type]  # the tested mistake


async def test_a_move_whose_handle_does_not_close_puts_one_copy(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QMGR DEADQ(OUT)")
    mq.faults.add(Fault(verb="MQCLOSE", object_name="BOQ", reason=Reason.OBJECT_DAMAGED))
    app = App()

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        raise Reject("no")

    await moved(mq, app, b"one")

    assert (0, 0) == (mq.depth("IN"), mq.depth("OUT"))


async def test_a_batch_that_waits_for_more_while_its_queue_is_inhibited_is_delivered(mq: QueueManagerKit) -> None:
    app, seen = App(), []

    @app.listener("IN", batch=Batch(max=10, wait_ms=5_000))
    async def handle(bodies: list[bytes]) -> None:
        seen.append(bodies)

    async with mq.run(app):
        await mq.put("IN", b"one")
        await anyio.sleep(1)
        mq.mqsc("ALTER QLOCAL(IN) GET(DISABLED)")
        await anyio.sleep(60)

    assert [[b"one"]] == seen
    assert [0] == [event.backout_count for event in mq.told(Delivered)]


def failing(*_: object) -> Any:
    raise LookupError("no such customer")


@pytest.mark.parametrize(
    ("decide", "said"),
    [
        (failing, "LookupError: no such customer"),
        (lambda *_: None, "it returned None"),
        (lambda *_: (), "it returned ()"),
        (lambda *_: [Deliver()], "it returned [Deliver("),
        (lambda *_: (Deliver(), "BOQ"), "it returned (Deliver("),
    ],
    ids=["raises", "returns nothing", "returns an empty plan", "returns a list", "returns a name"],
)
async def test_a_decision_that_fails_leaves_the_message_to_its_next_delivery(
    mq: QueueManagerKit, decide: Callable[..., Any], said: str
) -> None:
    app, seen = App(decide=decide), []

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        seen.append(body)
        if len(seen) <= 3:
            raise ValueError("not yet")

    await run_for(mq, 60, app, b"one")

    assert [b"one"] * 4 == seen
    assert (0, 0) == (mq.depth("IN"), mq.depth("BOQ"))
    assert said in mq.told(Warned)[0].text


@pytest.mark.parametrize(
    ("properties", "error", "said"),
    [
        ({"a b": 1}, "mqflow.mqi.errors.MQIError", "MQPUT on OUT failed: MQRC_RFH_STRING_ERROR (2335). Its properties do not"),
        ({"n": 2**70}, "mqflow.mqi.errors.MQIError", "MQRC_RFH_STRING_ERROR (2335)"),
        ({"x": [1]}, "TypeError", "Property 'x' of a message for OUT has the type list: it takes str, int"),
    ],
)
async def test_properties_that_cannot_be_sent_are_the_handlers_mistake_and_not_the_messages(
    mq: QueueManagerKit, properties: dict[str, Any], error: str, said: str
) -> None:
    app, seen = App(), []

    @app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        seen.append(body)
        await ctx.put("OUT", b"x", properties=properties)

    dead = await moved(mq, app, b"one")

    assert ("failed", error, 2) == (dead.why.outcome, dead.why.error, len(seen))
    assert said in dead.why.text
