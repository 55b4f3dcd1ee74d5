"""A put outside of deliveries: the message is on the queue if the call returns, and is not if the call raises."""

from typing import Any

import pytest

from mqflow import App, Context, Message
from mqflow.app.handlers.outgoing_message import Outgoing, PutKeywords, Send
from mqflow.events import Settled
from mqflow.mqi.errors import MQIError
from mqflow.policy.poison.disposition import Failed
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Put
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


class RefusesAfterwards:
    """Middleware that raises after its put."""

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        put = await call_next(message)
        if message.body == b"bad":
            raise ValueError("not this one")
        return put


async def test_a_put_after_which_middleware_raised_is_not_committed_with_the_next_put(mq: QueueManagerKit) -> None:
    mq.define("OUT")

    async with mq.run(app := App(middleware=[RefusesAfterwards()])):
        with pytest.raises(ValueError, match="not this one"):
            await app.put("OUT", "bad")
        await app.put("OUT", "good")

        assert ["good"] == [message.text() for message in await mq.drain("OUT")]


class Forgets:
    """Middleware that returns nothing: with or without a put."""

    async def publish(self, message: Outgoing, call_next: Send) -> Any:
        if message.body == b"put":
            await call_next(message)


@pytest.mark.parametrize("body", ["put", "dropped"])
async def test_a_put_whose_middleware_returns_no_put_raises_and_puts_nothing(mq: QueueManagerKit, body: str) -> None:
    mq.define("OUT")
    mq.define("IN", bothresh=1, boqname="BOQ")
    mq.define("BOQ")
    app = App(middleware=[Forgets()])

    @app.listener("IN")
    async def handle(order: str, ctx: Context) -> None:
        await ctx.put("OUT", order)

    async with mq.run(app):
        with pytest.raises(TypeError, match=r"Middleware \(Forgets\) returned None for a message for OUT, which is no Put"):
            await app.put("OUT", body)
        await mq.put("IN", body)
        [failed] = await mq.drain("BOQ")

    assert "which is no Put" in failed.why.text
    assert 0 == mq.depth("OUT")


@pytest.mark.parametrize("delay", [None, 5], ids=["at once", "later"])
async def test_nothing_is_put_on_a_queue_that_a_model_makes_for_it(mq: QueueManagerKit, delay: float | None) -> None:
    """A dynamic queue is deleted with the handle of the session. The message would be lost, although the put succeeded."""

    async with mq.run(app := App()):
        for _ in range(2):
            with pytest.raises(MQIError, match=r"MQRC_Q_TYPE_ERROR \(2057\)"):
                await app.put("SYSTEM.DEFAULT.MODEL.QUEUE", "x", delay=delay)

    assert [] == [each.name for each in mq.queue_manager.administration.queues() if each.name.startswith("AMQ.")]


async def test_a_request_that_names_a_model_for_its_reply_is_not_answered_into_nothing(mq: QueueManagerKit) -> None:
    mq.define("IN", bothresh=1, boqname="BOQ")
    mq.define("BOQ")
    app = App()

    @app.listener("IN")
    async def answer(question: str) -> str:
        return question

    await run_for(mq, 5, app, "x", reply_to_queue="SYSTEM.DEFAULT.MODEL.QUEUE", message_type=1)

    [settled] = [event for event in mq.told(Settled) if event.outcome]
    assert isinstance(settled.outcome, Failed)
    assert "2057" in settled.outcome.text
    assert 1 == mq.depth("BOQ")


class Upper:
    def decode(self, message: Message, payload_type: type[str]) -> str:
        return payload_type(message.text())

    def encode(self, payload: str) -> tuple[bytes, str, int]:
        return payload.upper().encode(), "", 0


NONE: PutKeywords = {
    "codec": None, "correlation_id": None, "delay": None, "descriptor": None, "expiry": None, "message_id": None,
    "priority": None, "properties": None, "reply_to": None,
}  # fmt: skip


async def test_none_is_the_same_as_a_missing_argument_of_a_put(mq: QueueManagerKit) -> None:
    mq.define("OUT")
    app = App(codec=Upper())
    publisher = app.publisher("OUT", priority=7)

    async with mq.run(app):
        await app.put("OUT", "text")
        await app.put("OUT", "text", **NONE)
        await publisher.put("text", **NONE)
        await publisher.put_many(["text"], **NONE)

    assert [(b"TEXT", 7)] * 2 + [(b"TEXT", 0)] * 2 == [(each.body, each.descriptor.priority) for each in mq.browse("OUT")]


@pytest.mark.parametrize("payloads", ["abc", b"abc", {"number": 1}])
async def test_one_payload_is_not_taken_for_many(mq: QueueManagerKit, payloads: Any) -> None:
    mq.define("OUT")

    async with mq.run(app := App()):
        with pytest.raises(TypeError, match=r"it takes a list of payloads\. One payload is put with `put`"):
            await app.put_many("OUT", payloads)

    assert 0 == mq.depth("OUT")


@pytest.mark.parametrize("descriptor", [5, {}])
async def test_a_descriptor_of_another_type_is_refused(mq: QueueManagerKit, descriptor: Any) -> None:
    async with mq.run(app := App()):
        with pytest.raises(TypeError, match=r"it takes a MessageDescriptor\(\.\.\.\)"):
            await app.put("OUT", b"", descriptor=descriptor)
