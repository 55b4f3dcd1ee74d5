"""Listeners on a part of a queue: `@app.listener(queue, selector=...)`."""

import anyio
import pytest

from mqflow import App, Backout, Message
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")
queues = defining("BOQ", bothresh=1, boqname="BOQ")


async def test_each_listener_gets_the_messages_of_its_selector_and_the_rest_stays(mq: QueueManagerKit) -> None:
    app = App()
    seen: list[tuple[str, bytes]] = []

    @app.listener("IN", selector="colour = 'red'")
    async def red(message: Message) -> None:
        seen.append(("red", message.body))

    @app.listener("IN", selector="JMSPriority = 9")
    async def important(message: Message) -> None:
        seen.append(("important", message.body))

    async with mq.run(app):
        await app.put("IN", b"1", properties={"colour": "blue"}, priority=1)
        await app.put("IN", b"2", properties={"colour": "red"}, priority=1)
        await app.put("IN", b"3", priority=9)
        await anyio.sleep(5)

    assert [("important", b"3"), ("red", b"2")] == sorted(seen)
    assert [b"1"] == [message.body for message in await mq.drain("IN")]


async def test_a_poison_message_of_a_selector_is_moved(mq: QueueManagerKit) -> None:
    app = App()

    @app.listener("IN", selector="colour = 'red'", backout=Backout())
    async def red(message: Message) -> None:
        raise ValueError("bad data")

    async with mq.run(app):
        await app.put("IN", b"1", properties={"colour": "blue"})
        await app.put("IN", b"2", properties={"colour": "red"})
        [poison] = await mq.drain("BOQ")

    assert b"2" == poison.body
    assert [b"1"] == [message.body for message in await mq.drain("IN")]


async def test_after_an_outage_the_selector_still_holds(mq: QueueManagerKit) -> None:
    app = App()
    seen: list[bytes] = []

    @app.listener("IN", selector="colour = 'red'")
    async def red(message: Message) -> None:
        seen.append(message.body)

    async with mq.run(app):
        await app.put("IN", b"1", properties={"colour": "red"})
        await anyio.sleep(5)
        with mq.faults.outage():
            await anyio.sleep(60)
        await anyio.sleep(60)
        await app.put("IN", b"2", properties={"colour": "blue"})
        await app.put("IN", b"3", properties={"colour": "red"})
        await anyio.sleep(5)

    assert [b"1", b"3"] == seen
