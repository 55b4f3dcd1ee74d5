"""One folder of an MQRFH2: reads its markup into typed properties, and writes properties as markup.

This module reads only the XML that a folder uses: elements, attributes, text, the five named references and character
references. XML that could exploit a reader (declarations, entities, processing instructions, comments) is refused before
anything else is read. Depth, count and length are bounded; the time is linear in the length. Errors do not quote values, which
are private to the sender. `rfh2` knows the structure and the bytes.
Source: IBM, MQRFH2 NameValueData; property types as in "Mapping JMS messages onto IBM MQ messages" (dt=, xsi:nil).
"""

import re
from contextlib import suppress
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason

__all__ = (
    "DEPTH_MAX",
    "NAME_BYTES_MAX",
    "PROPERTIES_MAX",
    "Folder",
    "FolderProperty",
    "PropertyValue",
    "folder_text",
    "read_folder",
)

PropertyValue: TypeAlias = str | int | float | bool | bytes | None

DEPTH_MAX: Final = 32
"""The greatest depth of nested elements; the element of the folder counts too."""
PROPERTIES_MAX: Final = 1_000
NAME_BYTES_MAX: Final = 4_095
"""MQ_MAX_PROPERTY_NAME_LENGTH: the greatest length of a full name with its dots, in bytes of UTF-8."""

_NUMBER_CHARS_MAX: Final = 400
_INTEGER_BITS: Final = {"i1": 8, "i2": 16, "i4": 32, "i8": 64, "int": 64}
_KINDS: Final[dict[str, type]] = {"boolean": bool, "bin.hex": bytes, "r4": float, "r8": float} | dict.fromkeys(
    _INTEGER_BITS, int
)

_NAME: Final = r"[^\s<>/=\"'&]++"
_ATTRIBUTES: Final = r"(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+')*+"
_LEAF: Final = re.compile(rf"<({_NAME})({_ATTRIBUTES})(?<!/)>([^<]*+)</\1\s*+>")
_TAG: Final = re.compile(rf"<(/?)({_NAME})({_ATTRIBUTES})>")
_ATTRIBUTE: Final = re.compile(rf"\s++({_NAME})\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)')")
_ELEMENT_NAME: Final = re.compile(rf"(?![!?]){_NAME}")
_REFERENCE: Final = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos));|&")
_INTEGER: Final = re.compile(r"[+-]?[0-9]++")
_REAL: Final = re.compile(r"[+-]?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|Infinity|INF)|NaN")
_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

_PADDING: Final = " \0\t\r\n"
_BOOLEANS: Final = {"0": False, "1": True, "false": False, "true": True}
_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&apos;", "\r": "&#13;"})


class FolderProperty(Struct, frozen=True):
    """A name and a typed value. Dots in the name stand for groups: ``a.b`` is ``<a><b>...</b></a>``."""

    name: str
    #: None is a null (xsi:nil) of any type.
    value: PropertyValue
    #: dt=: string, boolean, bin.hex, i1, i2, i4, i8, int, r4 or r8. If empty, the type follows from the value. Any other word
    #: means a string.
    type: str = ""
    #: All other attributes of the element, in order: copy, context, support ...
    attributes: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.type:
            force_setattr(self, "type", _type_of(self.value))


class Folder(Struct, frozen=True):
    """A folder: mcd, jms, usr, mqps or any other."""

    #: Empty for NameValueData that is only padding.
    name: str
    #: The elements without children, in order; repeated names stay. Empty if there is text between elements. Attributes of
    #: groups are only in `raw`.
    properties: tuple[FolderProperty, ...] = ()
    #: NameValueData as it was read, with padding. It is written back unchanged while it still agrees with the fields.
    raw: str = ""
    #: The attributes of the element of the folder: content='properties' ...
    attributes: tuple[tuple[str, str], ...] = ()


def read_folder(raw: str) -> Folder:
    """Return the folder in one NameValueData.

    Raises `HeaderError` 2335 (MQRC_RFH_STRING_ERROR) if the text is not one well-formed element, contains XML that this module
    refuses, or exceeds a bound. Raises the same error for a value that is not of its type.
    """
    text = raw.strip(_PADDING)
    if not text:
        return Folder("", raw=raw)
    if "<!" in text or "<?" in text:
        raise _malformed("'<!' and '<?' are refused: no declarations, entities, comments or instructions")
    tag = _TAG.match(text)
    if tag is None or tag[1]:
        raise _malformed("It does not start with the start of an element")
    name, attributes = tag[2], _attributes(tag[3].removesuffix("/"), tag[2])
    if not tag[3].endswith("/"):
        return Folder(name, _leaves(text, name, tag.end()), raw, attributes)
    if tag.end() != len(text):
        raise _malformed(f"There is more after the end of <{_shown(name)}>")
    return Folder(name, (), raw, attributes)


