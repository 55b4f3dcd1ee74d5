"""MQRFH2, the rules and formatting header: message properties in front of the message data.

This module knows the structure, its lengths, byte order and character sets. `rfh2_folder` knows the content of a folder; the
caller knows its meaning. An unchanged header is written back byte for byte.
Source: IBM, MQRFH2; the layout table of the MQRFH2 (version 2, 36 bytes and folders).
"""

import struct
from typing import Final

from msgspec import Struct

from mqflow.mqi.ccsid import UTF_16_CCSIDS, decode, encode
from mqflow.mqi.descriptor import CCSID_INHERIT
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.headers.rfh2_folder import PROPERTIES_MAX, Folder, FolderProperty, PropertyValue, folder_text, read_folder
from mqflow.mqi.layout import FIELD_CCSID, byte_order, from_field, packed, to_field
from mqflow.mqi.options import Encoding
from mqflow.mqi.reason_codes import Reason

__all__ = (
    "FOLDERS_MAX",
    "NAME_VALUE_CCSIDS",
    "RFH2",
    "RFH2_FIXED_BYTES",
    "Folder",
    "FolderProperty",
    "PropertyValue",
    "parse",
    "properties",
    "to_bytes",
)

RFH2_FIXED_BYTES: Final = 36
FOLDERS_MAX: Final = 100
NAME_VALUE_CCSIDS: Final = UTF_16_CCSIDS | {1208}
"""The valid values of NameValueCCSID; two-byte character sets have the byte order of the header's numbers."""

_LAYOUTS: Final = {order: struct.Struct(order + "4siiii8sii") for order in ("<", ">")}
_VERSION: Final = 2
_ALIGNMENT: Final = 4


class RFH2(Struct, frozen=True, kw_only=True):
    """Folders of properties, and the description of the data behind them (MQRFH2 version 2)."""

    folders: tuple[Folder, ...] = ()
    #: Encoding, CodedCharSetId and Format of the data behind this header.
    encoding: int = Encoding.NATIVE
    ccsid: int = CCSID_INHERIT
    format: str = ""
    #: MQRFH_*: only 0 is in use.
    flags: int = 0
    #: The character set of the folders: 1208, 1200, 13488 or 17584.
    name_value_ccsid: int = 1208


def parse(data: bytes, *, encoding: int, ccsid: int = FIELD_CCSID) -> tuple[RFH2, int]:
    """Return the header at the beginning of the data, and its length in bytes.

    `encoding` and `ccsid` come from the descriptor or header before it. Raises `HeaderError` 2334 (MQRC_RFH_ERROR) if the
    structure or a length is invalid. Raises `HeaderError` 2335 (MQRC_RFH_STRING_ERROR) if a folder is malformed, and
    `MQIError` 2119 (MQRC_NOT_CONVERTED) if a folder cannot be decoded.
    """
    if len(data) < RFH2_FIXED_BYTES or data[:4] != to_field("RFH", 4, ccsid):
        raise _broken(f"{len(data)} bytes that start with {data[:4]!r} are not an MQRFH2")
    order = byte_order(encoding)
    _, version, length, *following, flags, name_value_ccsid = _LAYOUTS[order].unpack_from(data)
    if version != _VERSION:
        raise _broken(f"Its version is {version}, not {_VERSION} (read with encoding {encoding})")
    if not RFH2_FIXED_BYTES <= length <= len(data) or length % _ALIGNMENT:
        raise _broken(f"Its length is {length}: not a multiple of 4 from {RFH2_FIXED_BYTES} to the {len(data)} bytes of data")
    if name_value_ccsid not in NAME_VALUE_CCSIDS:
        raise _broken(f"NameValueCCSID {name_value_ccsid} is not one of {sorted(NAME_VALUE_CCSIDS)}")
    next_encoding, next_ccsid, next_format = following
    header = RFH2(
        folders=tuple(
            read_folder(decode(part, name_value_ccsid, big_endian=order == ">"))
            for part in _name_values(data[:length], order + "i")
        ),
        encoding=next_encoding,
        ccsid=next_ccsid,
        format=from_field(next_format, ccsid),
        flags=flags,
        name_value_ccsid=name_value_ccsid,
    )
    _check_count(header.folders)
    return header, length


def to_bytes(header: RFH2, *, encoding: int, ccsid: int = FIELD_CCSID) -> bytes:
    """Return the bytes of the header, in the `encoding` and `ccsid` of the descriptor or header before it.

    Raises `HeaderError` 2334 (MQRC_RFH_ERROR) for an invalid NameValueCCSID, for a number of more than 32 bits, and for more
    folders or properties than `parse` accepts. Raises 2335 (MQRC_RFH_STRING_ERROR) for a property that cannot be written.
    """
    if header.name_value_ccsid not in NAME_VALUE_CCSIDS:
        raise _broken(f"NameValueCCSID {header.name_value_ccsid} is not one of {sorted(NAME_VALUE_CCSIDS)}")
    _check_count(header.folders)
    order = byte_order(encoding)
    parts = [_padded(folder_text(folder), header.name_value_ccsid, big_endian=order == ">") for folder in header.folders]
    fixed = packed(
        header,
        Reason.RFH_ERROR,
        _LAYOUTS[order],
        to_field("RFH", 4, ccsid),
        _VERSION,
        RFH2_FIXED_BYTES + sum(4 + len(part) for part in parts),
        header.encoding,
        header.ccsid,
        to_field(header.format, 8, ccsid),
        header.flags,
        header.name_value_ccsid,
    )
    return fixed + b"".join(struct.pack(order + "i", len(part)) + part for part in parts)


def properties(header: RFH2, folder: str = "usr") -> dict[str, PropertyValue]:
    """Return the properties of all folders with this name, by name. If a name is repeated, its first property is used."""
    found: dict[str, PropertyValue] = {}
    for candidate in header.folders:
        if candidate.name == folder:
            for item in candidate.properties:
                found.setdefault(item.name, item.value)
    return found


def _name_values(data: bytes, layout: str) -> list[bytes]:
    """Return the NameValueData of each folder, with its padding; every length is checked before use."""
    parts: list[bytes] = []
    position = RFH2_FIXED_BYTES
    while position < len(data):
        (length,) = struct.unpack_from(layout, data, position)
        position += 4
        if not 0 <= length <= len(data) - position or length % _ALIGNMENT:
            raise _broken(f"A folder has the length {length}: not a multiple of 4 up to the {len(data) - position} bytes left")
        if len(parts) == FOLDERS_MAX:
            raise _broken(f"It has more than {FOLDERS_MAX} folders")
        parts.append(data[position : position + length])
        position += length
    return parts


def _padded(text: str, ccsid: int, *, big_endian: bool) -> bytes:
    data = encode(text, ccsid, big_endian=big_endian)
    blanks = -len(data) % _ALIGNMENT // (2 if ccsid in UTF_16_CCSIDS else 1)
    return data + encode(" " * blanks, ccsid, big_endian=big_endian)


def _check_count(folders: tuple[Folder, ...]) -> None:
    if len(folders) > FOLDERS_MAX or sum(len(folder.properties) for folder in folders) > PROPERTIES_MAX:
        raise _broken(f"It has more than {FOLDERS_MAX} folders or {PROPERTIES_MAX} properties")


def _broken(detail: str) -> MQIError:
    return error_for(Reason.RFH_ERROR, "Reading or writing an MQRFH2", detail=detail)
