"""The option bits and enumerations of the MQI, with IBM's numbers and without their prefixes.

`OpenOption.OUTPUT` is MQOO_OUTPUT. The queue manager refuses wrong combinations; this module does not.
Source: the constants that IBM's own Python package publishes (MQOO_*, MQGMO_*, MQPMO_*, MQMO_*, MQCO_*, MQRO_*, MQMF_*, MQFB_*,
MQAT_* and others).
"""

from enum import IntEnum, IntFlag
from typing import Final

__all__ = (
    "ApplicationType",
    "CloseOption",
    "Encoding",
    "Feedback",
    "Format",
    "GetOption",
    "MatchOption",
    "MessageFlag",
    "MessageType",
    "ObjectType",
    "OpenOption",
    "Persistence",
    "PutOption",
    "QueueType",
    "Report",
    "SubscribeOption",
    "SubscriptionRequestOption",
    "fails_its_unit",
    "option_names",
)


class OpenOption(IntFlag):
    """MQOO_*: the uses of an open object."""

    BIND_AS_Q_DEF = 0
    INPUT_AS_Q_DEF = 0x1
    INPUT_SHARED = 0x2
    INPUT_EXCLUSIVE = 0x4
    BROWSE = 0x8
    OUTPUT = 0x10
    INQUIRE = 0x20
    SET = 0x40
    SAVE_ALL_CONTEXT = 0x80
    PASS_IDENTITY_CONTEXT = 0x100
    PASS_ALL_CONTEXT = 0x200
    SET_IDENTITY_CONTEXT = 0x400
    SET_ALL_CONTEXT = 0x800
    ALTERNATE_USER_AUTHORITY = 0x1000
    FAIL_IF_QUIESCING = 0x2000
    BIND_ON_OPEN = 0x4000
    BIND_NOT_FIXED = 0x8000
    RESOLVE_NAMES = 0x10000
    CO_OP = 0x20000
    RESOLVE_LOCAL_Q = 0x40000
    NO_READ_AHEAD = 0x80000
    READ_AHEAD = 0x100000
    NO_MULTICAST = 0x200000
    BIND_ON_GROUP = 0x400000


class GetOption(IntFlag):
    """MQGMO_*: the options of a get."""

    NONE = 0
    WAIT = 0x1
    SYNCPOINT = 0x2
    NO_SYNCPOINT = 0x4
    SET_SIGNAL = 0x8
    BROWSE_FIRST = 0x10
    BROWSE_NEXT = 0x20
    ACCEPT_TRUNCATED_MSG = 0x40
    MARK_SKIP_BACKOUT = 0x80
    MSG_UNDER_CURSOR = 0x100
    LOCK = 0x200
    UNLOCK = 0x400
    BROWSE_MSG_UNDER_CURSOR = 0x800
    SYNCPOINT_IF_PERSISTENT = 0x1000
    FAIL_IF_QUIESCING = 0x2000
    CONVERT = 0x4000
    LOGICAL_ORDER = 0x8000
    COMPLETE_MSG = 0x10000
    ALL_MSGS_AVAILABLE = 0x20000
    ALL_SEGMENTS_AVAILABLE = 0x40000
    MARK_BROWSE_HANDLE = 0x100000
    MARK_BROWSE_CO_OP = 0x200000
    UNMARK_BROWSE_CO_OP = 0x400000
    UNMARK_BROWSE_HANDLE = 0x800000
    UNMARKED_BROWSE_MSG = 0x1000000
    PROPERTIES_FORCE_MQRFH2 = 0x2000000
    NO_PROPERTIES = 0x4000000
    PROPERTIES_IN_HANDLE = 0x8000000
    PROPERTIES_COMPATIBILITY = 0x10000000
    BROWSE_HANDLE = 0x01100010
    BROWSE_CO_OP = 0x01200010


class PutOption(IntFlag):
    """MQPMO_*: the options of a put."""

    NONE = 0
    SYNCPOINT = 0x2
    NO_SYNCPOINT = 0x4
    DEFAULT_CONTEXT = 0x20
    NEW_MSG_ID = 0x40
    NEW_CORREL_ID = 0x80
    PASS_IDENTITY_CONTEXT = 0x100
    PASS_ALL_CONTEXT = 0x200
    SET_IDENTITY_CONTEXT = 0x400
    SET_ALL_CONTEXT = 0x800
    ALTERNATE_USER_AUTHORITY = 0x1000
    FAIL_IF_QUIESCING = 0x2000
    NO_CONTEXT = 0x4000
    LOGICAL_ORDER = 0x8000
    ASYNC_RESPONSE = 0x10000
    SYNC_RESPONSE = 0x20000
    RESOLVE_LOCAL_Q = 0x40000
    WARN_IF_NO_SUBS_MATCHED = 0x80000
    RETAIN = 0x200000
    MD_FOR_OUTPUT_ONLY = 0x800000
    SCOPE_QMGR = 0x4000000
    SUPPRESS_REPLYTO = 0x8000000
    NOT_OWN_SUBS = 0x10000000


