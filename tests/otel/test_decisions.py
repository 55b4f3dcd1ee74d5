"""Each backout decision has one span event, in the trace of the failure before it."""

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from mqflow.events import Attempt, Decided, Disposed, InDoubt
from mqflow.mqi.reason_codes import Reason
from mqflow.otel.decisions import REMEMBERED_MAX, DecisionSpans
from mqflow.otel.tracers import Tracers
from mqflow.policy.poison.disposition import DeadLetter, Deliver, Disposition, Failed, Outcome, Requeue, Return
from tests.otel.harness import DESCRIPTOR, MESSAGE_ID, StoppedClock, Telemetry, incoming

pytestmark = pytest.mark.anyio

FAILED = Failed("orders.OutOfStockError", "item 7")
PLAN: tuple[Disposition, ...] = (
    Requeue("ORDERS.BOQ"),
    DeadLetter("QM1.DLQ", Reason.BACKOUT_THRESHOLD_REACHED),
    Return("nothing took it"),
)


def decided(*plan: Disposition, count: int = 3, outcome: Outcome | None = None, message_id: bytes = MESSAGE_ID) -> Decided:
    return Decided(
        queue="ORDERS.IN", message_id=message_id, listener="orders", backout_count=count, threshold=3,
        backout_requeue_queue="ORDERS.BOQ", threshold_source="BOTHRESH of ORDERS.IN", queue_source="the listener", plan=plan,
        outcome=outcome,
    )  # fmt: skip


def disposed(*attempts: Attempt, message_id: bytes = MESSAGE_ID) -> Disposed:
    return Disposed(queue="ORDERS.IN", message_id=message_id, listener="orders", backout_count=3, attempts=attempts)


def decisions(telemetry: Telemetry) -> list[tuple[str, SpanEvent]]:
    """Return each exported decision event, with the name of its span."""
    return [(span.name, event) for span in telemetry.spans for event in span.events if event.name == "mqflow.backout.decision"]


async def test_a_decision_span_has_the_facts_and_the_answer_of_each_destination(telemetry: Telemetry) -> None:
    telemetry.hook(decided(*PLAN, outcome=FAILED))
    telemetry.hook(disposed(Attempt(PLAN[0], Reason.Q_FULL, "the queue is full"), Attempt(PLAN[1])))

    [(span_name, event)] = decisions(telemetry)
    assert "settle ORDERS.IN" == span_name
    assert {
        "mqflow.backout.count": 3, "mqflow.backout.threshold": 3, "mqflow.backout.threshold_source": "BOTHRESH of ORDERS.IN",
        "mqflow.backout.requeue_queue": "ORDERS.BOQ", "mqflow.backout.requeue_queue_source": "the listener",
        "mqflow.backout.plan": ("requeue ORDERS.BOQ", "dead_letter QM1.DLQ", "return"),
        "mqflow.backout.tried": ("requeue ORDERS.BOQ", "dead_letter QM1.DLQ"), "mqflow.backout.reasons": (2053, 0),
        "mqflow.backout.disposition": "dead_letter", "mqflow.backout.destination": "QM1.DLQ",
        "mqflow.backout.outcome": "failed", "error.type": "orders.OutOfStockError",
    } == dict(event.attributes or {})  # fmt: skip


async def test_the_span_of_a_decision_to_deliver_ends_immediately(telemetry: Telemetry) -> None:
    telemetry.hook(decided(Deliver(), count=1))

    [(span_name, event)] = decisions(telemetry)
    assert "settle ORDERS.IN" == span_name
    assert "deliver" == (event.attributes or {})["mqflow.backout.disposition"]
    assert () == (event.attributes or {})["mqflow.backout.tried"]


async def test_a_delivery_links_to_the_one_that_failed_before(telemetry: Telemetry) -> None:
    again = incoming(descriptor=replace(DESCRIPTOR, backout_count=1))

    await telemetry.handle(outcome=FAILED)
    await telemetry.handle(again)

    failed, delivered_again = telemetry.spans
    assert [failed.context] == [link.context for link in delivered_again.links]


