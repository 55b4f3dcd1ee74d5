"""One reading of every exception: whose fault it is, whether another delivery can help, and after which pause."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.policy.disposition import Failed, Outcome, Undecodable
from mqflow.policy.outcomes import TEXT_CHARS_MAX, Reject, Retry, UndecodableError, outcome_of


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
    [
        (ValueError("no such flight"), Failed("ValueError", "no such flight")),
        (NoSuchFlightError("UA 1"), Failed(f"{HERE}.NoSuchFlightError", "UA 1")),
        (Reject("never"), Failed("Reject", "never", final=True)),
        (Retry("later"), Failed("Retry", "later")),
        (Retry("later", after=2.5), Failed("Retry", "later", retry_after_s=2.5)),
        (Retry("later", after=timedelta(minutes=1)), Failed("Retry", "later", retry_after_s=60.0)),
        (Retry(after=0), Failed("Retry", retry_after_s=0)),
        (caused(UndecodableError("no JSON"), ValueError("byte 0")), Undecodable("ValueError", "no JSON")),
    ],
    ids=[
        "built in",
        "one's own",
        "Reject",
        "Retry",
        "Retry with seconds",
        "Retry with a timedelta",
        "Retry at once",
        "undecodable",
    ],
)
def test_an_exception_means(error: Exception, expected: Outcome) -> None:
    assert expected == outcome_of(error)


def test_an_undecodable_body_without_a_deeper_cause_names_itself() -> None:
    assert Undecodable("mqflow.policy.outcomes.UndecodableError", "no JSON") == outcome_of(UndecodableError("no JSON"))


@pytest.mark.parametrize(
    ("error", "final"),
    [(NoSuchFlightError(), True), (NoSuchCarrierError(), True), (ValueError(), False)],
    ids=["named", "derived from what is named", "another"],
)
def test_an_exception_that_is_never_retried_is_final(error: Exception, final: bool) -> None:  # noqa: FBT001 - a column
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
def test_a_group_is_final_only_if_every_exception_in_it_is(errors: list[Exception], final: bool) -> None:  # noqa: FBT001 - a column
    outcome = outcome_of(ExceptionGroup("two tasks failed", errors), (NoSuchFlightError,))

    assert isinstance(outcome, Failed)
    assert ("ExceptionGroup", final) == (outcome.error, outcome.final)


@given(st.text(max_size=2 * TEXT_CHARS_MAX))
def test_an_outcome_keeps_no_more_than_the_bound_of_an_exception_s_text(text: str) -> None:
    outcome = outcome_of(ValueError(text))

    assert isinstance(outcome, Failed)
    assert text[:500] == outcome.text


@pytest.mark.parametrize("after", [-1, -0.001, float("inf"), float("nan"), timedelta(seconds=-1)])
def test_a_pause_that_is_none_is_refused_where_it_is_written(after: float | timedelta) -> None:
    with pytest.raises(ValueError, match="the pause is a timedelta or seconds, not negative and finite"):
        Retry(after=after)
