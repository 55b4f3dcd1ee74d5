"""The fields of a message that a selector can use: its user properties, its descriptor, and its topic.

This module is pure. The names are IBM MQ's names: user properties by their own name, the fields of the descriptor as
``Root.MQMD.Priority``, the JMS header fields, ``MQTopicString``. Other properties also have the name of their folder:
``jms.Gid``. A field that no header of the message has is unknown.
Source: IBM q023010; "Mapping JMS messages onto IBM MQ messages" for the folder `jms`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers.chain import HEADER_FORMATS, split
from mqflow.mqi.headers.rfh2 import RFH2
from mqflow.mqi.options import Persistence
from mqflow.mqi.properties.descriptor_properties import DESCRIPTOR_FIELDS
from mqflow.mqi.properties.property_names import DESCRIPTOR_PREFIX, shown_name
from mqflow.mqi.selectors.selector import Lookup, Value

__all__ = ("selectable",)

_JMS: Final[Mapping[str, Callable[[MessageDescriptor], Value]]] = {
    "JMSPriority": lambda descriptor: descriptor.priority,
    "JMSDeliveryMode": lambda descriptor: (
        "PERSISTENT" if descriptor.persistence == Persistence.PERSISTENT else "NON_PERSISTENT"
    ),
    "JMSMessageID": lambda descriptor: f"ID:{descriptor.message_id.hex()}",
    "JMSXAppID": lambda descriptor: descriptor.put_application_name,
    "JMSXUserID": lambda descriptor: descriptor.user_identifier,
}
_JMS_CORRELATION_ID: Final = "JMSCorrelationID"
_NUMBERS: Final = frozenset({"jms.Tms", "jms.Exp", "jms.Dlv", "jms.Pri", "jms.Seq"})
"""The numbers of the folder `jms`: IBM's JMS classes (observed: 9.3.5) write them without dt=."""
_DIGITS_MAX: Final = 19


def selectable(descriptor: MessageDescriptor, body: bytes, topic: str = "") -> Lookup:
    """Return the function that looks up fields for a selector. It parses the headers once, when a field first needs them."""

    @cache
    def properties() -> Mapping[str, Value]:
        return _properties(descriptor, body)

    def lookup(name: str) -> Value:
        if name in {"MQTopicString", "mqps.Top"}:
            return topic or properties().get("mqps.Top")
        if name.startswith(DESCRIPTOR_PREFIX):
            field = DESCRIPTOR_FIELDS.get(name.removeprefix(DESCRIPTOR_PREFIX))
            return None if field is None else _plain(getattr(descriptor, field))  # the name of a field, from the table
        if name in _JMS:
            return _JMS[name](descriptor)
        found = properties().get(name)
        if found is None and name == _JMS_CORRELATION_ID:
            return f"ID:{descriptor.correlation_id.hex()}"
        return found

    return lookup


def _properties(descriptor: MessageDescriptor, body: bytes) -> Mapping[str, Value]:
    """Return the properties by their whole names (`jms.Gid`), and by the names that MQINQMP gives (`JMSXGroupID`)."""
    if descriptor.format not in HEADER_FORMATS:
        return {}
    try:
        chain = split(descriptor, body).chain
    except MQIError:  # a malformed header has no properties
        return {}
    found: dict[str, Value] = {}
    for header in chain:
        if not isinstance(header, RFH2):
            continue
        for folder in header.folders:
            for item in folder.properties:
                whole = f"{folder.name}.{item.name}"
                value = found.setdefault(whole, _number(item.value) if whole in _NUMBERS else item.value)
                found.setdefault(shown_name(whole), value)
    return found


def _number(value: Value) -> Value:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= _DIGITS_MAX:
        return int(value)
    return value


def _plain(value: str | bytes | int) -> Value:
    return int(value) if isinstance(value, int) else value
