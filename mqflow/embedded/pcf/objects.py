"""The PCF commands about channels, namelists, processes, authentication information, listeners and services.

One set of commands for all kinds of object, by `defined_kinds`: what they say becomes an action of MQSC, or rows of attributes.
Source: IBM, "Change, Copy, and Create Channel", "Delete Channel", "Inquire Channel", "Inquire Channel Names", and the same for
the other kinds.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedKind, Noun
from mqflow.embedded.mqsc.commands import AlterObject, DefineObject, DeleteObject, Value
from mqflow.embedded.mqsc.interpreter import carry_out
from mqflow.embedded.mqsc.objects import find_objects, object_row
from mqflow.embedded.pcf.queues import Row
from mqflow.embedded.pcf.request import Request, stranger
from mqflow.embedded.pcf.selecting import responses, wanted
from mqflow.embedded.pcf.values import value_from
from mqflow.mqi.attributes.channel import ChannelType
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.errors import MQIError
from mqflow.mqi.pcf.codes import CommandCode, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFIL, CFSL, PCFError
from mqflow.mqi.reason_codes import Reason

__all__ = ("OBJECT_COMMANDS", "channel_status")

_YES_NO: Final = (0, 1)
_CHANNEL_TABLE: Final = 1526
_CLIENT_TABLE: Final = 2
_CHANNEL_NAMES, _CHANNEL_TYPES = 3512, 1582


class _Codes(Struct, frozen=True):
    """The numbers of one kind's commands and parameters."""

    noun: Noun
    #: Change, copy, create, delete, inquire.
    commands: tuple[CommandCode, CommandCode, CommandCode, CommandCode, CommandCode]
    from_name: int
    to_name: int
    #: The list of attributes to answer.
    attributes: int
    #: Inquire names, and the parameter of the answer.
    names: tuple[CommandCode, int] | None = None

    @property
    def kind(self) -> DefinedKind:
        """What there is to know about it."""
        return DEFINED_KINDS[self.noun]

    @property
    def name(self) -> int:
        """The parameter that is the name."""
        return self.kind.name_spec.selector

    @property
    def type(self) -> int:
        """The parameter that is the type; 0 where there is one type only."""
        return self.kind.type_spec.selector if self.kind.type_spec else 0


_C, _P = CommandCode, ParameterId
_CODES: Final = (
    _Codes(
        "CHANNEL",
        (_C.CHANGE_CHANNEL, _C.COPY_CHANNEL, _C.CREATE_CHANNEL, _C.DELETE_CHANNEL, _C.INQUIRE_CHANNEL),
        _P.FROM_CHANNEL_NAME,
        _P.TO_CHANNEL_NAME,
        _P.CHANNEL_ATTRS,
        (_C.INQUIRE_CHANNEL_NAMES, _CHANNEL_NAMES),
    ),
    _Codes(
        "NAMELIST",
        (_C.CHANGE_NAMELIST, _C.COPY_NAMELIST, _C.CREATE_NAMELIST, _C.DELETE_NAMELIST, _C.INQUIRE_NAMELIST),
        _P.FROM_NAMELIST_NAME,
        _P.TO_NAMELIST_NAME,
        _P.NAMELIST_ATTRS,
        (_C.INQUIRE_NAMELIST_NAMES, _P.NAMELIST_NAMES),
    ),
    _Codes(
        "PROCESS",
        (_C.CHANGE_PROCESS, _C.COPY_PROCESS, _C.CREATE_PROCESS, _C.DELETE_PROCESS, _C.INQUIRE_PROCESS),
        _P.FROM_PROCESS_NAME,
        _P.TO_PROCESS_NAME,
        _P.PROCESS_ATTRS,
        (_C.INQUIRE_PROCESS_NAMES, _P.PROCESS_NAMES),
    ),
    _Codes(
        "AUTHINFO",
        (_C.CHANGE_AUTH_INFO, _C.COPY_AUTH_INFO, _C.CREATE_AUTH_INFO, _C.DELETE_AUTH_INFO, _C.INQUIRE_AUTH_INFO),
        _P.FROM_AUTH_INFO_NAME,
        _P.TO_AUTH_INFO_NAME,
        _P.AUTH_INFO_ATTRS,
        (_C.INQUIRE_AUTH_INFO_NAMES, _P.AUTH_INFO_NAMES),
    ),
    _Codes(
        "LISTENER",
        (_C.CHANGE_LISTENER, _C.COPY_LISTENER, _C.CREATE_LISTENER, _C.DELETE_LISTENER, _C.INQUIRE_LISTENER),
        _P.FROM_LISTENER_NAME,
        _P.TO_LISTENER_NAME,
        _P.LISTENER_ATTRS,
    ),
    _Codes(
        "SERVICE",
        (_C.CHANGE_SERVICE, _C.COPY_SERVICE, _C.CREATE_SERVICE, _C.DELETE_SERVICE, _C.INQUIRE_SERVICE),
        _P.FROM_SERVICE_NAME,
        _P.TO_SERVICE_NAME,
        _P.SERVICE_ATTRS,
    ),
)


