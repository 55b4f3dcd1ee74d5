"""Decides how long to wait between two attempts to get a connection back.

What a reason code asks for is in `reason_classes`. Knows numbers only; attempts, clocks and connections are the runtime's.
Source: IBM, "Automatic JMS client reconnection with CCDTs" for the delays.
"""

from typing import Final

from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.reason_classes import CLASSES, Class, classify

__all__ = ("CLASSES", "LADDER", "Class", "classify", "connection_gone", "delay_s", "leaves_in_doubt")

LADDER: Final[tuple[tuple[float, float], ...]] = ((1, 0.25), (2, 0.5), (4, 1), (8, 2), (16, 4), (25, 6.25))
"""The delay before each attempt: seconds that are fixed, and seconds left to chance. The last goes on for ever."""


_GONE: Final = frozenset(
    {
        Reason.CONNECTION_BROKEN,
        Reason.CONNECTION_STOPPING,
        Reason.CONNECTION_STOPPED,
        Reason.Q_MGR_STOPPING,
        Reason.Q_MGR_NOT_AVAILABLE,
        Reason.CONNECTION_ERROR,
        Reason.HCONN_ERROR,
    }
)


def connection_gone(reason: int) -> bool:
    """Return whether a connection that a verb ended with this reason on leads nowhere, so that no MQDISC can commit on it.

    Fewer reasons than ask for another connection: after 2195 or 2549 it may be alive, and one that quiesces is.
    """
    return reason in _GONE


def delay_s(attempt: int, random: float, ladder: tuple[tuple[float, float], ...] = LADDER) -> float:
    """Return how long to wait, in seconds, before this attempt: 1 is the first after the connection was lost.

    `random` is in [0, 1): it keeps applications that lost the same queue manager from coming back in the same moment.
    """
    fixed_s, random_s = ladder[min(max(attempt, 1), len(ladder)) - 1]
    return fixed_s + random_s * random


def leaves_in_doubt(error: MQIError) -> bool:
    """Return whether the error is that of a commit which may have happened: any but 2003, which says that it did not."""
    return error.verb == "MQCMIT" and error.reason != Reason.BACKED_OUT
