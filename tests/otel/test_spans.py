"""Spans around handlers and puts, and the context that travels in message properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.otel import Inject, OpenTelemetry, TelemetrySettings, carrier
from mqflow.policy.disposition import Completed, Failed, Outcome, Undecodable
from tests.otel.harness import MESSAGE_ID, Delivery, Message, Telemetry

pytestmark = pytest.mark.anyio

SENDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SENDER_TRACE = 0x0AF7651916CD43DD8448EB211C80319C


async def test_a_delivery_is_a_consumer_span_named_after_operation_and_queue() -> None:
    telemetry = Telemetry()

    await telemetry.handle(Message(body=b"12345"))

    span = telemetry.span("process ORDERS.IN")
    assert SpanKind.CONSUMER == span.kind
    assert {
        "messaging.system": "ibm_mq",
        "messaging.destination.name": "ORDERS.IN",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.body.size": 5,
        "mqflow.listener": "orders",
    } == dict(span.attributes or {})
    assert StatusCode.UNSET == span.status.status_code


async def test_a_put_is_a_producer_span_and_the_message_leaves_with_its_context() -> None:
    telemetry = Telemetry()

    properties = await telemetry.put(Message())

    span = telemetry.span("put ORDERS.OUT")
    assert SpanKind.PRODUCER == span.kind
    assert "send" == (span.attributes or {})["messaging.operation.type"]
    sent = carrier.extract(properties)
    assert sent is not None
    assert span.context is not None
    assert (span.context.trace_id, span.context.span_id) == (sent.trace_id, sent.span_id)


async def test_a_put_inside_a_handler_is_a_child_of_the_delivery() -> None:
    telemetry = Telemetry()

    async def handler(_: Delivery) -> Outcome:
        await telemetry.put(Message())
        return Completed()

    await telemetry.hook.consume(Delivery(message=Message()), handler)

    put, process = telemetry.spans
    assert process.context == put.parent


async def test_a_delivery_links_to_its_sender_and_is_a_trace_of_its_own_by_default() -> None:
    telemetry = Telemetry()

    await telemetry.handle(Message(properties={"traceparent": SENDER}))

    span = telemetry.span("process ORDERS.IN")
    assert span.parent is None
    assert [SENDER_TRACE] == [link.context.trace_id for link in span.links]
    assert span.context is not None
    assert span.context.trace_id != SENDER_TRACE


async def test_a_delivery_joins_the_trace_of_a_sender_that_is_trusted() -> None:
    telemetry = Telemetry(TelemetrySettings(trust="parent"))

    await telemetry.handle(Message(properties={"traceparent": SENDER, "tracestate": "vendor=1"}))

    span = telemetry.span("process ORDERS.IN")
    assert span.parent is not None
    assert SENDER_TRACE == span.parent.trace_id
    assert "1" == span.parent.trace_state.get("vendor")
    assert () == tuple(span.links)


@pytest.mark.parametrize(
    "traceparent",
    [
        pytest.param("nonsense", id="not four fields"),
        pytest.param("00-00000000000000000000000000000000-b7ad6b7169203331-01", id="a trace id of zeros is invalid"),
        pytest.param("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", id="version ff is invalid"),
        pytest.param(SENDER + "-" + "0" * 65_536, id="64 KiB"),
        pytest.param("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-" + "0" * 100, id="over the cap"),
        pytest.param(SENDER.encode(), id="bytes"),
        pytest.param(7, id="a number"),
        pytest.param(None, id="null"),
    ],
)
async def test_a_traceparent_that_is_not_valid_is_ignored(traceparent: object) -> None:
    telemetry = Telemetry()

    await telemetry.handle(Message(properties={"traceparent": traceparent}))

    assert () == tuple(telemetry.span("process ORDERS.IN").links)


@given(st.text(max_size=200), st.text(max_size=600))
def test_no_text_in_the_two_properties_ever_raises(traceparent: str, tracestate: str) -> None:
    sender = carrier.extract({"traceparent": traceparent, "tracestate": tracestate})

    assert sender is None or sender.is_valid


def test_an_overlong_tracestate_is_dropped_whole_and_the_traceparent_kept() -> None:
    sender = carrier.extract({"traceparent": SENDER, "tracestate": "a=" + "b" * carrier.TRACESTATE_CHARS_MAX})

    assert sender is not None
    assert 0 == len(sender.trace_state)


async def test_baggage_from_a_message_is_neither_read_nor_passed_on() -> None:
    telemetry = Telemetry(TelemetrySettings(trust="parent"))
    left_with: dict[str, object] = {}

    async def handler(_: Delivery) -> Outcome:
        left_with.update(await telemetry.put(Message()))
        return Completed()

    await telemetry.hook.consume(Delivery(message=Message(properties={"traceparent": SENDER, "baggage": "a=b"})), handler)

    assert {"traceparent"} == set(left_with)


async def test_when_handler_and_put_are_over_no_span_is_current() -> None:
    telemetry = Telemetry()

    await telemetry.handle(Message())
    await telemetry.put(Message())

    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.parametrize(
    ("inject", "properties", "expected"),
    [
        ("always", {}, {"traceparent"}),
        ("with-properties", {}, set()),
        ("with-properties", {"tenant": "acme"}, {"tenant", "traceparent"}),
        ("never", {"tenant": "acme"}, {"tenant"}),
    ],
)
async def test_which_messages_leave_with_a_context_is_a_setting(
    inject: Inject, properties: dict[str, object], expected: set[str]
) -> None:
    telemetry = Telemetry(TelemetrySettings(inject=inject))

    left_with = await telemetry.put(Message(properties=dict(properties)))

    assert expected == set(left_with)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Failed("orders.OutOfStockError", "item 7"), "orders.OutOfStockError"),
        (Undecodable("msgspec.ValidationError", "expected int"), "msgspec.ValidationError"),
    ],
)
async def test_a_delivery_that_fails_is_an_error_of_its_class_without_its_text(
    outcome: Outcome | Exception, error: str
) -> None:
    telemetry = Telemetry()

    await telemetry.handle(Message(), outcome)

    span = telemetry.span("process ORDERS.IN")
    assert StatusCode.ERROR == span.status.status_code
    assert error == (span.attributes or {})["error.type"]
    assert span.status.description is None


async def test_an_exception_passes_through_and_is_the_error_of_its_span() -> None:
    telemetry = Telemetry()

    with pytest.raises(ValueError, match="item 7"):
        await telemetry.handle(Message(), ValueError("item 7"))

    assert "ValueError" == (telemetry.span("process ORDERS.IN").attributes or {})["error.type"]


async def test_a_cancelled_handler_ends_its_span_as_interrupted() -> None:
    telemetry = Telemetry()

    class Cancelled(BaseException):
        pass

    async def handler(_: Delivery) -> Outcome:
        raise Cancelled

    with pytest.raises(Cancelled):
        await telemetry.hook.consume(Delivery(message=Message()), handler)

    assert "interrupted" == (telemetry.span("process ORDERS.IN").attributes or {})["error.type"]


async def test_a_put_that_is_refused_names_the_reason() -> None:
    telemetry = Telemetry()

    async def refuse(_: Message) -> None:
        raise error_for(Reason.Q_FULL, "MQPUT", "ORDERS.OUT", "QM1")

    with pytest.raises(Exception, match="2053"):
        await telemetry.put(Message(), refuse)

    span = telemetry.span("put ORDERS.OUT")
    assert "MQRC_Q_FULL (2053)" == (span.attributes or {})["error.type"]
    assert StatusCode.ERROR == span.status.status_code


async def test_nothing_a_sender_wrote_is_in_a_span_unless_it_is_allowed() -> None:
    telemetry = Telemetry()
    canary = "canary-5f3a"
    descriptor = MessageDescriptor(message_id=canary.encode().ljust(24, b"\0"), correlation_id=canary.encode().ljust(24, b"\0"))
    message = Message(descriptor=descriptor, body=canary.encode(), properties={"account": canary, canary: "x"})

    await telemetry.handle(message, Failed("app.Error", f"cannot book {canary}"))
    with pytest.raises(ValueError, match=canary):
        await telemetry.handle(message, ValueError(canary))
    await telemetry.put(message)

    exported = "".join(span.to_json() for span in telemetry.spans)
    assert 3 == len(telemetry.spans)
    assert canary not in exported
    assert canary.encode().hex() not in exported


async def test_what_is_allowed_by_name_is_in_the_span_up_to_its_bound() -> None:
    allowed = TelemetrySettings(
        properties=("tenant", "absent"), property_chars_max=4, message_ids=True, body_bytes_max=5, error_texts=True
    )
    telemetry = Telemetry(allowed)
    message = Message(body=b"body\xff and more", properties={"tenant": "acme-europe", "account": "4711"})

    await telemetry.handle(message, Failed("app.Error", "no such order"))

    span = telemetry.span("process ORDERS.IN")
    attributes = dict(span.attributes or {})
    assert "acme" == attributes["mqflow.message.property.tenant"]
    assert "mqflow.message.property.absent" not in attributes
    assert "mqflow.message.property.account" not in attributes
    assert MESSAGE_ID.hex() == attributes["messaging.message.id"]
    assert "body\\xff" == attributes["mqflow.message.body"]
    assert "no such order" == span.status.description


async def test_a_sampler_that_says_no_costs_no_attribute_and_exports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry(sampler=ALWAYS_OFF)

    class Unmeasured(bytes):
        def __len__(self) -> int:
            raise AssertionError("an attribute was built")

    await telemetry.handle(Message(body=Unmeasured()))
    left_with = await telemetry.put(Message())

    assert "" == caplog.text
    assert [] == telemetry.spans
    sent = carrier.extract(left_with)
    assert sent is not None
    assert not sent.trace_flags.sampled


async def test_without_a_tracer_provider_a_message_passes_untouched() -> None:
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider), "a test has set the global tracer provider"
    hook = OpenTelemetry()
    message = Message()

    async def handler(_: Delivery) -> Outcome:
        await hook.publish(message, put)
        return Completed()

    async def put(_: Message) -> str:
        return "put"

    outcome = await hook.consume(Delivery(message=Message()), handler)

    assert Completed() == outcome
    assert {} == message.properties


async def test_a_tracer_that_breaks_costs_a_trace_and_never_a_message(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry()

    class Broken(dict[str, object]):
        def get(self, *_: object) -> object:
            raise RuntimeError("broken")

    outcome = await telemetry.handle(Message(properties=Broken()))

    assert Completed() == outcome
    assert "goes on untraced" in caplog.text
