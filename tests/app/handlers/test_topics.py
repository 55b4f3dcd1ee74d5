"""Listeners on topics: one subscription for all workers, durable or not, during outages, with poison messages; publications."""

from typing import Any

import anyio
import msgspec
import pytest

from mqflow import App, Context, Message, MQIError
from mqflow.app.errors import ConfigurationError
from mqflow.events import Disposed, ListenerPaused, Reconnected, Warned
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.kit import QueueManagerKit
from tests.conformance.under_test import refused

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


class Price(msgspec.Struct):
    cents: int


@pytest.fixture(autouse=True)
def models(mq: QueueManagerKit) -> None:
    mq.mqsc(
        "ALTER QMODEL(SYSTEM.DURABLE.MODEL.QUEUE) BOTHRESH(2) BOQNAME(PRICES.BOQ)",
        "ALTER QMODEL(SYSTEM.NDURABLE.MODEL.QUEUE) BOTHRESH(2) BOQNAME(PRICES.BOQ)",
    )
    mq.define("PRICES.BOQ")
    mq.define("OUT")


def desk(durable: str = "", concurrency: int = 1, topic: str = "Prices/#") -> App:
    app = App()

    @app.listener(topic=topic, durable=durable, concurrency=concurrency)
    async def book(price: Price, ctx: Context) -> None:
        if price.cents < 0:
            raise ValueError("negative")
        await ctx.put("OUT", price)

    return app


async def cents(mq: QueueManagerKit, at_least: int = 1) -> list[int]:
    return [message.json()["cents"] for message in await mq.drain("OUT", at_least=at_least)]


async def test_a_publication_is_handled_once_at_any_concurrency(mq: QueueManagerKit) -> None:
    app = desk(concurrency=4)
    async with mq.run(app):
        for number in range(8):
            await app.publish("Prices/Oil", Price(number))
        await app.publish("News", Price(99))
        booked = await cents(mq, at_least=8)

    assert list(range(8)) == sorted(booked)


@pytest.mark.parametrize("delay", [0, 5])
@pytest.mark.parametrize("durable", ["", "desk-1"])
async def test_a_handler_behind_wildcards_sees_the_topic(mq: QueueManagerKit, durable: str, delay: float) -> None:
    app = App()
    seen: list[tuple[str, bytes, object]] = []

    @app.listener(topic="Prices/#", durable=durable)
    async def book(message: Message) -> None:
        seen.append((message.topic, message.body, message.properties))

    mq.mqsc("DEFINE TOPIC(PRICES) TOPICSTR('Prices') PMSGDLV(ALLAVAIL) NPMSGDLV(ALLAVAIL)")  # otherwise a delay is refused
    async with mq.run(app):
        await app.publish("Prices/Oil/London", b"1", properties={"colour": "red"}, delay=delay)
        await app.publish("Prices", b"2", delay=delay)
        await anyio.sleep(20)

    assert [("Prices/Oil/London", b"1", {"colour": "red"}), ("Prices", b"2", {})] == seen


async def test_a_message_put_to_a_queue_has_no_topic(mq: QueueManagerKit) -> None:
    await mq.put("OUT", b"x")
    [message] = await mq.drain("OUT")

    assert "" == message.topic


async def test_a_durable_subscription_keeps_publications_while_the_application_is_away(mq: QueueManagerKit) -> None:
    app = desk(durable="desk-1")
    async with mq.run(app):
        await app.publish("Prices/Oil", Price(1))
        assert [1] == await cents(mq)
    other = App()
    async with mq.run(other):
        await other.publish("Prices/Oil", Price(2))
    async with mq.run(desk(durable="desk-1")):
        assert [2] == await cents(mq)


