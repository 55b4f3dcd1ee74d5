"""The public types in the code of users. Type checkers read this file; nothing runs it."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Annotated, Any, assert_type

import msgspec

from mqflow import (
    App,
    Backout,
    Batch,
    Behaviour,
    CircuitBreaker,
    Codec,
    Completed,
    Consumer,
    Context,
    Depends,
    Event,
    Failed,
    Firing,
    Header,
    Incoming,
    Listener,
    Message,
    MessageDescriptor,
    MQIError,
    Outcome,
    Outgoing,
    Pace,
    Property,
    Publisher,
    RateLimit,
    Reason,
    Reject,
    Retry,
    Router,
    Settings,
    open_queue_manager,
)
from mqflow.app.handlers.dead_letter_declaration import DeadLetterRules
from mqflow.app.handlers.middleware import Call
from mqflow.app.handlers.outgoing_message import Send
from mqflow.app.run.running_application import RunningApplication
from mqflow.policy.dead_letters.actions import DeadLetter
from mqflow.policy.dead_letters.rules import Action
from mqflow.verbs import Put


class Order(msgspec.Struct):
    number: int


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    assert_type(app.name, str)
    yield


class Everything:
    async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
        outcome = await call_next(delivery)
        if isinstance(outcome, Failed):
            assert_type(outcome.retry_after_s, float | None)
        return Completed()

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        return await call_next(message)


def hook(event: Event) -> None:
    print(event)  # noqa: T201 - a hook of a user can print


app = App("embedded:./data?qmgr=QM1", name="orders", middleware=[Everything()], hooks=[hook], lifespan=lifespan)


async def database() -> str:
    return ""


@app.listener(
    "ORDERS.IN",
    concurrency=4,
    time_limit_s=30,
    backout=Backout(
        threshold=3,
        queue="ORDERS.BOQ",
        pace=Pace(first_s=0.1),
        never_retry=(PermissionError,),
        undecodable="redeliver",
        behaviour=Behaviour.JMS_LISTENER,
    ),
)
async def book(order: Order, message: Message, ctx: Context, db: Annotated[str, Depends(database)]) -> Order:
    assert_type(message.descriptor, MessageDescriptor)
    assert_type(message.backout_count, int)
    put = await ctx.put("ORDERS.BOOKED", order, expiry=timedelta(hours=1), priority=4, properties={"tenant": db})
    assert_type(put.descriptor.message_id, bytes)
    if order.number < 0:
        raise Reject("negative")
    if order.number == 0:
        raise Retry("not yet", after=timedelta(seconds=5))
    return order


assert_type(book.__name__, str)


@app.listener("EVENTS.IN", batch=Batch(max=100, wait_ms=50), where=lambda message: message.delivery_count == 1)
def load(orders: list[Order], messages: list[Message]) -> None:
    assert_type(len(orders), int)
    assert_type(len(messages), int)


@app.listener(topic="Prices/#", durable="desk", selector="cents > 10")
async def price(body: bytes, message: Message) -> None:
    assert_type(message.topic, str)


assert_type(app.publisher("ORDERS.LATER", delay=timedelta(minutes=5)), Publisher)
assert_type(app.listeners, tuple[Listener, ...])
app.delay_processor(concurrency=2, own_authority=True)

dead_letters = app.dead_letter_handler("rules.tbl", queue="DEAD.LETTERS", reload=True)
assert_type(dead_letters, DeadLetterRules)


@dead_letters.rule(Action.RETRY, attempts=5)
def is_paid(letter: DeadLetter) -> bool:
    assert_type(letter.header.destination_queue, str)
    return b"paid" in letter.data


router = Router("EU.", middleware=[Everything()], codec="copybook", concurrency=2)


@router.listener("ORDERS.IN", rate_limit=RateLimit(10, per_s=60, burst=2), breaker=CircuitBreaker(failures=5, open_s=1))
@router.publisher("ORDERS.BOOKED")
async def route(tenant: Annotated[str, Property()], sender: Annotated[str, Header("PutApplName")]) -> Order:
    return Order(len(tenant + sender))


sent: Callable[[str, str], Coroutine[Any, Any, Order]] = route
router.include_router(Router(), prefix="INNER.")
app.include_router(router, prefix="ALL.", middleware=["tenant"], time_limit_s=3)


app.schedule("0 6 * * *", "ORDERS.IN", name="daily", timezone="Europe/Berlin", payload=Order(1), priority=4)
app.schedule(timedelta(minutes=5), "ORDERS.TICK")


@app.listener("ORDERS.TICK")
async def tick(firing: Firing) -> None:
    assert_type(firing.due, datetime)


async def use() -> None:
    async with app.running(listen=False) as running:
        assert_type(running, RunningApplication)
        assert_type(running.ready, bool)
        await app.put("ORDERS.IN", Order(1), delay=timedelta(hours=1))
        assert_type(await app.put_many("ORDERS.IN", [Order(1), Order(2)], priority=4), list[Put])
        assert_type(await app.publisher("ORDERS.IN").put(Order(1)), Put)
        assert_type(await app.publisher("ORDERS.IN").put_many([Order(1)]), list[Put])
        assert_type(await app.publish("Prices/Oil", {"cents": 70}, retain=True), Put)
        await app.unsubscribe("desk")
        await app.put("ORDERS.IN", Order(1), persistent=True)
        reply = await app.request("RATES.REQ", {"currency": "EUR"}, reply=Order, timeout_s=3)
        assert_type(reply, Order)
        async with app.consumer("ORDERS.IN") as consumer:
            assert_type(consumer, Consumer)
            assert_type(await consumer.receive(), Message)
            assert_type(await consumer.receive(wait_ms=1000), Message | None)
            assert_type(await consumer.receive(Order), Order)
            assert_type(await consumer.receive(Order, wait_ms=1000), Order | None)
            assert_type(await consumer.receive_no_wait(), Message | None)
            assert_type(await consumer.receive_no_wait(Order), Order | None)
            assert_type(consumer.message, Message | None)
            await consumer.commit()
        async with app.consumer(topic="Prices/#", durable="desk", selector="cents > 10") as consumer:
            assert_type(consumer, Consumer)


def code() -> int:
    try:
        return app.run()
    except MQIError as error:
        return int(error.reason is not Reason.Q_MGR_NOT_AVAILABLE)


queue_manager = open_queue_manager("embedded::memory:")
assert_type(queue_manager.name, str)


class Upper:
    """A codec that decodes and encodes."""

    def decode(self, message: Message, payload_type: object) -> str:  # noqa: ARG002 - the signature of the interface
        return message.text().upper()

    def encode(self, payload: object) -> tuple[bytes, str, int]:
        return str(payload).upper().encode(), "MQSTR", 1208


codec: Codec = Upper()
assert_type(Settings().reconnect.limit_s, float | None)
