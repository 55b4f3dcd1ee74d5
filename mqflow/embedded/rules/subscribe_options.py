"""Checks which MQSO options can be used together, and what a resume or an alteration can change.

The code is pure.
Source: IBM, MQSD Options and "Rules for validating MQI options" (MQSUB); rc2434, rc2435, rc2509, rc2510, rc2512, rc2515,
rc2524, rc2533.
"""

from typing import Final

from mqflow.embedded.rules.refusal import Refusal
from mqflow.mqi.descriptor import PRIORITY_AS_Q_DEF
from mqflow.mqi.names import is_text
from mqflow.mqi.options import SubscribeOption, option_names
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import PRIORITY_AS_PUBLISHED, SUB_NAME_CHARS_MAX, SubscriptionAttributes, SubscriptionDescriptor

__all__ = ("ACCESS", "OF_THE_CALL", "check_alteration", "check_descriptor", "check_identity", "kept_options")

ACCESS: Final = int(SubscribeOption.CREATE | SubscribeOption.RESUME | SubscribeOption.ALTER)
OF_THE_CALL: Final = ACCESS | int(
    SubscribeOption.FAIL_IF_QUIESCING | SubscribeOption.ALTERNATE_USER_AUTHORITY | SubscribeOption.NEW_PUBLICATIONS_ONLY
)
_ALL: Final = sum(SubscribeOption)
_VALID_ACCESS: Final = frozenset(
    {
        int(SubscribeOption.CREATE),
        int(SubscribeOption.RESUME),
        int(SubscribeOption.ALTER),
        int(SubscribeOption.CREATE | SubscribeOption.RESUME),
        int(SubscribeOption.CREATE | SubscribeOption.ALTER),
    }
)
_EXCLUDING: Final = (
    SubscribeOption.GROUP_SUB | SubscribeOption.MANAGED,
    SubscribeOption.FIXED_USERID | SubscribeOption.ANY_USERID,
    SubscribeOption.NEW_PUBLICATIONS_ONLY | SubscribeOption.PUBLICATIONS_ON_REQUEST,
    SubscribeOption.WILDCARD_CHAR | SubscribeOption.WILDCARD_TOPIC,
    SubscribeOption.READ_AHEAD | SubscribeOption.NO_READ_AHEAD,
)
_LEVEL_MAX: Final = 9
_USER_DATA_CHARS_MAX: Final = 10_240
_PRIORITIES: Final = frozenset({PRIORITY_AS_PUBLISHED, PRIORITY_AS_Q_DEF, *range(10)})
_ID_BYTES: Final = 24
_ACCOUNTING_BYTES: Final = 32
_IDENTITY_CHARS_MAX: Final = 32
_USER_CHARS_MAX: Final = 12
_LONG_MAX: Final = 2**31 - 1


def check_descriptor(descriptor: SubscriptionDescriptor) -> None:
    """Refuse with 2046 an invalid combination of options, and each wrong field with its own reason."""
    options = int(descriptor.options)
    if options & ~_ALL:
        raise Refusal(Reason.OPTIONS_ERROR, f"0x{options & ~_ALL:x} is not an MQSO option")
    if options & ACCESS not in _VALID_ACCESS:
        raise Refusal(Reason.OPTIONS_ERROR, "One of CREATE, RESUME, ALTER, CREATE with RESUME, and CREATE with ALTER is needed")
    for pair in _EXCLUDING:
        if options & pair == pair:
            raise Refusal(Reason.OPTIONS_ERROR, f"{option_names(SubscribeOption(pair))} exclude each other")
    if options & SubscribeOption.NEW_PUBLICATIONS_ONLY and not options & SubscribeOption.CREATE:
        raise Refusal(Reason.OPTIONS_ERROR, "NEW_PUBLICATIONS_ONLY goes with CREATE")
    if options & SubscribeOption.GROUP_SUB and not options & SubscribeOption.SET_CORREL_ID:
        raise Refusal(Reason.OPTIONS_ERROR, "GROUP_SUB needs SET_CORREL_ID")
    _check_fields(descriptor)


def kept_options(options: int) -> int:
    """Return the options that stay with the subscription, without those of the call. WILDCARD_TOPIC is the default."""
    kept = options & ~OF_THE_CALL
    return kept if kept & SubscribeOption.WILDCARD_CHAR else kept | SubscribeOption.WILDCARD_TOPIC


