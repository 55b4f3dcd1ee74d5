"""The public types, as users write them. Read by the type checkers, never run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated, assert_type

import msgspec

from mqflow import (
    App,
    Backout,
    Batch,
    Behaviour,
    Completed,
    Context,
    Depends,
    Event,
    Failed,
    Incoming,
    Message,
    MessageDescriptor,
    MQIError,
    Outcome,
    Outgoing,
    Pace,
    Reason,
    Reject,
    Retry,
    open_queue_manager,
)
from mqflow.app.middleware import Call
from mqflow.app.publishing import Send
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
    print(event)  # noqa: T201 - what a user's hook does


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


async def use() -> None:
    async with app.running(listen=False):
        await app.put("ORDERS.IN", Order(1), persistent=True)
        reply = await app.request("RATES.REQ", {"currency": "EUR"}, reply=Order, timeout_s=3)
        assert_type(reply, Order)
        async with app.consumer("ORDERS.IN") as consumer:
            received = await consumer.receive(wait_ms=1000)
            assert_type(received, Message | None)
            await consumer.commit()


def code() -> int:
    try:
        return app.run()
    except MQIError as error:
        return int(error.reason is not Reason.Q_MGR_NOT_AVAILABLE)


queue_manager = open_queue_manager("embedded::memory:")
assert_type(queue_manager.name, str)
