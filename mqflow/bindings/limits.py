"""Refuses values that have no room in the structures of the MQI, because a truncated value is another value.

The first twelve characters of a longer user name are another user; the low 32 bits of a larger number are another number. This
file knows records and the lengths of fields. It does not know packages and verbs.
"""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.names import OBJECT_NAME_CHARS_MAX, is_text
from mqflow.mqi.options import PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import GetOptions

__all__ = (
    "IDENTITY_CHARS",
    "MESSAGE_BYTES_MAX",
    "USER_CHARS",
    "Unfit",
    "numbers_fit",
    "unfit_attribute",
    "unfit_get",
    "unfit_put",
    "unfit_subscription",
    "unfit_user",
)

MESSAGE_BYTES_MAX: Final = 104_857_600
"""The length of the longest message, in bytes; MAXMSGL cannot be larger."""

Unfit = tuple[Reason, str]
"""The reason of the refusal, and the value that has no room."""

_LEAST, _MOST = -(2**31), 2**31 - 1
_LATIN_MOST: Final = "\xff"
USER_CHARS: Final = 12
"""The length of a user name; a longer name has no room."""
_TOKEN_BYTES: Final = 16
_ACCOUNTING_BYTES: Final = 32
IDENTITY_CHARS: Final = 32
"""The length of ApplIdentityData."""
_SETS_CONTEXT: Final = PutOption.SET_IDENTITY_CONTEXT | PutOption.SET_ALL_CONTEXT
_ALWAYS: Final[Mapping[str, int]] = {
    "format": 8,
    "reply_to_queue": OBJECT_NAME_CHARS_MAX,
    "reply_to_queue_manager": OBJECT_NAME_CHARS_MAX,
}
#: The fields of the context. They are checked only if the application sets the context.
_CONTEXT: Final[Mapping[str, int]] = {
    "user_identifier": USER_CHARS,
    "application_identity_data": IDENTITY_CHARS,
    "put_application_name": 28,
    "put_date": 8,
    "put_time": 8,
    "application_origin_data": 4,
}


def unfit_get(options: GetOptions) -> Unfit | None:
    """Return the reason and the first option of this get whose value does not fit its field in MQMD or MQGMO, or None."""
    if not _ids_fit((options.message_id, options.correlation_id, options.group_id)):
        return Reason.MD_ERROR, "An identifier to match must be 24 bytes long"
    if len(options.message_token) != _TOKEN_BYTES:
        return Reason.MSG_TOKEN_ERROR, "A message token must be 16 bytes long"
    if not _LEAST <= options.wait_ms <= _MOST:
        return Reason.WAIT_INTERVAL_ERROR, f"{options.wait_ms} ms; up to {_MOST}, or -1 for ever"
    if options.buffer_bytes_max is not None and options.buffer_bytes_max < 0:
        return Reason.BUFFER_LENGTH_ERROR, f"A buffer of {options.buffer_bytes_max} bytes"
    return None


def unfit_put(descriptor: MessageDescriptor, options: PutOption) -> Unfit | None:
    """Return the field of a descriptor that has no room in the MQMD, or None. Ignores context that the put does not set."""
    if not _ids_fit((descriptor.message_id, descriptor.correlation_id, descriptor.group_id)):
        return Reason.MD_ERROR, "An identifier must be 24 bytes long"
    if not _LEAST <= descriptor.expiry_tenths <= _MOST:
        return Reason.EXPIRY_ERROR, f"Expiry {descriptor.expiry_tenths}"
    if unfit := _text_unfit(descriptor, _ALWAYS, Reason.MD_ERROR):
        return unfit
    if options & _SETS_CONTEXT:
        if len(descriptor.accounting_token) != _ACCOUNTING_BYTES:
            return Reason.MD_ERROR, "An accounting token must be 32 bytes long"
        return _text_unfit(descriptor, _CONTEXT, Reason.MD_ERROR)
    return None


def unfit_subscription(descriptor: SubscriptionDescriptor) -> Unfit | None:
    """Return the field of a subscription that has no room in the MQSD, or None."""
    if len(descriptor.object_name) > OBJECT_NAME_CHARS_MAX:
        return Reason.OBJECT_NAME_ERROR, f"A topic object's name has {OBJECT_NAME_CHARS_MAX} characters at the most"
    if not _ids_fit((descriptor.correlation_id,)):
        return Reason.SD_ERROR, "An identifier must be 24 bytes long"
    if len(descriptor.accounting_token) != _ACCOUNTING_BYTES:
        return Reason.SD_ERROR, "An accounting token must be 32 bytes long"
    if not _LEAST <= descriptor.expiry_tenths <= _MOST:
        return Reason.EXPIRY_ERROR, f"Expiry {descriptor.expiry_tenths}"
    texts = {"alternate_user": USER_CHARS, "application_identity_data": IDENTITY_CHARS}
    return _text_unfit(descriptor, texts, Reason.SD_ERROR)


def unfit_user(alternate_user: str) -> Unfit | None:
    """Return why the name of an alternate user has no room in the MQOD, or None."""
    return _too_long("alternate_user", alternate_user, USER_CHARS, Reason.OD_ERROR)


def unfit_attribute(selector: int, text: str, length: int) -> Unfit | None:
    """Return why a text has no room in an attribute of this length, in UTF-8, or None."""
    if is_text(text) and len(text.encode()) <= length:
        return None
    return Reason.CHAR_ATTR_LENGTH_ERROR, f"{text!r} has no room in the attribute {selector}: {length} bytes of UTF-8"


@contextmanager
def numbers_fit(reason: Reason, verb: str, queue_manager: str) -> Iterator[None]:
    """Raise this reason if the block makes a structure that has no room for a number."""
    try:
        yield
    except MQIError as error:  # of the MQMD, with the name of the field
        raise error_for(reason, verb, queue_manager=queue_manager, detail=error.detail) from error
    except struct.error as error:
        raise error_for(reason, verb, queue_manager=queue_manager, detail=f"A number has more than 32 bits: {error}") from error


def _ids_fit(identifiers: tuple[bytes, ...]) -> bool:
    return all(len(each) == len(NO_ID) for each in identifiers)


def _text_unfit(said: object, fields: Mapping[str, int], reason: Reason) -> Unfit | None:
    # getattr, because the field names come from a table, and two kinds of records have these fields.
    return next(
        (unfit for name, chars in fields.items() if (unfit := _too_long(name, getattr(said, name), chars, reason))), None
    )


def _too_long(name: str, text: str, chars: int, reason: Reason) -> Unfit | None:
    if len(text) <= chars and (text.isascii() or max(text) <= _LATIN_MOST):
        return None
    return reason, f"{name} {text!r} has no room in its field: {chars} characters of Latin-1"
