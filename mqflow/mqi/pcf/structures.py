"""PCF, programmable command formats: the structures of commands, responses and events, and their bytes.

This module knows layouts, byte orders and character sets; it knows no command. `codes` has the numbers.
`pcf_reader` parses bytes.
Source: IBM, "Structures for PCF commands and responses": the layout tables of MQCFH, MQCFIN, MQCFST ...
"""

import struct
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, assert_never

from msgspec import Struct

from mqflow.mqi.ccsid import encode
from mqflow.mqi.errors import MQIError
from mqflow.mqi.layout import FIELD_CCSID, byte_order, oversized
from mqflow.mqi.options import Encoding
from mqflow.mqi.pcf.codes import StructureType
from mqflow.mqi.reason_codes import Reason

__all__ = (
    "CCSID_OF_MESSAGE",
    "CFBF",
    "CFBS",
    "CFGR",
    "CFH",
    "CFH_BYTES",
    "CFIF",
    "CFIL",
    "CFIL64",
    "CFIN",
    "CFIN64",
    "CFSF",
    "CFSL",
    "CFST",
    "PCFError",
    "PCFMessage",
    "Parameter",
    "readable_bytes",
    "to_bytes",
)

CFH_BYTES: Final = 36
CCSID_OF_MESSAGE: Final = 0
"""MQCCSI_DEFAULT: the text is in the character set of the message."""
_UTF_8: Final = 1208


class PCFError(MQIError):
    """A PCF message cannot be parsed, or a command cannot be performed; `parameter` is the wrong parameter, or 0."""

    def __init__(self, reason: int, what: str = "PCF command", detail: str = "", parameter: int = 0) -> None:
        super().__init__(reason, what, detail=detail)
        self.parameter = parameter


class CFH(Struct, frozen=True, kw_only=True):
    """MQCFH, the header, without ParameterCount, which is the number of parameters behind it."""

    type: StructureType = StructureType.COMMAND
    version: int = 1
    #: MQCMD_*.
    command: int = 0
    sequence_number: int = 1
    #: Control: MQCFC_LAST.
    last: bool = True
    completion: int = 0
    reason: int = 0


class CFIN(Struct, frozen=True):
    """MQCFIN: a number of 32 bits."""

    parameter: int
    value: int


class CFIN64(Struct, frozen=True):
    """MQCFIN64: a number of 64 bits."""

    parameter: int
    value: int


class CFST(Struct, frozen=True):
    """MQCFST: a text, with its padding of blanks."""

    parameter: int
    value: str
    ccsid: int = CCSID_OF_MESSAGE


class CFBS(Struct, frozen=True):
    """MQCFBS: bytes."""

    parameter: int
    value: bytes


class CFIL(Struct, frozen=True):
    """MQCFIL: numbers of 32 bits."""

    parameter: int
    value: tuple[int, ...]


class CFIL64(Struct, frozen=True):
    """MQCFIL64: numbers of 64 bits."""

    parameter: int
    value: tuple[int, ...]


class CFSL(Struct, frozen=True):
    """MQCFSL: texts. The structure pads all texts to the length of the longest text; this record has no padding."""

    parameter: int
    value: tuple[str, ...]
    ccsid: int = CCSID_OF_MESSAGE


class CFIF(Struct, frozen=True):
    """MQCFIF: a filter by a number; the operator is an MQCFOP_*."""

    parameter: int
    operator: int
    value: int


class CFSF(Struct, frozen=True):
    """MQCFSF: a filter by a text."""

    parameter: int
    operator: int
    value: str
    ccsid: int = CCSID_OF_MESSAGE


class CFBF(Struct, frozen=True):
    """MQCFBF: a filter by bytes."""

    parameter: int
    operator: int
    value: bytes


class CFGR(Struct, frozen=True):
    """MQCFGR: a group of parameters."""

    parameter: int
    value: tuple["Parameter", ...]


Parameter: TypeAlias = CFIN | CFIN64 | CFST | CFBS | CFIL | CFIL64 | CFSL | CFIF | CFSF | CFBF | CFGR


class PCFMessage(Struct, frozen=True):
    """A header and its parameters."""

    header: CFH
    parameters: tuple[Parameter, ...] = ()


def to_bytes(message: PCFMessage, *, encoding: int = Encoding.NATIVE, ccsid: int = FIELD_CCSID) -> bytes:
    """Return the message as bytes; a text with `ccsid` 0 is written in the character set of the message.

    Raises `MQIError` 2119 if a text has a character that the character set lacks, and 2115 if the character set is unknown.
    Raises `PCFError`, with the reason for the structure (for example MQRC_CFIN_ERROR), if a number has too many bits.
    """
    order = byte_order(encoding)
    header = message.header
    control = int(header.last)
    numbers = (header.type, CFH_BYTES, header.version, header.command, header.sequence_number, control, header.completion)
    try:
        packed = struct.pack(order + "9i", *numbers, header.reason, len(message.parameters))
    except struct.error as error:
        raise _unfit(header, error) from error
    return packed + b"".join(_written(parameter, order, ccsid) for parameter in message.parameters)


