"""An order that nobody has paid after an hour is reminded of: the delay is the queue manager's, and survives a restart."""

from datetime import timedelta

import msgspec

from mqflow import App, Context

app = App("embedded:./data?qmgr=QM1")


class Order(msgspec.Struct):
    number: int


@app.listener("ORDERS.IN")
async def take(order: Order, ctx: Context) -> None:
    await ctx.put("REMINDERS", order, delay=timedelta(hours=1))  # begins with the commit of this delivery


@app.listener("REMINDERS")
async def remind(order: Order, ctx: Context) -> None:
    await ctx.put("LETTERS", {"text": f"Order {order.number} is still to be paid."})
