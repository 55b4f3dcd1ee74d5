"""The keywords of a rules table: the message field of each keyword, its length, and the symbolic names of its numbers.

This module is only about words. `parser` knows the syntax of a table, `actions` the actions of its rules.
Source: IBM q005680 for the pattern keywords; the constants that IBM's own Python package publishes for the symbols.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

from mqflow.mqi.reason_codes import Reason

__all__ = (
    "ACTION_KEYWORDS",
    "CONTROL_KEYWORDS",
    "INTEGER_MAX",
    "NAME_CHARS_MAX",
    "PATTERNS",
    "Field",
    "PatternKeyword",
    "symbols_of",
)

INTEGER_MAX: Final = 999_999_999
NAME_CHARS_MAX: Final = 48

CONTROL_KEYWORDS: Final = ("INPUTQ", "INPUTQM", "RETRYINT", "WAIT")
ACTION_KEYWORDS: Final = ("ACTION", "FWDQ", "FWDQM", "HEADER", "PUTAUT", "RETRY")


class Field(Enum):
    """The fields that a rule can compare, by keyword. They are in the message descriptor, except those of the MQDLH."""

    APPLIDAT = "APPLIDAT"
    APPLNAME = "APPLNAME"
    APPLTYPE = "APPLTYPE"
    DESTQ = "DESTQ"
    """DestQName of the MQDLH."""
    DESTQM = "DESTQM"
    """DestQMgrName of the MQDLH."""
    FEEDBACK = "FEEDBACK"
    FORMAT = "FORMAT"
    """Format of the MQDLH: the format of the data after the MQDLH."""
    MSGTYPE = "MSGTYPE"
    PERSIST = "PERSIST"
    REASON = "REASON"
    """Reason of the MQDLH."""
    REPLYQ = "REPLYQ"
    REPLYQM = "REPLYQM"
    USERID = "USERID"


class PatternKeyword(Struct, frozen=True):
    """The accepted values of a pattern keyword."""

    #: The length of the field; 0 for a number.
    chars_max: int = 0
    #: The prefixes of the symbolic names of its numbers.
    prefixes: tuple[str, ...] = ()


PATTERNS: Final[Mapping[Field, PatternKeyword]] = {
    Field.APPLIDAT: PatternKeyword(32),
    Field.APPLNAME: PatternKeyword(28),
    Field.APPLTYPE: PatternKeyword(prefixes=("MQAT_",)),
    Field.DESTQ: PatternKeyword(NAME_CHARS_MAX),
    Field.DESTQM: PatternKeyword(NAME_CHARS_MAX),
    Field.FEEDBACK: PatternKeyword(prefixes=("MQFB_", "MQRC_")),
    Field.FORMAT: PatternKeyword(8),
    Field.MSGTYPE: PatternKeyword(prefixes=("MQMT_",)),
    Field.PERSIST: PatternKeyword(prefixes=("MQPER_",)),
    Field.REASON: PatternKeyword(prefixes=("MQRC_", "MQFB_")),
    Field.REPLYQ: PatternKeyword(NAME_CHARS_MAX),
    Field.REPLYQM: PatternKeyword(NAME_CHARS_MAX),
    Field.USERID: PatternKeyword(12),
}


def symbols_of(prefix: str) -> Mapping[str, int]:
    """Return the numbers of the symbolic names with this prefix, by full name."""
    return _SYMBOLS[prefix]


_APPLICATION_TYPES: Final = {
    "UNKNOWN": -1, "NO_CONTEXT": 0, "CICS": 1, "MVS": 2, "OS390": 2, "ZOS": 2, "IMS": 3, "OS2": 4, "DOS": 5, "AIX": 6,
    "UNIX": 6, "DEFAULT": 6, "QMGR": 7, "OS400": 8, "WINDOWS": 9, "CICS_VSE": 10, "WINDOWS_NT": 11, "VMS": 12, "GUARDIAN": 13,
    "NSK": 13, "VOS": 14, "OPEN_TP1": 15, "VM": 18, "IMS_BRIDGE": 19, "XCF": 20, "CICS_BRIDGE": 21, "NOTES_AGENT": 22,
    "TPF": 23, "USER": 25, "BROKER": 26, "QMGR_PUBLISH": 26, "JAVA": 28, "DQM": 29, "CHANNEL_INITIATOR": 30, "WLM": 31,
    "BATCH": 32, "RRS_BATCH": 33, "SIB": 34, "SYSTEM_EXTENSION": 35, "MCAST_PUBLISH": 36, "AMQP": 37, "USER_FIRST": 65536,
    "USER_LAST": INTEGER_MAX,
}  # fmt: skip
_FEEDBACKS: Final = {
    "NONE": 0, "SYSTEM_FIRST": 1, "QUIT": 256, "EXPIRATION": 258, "COA": 259, "COD": 260, "CHANNEL_COMPLETED": 262,
    "CHANNEL_FAIL_RETRY": 263, "CHANNEL_FAIL": 264, "APPL_CANNOT_BE_STARTED": 265, "TM_ERROR": 266, "APPL_TYPE_ERROR": 267,
    "STOPPED_BY_MSG_EXIT": 268, "ACTIVITY": 269, "XMIT_Q_MSG_ERROR": 271, "PAN": 275, "NAN": 276, "STOPPED_BY_CHAD_EXIT": 277,
    "STOPPED_BY_PUBSUB_EXIT": 279, "NOT_A_REPOSITORY_MSG": 280, "BIND_OPEN_CLUSRCVR_DEL": 281, "MAX_ACTIVITIES": 282,
    "NOT_FORWARDED": 283, "NOT_DELIVERED": 284, "UNSUPPORTED_FORWARDING": 285, "UNSUPPORTED_DELIVERY": 286,
    "DATA_LENGTH_ZERO": 291, "DATA_LENGTH_NEGATIVE": 292, "DATA_LENGTH_TOO_BIG": 293, "BUFFER_OVERFLOW": 294,
    "LENGTH_OFF_BY_ONE": 295, "IIH_ERROR": 296, "NOT_AUTHORIZED_FOR_IMS": 298, "DATA_LENGTH_TOO_SHORT": 299, "IMS_ERROR": 300,
    "IMS_FIRST": 301, "IMS_LAST": 399, "CICS_INTERNAL_ERROR": 401, "CICS_NOT_AUTHORIZED": 402, "CICS_BRIDGE_FAILURE": 403,
    "CICS_CORREL_ID_ERROR": 404, "CICS_CCSID_ERROR": 405, "CICS_ENCODING_ERROR": 406, "CICS_CIH_ERROR": 407,
    "CICS_UOW_ERROR": 408, "CICS_COMMAREA_ERROR": 409, "CICS_APPL_NOT_STARTED": 410, "CICS_APPL_ABENDED": 411,
    "CICS_DLQ_ERROR": 412, "CICS_UOW_BACKED_OUT": 413, "PUBLICATIONS_ON_REQUEST": 501, "SUBSCRIBER_IS_PUBLISHER": 502,
    "MSG_SCOPE_MISMATCH": 503, "SELECTOR_MISMATCH": 504, "NOT_A_GROUPUR_MSG": 505, "IMS_NACK_1A_REASON_FIRST": 600,
    "IMS_NACK_1A_REASON_LAST": 855, "SYSTEM_LAST": 65535, "APPL_FIRST": 65536, "APPL_LAST": INTEGER_MAX,
}  # fmt: skip
_MESSAGE_TYPES: Final = {
    "REQUEST": 1, "SYSTEM_FIRST": 1, "REPLY": 2, "REPORT": 4, "DATAGRAM": 8, "MQE_FIELDS_FROM_MQE": 112, "MQE_FIELDS": 113,
    "SYSTEM_LAST": 65535, "APPL_FIRST": 65536, "APPL_LAST": INTEGER_MAX,
}  # fmt: skip
_PERSISTENCES: Final = {
    "PERSISTENCE_AS_PARENT": -1,
    "NOT_PERSISTENT": 0,
    "PERSISTENT": 1,
    "PERSISTENCE_AS_Q_DEF": 2,
    "PERSISTENCE_AS_TOPIC_DEF": 2,
}


# Second names of some reasons, and the range of reasons that applications can use. No queue manager shows these names.
_MORE_REASONS: Final = {"APPL_FIRST": 900, "APPL_LAST": 999, "TRUNCATED": 2120, "PAGESET_FULL": 2192}


def _whole(prefix: str, names: Mapping[str, int]) -> dict[str, int]:
    return {prefix + name: number for name, number in names.items()}


_SYMBOLS: Final[Mapping[str, Mapping[str, int]]] = {
    "MQAT_": _whole("MQAT_", _APPLICATION_TYPES),
    "MQFB_": _whole("MQFB_", _FEEDBACKS),
    "MQMT_": _whole("MQMT_", _MESSAGE_TYPES),
    "MQPER_": _whole("MQPER_", _PERSISTENCES),
    "MQRC_": {reason.mq_name: int(reason) for reason in Reason} | _whole("MQRC_", _MORE_REASONS),
}
