"""The telemetry of a running application, with real messages through a queue manager."""

import pytest
from msgspec import Struct

from mqflow import App, Context, Reject
from mqflow.app.config.settings import Settings
from mqflow.app.handlers.middleware import Call, Incoming
from mqflow.events import Disposed, Event
from mqflow.mqi.headers.chain import Header
from mqflow.mqi.headers.rfh2 import RFH2, properties
from mqflow.policy.poison.disposition import Outcome
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE, from_bytes
from mqflow.testing.kit import QueueManagerKit
from tests.otel.harness import Telemetry
from tests.running import moved

QUEUES = (
    "DEFINE QLOCAL('ORDERS.BOQ')",
    "DEFINE QLOCAL('ORDERS.OUT')",
    "DEFINE QLOCAL('ORDERS.IN') BOTHRESH(3) BOQNAME('ORDERS.BOQ')",
)


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    mq.mqsc(*QUEUES)


class Order(Struct):
    quantity: int
    name: str = ""


def application(telemetry: Telemetry) -> App:
    app = App(middleware=[telemetry.hook])

    @app.listener("ORDERS.IN")
    async def book(order: Order, context: Context) -> None:
        if order.quantity < 0:
            raise ValueError(f"{order.name} ordered {order.quantity}")
        await context.put("ORDERS.OUT", order)

    return app


def story(telemetry: Telemetry) -> list[str]:
    """Return each ended span, with the backout count and the disposition of its decision."""
    told: list[str] = []
    for span in telemetry.spans:
        facts = [dict(event.attributes or {}) for event in span.events]
        decisions = [f" ({each['mqflow.backout.count']}: {each['mqflow.backout.disposition']})" for each in facts]
        told.append(span.name.split()[0] + "".join(decisions))
    return told


async def test_a_poison_message_is_one_delivery_and_one_decision_after_the_other(
    mq: QueueManagerKit, telemetry: Telemetry
) -> None:
    await moved(mq, application(telemetry), {"quantity": -1}, "ORDERS.BOQ", queue="ORDERS.IN")

    assert ["process", "settle (1: deliver)", "process", "settle (2: deliver)", "process", "settle (3: requeue)"] == story(
        telemetry
    )


async def test_a_message_that_does_not_decode_is_disposed_of_at_its_first_delivery(
    mq: QueueManagerKit, telemetry: Telemetry
) -> None:
    await moved(mq, application(telemetry), "not JSON", "ORDERS.BOQ", queue="ORDERS.IN")

    assert ["process", "settle (1: requeue)"] == story(telemetry)
    assert telemetry.span("process ORDERS.IN").context == telemetry.span("settle ORDERS.IN").parent


async def test_a_trace_goes_on_through_the_queue_to_the_next_application(mq: QueueManagerKit, telemetry: Telemetry) -> None:
    booked = await moved(
        mq, application(telemetry), {"quantity": 1}, "ORDERS.OUT", queue="ORDERS.IN", properties={"tenant": "acme"}
    )

    put = telemetry.span("put ORDERS.OUT")
    assert put.context is not None
    assert f"{put.context.trace_id:032x}-{put.context.span_id:016x}" in str(usr(booked.headers[0])["traceparent"])


async def test_a_put_of_a_handler_that_is_not_async_is_a_child_of_its_delivery(
    mq: QueueManagerKit, telemetry: Telemetry
) -> None:
    app = App(middleware=[telemetry.hook])

    @app.listener("ORDERS.IN")
    def book(order: Order, context: Context) -> None:
        context.put_blocking("ORDERS.OUT", order)

    await moved(mq, app, {"quantity": 1}, "ORDERS.OUT", queue="ORDERS.IN")

    assert telemetry.span("process ORDERS.IN").context == telemetry.span("put ORDERS.OUT").parent


async def test_no_body_property_or_exception_text_leaves_the_process(mq: QueueManagerKit, telemetry: Telemetry) -> None:
    canary = "canary-5f3a"

    async with mq.run(application(telemetry)):
        await mq.put("ORDERS.IN", {"quantity": -1, "name": canary}, properties={"account": canary})
        await mq.put("ORDERS.IN", f'{{"quantity": "{canary}"}}')
        await mq.put("ORDERS.IN", {"quantity": 1, "name": canary})
        await mq.drain("ORDERS.BOQ")

    assert {"process", "put", "settle"} == {span.name.split()[0] for span in telemetry.spans}
    assert canary not in "".join(span.to_json() for span in telemetry.spans)
    assert canary not in str(telemetry.metrics)


