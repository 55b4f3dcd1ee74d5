"""The fields of a message that a selector can use: its user properties, its descriptor, and its topic.

This module is pure. The names are IBM MQ's names: user properties by their own name, the fields of the descriptor as
``Root.MQMD.Priority``, the JMS header fields, ``MQTopicString``. A field that no header of the message has is unknown.
Source: IBM q023010; "Mapping JMS messages onto IBM MQ messages" for the folder `jms`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers.chain import split
from mqflow.mqi.headers.rfh2 import RFH2
from mqflow.mqi.options import Format, Persistence
from mqflow.mqi.properties.descriptor_properties import DESCRIPTOR_FIELDS
from mqflow.mqi.properties.property_names import DESCRIPTOR_PREFIX
from mqflow.mqi.selectors.selector import Lookup, Value

__all__ = ("selectable",)

_USER: Final = "usr"
_JMS: Final[Mapping[str, Callable[[MessageDescriptor], Value]]] = {
    "JMSPriority": lambda descriptor: descriptor.priority,
    "JMSDeliveryMode": lambda descriptor: (
        "PERSISTENT" if descriptor.persistence == Persistence.PERSISTENT else "NON_PERSISTENT"
    ),
    "JMSMessageID": lambda descriptor: f"ID:{descriptor.message_id.hex()}",
    "JMSCorrelationID": lambda descriptor: f"ID:{descriptor.correlation_id.hex()}",
    "JMSXAppID": lambda descriptor: descriptor.put_application_name,
    "JMSXUserID": lambda descriptor: descriptor.user_identifier,
}


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
        found = properties().get(name)
        if found is None and name in _JMS:
            return _JMS[name](descriptor)
        return found

    return lookup


def _properties(descriptor: MessageDescriptor, body: bytes) -> Mapping[str, Value]:
    if descriptor.format != Format.RF_HEADER_2:
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
            prefix = "" if folder.name == _USER else f"{folder.name}."
            for item in folder.properties:
                found.setdefault(prefix + item.name, item.value)
    for name, short in (("JMSType", "mcd.Type"), ("JMSCorrelationID", "jms.Cid"), ("JMSTimestamp", "jms.Tms")):
        if short in found:
            found.setdefault(name, found[short])
    return found


def _plain(value: str | bytes | int) -> Value:
    return int(value) if isinstance(value, int) else value
