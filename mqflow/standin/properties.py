"""Message handles and the properties in them: MQCRTMH, MQDLTMH, MQSETMP, MQINQMP, MQDLTMP.

Values are kept as the bytes they were given in, because a C program reads them back as such. How properties travel with a
message is `property_headers`' business.
Source: IBM, MQSETMP, MQINQMP and MQDLTMP; "Property name syntax"; rc2442, rc2460, rc2469, rc2470, rc2471, rc2473.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.standin import property_values
from mqflow.standin.connecting import Host
from mqflow.standin.layouts import MQCHARV, MQCMHO, MQDMHO, MQDMPO, MQIMPO, MQPD, MQSMPO
from mqflow.standin.memory import (
    NULL_TERMINATED,
    number_at,
    read,
    structure_at,
    write,
    write_number,
)
from mqflow.standin.property_values import Type

__all__ = (
    "FOLDERS",
    "Held",
    "MessageHandle",
    "create_handle",
    "delete_handle",
    "delete_property",
    "handle_of",
    "inquire_property",
    "set_property",
)

UNASSOCIATED: Final = -3
"""MQHC_UNASSOCIATED_HCONN: a message handle that belongs to no connection."""

FOLDERS: Final = frozenset({"usr", "jms", "mcd", "mqext", "mqps", "sib", "mq_usr"})
"""What the first part of a property's name may be; a name without one is in `usr`."""

_NAME_BYTES_MAX: Final = 4_095
_VALUE_BYTES_MAX: Final = 104_857_600
_RESERVED: Final = ("root.", "body.", "Root.", "Body.", "MQ")
_COPY_DEFAULT: Final = 0x16
_UTF_8: Final = 1208


class Option(IntEnum):
    """MQIMPO_* that are looked at."""

    CONVERT_TYPE = 0x2
    QUERY_LENGTH = 0x4
    INQ_NEXT = 0x8
    UNDER_CURSOR = 0x10
    CONVERT_VALUE = 0x20


class Held(Struct, frozen=True, kw_only=True):
    """A property of a message."""

    #: With its folder: `usr.colour`.
    name: str
    type: Type
    #: As in the memory of the program that set it: numbers little-endian, text in UTF-8.
    value: bytes
    #: MQPD: MQPD_SUPPORT_*, MQPD_*_CONTEXT, MQCOPY_*.
    support: int = 1
    context: int = 0
    copy_options: int = _COPY_DEFAULT

    @property
    def shown_name(self) -> str:
        """The name as MQINQMP gives it: `usr.` is left out."""
        return self.name.removeprefix("usr.")


class MessageHandle:
    """Hmsg: properties in the order they were set, and the cursor of MQINQMP."""

    def __init__(self) -> None:
        self.properties: list[Held] = []
        #: Index of the property last inquired.
        self.cursor: int | None = None

    def replace_all(self, properties: list[Held]) -> None:
        """Hold these properties and no others, as after an MQGET."""
        self.properties = properties
        self.cursor = None

    def put(self, held: Held) -> None:
        """Set the property: in its place, or at the end."""
        for index, present in enumerate(self.properties):
            if present.name == held.name:
                self.properties[index] = held
                return
        self.properties.append(held)


class _Sought(NamedTuple):
    """A name to look for: a whole one, or everything in a folder, or everything."""

    name: str
    prefix: str | None

    def matches(self, held: Held) -> bool:
        return held.name == self.name if self.prefix is None else held.name.startswith(self.prefix)


def create_handle(host: Host, number: int, options_at: int, handle_at: int) -> int:
    """MQCRTMH: write a message handle that has no properties yet."""
    structure_at(MQCMHO, options_at, "MQCRTMH")
    handles = _handles(host, number, "MQCRTMH")
    hmsg = host.next_number()
    handles[hmsg] = MessageHandle()
    write(handle_at, hmsg.to_bytes(8, "little", signed=True))
    return Reason.NONE


def delete_handle(host: Host, number: int, handle_at: int, options_at: int) -> int:
    """MQDLTMH: the handle and its properties are gone."""
    structure_at(MQDMHO, options_at, "MQDLTMH")
    hmsg = int.from_bytes(read(handle_at, 8), "little", signed=True)
    handle_of(host, number, hmsg, "MQDLTMH")
    del _handles(host, number, "MQDLTMH")[hmsg]
    write(handle_at, (-1).to_bytes(8, "little", signed=True))
    return Reason.NONE


def set_property(
    host: Host, number: int, hmsg: int, options_at: int, name_at: int, pd_at: int, kind: int, length: int, value_at: int
) -> int:
    """MQSETMP: the handle has the property."""
    structure_at(MQSMPO, options_at, "MQSETMP")
    pd = structure_at(MQPD, pd_at, "MQSETMP")
    handle = handle_of(host, number, hmsg, "MQSETMP")
    name = _whole_name(_name(name_at, "MQSETMP"), "MQSETMP")
    try:
        wanted = Type(kind)
    except ValueError:
        raise error_for(Reason.PROPERTY_TYPE_ERROR, "MQSETMP", name, detail=f"Type 0x{kind:x}") from None
    handle.put(
        Held(
            name=name,
            type=wanted,
            value=_value_at(wanted, length, value_at, name),
            support=pd.number("Support"),
            context=pd.number("Context"),
            copy_options=pd.number("CopyOptions"),
        )
    )
    return Reason.NONE


