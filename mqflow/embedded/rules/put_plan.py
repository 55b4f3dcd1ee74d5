"""The plan of an MQPUT, the checks of its descriptor, and the context of its message.

The code is pure: it refuses options and descriptors as a queue manager does, and knows no queue.
Source: IBM, MQPUT, MQPMO options and MQMD; rc2013, rc2014, rc2027, rc2029, rc2046, rc2047, rc2050, rc2061, rc2104.
"""

import struct
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.rules.refusal import Refusal
from mqflow.mqi.descriptor import EXPIRY_UNLIMITED, PRIORITY_AS_Q_DEF, MessageDescriptor, type_problem
from mqflow.mqi.names import OBJECT_NAME_CHARS_MAX
from mqflow.mqi.options import MessageFlag, MessageType, OpenOption, Persistence, PutOption, Report, option_names
from mqflow.mqi.reason_codes import Reason

__all__ = ("Context", "PutPlan", "Stamp", "check_descriptor", "plan_put", "with_context")

_NO_ACCOUNTING: Final = bytes(32)
_NO_CONTEXT: Final = MessageDescriptor()
_CONTEXT_CHARS: Final[Mapping[str, int]] = {
    "user_identifier": 12,
    "application_identity_data": 32,
    "put_application_name": 28,
    "put_date": 8,
    "put_time": 8,
    "application_origin_data": 4,
}


class Context(Enum):
    """The source of the context of a put."""

    DEFAULT = "the queue manager fills it in"
    NONE = "blank"
    PASS_IDENTITY = "identity from the message got"  # noqa: S105 - "pass on", not a password
    PASS_ALL = "all from the message got"  # noqa: S105 - as above
    SET_IDENTITY = "identity as the application says"
    SET_ALL = "all as the application says"


class PutPlan(Struct, frozen=True, kw_only=True, gc=False):
    """The meaning of the options of a put (`PutOption`)."""

    under_syncpoint: bool
    context: Context
    #: The open options of which the handle must have one, and the reason code if it has none.
    open_option: int
    refused_with: int
    #: True if the context comes from an input handle.
    from_handle: bool
    new_message_id: bool
    new_correlation_id: bool
    fail_if_quiescing: bool
    suppress_reply_to: bool
    logical: bool
    #: The options that only topics accept.
    for_topics: int = 0


class Stamp(Struct, frozen=True, gc=False):
    """The context that the queue manager sets: user and application of the put, date and time."""

    user: str
    application_type: int
    application_name: str
    date: str
    time: str


_CONTEXTS: Final = {
    PutOption.DEFAULT_CONTEXT: (Context.DEFAULT, 0, 0),
    PutOption.NO_CONTEXT: (Context.NONE, 0, 0),
    PutOption.PASS_IDENTITY_CONTEXT: (
        Context.PASS_IDENTITY,
        OpenOption.PASS_IDENTITY_CONTEXT | OpenOption.PASS_ALL_CONTEXT,
        Reason.NOT_OPEN_FOR_PASS_IDENT,
    ),
    PutOption.PASS_ALL_CONTEXT: (Context.PASS_ALL, OpenOption.PASS_ALL_CONTEXT, Reason.NOT_OPEN_FOR_PASS_ALL),
    PutOption.SET_IDENTITY_CONTEXT: (
        Context.SET_IDENTITY,
        OpenOption.SET_IDENTITY_CONTEXT | OpenOption.SET_ALL_CONTEXT,
        Reason.NOT_OPEN_FOR_SET_IDENT,
    ),
    PutOption.SET_ALL_CONTEXT: (Context.SET_ALL, OpenOption.SET_ALL_CONTEXT, Reason.NOT_OPEN_FOR_SET_ALL),
}
_ALL_OPTIONS: Final = sum(PutOption)
_EXCLUDING: Final = (PutOption.SYNCPOINT | PutOption.NO_SYNCPOINT, PutOption.ASYNC_RESPONSE | PutOption.SYNC_RESPONSE)
_FOR_TOPICS: Final = int(PutOption.WARN_IF_NO_SUBS_MATCHED | PutOption.RETAIN | PutOption.SCOPE_QMGR | PutOption.NOT_OWN_SUBS)


