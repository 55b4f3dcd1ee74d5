"""The error after a pass that tried every candidate and made no connection."""

import pytest

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.channels.candidates import Candidate, ConnectFailed, after_pass
from mqflow.policy.channels.table import Address, Channel
from mqflow.policy.reconnect.reason_classes import Class, classify


def failed(*reasons: int) -> list[ConnectFailed]:
    attempt = Candidate(channel=Channel(name="ORDERS"), address=Address("mq1"), why="")
    return [ConnectFailed(attempt, error_for(reason, "MQCONNX")) for reason in reasons]


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ((2538,), Reason.HOST_NOT_AVAILABLE),
        ((2538, 2538), Reason.HOST_NOT_AVAILABLE),
        ((2538, 2543), Reason.Q_MGR_NOT_AVAILABLE),
        ((2538, 2035), Reason.HOST_NOT_AVAILABLE),  # an attempt may succeed later: another pass follows
        ((2035, 2538), Reason.HOST_NOT_AVAILABLE),
        ((2540, 2035), Reason.NOT_AUTHORIZED),  # no attempt can succeed: the end, with the last reason
        ((2058,), Reason.Q_MGR_NAME_ERROR),
        ((2546, 2546), Reason.RECONNECT_QMID_MISMATCH),
        ((2546, 2538), Reason.HOST_NOT_AVAILABLE),
        ((2071,), Reason.Q_MGR_NOT_AVAILABLE),  # elsewhere this reason waits; here no connection was made
    ],
)
def test_the_error_of_a_pass_says_whether_another_pass_follows(reasons: tuple[int, ...], expected: Reason) -> None:
    assert expected == after_pass("*GRP", failed(*reasons)).reason


def test_the_passes_end_only_if_no_attempt_can_succeed_later() -> None:
    over = {reason for reason in Reason if classify(int(after_pass("*GRP", failed(reason)).reason)) is not Class.RECONNECT}

    assert {reason for reason in Reason if classify(reason) is Class.CONFIGURATION} == over


def test_the_error_lists_up_to_ten_attempts_with_their_reasons() -> None:
    few, ten, eleven, many = (str(after_pass("*GRP ", failed(*[2538] * count))) for count in (2, 10, 11, 12))

    assert few.count("ORDERS at mq1(1414): MQRC_HOST_NOT_AVAILABLE (2538)") == 2
    assert "MQCONNX (*GRP) failed" in few
    assert "and 2 more" in many
    assert ("more" in ten, "and 1 more" in eleven) == (False, True)
    assert [2, 10, 10, 10] == [text.count("ORDERS at mq1(1414)") for text in (few, ten, eleven, many)]


def test_the_detail_of_an_error_is_in_the_list() -> None:
    [one] = failed(2058)
    named = ConnectFailed(one.attempt, MQIError(2058, "MQCONNX", detail="The queue manager there is called QM2."))

    assert "(2058), The queue manager there is called QM2." in str(after_pass("QM1", [named]))
