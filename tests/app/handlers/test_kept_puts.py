"""The puts of a handler are kept back until the handler returns: a failed handler has put nothing, and one trip carries all.

Each test runs on asyncio and trio, with a session that calls the queue manager directly and with a session on a thread.
"""

from typing import Any

import anyio
import pytest

from mqflow import App, Context, Outgoing
from mqflow.app.errors import DeliveryOverError
from mqflow.app.handlers.middleware import Call, Incoming
from mqflow.app.handlers.outgoing_message import Send
from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Completed, Failed, Outcome
from mqflow.runtime.listener.delivery import Delivery
from mqflow.verbs import InlineQueueManager, Put
from mqflow.world import THREADS, Mailbox
from tests.app.handlers.session_forms import WAIT_S, Manager, failure


@pytest.fixture(params=["inline", "thread"])
def manager(request: pytest.FixtureRequest) -> Manager:
    return Manager(request.param)


def test_both_forms_of_a_session_are_tried() -> None:
    assert isinstance(Manager("inline").queue_manager, InlineQueueManager)
    assert not isinstance(Manager("thread").queue_manager, InlineQueueManager)


def test_a_handler_that_fails_has_put_nothing(manager: Manager, backend: str) -> None:
    app = App()

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        await ctx.put("OUT", "first")
        await ctx.publish("a/b", "second")
        raise ValueError(body)

    anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert [b"x"] == manager.bodies("BOQ")
    assert [] == [body for body in manager.made if body in {b"first", b"second"}]


def test_the_puts_of_a_handler_are_made_in_order_after_its_return(manager: Manager, backend: str) -> None:
    app = App()
    made_before_the_return: list[list[bytes]] = []

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        for number in range(3):
            await ctx.put("OUT", f"{body}{number}")
        made_before_the_return.append(list(manager.made))

    anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert [[]] == made_before_the_return
    assert [b"x0", b"x1", b"x2"] == manager.bodies("OUT")


def test_a_put_returns_the_identifier_that_the_message_has_on_its_queue(manager: Manager, backend: str) -> None:
    app, own = App(), b"an identifier of my own".ljust(24)
    puts: list[Put] = []

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        puts.append(await ctx.put("OUT", body))
        puts.append(await ctx.put("OUT", body))
        puts.append(await ctx.put("OUT", body, message_id=own))

    anyio.run(lambda: manager.run(app, "x"), backend=backend)

    got = [each.descriptor.message_id for each in manager.take("OUT")]
    assert [put.descriptor.message_id for put in puts] == got
    assert own == got[2]
    assert 3 == len({*got, NO_ID}) - 1
    assert {("OUT", len(NO_ID))} == {(put.resolved_queue, len(put.descriptor.message_id)) for put in puts}


def test_a_queue_that_cannot_be_opened_is_refused_at_the_call(manager: Manager, backend: str) -> None:
    app, refused = App(), list[Reason]()

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        for delay in (None, 5):
            try:
                await ctx.put("NONE", body, delay=delay)
            except MQIError as error:
                refused.append(Reason(error.reason))
        await ctx.put("OUT", body)

    anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert [Reason.UNKNOWN_OBJECT_NAME] * 2 == refused
    assert [b"x"] == manager.bodies("OUT")


def test_a_put_whose_middleware_raises_afterwards_is_not_made(manager: Manager, backend: str) -> None:
    class Refuses:
        async def publish(self, message: Outgoing, call_next: Send) -> Put:
            put = await call_next(message)
            if message.body == b"refused":
                raise LookupError(message.queue)
            return put

    app = App(middleware=[Refuses()])

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        await ctx.put("OUT", "before")
        with pytest.raises(LookupError):
            await ctx.put("OUT", "refused")
        await ctx.put("OUT", body)

    anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert [b"before", b"x"] == manager.bodies("OUT")


def test_a_put_that_is_refused_fails_the_delivery_after_its_handler_returned_and_none_of_its_puts_stays(
    manager: Manager, backend: str
) -> None:
    app, returned = App(), list[str]()
    ids: list[list[bytes]] = []

    class Notes:
        async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
            outcome = await call_next(delivery)
            each: Delivery = delivery.deliveries[0]
            ids.append(each.put_message_ids)
            return outcome

    app.middleware.append(Notes())
    manager.mqsc("DEFINE QLOCAL(FULL) MAXDEPTH(1)")

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        first = await ctx.put("OUT", "before")
        for _ in range(2):
            await ctx.put("FULL", body)
        await ctx.put("OUT", "after")
        returned.append(first.descriptor.message_id.hex())

    told = anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert 1 == len(returned)
    assert "MQRC_Q_FULL (2053)" in failure(told).text
    assert ([], [], [b"x"]) == (manager.bodies("OUT"), manager.bodies("FULL"), manager.bodies("BOQ"))
    [made] = ids
    assert returned == [identifier.hex() for identifier in made[:1]]
    assert 2 == len(made)


def test_a_put_is_made_once_if_middleware_calls_the_handler_again(manager: Manager, backend: str) -> None:
    class TriesTwice:
        async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
            outcome = await call_next(delivery)
            return outcome if isinstance(outcome, Completed) else await call_next(delivery)

    app, calls = App(middleware=[TriesTwice()]), list[str]()

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        calls.append(body)
        await ctx.put("OUT", body)
        if len(calls) == 1:
            raise ConnectionError("the database restarts")

    anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert ["x", "x"] == calls
    assert [b"x"] == manager.bodies("OUT")


