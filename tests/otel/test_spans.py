"""Spans around handlers and puts, and the trace context in message properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from mqflow.app.handlers.message import Message, PropertyValue
from mqflow.app.handlers.middleware import Incoming
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import QueueFullError, error_for
from mqflow.mqi.options import Format
from mqflow.mqi.reason_codes import Reason
from mqflow.otel import Inject, OpenTelemetry, TraceSettings, carrier
from mqflow.policy.poison.disposition import Failed, Outcome, Undecodable
from tests.otel.harness import COMPLETED, DESCRIPTOR, MESSAGE_ID, Telemetry, incoming, outgoing

pytestmark = pytest.mark.anyio

SENDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SENDER_TRACE = 0x0AF7651916CD43DD8448EB211C80319C


async def test_a_delivery_is_a_consumer_span_named_after_operation_and_queue(telemetry: Telemetry) -> None:
    await telemetry.handle(incoming(body=b"12345"))

    span = telemetry.span("process ORDERS.IN")
    assert SpanKind.CONSUMER == span.kind
    assert {
        "messaging.system": "ibm_mq", "messaging.destination.name": "ORDERS.IN", "messaging.operation.name": "process",
        "messaging.operation.type": "process", "messaging.message.envelope.size": 5, "mqflow.listener": "orders",
    } == dict(span.attributes or {})  # fmt: skip
    assert StatusCode.UNSET == span.status.status_code


async def test_a_put_is_a_producer_span_and_the_message_leaves_with_its_context(telemetry: Telemetry) -> None:
    properties = await telemetry.put()

    span = telemetry.span("put ORDERS.OUT")
    assert SpanKind.PRODUCER == span.kind
    assert "send" == (span.attributes or {})["messaging.operation.type"]
    sent = carrier.extract(properties)
    assert sent is not None
    assert span.context is not None
    assert (span.context.trace_id, span.context.span_id) == (sent.trace_id, sent.span_id)


async def test_a_put_to_a_queue_made_for_one_reply_is_a_span_of_all_such_puts(telemetry: Telemetry) -> None:
    """Semantic conventions: span names have low cardinality, so a temporary destination appears by its template."""
    await telemetry.put(outgoing(queue="AMQ.00064748462040A2"))

    attributes = telemetry.span("put AMQ.*").attributes or {}
    assert ("AMQ.00064748462040A2", "AMQ.*", True) == tuple(
        attributes[f"messaging.destination.{name}"] for name in ("name", "template", "temporary")
    )


async def test_a_put_inside_a_handler_is_a_child_of_the_delivery(telemetry: Telemetry) -> None:
    async def handler(_: Incoming) -> Outcome:
        await telemetry.put()
        return COMPLETED

    await telemetry.around(handler)

    put, process = telemetry.spans
    assert process.context == put.parent


async def test_a_delivery_links_to_its_sender_and_is_a_trace_of_its_own_by_default(telemetry: Telemetry) -> None:
    await telemetry.handle(incoming(properties={"traceparent": SENDER}))

    span = telemetry.span("process ORDERS.IN")
    assert span.parent is None
    assert [SENDER_TRACE] == [link.context.trace_id for link in span.links]
    assert span.context is not None
    assert span.context.trace_id != SENDER_TRACE


async def test_a_delivery_joins_the_trace_of_a_sender_that_is_trusted() -> None:
    telemetry = Telemetry(TraceSettings(trust="parent"))

    await telemetry.handle(incoming(properties={"traceparent": SENDER, "tracestate": "vendor=1"}))

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
async def test_a_traceparent_that_is_not_valid_is_ignored(traceparent: object, telemetry: Telemetry) -> None:
    await telemetry.handle(incoming(properties={"traceparent": traceparent}))

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
    telemetry = Telemetry(TraceSettings(trust="parent"))
    left_with: dict[str, object] = {}

    async def handler(_: Incoming) -> Outcome:
        left_with.update(await telemetry.put())
        return COMPLETED

    await telemetry.around(handler, incoming(properties={"traceparent": SENDER, "baggage": "a=b"}))

    assert {"traceparent"} == set(left_with)


async def test_a_message_that_is_passed_on_does_not_keep_the_state_of_the_trace_of_its_sender() -> None:
    sender = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01", "tracestate": "vendor=sender", "tenant": "a"}

    left = await Telemetry().put(outgoing(sender))

    assert ({"traceparent", "tenant"}, False) == (set(left), left["traceparent"] == sender["traceparent"])


async def test_when_handler_and_put_are_over_no_span_is_current(telemetry: Telemetry) -> None:
    await telemetry.handle()
    await telemetry.put()

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
    inject: Inject, properties: dict[str, PropertyValue], expected: set[str]
) -> None:
    telemetry = Telemetry(TraceSettings(inject=inject))

    left_with = await telemetry.put(outgoing(properties))

    assert expected == set(left_with)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Failed("orders.OutOfStockError", "item 7"), "orders.OutOfStockError"),
        (Undecodable("msgspec.ValidationError", "expected int"), "msgspec.ValidationError"),
    ],
)
async def test_a_delivery_that_fails_is_an_error_of_its_class_without_its_text(
    outcome: Outcome | Exception, error: str, telemetry: Telemetry
) -> None:
    await telemetry.handle(outcome=outcome)

    span = telemetry.span("process ORDERS.IN")
    assert StatusCode.ERROR == span.status.status_code
    assert error == (span.attributes or {})["error.type"]
    assert span.status.description is None


async def test_an_exception_passes_through_and_is_the_error_of_its_span(telemetry: Telemetry) -> None:
    with pytest.raises(ValueError, match="item 7"):
        await telemetry.handle(outcome=ValueError("item 7"))

    assert "ValueError" == (telemetry.span("process ORDERS.IN").attributes or {})["error.type"]


async def test_a_cancelled_handler_ends_its_span_as_interrupted(telemetry: Telemetry) -> None:
    with pytest.raises(KeyboardInterrupt):
        await telemetry.handle(outcome=KeyboardInterrupt())

    assert "interrupted" == (telemetry.span("process ORDERS.IN").attributes or {})["error.type"]


async def test_a_put_that_is_refused_names_the_reason(telemetry: Telemetry) -> None:
    with pytest.raises(QueueFullError):
        await telemetry.put(error=error_for(Reason.Q_FULL, "MQPUT", "ORDERS.OUT", "QM1"))

    span = telemetry.span("put ORDERS.OUT")
    assert "MQRC_Q_FULL (2053)" == (span.attributes or {})["error.type"]
    assert StatusCode.ERROR == span.status.status_code


async def test_nothing_a_sender_wrote_is_in_a_span_unless_it_is_allowed(telemetry: Telemetry) -> None:
    canary = "canary-5f3a"
    descriptor = MessageDescriptor(message_id=canary.encode().ljust(24, b"\0"), correlation_id=canary.encode().ljust(24, b"\0"))
    message = incoming(descriptor=descriptor, body=canary.encode(), properties={"account": canary, canary: "x"})

    await telemetry.handle(message, outcome=Failed("app.Error", f"cannot book {canary}"))
    with pytest.raises(ValueError, match=canary):
        await telemetry.handle(message, outcome=ValueError(canary))
    await telemetry.put(outgoing({"account": canary}))

    exported = "".join(span.to_json() for span in telemetry.spans)
    assert 3 == len(telemetry.spans)
    assert canary not in exported
    assert canary.encode().hex() not in exported


async def test_a_span_has_allowed_content_up_to_its_bound() -> None:
    allowed = TraceSettings(
        properties=("tenant", "absent"), property_chars_max=4, message_ids=True, body_bytes_max=5, error_texts=True
    )
    telemetry = Telemetry(allowed)
    message = incoming(body=b"body\xff and more", properties={"tenant": "acme-europe", "account": "4711"})

    await telemetry.handle(message, outcome=Failed("app.Error", "no such order"))

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

    await telemetry.handle(incoming(body=Unmeasured()))
    left_with = await telemetry.put()

    assert "" == caplog.text
    assert [] == telemetry.spans
    sent = carrier.extract(left_with)
    assert sent is not None
    assert not sent.trace_flags.sampled


async def test_without_a_tracer_provider_a_message_passes_untouched(telemetry: Telemetry) -> None:
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider), "a test has set the global tracer provider"
    telemetry.hook = OpenTelemetry()

    outcome = await telemetry.handle()
    left_with = await telemetry.put()

    assert COMPLETED == outcome
    assert {} == left_with


async def test_a_batch_links_to_every_sender_and_joins_no_trace() -> None:
    telemetry = Telemetry(TraceSettings(trust="parent"))
    other = "00-11111111111111111111111111111111-2222222222222222-01"

    await telemetry.handle(
        incoming(properties={"traceparent": SENDER}), incoming(), incoming(properties={"traceparent": other})
    )

    span = telemetry.span("process ORDERS.IN")
    assert span.parent is None
    assert [SENDER_TRACE, int("1" * 32, 16)] == [link.context.trace_id for link in span.links]
    assert 3 == (span.attributes or {})["messaging.batch.message_count"]


@pytest.mark.parametrize("settings", [TraceSettings(), TraceSettings(properties=("tenant",), body_bytes_max=3)])
async def test_a_message_whose_headers_do_not_hold_together_is_traced_without_its_properties(settings: TraceSettings) -> None:
    telemetry = Telemetry(settings)
    broken = Message(replace(DESCRIPTOR, format=Format.RF_HEADER_2), b"RFH ", "ORDERS.IN")

    await telemetry.handle(broken, outcome=Undecodable("mqflow.mqi.errors.HeaderError"))

    attributes = dict(telemetry.span("process ORDERS.IN").attributes or {})
    assert "mqflow.mqi.errors.HeaderError" == attributes["error.type"]
    assert ("RFH" if settings.body_bytes_max else None) == attributes.get("mqflow.message.body")


async def test_a_tracer_that_breaks_costs_a_trace_and_never_a_message(
    caplog: pytest.LogCaptureFixture, telemetry: Telemetry
) -> None:
    class Broken(dict[str, object]):
        def get(self, *_: object) -> object:
            raise RuntimeError("broken")

    outcome = await telemetry.handle(incoming(properties=Broken({"traceparent": SENDER})))

    assert COMPLETED == outcome
    assert "goes on without a trace" in caplog.text
