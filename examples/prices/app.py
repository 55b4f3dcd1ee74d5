"""A publication for two desks: each desk books the price once, even if the desk was away at the time of publication."""

import msgspec

from mqflow import App, Context, Message

app = App("embedded:./data?qmgr=QM1")


class Price(msgspec.Struct):
    cents: int


@app.listener(topic="Prices/#", durable="desk-all")
async def everything(price: Price, message: Message, ctx: Context) -> None:
    await ctx.put("DESK.ALL", {"topic": message.topic, "cents": price.cents})


@app.listener(topic="Prices/Oil/+", durable="desk-oil")
async def oil(price: Price, ctx: Context) -> None:
    await ctx.put("DESK.OIL", price)
