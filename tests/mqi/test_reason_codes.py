"""Reason and completion codes: IBM's numbers, by IBM's names."""

import pytest

from mqflow.mqi.reason_codes import CompletionCode, Reason, reason_name

#: Numbers from the reason code pages of IBM MQ.
NUMBERS = {
    "NONE": 0, "BACKED_OUT": 2003, "CONNECTION_BROKEN": 2009, "GET_INHIBITED": 2016, "SYNCPOINT_LIMIT_REACHED": 2024,
    "MSG_TOO_BIG_FOR_Q": 2030, "NO_MSG_AVAILABLE": 2033, "NOT_AUTHORIZED": 2035, "OPTIONS_ERROR": 2046, "PUT_INHIBITED": 2051,
    "Q_FULL": 2053, "SELECTOR_NOT_FOR_TYPE": 2068, "TRUNCATED_MSG_ACCEPTED": 2079, "TRUNCATED_MSG_FAILED": 2080,
    "UNKNOWN_OBJECT_NAME": 2085, "FORMAT_ERROR": 2110, "NOT_CONVERTED": 2119, "CONVERTED_MSG_TOO_BIG": 2120, "DLH_ERROR": 2141,
    "HEADER_ERROR": 2142, "Q_MGR_QUIESCING": 2161, "MDE_ERROR": 2248, "RFH_ERROR": 2334, "RFH_STRING_ERROR": 2335,
    "BACKOUT_THRESHOLD_REACHED": 2362, "CALL_INTERRUPTED": 2549,
}  # fmt: skip


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_a_reason_has_ibms_number(name: str, number: int) -> None:
    assert number == Reason[name]


def test_no_two_names_have_one_number() -> None:
    assert len(Reason) == len(Reason.__members__)


def test_a_reason_is_printed_by_name_and_number() -> None:
    assert "MQRC_GET_INHIBITED (2016)" == reason_name(2016)
    assert "MQRC_GET_INHIBITED" == Reason.GET_INHIBITED.mq_name


def test_a_number_that_no_name_is_known_for_is_printed_as_it_is() -> None:
    assert "MQRC 2999" == reason_name(2999)


def test_the_completion_codes_are_0_1_and_2() -> None:
    assert [0, 1, 2] == [CompletionCode.OK, CompletionCode.WARNING, CompletionCode.FAILED]
