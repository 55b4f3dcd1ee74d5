"""The spans and metrics of the DLQ handler, which have no content of a message unless the settings allow it."""

import pytest
from opentelemetry.trace import StatusCode

from mqflow.events import DeadLetterActed
from mqflow.mqi.reason_codes import Reason
from mqflow.otel import TraceSettings
from mqflow.policy.dead_letters.actions import Redirect
from tests.otel.harness import MESSAGE_ID, Telemetry


def acted(reason: int = 0) -> DeadLetterActed:
    return DeadLetterActed(
        queue="DLQ", message_id=MESSAGE_ID, rule="line 4", intent=Redirect("SECRET.NAME"), attempt=2, reason=reason
    )


def test_a_rule_that_was_applied_is_a_span(telemetry: Telemetry) -> None:
    telemetry.hook(acted())

    span = telemetry.span("settle DLQ")
    assert span.attributes is not None
    assert ("line 4", "redirect", 2) == tuple(span.attributes[f"mqflow.{name}"] for name in ("rule", "action", "attempt"))
    assert StatusCode.UNSET is span.status.status_code


def test_an_attempt_in_vain_is_an_error_with_its_reason(telemetry: Telemetry) -> None:
    telemetry.hook(acted(Reason.Q_FULL))

    span = telemetry.span("settle DLQ")
    assert StatusCode.ERROR is span.status.status_code
    assert span.attributes is not None
    assert "MQRC_Q_FULL (2053)" == span.attributes["error.type"]


@pytest.mark.parametrize("allowed", [False, True])
def test_identifiers_are_exported_only_where_that_is_allowed(allowed: object) -> None:
    telemetry = Telemetry(TraceSettings(message_ids=bool(allowed)))

    telemetry.hook(acted())

    exported = str(dict(telemetry.span("settle DLQ").attributes or {}))
    assert bool(allowed) == (MESSAGE_ID.hex() in exported)
    assert "SECRET.NAME" not in exported


def test_each_action_of_a_rule_is_counted(telemetry: Telemetry) -> None:
    for reason in (0, 0, Reason.Q_FULL):
        telemetry.hook(acted(reason))

    rule = {("messaging.destination.name", "DLQ"), ("mqflow.rule", "line 4"), ("mqflow.action", "redirect")}
    expected = {frozenset(rule): 2, frozenset({*rule, ("error.type", "MQRC_Q_FULL (2053)")}): 1}
    assert expected == telemetry.metrics["mqflow.dead_letters"]
