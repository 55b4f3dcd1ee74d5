"""The PCF command Inquire Queue Status as an application sends it, and the age of the oldest message in its response. Pure.

Source: IBM, "Inquire Queue Status" and its response: MQIACF_OLDEST_MSG_AGE (MSGAGE) is -1 without queue monitoring (MONQ).
"""

from typing import Final

from mqflow.mqi.pcf.codes import CommandCode, ParameterId
from mqflow.mqi.pcf.structures import CFH, CFIL, CFIN, CFST, PCFMessage, to_bytes

__all__ = ("inquire_oldest_age", "oldest_age_s")

_Q_NAME: Final = 2016
_OLDEST_MSG_AGE: Final = 1227


def inquire_oldest_age(queue: str, *, encoding: int, ccsid: int) -> bytes:
    """Return the command that asks for MSGAGE of the queue."""
    parameters = (
        CFST(_Q_NAME, queue),
        CFIN(ParameterId.Q_STATUS_TYPE, ParameterId.Q_STATUS),
        CFIL(ParameterId.Q_STATUS_ATTRS, (_OLDEST_MSG_AGE,)),
    )
    header = CFH(command=CommandCode.INQUIRE_Q_STATUS)
    return to_bytes(PCFMessage(header, parameters), encoding=encoding, ccsid=ccsid)


def oldest_age_s(response: PCFMessage) -> int | None:
    """Return MSGAGE in seconds; None if the response has none, or if the queue is not monitored."""
    found = [each.value for each in response.parameters if isinstance(each, CFIN) and each.parameter == _OLDEST_MSG_AGE]
    return found[0] if found and found[0] >= 0 else None