def _unfit(structure: CFH | Parameter, error: struct.error) -> PCFError:
    """Return the error with the reason for this structure: a number in it has too many bits."""
    name = type(structure).__name__
    short, bits = name.removesuffix("64"), 64 if name.endswith("64") else 32
    parameter = 0 if isinstance(structure, CFH) else structure.parameter
    detail = f"{name} of parameter {parameter}: {oversized(structure, bits) or error}"
    return PCFError(Reason[f"{short}_ERROR"], "Writing a PCF message", detail, parameter)


def readable_bytes(message: PCFMessage, *, encoding: int = Encoding.NATIVE, ccsid: int) -> tuple[bytes, int]:
    """Return the message as bytes, and the character set of its texts: `ccsid`, or UTF-8 if `ccsid` cannot express a text."""
    try:
        return to_bytes(message, encoding=encoding, ccsid=ccsid), ccsid
    except MQIError:
        return to_bytes(message, encoding=encoding, ccsid=_UTF_8), _UTF_8


def _written(parameter: Parameter, order: Literal["<", ">"], ccsid: int) -> bytes:
    try:
        match parameter:
            case CFIN() | CFIN64() | CFIL() | CFIL64() | CFIF():
                return _numbers(parameter, order)
            case CFST() | CFSL() | CFSF():
                return _text(parameter, order, ccsid)
            case CFBS(number, value):
                return _packed(order, StructureType.BYTE_STRING, number, (len(value),), value)
            case CFBF(number, operator, value):
                return _packed(order, StructureType.BYTE_STRING_FILTER, number, (operator, len(value)), value)
            case CFGR(number, members):
                # The length is that of the group structure alone; the members follow the structure.
                group = _packed(order, StructureType.GROUP, number, (len(members),))
                return group + b"".join(_written(member, order, ccsid) for member in members)
            case unknown:
                assert_never(unknown)
    except struct.error as error:
        raise _unfit(parameter, error) from error


def _numbers(parameter: CFIN | CFIN64 | CFIL | CFIL64 | CFIF, order: str) -> bytes:
    match parameter:
        case CFIN(number, value):
            return _packed(order, StructureType.INTEGER, number, (value,))
        case CFIN64(number, value):
            # Four bytes are reserved, so that the number is at a multiple of eight.
            return _packed(order, StructureType.INTEGER64, number, (0,), struct.pack(order + "q", value))
        case CFIL(number, values):
            content = struct.pack(f"{order}{len(values)}i", *values)
            return _packed(order, StructureType.INTEGER_LIST, number, (len(values),), content)
        case CFIL64(number, values):
            content = struct.pack(f"{order}{len(values)}q", *values)
            return _packed(order, StructureType.INTEGER64_LIST, number, (len(values),), content)
        case CFIF(number, operator, value):
            return _packed(order, StructureType.INTEGER_FILTER, number, (operator, value))
        case unknown:
            assert_never(unknown)


def _text(parameter: CFST | CFSL | CFSF, order: Literal["<", ">"], ccsid: int) -> bytes:
    number, own, big = parameter.parameter, parameter.ccsid, order == ">"
    match parameter:
        case CFST(value=value):
            content = encode(value, own or ccsid, big_endian=big)
            return _packed(order, StructureType.STRING, number, (own, len(content)), content)
        case CFSL(value=values):
            length, content = _padded(values, own or ccsid, big_endian=big)
            return _packed(order, StructureType.STRING_LIST, number, (own, len(values), length), content)
        case CFSF(operator=operator, value=value):
            content = encode(value, own or ccsid, big_endian=big)
            return _packed(order, StructureType.STRING_FILTER, number, (operator, own, len(content)), content)
        case unknown:
            assert_never(unknown)


def _packed(order: str, kind: StructureType, parameter: int, numbers: Sequence[int], content: bytes = b"") -> bytes:
    """Return the structure, padded to a multiple of four bytes; the padding is not part of the text in the structure."""
    content += bytes(-len(content) % 4)
    head = struct.pack(f"{order}{3 + len(numbers)}i", kind, 12 + 4 * len(numbers) + len(content), parameter, *numbers)
    return head + content


def _padded(values: Sequence[str], ccsid: int, *, big_endian: bool) -> tuple[int, bytes]:
    """Return the length of the longest text, and the texts one after the other, all padded to that length."""
    length = max((len(encode(value, ccsid, big_endian=big_endian)) for value in values), default=0)
    blank = encode(" ", ccsid, big_endian=big_endian)
    texts = [encode(value, ccsid, big_endian=big_endian) for value in values]
    return length, b"".join(text + blank * ((length - len(text)) // len(blank)) for text in texts)
