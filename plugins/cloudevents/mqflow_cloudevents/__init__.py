"""CloudEvents 1.0 in messages: structured mode, in which the body is the event in JSON, and binary mode.

In binary mode the body is the data of the event, and each attribute is a message property. This module knows the public names
of mqflow.

Source: the CloudEvents specification 1.0.2 with its JSON format. The prefix `cloudEvents_` comes from its AMQP binding for JMS;
the specification has no binding for IBM MQ.
"""

import base64
import re
from collections.abc import Mapping
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from mqflow import Message
from mqflow.app.handlers.mistakes import check_floats

__all__ = ("CloudEvent", "CloudEventsCodec", "binary_mode")

T = TypeVar("T")
Filled = Annotated[str, Meta(min_length=1)]

_CCSID_UTF8: Final = 1208
_PREFIX: Final = "cloudEvents_"
_PREFIXES: Final = (_PREFIX, "ce_")
"""The prefixes that are read."""
_JSON: Final = re.compile(r"(application|text)/([\w.+-]+\+)?json\s*(;.*)?", re.IGNORECASE)
_JSON_TYPE: Final = "application/json"
_NAMES: Final = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema")
_RESERVED: Final = frozenset({*_NAMES, "data", "data_base64"})


class CloudEvent(Struct, Generic[T], frozen=True, kw_only=True):
    """An event. `CloudEvent[Order]` has data of the type Order."""

    id: Filled
    source: Filled
    type: Filled
    #: The data: a value of JSON, or text or bytes as `datacontenttype` says; None if the event has no data.
    data: T
    subject: Filled | None = None
    #: With a timezone.
    time: Annotated[datetime, Meta(tz=True)] | None = None
    datacontenttype: Filled | None = None
    dataschema: Filled | None = None
    #: Further attributes. A name has only small letters and digits.
    extensions: dict[str, str | int | bool] = {}
    specversion: Literal["1.0"] = "1.0"


class CloudEventsCodec:
    """Reads both modes, and writes the structured mode. `binary_mode` is for puts in binary mode."""

    def decode(self, message: Message, payload_type: Any) -> CloudEvent[Any]:
        """Return the event. Raises `ValueError` for a message that is no event, and `TypeError` for another `payload_type`."""
        if (get_origin(payload_type) or payload_type) is not CloudEvent:
            raise TypeError(
                f"the codec cloudevents makes a CloudEvent: write `event: CloudEvent[...]`, not {payload_type!r:.60}"
            )
        of_data = (*get_args(payload_type), Any)[0]
        attributes = _properties(message)
        if "specversion" in attributes:
            data = _data(message, attributes.get("datacontenttype", ""), of_data)
        else:
            attributes, data = _structured(message.text(), of_data)
        known: dict[str, Any] = {name: attributes.pop(name) for name in _NAMES if name in attributes}
        if "specversion" not in known:
            raise ValueError("The message is no CloudEvent: neither its properties nor its body have a specversion.")
        return msgspec.convert({**known, "extensions": attributes, "data": data}, CloudEvent[Any])

    def encode(self, payload: Any) -> tuple[bytes, str, int]:
        """Return the event in structured mode, as text in UTF-8. Raises `TypeError` and `ValueError` for another payload."""
        if not isinstance(payload, CloudEvent):
            raise TypeError(f"the codec cloudevents puts a CloudEvent, not a {type(payload).__name__}")
        members = _attributes(payload)
        if isinstance(payload.data, bytes):
            members["data_base64"] = base64.b64encode(payload.data).decode()
        elif payload.data is not None:
            if not _is_json(payload) and not isinstance(payload.data, str):
                raise TypeError(f"data of {payload.datacontenttype} are text or bytes, not a {type(payload.data).__name__}")
            members["data"] = payload.data
        return _json(members), "MQSTR", _CCSID_UTF8


