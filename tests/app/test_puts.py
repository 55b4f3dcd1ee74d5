"""A put of the application's own, outside of deliveries: it is there when the call returns, and is not when the call raises."""

import pytest

from mqflow import App
from mqflow.app.publishing import Outgoing, Send
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Put

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


class RefusesAfterwards:
    """Middleware that puts, and then wants it undone."""

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        put = await call_next(message)
        if message.body == b"bad":
            raise ValueError("not this one")
        return put


async def test_what_middleware_raised_at_after_the_put_does_not_go_out_with_the_next_one(mq: QueueManagerKit) -> None:
    mq.define("OUT")
    app = App(middleware=[RefusesAfterwards()])

    async with mq.run(app):
        with pytest.raises(ValueError, match="not this one"):
            await app.put("OUT", "bad")
        await app.put("OUT", "good")

        assert ["good"] == [message.text() for message in await mq.drain("OUT")]
