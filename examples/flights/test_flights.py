"""The example of the README works as the README says, with a few flights."""

from pathlib import Path

from examples.flights.app import app
from mqflow.testing.kit import QueueManagerKit

QUEUES = Path(__file__).with_name("queues.mqsc")
FLIGHT = b'{"carrier":"UA","flight":1,"origin":"EWR","dest":"IAH","arr_delay":%s}'


async def test_a_flight_that_arrived_is_booked(mq: QueueManagerKit) -> None:
    mq.mqsc(QUEUES.read_text())

    async with mq.run(app):
        put = await mq.put("FLIGHTS.IN", FLIGHT % b"11")
        [booked] = await mq.drain("FLIGHTS.BOOKED")

    assert booked.json() == {"carrier": "UA", "flight": 1, "origin": "EWR", "dest": "IAH", "arr_delay": 11.0}
    assert put.descriptor.message_id == booked.correlation_id


async def test_a_cancelled_flight_ends_on_the_backout_queue(mq: QueueManagerKit) -> None:
    mq.mqsc(QUEUES.read_text())

    async with mq.run(app):
        await mq.put("FLIGHTS.IN", FLIGHT % b"null")
        [dead] = await mq.drain("FLIGHTS.BOQ")

    assert dead.why.outcome == "undecodable"


async def test_a_flight_to_where_it_starts_is_rejected_and_not_retried(mq: QueueManagerKit) -> None:
    mq.mqsc(QUEUES.read_text())

    async with mq.run(app):
        await mq.put("FLIGHTS.IN", (FLIGHT % b"11").replace(b"IAH", b"EWR"))
        [dead] = await mq.drain("FLIGHTS.BOQ")

    assert (dead.why.outcome, dead.why.text) == ("failed", "a flight to where it starts")
