"""What an exception out of a handler means for its message."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.disposition import Failed, Outcome, Undecodable
from mqflow.policy.outcomes import TEXT_CHARS_MAX, Reject, Retry, UndecodableError, outcome_of
from mqflow.policy.reply import reply_descriptor


class Outage(Exception):  # noqa: N818 - an application's own name
    """Of an application."""


def undecodable() -> UndecodableError:
    error = UndecodableError("number is missing")
    error.__cause__ = KeyError("number")
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("x"), Failed("ValueError", "x")),
        (Outage("down"), Failed(f"{__name__}.Outage", "down")),
        (PermissionError("no"), Failed("PermissionError", "no", final=True)),
        (Reject("never"), Failed("Reject", "never", final=True)),
        (Retry("later", after=timedelta(minutes=1)), Failed("Retry", "later", retry_after_s=60.0)),
        (Retry(), Failed("Retry", "")),
        (undecodable(), Undecodable("KeyError", "number is missing")),
        (UndecodableError("bare"), Undecodable("mqflow.policy.outcomes.UndecodableError", "bare")),
        (
            ExceptionGroup("g", [Reject("a"), PermissionError("b")]),
            Failed("ExceptionGroup", "g (2 sub-exceptions)", final=True),
        ),
        (ExceptionGroup("g", [Reject("a"), ValueError("b")]), Failed("ExceptionGroup", "g (2 sub-exceptions)")),
    ],
)
def test_an_exception_is_read_as_an_outcome(error: Exception, expected: Outcome) -> None:
    assert expected == outcome_of(error, never_retry=(PermissionError,))


def test_a_header_that_does_not_hold_together_is_undecodable() -> None:
    outcome = outcome_of(error_for(Reason.RFH_ERROR, "MQRFH2"))

    assert isinstance(outcome, Undecodable)
    assert "2334" in outcome.text


def test_a_long_text_is_cut() -> None:
    outcome = outcome_of(ValueError("x" * 10_000))

    assert isinstance(outcome, Failed)
    assert TEXT_CHARS_MAX == len(outcome.text)


REQUEST = MessageDescriptor(
    message_id=b"m" * 24,
    correlation_id=b"c" * 24,
    priority=7,
    persistence=1,
    expiry_tenths=500,
)


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (Report.NONE, {"message_id": bytes(24), "correlation_id": b"m" * 24, "expiry_tenths": -1, "report": 0}),
        (Report.PASS_MSG_ID, {"message_id": b"m" * 24, "correlation_id": b"m" * 24}),
        (Report.PASS_CORREL_ID, {"message_id": bytes(24), "correlation_id": b"c" * 24}),
        (Report.PASS_DISCARD_AND_EXPIRY, {"expiry_tenths": 500, "report": 0}),
        (Report.PASS_DISCARD_AND_EXPIRY | Report.DISCARD_MSG, {"expiry_tenths": 500, "report": int(Report.DISCARD_MSG)}),
        (Report.DISCARD_MSG, {"expiry_tenths": -1, "report": 0}),
    ],
)
def test_a_reply_follows_its_requests_report_options(report: Report, expected: dict[str, object]) -> None:
    made = reply_descriptor(replace(REQUEST, report=int(report)))

    assert expected == {name: getattr(made, name) for name in expected}
    assert (2, 7, 1) == (made.message_type, made.priority, made.persistence)
