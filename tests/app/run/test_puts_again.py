"""A put outside of deliveries that loses its connection puts again on the next one, unless its commit was sent.

Source: docs/reconnection.md, "`App.put` and similar calls wait for the connection"; IBM q017800: a reconnection backs the unit
of work out. A message of a call that returned is there once; a commit without an answer is reported as in doubt.
"""

from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow import App, Context, MQIError, RateLimit, RequestTimeoutError
from mqflow.app.config.settings import ReconnectSettings, Settings
from mqflow.app.handlers.outgoing_message import Outgoing, Send
from mqflow.events import InDoubt, Reconnected
from mqflow.mqi.options import SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_time import Backend, run
from mqflow.verbs import Put
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

BACKENDS: Final[tuple[Backend, ...]] = ("asyncio", "trio")


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    define(mq)


def define(mq: QueueManagerKit) -> None:
    """Define OUT, and ASKED, whose messages are answered. OUT also has the publications on `orders/new`."""
    mq.define("OUT")
    mq.define("ASKED")
    connection = mq.queue_manager.connect()
    queue = connection.open("OUT", 8208)  # type: ignore[arg-type]  # MQOO_OUTPUT + MQOO_FAIL_IF_QUIESCING, as a number
    options = SubscribeOption.CREATE | SubscribeOption.DURABLE
    connection.subscribe(SubscriptionDescriptor(object_string="orders/new", name="S", options=options), queue)
    connection.disconnect()


async def put(app: App, body: str) -> None:
    await app.put("OUT", body)


async def put_later(app: App, body: str) -> None:
    await app.put("OUT", body, delay=1)


async def publish(app: App, body: str) -> None:
    await app.publish("orders/new", body)


async def request(app: App, body: str) -> None:
    assert body.upper() == await app.request("ASKED", body, reply=str, timeout_s=60)


CALLS: Final = (put, put_later, publish, request)
Doing = Callable[[App, str], Coroutine[Any, Any, None]]  # Any: the event loop decides


def answering() -> App:
    """Return an application that copies the messages of ASKED to OUT and answers them."""
    app = App()

    @app.listener("ASKED")
    async def answer(body: str, ctx: Context) -> str:
        await ctx.put("OUT", body)
        return body.upper()

    return app


class End(Enum):
    """How a call ended."""

    PUT = "put"
    NOT_PUT = "not put"
    IN_DOUBT = "in doubt"
    UNANSWERED = "the request expired, or its reply was lost"


COPIES: Final = {End.PUT: {1}, End.NOT_PUT: {0}, End.IN_DOUBT: {0, 1}, End.UNANSWERED: {0, 1}}
"""The accepted numbers of copies on OUT."""


async def end_of(call: Doing, app: App, body: str) -> End:
    try:
        await call(app, body)
    except RequestTimeoutError:
        return End.UNANSWERED
    except MQIError as error:
        return End.IN_DOUBT if "may be on" in str(error) else End.NOT_PUT
    return End.PUT


def check(mq: QueueManagerKit, ends: dict[str, End]) -> None:
    found = [message.text() for message in mq.browse("OUT")]
    for body, end in ends.items():
        assert found.count(body) in COPIES[end], (end, body, found)
    doubts = [event for event in mq.told(InDoubt) if event.listener == "put"]
    assert len(doubts) == list(ends.values()).count(End.IN_DOUBT)


@pytest.mark.parametrize("call", [put, put_later, publish])
async def test_the_first_put_after_an_idle_outage_is_put_once(mq: QueueManagerKit, call: Doing) -> None:
    async with mq.run(app := App()):
        await call(app, "1")
        with mq.faults.outage():
            await anyio.sleep(600)  # no listener notices that the connection is gone
        await call(app, "2")
        await anyio.sleep(5)

    assert ["1", "2"] == [message.text() for message in mq.browse("OUT")]
    assert 1 == len(mq.told(Reconnected))


@pytest.mark.parametrize("call", [put, put_later, publish])
async def test_a_put_during_an_outage_waits_for_its_end_and_is_put_once(mq: QueueManagerKit, call: Doing) -> None:
    async with mq.run(app := App()):
        await call(app, "1")
        async with anyio.create_task_group() as group:
            with mq.faults.outage():
                group.start_soon(call, app, "2")
                await anyio.sleep(600)
        await anyio.sleep(5)

    assert ["1", "2"] == [message.text() for message in mq.browse("OUT")]


async def test_a_put_that_has_lost_its_connection_waits_no_longer_than_the_limit(mq: QueueManagerKit) -> None:
    app, limit_s = App(settings=Settings(reconnect=ReconnectSettings(limit_s=30))), 30
    async with mq.run(app):
        await app.put("OUT", "1")
        with mq.faults.outage():
            began = mq.clock.monotonic()
            with pytest.raises(MQIError, match="2556"):
                await app.put("OUT", "2")
            took_s = mq.clock.monotonic() - began

    assert limit_s <= took_s < limit_s + 1
    assert ["1"] == [message.text() for message in mq.browse("OUT")]