class MatchOption(IntFlag):
    """MQMO_*: the fields that the wanted message must match."""

    NONE = 0
    MSG_ID = 0x1
    CORREL_ID = 0x2
    GROUP_ID = 0x4
    MSG_SEQ_NUMBER = 0x8
    OFFSET = 0x10
    MSG_TOKEN = 0x20


class CloseOption(IntFlag):
    """MQCO_*: whether the close of a handle deletes its dynamic queue or its subscription."""

    NONE = 0
    DELETE = 0x1
    DELETE_PURGE = 0x2
    KEEP_SUB = 0x4
    REMOVE_SUB = 0x8
    QUIESCE = 0x20


class SubscribeOption(IntFlag):
    """MQSO_*: the action of MQSUB, and the properties of the subscription. NON_DURABLE is 0, so it is not a bit."""

    NONE = 0
    ALTER = 0x1
    CREATE = 0x2
    RESUME = 0x4
    DURABLE = 0x8
    GROUP_SUB = 0x10
    MANAGED = 0x20
    SET_IDENTITY_CONTEXT = 0x40
    NO_MULTICAST = 0x80
    FIXED_USERID = 0x100
    ANY_USERID = 0x200
    PUBLICATIONS_ON_REQUEST = 0x800
    NEW_PUBLICATIONS_ONLY = 0x1000
    FAIL_IF_QUIESCING = 0x2000
    ALTERNATE_USER_AUTHORITY = 0x40000
    WILDCARD_CHAR = 0x100000
    WILDCARD_TOPIC = 0x200000
    SET_CORREL_ID = 0x400000
    SCOPE_QMGR = 0x4000000
    NO_READ_AHEAD = 0x8000000
    READ_AHEAD = 0x10000000


class SubscriptionRequestOption(IntFlag):
    """MQSRO_*: the options of MQSUBRQ."""

    NONE = 0
    FAIL_IF_QUIESCING = 0x2000


class Report(IntFlag):
    """MQRO_*: the reports that a sender asks for, and the disposition of a message that cannot be delivered.

    MQRO_DEAD_LETTER_Q is 0, so it is not a bit; DISCARD_MSG is a bit. The ``*_WITH_DATA`` forms contain the plain bit, so
    compare under a mask (`EXCEPTION_MASK` ...), never with one bit.
    """

    NONE = 0
    PAN = 0x1
    NAN = 0x2
    ACTIVITY = 0x4
    PASS_CORREL_ID = 0x40
    PASS_MSG_ID = 0x80
    COA = 0x100
    COA_WITH_DATA = 0x300
    COA_WITH_FULL_DATA = 0x700
    COD = 0x800
    COD_WITH_DATA = 0x1800
    COD_WITH_FULL_DATA = 0x3800
    PASS_DISCARD_AND_EXPIRY = 0x4000
    EXPIRATION = 0x200000
    EXPIRATION_WITH_DATA = 0x600000
    EXPIRATION_WITH_FULL_DATA = 0xE00000
    EXCEPTION = 0x1000000
    EXCEPTION_WITH_DATA = 0x3000000
    EXCEPTION_WITH_FULL_DATA = 0x7000000
    DISCARD_MSG = 0x8000000
    REJECT_UNSUP_MASK = 0x101C0000
    ACCEPT_UNSUP_MASK = 0xEFE000FF
    ACCEPT_UNSUP_IF_XMIT_MASK = 0x0003FF00
    COA_MASK = 0x700
    COD_MASK = 0x3800
    EXPIRATION_MASK = 0xE00000
    EXCEPTION_MASK = 0x7000000


class MessageFlag(IntFlag):
    """MQMF_*: groups and segments."""

    NONE = 0
    SEGMENTATION_ALLOWED = 0x1
    SEGMENT = 0x2
    LAST_SEGMENT = 0x4
    MSG_IN_GROUP = 0x8
    LAST_MSG_IN_GROUP = 0x10


class MessageType(IntEnum):
    """MQMT_*. Applications may use types of their own from 65536 on, so a descriptor holds a plain number."""

    REQUEST = 1
    REPLY = 2
    REPORT = 4
    DATAGRAM = 8


class Persistence(IntEnum):
    """MQPER_*."""

    NOT_PERSISTENT = 0
    PERSISTENT = 1
    AS_Q_DEF = 2


