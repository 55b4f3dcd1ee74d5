"""Handlers read and write message properties, for every PROPCTL of the queue."""

import pytest

from mqflow import App, Context, Message
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import chain, rfh2
from mqflow.mqi.options import Format
from mqflow.mqi.properties.set import PropertyValue
from mqflow.testing.kit import QueueManagerKit
from tests.queue_contents import put

pytestmark = pytest.mark.mq_backend("asyncio")

TYPED: dict[str, PropertyValue] = {
    "tenant": "blue", "count": 5, "big": 2**40, "rate": 0.5, "urgent": True, "key": b"\x00\xff", "nothing": None,
}  # fmt: skip


@pytest.mark.parametrize("control", ["ALL", "COMPAT", "FORCE", "NONE", "V6COMPAT"])
async def test_a_handler_reads_and_puts_properties_in_their_types(mq: QueueManagerKit, control: str) -> None:
    app, seen = App(), []
    mq.define("IN", propctl=control)
    mq.define("OUT", propctl=control)

    @app.listener("IN")
    async def handle(message: Message, ctx: Context) -> None:
        seen.append(dict(message.properties))
        await ctx.put("OUT", message.body, properties=message.properties)

    async with mq.run(app):
        await mq.put("IN", b"body", properties=TYPED)
        (out,) = await mq.drain("OUT")

    assert [TYPED] == seen
    assert (TYPED, b"body") == (out.properties, out.body)


async def test_a_message_that_is_moved_keeps_properties_that_others_would_not_see(mq: QueueManagerKit) -> None:
    """COMPAT, the default, hides the properties of a message without JMS properties. A move must keep these properties."""
    app = App()
    mq.define("BOQ")
    mq.define("IN", bothresh=1, boqname="BOQ")
    folder = rfh2.Folder("mq_usr", (rfh2.FolderProperty("size", 5),))
    descriptor, data = chain.join(MessageDescriptor(format=Format.STRING, ccsid=1208), [rfh2.RFH2(folders=(folder,))], b"body")

    @app.listener("IN")
    async def handle(_: bytes) -> None:
        raise ValueError

    async with mq.run(app):
        put(mq.queue_manager, "IN", data, descriptor=descriptor)
        (moved,) = await mq.drain("BOQ")

    (header,) = chain.split(moved.descriptor, moved.data).chain
    assert isinstance(header, rfh2.RFH2)
    assert {"size": 5} == rfh2.properties(header, "mq_usr")
