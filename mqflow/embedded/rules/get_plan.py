"""The plan of an MQGET: the fields to match, and how the get finds and returns its message.

The code is pure: it refuses options as a queue manager does (2005, 2026, 2046, 2090, 2247, 2250, 2460), and knows no queue.
Source: IBM q096780 (MQGMO options), MatchOptions; rc2046, rc2090, rc2247, rc2250, rc2460.
"""

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.rules.refusal import Refusal
from mqflow.many_verbs import without_wait
from mqflow.mqi.descriptor import CCSID_Q_MGR, NO_ID, MessageDescriptor
from mqflow.mqi.options import Encoding, GetOption, MatchOption, option_names
from mqflow.mqi.properties.rfh2_properties import PropertyControl
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import WAIT_UNLIMITED, GetOptions

__all__ = ("PLACE_MAX", "GetPlan", "Mark", "Match", "Reach", "Whole", "Within", "at_once", "matches", "plan_get")

_Choice = TypeVar("_Choice")


class Reach(Enum):
    """The message that a get returns."""

    NEXT = "take the first that matches"
    UNDER_CURSOR = "take the message under the browse cursor"
    BROWSE_FIRST = "look at the first that matches"
    BROWSE_NEXT = "look at the next that matches"
    BROWSE_UNDER_CURSOR = "look at the message under the cursor again"
    UNLOCK = "give up the lock, and nothing else"


class Within(Enum):
    """The messages that the get takes in the unit of work: none, all, or only persistent messages."""

    NO_UNIT_OF_WORK = "outside"
    UNIT_OF_WORK = "inside"
    IF_PERSISTENT = "inside for a persistent message"


class Mark(Enum):
    """The change that a browse makes to the mark of the message that it returns."""

    HANDLE = "mark for this handle"
    CO_OP = "mark for all cooperating handles"
    UNMARK_HANDLE = "remove this handle's mark"
    UNMARK_CO_OP = "remove the cooperating mark"


class Whole(Enum):
    """The parts that must all be on the queue before a get returns one of them."""

    MESSAGE = "all segments of the logical message"
    GROUP = "all messages of the group, with all their segments"


class Match(Struct, frozen=True, kw_only=True, gc=False):
    """The values that the fields of a message must have; None for any value."""

    message_id: bytes | None = None
    correlation_id: bytes | None = None
    group_id: bytes | None = None
    sequence_number: int | None = None
    offset: int | None = None
    #: The serial number of the message, from the message token.
    serial: int | None = None


class GetPlan(Struct, frozen=True, kw_only=True, gc=False):
    """The meaning of a `GetOptions`, worked out once."""

    reach: Reach
    within: Within
    match: Match | None = None
    #: With LOGICAL_ORDER, the match that the application asked for; `match` is then the next message in logical order.
    asked: Match | None = None
    waits: bool
    #: 0 means no wait; -1 means an unlimited wait.
    wait_ms: int = 0
    lock: bool
    mark: Mark | None
    unmarked_only: bool
    accept_truncated: bool
    convert: bool
    fail_if_quiescing: bool
    buffer_bytes_max: int | None = None
    ccsid: int = CCSID_Q_MGR
    encoding: int = Encoding.NATIVE
    #: How the get returns message properties; None means that PROPCTL decides.
    properties: PropertyControl | None
    #: True if properties are always returned separately from the body, even if PROPCTL says otherwise.
    in_handle: bool
    #: LOGICAL_ORDER: return groups and segments in logical order, even if they are on the queue in another order.
    logical: bool
    #: With ALL_MSGS_AVAILABLE or ALL_SEGMENTS_AVAILABLE, the parts that must be available together.
    whole: Whole | None = None
    #: COMPLETE_MSG: return the segments of a logical message as one message.
    complete: bool = False
    #: True if the get has a message handle, so that properties can be returned separately from the body.
    message_handle: bool = False

    @property
    def looks_only(self) -> bool:
        """True if the message stays available to all handles: true for a browse without a lock."""
        return self.reach in _BROWSES and not self.lock


def matches(match: Match, descriptor: MessageDescriptor) -> bool:
    """Return whether all fields match. The descriptor has no serial number, so the serial number is not compared."""
    return (
        (match.message_id is None or match.message_id == descriptor.message_id)
        and (match.correlation_id is None or match.correlation_id == descriptor.correlation_id)
        and (match.group_id is None or match.group_id == descriptor.group_id)
        and (match.sequence_number is None or match.sequence_number == descriptor.sequence_number)
        and (match.offset is None or match.offset == descriptor.offset)
    )