def check_identity(found: SubscriptionAttributes, user: str) -> None:
    """Refuse with 2434 a user other than the subscription's user, unless the subscription was created with ANY_USERID."""
    if not found.options & SubscribeOption.ANY_USERID and found.user != user:
        raise Refusal(Reason.IDENTITY_MISMATCH, f"It belongs to user {found.user}, and was not made with ANY_USERID")


def check_alteration(found: SubscriptionAttributes, wanted: SubscriptionDescriptor, topic_string: str) -> None:
    """Refuse each change that ALTER cannot make, with the reason code for that attribute."""
    options = int(wanted.options)
    differs = found.options ^ kept_options(options)
    if found.kind != 1:
        raise Refusal(Reason.ALTER_SUB_ERROR, "It was defined by an administrator: ALTER SUB changes it")
    if differs & SubscribeOption.DURABLE:
        raise Refusal(Reason.DURABILITY_NOT_ALTERABLE)
    if (found.options | options) & SubscribeOption.GROUP_SUB:
        raise Refusal(Reason.GROUPING_NOT_ALTERABLE)
    if topic_string != found.topic_string or differs & SubscribeOption.WILDCARD_CHAR:
        raise Refusal(Reason.TOPIC_NOT_ALTERABLE, f"It is a subscription to {found.topic_string}")
    if wanted.selection != found.selection:
        raise Refusal(Reason.SELECTOR_NOT_ALTERABLE)
    if wanted.level != found.level:
        raise Refusal(Reason.SUBLEVEL_NOT_ALTERABLE)
    if differs & SubscribeOption.MANAGED:
        raise Refusal(Reason.DEST_CLASS_NOT_ALTERABLE)


def _check_fields(descriptor: SubscriptionDescriptor) -> None:
    named = descriptor.options & (SubscribeOption.DURABLE | SubscribeOption.RESUME | SubscribeOption.ALTER)
    if named and not descriptor.name:
        raise Refusal(Reason.SUB_NAME_ERROR, "A subscription that is durable, resumed or altered needs a SubName")
    if len(descriptor.name) > SUB_NAME_CHARS_MAX or "\0" in descriptor.name or not is_text(descriptor.name):
        raise Refusal(Reason.SUB_NAME_ERROR, f"A SubName has up to {SUB_NAME_CHARS_MAX} characters")
    if len(descriptor.user_data) > _USER_DATA_CHARS_MAX:
        raise Refusal(Reason.SUB_USER_DATA_ERROR, f"It is longer than {_USER_DATA_CHARS_MAX} characters")
    texts = descriptor.user_data, descriptor.selection, descriptor.application_identity_data, descriptor.alternate_user
    if not all(map(is_text, texts)):
        raise Refusal(Reason.SD_ERROR, "SubUserData, SelectionString, PubApplIdentityData or AlternateUserId is not text")
    if not 0 < descriptor.expiry_tenths <= _LONG_MAX and descriptor.expiry_tenths != -1:
        raise Refusal(Reason.EXPIRY_ERROR, f"SubExpiry {descriptor.expiry_tenths}")
    if descriptor.priority not in _PRIORITIES:
        raise Refusal(Reason.PRIORITY_ERROR, f"PubPriority {descriptor.priority}")
    if not 0 <= descriptor.level <= _LEVEL_MAX:
        raise Refusal(Reason.SD_ERROR, f"SubLevel {descriptor.level}; 0 to {_LEVEL_MAX}")
    _check_lengths(descriptor)


def _check_lengths(descriptor: SubscriptionDescriptor) -> None:
    if len(descriptor.correlation_id) != _ID_BYTES:
        raise Refusal(Reason.SD_ERROR, f"A SubCorrelId is {_ID_BYTES} bytes long")
    if len(descriptor.accounting_token) != _ACCOUNTING_BYTES:
        raise Refusal(Reason.SD_ERROR, f"A PubAccountingToken is {_ACCOUNTING_BYTES} bytes long")
    if len(descriptor.application_identity_data) > _IDENTITY_CHARS_MAX:
        raise Refusal(Reason.SD_ERROR, f"PubApplIdentityData is longer than {_IDENTITY_CHARS_MAX} characters")
    if len(descriptor.alternate_user) > _USER_CHARS_MAX:
        raise Refusal(Reason.SD_ERROR, f"AlternateUserId is longer than {_USER_CHARS_MAX} characters")