def test_nothing_is_put_if_middleware_fails_the_delivery_after_its_handler(manager: Manager, backend: str) -> None:
    class Fails:
        async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
            await call_next(delivery)
            return Failed("Veto", "not today")

    app = App(middleware=[Fails()])

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> str:
        await ctx.put("OUT", body)
        return "reply"

    told = anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert "not today" == failure(told).text
    assert [] == [body for body in manager.made if body == b"x"]


def test_publishers_and_plain_functions_keep_their_puts_back_too(manager: Manager, backend: str) -> None:
    app = App()
    made_before_the_return: list[list[bytes]] = []

    @app.listener("IN")
    @app.publisher("OUT")
    def handle(body: str, ctx: Context) -> str:
        ctx.put_blocking("OUT", "put")
        made_before_the_return.append(list(manager.made))
        return body

    anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert [[]] == made_before_the_return
    assert [b"put", b"x"] == manager.bodies("OUT")


def test_a_put_of_an_earlier_message_of_the_unit_is_refused_after_its_handler_returned(manager: Manager, backend: str) -> None:
    app, refused = App(), list[DeliveryOverError]()
    kept: list[Context] = []

    @app.listener("IN", unit_of_work=2)
    async def handle(body: str, ctx: Context) -> None:
        kept.append(ctx)
        if body == "second":
            with pytest.raises(DeliveryOverError) as error:
                await kept[0].put("OUT", "too late")
            refused.append(error.value)

    anyio.run(lambda: manager.run(app, "first", "second"), backend=backend)

    assert 1 == len(refused)
    assert [] == manager.bodies("OUT")


def test_nothing_is_put_for_a_handler_that_exceeds_its_time_limit(manager: Manager, backend: str) -> None:
    app = App()

    @app.listener("IN", time_limit_s=0.05)
    async def handle(body: str, ctx: Context) -> None:
        await ctx.put("OUT", body)
        await anyio.sleep(WAIT_S)

    told = anyio.run(lambda: manager.run(app, "x"), backend=backend)

    assert "TimeLimitExceeded" == failure(told).error
    assert [] == [body for body in manager.made if body == b"x"]


def test_a_full_queue_that_is_emptied_takes_the_message_at_its_redelivery(manager: Manager, backend: str) -> None:
    app, tries = App(), list[str]()
    manager.mqsc("ALTER QLOCAL(OUT) MAXDEPTH(0)", "ALTER QLOCAL(IN) BOTHRESH(5)")

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        tries.append(body)
        if len(tries) == 2:
            manager.mqsc("ALTER QLOCAL(OUT) MAXDEPTH(5)")
        await ctx.put("OUT", body)

    anyio.run(lambda: manager.run(app, "x", units=2, then=lambda: None), backend=backend)

    assert ["x", "x"] == tries
    assert [b"x"] == manager.bodies("OUT")


class CountedMailbox:
    """A mailbox that counts its items."""

    def __init__(self, behind: Mailbox[Any], counted: list[object]) -> None:
        self._behind = behind
        self._counted = counted

    def put(self, item: Any) -> None:
        self._counted.append(item)
        self._behind.put(item)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002 - as `Mailbox`
        return self._behind.get(block, timeout)

    def empty(self) -> bool:
        return self._behind.empty()

    def qsize(self) -> int:
        return self._behind.qsize()


class CountingRunner:
    """Starts threads, and counts the requests to them."""

    def __init__(self) -> None:
        self.requests: list[object] = []
        self.start, self.event, self.lock = THREADS.start, THREADS.event, THREADS.lock

    def mailbox(self) -> Mailbox[Any]:
        return CountedMailbox(THREADS.mailbox(), self.requests)


def test_one_request_to_the_thread_of_the_session_carries_all_puts_of_a_handler(backend: str) -> None:
    requests: list[int] = []
    for puts in (1, 20):
        manager, app, runner = Manager("thread"), App(), CountingRunner()

        @app.listener("IN")
        async def handle(body: str, ctx: Context, puts: int = puts) -> None:
            for _ in range(puts):
                await ctx.put("OUT", body)

        anyio.run(lambda: manager.run(app, "x", runner=runner), backend=backend)  # noqa: B023 - called at once
        requests.append(len(runner.requests))
        assert puts == len(manager.bodies("OUT"))

    assert requests[0] == requests[1]


def test_three_hundred_requesters_with_a_queue_each_use_up_no_handles(manager: Manager, backend: str) -> None:
    """The queue manager allows 256 handles for a connection (MAXHANDS)."""
    app, count = App(), 300
    manager.mqsc(*(f"DEFINE QLOCAL(R{number})" for number in range(count)))

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        await ctx.put(body, "an answer")

    anyio.run(lambda: manager.run(app, *(f"R{number}" for number in range(count)), units=count), backend=backend)

    assert [] == manager.bodies("BOQ")
    assert [[b"an answer"]] * 2 == [manager.bodies("R0"), manager.bodies(f"R{count - 1}")]