_BROWSES: Final = frozenset({Reach.BROWSE_FIRST, Reach.BROWSE_NEXT, Reach.BROWSE_UNDER_CURSOR})
#: The values of `Reach` that search the queue. The other values do not search.
_MATCHING: Final = frozenset({Reach.NEXT, Reach.BROWSE_FIRST, Reach.BROWSE_NEXT})
_REACHES: Final = {
    GetOption.MSG_UNDER_CURSOR: Reach.UNDER_CURSOR,
    GetOption.BROWSE_FIRST: Reach.BROWSE_FIRST,
    GetOption.BROWSE_NEXT: Reach.BROWSE_NEXT,
    GetOption.BROWSE_MSG_UNDER_CURSOR: Reach.BROWSE_UNDER_CURSOR,
    GetOption.UNLOCK: Reach.UNLOCK,
}
_SCOPES: Final = {
    GetOption.SYNCPOINT: Within.UNIT_OF_WORK,
    GetOption.NO_SYNCPOINT: Within.NO_UNIT_OF_WORK,
    GetOption.SYNCPOINT_IF_PERSISTENT: Within.IF_PERSISTENT,
}
_MARKS: Final = {
    GetOption.MARK_BROWSE_HANDLE: Mark.HANDLE,
    GetOption.MARK_BROWSE_CO_OP: Mark.CO_OP,
    GetOption.UNMARK_BROWSE_HANDLE: Mark.UNMARK_HANDLE,
    GetOption.UNMARK_BROWSE_CO_OP: Mark.UNMARK_CO_OP,
}
_CONTROLS: Final = {
    GetOption.PROPERTIES_FORCE_MQRFH2: PropertyControl.FORCE_MQRFH2,
    GetOption.NO_PROPERTIES: PropertyControl.NONE,
    GetOption.PROPERTIES_IN_HANDLE: PropertyControl.ALL,
    GetOption.PROPERTIES_COMPATIBILITY: PropertyControl.COMPATIBILITY,
}
_ALONE_WITH_UNLOCK: Final = GetOption.UNLOCK | GetOption.NO_SYNCPOINT | GetOption.FAIL_IF_QUIESCING
_ZOS_ONLY: Final = GetOption.SET_SIGNAL | GetOption.MARK_SKIP_BACKOUT
_ALL: Final = sum(option for option in GetOption if option.value.bit_count() == 1)
_WAIT_MS_MAX: Final = 2**31 - 1
PLACE_MAX: Final = 999_999_999
"""The highest MsgSeqNumber and the highest Offset."""
_ALL_MATCHES: Final = sum(MatchOption)
_ANY: Final = Match()
#: The match of a get with COMPLETE_MSG: its segments are returned with the first one.
_FIRST_SEGMENT: Final = Match(offset=0)
# Plain numbers, because testing the bits of a flag is slow.
_MSG_ID, _CORREL_ID, _GROUP_ID, _MSG_SEQ_NUMBER, _OFFSET, _MSG_TOKEN = (int(option) for option in MatchOption)


def plan_get(options: GetOptions) -> GetPlan:
    """Return the plan of a get with these options.

    Refuses with 2046 options that exclude each other, and with 2247 unknown match options. Refuses with 2090 a wait below -1 or
    beyond an MQLONG. Refuses with 2005 a buffer below 0 bytes, and with 2026 an identifier of another length. Refuses with 2460
    PROPERTIES_IN_HANDLE without a message handle. Without a syncpoint option, the get is outside the unit of work, as on
    Multiplatforms.
    """
    plan = _plan_of(int(options.options))
    if plan.waits and not WAIT_UNLIMITED <= options.wait_ms <= _WAIT_MS_MAX:
        raise Refusal(Reason.WAIT_INTERVAL_ERROR, f"{options.wait_ms} ms; 0 to {_WAIT_MS_MAX}, or -1 for ever")
    if options.buffer_bytes_max is not None and options.buffer_bytes_max < 0:
        raise Refusal(Reason.BUFFER_LENGTH_ERROR, f"A buffer of {options.buffer_bytes_max} bytes")
    if plan.in_handle and not options.message_handle:
        raise Refusal(Reason.HMSG_ERROR, "PROPERTIES_IN_HANDLE needs a message handle")
    return replace(
        plan,
        match=_match(options, plan) if plan.reach in _MATCHING else None,
        wait_ms=options.wait_ms if plan.waits else 0,
        buffer_bytes_max=options.buffer_bytes_max,
        ccsid=options.ccsid,
        encoding=options.encoding,
        message_handle=options.message_handle,
    )


@lru_cache(maxsize=64)  # as for `without_wait`: equal options must be the same record
def at_once(options: GetOptions) -> GetOptions:
    """Return the options of a get without a wait, for a server that waits itself.

    If a queue manager refuses the get, the options stay as they are. Then the get raises the error, and does not wait.
    """
    try:
        plan_get(options)
    except Refusal:
        return options
    return without_wait(options)


