"""MQSETMP, MQINQMP and MQDLTMP on a caller's structures and buffers.

`mqi.properties` has the rules of properties, their names and values. This file reads properties from the caller's memory, and
writes them into it.
Source: IBM, MQSETMP, MQINQMP, MQDLTMP, MQIMPO, MQSMPO, MQDMPO and MQPD; rc2442, rc2465, rc2466, rc2469, rc2470, rc2473, rc2482.
"""

from enum import IntFlag
from typing import Final

from msgspec.structs import replace

from mqflow.mqi.c_structures import MQCHARV, MQDMPO, MQIMPO, MQPD, MQSMPO
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import Encoding
from mqflow.mqi.properties.property_names import settable_name
from mqflow.mqi.properties.set import MessageProperty, PropertyContext, PropertyType, Support, property_type
from mqflow.mqi.properties.types import converted, from_memory, to_memory
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.calls.message_handles import handle_of
from mqflow.standin.host import Host, SetWhere
from mqflow.standin.memory.structures import NULL_TERMINATED, Structure, number_at, read, structure_at, write, write_number

__all__ = ("delete_property", "inquire_property", "set_property")

_VALUE_BYTES_MAX: Final = 104_857_600
_UTF_8: Final = 1208
_OWN_CCSIDS: Final = frozenset({0, -3})
"""MQCCSI_Q_MGR and MQCCSI_APPL: both mean UTF-8 here."""
_UNDER_CURSOR: Final = 0x1
"""MQDMPO_DEL_PROP_UNDER_CURSOR."""


class Inquiry(IntFlag):
    """MQIMPO_*: the options of MQINQMP."""

    CONVERT_TYPE = 0x2
    QUERY_LENGTH = 0x4
    INQ_NEXT = 0x8
    INQ_PROP_UNDER_CURSOR = 0x10
    CONVERT_VALUE = 0x20


def set_property(
    host: Host, number: int, hmsg: int, options_at: int, name_at: int, pd_at: int, kind: int, length: int, value_at: int
) -> int:
    """MQSETMP: set the property in the handle."""
    smpo = structure_at(MQSMPO, options_at, "MQSETMP")
    pd = structure_at(MQPD, pd_at, "MQSETMP")
    handle = handle_of(host, number, hmsg, "MQSETMP")
    name = settable_name(_name(name_at, "MQSETMP"), validate=handle.validate)
    wanted = property_type(kind, name)
    if pd.number("Context") not in set(PropertyContext):
        raise error_for(Reason.PD_ERROR, "MQSETMP", name, detail=f"MQPD.Context {pd.number('Context')}")
    value = from_memory(
        wanted,
        _value_at(wanted, length, value_at, name),
        encoding=smpo.number("ValueEncoding"),
        ccsid=_ccsid(smpo.number("ValueCCSID")),
    )
    support = pd.number("Support") if name.startswith("mq.") and not handle.validate else Support.OPTIONAL
    handle.set(
        MessageProperty(
            name=name,
            type=wanted,
            value=value,
            support=support,
            context=pd.number("Context"),
            copy_options=pd.number("CopyOptions"),
        ),
        _where(smpo.number("Options")),
    )
    pd.set(Support=support)
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
    """MQINQMP: write the value, type, length and name of the property."""
    impo = structure_at(MQIMPO, options_at, "MQINQMP")
    pd = structure_at(MQPD, pd_at, "MQINQMP")
    handle = handle_of(host, number, hmsg, "MQINQMP")
    options = impo.number("Options")
    if options & Inquiry.INQ_PROP_UNDER_CURSOR:
        found = handle.under_cursor("MQINQMP")
    else:
        found = handle.inquire(_name(name_at, "MQINQMP"), following=bool(options & Inquiry.INQ_NEXT))
    if options & Inquiry.CONVERT_TYPE and (wanted := number_at(type_at)):
        target = property_type(wanted, found.name)
        write_number(
            data_length_at, 0
        )  # after a failure there is no value, but a package reads as many bytes as the length says
        write_number(type_at, found.type)  # rc2470: Type has the type of the property
        found = replace(found, type=target, value=converted(found.name, found.type, found.value, target))
    data, reason = _data(found, impo, convert=bool(options & Inquiry.CONVERT_VALUE))
    write_number(type_at, found.type)
    write_number(data_length_at, len(data))
    pd.set(Support=found.support, Context=found.context, CopyOptions=found.copy_options)
    impo.set(TypeString="" if found.type is PropertyType.NULL else found.type.word)
    if not impo.set_string("ReturnedName", found.shown_name.encode(), _UTF_8):
        raise error_for(Reason.PROPERTY_NAME_TOO_BIG, "MQINQMP", found.name)
    if options & Inquiry.QUERY_LENGTH:
        return reason
    if length:
        write(value_at, data[:length])
    if len(data) > length:
        detail = f"{len(data)} bytes, and room for {length}"
        raise error_for(Reason.PROPERTY_VALUE_TOO_BIG, "MQINQMP", found.name, detail=detail)
    return reason


def delete_property(host: Host, number: int, hmsg: int, options_at: int, name_at: int) -> int:
    """MQDLTMP: delete the property from the handle."""
    dmpo = structure_at(MQDMPO, options_at, "MQDLTMP")
    handle = handle_of(host, number, hmsg, "MQDLTMP")
    if dmpo.number("Options") & _UNDER_CURSOR:
        handle.delete_under_cursor()
    else:
        handle.delete(_name(name_at, "MQDLTMP"))
    return Reason.NONE


def _data(found: MessageProperty, impo: Structure, *, convert: bool) -> tuple[bytes, int]:
    """Return the value as bytes, converted if the caller asks for that, and the reason of a warning."""
    encoding, ccsid = Encoding.NATIVE, _UTF_8
    reason = int(Reason.NONE)
    if convert:
        encoding, ccsid = impo.number("RequestedEncoding"), _ccsid(impo.number("RequestedCCSID"))
    try:
        data = to_memory(found.type, found.value, encoding=encoding, ccsid=ccsid)
    except MQIError as error:
        encoding, ccsid, reason = Encoding.NATIVE, _UTF_8, error.reason
        data = to_memory(found.type, found.value)
    impo.set(ReturnedEncoding=encoding, ReturnedCCSID=ccsid)
    return data, reason


def _name(name_at: int, verb: str) -> str:
    return structure_at(MQCHARV, name_at, verb).string("").decode("utf-8", "replace").rstrip(" \0")


def _where(options: int) -> SetWhere:
    try:
        return SetWhere(options)
    except ValueError:
        raise error_for(Reason.OPTIONS_ERROR, "MQSETMP", detail=f"MQSMPO.Options 0x{options:x}") from None


def _ccsid(ccsid: int) -> int:
    return _UTF_8 if ccsid in _OWN_CCSIDS else ccsid


def _value_at(kind: PropertyType, length: int, value_at: int, name: str) -> bytes:
    """Return the value in the caller's memory. A number has the length of its type; the caller's length is ignored."""
    if kind is PropertyType.NULL:
        return b""
    if kind.value_bytes:
        return read(value_at, kind.value_bytes)
    if length == NULL_TERMINATED and kind is PropertyType.STRING:
        return read(value_at, length)
    if not 0 <= length <= _VALUE_BYTES_MAX:
        raise error_for(Reason.PROPERTY_VALUE_TOO_BIG, "MQSETMP", name, detail=f"ValueLength {length}")
    return read(value_at, length)
