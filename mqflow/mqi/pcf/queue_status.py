"""The PCF command Inquire Queue Status as an application sends it, and the number in its response. Pure.

Source: IBM, "Inquire Queue Status" and its response: MQIACF_OLDEST_MSG_AGE (MSGAGE) is -1 without queue monitoring (MONQ), and
MQIACF_UNCOMMITTED_MSGS (UNCOM) is on Multiplatforms the number of uncommitted puts and gets.
"""

from typing import Final

from mqflow.mqi.pcf.codes import CommandCode, ParameterId
from mqflow.mqi.pcf.structures import CFH, CFIL, CFIN, CFST, PCFMessage, to_bytes

__all__ = ("inquire_status", "number_in")

_Q_NAME: Final = 2016


def inquire_status(queue: str, attribute: int, *, encoding: int, ccsid: int) -> bytes:
    """Return the command that asks for this number in the status of the queue."""
    parameters = (
        CFST(_Q_NAME, queue),
        CFIN(ParameterId.Q_STATUS_TYPE, ParameterId.Q_STATUS),
        CFIL(ParameterId.Q_STATUS_ATTRS, (attribute,)),
    )
    header = CFH(command=CommandCode.INQUIRE_Q_STATUS)
    return to_bytes(PCFMessage(header, parameters), encoding=encoding, ccsid=ccsid)


def number_in(response: PCFMessage, attribute: int) -> int | None:
    """Return the number; None if the response has none, or if the queue manager does not know it."""
    found = [each.value for each in response.parameters if isinstance(each, CFIN) and each.parameter == attribute]
    return found[0] if found and found[0] >= 0 else None