def binary_mode(event: CloudEvent[Any]) -> tuple[str | bytes, Mapping[str, str | int | bool]]:
    """Return the payload and the properties of a put in binary mode. Raises `TypeError` and `ValueError` as `encode` does."""
    attributes, data = _attributes(event), event.data
    if data is not None and not isinstance(data, bytes) and event.datacontenttype is None:
        attributes["datacontenttype"] = _JSON_TYPE  # in binary mode no type is the default
    properties = {f"{_PREFIX}{name}": value for name, value in attributes.items()}
    if data is None or isinstance(data, bytes):
        return data or b"", properties
    if _is_json(event):
        return _json(data).decode(), properties
    if not isinstance(data, str):
        raise TypeError(f"data of {event.datacontenttype} are text or bytes, not a {type(data).__name__}")
    return data, properties


def _attributes(event: CloudEvent[Any]) -> dict[str, Any]:  # str, int or bool; data come later
    """Return the attributes that the event has. Raises `ValueError` for one that no event can have."""
    attributes: dict[str, Any] = {
        name: value for name in _NAMES if (value := getattr(event, name)) is not None
    }  # of the Struct
    for name, value in event.extensions.items():
        if not re.fullmatch("[a-z0-9]+", name) or name in _RESERVED:
            raise ValueError(f"{name!r} is no name of an extension: it has only small letters and digits, and no other meaning")
        attributes[name] = value
    msgspec.convert({**attributes, "data": None, "extensions": {}}, CloudEvent[Any])
    if event.time:
        attributes["time"] = event.time.isoformat().replace("+00:00", "Z")
    return attributes


def _json(value: Any) -> bytes:  # Any: everything that JSON can become
    """Return the JSON. Raises `ValueError` for nan and inf, which would become null."""
    body = msgspec.json.encode(value)
    if b"null" in body:
        check_floats(value)
    return body


def _is_json(event: CloudEvent[Any]) -> bool:
    return bool(_JSON.fullmatch(event.datacontenttype or _JSON_TYPE))


def _properties(message: Message) -> dict[str, Any]:  # the types of property values
    """Return the attributes that the message has as properties."""
    return {
        name.removeprefix(prefix): value
        for name, value in message.properties.items()
        for prefix in _PREFIXES
        if name.startswith(prefix)
    }


def _data(message: Message, kind: str, wanted: Any) -> Any:  # of the type that is wanted
    """Return the data of an event in binary mode."""
    has_text = message.parts.format == "MQSTR"
    if wanted is bytes or (message.body and _takes_bytes(wanted)):
        return message.text().encode() if has_text else message.body
    if not message.body:
        return "" if wanted is str and not _JSON.fullmatch(kind) else msgspec.convert(None, wanted)
    if _JSON.fullmatch(kind):
        return msgspec.json.decode(message.text(), type=wanted)
    return msgspec.convert(message.text() if has_text or _is_text(kind) else message.body, wanted)


def _structured(text: str, wanted: Any) -> tuple[dict[str, Any], Any]:  # data of the type that is wanted
    """Return the attributes and the data of an event in structured mode."""
    members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    data, encoded = members.pop("data", msgspec.Raw(b"null")), members.pop("data_base64", None)
    attributes = {name: value for name, raw in members.items() if (value := msgspec.json.decode(raw)) is not None}
    if encoded is not None:
        return attributes, _from_bytes(msgspec.json.decode(encoded, type=bytes), attributes.get("datacontenttype", ""), wanted)
    if _takes_bytes(wanted) and isinstance(text := msgspec.json.decode(data), str):
        return attributes, text.encode()  # msgspec would read the text as base64
    return attributes, msgspec.json.decode(data, type=wanted)


def _from_bytes(data: bytes, kind: str, wanted: Any) -> Any:  # of the type that is wanted
    """Return the data of `data_base64`: JSON and text if `kind` says so."""
    if _takes_bytes(wanted):
        return data
    if _JSON.fullmatch(kind):
        return msgspec.json.decode(data, type=wanted)
    return msgspec.convert(data.decode() if _is_text(kind) and wanted is not Any else data, wanted)


def _is_text(kind: str) -> bool:
    return kind.lower().startswith("text/")


def _takes_bytes(wanted: Any) -> bool:  # a type
    """Return whether the type is bytes, or bytes or None."""
    if get_origin(wanted) in {Union, UnionType}:
        return all(each is bytes or each is NoneType for each in get_args(wanted))
    return wanted is bytes
