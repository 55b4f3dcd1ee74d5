"""The fields of the MQMD as message properties: `Root.MQMD.Priority` and the like.

This module knows the descriptor and the record of a property. StrucId and Version are not properties.
Source: IBM, "Message descriptor fields as properties" (q022960); MQPD.CopyOptions is MQCOPY_NONE for them (q098550).
"""

from collections.abc import Mapping
from typing import Final

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.properties.property_names import DESCRIPTOR_PREFIX
from mqflow.mqi.properties.set import Copy, MessageProperty
from mqflow.mqi.properties.types import PropertyType

__all__ = ("DESCRIPTOR_FIELDS", "descriptor_property")

DESCRIPTOR_FIELDS: Final[Mapping[str, str]] = {
    "Report": "report",
    "MsgType": "message_type",
    "Expiry": "expiry_tenths",
    "Feedback": "feedback",
    "Encoding": "encoding",
    "CodedCharSetId": "ccsid",
    "Format": "format",
    "Priority": "priority",
    "Persistence": "persistence",
    "MsgId": "message_id",
    "CorrelId": "correlation_id",
    "BackoutCount": "backout_count",
    "ReplyToQ": "reply_to_queue",
    "ReplyToQMgr": "reply_to_queue_manager",
    "UserIdentifier": "user_identifier",
    "AccountingToken": "accounting_token",
    "ApplIdentityData": "application_identity_data",
    "PutApplType": "put_application_type",
    "PutApplName": "put_application_name",
    "PutDate": "put_date",
    "PutTime": "put_time",
    "ApplOriginData": "application_origin_data",
    "GroupId": "group_id",
    "MsgSeqNumber": "sequence_number",
    "Offset": "offset",
    "MsgFlags": "message_flags",
    "OriginalLength": "original_length",
}
"""The field of `MessageDescriptor` by its name in C."""
_CHARS: Final = {
    "Format": 8,
    "ReplyToQ": 48,
    "ReplyToQMgr": 48,
    "UserIdentifier": 12,
    "ApplIdentityData": 32,
    "PutApplName": 28,
    "PutDate": 8,
    "PutTime": 8,
    "ApplOriginData": 4,
}


def descriptor_property(descriptor: MessageDescriptor, name: str) -> MessageProperty | None:
    """Return the MQMD field with the name `Root.MQMD.<name in C>` as a property, its text padded; None for another name."""
    field = name.removeprefix(DESCRIPTOR_PREFIX)
    if field == name or field not in DESCRIPTOR_FIELDS:
        return None
    value: int | str | bytes = getattr(descriptor, DESCRIPTOR_FIELDS[field])  # the name of a field, from the table
    match value:
        case bytes():
            return _property(name, PropertyType.BYTE_STRING, value)
        case str():
            return _property(name, PropertyType.STRING, value.ljust(_CHARS[field]))
        case int():
            return _property(name, PropertyType.INT32, int(value))


def _property(name: str, kind: PropertyType, value: str | bytes | int) -> MessageProperty:
    return MessageProperty(name=name, type=kind, value=value, copy_options=Copy.NONE)