class ObjectType(IntEnum):
    """MQOT_*: the type of a named object."""

    Q = 1
    NAMELIST = 2
    PROCESS = 3
    Q_MGR = 5
    TOPIC = 8


class QueueType(IntEnum):
    """MQQT_*."""

    LOCAL = 1
    MODEL = 2
    ALIAS = 3
    REMOTE = 6


class Feedback(IntEnum):
    """MQFB_*: the cause of a report. A feedback may also be any reason code."""

    NONE = 0
    QUIT = 256
    EXPIRATION = 258
    COA = 259
    COD = 260
    APPL_CANNOT_BE_STARTED = 265
    TM_ERROR = 266
    APPL_TYPE_ERROR = 267
    STOPPED_BY_MSG_EXIT = 268
    ACTIVITY = 269
    XMIT_Q_MSG_ERROR = 271
    PAN = 275
    NAN = 276
    NOT_DELIVERED = 284
    DATA_LENGTH_ZERO = 291
    DATA_LENGTH_NEGATIVE = 292
    DATA_LENGTH_TOO_BIG = 293
    BUFFER_OVERFLOW = 294
    LENGTH_OFF_BY_ONE = 295
    APPL_FIRST = 65536
    APPL_LAST = 999999999


class ApplicationType(IntEnum):
    """MQAT_*: the kind of program that put a message."""

    UNKNOWN = -1
    NO_CONTEXT = 0
    CICS = 1
    ZOS = 2
    IMS = 3
    UNIX = 6
    QMGR = 7
    OS400 = 8
    WINDOWS = 9
    WINDOWS_NT = 11
    USER = 25
    BROKER = 26
    JAVA = 28
    DQM = 29
    CHANNEL_INITIATOR = 30
    SYSTEM_EXTENSION = 35
    AMQP = 37


class Encoding:
    """MQENC_*: the layout of numbers in a message. The members are complete values; use the masks for their parts."""

    NORMAL: Final = 0x111
    """273: everything big-endian, as Java writes it."""
    NATIVE: Final = 0x222
    """546: everything little-endian, as x86 and ARM write it."""
    ZOS: Final = 0x311
    """785: big-endian with S/390 floats."""
    INTEGER_MASK: Final = 0xF
    DECIMAL_MASK: Final = 0xF0
    FLOAT_MASK: Final = 0xF00
    INTEGER_REVERSED: Final = 0x2
    DECIMAL_REVERSED: Final = 0x20
    FLOAT_REVERSED: Final = 0x200


class Format:
    """MQFMT_*: names of formats. In the MQMD a name is padded with blanks to eight characters; here it has no padding."""

    NONE: Final = ""
    STRING: Final = "MQSTR"
    RF_HEADER_2: Final = "MQHRF2"
    RF_HEADER_1: Final = "MQHRF"
    DEAD_LETTER_HEADER: Final = "MQDEAD"
    MD_EXTENSION: Final = "MQHMDE"
    XMIT_Q_HEADER: Final = "MQXMIT"
    ADMIN: Final = "MQADMIN"
    PCF: Final = "MQPCF"
    EVENT: Final = "MQEVENT"
    TRIGGER: Final = "MQTRIG"
    DIST_HEADER: Final = "MQHDIST"
    EMBEDDED_PCF: Final = "MQHEPCF"
    REF_MSG_HEADER: Final = "MQHREF"
    CICS: Final = "MQCICS"
    IMS: Final = "MQIMS"
    IMS_VAR_STRING: Final = "MQIMSVS"
    WORK_INFO_HEADER: Final = "MQHWIH"


_PREFIXES: Final[dict[type[IntFlag], str]] = {
    OpenOption: "MQOO_",
    GetOption: "MQGMO_",
    PutOption: "MQPMO_",
    CloseOption: "MQCO_",
    SubscribeOption: "MQSO_",
}


def fails_its_unit(options: int, persistence: int) -> bool:
    """Return whether the failure of a put that the program does not wait for makes MQCMIT fail with 2003.

    The failed put of a non-persistent message does not make MQCMIT fail: only MQSTAT reports this failure. For
    MQPER_PERSISTENCE_AS_Q_DEF, the client does not know the persistence, and the commit fails. Source: IBM, "Putting messages
    asynchronously", jms20 for Go.
    """
    return bool(options & PutOption.SYNCPOINT) and persistence != Persistence.NOT_PERSISTENT


def option_names(options: IntFlag) -> str:
    """Return the options by their MQI names, ``MQOO_BROWSE, MQOO_OUTPUT``, in the order of their bits.

    An option that is a combination of bits appears as its parts.
    """
    prefix = _PREFIXES[type(options)]
    return ", ".join(f"{prefix}{option.name}" for option in options)