@lru_cache(maxsize=256)
def plan_put(bits: int) -> PutPlan:
    """Return the plan of a put with these options (`bits` is a plain number).

    Refuses with 2046 unknown options, and options that exclude each other.
    """
    if bits & ~_ALL_OPTIONS:
        raise Refusal(Reason.OPTIONS_ERROR, f"0x{bits & ~_ALL_OPTIONS:x} is not an MQPMO option")
    for pair in _EXCLUDING:
        if bits & pair == pair:
            raise Refusal(Reason.OPTIONS_ERROR, f"{option_names(PutOption(pair))} exclude each other")
    contexts = [choice for option, choice in _CONTEXTS.items() if bits & option]
    if len(contexts) > 1:
        raise Refusal(Reason.OPTIONS_ERROR, f"{option_names(PutOption(bits))} has more than one of the context options")
    context, open_option, refused_with = contexts[0] if contexts else (Context.DEFAULT, 0, 0)
    return PutPlan(
        under_syncpoint=bool(bits & PutOption.SYNCPOINT),
        context=context,
        open_option=int(open_option),
        refused_with=refused_with,
        from_handle=context in {Context.PASS_IDENTITY, Context.PASS_ALL},
        new_message_id=bool(bits & PutOption.NEW_MSG_ID),
        new_correlation_id=bool(bits & PutOption.NEW_CORREL_ID),
        fail_if_quiescing=bool(bits & PutOption.FAIL_IF_QUIESCING),
        suppress_reply_to=bool(bits & PutOption.SUPPRESS_REPLYTO),
        for_topics=bits & _FOR_TOPICS,
        logical=bool(bits & PutOption.LOGICAL_ORDER),
    )


_MESSAGE_TYPES: Final = frozenset(MessageType)
_APPLICATION_FIRST: Final = 65_536
_APPLICATION_LAST: Final = 999_999_999
_REPORTS: Final = int(
    Report.COA | Report.COD | Report.EXPIRATION | Report.EXCEPTION | Report.PAN | Report.NAN | Report.ACTIVITY
)
_KNOWN_REPORTS: Final = int(
    Report.COA_MASK | Report.COD_MASK | Report.EXPIRATION_MASK | Report.EXCEPTION_MASK | _REPORTS
    | Report.PASS_CORREL_ID | Report.PASS_MSG_ID | Report.PASS_DISCARD_AND_EXPIRY | Report.DISCARD_MSG
)  # fmt: skip
_FLAGS: Final = sum(MessageFlag)
_ACCEPTED_UNKNOWN: Final = int(Report.ACCEPT_UNSUP_MASK)
_ID_BYTES: Final = 24
# The members that every put compares: looking a member up on its class takes longer than the comparison.
_AS_Q_DEF: Final = int(Persistence.AS_Q_DEF)
_REQUEST: Final = int(MessageType.REQUEST)
_NO_WARNING: Final = Reason.NONE
_DEFAULT: Final = Context.DEFAULT
_FORMAT_CHARS: Final = 8
_LONGS: Final = struct.Struct("10i")


def check_descriptor(descriptor: MessageDescriptor) -> int:
    """Check the descriptor of a message to put. Return 0, or 2104 as the reason of a warning.

    Refuses a wrong field with 2013, 2014, 2026, 2027, 2029, 2047, 2050, 2061 or 2249.
    """
    # A float in a `range` is looked for one by one, which takes a minute.
    if descriptor.message_type not in _MESSAGE_TYPES and not _APPLICATION_FIRST <= descriptor.message_type <= _APPLICATION_LAST:
        raise Refusal(Reason.MSG_TYPE_ERROR, f"MsgType {descriptor.message_type}; 1, 2, 4, 8 or from 65536 on")
    if not 0 <= descriptor.feedback <= _APPLICATION_LAST:
        raise Refusal(Reason.FEEDBACK_ERROR, f"Feedback {descriptor.feedback}; 0 to {_APPLICATION_LAST}")
    if descriptor.expiry_tenths <= 0 and descriptor.expiry_tenths != EXPIRY_UNLIMITED:
        raise Refusal(Reason.EXPIRY_ERROR, f"Expiry {descriptor.expiry_tenths}")
    if not 0 <= descriptor.persistence <= _AS_Q_DEF:
        raise Refusal(Reason.PERSISTENCE_ERROR, f"Persistence {descriptor.persistence}; 0, 1 or 2 (as the queue defines)")
    if descriptor.priority < PRIORITY_AS_Q_DEF:
        raise Refusal(Reason.PRIORITY_ERROR, f"Priority {descriptor.priority}; 0 to 9, or -1 as the queue defines")
    if descriptor.message_flags & ~_FLAGS:
        raise Refusal(Reason.MSG_FLAGS_ERROR, f"MsgFlags 0x{descriptor.message_flags:x}")
    if not descriptor.reply_to_queue and (descriptor.message_type == _REQUEST or descriptor.report & _REPORTS):
        raise Refusal(Reason.MISSING_REPLY_TO_Q, "A request or a report needs a ReplyToQ")
    _check_lengths(descriptor)
    _check_values(descriptor)
    return _check_report(descriptor.report) if descriptor.report else _NO_WARNING


