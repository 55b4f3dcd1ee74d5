"""Captured messages in a file. Each has its whole descriptor, all its data and the name of its queue.

The file has one line of JSON for each message. The messages can be looked at, used in tests and put again. Secret parts are
redacted before a message is written. This file uses no queue manager.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.message import Message
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers.chain import Header, join, split
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty

__all__ = ("BODY", "Captured", "numbered_captures", "read_captures", "redacted", "written")

BODY: Final = "body"
"""The name of the body in a list of parts to redact. The body is all data after the headers."""
_HIDDEN: Final = b"*"
_FORMAT: Final = 1


class Captured(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as it was on a queue."""

    queue: str
    queue_manager: str
    descriptor: MessageDescriptor
    #: All message data, including the headers.
    data: bytes
    #: The names of the redacted parts. If there are any, commands refuse to put the message again: it is not the original.
    redacted: tuple[str, ...] = ()
    format_version: int = _FORMAT

    @property
    def message(self) -> Message:
        """The message in the form that a handler receives."""
        return Message(self.descriptor, self.data, self.queue)


_decode: Final = msgspec.json.Decoder(Captured).decode


def written(captured: Captured) -> bytes:
    """Return the line for a message in the file, with the line end."""
    return msgspec.json.encode(captured) + b"\n"


def read_captures(path: Path) -> Iterator[Captured]:
    """Yield the messages of a file. If a line is not a captured message, raise `ConfigurationError` with the line number."""
    for _, captured in numbered_captures(path):
        yield captured


def numbered_captures(path: Path) -> Iterator[tuple[int, Captured]]:
    """Yield the messages of a file as `read_captures` does, each with the number of its line."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                captured = _decode(line)
            except msgspec.DecodeError as error:
                raise ConfigurationError(f"{path}, line {number}: it is not a captured message: {error}.") from error
            if captured.format_version != _FORMAT:
                problem = f"it has format {captured.format_version}, and this version of mqflow reads format {_FORMAT}"
                raise ConfigurationError(f"{path}, line {number}: {problem}.")
            yield number, captured


def redacted(captured: Captured, names: Sequence[str]) -> Captured:
    """Return the message with the named parts hidden: `body`, a field of the descriptor, or a property as ``folder.name``.

    The body keeps its length, and a property keeps its place. Raises `ConfigurationError` for any other name. Also raises it if
    the headers cannot be parsed, because their properties cannot be found.
    """
    fields = {name: _emptied(captured.descriptor, name) for name in names if name != BODY and "." not in name}
    properties = frozenset(name for name in names if "." in name)
    descriptor, data = captured.descriptor, captured.data
    if properties or BODY in names:
        descriptor, data = _without(descriptor, data, properties, hide_body=BODY in names)
    return replace(captured, descriptor=replace(descriptor, **fields), data=data, redacted=tuple(names))


def _emptied(descriptor: MessageDescriptor, name: str) -> Any:
    if name not in descriptor.__struct_fields__:
        accepted = ", ".join(descriptor.__struct_fields__)
        raise ConfigurationError(f"{name!r} cannot be redacted. Name the body, a property (usr.NAME), or one of {accepted}.")
    value = getattr(descriptor, name)  # the name of a field, as checked above
    match value:
        case bytes():
            return bytes(len(value))
        case str():
            return ""
        case _:
            return type(value)(0)


def _without(
    descriptor: MessageDescriptor, data: bytes, properties: frozenset[str], *, hide_body: bool
) -> tuple[MessageDescriptor, bytes]:
    try:
        parts = split(descriptor, data)
    except MQIError as error:
        raise ConfigurationError(f"The headers of a message cannot be read, so it cannot be redacted. {error}") from error
    chain = [_hidden(header, properties) for header in parts.chain]
    body = _HIDDEN * len(parts.body) if hide_body else parts.body
    if not chain:
        return descriptor, body
    return join(descriptor, chain, body, body_format=parts.format, body_encoding=parts.encoding, body_ccsid=parts.ccsid)


def _hidden(header: Header, names: frozenset[str]) -> Header:
    if not isinstance(header, RFH2):
        return header
    return replace(header, folders=tuple(_folder(folder, names) for folder in header.folders))


def _folder(folder: Folder, names: Iterable[str]) -> Folder:
    wanted = {name for name in names if name.partition(".")[0] == folder.name}
    if not wanted:
        return folder
    if not folder.properties and folder.raw.strip():
        raise ConfigurationError(f"The folder {folder.name} of a message cannot be read, so its properties cannot be redacted.")
    each = (
        FolderProperty(item.name, _HIDDEN.decode(), "", item.attributes) if f"{folder.name}.{item.name}" in wanted else item
        for item in folder.properties
    )
    return replace(folder, properties=tuple(each), raw="")