@pytest.mark.parametrize("call", [put, publish, request])
@pytest.mark.mq_faults("every-call")
async def test_wherever_the_connection_breaks_a_put_is_there_once_unless_it_is_in_doubt(
    mq: QueueManagerKit, call: Doing
) -> None:
    if mq.queue_manager.administration.queue("OUT") is None:
        define(mq)
    app = answering()
    async with mq.run(app):
        end = await end_of(call, app, "one")
        await anyio.sleep(60)

    assert end is not End.NOT_PUT
    check(mq, {"one": end})


@st.composite
def breaks(draw: st.DrawFn) -> list[Fault]:
    """Draw faults: the number of the call, whether it takes effect, and how many connections in a row break there."""
    verbs = st.sampled_from(("", "MQPUT", "MQPUT1", "MQCMIT", "MQOPEN", "MQINQ", "MQGET"))
    return [
        Fault(
            verb=draw(verbs), nth=draw(st.integers(1, 12)), times=draw(st.integers(1, 3)), moment=draw(st.sampled_from(Moment))
        )
        for _ in range(draw(st.integers(0, 2)))
    ]


@given(backend=st.sampled_from(BACKENDS), calls=st.lists(st.sampled_from(CALLS), min_size=1, max_size=4), faults=breaks())
def test_each_put_is_on_the_queue_once_unless_it_is_in_doubt(backend: Backend, calls: list[Doing], faults: list[Fault]) -> None:
    mq = QueueManagerKit()
    define(mq)
    app, ends = answering(), dict[str, End]()

    async def main() -> None:
        async with mq.run(app):
            mq.faults.add(*faults)
            for number, call in enumerate(calls):
                ends[f"m{number}"] = await end_of(call, app, f"m{number}")
            mq.faults.clear()
            await anyio.sleep(120)

    run(main, backend=backend, clock=mq.clock)
    check(mq, ends)
    mq.close()


# -- what is not repeated


async def test_a_commit_without_an_answer_is_not_repeated_and_its_error_names_the_message(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        mq.faults.add(Fault(verb="MQCMIT", moment=Moment.AFTER))
        with pytest.raises(MQIError, match=r"MQCMIT .* may be on OUT") as caught:
            await app.put("OUT", "1")

    [found] = mq.browse("OUT")
    [doubt] = mq.told(InDoubt)
    assert (found.message_id,) == doubt.put_message_ids
    assert found.message_id.hex() in str(caught.value)


async def test_a_commit_that_a_full_disk_refused_is_not_repeated(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.BACKED_OUT))
        with pytest.raises(MQIError, match="2003"):
            await app.put("OUT", "1")
        await app.put("OUT", "2")

    assert ["2"] == [message.text() for message in mq.browse("OUT")]
    assert [] == mq.told(InDoubt)


class EndsConnections:
    """Publish middleware: the queue manager ends all connections between the first put and its commit."""

    def __init__(self, mq: QueueManagerKit) -> None:
        self._mq = mq
        self.puts = 0

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        put = await call_next(message)
        self.puts += 1
        if self.puts == 1:
            for connection in tuple(self._mq.queue_manager._state.connections):
                connection.end(Reason.CONNECTION_BROKEN)
        return put


async def test_a_connection_that_the_queue_manager_ended_before_the_commit_is_replaced(mq: QueueManagerKit) -> None:
    middleware = EndsConnections(mq)
    async with mq.run(app := App(middleware=[middleware])):
        await app.put("OUT", "1")  # the embedded queue manager says 2003: it certainly backed the put out

    assert (1, ["1"]) == (middleware.puts, [message.text() for message in mq.browse("OUT")])
    assert [] == mq.told(InDoubt)


async def test_a_message_that_breaks_every_connection_is_given_up_after_four_and_is_nowhere(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        mq.faults.add(Fault(verb="MQPUT", object_name="OUT", times=100))
        with pytest.raises(MQIError, match=r"MQPUT on OUT .*2009"):
            await app.put("OUT", "1")
        mq.faults.clear()
        await app.put("OUT", "2")

    assert 5 == sum(call.verb == "MQPUT" for call in mq.faults.calls)
    assert ["2"] == [message.text() for message in mq.browse("OUT")]


@pytest.mark.parametrize("limit", [None, RateLimit(10)], ids=["", "behind a gate"])
@pytest.mark.parametrize("call", [put, publish, request])
async def test_within_a_handler_a_put_that_loses_its_connection_is_not_repeated(
    mq: QueueManagerKit, call: Doing, limit: RateLimit | None
) -> None:
    mq.define("IN")
    app, refused = answering(), list[int]()
    mq.faults.add(Fault(verb="MQPUT"))

    @app.listener("IN", rate_limit=limit)
    async def handle(body: str) -> None:
        try:
            await call(app, body)
        except MQIError as error:
            refused.append(error.reason)
            raise

    await run_for(mq, 60, app, "order")

    assert [Reason.CONNECTION_BROKEN] == refused
    assert ["order"] == [message.text() for message in mq.browse("OUT")]