def _check_lengths(descriptor: MessageDescriptor) -> None:
    if not (
        len(descriptor.message_id) == len(descriptor.correlation_id) == len(descriptor.group_id) == _ID_BYTES
        and len(descriptor.format) <= _FORMAT_CHARS
        and len(descriptor.reply_to_queue) <= OBJECT_NAME_CHARS_MAX
        and len(descriptor.reply_to_queue_manager) <= OBJECT_NAME_CHARS_MAX
    ):
        raise Refusal(
            Reason.MD_ERROR, "An identifier is not 24 bytes long, or Format, ReplyToQ or ReplyToQMgr is longer than its field"
        )


def _check_values(descriptor: MessageDescriptor) -> None:
    """Refuse a number that is not an MQLONG, a text that cannot be encoded, and a field of another type, such as True.

    A store or a header cannot contain them. To pack all numbers takes less time than to check each number.
    """
    try:
        _LONGS.pack(
            descriptor.report,
            descriptor.expiry_tenths,
            descriptor.feedback,
            descriptor.encoding,
            descriptor.ccsid,
            descriptor.priority,
            descriptor.put_application_type,
            descriptor.sequence_number,
            descriptor.offset,
            descriptor.original_length,
        )
    except (struct.error, OverflowError, TypeError) as error:
        raise Refusal(Reason.MD_ERROR, f"A number is not an MQLONG: {error}") from error
    if problem := type_problem(descriptor):
        raise Refusal(Reason.MD_ERROR, problem)


def _check_report(report: int) -> int:
    unknown = report & ~_KNOWN_REPORTS
    if not unknown:
        return Reason.NONE
    # Only a transmission queue accepts unknown bits of the transmission-queue mask, and no transmission queue is checked here.
    if unknown & ~_ACCEPTED_UNKNOWN & 0xFFFFFFFF:
        raise Refusal(Reason.REPORT_OPTIONS_ERROR, f"Report bits 0x{unknown:x} are not known")
    return Reason.UNKNOWN_REPORT_OPTION


def with_context(
    descriptor: MessageDescriptor, context: Context, stamp: Stamp, saved: MessageDescriptor | None
) -> MessageDescriptor:
    """Return the descriptor with its context. `saved` is the message whose context the PASS_* options pass on.

    Refuses with 2026 a context of the application that has no room in its fields.
    """
    if context is _DEFAULT:
        return replace(
            descriptor,
            user_identifier=stamp.user,
            accounting_token=_NO_ACCOUNTING,
            application_identity_data="",
            put_application_type=stamp.application_type,
            put_application_name=stamp.application_name,
            put_date=stamp.date,
            put_time=stamp.time,
            application_origin_data="",
        )
    match context:
        case Context.NONE:
            return _with_identity(_with_origin(descriptor, _NO_CONTEXT), _NO_CONTEXT)
        case Context.SET_ALL:
            _check_context(descriptor)
            return descriptor
        case Context.SET_IDENTITY:
            _check_context(descriptor)
            return _stamped(descriptor, stamp)
        case Context.PASS_IDENTITY:
            return _stamped(_with_identity(descriptor, saved or _NO_CONTEXT), stamp)
        case Context.PASS_ALL:
            return _with_origin(_with_identity(descriptor, saved or _NO_CONTEXT), saved or _NO_CONTEXT)
        case _:
            assert_never(context)


def _check_context(descriptor: MessageDescriptor) -> None:
    if len(descriptor.accounting_token) != len(_NO_ACCOUNTING):
        raise Refusal(Reason.MD_ERROR, f"An accounting token is {len(_NO_ACCOUNTING)} bytes long")
    for field, chars in _CONTEXT_CHARS.items():
        value = getattr(descriptor, field)  # the field name comes from the table
        if len(value) > chars:
            raise Refusal(Reason.MD_ERROR, f"{field} {value!r} has more than {chars} characters")


def _with_identity(descriptor: MessageDescriptor, source: MessageDescriptor) -> MessageDescriptor:
    return replace(
        descriptor,
        user_identifier=source.user_identifier,
        accounting_token=source.accounting_token,
        application_identity_data=source.application_identity_data,
    )


def _with_origin(descriptor: MessageDescriptor, source: MessageDescriptor) -> MessageDescriptor:
    return replace(
        descriptor,
        put_application_type=source.put_application_type,
        put_application_name=source.put_application_name,
        put_date=source.put_date,
        put_time=source.put_time,
        application_origin_data=source.application_origin_data,
    )


def _stamped(descriptor: MessageDescriptor, stamp: Stamp) -> MessageDescriptor:
    return replace(
        descriptor,
        put_application_type=stamp.application_type,
        put_application_name=stamp.application_name,
        put_date=stamp.date,
        put_time=stamp.time,
        application_origin_data="",
    )
