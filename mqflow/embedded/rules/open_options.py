"""Checks which MQOO options can be used together, and which options fit each type of object.

The code is pure. Source: IBM, MQOPEN options; rc2045, rc2046.
"""

from typing import Final

from mqflow.embedded.rules.refusal import Refusal
from mqflow.mqi.options import ObjectType, OpenOption, option_names
from mqflow.mqi.reason_codes import Reason

__all__ = ("CONTEXT", "INPUT", "check_open_options")

INPUT: Final = int(OpenOption.INPUT_AS_Q_DEF | OpenOption.INPUT_SHARED | OpenOption.INPUT_EXCLUSIVE)
CONTEXT: Final = int(
    OpenOption.PASS_IDENTITY_CONTEXT
    | OpenOption.PASS_ALL_CONTEXT
    | OpenOption.SET_IDENTITY_CONTEXT
    | OpenOption.SET_ALL_CONTEXT
)
# Integers, because the operators of flags are slow and every MQPUT1 runs this check.
_OUTPUT: Final = int(OpenOption.OUTPUT)
_SAVE_ALL_CONTEXT: Final = int(OpenOption.SAVE_ALL_CONTEXT)
_USES: Final = INPUT | int(OpenOption.BROWSE | OpenOption.OUTPUT | OpenOption.INQUIRE | OpenOption.SET)
_ALL: Final = sum(OpenOption)
_EXCLUDING: Final = (
    INPUT,
    int(OpenOption.BIND_ON_OPEN | OpenOption.BIND_NOT_FIXED | OpenOption.BIND_ON_GROUP),
    int(OpenOption.READ_AHEAD | OpenOption.NO_READ_AHEAD),
)
_INQUIRED_ONLY: Final = frozenset({ObjectType.Q_MGR, ObjectType.NAMELIST, ObjectType.PROCESS})
#: The options for the queue manager itself, for namelists and for processes.
_TO_INQUIRE: Final = int(
    OpenOption.INQUIRE | OpenOption.FAIL_IF_QUIESCING | OpenOption.ALTERNATE_USER_AUTHORITY | OpenOption.RESOLVE_NAMES
)
#: The options for a topic.
_FOR_TOPICS: Final = CONTEXT | int(
    OpenOption.OUTPUT
    | OpenOption.FAIL_IF_QUIESCING
    | OpenOption.ALTERNATE_USER_AUTHORITY
    | OpenOption.RESOLVE_NAMES
    | OpenOption.NO_MULTICAST
    | OpenOption.BIND_ON_OPEN
    | OpenOption.BIND_NOT_FIXED
    | OpenOption.BIND_ON_GROUP
)


def check_open_options(options: OpenOption, object_type: ObjectType) -> None:
    """Refuse with 2046 an invalid combination of options, and with 2045 options for another type of object."""
    bits = int(options)
    if bits & ~_ALL:
        raise Refusal(Reason.OPTIONS_ERROR, f"0x{bits & ~_ALL:x} is not an MQOO option")
    if not bits & _USES:
        raise Refusal(Reason.OPTIONS_ERROR, "At least one of INPUT_*, BROWSE, OUTPUT, INQUIRE and SET is needed")
    for group in _EXCLUDING:
        if (bits & group).bit_count() > 1:
            raise Refusal(Reason.OPTIONS_ERROR, f"Only one of {option_names(OpenOption(group))} can be asked for")
    if bits & _SAVE_ALL_CONTEXT and not bits & INPUT:
        raise Refusal(Reason.OPTIONS_ERROR, "SAVE_ALL_CONTEXT goes with one of INPUT_*")
    if bits & CONTEXT and not bits & _OUTPUT:
        raise Refusal(Reason.OPTIONS_ERROR, "PASS_* and SET_* context go with OUTPUT")
    if object_type == ObjectType.TOPIC and bits & ~_FOR_TOPICS:
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, "A topic can be opened for OUTPUT only; MQSUB gets publications")
    if object_type in _INQUIRED_ONLY and bits & ~_TO_INQUIRE:
        kind = ObjectType(object_type).name.lower()
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, f"An object of type {kind} can be opened for INQUIRE only")
