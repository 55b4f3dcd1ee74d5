"""Describes an application as an AsyncAPI 3 document, with the bindings for IBM MQ, from its declarations and annotations.

This file opens no queue. The document does not contain puts that a handler makes with `Context.put`: they are not declared.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, get_args

import msgspec

from mqflow.app.application import App
from mqflow.app.channels.client_urls import CLIENT_SCHEMES, where_to
from mqflow.app.config.settings import Settings
from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.codecs import Codec
from mqflow.app.handlers.handler import Handler
from mqflow.app.handlers.listener_declaration import Listener, publishers_of
from mqflow.runtime.listener.subscriber import TopicSubscription

__all__ = ("asyncapi_document",)

_BINDING: Final = {"bindingVersion": "0.1.0"}
_NOT_IN_KEYS: Final = re.compile(r"[^A-Za-z0-9._-]")
_SCHEMAS: Final = "#/components/schemas/"
_FORMS: Final[Mapping[Any, tuple[str, str, dict[str, str] | None]]] = {
    bytes: ("application/octet-stream", "binary", None),
    str: ("text/plain", "string", {"type": "string"}),
}
"""The content type, the type of the message in IBM MQ, and the schema, for payloads that are not JSON."""


def asyncapi_document(app: App, *, title: str, version: str, url: str = "") -> dict[str, Any]:
    """Return the AsyncAPI 3.0.0 document of the application, ready for JSON.

    Each handler is an operation that receives. Each publisher of a handler is an operation that sends, and each schedule is
    too. If a handler returns a payload and has no publisher, it replies to ReplyToQ. If `url` is a URL of IBM MQ, the document
    has a server for each of its hosts. The document never has a user or a password.

    For an included application, the keys of channels and operations begin with its name: `archive.IN`. If an application
    includes others, each channel of IBM MQ names the servers of its queue manager.

    Raises `ConfigurationError` for a URL or a payload type that cannot be described.
    Source: https://www.asyncapi.com/docs/reference/specification/v3.0.0 and the `ibmmq` bindings.
    """
    parts = app.with_settings(app.settings or Settings(), needs_url=False)
    servers: dict[str, dict[str, Any]] = {}
    made = _Document([payload for each, _ in parts.values() for payload in _payload_types(each)])
    for name, (each, own) in parts.items():
        declared = each.url if name else url or app.url
        there = dict(_servers(own.url_over(declared), own, name or "mq"))
        servers |= there
        made.begin(name, list(there) if len(parts) > 1 else [])
        _add(made, each)
    return {
        "asyncapi": "3.0.0",
        "info": {"title": title, "version": version},
        **({"servers": servers} if servers else {}),
        "channels": made.channels,
        "operations": made.operations,
        **({"components": {"schemas": made.components}} if made.components else {}),
    }


def _add(made: "_Document", app: App) -> None:
    """Add the operations for the handlers and the schedules of one application."""
    for listener in app.listeners:
        for handler in listener.handlers:
            made.add_handler(listener, handler)
    for schedule in app.schedules:
        message = {"name": schedule.name, "title": f"A firing of {schedule.rule.text}"}
        key = made.operation(f"{schedule.name}.schedule", "send", schedule.queue, None, schedule.name, message)
        made.operations[key]["summary"] = f"Puts a message at each moment of the schedule {schedule.rule.text}."


class _Document:
    """The channels and operations that were added so far."""

    def __init__(self, payload_types: Sequence[Any]) -> None:
        self.channels: dict[str, dict[str, Any]] = {}
        self.operations: dict[str, dict[str, Any]] = {}
        self._schemas, self.components = _described(payload_types)
        self._place: dict[str, Any] = {}
        self._prefix = ""

    def begin(self, queue_manager: str, servers: Sequence[str]) -> None:
        """Begin the channels of the included application with this name, on its queue manager; "" for the main application."""
        self._prefix = f"{queue_manager}." if queue_manager else ""
        on = {"title": f"On the queue manager of {queue_manager}"} if queue_manager else {}
        self._place = on | ({"servers": [{"$ref": f"#/servers/{server}"} for server in servers]} if servers else {})

    def add_handler(self, listener: Listener, handler: Handler) -> None:
        """Add the operations of one handler: it receives, and if it returns a payload, it also sends or replies."""
        message = self._message(handler.payload_type, handler.codec, handler.short_name)
        if headers := _headers(handler):
            message["headers"] = headers
        key = self.operation(
            handler.short_name, "receive", listener.queue, listener.subscription, message["name"], message, listener=listener
        )
        self.operations[key] |= _texts(handler)
        publishers = publishers_of(handler)
        for publisher in publishers:
            sent = self._message(handler.result, publisher.codec, f"{handler.short_name}.result")
            if publisher.expiry_s:
                sent["bindings"]["ibmmq"]["expiry"] = round(publisher.expiry_s * 1_000)
            name = f"{handler.short_name}.{publisher.queue}"
            self.operation(name, "send", publisher.queue, None, sent["name"], sent)
        if handler.result is not None and not publishers:
            reply = self._message(handler.result, handler.declared_in.codec, f"{handler.short_name}.reply")
            channel = _unused(self.channels, f"{key}.reply")
            self.channels[channel] = {"address": None, **self._place, "messages": {_key(reply["name"]): reply}}
            self.operations[key]["reply"] = {
                "address": {"location": "$message.header#/ReplyToQ", "description": "ReplyToQ of the request."},
                "channel": {"$ref": f"#/channels/{channel}"},
            }

    def operation(
        self,
        name: str,
        action: str,
        address: str,
        subscription: TopicSubscription | None,
        message_name: str,
        message: dict[str, Any],
        *,
        listener: Listener | None = None,
    ) -> str:
        """Add an operation with one message to the channel of this address. Return the key of the operation."""
        channel = self._channel(address, subscription, exclusive=listener is not None and listener.options.strict_order)
        messages = self.channels[channel]["messages"]
        message_key = _key(message_name)
        if messages.get(message_key, message) != message:
            message_key = _unused(messages, f"{message_key}.{_key(name)}")
        messages[message_key] = message
        key = _unused(self.operations, _key(self._prefix + name))
        self.operations[key] = {
            "action": action,
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": [{"$ref": f"#/channels/{channel}/messages/{message_key}"}],
        }
        return key

    def _channel(self, address: str, subscription: TopicSubscription | None, *, exclusive: bool) -> str:
        """Return the key of the channel for a queue or a topic. Add the channel if it is new."""
        if subscription is None:
            queue = {"objectName": address, **({"exclusive": True} if exclusive else {})}
            binding = {"destinationType": "queue", "queue": queue, **_BINDING}
        else:
            topic = {"string": address, **({"durablePermitted": True} if subscription.durable else {})}
            binding = {"destinationType": "topic", "topic": topic, **_BINDING}
        for key, known in self.channels.items():
            bound = known.get("bindings", {}).get("ibmmq", {})
            is_there = self._place == {part: known[part] for part in ("title", "servers") if part in known}
            if is_there and known["address"] == address and bound.get("destinationType") == binding["destinationType"]:
                if exclusive:
                    known["bindings"] = {"ibmmq": binding}
                return key
        key = _unused(self.channels, _key(self._prefix + address))
        self.channels[key] = {"address": address, **self._place, "messages": {}, "bindings": {"ibmmq": binding}}
        return key

    def _message(self, payload_type: Any, codec: Codec | None, otherwise: str) -> dict[str, Any]:
        """Return the message object for a payload type. Its name is `otherwise` if the type has no name, or is None."""
        if payload_type is None:
            return {"name": otherwise, "bindings": {"ibmmq": {"type": "binary", **_BINDING}}}
        content, form, schema = _FORMS.get(payload_type, ("application/json", "string", self._schemas.get(_id(payload_type))))
        message: dict[str, Any] = {"name": otherwise if payload_type in _FORMS else _name(payload_type) or otherwise}
        if codec is None:
            message["contentType"] = content
        else:
            form = "binary"  # only the codec knows the format of the bytes
        if schema is not None:
            message["payload"] = schema
        return message | {"bindings": {"ibmmq": {"type": form, **_BINDING}}}


def _payload_types(app: App) -> list[Any]:
    """Return the types of the payloads that handlers receive and return, each type once."""
    handlers = [handler for listener in app.listeners for handler in listener.handlers]
    found = {_id(each): each for handler in handlers for each in (handler.payload_type, handler.result)}
    return [each for each in found.values() if each is not None and each not in _FORMS]


def _described(payload_types: Sequence[Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the schema of each type, by `_id`, and the schemas to which they refer. Types without a schema are left out."""
    models = [each for each in payload_types if hasattr(each, "model_json_schema")]  # pydantic need not be installed
    others = [each for each in payload_types if each not in models and _has_schema(each)]
    made, components = msgspec.json.schema_components(others, ref_template=_SCHEMAS + "{name}")
    schemas = dict(zip(map(_id, others), made, strict=True))
    for model in models:
        schema = model.model_json_schema(ref_template=_SCHEMAS + "{model}")
        for name, part in {**schema.pop("$defs", {}), model.__name__: schema}.items():
            if components.setdefault(name, part) != part:
                problem = f"two payload types have the name {name}, and a document has one schema of a name"
                raise ConfigurationError(f"{problem}. Rename one of them.")
        schemas[_id(model)] = {"$ref": _SCHEMAS + model.__name__}
    return schemas, components


