"""What a pass over all candidates comes to when none could be had."""

import pytest

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.channels.candidates import Candidate
from mqflow.policy.channels.connect_outcome import ConnectFailed, after_pass
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
        ((2538, 2035), Reason.HOST_NOT_AVAILABLE),  # one may succeed later: there is another pass
        ((2035, 2538), Reason.HOST_NOT_AVAILABLE),
        ((2540, 2035), Reason.NOT_AUTHORIZED),  # none can: it is over, with the last reason
        ((2058,), Reason.Q_MGR_NAME_ERROR),
        ((2546, 2546), Reason.RECONNECT_QMID_MISMATCH),
        ((2546, 2538), Reason.HOST_NOT_AVAILABLE),
        ((2071,), Reason.Q_MGR_NOT_AVAILABLE),  # it waits elsewhere; here no connection was had
    ],
)
def test_the_error_of_a_pass_says_whether_there_is_another(reasons: tuple[int, ...], expected: Reason) -> None:
    assert expected == after_pass("*GRP", failed(*reasons)).reason


def test_a_pass_is_over_for_good_only_where_nothing_can_do_better() -> None:
    over = {reason for reason in Reason if classify(int(after_pass("*GRP", failed(reason)).reason)) is not Class.RECONNECT}

    assert {reason for reason in Reason if classify(reason) is Class.CONFIGURATION} == over


def test_every_attempt_is_told_with_its_reason_up_to_ten() -> None:
    few, many = (str(after_pass("*GRP ", failed(*[2538] * count))) for count in (2, 12))

    assert few.count("ORDERS at mq1(1414): MQRC_HOST_NOT_AVAILABLE (2538)") == 2
    assert "MQCONNX (*GRP) failed" in few
    assert "and 2 more" in many


def test_what_an_error_says_of_itself_is_told_too() -> None:
    [one] = failed(2058)
    named = ConnectFailed(one.attempt, MQIError(2058, "MQCONNX", detail="The queue manager there is called QM2."))

    assert "(2058), The queue manager there is called QM2." in str(after_pass("QM1", [named]))