def channel_status(request: Request, _administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_CHANNEL_STATUS: nothing runs through a channel, so none has a status."""
    request.check((DEFINED_KINDS["CHANNEL"].name_spec.selector,), None, filters=True)
    detail = "Nothing runs through a channel of the embedded queue manager"
    raise PCFError(PCFReason.CHL_STATUS_NOT_FOUND, detail=detail)


def _create(codes: _Codes, request: Request, administration: Administration) -> Iterable[Row]:
    request.check((codes.name, codes.type) if codes.type else (codes.name,), None, filters=False)
    kind = _kind(codes, request)
    replacing = _yes(request, ParameterId.REPLACE, PCFReason.REPLACE_VALUE_ERROR)
    values = _values(codes, request, kind, {codes.name, codes.type, ParameterId.REPLACE})
    _carry_out(DefineObject(codes.noun, _name(codes, request, codes.name), values, kind, "", replacing), administration)
    return ()


def _copy(codes: _Codes, request: Request, administration: Administration) -> Iterable[Row]:
    required = (codes.from_name, codes.to_name)
    request.check((*required, codes.type) if codes.type else required, None, filters=False)
    kind = _kind(codes, request)
    replacing = _yes(request, ParameterId.REPLACE, PCFReason.REPLACE_VALUE_ERROR)
    values = _values(codes, request, kind, {*required, codes.type, ParameterId.REPLACE})
    source, target = _name(codes, request, codes.from_name), _name(codes, request, codes.to_name)
    _carry_out(DefineObject(codes.noun, target, values, kind, source, replacing), administration)
    return ()


def _change(codes: _Codes, request: Request, administration: Administration) -> Iterable[Row]:
    request.check((codes.name, codes.type) if codes.type else (codes.name,), None, filters=False)
    kind = _kind(codes, request)
    values = _values(codes, request, kind, {codes.name, codes.type})
    _carry_out(AlterObject(codes.noun, _name(codes, request, codes.name), values, kind), administration)
    return ()


def _delete(codes: _Codes, request: Request, administration: Administration) -> Iterable[Row]:
    of_channels = {_CHANNEL_TABLE, codes.type} if codes.noun == "CHANNEL" else set[int]()
    request.check((codes.name,), {ParameterId.IGNORE_STATE, *of_channels}, filters=False)
    client = None
    if request.has(_CHANNEL_TABLE):
        tables = (1, _CLIENT_TABLE)
        client = request.choice(_CHANNEL_TABLE, tables, 1, PCFReason.CHANNEL_TABLE_ERROR) == _CLIENT_TABLE
    elif codes.noun == "CHANNEL" and request.has(codes.type):
        client = _kind(codes, request) == ChannelType.CLNTCONN
    ignoring = _yes(request, ParameterId.IGNORE_STATE, PCFReason.PARM_VALUE_ERROR)
    _carry_out(DeleteObject(codes.noun, _name(codes, request, codes.name), client, ignoring), administration)
    return ()


def _inquire(codes: _Codes, request: Request, administration: Administration) -> Iterable[Row]:
    of_type = (codes.type,) if codes.type else ()
    request.check((codes.name,), {*of_type, codes.attributes}, filters=True)
    selectors = wanted(request, codes.attributes, (codes.name, *of_type))
    found = find_objects(administration.objects, codes.noun, _pattern(codes, request), _any_kind(codes, request))
    rows = ((object_row(each), codes.kind.applicable(getattr(each, "kind", 0))) for each in found)
    shown = tuple(responses(rows, selectors, request.filter))
    if not shown:
        raise _unknown(codes, request)
    return shown


def _inquire_names(codes: _Codes, parameter: int, request: Request, administration: Administration) -> Iterable[Row]:
    request.check((codes.name,), {codes.type} if codes.type else (), filters=False)
    found = find_objects(administration.objects, codes.noun, _pattern(codes, request), _any_kind(codes, request))
    if not found:
        raise _unknown(codes, request)
    names = CFSL(parameter, tuple(each.name for each in found))
    if codes.noun != "CHANNEL":
        return ((names,),)
    return ((names, CFIL(_CHANNEL_TYPES, tuple(int(getattr(each, "kind", 0)) for each in found))),)


Run = Callable[[Request, Administration], Iterable[Row]]


def _bound(run: Callable[[_Codes, Request, Administration], Iterable[Row]], codes: _Codes) -> Run:
    return lambda request, administration: run(codes, request, administration)


def _bound_names(codes: _Codes, parameter: int) -> Run:
    return lambda request, administration: _inquire_names(codes, parameter, request, administration)


OBJECT_COMMANDS: Final[Mapping[CommandCode, Run]] = {
    code: _bound(run, codes)
    for codes in _CODES
    for code, run in zip(codes.commands, (_change, _copy, _create, _delete, _inquire), strict=True)
} | {codes.names[0]: _bound_names(codes, codes.names[1]) for codes in _CODES if codes.names}


def _kind(codes: _Codes, request: Request) -> int:
    spec = codes.kind.type_spec
    if spec is None:
        return 0
    reason = PCFReason.CHANNEL_TYPE_ERROR if codes.noun == "CHANNEL" else PCFReason.PARM_VALUE_ERROR
    return request.choice(spec.selector, tuple((spec.words or {}).values()), 0, reason)


def _any_kind(codes: _Codes, request: Request) -> int:
    """The type that an inquiry is limited to; 0 for any."""
    if not codes.type or request.number(codes.type, _ALL_TYPES[codes.noun]) == _ALL_TYPES[codes.noun]:
        return 0
    return _kind(codes, request)


_ALL_TYPES: Final[Mapping[Noun, int]] = {"CHANNEL": 5, "AUTHINFO": 0}
"""MQCHT_ALL, MQAIT_ALL."""


def _name(codes: _Codes, request: Request, identifier: int) -> str:
    name = request.name(identifier, _name_error(codes))
    if len(name) > codes.kind.name_chars_max:
        detail = f"{name!r} is longer than {codes.kind.name_chars_max} characters"
        raise PCFError(_name_error(codes), detail=detail, parameter=identifier)
    return name


def _pattern(codes: _Codes, request: Request) -> str:
    return request.pattern(codes.name, _name_error(codes))


def _name_error(codes: _Codes) -> PCFReason:
    return PCFReason.CHANNEL_NAME_ERROR if codes.noun == "CHANNEL" else PCFReason.OBJECT_NAME_ERROR


def _yes(request: Request, identifier: int, reason: PCFReason) -> bool:
    return bool(request.choice(identifier, _YES_NO, 0, reason))


def _values(codes: _Codes, request: Request, kind: int, own: set[int]) -> dict[str, Value]:
    """What the command sets: every parameter that is none of its own has to be an attribute of such an object."""
    settable: dict[int, AttributeSpec] = {
        spec.selector: spec for spec in codes.kind.applicable(kind) if not spec.read_only and spec.field != "kind"
    }
    values: dict[str, Value] = {}
    for identifier, parameter in request.parameters.items():
        if identifier in own:
            continue
        spec = settable.get(identifier)
        if spec is None:
            raise stranger(parameter, f"Parameter {identifier} is no attribute of such a {codes.noun} that can be set")
        values[spec.field] = value_from(spec, parameter)
    return values


_OF_CHANNELS: Final[Mapping[int, PCFReason]] = {
    Reason.UNKNOWN_OBJECT_NAME: PCFReason.CHANNEL_NOT_FOUND,
    Reason.OBJECT_ALREADY_EXISTS: PCFReason.CHANNEL_ALREADY_EXISTS,
    Reason.OBJECT_TYPE_ERROR: PCFReason.WRONG_CHANNEL_TYPE,
}
"""Channels have reasons of their own."""


def _carry_out(action: DefineObject | AlterObject | DeleteObject, administration: Administration) -> None:
    try:
        carry_out(action, administration)
    except MQIError as error:
        if action.noun == "CHANNEL" and error.reason in _OF_CHANNELS:
            raise PCFError(_OF_CHANNELS[error.reason], detail=error.detail) from None
        raise


def _unknown(codes: _Codes, request: Request) -> PCFError:
    detail = f"There is no {codes.noun} {request.text(codes.name)} of that type, or none that the filter lets through"
    reason = PCFReason.CHANNEL_NOT_FOUND if codes.noun == "CHANNEL" else Reason.UNKNOWN_OBJECT_NAME
    return PCFError(reason, detail=detail, parameter=codes.name)
