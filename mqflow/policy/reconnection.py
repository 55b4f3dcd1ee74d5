"""Decides what a reason code asks of whoever runs a connection, and how long to wait between two attempts to get one back.

One table, as data. Knows numbers only; attempts, clocks and connections are the runtime's.
Source: IBM, "Automatic JMS client reconnection with CCDTs" for the delays. IBM publishes no list of the codes that start a
reconnection, so the table is this project's own.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from mqflow.mqi.reason_codes import Reason

__all__ = ("CLASSES", "LADDER", "Class", "classify", "delay_s")


class Class(Enum):
    """What to do about a reason code."""

    RETRY = "retry"
    """Call again at once: the unit of work was backed out, nothing was there, or the buffer must be larger."""
    REOPEN = "reopen"
    """Open the object again: its handle is of no use any more, the connection is."""
    RECONNECT = "reconnect"
    """Get another connection: this one is lost or could not be had, and its unit of work is backed out."""
    WAIT = "wait"
    """Pause, growing, and call again: the connection is sound, and what is in the way may go away."""
    CONFIGURATION = "configuration"
    """Stop and say why: no second attempt can do better before a person changes something."""
    MESSAGE = "message"
    """It is this message, not the queue and not the connection: dispose of it, go on with the next."""


_RETRY: Final = (Reason.BACKED_OUT, Reason.NO_MSG_AVAILABLE, Reason.TRUNCATED_MSG_FAILED)

_REOPEN: Final = (Reason.HOBJ_ERROR, Reason.OBJECT_CHANGED, Reason.Q_DELETED, Reason.HOBJ_QUIESCED, Reason.RECONNECT_FAILED)

_RECONNECT: Final = (
    # The connection was there and is lost.
    Reason.CONNECTION_BROKEN,
    Reason.HCONN_ERROR,
    Reason.Q_MGR_QUIESCING,
    Reason.Q_MGR_STOPPING,
    Reason.CONNECTION_QUIESCING,
    Reason.CONNECTION_STOPPING,
    Reason.CONNECTION_STOPPED,
    Reason.CONNECTION_ERROR,
    Reason.CHANNEL_STOPPED_BY_USER,
    Reason.Q_MGR_RECONNECT_REQUESTED,
    # The outcome of one call is unknown, and so is the state of the connection.
    Reason.CALL_INTERRUPTED,
    Reason.UNEXPECTED_ERROR,
    # It could not be had; a later attempt, or another address, may succeed.
    Reason.Q_MGR_NOT_AVAILABLE,
    Reason.HOST_NOT_AVAILABLE,
    Reason.CHANNEL_NOT_AVAILABLE,
    Reason.STANDBY_Q_MGR,
    Reason.MAX_CONNS_LIMIT_REACHED,
    Reason.CONNECTION_NOT_AVAILABLE,
)

_WAIT: Final = (
    Reason.GET_INHIBITED,
    Reason.PUT_INHIBITED,
    Reason.CLUSTER_PUT_INHIBITED,
    Reason.OBJECT_IN_USE,
    Reason.Q_FULL,
    Reason.Q_SPACE_NOT_AVAILABLE,
    Reason.STORAGE_MEDIUM_FULL,
    Reason.STORAGE_NOT_AVAILABLE,
    Reason.RESOURCE_PROBLEM,
    Reason.HANDLE_NOT_AVAILABLE,
    Reason.NO_DESTINATIONS_AVAILABLE,
    Reason.CLUSTER_RESOLUTION_ERROR,
    Reason.OBJECT_DAMAGED,
)

_CONFIGURATION: Final = (
    # Who one is, and what one may.
    Reason.NOT_AUTHORIZED,
    Reason.SECURITY_ERROR,
    Reason.CONNECTION_NOT_AUTHORIZED,
    Reason.CHANNEL_BLOCKED,
    Reason.KEY_REPOSITORY_ERROR,
    Reason.SSL_CONFIG_ERROR,
    Reason.SSL_INITIALIZATION_ERROR,
    Reason.JSSE_ERROR,
    Reason.SSL_PEER_NAME_MISMATCH,
    Reason.SSL_PEER_NAME_ERROR,
    Reason.UNSUPPORTED_CIPHER_SUITE,
    Reason.SSL_CERTIFICATE_REVOKED,
    # Where to connect to.
    Reason.Q_MGR_NAME_ERROR,
    Reason.CHANNEL_CONFIG_ERROR,
    Reason.UNKNOWN_CHANNEL_NAME,
    Reason.CD_ERROR,
    Reason.CLIENT_CONN_ERROR,
    Reason.CCDT_URL_ERROR,
    Reason.FUNCTION_NOT_SUPPORTED,
    Reason.ENVIRONMENT_ERROR,
    Reason.RECONNECT_QMID_MISMATCH,
    Reason.RECONNECT_INCOMPATIBLE,
    Reason.RECONNECT_Q_MGR_REQD,
    Reason.RECONNECT_TIMED_OUT,
    # What to open, and for what; how much one unit of work may hold.
    Reason.SYNCPOINT_LIMIT_REACHED,
    Reason.ALIAS_BASE_Q_TYPE_ERROR,
    Reason.UNKNOWN_ALIAS_BASE_Q,
    Reason.UNKNOWN_OBJECT_NAME,
    Reason.UNKNOWN_OBJECT_Q_MGR,
    Reason.UNKNOWN_REMOTE_Q_MGR,
    Reason.OBJECT_NAME_ERROR,
    Reason.OBJECT_Q_MGR_NAME_ERROR,
    Reason.OBJECT_TYPE_ERROR,
    Reason.Q_TYPE_ERROR,
    Reason.OPTION_NOT_VALID_FOR_TYPE,
    Reason.OPTIONS_ERROR,
    Reason.DYNAMIC_Q_NAME_ERROR,
    Reason.NOT_OPEN_FOR_BROWSE,
    Reason.NOT_OPEN_FOR_INPUT,
    Reason.NOT_OPEN_FOR_INQUIRE,
    Reason.NOT_OPEN_FOR_OUTPUT,
    Reason.NOT_OPEN_FOR_SET,
    Reason.NOT_OPEN_FOR_PASS_ALL,
    Reason.NOT_OPEN_FOR_PASS_IDENT,
    Reason.NOT_OPEN_FOR_SET_ALL,
    Reason.NOT_OPEN_FOR_SET_IDENT,
    Reason.CONTEXT_HANDLE_ERROR,
    Reason.CONTEXT_NOT_AVAILABLE,
)

_MESSAGE: Final = (
    # Got, but not as wanted.
    Reason.TRUNCATED_MSG_ACCEPTED,
    Reason.FORMAT_ERROR,
    Reason.SOURCE_CCSID_ERROR,
    Reason.SOURCE_INTEGER_ENC_ERROR,
    Reason.SOURCE_DECIMAL_ENC_ERROR,
    Reason.SOURCE_FLOAT_ENC_ERROR,
    Reason.TARGET_CCSID_ERROR,
    Reason.TARGET_INTEGER_ENC_ERROR,
    Reason.TARGET_DECIMAL_ENC_ERROR,
    Reason.TARGET_FLOAT_ENC_ERROR,
    Reason.NOT_CONVERTED,
    Reason.CONVERTED_MSG_TOO_BIG,
    Reason.CONVERTED_STRING_TOO_BIG,
    Reason.PARTIALLY_CONVERTED,
    Reason.DLH_ERROR,
    Reason.HEADER_ERROR,
    Reason.MDE_ERROR,
    Reason.RFH_ERROR,
    Reason.RFH_STRING_ERROR,
    Reason.RFH_FORMAT_ERROR,
    Reason.JMS_FORMAT_ERROR,
    Reason.MSG_NOT_MATCHED,
    Reason.BACKOUT_THRESHOLD_REACHED,
    # Cannot be put as it is.
    Reason.MSG_TOO_BIG_FOR_Q,
    Reason.MSG_TOO_BIG_FOR_Q_MGR,
    Reason.MSG_TOO_BIG_FOR_CHANNEL,
    Reason.EXPIRY_ERROR,
    Reason.FEEDBACK_ERROR,
    Reason.MD_ERROR,
    Reason.MISSING_REPLY_TO_Q,
    Reason.MSG_TYPE_ERROR,
    Reason.PERSISTENCE_ERROR,
    Reason.PERSISTENT_NOT_ALLOWED,
    Reason.PRIORITY_EXCEEDS_MAXIMUM,
    Reason.PRIORITY_ERROR,
    Reason.REPORT_OPTIONS_ERROR,
    Reason.UNKNOWN_REPORT_OPTION,
    Reason.INCONSISTENT_PERSISTENCE,
)

CLASSES: Final[Mapping[int, Class]] = {
    reason: name
    for name, reasons in (
        (Class.RETRY, _RETRY),
        (Class.REOPEN, _REOPEN),
        (Class.RECONNECT, _RECONNECT),
        (Class.WAIT, _WAIT),
        (Class.CONFIGURATION, _CONFIGURATION),
        (Class.MESSAGE, _MESSAGE),
    )
    for reason in reasons
}
"""What is known about reason codes. Everything else waits: that loses nothing, spins nowhere, and is seen."""

LADDER: Final[tuple[tuple[float, float], ...]] = ((1, 0.25), (2, 0.5), (4, 1), (8, 2), (16, 4), (25, 6.25))
"""The delay before each attempt: seconds that are fixed, and seconds left to chance. The last goes on for ever."""


def classify(reason: int) -> Class:
    """Return what to do about a reason code; `Class.WAIT` where the table does not know it."""
    return CLASSES.get(reason, Class.WAIT)


def delay_s(attempt: int, random: float, ladder: tuple[tuple[float, float], ...] = LADDER) -> float:
    """Return how long to wait, in seconds, before this attempt: 1 is the first after the connection was lost.

    `random` is in [0, 1): it keeps applications that lost the same queue manager from coming back in the same moment.
    """
    fixed_s, random_s = ladder[min(max(attempt, 1), len(ladder)) - 1]
    return fixed_s + random_s * random