def folder_text(folder: Folder) -> str:
    """Return NameValueData for the folder: `raw` with its padding if the fields are unchanged; otherwise new text, not padded.

    Raises `HeaderError` 2335 (MQRC_RFH_STRING_ERROR) for a name that an element cannot have. Raises the same error for a value
    that is not of its type or not valid in XML.
    """
    if folder.raw and ((read := read_folder(folder.raw)) == folder or repr(read) == repr(folder)):  # NaN is not equal to NaN
        return folder.raw
    if not folder.name:
        return ""
    written = [f"<{_element(folder.name)}{_attribute_text(folder.attributes)}>"]
    opened: list[str] = []
    for item in folder.properties:
        *groups, leaf = _elements(item.name)
        if groups != opened:
            written += _moves(opened, groups)
            opened = groups
        written.append(f"<{leaf}{_type_text(item)}{_attribute_text(item.attributes)}>{_value_text(item)}</{leaf}>")
    return "".join((*written, *_moves(opened, []), f"</{folder.name}>"))


def _leaves(text: str, root: str, position: int) -> tuple[FolderProperty, ...]:
    """Return the elements without children from `position` to the end of the root, which must be the end of the text."""
    path, prefix, mixed = [root], "", False
    found: list[FolderProperty] = []
    while path:
        if len(found) > PROPERTIES_MAX:
            raise _malformed(f"<{_shown(root)}> has more than {PROPERTIES_MAX} properties")
        if leaf := _LEAF.match(text, position):
            found.append(_property(prefix + leaf[1], leaf[2], leaf[3]))
            position = leaf.end()
            continue
        tag = _TAG.match(text, position)
        if tag is None:
            position, here = _next_tag(text, position, path[-1]), position
            mixed = mixed or not text[here:position].isspace()
            continue
        position = tag.end()
        if tag[1]:
            if tag[2] != path.pop() or tag[3].strip():
                raise _malformed(f"</{_shown(tag[2])}> closes an element that is not open")
            prefix = "".join(f"{group}." for group in path[1:])
        elif tag[3].endswith("/"):
            found.append(_property(prefix + tag[2], tag[3][:-1], ""))
        elif len(path) == DEPTH_MAX - 1:
            raise _malformed(f"<{_shown(root)}> is deeper than {DEPTH_MAX} elements")
        else:
            path.append(tag[2])
            prefix += f"{tag[2]}."
    if position != len(text):
        raise _malformed(f"There is more after the end of <{_shown(root)}>: one NameValueData is one folder")
    return () if mixed else tuple(found)


def _next_tag(text: str, position: int, element: str) -> int:
    end = text.find("<", position)
    if end == -1:
        raise _malformed(f"It ends inside <{_shown(element)}>")
    if end == position:
        raise _malformed(f"At character {position}, inside <{_shown(element)}>, '<' starts no tag")
    return end


def _property(name: str, attribute_text: str, content: str) -> FolderProperty:
    _check_length(name)
    if not attribute_text:
        return FolderProperty(name, _resolved(content) if "&" in content else content, "string")
    kept: list[tuple[str, str]] = []
    kind, null = "string", False
    for attribute, value in _attributes(attribute_text, name):
        if attribute == "dt":
            kind = value or "string"
        elif attribute == "xsi:nil":
            null = _BOOLEANS.get(value, False)
        else:
            kept.append((attribute, value))
    return FolderProperty(name, None if null else _value(name, kind, content), kind, tuple(kept))


def _attributes(text: str, element: str) -> tuple[tuple[str, str], ...]:
    found, position = [], 0
    while attribute := _ATTRIBUTE.match(text, position):
        found.append((attribute[1], _resolved(attribute[2] or attribute[3] or "")))
        position = attribute.end()
    if text[position:].strip():
        raise _malformed(f"The attributes of <{_shown(element)}> are not name='value' pairs")
    return tuple(found)