async def test_a_listener_without_a_durable_subscription_starts_with_retained_publications(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        await app.publish("Prices/Oil", Price(1), retain=True)
        await app.publish("Prices/Gas", Price(2))
    async with mq.run(desk()):
        assert [1] == await cents(mq)


async def test_a_poison_publication_goes_where_the_model_queue_says(mq: QueueManagerKit) -> None:
    app = desk()
    async with mq.run(app):
        await app.publish("Prices/Oil", Price(-1))
        [poison] = await mq.drain("PRICES.BOQ", within_s=60)

    assert {"cents": -1} == poison.json()
    [disposed] = mq.told(Disposed)
    assert "PRICES.BOQ" in str(disposed)


@pytest.mark.parametrize(("durable", "model"), [("", "SYSTEM.NDURABLE"), ("desk-1", "SYSTEM.DURABLE")])
async def test_a_model_without_a_threshold_is_warned_of_by_name(mq: QueueManagerKit, durable: str, model: str) -> None:
    mq.mqsc(f"ALTER QMODEL({model}.MODEL.QUEUE) BOTHRESH(0)")
    async with mq.run(desk(durable)):
        pass

    [warned] = mq.told(Warned)
    assert f"ALTER QMODEL('{model}.MODEL.QUEUE') BOTHRESH" in warned.text


@pytest.mark.parametrize("durable", ["", "desk-1"])
async def test_after_an_outage_the_subscription_is_there_again(mq: QueueManagerKit, durable: str) -> None:
    app = desk(durable, concurrency=2)
    async with mq.run(app):
        await app.publish("Prices/Oil", Price(1))
        first = await cents(mq)
        with mq.faults.outage():
            await anyio.sleep(60)
        await anyio.sleep(60)
        publisher = App()  # this also breaks the session of the first worker
        async with mq.run(publisher):
            await publisher.publish("Prices/Oil", Price(2))
        second = await cents(mq)

    assert ([1], [2]) == (first, second)
    assert mq.told(Reconnected)


async def test_a_second_process_waits_for_a_durable_subscription_and_takes_it_over(mq: QueueManagerKit) -> None:
    first, second = desk("desk-1"), desk("desk-1")
    booked: list[int] = []
    paused: list[ListenerPaused] = []
    async with mq.run(first), anyio.create_task_group() as group:
        stop = anyio.Event()

        async def stand_by() -> None:
            async with mq.run(second):
                await stop.wait()

        group.start_soon(stand_by)
        await anyio.sleep(30)
        await first.publish("Prices/Oil", Price(1))
        booked = await cents(mq)
        paused = mq.told(ListenerPaused)
        stop.set()

    assert [1] == booked
    assert Reason.SUBSCRIPTION_IN_USE in {event.reason for event in paused}


async def test_a_publication_of_a_handler_is_part_of_its_unit_of_work(mq: QueueManagerKit) -> None:
    app = desk(topic="Converted")
    attempts: list[int] = []

    @app.listener(topic="Raw", selector="JMSPriority >= 0")
    async def convert(price: Price, ctx: Context) -> None:
        attempts.append(price.cents)
        await ctx.publish("Converted", Price(price.cents * 100))
        if len(attempts) == 1:
            raise ValueError("only the first time")

    async with mq.run(app):
        await app.publish("Raw", Price(3))
        booked = await cents(mq)

    assert ([3, 3], [300]) == (attempts, booked)


async def test_a_durable_subscription_is_ended_when_asked_for(mq: QueueManagerKit) -> None:
    async with mq.run(desk("desk-1")):
        pass
    async with mq.run(app := App()):
        await app.unsubscribe("desk-1")
        with pytest.raises(MQIError) as told:
            await app.unsubscribe("desk-1")

    assert Reason.NO_SUBSCRIPTION == told.value.reason


async def test_a_topic_takes_delayed_publications_only_where_it_is_defined_to(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        with pytest.raises(MQIError) as told:
            await app.publish("Prices", Price(1), delay=5)

    assert Reason.PUBLICATION_FAILURE == told.value.reason


@pytest.mark.parametrize("source", [{"topic": "Prices"}, {"queue": "OUT"}], ids=str)
async def test_a_selector_that_makes_no_sense_ends_the_start(mq: QueueManagerKit, source: dict[str, Any]) -> None:
    app = App()

    @app.listener(**source, selector="price >")
    async def book(price: Price) -> None:
        """Do nothing; the handler is never called."""

    with refused(Reason.SELECTOR_SYNTAX_ERROR):
        async with mq.run(app):
            pass


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ({}, "has neither a queue nor a topic"),
        ({"queue": "Q", "topic": "Prices"}, "has a queue and a topic"),
        ({"queue": "Q", "durable": "desk-1"}, "durable belongs to a topic"),
    ],
)
async def test_a_listener_has_a_queue_or_a_topic(given: dict[str, str], printed: str) -> None:
    with pytest.raises(ConfigurationError, match=printed):
        App().listener(given.get("queue", ""), **{key: value for key, value in given.items() if key != "queue"})  # type: ignore[arg-type]  # a row of the table
