"""faststream-mq: a subscriber that answers, a request with a reply on a temporary queue, headers, and a poison message."""

import asyncio

from faststream_mq import MQBroker
from faststream_mq.annotations import MQMessage

broker = MQBroker(
    queue_manager="QM1", channel="DEV.APP.SVRCONN", conn_name="localhost(1414)", username="app", password="passw0rd"
)
seen: list[tuple[str, object]] = []
done = asyncio.Event()


@broker.subscriber("DEV.QUEUE.1")
async def handle(body: str, message: MQMessage) -> str:
    seen.append((body, message.headers.get("desk")))
    if body == "poison" and len(seen) == 1:
        raise ValueError(body)  # backed out, and delivered again
    if len(seen) == 2:
        done.set()
    return body.upper()


async def main() -> None:
    async with broker:
        await broker.start()
        await broker.publish("poison", queue="DEV.QUEUE.1", headers={"desk": "seven"})
        await asyncio.wait_for(done.wait(), 20)
        assert seen == [("poison", "seven")] * 2, seen
        reply = await broker.request("question", queue="DEV.QUEUE.1", timeout=20)
        assert await reply.decode() == "QUESTION", reply


asyncio.run(main())
