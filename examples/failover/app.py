"""Takes orders from a queue manager with a standby, each in its own process. After a kill, each order is still taken once."""

import msgspec

from mqflow import App, Context

app = App("embedded+unix:QM1/served.sock?qmgr=QM1", name="orders")


class Order(msgspec.Struct):
    number: int


@app.listener("ORDERS.IN", concurrency=2)
async def take(order: Order, ctx: Context) -> None:
    await ctx.put("ORDERS.TAKEN", order)
