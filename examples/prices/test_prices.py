"""Both desks get the publications of their subscriptions."""

from examples.prices.app import app
from mqflow.testing.kit import QueueManagerKit


async def test_each_desk_books_the_prices_of_its_subscription(mq: QueueManagerKit) -> None:
    mq.define("DESK.ALL")
    mq.define("DESK.OIL")

    async with mq.run(app):
        await app.publish("Prices/Oil/Brent", {"cents": 7012})
        await app.publish("Prices/Gold", {"cents": 99})
        everything = await mq.drain("DESK.ALL")
        oil = await mq.drain("DESK.OIL")

    assert [m.json() for m in everything] == [
        {"topic": "Prices/Oil/Brent", "cents": 7012},
        {"topic": "Prices/Gold", "cents": 99},
    ]
    assert [m.json() for m in oil] == [{"cents": 7012}]
