"""Books flights, settles claims and informs two offices. Each of the four handlers has planted errors; see `planted`."""

from collections import Counter
from datetime import date

import msgspec

from examples.flights_on_spark import planted
from examples.flights_on_spark.identifiers import flight_number
from mqflow import App, Context, Message, Retry

__all__ = ("Calls", "make_app")

Calls = Counter[tuple[str, int]]
"""How often a handler was called: the handlers' own count, by queue and number of the flight."""


class Flight(msgspec.Struct):
    year: int
    month: int
    day: int
    hour: int
    carrier: str
    flight: int
    origin: str
    dest: str
    distance: int
    arr_delay: float  # absent for cancelled flights: such a message is poison


class UnknownGateError(Exception):
    """The gate has a name that this program does not know."""


class ClaimsServiceError(Exception):
    """The claims service gave no answer."""


class UnknownAirportError(Exception):
    """The night office has no rule for this airport."""


class NotAdmittedError(Exception):
    """The Hawaii office refuses this carrier."""


def make_app(gates_change: date, calls: Calls, *, repaired: bool = False) -> App:  # noqa: C901 - four handlers, each a few lines
    """Return the application. If `repaired`, it knows the new gates and all airports. Each handler counts its calls."""
    app = App(name="flights")

    @app.listener("FLIGHTS.IN", concurrency=32)
    async def book(flight: Flight, message: Message, ctx: Context) -> None:
        calls["FLIGHTS.IN", flight_number(message.message_id)] += 1
        changed = date(flight.year, flight.month, flight.day) >= gates_change
        if flight.carrier == planted.GATES_CARRIER and changed and not repaired:
            raise UnknownGateError(f"gate of {flight.carrier} {flight.flight}")
        await ctx.put("FLIGHTS.BOOKED", flight, correlation_id=message.message_id)
        if flight.arr_delay >= planted.CLAIM_MINUTES:
            await ctx.put("CLAIMS.IN", flight, correlation_id=message.message_id, delay=planted.CLAIM_DELAY_S)
        if flight.hour >= planted.NIGHT_HOUR:
            await ctx.put("NIGHT.IN", flight, correlation_id=message.message_id)
        if flight.distance > planted.HAWAII_MILES:
            await ctx.put("HAWAII.IN", flight, correlation_id=message.message_id)

    @app.listener("CLAIMS.IN", concurrency=4)
    async def settle_claim(claim: Flight, message: Message) -> None:
        calls["CLAIMS.IN", flight_number(message.correlation_id)] += 1
        if claim.flight % planted.CLAIM_NEVER == 0:
            raise ClaimsServiceError(f"no answer about flight {claim.flight}")
        match claim.flight % 4, message.backout_count:
            case planted.CLAIM_SECOND, 0:
                raise Retry("the claim is being looked at", after=planted.CLAIM_AGAIN_S)
            case planted.CLAIM_THIRD, 0 | 1:
                raise ClaimsServiceError(f"no answer about flight {claim.flight}")
            case _:
                return

    @app.listener("NIGHT.IN")
    async def tell_night_office(flight: Flight, message: Message) -> None:
        calls["NIGHT.IN", flight_number(message.correlation_id)] += 1
        if flight.dest in planted.NIGHT_UNKNOWN and not repaired:
            raise UnknownAirportError(f"no rule for {flight.dest}")

    @app.listener("HAWAII.IN")
    async def tell_hawaii_office(flight: Flight, message: Message) -> None:
        calls["HAWAII.IN", flight_number(message.correlation_id)] += 1
        if flight.carrier == planted.HAWAII_CARRIER:
            raise NotAdmittedError(f"{flight.carrier} {flight.flight} is not admitted")

    return app
