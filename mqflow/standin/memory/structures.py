"""Reads and writes the structures of a caller in the caller's memory, in the version that each structure states.

This file never touches a byte behind that version. An address of 0 is a mistake of the caller; the reason says which structure
is missing. The file knows layouts; it knows no verb.
"""

import ctypes
import struct
from functools import lru_cache
from typing import Final

from mqflow.mqi.c_structures import Layout
from mqflow.mqi.errors import error_for
from mqflow.mqi.names import padded, stripped

__all__ = ("NULL_TERMINATED", "Structure", "number_at", "read", "structure_at", "text_at", "write", "write_number")

NULL_TERMINATED: Final = -1
"""MQVS_NULL_TERMINATED: the length of a variable-length string that ends with its first NUL."""

_LONG: Final = struct.Struct("i")
_C: Final = ctypes.CDLL(None)
_C.strnlen.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_C.strnlen.restype = ctypes.c_size_t


class Structure:
    """A structure in a caller's memory. Fields have IBM's names."""

    __slots__ = ("_memory", "address", "layout", "version")

    def __init__(self, layout: Layout, address: int, version: int) -> None:
        self.layout: Layout = layout
        self.address: int = address
        self.version: int = version
        self._memory = (ctypes.c_char * layout.lengths[version]).from_address(address)

    def number(self, name: str, default: int = 0) -> int:
        """Return a number or an address; `default` if this version has no such field."""
        field = self.layout.fields[name]
        if field.since > self.version:
            return default
        value: int = _packer(field.kind).unpack_from(self._memory, field.offset)[0]
        return value

    def raw(self, name: str) -> bytes:
        """Return the unchanged bytes of a field; NULs if this version has no such field."""
        field = self.layout.fields[name]
        if field.since > self.version:
            return bytes(field.length)
        return ctypes.string_at(self.address + field.offset, field.length)

    def text(self, name: str) -> str:
        """Return the text of a character field, without its padding."""
        return stripped(self.raw(name))

    def set(self, **values: int | bytes | str) -> None:
        """Fill in fields: numbers, bytes of the field's length, texts (blank-padded). Skips fields of later versions."""
        for name, value in values.items():
            field = self.layout.fields[name]
            if field.since > self.version:
                continue
            given = padded(value, field.length) if isinstance(value, str) else value
            _packer(field.kind).pack_into(self._memory, field.offset, given)

    def string(self, name: str) -> bytes:
        """Return the bytes of a variable-length string (MQCHARV)."""
        address = self.place(f"{name}VSPtr", f"{name}VSOffset")
        length = self.number(f"{name}VSLength")
        if not address or not length:
            return b""
        return read(address, length)

    def set_string(self, name: str, value: bytes, ccsid: int) -> bool:
        """Fill in a variable-length string, truncated to its buffer. Return whether the string fits or has no buffer."""
        address = self.place(f"{name}VSPtr", f"{name}VSOffset")
        room = self.number(f"{name}VSBufSize")
        if not address or room <= 0:
            return True
        write(address, value[:room])
        self.set(**{f"{name}VSLength": len(value), f"{name}VSCCSID": ccsid})
        return len(value) <= room

    def place(self, pointer: str, offset: str) -> int:
        """Return the address in a pointer field, or at an offset from the structure's start; 0 if neither field is set."""
        if address := self.number(pointer):
            return address
        distance = self.number(offset)
        return self.address + distance if distance else 0

    def pointed(self, name: str) -> bytes:
        """Return ``<name>Length`` bytes from the place that ``<name>Ptr`` or ``<name>Offset`` names."""
        address = self.place(f"{name}Ptr", f"{name}Offset")
        length = self.number(f"{name}Length")
        return read(address, length) if address and length > 0 else b""

    def values(self) -> dict[str, int | str | bytes]:
        """Return every field that this version has: numbers, and character fields as bytes."""
        return {
            name: self.raw(name) if field.kind.endswith("s") else self.number(name)
            for name, field in self.layout.fields.items()
            if field.since <= self.version
        }


def structure_at(layout: Layout, address: int, verb: str) -> Structure:
    """Return the structure at this address.

    If the address is 0, or another structure is at the address, raises the `reason` of the layout. If the version is unknown,
    raises its `version_reason` (2256 for an MQGMO).
    """
    if not address:
        raise error_for(layout.reason, verb, detail=f"The address of the {layout.name} is 0")
    head = read(address, 4)
    if layout.identifier and head != layout.identifier:
        raise error_for(layout.reason, verb, detail=f"The structure starts with {head!r}, so it is not an {layout.name}")
    version = number_at(address + layout.version_offset) if layout.version_offset >= 0 else 1
    if version not in layout.lengths:
        known = f"1 to {max(layout.lengths)}"
        raise error_for(layout.version_reason, verb, detail=f"An {layout.name} of version {version}; {known} are known")
    return Structure(layout, address, version)


def read(address: int, length: int) -> bytes:
    """Return `length` bytes of the caller's memory; if `length` is `NULL_TERMINATED`, the bytes before the first NUL."""
    return ctypes.string_at(address, length)  # `string_at` takes -1 with the same meaning


def write(address: int, data: bytes) -> None:
    """Copy bytes into the caller's memory."""
    ctypes.memmove(address, data, len(data))


def number_at(address: int) -> int:
    """Return the MQLONG at this address."""
    number: int = _LONG.unpack(ctypes.string_at(address, 4))[0]
    return number


def write_number(address: int, value: int) -> None:
    """Write an MQLONG, unless the address is 0."""
    if address:
        ctypes.memmove(address, _LONG.pack(value), 4)


def text_at(address: int, length_max: int) -> str:
    """Return the text of a character field, up to the first NUL: C programs pass names with or without a NUL."""
    return stripped(read(address, _C.strnlen(address, length_max))) if address else ""


@lru_cache(maxsize=64)
def _packer(kind: str) -> struct.Struct:
    return struct.Struct(kind)
