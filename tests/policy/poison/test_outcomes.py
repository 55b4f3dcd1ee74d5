"""The outcome of every exception: its cause, whether another delivery can help, and the pause before it."""

import math
from datetime import timedelta
from typing import Any

import pytest

from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Completed, Failed, Interrupted, Outcome, Undecodable
from mqflow.policy.poison.outcomes import Reject, Retry, UndecodableError, outcome_of, readable


class NoSuchFlightError(Exception):
    pass


class NoSuchCarrierError(NoSuchFlightError):
    pass


HERE = __name__


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ValueError("no such flight"), Failed("ValueError", "no such flight")),
     (NoSuchFlightError("UA 1"), Failed(f"{HERE}.NoSuchFlightError", "UA 1")),
     (Reject("never"), Failed("Reject", "never", final=True)),
     (Retry("later"), Failed("Retry", "later")),
     (Retry("later", after=2.5), Failed("Retry", "later", retry_after_s=2.5)),
     (Retry("later", after=timedelta(minutes=1)), Failed("Retry", "later", retry_after_s=60.0)),
     (Retry(after=0), Failed("Retry", retry_after_s=0)),
     (caused(UndecodableError("no JSON"), ValueError("byte 0")), Undecodable("ValueError", "no JSON"))],
    ids=["built in",
         "an exception of the application",
         "Reject",
         "Retry",
         "Retry with seconds",
         "Retry with a timedelta",
         "Retry at once",
         "undecodable"],
)  # fmt: skip
def test_an_exception_means(error: Exception, expected: Outcome) -> None:
    assert expected == outcome_of(error)


@pytest.mark.parametrize("after", [0, 0.5, 3_162_240_000])
def test_a_pause_has_from_no_second_to_a_century(after: float) -> None:
    assert after == Retry(after=after).after_s


def test_an_undecodable_body_without_a_deeper_cause_names_itself() -> None:
    assert Undecodable("mqflow.policy.poison.outcomes.UndecodableError", "no JSON") == outcome_of(UndecodableError("no JSON"))


@pytest.mark.parametrize(
    ("error", "final"),
    [(NoSuchFlightError(), True), (NoSuchCarrierError(), True), (ValueError(), False)],
    ids=["named", "a subclass of the named type", "another"],
)
def test_an_exception_that_is_never_retried_is_final(error: Exception, *, final: bool) -> None:
    outcome = outcome_of(error, (NoSuchFlightError, KeyError))

    assert isinstance(outcome, Failed)
    assert final is outcome.final


@pytest.mark.parametrize(
    ("errors", "final"),
    [
        ([Reject("one"), UndecodableError("two")], True),
        ([Reject("one"), ValueError("two")], False),
        ([UndecodableError("one"), Retry("two")], False),
        ([ExceptionGroup("inner", [Reject("one")]), NoSuchFlightError()], True),
        ([ExceptionGroup("inner", [Reject("one"), ValueError()])], False),
    ],
    ids=["all final", "one may be retried", "one wants to be retried", "nested, all final", "nested, one may be retried"],
)
def test_a_group_is_final_only_if_every_exception_in_it_is(errors: list[Exception], *, final: bool) -> None:
    outcome = outcome_of(ExceptionGroup("two tasks failed", errors), (NoSuchFlightError,))

    assert isinstance(outcome, Failed)
    assert ("ExceptionGroup", "two tasks failed", final) == (outcome.error, outcome.text.partition(" (")[0], outcome.final)


def test_an_outcome_keeps_500_characters_of_an_exception_s_text() -> None:
    outcome = outcome_of(ValueError("x" * 499 + "yz"))

    assert Failed("ValueError", "x" * 499 + "y") == outcome


def test_a_header_that_does_not_hold_together_makes_its_message_undecodable() -> None:
    outcome = outcome_of(error_for(Reason.RFH_ERROR, "MQRFH2"))

    assert isinstance(outcome, Undecodable)
    assert "MQRC_RFH_ERROR (2334)" in outcome.text


@pytest.mark.parametrize("after", [-1, -0.001, 3_162_240_001, float("inf"), float("nan"), timedelta(seconds=-1)])
def test_an_invalid_pause_is_refused_at_its_construction(after: float | timedelta) -> None:
    with pytest.raises(ValueError, match="Retry") as refused:
        Retry(after=after)

    accepted = "the pause is a timedelta or seconds, from 0 to 3162240000 (a century): timedelta(hours=1)."
    assert f"Retry(after={after!r}): {accepted}" == str(refused.value)


class MuteError(Exception):
    def __str__(self) -> str:
        raise KeyError(self.args)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no file caf\udce9"), "no file caf\\udce9"),  # a name that is not UTF-8, as Python decodes it
        (ValueError("日本"), "日本"),
        (MuteError(), "(its text raised KeyError)"),
    ],
)
def test_a_text_is_one_that_can_be_written_everywhere(error: Exception, text: str) -> None:
    outcome = outcome_of(error)

    assert isinstance(outcome, Failed)
    assert text == outcome.text


NO_TEXT: Any = ValueError("no price")
AS_TEXT: Any = "no price"


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        (Failed("Down", "caf\udce9" * 200, final=True), Failed("Down", ("caf\\udce9" * 200)[:500], final=True)),
        (Failed(NO_TEXT, NO_TEXT, retry_after_s=1), Failed(AS_TEXT, AS_TEXT, retry_after_s=1)),
        (Failed("Down", retry_after_s=math.inf), Failed("Down")),
        (Failed("Down", retry_after_s=math.nan), Failed("Down")),
        (Failed("Down", retry_after_s=-1), Failed("Down")),
        (Undecodable("\udce9"), Undecodable("\\udce9")),
        (Interrupted("\udce9"), Interrupted("\\udce9")),
        (Completed(), Completed()),
    ],
)
def test_an_outcome_that_a_handler_makes_itself_has_texts_for_every_record(made: Outcome, kept: Outcome) -> None:
    assert kept == readable(made)


@pytest.mark.parametrize(
    ("errors", "pause_s"),
    [
        ([Retry("later", after=3_600), ValueError("no")], 3_600.0),
        ([Retry("soon", after=1), ExceptionGroup("inner", [Retry("later", after=timedelta(minutes=1))])], 60.0),
        ([Retry("as always"), ValueError("no")], None),
        ([ValueError("no"), Reject("never")], None),
    ],
)
def test_the_longest_pause_in_a_group_of_exceptions_counts(errors: list[Exception], pause_s: float | None) -> None:
    outcome = outcome_of(ExceptionGroup("two tasks failed", errors))

    assert isinstance(outcome, Failed)
    assert (pause_s, False) == (outcome.retry_after_s, outcome.final)