async def test_the_meter_agrees_with_the_ends_of_the_messages(mq: QueueManagerKit, telemetry: Telemetry) -> None:
    async with mq.run(application(telemetry)):
        await mq.put("ORDERS.IN", {"quantity": 1})
        await mq.put("ORDERS.IN", {"quantity": -1})
        await mq.drain("ORDERS.BOQ")

    by_outcome = {
        (dict(attributes)["mqflow.outcome"], dict(attributes)["mqflow.settlement"]): count
        for attributes, count in telemetry.metrics["mqflow.units_of_work"].items()
    }
    assert {("completed", "commit"): 1, ("failed", "backout"): 2, ("failed", "commit"): 1} == by_outcome
    assert [4] == list(telemetry.metrics["messaging.client.consumed.messages"].values())
    assert [1] == list(telemetry.metrics["messaging.client.sent.messages"].values())
    assert [1] == list(telemetry.metrics["mqflow.backout.dispositions"].values())


def usr(header: Header) -> dict[str, object]:
    """The application's properties in an RFH2."""
    assert isinstance(header, RFH2)
    return dict(properties(header))


async def test_a_record_of_a_decision_names_the_trace_of_its_handling(mq: QueueManagerKit, telemetry: Telemetry) -> None:
    mq.define(DISPOSITION_QUEUE)
    app = App(middleware=[telemetry.hook], settings=Settings(disposition_queue=DISPOSITION_QUEUE))

    @app.listener("ORDERS.IN")
    def book(order: Order) -> None:
        if order.quantity < 0:
            raise ValueError

    async with mq.run(app):
        await mq.put("ORDERS.IN", {"quantity": -1})
        await mq.put("ORDERS.IN", {"quantity": 1})
        await mq.drain("ORDERS.BOQ")
    records = [from_bytes(found.data) for found in await mq.drain(DISPOSITION_QUEUE)]

    named = {record.trace_id for record in records if record is not None and record.done_ts is not None}
    assert {f"{span.context.trace_id:032x}" for span in telemetry.spans if span.context is not None} >= named
    assert 4 == len(named), "three deliveries of one message, and one of the other"


@pytest.mark.mq_backend("asyncio", "trio")
@pytest.mark.parametrize("registered", ["middleware", "middleware and hook", "two objects"])
async def test_one_registration_reports_deliveries_puts_and_each_decision_once(
    mq: QueueManagerKit, registered: str, telemetry: Telemetry
) -> None:
    app = App(middleware=[telemetry.hook])
    if registered == "middleware and hook":
        app.hooks.append(telemetry.hook)
    if registered == "two objects":
        app.hooks.append(telemetry.another())

    @app.listener("ORDERS.IN")
    async def book(order: Order, context: Context) -> None:
        await context.put("ORDERS.OUT", order)
        raise ValueError

    await moved(mq, app, {"quantity": -1}, "ORDERS.BOQ", queue="ORDERS.IN")

    decisions = ["settle (1: deliver)", "settle (2: deliver)", "settle (3: requeue)"]
    assert [each for decision in decisions for each in ("put", "process", decision)] == story(telemetry)
    if registered != "two objects":  # two objects make two sets of instruments on one meter
        assert [1] == list(telemetry.metrics["mqflow.backout.dispositions"].values())


async def test_any_middleware_that_wants_events_is_a_hook(mq: QueueManagerKit) -> None:
    seen: list[str] = []

    class Alarm:
        wants = (Disposed,)

        def __call__(self, event: Event) -> None:
            seen.append(type(event).__name__)

        async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
            return await call_next(delivery)

    app = App(middleware=[Alarm()])

    @app.listener("ORDERS.IN")
    async def book(order: Order) -> None:
        raise Reject

    await moved(mq, app, {"quantity": 1}, "ORDERS.BOQ", queue="ORDERS.IN")

    assert ["Disposed"] == seen