def _value(name: str, kind: str, content: str) -> PropertyValue:
    """Return the value of the content of an element of this type."""
    if kind not in _KINDS:
        return _resolved(content)
    text = content.strip()
    if kind == "boolean" and text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if kind == "bin.hex":
        with suppress(ValueError):
            return bytes.fromhex(text)
    if len(text) <= _NUMBER_CHARS_MAX:
        if kind in {"r4", "r8"} and _REAL.fullmatch(text):
            return float(text)
        if kind in _INTEGER_BITS and _INTEGER.fullmatch(text) and _fits(number := int(text), kind):
            return number
    raise _malformed(f"The value of {_shown(name)}, {len(content)} characters long, is not of its type {kind}")


def _resolved(text: str) -> str:
    """Return the text with its references resolved; only XML's own five entities exist."""
    return _REFERENCE.sub(_referenced, text) if "&" in text else text


def _referenced(reference: re.Match[str]) -> str:
    decimal, hexadecimal, named = reference.groups()
    if named:
        return _NAMED[named]
    code = int(decimal) if decimal else int(hexadecimal or "-1", 16)
    if not 0 < code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:  # noqa: PLR2004 - the range of Unicode without surrogates
        raise _malformed(f"The '&' at offset {reference.start()} of a value refers to no character")
    return chr(code)


def _value_text(item: FolderProperty) -> str:
    value = item.value
    if value is None:
        return ""
    kind = _KINDS.get(item.type, str)
    fits = isinstance(value, kind) and isinstance(value, bool) is (kind is bool)
    if not fits or (item.type in _INTEGER_BITS and not _fits(int(value), item.type)):
        raise _malformed(
            f"The value of {_shown(item.name)}, of the class {type(value).__name__}, does not fit its type {item.type}"
        )
    match value:  # it may be a member of an enum, which has a text of its own
        case bool():
            return "1" if value else "0"
        case float():
            return float.__repr__(value).replace("inf", "Infinity").replace("nan", "NaN")
        case bytes():
            return value.hex()
        case str():
            return _escaped(value)
        case int():
            return int.__repr__(value)


def _type_text(item: FolderProperty) -> str:
    declared = "" if item.type == "string" else f" dt='{_escaped(item.type)}'"
    return f"{declared} xsi:nil='true'" if item.value is None else declared


def _attribute_text(attributes: tuple[tuple[str, str], ...]) -> str:
    return "".join(f" {_element(name)}='{_escaped(value)}'" for name, value in attributes)


def _escaped(text: str) -> str:
    if _NOT_XML.search(text):
        raise _malformed("A control character, or half of a surrogate pair, cannot stand in a folder: use bytes (bin.hex)")
    return text.translate(_ESCAPES)


def _elements(name: str) -> list[str]:
    _check_length(name)
    elements = name.split(".")
    if len(elements) >= DEPTH_MAX:
        raise _malformed(f"The name {_shown(name)} has more than {DEPTH_MAX - 1} parts")
    return [_element(part) for part in elements]


def _element(name: str) -> str:
    if not _ELEMENT_NAME.fullmatch(name):
        raise _malformed(f"{_shown(name)!r} is not a name of an element: it is empty, or has blanks or one of < > / = \" ' &")
    return name


def _moves(opened: list[str], groups: list[str]) -> list[str]:
    """Return the tags that close and open groups between two properties; common outer groups stay open."""
    shared = 0
    while shared < min(len(opened), len(groups)) and opened[shared] == groups[shared]:
        shared += 1
    return [f"</{group}>" for group in reversed(opened[shared:])] + [f"<{group}>" for group in groups[shared:]]


def _fits(number: int, kind: str) -> bool:
    half = 1 << (_INTEGER_BITS[kind] - 1)
    return -half <= number < half


def _type_of(value: PropertyValue) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "i4" if _fits(value, "i4") else "i8"
        case float():
            return "r8"
        case bytes():
            return "bin.hex"
        case str() | None:
            return "string"


def _check_length(name: str) -> None:
    # A character has four bytes at most, so the bytes of most names need not be counted.
    if len(name) * 4 > NAME_BYTES_MAX and len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise _malformed(f"The name {_shown(name)} has more than {NAME_BYTES_MAX} bytes")


def _shown(name: str) -> str:
    return name if len(name) <= 48 and name.isprintable() else f"{name[:48]!r}..."  # noqa: PLR2004 - the length of a queue's name


def _malformed(detail: str) -> MQIError:
    return error_for(Reason.RFH_STRING_ERROR, "Reading or writing an MQRFH2 folder", detail=detail)
