"""The PCF commands about channels, namelists, processes, authentication information, listeners and services.

All kinds of object in `catalogue.kinds` have the same commands. A command becomes an action of MQSC, or rows of attributes.
Source: IBM, "Change, Copy, and Create Channel", "Delete Channel", "Inquire Channel", "Inquire Channel Names", and the same
pages about the other kinds.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedKind, DefinedObject, Noun
from mqflow.embedded.mqsc.commands import AlterCommand, DefineCommand, DeleteCommand, ObjectCommand, Value
from mqflow.embedded.mqsc.interpreter import carry_out
from mqflow.embedded.mqsc.objects import find_objects
from mqflow.embedded.pcf.queues import Command, Row
from mqflow.embedded.pcf.request import Request
from mqflow.embedded.pcf.selection import responses, wanted
from mqflow.embedded.pcf.values import settings_of
from mqflow.mqi.attributes.channel import ChannelType
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.errors import MQIError
from mqflow.mqi.pcf.codes import CommandCode, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFIL, CFSL, PCFError
from mqflow.mqi.reason_codes import Reason

__all__ = ("OBJECT_COMMANDS",)

_CHANNEL_TABLE: Final = 1526
_CLIENT_TABLE: Final = 2
_CHANNEL_NAMES, _CHANNEL_TYPES = 3512, 1582


class _Codes(Struct, frozen=True):
    """The parameter numbers in the commands about one kind of object."""

    noun: Noun
    from_name: int
    to_name: int
    #: The parameter that lists the attributes to return.
    attributes: int
    name: int
    #: The parameter of the type; 0 if the kind of object has no types.
    type: int

    @property
    def kind(self) -> DefinedKind:
        """The kind of object."""
        return DEFINED_KINDS[self.noun]

    @property
    def identity(self) -> tuple[int, ...]:
        """The parameters that identify an object: its name, and its type if the kind has types."""
        return (self.name, self.type) if self.type else (self.name,)


def _codes(kind: DefinedKind) -> _Codes:
    word = kind.pcf_word
    return _Codes(
        noun=kind.noun,
        from_name=ParameterId[f"FROM_{word}_NAME"],
        to_name=ParameterId[f"TO_{word}_NAME"],
        attributes=ParameterId[f"{word}_ATTRS"],
        name=kind.name_spec.selector,
        type=kind.type_spec.selector if kind.type_spec else 0,
    )


def _define(codes: _Codes, request: Request, administration: Administration, *, copies: bool = False) -> None:
    required = (codes.from_name, codes.to_name, *codes.identity[1:]) if copies else codes.identity
    request.check(required, None, filters=False)
    kind, replacing = _kind(codes, request), request.yes(ParameterId.REPLACE, PCFReason.REPLACE_VALUE_ERROR)
    values = _values(codes, request, kind, {*required, ParameterId.REPLACE})
    source = _name(codes, request, codes.from_name) if copies else ""
    name = _name(codes, request, codes.to_name if copies else codes.name)
    _carry_out(DefineCommand(codes.noun, name, values, kind, source, replacing), administration)


def _change(codes: _Codes, request: Request, administration: Administration) -> None:
    request.check(codes.identity, None, filters=False)
    kind = _kind(codes, request)
    values = _values(codes, request, kind, {*codes.identity})
    _carry_out(AlterCommand(codes.noun, _name(codes, request, codes.name), values, kind), administration)


def _delete(codes: _Codes, request: Request, administration: Administration) -> None:
    of_channels = (_CHANNEL_TABLE, codes.type) if codes.noun == "CHANNEL" else ()
    request.check((codes.name,), {ParameterId.IGNORE_STATE, *of_channels}, filters=False)
    client = None
    if request.has(_CHANNEL_TABLE):
        tables = (1, _CLIENT_TABLE)
        client = request.choice(_CHANNEL_TABLE, tables, 1, PCFReason.CHANNEL_TABLE_ERROR) == _CLIENT_TABLE
    elif codes.noun == "CHANNEL" and request.has(codes.type):
        client = _kind(codes, request) == ChannelType.CLNTCONN
    ignoring = request.yes(ParameterId.IGNORE_STATE, PCFReason.PARM_VALUE_ERROR)
    name = _name(codes, request, codes.name)
    _carry_out(DeleteCommand(codes.noun, name, ignore_state=ignoring, client=client), administration)


def _inquire(codes: _Codes, request: Request, administration: Administration) -> Iterable[Row]:
    request.check((codes.name,), {*codes.identity[1:], codes.attributes}, filters=True)
    selectors = wanted(request, codes.attributes, codes.identity)
    rows = ((found.row, found.attributes) for found in _found(codes, request, administration))
    shown = tuple(responses(rows, selectors, request.filter))
    if not shown:
        raise _unknown(codes, request)
    return shown


def _inquire_names(codes: _Codes, request: Request, administration: Administration) -> Iterable[Row]:
    request.check((codes.name,), codes.identity[1:], filters=False)
    found = _found(codes, request, administration)
    if not found:
        raise _unknown(codes, request)
    names = tuple(each.name for each in found)
    if codes.noun == "CHANNEL":
        return ((CFSL(_CHANNEL_NAMES, names), CFIL(_CHANNEL_TYPES, tuple(each.kind for each in found))),)
    return ((CFSL(ParameterId[f"{codes.kind.pcf_word}_NAMES"], names),),)


_RUNS: Final[Mapping[str, Callable[[_Codes, Request, Administration], Iterable[Row] | None]]] = {
    "CHANGE_{}": _change,
    "COPY_{}": partial(_define, copies=True),
    "CREATE_{}": _define,
    "DELETE_{}": _delete,
    "INQUIRE_{}": _inquire,
    # MQ has no command of this form for listeners and services.
    "INQUIRE_{}_NAMES": _inquire_names,
}

OBJECT_COMMANDS: Final[Mapping[CommandCode, Command]] = {
    CommandCode[form.format(kind.pcf_word)]: partial(run, _codes(kind))
    for kind in DEFINED_KINDS.values()
    for form, run in _RUNS.items()
    if form.format(kind.pcf_word) in CommandCode.__members__
}


def _found(codes: _Codes, request: Request, administration: Administration) -> list[DefinedObject]:
    pattern = request.pattern(codes.name, _name_error(codes))
    return find_objects(administration.objects, codes.noun, pattern, _any_kind(codes, request))


def _kind(codes: _Codes, request: Request) -> int:
    spec = codes.kind.type_spec
    if spec is None:
        return 0
    reason = PCFReason.CHANNEL_TYPE_ERROR if codes.noun == "CHANNEL" else PCFReason.PARM_VALUE_ERROR
    return request.choice(spec.selector, tuple((spec.words or {}).values()), 0, reason)


def _any_kind(codes: _Codes, request: Request) -> int:
    """Return the type of object that the inquiry selects, or 0 for every type."""
    any_type = codes.kind.any_type
    if not codes.type or request.number(codes.type, any_type) == any_type:
        return 0
    return _kind(codes, request)


def _name(codes: _Codes, request: Request, identifier: int) -> str:
    name = request.name(identifier, _name_error(codes))
    chars_max = codes.kind.name_spec.chars
    if len(name) > chars_max:
        detail = f"{name!r} is longer than {chars_max} characters"
        raise PCFError(_name_error(codes), detail=detail, parameter=identifier)
    return name


def _name_error(codes: _Codes) -> PCFReason:
    return PCFReason.CHANNEL_NAME_ERROR if codes.noun == "CHANNEL" else PCFReason.OBJECT_NAME_ERROR


def _values(codes: _Codes, request: Request, kind: int, own: set[int]) -> dict[str, Value]:
    """Return the values that the command sets. Each parameter that is not in `own` must be an attribute of this type."""
    settable: dict[int, AttributeSpec] = {
        spec.selector: spec for spec in codes.kind.applicable(kind) if not spec.read_only and spec.field != "kind"
    }
    return settings_of(request, settable, own, f"such a {codes.noun}")


_OF_CHANNELS: Final[Mapping[int, PCFReason]] = {
    Reason.UNKNOWN_OBJECT_NAME: PCFReason.CHANNEL_NOT_FOUND,
    Reason.OBJECT_ALREADY_EXISTS: PCFReason.CHANNEL_ALREADY_EXISTS,
    Reason.OBJECT_TYPE_ERROR: PCFReason.WRONG_CHANNEL_TYPE,
}
"""The reasons that have a number of their own for channels."""


def _carry_out(action: ObjectCommand, administration: Administration) -> None:
    try:
        carry_out(action, administration)
    except MQIError as error:
        if action.noun == "CHANNEL" and error.reason in _OF_CHANNELS:
            raise PCFError(_OF_CHANNELS[error.reason], detail=error.detail) from None
        raise


def _unknown(codes: _Codes, request: Request) -> PCFError:
    detail = f"There is no {codes.noun} {request.text(codes.name)} of that type, or none that passes the filter"
    reason = PCFReason.CHANNEL_NOT_FOUND if codes.noun == "CHANNEL" else Reason.UNKNOWN_OBJECT_NAME
    return PCFError(reason, detail=detail, parameter=codes.name)
