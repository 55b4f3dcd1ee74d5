"""Sends a reminder of each order after an hour. The queue manager keeps the delayed message, also over a restart."""

from datetime import timedelta

import msgspec

from mqflow import App, Context

app = App("embedded:./data?qmgr=QM1")


class Order(msgspec.Struct):
    number: int


@app.listener("ORDERS.IN")
async def take(order: Order, ctx: Context) -> None:
    await ctx.put("REMINDERS", order, delay=timedelta(hours=1))  # the hour counts from this put


@app.listener("REMINDERS")
async def remind(order: Order, ctx: Context) -> None:
    await ctx.put("LETTERS", {"text": f"Order {order.number} is still to be paid."})