def inquire_property(
    host: Host,
    number: int,
    hmsg: int,
    options_at: int,
    name_at: int,
    pd_at: int,
    type_at: int,
    length: int,
    value_at: int,
    data_length_at: int,
) -> int:
    """MQINQMP: write value, type and length of the property, and of one found by `%` its name."""
    impo = structure_at(MQIMPO, options_at, "MQINQMP")
    pd = structure_at(MQPD, pd_at, "MQINQMP")
    handle = handle_of(host, number, hmsg, "MQINQMP")
    options = impo.number("Options")
    held = _found(handle, options, _name(name_at, "MQINQMP"))
    wanted = number_at(type_at)
    if options & Option.CONVERT_TYPE and wanted:
        held = _converted(held, wanted)
    elif wanted and wanted != held.type:
        detail = f"It is of type {held.type.name}; MQIMPO_CONVERT_TYPE asks for a conversion"
        raise error_for(Reason.PROP_CONV_NOT_SUPPORTED, "MQINQMP", held.name, detail=detail)
    write_number(type_at, held.type)
    write_number(data_length_at, len(held.value))
    pd.set(Support=held.support, Context=held.context, CopyOptions=held.copy_options)
    impo.set(ReturnedEncoding=impo.number("RequestedEncoding"), ReturnedCCSID=_UTF_8, TypeString=held.type.word)
    if not impo.set_string("ReturnedName", held.shown_name.encode(), _UTF_8):
        raise error_for(Reason.PROPERTY_NAME_TOO_BIG, "MQINQMP", held.name)
    if options & Option.QUERY_LENGTH:
        return Reason.NONE
    if length:
        write(value_at, held.value[:length])
    if len(held.value) > length:
        detail = f"{len(held.value)} bytes, and room for {length}"
        raise error_for(Reason.PROPERTY_VALUE_TOO_BIG, "MQINQMP", held.name, detail=detail)
    return Reason.NONE


def delete_property(host: Host, number: int, hmsg: int, options_at: int, name_at: int) -> int:
    """MQDLTMP: the handle has the property no more."""
    structure_at(MQDMPO, options_at, "MQDLTMP")
    handle = handle_of(host, number, hmsg, "MQDLTMP")
    handle.properties.remove(_found(handle, 0, _name(name_at, "MQDLTMP")))
    handle.cursor = None
    return Reason.NONE


def handle_of(host: Host, number: int, hmsg: int, verb: str) -> MessageHandle:
    """Return the message handle. Raises 2460."""
    found = _handles(host, number, verb).get(hmsg)
    if found is None:
        raise error_for(Reason.HMSG_ERROR, verb, detail=f"There is no message handle {hmsg}")
    return found


def _handles(host: Host, number: int, verb: str) -> dict[int, MessageHandle]:
    return host.message_handles if number == UNASSOCIATED else host.hconn(number, verb).message_handles


def _name(name_at: int, verb: str) -> str:
    name = structure_at(MQCHARV, name_at, verb).string("").decode("utf-8", "replace").rstrip(" \0")
    if len(name.encode()) > _NAME_BYTES_MAX:
        raise error_for(Reason.PROPERTY_NAME_LENGTH_ERR, verb, detail=f"A name of more than {_NAME_BYTES_MAX} bytes")
    if not name:
        raise error_for(Reason.PROPERTY_NAME_ERROR, verb, detail="The name is empty")
    return name


def _whole_name(name: str, verb: str) -> str:
    if name.startswith(_RESERVED) or any(not part or part[0].isdigit() for part in name.split(".")):
        raise error_for(Reason.PROPERTY_NAME_ERROR, verb, name, detail="It is reserved, or no name")
    return name if name.partition(".")[0] in FOLDERS and "." in name else f"usr.{name}"


def _sought(name: str) -> _Sought:
    if name == "%":
        return _Sought(name, "")
    if name.endswith(".%"):
        return _Sought(name, name[:-1])
    return _Sought(_whole_name(name, "MQINQMP"), None)


def _found(handle: MessageHandle, options: int, name: str) -> Held:
    """Return the property, and move the cursor to it. Raises 2471 where there is none."""
    if options & Option.UNDER_CURSOR:
        if handle.cursor is not None:
            return handle.properties[handle.cursor]
        raise error_for(Reason.PROPERTY_NOT_AVAILABLE, "MQINQMP", name, detail="The cursor is at no property")
    sought = _sought(name)
    first = 0 if handle.cursor is None or not options & Option.INQ_NEXT else handle.cursor + 1
    for index in range(first, len(handle.properties)):
        if sought.matches(handle.properties[index]):
            handle.cursor = index
            return handle.properties[index]
    raise error_for(Reason.PROPERTY_NOT_AVAILABLE, "MQINQMP", name)


def _value_at(kind: Type, length: int, value_at: int, name: str) -> bytes:
    """Return the value in the caller's memory; numbers have the length of their type, whatever the caller says."""
    if kind is Type.NULL:
        return b""
    if kind.size:
        return read(value_at, kind.size)
    if length == NULL_TERMINATED and kind is Type.STRING:
        return read(value_at, length)
    if not 0 <= length <= _VALUE_BYTES_MAX:
        raise error_for(Reason.PROPERTY_VALUE_TOO_BIG, "MQSETMP", name, detail=f"ValueLength {length}")
    return read(value_at, length)


def _converted(held: Held, wanted: int) -> Held:
    """Return the property as another type. Raises 2470 where there is no way, 2472 where a text is no number."""
    try:
        target = Type(wanted)
        return replace(held, type=target, value=property_values.packed(target, property_values.unpacked(held.type, held.value)))
    except (TypeError, OverflowError) as error:
        raise _no_way(held, wanted, Reason.PROP_CONV_NOT_SUPPORTED) from error
    except ValueError as error:
        raise _no_way(held, wanted, Reason.PROP_NUMBER_FORMAT_ERROR) from error


def _no_way(held: Held, wanted: int, reason: Reason) -> MQIError:
    return error_for(reason, "MQINQMP", held.name, detail=f"From type {held.type.name} to 0x{wanted:x}")
