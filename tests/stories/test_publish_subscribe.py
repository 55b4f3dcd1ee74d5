"""The sentences of IBM q032280 about publish/subscribe, on the embedded queue manager.

Each test's docstring is the sentence that it shows.
"""

import anyio
import pytest

from mqflow import App, Backout, Pace
from mqflow.events import Disposed
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

CALM = Backout(pace=Pace(first_s=1, factor=1, max_s=1, jitter=0))


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    for name in ("DURABLE.BOQ", "OTHER.BOQ", "OWN.BOQ"):
        mq.define(name)
    mq.mqsc(
        "ALTER QMODEL(SYSTEM.DURABLE.MODEL.QUEUE) BOTHRESH(2) BOQNAME(DURABLE.BOQ)",
        "ALTER QMODEL(SYSTEM.NDURABLE.MODEL.QUEUE) BOTHRESH(3) BOQNAME(OTHER.BOQ)",
    )


async def disposed_of(mq: QueueManagerKit, durable: str) -> tuple[int, str]:
    """Publish a message that no handler can process; return the number of its deliveries, and its last queue."""
    app, tries = App(name="failing"), list[bytes]()

    @app.listener(topic="Prices/#", durable=durable, backout=CALM)
    async def handle(body: bytes) -> None:
        tries.append(body)
        raise ValueError("cannot be processed")

    async with mq.run(app):
        await app.publish("Prices/Oil", b"poison")
        await anyio.sleep(60)
    [queue] = [name for name in ("DURABLE.BOQ", "OTHER.BOQ", "OWN.BOQ") if await mq.drain(name, at_least=0)]
    [_] = mq.told(Disposed)
    return len(tries), queue


@pytest.mark.parametrize(("durable", "expected"), [("desk-1", (2, "DURABLE.BOQ")), ("", (3, "OTHER.BOQ"))])
async def test_the_managed_queue_is_queried_for_bothresh_and_boqname(
    mq: QueueManagerKit, durable: str, expected: tuple[int, str]
) -> None:
    """The managed queue is queried for BOTHRESH and BOQNAME; by default it is from SYSTEM.DURABLE or NDURABLE.MODEL.QUEUE."""
    assert expected == await disposed_of(mq, durable)


@pytest.mark.parametrize(("durable", "keyword"), [("desk-1", "MDURMDL"), ("", "MNDURMDL")])
async def test_the_model_is_the_one_the_topic_names(mq: QueueManagerKit, durable: str, keyword: str) -> None:
    """The managed queue is created from a model queue associated with the Topic object: MDURMDL, MNDURMDL."""
    kind = "PERMDYN" if durable else "TEMPDYN"
    mq.mqsc(
        f"DEFINE QMODEL(OWN.MODEL) DEFTYPE({kind}) BOTHRESH(1) BOQNAME(OWN.BOQ)",
        f"DEFINE TOPIC(PRICES) TOPICSTR('Prices') {keyword}(OWN.MODEL)",
    )

    assert (1, "OWN.BOQ") == await disposed_of(mq, durable)