async def test_a_decision_after_a_failure_belongs_to_the_trace_of_that_failure(telemetry: Telemetry) -> None:
    await telemetry.handle(outcome=FAILED)
    telemetry.hook(decided(*PLAN, outcome=FAILED))
    telemetry.hook(disposed(Attempt(PLAN[0])))

    process, settle = telemetry.span("process ORDERS.IN"), telemetry.span("settle ORDERS.IN")
    assert process.context == settle.parent
    assert SpanKind.CLIENT == settle.kind
    assert ["settle ORDERS.IN"] == [name for name, _ in decisions(telemetry)]


async def test_a_decision_taken_again_on_the_same_message_is_written_down_once(telemetry: Telemetry) -> None:
    telemetry.hook(decided(*PLAN, count=3))
    telemetry.clock.now_s += 2
    telemetry.hook(decided(*PLAN, count=4))
    telemetry.clock.now_s += 1
    telemetry.hook(disposed(Attempt(PLAN[0])))
    telemetry.hook(disposed(Attempt(PLAN[0])))

    [(_, event)] = decisions(telemetry)
    assert 4 == (event.attributes or {})["mqflow.backout.count"]
    span = telemetry.span("settle ORDERS.IN")
    assert span.start_time is not None
    assert span.end_time is not None
    assert 3_000_000_000 == span.end_time - span.start_time


async def test_a_message_that_nothing_accepts_is_an_error(telemetry: Telemetry) -> None:
    telemetry.hook(decided(*PLAN))
    refused = (Attempt(PLAN[0], Reason.PUT_INHIBITED), Attempt(PLAN[1], Reason.UNKNOWN_OBJECT_NAME), Attempt(PLAN[2]))
    telemetry.hook(disposed(*refused))

    span = telemetry.span("settle ORDERS.IN")
    assert StatusCode.ERROR == span.status.status_code
    [(_, event)] = decisions(telemetry)
    assert (2051, 2085, 0) == (event.attributes or {})["mqflow.backout.reasons"]


async def test_a_commit_in_doubt_is_an_error_span_for_each_message(telemetry: Telemetry) -> None:
    in_doubt = InDoubt(
        queue="ORDERS.IN", listener="orders", reason=Reason.CALL_INTERRUPTED, message_ids=(MESSAGE_ID, b"other".ljust(24))
    )
    telemetry.hook(in_doubt)

    assert ["MQRC_CALL_INTERRUPTED (2549)"] * 2 == [(span.attributes or {})["error.type"] for span in telemetry.spans]


async def test_the_texts_of_failures_and_refusals_are_in_no_span(telemetry: Telemetry) -> None:
    canary = "canary-5f3a"

    telemetry.hook(decided(*PLAN, outcome=Failed("app.Error", canary)))
    telemetry.hook(disposed(Attempt(PLAN[0], Reason.Q_FULL, canary), Attempt(Return(canary))))

    assert 1 == len(telemetry.spans)
    assert canary not in telemetry.spans[0].to_json()


async def test_decisions_that_never_end_are_forgotten_oldest_first(telemetry: Telemetry) -> None:
    ids = [number.to_bytes(24) for number in range(REMEMBERED_MAX + 1)]

    for message_id in ids:
        telemetry.hook(decided(*PLAN, message_id=message_id))
    telemetry.hook(disposed(Attempt(PLAN[0]), message_id=ids[0]))
    assert [] == telemetry.spans
    telemetry.hook(disposed(Attempt(PLAN[0]), message_id=ids[1]))

    assert 1 == len(telemetry.spans)


def test_a_failure_is_remembered_from_its_last_time_on() -> None:
    memory = DecisionSpans(Tracers(None), StoppedClock())
    span = SpanContext(trace_id=1, span_id=2, is_remote=False)
    ids = [number.to_bytes(24) for number in range(REMEMBERED_MAX + 1)]

    for message_id in ids[:-1]:
        memory.failed(message_id, span)
    memory.failed(ids[0], span)
    memory.failed(ids[-1], span)

    assert span == memory.failed_in(ids[0])
    assert memory.failed_in(ids[1]) is None
