"""Books flights: a typed handler on FLIGHTS.IN. A cancelled flight has no arrival delay, so its message is poison."""

import msgspec

from mqflow import App, Context, Message, Reject

app = App("embedded:./data?qmgr=QM1", name="flights")


class Flight(msgspec.Struct):
    carrier: str
    flight: int
    origin: str
    dest: str
    arr_delay: float


@app.listener("FLIGHTS.IN", concurrency=4)
async def book(flight: Flight, message: Message, ctx: Context) -> None:
    if flight.origin == flight.dest:
        raise Reject("a flight to where it starts")
    await ctx.put("FLIGHTS.BOOKED", flight, correlation_id=message.message_id)