def _has_schema(payload_type: Any) -> bool:
    """Return whether msgspec can describe the type. Some types that it can decode have no JSON schema."""
    try:
        msgspec.json.schema_components([payload_type])
    except TypeError:
        return False
    return True


def _headers(handler: Handler) -> dict[str, Any]:
    """Return the schema of the header fields and properties that the handler takes; empty if the handler takes none."""
    parts = handler.from_message
    schemas, _ = _described([each.kind for each in parts])
    return {
        "type": "object",
        "properties": {each.named.partition(" ")[2]: schemas.get(_id(each.kind), {}) for each in parts},
        "required": [each.named.partition(" ")[2] for each in parts if not each.is_optional],
    } if parts else {}  # fmt: skip


def _texts(handler: Handler) -> dict[str, str]:
    """Return the summary and the description of the handler, from its docstring."""
    summary, _, rest = (inspect.getdoc(handler.function) or "").partition("\n")
    texts = {"title": handler.name, "summary": summary.strip(), "description": rest.strip()}
    return {key: text for key, text in texts.items() if text}


def _servers(url: str, settings: Settings, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the key and the server object for each host of a URL of IBM MQ; nothing for an embedded queue manager."""
    if url.partition(":")[0] not in CLIENT_SCHEMES:
        return
    where, cipher_spec = where_to(url), settings.tls.cipher_spec
    for number, (host, port) in enumerate(where.hosts, 1):
        binding = {
            **({"cipherSpec": cipher_spec} if cipher_spec else {}),
            **({"multiEndpointServer": True} if len(where.hosts) > 1 else {}),
            **_BINDING,
        }
        yield (
            f"{name}{number}",
            {
                "host": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
                "pathname": f"/{where.queue_manager}/{where.channel}",
                "protocol": "ibmmq-secure" if cipher_spec else "ibmmq",
                "bindings": {"ibmmq": binding},
            },
        )


def _id(payload_type: Any) -> str:
    """Return a text that identifies the type. `dict[str, int]` makes a new object at each use, but always has the same text."""
    return f"{id(payload_type) if isinstance(payload_type, type) else ''} {payload_type!r}"


def _name(payload_type: Any) -> str:
    """Return the name of a class; empty for a type such as `dict[str, int]`, which has no name."""
    return payload_type.__name__ if isinstance(payload_type, type) and not get_args(payload_type) else ""


def _key(name: str) -> str:
    """Return the name without the characters that a key of a document cannot have."""
    return _NOT_IN_KEYS.sub("_", name)


def _unused(taken: Iterable[str], key: str) -> str:
    """Return the key. If it is in use, return the first unused key with a number at the end, such as `orders.2`."""
    numbered = (f"{key}.{number}" if number > 1 else key for number in range(1, len(list(taken)) + 2))
    return next(each for each in numbered if each not in set(taken))
