"""Exceptions: the most specific class, and a sentence with advice."""

import copy
import pickle
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi import errors
from mqflow.mqi.errors import ADVICE, ADVICE_CONNECTING, MQIError, error_for
from mqflow.mqi.reason_codes import CompletionCode, Reason

CLASSES = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
EXACT = [(cls, reason) for cls in CLASSES for reason in cls.reasons]


@pytest.mark.parametrize(
    ("cls", "reason"), EXACT, ids=lambda value: getattr(value, "__name__", None) or getattr(value, "name", None)
)
def test_a_reason_that_has_a_class_is_raised_as_that_class(cls: type[MQIError], reason: Reason) -> None:
    error = error_for(reason, "MQGET", "ORDERS.IN")

    assert cls is type(error)
    assert reason is error.reason


def test_no_reason_has_two_classes() -> None:
    assert [] == [reason for reason, count in Counter(reason for _, reason in EXACT).items() if count > 1]


def test_every_class_but_the_general_one_says_its_reasons() -> None:
    assert [MQIError] == [cls for cls in CLASSES if not cls.reasons]


@given(st.integers(0, 100_000))
def test_every_reason_can_be_raised_and_caught_as_an_mqi_error(reason: int) -> None:
    error = error_for(reason, "MQPUT")

    assert isinstance(error, MQIError)
    assert reason == error.reason


@pytest.mark.parametrize(("reason", "advice"), [*ADVICE.items(), *ADVICE_CONNECTING.items()], ids=str)
def test_advice_is_a_sentence_about_a_real_reason(reason: int, advice: str) -> None:
    assert Reason(reason)
    assert advice.endswith(".")
    assert advice[0].isupper()


@pytest.mark.parametrize("reason", ADVICE_CONNECTING, ids=str)
def test_an_error_of_a_connect_has_advice_on_its_causes(reason: int) -> None:
    assert str(error_for(reason, "MQCONNX")).endswith(f". {ADVICE_CONNECTING[reason]}")
    assert ADVICE_CONNECTING[reason] not in str(error_for(reason, "MQOPEN"))


@pytest.mark.parametrize("reason", ADVICE, ids=str)
def test_an_error_has_the_advice_for_its_reason(reason: int) -> None:
    assert ADVICE[reason] in str(error_for(reason, "MQGET"))


@pytest.mark.parametrize(
    ("reason", "detail", "said"),
    [
        pytest.param(Reason.BACKED_OUT, "", "the messages that it put are gone", id="puts are lost with their unit of work"),
        pytest.param(Reason.EXPIRY_ERROR, "It takes seconds", "In an MQMD or MQSD", id="a put takes seconds, an MQMD tenths"),
        pytest.param(Reason.UNKNOWN_OBJECT_Q_MGR, "", "can be opened for puts only", id="a transmission queue takes puts"),
        pytest.param(Reason.OPTION_NOT_VALID_FOR_TYPE, "", "The type of the object", id="a remote queue or a topic too"),
    ],
)
def test_advice_is_true_for_every_call_with_its_reason(reason: Reason, detail: str, said: str) -> None:
    assert said in str(error_for(reason, "MQPUT", detail=detail))


def test_an_error_says_verb_object_queue_manager_reason_and_detail() -> None:
    error = MQIError(Reason.UNEXPECTED_ERROR, "MQPUT", "ORDERS.IN", "QM1", "The log is full")

    assert "MQPUT on ORDERS.IN (QM1) failed: MQRC_UNEXPECTED_ERROR (2195). The log is full." == str(error)


def test_the_sentence_leaves_unknown_parts_out() -> None:
    assert "MQBACK failed: MQRC 2999." == str(MQIError(2999, "MQBACK"))


def test_a_warning_says_that_it_is_one() -> None:
    error = MQIError(Reason.NOT_CONVERTED, "MQGET", "ORDERS.IN", completion=CompletionCode.WARNING)

    assert "MQGET on ORDERS.IN ended with a warning: MQRC_NOT_CONVERTED (2119)." == str(error)


def through_a_process(error: MQIError) -> object:
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - our own


@pytest.mark.parametrize("copied", [copy.copy, through_a_process])
def test_an_error_is_the_same_in_another_process(copied: Callable[[MQIError], object]) -> None:
    error = error_for(Reason.Q_FULL, "MQPUT", "ORDERS.IN", "QM1", "5000 messages")

    again = copied(error)

    assert type(error) is type(again)
    assert str(error) == str(again)
