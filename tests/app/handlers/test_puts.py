"""A put outside of deliveries: the message is on the queue if the call returns, and is not if the call raises."""

import anyio
import pytest

from mqflow import App
from mqflow.app.handlers.outgoing_message import Outgoing, Send
from mqflow.events import Settled
from mqflow.mqi.errors import MQIError
from mqflow.policy.poison.disposition import Failed
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Put

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
    app = App(middleware=[RefusesAfterwards()])

    async with mq.run(app):
        with pytest.raises(ValueError, match="not this one"):
            await app.put("OUT", "bad")
        await app.put("OUT", "good")

        assert ["good"] == [message.text() for message in await mq.drain("OUT")]


@pytest.mark.parametrize("delay", [None, 5], ids=["at once", "later"])
async def test_nothing_is_put_on_a_queue_that_a_model_makes_for_it(mq: QueueManagerKit, delay: float | None) -> None:
    """A dynamic queue is deleted with the handle of the session. The message would be lost, although the put succeeded."""
    app = App()

    async with mq.run(app):
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

    async with mq.run(app):
        await mq.put("IN", "x", reply_to_queue="SYSTEM.DEFAULT.MODEL.QUEUE", message_type=1)
        await anyio.sleep(5)

    [settled] = [event for event in mq.told(Settled) if event.outcome]
    assert isinstance(settled.outcome, Failed)
    assert "2057" in settled.outcome.text
    assert 1 == mq.depth("BOQ")
