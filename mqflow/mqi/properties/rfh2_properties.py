"""Moves properties between a message and the folders of the MQRFH2 in front of its data.

The properties of a message are in the MQRFH2s at its front; an MQDLH can be in front of these MQRFH2s. PropertyControl decides
which properties a get shows. This module knows headers and folders; it knows no queue.
Source: IBM, "Properties specified as MQRFH2 elements" (q104130 to q104200): supported folders, generation of MQRFH2 headers,
property descriptor fields; PropertyControl (q103350) and MQGMO property options; rc2421. From memory, without a page of IBM:
the properties of a message handle take precedence over the properties in the data. A float out of the range of its type is read
as infinity.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import dead_letter, rfh2
from mqflow.mqi.headers.chain import HEADERS_MAX, QUEUE_MANAGER_CCSID, Header, join, resolved
from mqflow.mqi.headers.dead_letter import DLH_BYTES, DeadLetterHeader
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.options import Encoding, Format
from mqflow.mqi.properties.property_names import FOLDERS, holds_properties
from mqflow.mqi.properties.set import Copy, MessageProperty, Properties, PropertyContext, Support
from mqflow.mqi.properties.types import type_of_word
from mqflow.mqi.reason_codes import Reason

__all__ = ("Parted", "PropertyControl", "from_header", "is_shown", "part", "projected", "to_header", "with_properties")


class PropertyControl(IntEnum):
    """MQPROP_*: how a get without property options shows properties (PROPCTL)."""

    COMPATIBILITY = 0
    NONE = 1
    ALL = 2
    FORCE_MQRFH2 = 3
    V6COMPAT = 4


class Parted(Struct, frozen=True):
    """A message, and its properties separately."""

    descriptor: MessageDescriptor
    body: bytes
    properties: Properties = ()
    #: 0, or 2421 if the data have the format of properties but are malformed, and so stay unchanged.
    reason: int = Reason.NONE


class _Front(Struct, frozen=True):
    """The headers at the beginning of a message that matter for properties."""

    before: tuple[DeadLetterHeader, ...]
    headers: tuple[RFH2, ...]
    #: The data behind the headers, and its description.
    rest: bytes
    format: str
    encoding: int
    ccsid: int


_FIRST: Final = frozenset({Format.RF_HEADER_2, Format.DEAD_LETTER_HEADER})
#: A message with a property in one of these folders is a JMS message, or must be read as one.
_COMPATIBLE: Final = frozenset({"mcd", "jms", "usr", "mqext"})
#: Properties without a message have no descriptor: their header has this layout.
_APART: Final = MessageDescriptor(format=Format.NONE, encoding=Encoding.NATIVE, ccsid=QUEUE_MANAGER_CCSID)
_COPY_WORDS: Final[Mapping[str, Copy]] = {
    "forward": Copy.FORWARD,
    "reply": Copy.REPLY,
    "report": Copy.REPORT,
    "publish": Copy.PUBLISH,
    "all": Copy.ALL,
    "default": Copy.DEFAULT,
    "none": Copy.NONE,
}
_SUPPORT_WORDS: Final[Mapping[tuple[str, str], Support]] = {
    ("sa", "optional"): Support.OPTIONAL,
    ("sr", "required"): Support.REQUIRED,
    ("sx", "local"): Support.REQUIRED_IF_LOCAL,
}
_MQ_FOLDER: Final = "mq"
_CONTENT: Final = (("content", "properties"),)


def part(descriptor: MessageDescriptor, body: bytes, *, queue_manager_ccsid: int = QUEUE_MANAGER_CCSID) -> Parted:
    """Return the message without its properties, and the properties.

    Folders without properties stay in the data, in a header of their own. Malformed data with the format of a header stay
    unchanged; `reason` is then 2421.
    """
    if descriptor.format not in _FIRST:
        return Parted(descriptor, body)
    try:
        front = _front(descriptor, body, queue_manager_ccsid)
    except MQIError:
        return Parted(descriptor, body, reason=Reason.RFH_FORMAT_ERROR)
    if not any(map(_has_properties, front.headers)):
        return Parted(descriptor, body)
    kept = [header for header in map(_without_properties, front.headers) if header is not None]
    rest, data = _joined(descriptor, front, kept, queue_manager_ccsid)
    return Parted(rest, data, _properties_of(front.headers))


def with_properties(
    descriptor: MessageDescriptor,
    body: bytes,
    properties: Sequence[MessageProperty],
    *,
    queue_manager_ccsid: int = QUEUE_MANAGER_CCSID,
) -> tuple[MessageDescriptor, bytes]:
    """Return the message with these properties added; they replace existing properties of the same names.

    If a name is repeated in `properties`, the message has the property more than once. The properties go to the first MQRFH2,
    or to a new MQRFH2; everything else stays unchanged. Raises `HeaderError` 2335 for a value or a name that a folder cannot
    have. Raises `HeaderError` 2334 for a malformed header, and for more properties than a header can have.
    """
    if not properties:
        return descriptor, body
    front = _front(descriptor, body, queue_manager_ccsid)
    # IBM's classes for Java cannot read a header with MQCCSI_INHERIT.
    first, *more = front.headers or (RFH2(ccsid=front.ccsid),)
    of_folder: dict[str, list[FolderProperty]] = {}
    for added in properties:
        folder, _, name = added.name.partition(".")
        of_folder.setdefault(folder, []).append(_element(folder, name, added))
    for folder, items in of_folder.items():
        first = _with_added(first, folder, items)
    return _joined(descriptor, front, [first, *more], queue_manager_ccsid)


def projected(
    descriptor: MessageDescriptor, body: bytes, control: PropertyControl, *, queue_manager_ccsid: int = QUEUE_MANAGER_CCSID
) -> Parted:
    """Return the message as a get without a message handle shows it under this control; hidden properties are removed.

    `COMPATIBILITY` shows all properties of a message that has one of the folders mcd, jms, usr or mqext, and no properties of
    other messages. `NONE` shows no properties. The other controls show all properties unchanged. Only NONE returns a warning
    for malformed data with the format of properties.
    """
    if is_shown(control) or descriptor.format not in _FIRST:
        return Parted(descriptor, body)
    if control is PropertyControl.COMPATIBILITY and _is_compatible(descriptor, body, queue_manager_ccsid):
        return Parted(descriptor, body)
    return replace(part(descriptor, body, queue_manager_ccsid=queue_manager_ccsid), properties=())


def is_shown(control: PropertyControl) -> bool:
    """Return whether this control shows every message unchanged."""
    return control not in {PropertyControl.COMPATIBILITY, PropertyControl.NONE}


def to_header(properties: Properties) -> bytes:
    """Return the properties as the bytes of an MQRFH2; empty if there are no properties.

    Raises the errors of `with_properties`. `part` can read properties that no header can have, for example control characters.
    """
    return with_properties(_APART, b"", properties)[1]


def from_header(data: bytes) -> Properties:
    """Return the properties that `to_header` wrote."""
    return part(replace(_APART, format=Format.RF_HEADER_2), data).properties if data else ()


def _front(descriptor: MessageDescriptor, body: bytes, queue_manager_ccsid: int) -> _Front:
    before: list[DeadLetterHeader] = []
    found: list[RFH2] = []
    following, encoding = descriptor.format, descriptor.encoding
    ccsid = resolved(descriptor.ccsid, before=queue_manager_ccsid, queue_manager_ccsid=queue_manager_ccsid)
    while len(before) + len(found) < HEADERS_MAX:
        header: Header
        if following == Format.RF_HEADER_2:
            header, length = rfh2.parse(body, encoding=encoding, ccsid=ccsid)
            found.append(header)
        elif following == Format.DEAD_LETTER_HEADER and not found:
            header, length = dead_letter.parse(body, encoding=encoding, ccsid=ccsid), DLH_BYTES
            before.append(header)
        else:
            break
        body = body[length:]
        following, encoding = header.format, header.encoding
        ccsid = resolved(header.ccsid, before=ccsid, queue_manager_ccsid=queue_manager_ccsid)
    return _Front(tuple(before), tuple(found), body, following, encoding, ccsid)


def _is_compatible(descriptor: MessageDescriptor, body: bytes, queue_manager_ccsid: int) -> bool:
    """Return whether a message has a JMS property; true for malformed headers too: these have no properties to hide."""
    try:
        headers = _front(descriptor, body, queue_manager_ccsid).headers
    except MQIError:
        return True
    return any(folder.name in _COMPATIBLE and _is_for_properties(folder) for header in headers for folder in header.folders)


def _joined(
    descriptor: MessageDescriptor, front: _Front, headers: Sequence[RFH2], queue_manager_ccsid: int
) -> tuple[MessageDescriptor, bytes]:
    return join(
        descriptor,
        (*front.before, *headers),
        front.rest,
        body_format=front.format,
        body_encoding=front.encoding,
        body_ccsid=front.ccsid,
        queue_manager_ccsid=queue_manager_ccsid,
    )


def _is_for_properties(folder: Folder) -> bool:
    # A folder with text between its elements has no readable properties, under any name.
    return holds_properties(folder.name, folder.attributes) and (bool(folder.properties) or not folder.raw)


def _has_properties(header: RFH2) -> bool:
    return any(map(_is_for_properties, header.folders))


def _without_properties(header: RFH2) -> RFH2 | None:
    """Return the header without its properties; None if no folder is left."""
    if not _has_properties(header):
        return header
    others = tuple(folder for folder in header.folders if not _is_for_properties(folder))
    return replace(header, folders=others) if any(folder.name for folder in others) else None


def _properties_of(headers: Sequence[RFH2]) -> Properties:
    return tuple(
        _property(folder.name, item)
        for header in headers
        for folder in header.folders
        if _is_for_properties(folder)
        for item in folder.properties
    )


def _with_added(header: RFH2, folder: str, items: Sequence[FolderProperty]) -> RFH2:
    """Return the header with these properties in the folder: known names in place, new and repeated names at the end."""
    for index, present in enumerate(header.folders):
        if present.name == folder and _is_for_properties(present):
            changed = replace(present, properties=_replaced(present.properties, items), raw="")
            return replace(header, folders=(*header.folders[:index], changed, *header.folders[index + 1 :]))
    attributes = () if folder in FOLDERS else _CONTENT
    return replace(header, folders=(*header.folders, Folder(folder, tuple(items), attributes=attributes)))


def _replaced(present: Sequence[FolderProperty], items: Sequence[FolderProperty]) -> tuple[FolderProperty, ...]:
    names = {each.name for each in present}
    in_place: dict[str, FolderProperty] = {}
    added: list[FolderProperty] = []
    for item in items:
        if item.name in names and item.name not in in_place:
            in_place[item.name] = item
        else:
            added.append(item)
    return (*(in_place.pop(each.name, each) for each in present), *added)


def _property(folder: str, item: FolderProperty) -> MessageProperty:
    attributes = dict(item.attributes)
    return MessageProperty(
        name=f"{folder}.{item.name}",
        type=type_of_word(item.type, item.value),
        value=item.value,
        support=_support(attributes) if folder == _MQ_FOLDER else Support.OPTIONAL,
        context=PropertyContext.USER if attributes.get("context") == "user" else PropertyContext.NONE,
        copy_options=_copy(attributes["copy"]) if "copy" in attributes else Copy.DEFAULT,
    )


def _element(folder: str, name: str, item: MessageProperty) -> FolderProperty:
    attributes: list[tuple[str, str]] = []
    if folder == _MQ_FOLDER and item.support != Support.OPTIONAL:
        attributes += [attribute for attribute, support in _SUPPORT_WORDS.items() if support == item.support]
    if item.context == PropertyContext.USER:
        attributes.append(("context", "user"))
    if item.copy_options != Copy.DEFAULT:
        attributes.append(("copy", _copy_words(item.copy_options)))
    return FolderProperty(name, item.value, item.type.word, tuple(attributes))


def _support(attributes: Mapping[str, str]) -> Support:
    return next((support for (name, word), support in _SUPPORT_WORDS.items() if attributes.get(name) == word), Support.OPTIONAL)


def _copy(words: str) -> int:
    options = Copy.NONE
    for word in words.split(","):
        options |= _COPY_WORDS.get(word.strip(), Copy.NONE)
    return int(options)


def _copy_words(options: int) -> str:
    if options & Copy.ALL:
        return "all"
    words = [word for word, bit in _COPY_WORDS.items() if bit.bit_count() == 1 and options & bit]
    return ",".join(words) or "none"