@lru_cache(maxsize=256)
def _plan_of(bits: int) -> GetPlan:
    """Return the part of the plan that the bits decide. Gets by identifier have different options, but the same bits."""
    asked = GetOption(bits)
    _refuse_conflicts(asked)
    reach = _only(asked, _REACHES, "ways to reach a message") or Reach.NEXT
    within = _only(asked, _SCOPES, "syncpoint options") or Within.NO_UNIT_OF_WORK
    mark = _only(asked, _MARKS, "mark options")
    lock = bool(asked & GetOption.LOCK)
    waits = bool(asked & GetOption.WAIT)
    if within is not Within.NO_UNIT_OF_WORK and reach not in {Reach.NEXT, Reach.UNDER_CURSOR}:
        raise Refusal(Reason.OPTIONS_ERROR, "A browse or an unlock is never part of a unit of work")
    if (lock or mark is not None) and reach not in _BROWSES:
        raise Refusal(Reason.OPTIONS_ERROR, "LOCK and the marks go with a browse")
    if waits and reach not in _MATCHING:
        raise Refusal(Reason.OPTIONS_ERROR, "There is nothing to wait for under a cursor")
    return GetPlan(
        reach=reach,
        within=within,
        waits=waits,
        lock=lock,
        mark=mark,
        unmarked_only=bool(asked & GetOption.UNMARKED_BROWSE_MSG),
        accept_truncated=bool(asked & GetOption.ACCEPT_TRUNCATED_MSG),
        convert=bool(asked & GetOption.CONVERT),
        fail_if_quiescing=bool(asked & GetOption.FAIL_IF_QUIESCING),
        properties=_only(asked, _CONTROLS, "property options"),
        in_handle=bool(asked & GetOption.PROPERTIES_IN_HANDLE),
        logical=bool(asked & GetOption.LOGICAL_ORDER),
        whole=_whole(asked),
        complete=bool(asked & GetOption.COMPLETE_MSG),
    )


def _whole(asked: GetOption) -> Whole | None:
    if asked & GetOption.ALL_MSGS_AVAILABLE:  # this option implies ALL_SEGMENTS_AVAILABLE
        return Whole.GROUP
    return Whole.MESSAGE if asked & (GetOption.ALL_SEGMENTS_AVAILABLE | GetOption.COMPLETE_MSG) else None


def _refuse_conflicts(asked: GetOption) -> None:
    if unknown := int(asked) & ~_ALL:
        raise Refusal(Reason.OPTIONS_ERROR, f"0x{unknown:x} is not an MQGMO option")
    if asked & _ZOS_ONLY:
        raise Refusal(Reason.OPTIONS_ERROR, f"{option_names(asked & _ZOS_ONLY)} is for z/OS only")
    if asked & GetOption.UNLOCK and asked & ~_ALONE_WITH_UNLOCK:
        raise Refusal(Reason.OPTIONS_ERROR, f"UNLOCK excludes other options, here {option_names(asked)}")


def _only(asked: GetOption, choices: Mapping[GetOption, _Choice], what: str) -> _Choice | None:
    found = [choice for option, choice in choices.items() if asked & option]
    if len(found) > 1:
        raise Refusal(Reason.OPTIONS_ERROR, f"{option_names(asked)} has more than one of the {what}")
    return found[0] if found else None


def _match(options: GetOptions, plan: GetPlan) -> Match | None:
    wanted = int(options.match)
    if not wanted:
        return _FIRST_SEGMENT if plan.complete else None
    if unknown := wanted & ~_ALL_MATCHES:
        raise Refusal(Reason.MATCH_OPTIONS_ERROR, f"0x{unknown:x} is not an MQMO option")
    if wanted & _MSG_SEQ_NUMBER and not 1 <= options.sequence_number <= PLACE_MAX:
        raise Refusal(Reason.MSG_SEQ_NUMBER_ERROR, f"MsgSeqNumber {options.sequence_number} to match")
    match = Match(
        message_id=_identifier(options.message_id) if wanted & _MSG_ID else None,
        correlation_id=_identifier(options.correlation_id) if wanted & _CORREL_ID else None,
        group_id=_identifier(options.group_id) if wanted & _GROUP_ID else None,
        sequence_number=options.sequence_number if wanted & _MSG_SEQ_NUMBER else None,
        offset=options.offset if wanted & _OFFSET else 0 if plan.complete else None,
        serial=int.from_bytes(options.message_token, "big") if wanted & _MSG_TOKEN else None,
    )
    return None if match == _ANY else match


def _identifier(wanted: bytes) -> bytes | None:
    """Return the identifier to match; None for all zeros, which match any identifier (MQMI_NONE, MQCI_NONE)."""
    if len(wanted) != len(NO_ID):
        raise Refusal(Reason.MD_ERROR, f"An identifier to match is {len(NO_ID)} bytes long, not {len(wanted)}")
    return None if wanted == NO_ID else wanted
