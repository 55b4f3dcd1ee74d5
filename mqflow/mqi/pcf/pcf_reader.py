"""Reads PCF: any bytes give a message, or a `PCFError` with the MQRCCF_* number of the mistake.

This module knows the layouts of `structures`, and distrusts every length and count in them; it knows no command.
Source: as for `structures`; the reason for each mistake follows the names of the MQRCCF_* constants.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import Struct

from mqflow.mqi.ccsid import decode
from mqflow.mqi.errors import MQIError
from mqflow.mqi.layout import FIELD_CCSID, byte_order
from mqflow.mqi.options import Encoding
from mqflow.mqi.pcf import structures
from mqflow.mqi.pcf.codes import PCFReason, StructureType

__all__ = ("parse",)

_GROUPS_DEEP_MAX: Final = 8
_HEADERS: Final = frozenset(StructureType) - {
    StructureType.NONE, StructureType.INTEGER, StructureType.STRING, StructureType.INTEGER_LIST, StructureType.STRING_LIST,
    StructureType.BYTE_STRING, StructureType.INTEGER_FILTER, StructureType.STRING_FILTER, StructureType.BYTE_STRING_FILTER,
    StructureType.GROUP, StructureType.INTEGER64, StructureType.INTEGER64_LIST,
}  # fmt: skip


def parse(data: bytes, *, encoding: int = Encoding.NATIVE, ccsid: int = FIELD_CCSID) -> structures.PCFMessage:
    """Return the message in the data; `encoding` and `ccsid` come from the descriptor in front of the data.

    Raises `PCFError` with 3001 to 3007 for the header, 3016 if the lengths do not add up, and 3013 for an unknown structure.
    Raises `PCFError` with 3049 for bytes that are not text, and with the MQRCCF_* of a structure with wrong lengths.
    """
    order = byte_order(encoding)
    header, count = _header(data, order)
    reader = _Reader(data, order, ccsid)
    parameters = reader.parameters(count, 0)
    if reader.at != len(data):
        raise _wrong(PCFReason.MSG_LENGTH_ERROR, f"{len(data) - reader.at} bytes follow the {count} parameters of the header")
    return structures.PCFMessage(header, parameters)


def _wrong(reason: int, detail: str, parameter: int = 0) -> structures.PCFError:
    return structures.PCFError(reason, "Reading a PCF message", detail, parameter)


def _header(data: bytes, order: str) -> tuple[structures.CFH, int]:
    if len(data) < structures.CFH_BYTES:
        raise _wrong(
            PCFReason.MSG_LENGTH_ERROR, f"It has {len(data)} bytes, fewer than the {structures.CFH_BYTES} bytes of a header"
        )
    kind, length, version, command, sequence, control, completion, reason, count = struct.unpack_from(order + "9i", data)
    if kind not in _HEADERS:
        raise _wrong(PCFReason.CFH_TYPE_ERROR, f"Type {kind} (0x{kind & 0xFFFFFFFF:08X}) is not a PCF message")
    if length != structures.CFH_BYTES:
        raise _wrong(PCFReason.CFH_LENGTH_ERROR, f"StrucLength is {length}, not {structures.CFH_BYTES}")
    if version not in {1, 2, 3}:
        raise _wrong(PCFReason.CFH_VERSION_ERROR, f"Version {version}; 1, 2 and 3 are known")
    if control not in {0, 1}:
        raise _wrong(PCFReason.CFH_CONTROL_ERROR, f"Control {control}; 0 (more follow) and 1 (last) are known")
    if count < 0:
        raise _wrong(PCFReason.CFH_PARM_COUNT_ERROR, f"ParameterCount is {count}")
    header = structures.CFH(
        type=StructureType(kind),
        version=version,
        command=command,
        sequence_number=sequence,
        last=bool(control),
        completion=completion,
        reason=reason,
    )
    return header, count


class _Layout(Struct, frozen=True):
    """The fixed part of a structure, and the reasons for its mistakes."""

    name: str
    #: The length of the fixed part in bytes; it is the whole length if nothing follows.
    fixed: int
    length_error: int
    #: The reason if a count or a length in the structure does not fit.
    content_error: int


_LAYOUTS: Final[Mapping[int, _Layout]] = {
    kind: _Layout(name, fixed, length_error, content_error)
    for kind, name, fixed, length_error, content_error in (
        (StructureType.INTEGER, "CFIN", 16, PCFReason.CFIN_LENGTH_ERROR, PCFReason.CFIN_LENGTH_ERROR),
        (StructureType.INTEGER64, "CFIN64", 24, PCFReason.CFIN_LENGTH_ERROR, PCFReason.CFIN_LENGTH_ERROR),
        (StructureType.STRING, "CFST", 20, PCFReason.CFST_LENGTH_ERROR, PCFReason.CFST_STRING_LENGTH_ERR),
        (StructureType.BYTE_STRING, "CFBS", 16, PCFReason.CFBS_LENGTH_ERROR, PCFReason.CFBS_STRING_LENGTH_ERR),
        (StructureType.INTEGER_LIST, "CFIL", 16, PCFReason.CFIL_LENGTH_ERROR, PCFReason.CFIL_COUNT_ERROR),
        (StructureType.INTEGER64_LIST, "CFIL64", 16, PCFReason.CFIL_LENGTH_ERROR, PCFReason.CFIL_COUNT_ERROR),
        (StructureType.STRING_LIST, "CFSL", 24, PCFReason.CFSL_LENGTH_ERROR, PCFReason.CFSL_STRING_LENGTH_ERR),
        (StructureType.INTEGER_FILTER, "CFIF", 20, PCFReason.CFIF_LENGTH_ERROR, PCFReason.CFIF_LENGTH_ERROR),
        (StructureType.STRING_FILTER, "CFSF", 24, PCFReason.CFSF_LENGTH_ERROR, PCFReason.CFSF_FILTER_VAL_LEN_ERR),
        (StructureType.BYTE_STRING_FILTER, "CFBF", 20, PCFReason.CFBF_LENGTH_ERROR, PCFReason.CFBF_FILTER_VAL_LEN_ERR),
        (StructureType.GROUP, "CFGR", 16, PCFReason.CFGR_LENGTH_ERROR, PCFReason.CFGR_PARM_COUNT_ERROR),
    )
}


class _Reader:
    """Reads the structures from a position in the data onwards."""

    def __init__(self, data: bytes, order: Literal["<", ">"], ccsid: int) -> None:
        self.at = structures.CFH_BYTES
        self._data = data
        self._order = order
        self._ccsid = ccsid
        #: How many texts without bytes the lists of the message can still have: nothing else limits their number.
        self._empty_texts_left = len(data)

    def parameters(self, count: int, depth: int) -> tuple[structures.Parameter, ...]:
        """Read `count` parameters. Each has at least 16 bytes, so a count too large for the data fails where the data ends."""
        found: list[structures.Parameter] = []
        for number in range(1, count + 1):
            if len(self._data) - self.at < _SMALLEST:
                raise _wrong(PCFReason.MSG_LENGTH_ERROR, f"The message ends before parameter {number} of {count}")
            found.append(self._parameter(depth))
        return tuple(found)

    def _parameter(self, depth: int) -> structures.Parameter:
        start = self.at
        kind, length, parameter = struct.unpack_from(self._order + "3i", self._data, start)
        layout = _LAYOUTS.get(kind)
        if layout is None:
            raise _wrong(PCFReason.STRUCTURE_TYPE_ERROR, f"Type {kind} at offset {start} is not a parameter structure")
        if length < layout.fixed or (kind in _FIXED and length != layout.fixed):
            raise _wrong(layout.length_error, f"{layout.name}.StrucLength is {length} at offset {start}", parameter)
        if length > len(self._data) - start:
            raise _wrong(PCFReason.MSG_LENGTH_ERROR, f"The message ends within the {layout.name} at offset {start}", parameter)
        self.at = start + length
        if kind == StructureType.GROUP:
            return self._group(parameter, start, depth)
        return _READ[kind](self, parameter, start, layout)

    def _group(self, parameter: int, start: int, depth: int) -> structures.CFGR:
        (count,) = struct.unpack_from(self._order + "i", self._data, start + 12)
        if count < 0 or depth == _GROUPS_DEEP_MAX:
            detail = f"ParameterCount is {count}" if count < 0 else f"Groups are nested {depth} deep"
            raise _wrong(PCFReason.CFGR_PARM_COUNT_ERROR, f"{detail} at offset {start}", parameter)
        return structures.CFGR(parameter, self.parameters(count, depth + 1))

    def integer(self, parameter: int, start: int, _layout: _Layout) -> structures.CFIN:
        return structures.CFIN(parameter, *struct.unpack_from(self._order + "i", self._data, start + 12))

    def integer64(self, parameter: int, start: int, _layout: _Layout) -> structures.CFIN64:
        # Four bytes are reserved, so that the number is at a multiple of eight.
        return structures.CFIN64(parameter, *struct.unpack_from(self._order + "q", self._data, start + 16))

    def integers(self, parameter: int, start: int, layout: _Layout) -> structures.CFIL:
        return structures.CFIL(parameter, self._numbers("i", 4, parameter, start, layout))

    def integers64(self, parameter: int, start: int, layout: _Layout) -> structures.CFIL64:
        return structures.CFIL64(parameter, self._numbers("q", 8, parameter, start, layout))

    def string(self, parameter: int, start: int, layout: _Layout) -> structures.CFST:
        ccsid, length = struct.unpack_from(self._order + "2i", self._data, start + 12)
        return structures.CFST(parameter, self._text(length, ccsid, parameter, start, layout), ccsid)

    def byte_string(self, parameter: int, start: int, layout: _Layout) -> structures.CFBS:
        (length,) = struct.unpack_from(self._order + "i", self._data, start + 12)
        return structures.CFBS(parameter, self._content(length, parameter, start, layout))

    def strings(self, parameter: int, start: int, layout: _Layout) -> structures.CFSL:
        ccsid, count, length = struct.unpack_from(self._order + "3i", self._data, start + 12)
        if count < 0 or (length == 0 and count > self._empty_texts_left):
            raise _wrong(PCFReason.CFSL_COUNT_ERROR, f"CFSL.Count is {count} at offset {start}", parameter)
        if length < 0:
            raise _wrong(layout.content_error, f"CFSL.StringLength is {length} at offset {start}", parameter)
        if length == 0:
            self._empty_texts_left -= count
            return structures.CFSL(parameter, (self._decoded(b"", ccsid, parameter),) * count, ccsid)
        content = self._content(count * length, parameter, start, layout)
        pieces = (content[index * length : (index + 1) * length] for index in range(count))
        return structures.CFSL(
            parameter, tuple(self._decoded(piece, ccsid, parameter).rstrip(" \0") for piece in pieces), ccsid
        )

    def integer_filter(self, parameter: int, start: int, _layout: _Layout) -> structures.CFIF:
        return structures.CFIF(parameter, *struct.unpack_from(self._order + "2i", self._data, start + 12))

    def string_filter(self, parameter: int, start: int, layout: _Layout) -> structures.CFSF:
        operator, ccsid, length = struct.unpack_from(self._order + "3i", self._data, start + 12)
        return structures.CFSF(parameter, operator, self._text(length, ccsid, parameter, start, layout), ccsid)

    def byte_string_filter(self, parameter: int, start: int, layout: _Layout) -> structures.CFBF:
        operator, length = struct.unpack_from(self._order + "2i", self._data, start + 12)
        return structures.CFBF(parameter, operator, self._content(length, parameter, start, layout))

    def _numbers(self, code: str, size: int, parameter: int, start: int, layout: _Layout) -> tuple[int, ...]:
        (count,) = struct.unpack_from(self._order + "i", self._data, start + 12)
        if count < 0 or count * size > self.at - start - layout.fixed:
            raise _wrong(layout.content_error, f"{layout.name}.Count is {count} at offset {start}", parameter)
        return struct.unpack_from(f"{self._order}{count}{code}", self._data, start + layout.fixed)

    def _text(self, length: int, ccsid: int, parameter: int, start: int, layout: _Layout) -> str:
        return self._decoded(self._content(length, parameter, start, layout), ccsid, parameter)

    def _content(self, length: int, parameter: int, start: int, layout: _Layout) -> bytes:
        if not 0 <= length <= self.at - start - layout.fixed:
            raise _wrong(layout.content_error, f"{layout.name} has the length {length} at offset {start}", parameter)
        return self._data[start + layout.fixed : start + layout.fixed + length]

    def _decoded(self, data: bytes, ccsid: int, parameter: int) -> str:
        try:
            return decode(data, self._ccsid if ccsid == structures.CCSID_OF_MESSAGE else ccsid, big_endian=self._order == ">")
        except MQIError as error:
            raise _wrong(PCFReason.CCSID_ERROR, error.detail, parameter) from None


_SMALLEST: Final = 16
_FIXED: Final = frozenset({StructureType.INTEGER, StructureType.INTEGER64, StructureType.INTEGER_FILTER, StructureType.GROUP})
_READ: Final[Mapping[int, Callable[[_Reader, int, int, _Layout], structures.Parameter]]] = {
    StructureType.INTEGER: _Reader.integer,
    StructureType.INTEGER64: _Reader.integer64,
    StructureType.INTEGER_LIST: _Reader.integers,
    StructureType.INTEGER64_LIST: _Reader.integers64,
    StructureType.STRING: _Reader.string,
    StructureType.BYTE_STRING: _Reader.byte_string,
    StructureType.STRING_LIST: _Reader.strings,
    StructureType.INTEGER_FILTER: _Reader.integer_filter,
    StructureType.STRING_FILTER: _Reader.string_filter,
    StructureType.BYTE_STRING_FILTER: _Reader.byte_string_filter,
}
