"""The PCF commands about queues. A command becomes an action of MQSC, or rows of attributes.

This file knows the parameters of each command. The queue manager knows the rules of queues.
Source: IBM, "Change, Copy, and Create Queue", "Delete Queue", "Clear Queue", "Inquire Queue", "Inquire Queue Names",
"Inquire Queue Status" and their responses.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import asdict

from mqflow.embedded.administration.interface import Administration, QueueStatus
from mqflow.embedded.mqsc.commands import AlterCommand, ClearCommand, DefineCommand, DeleteCommand, QueueNoun, Value
from mqflow.embedded.mqsc.display import matches
from mqflow.embedded.mqsc.interpreter import carry_out
from mqflow.embedded.mqsc.status import of_local_queues
from mqflow.embedded.mqsc.vocabulary import HANDLE_STATUS, KINDS, QUEUE_STATUS
from mqflow.embedded.pcf.request import Request
from mqflow.embedded.pcf.selection import responses, wanted
from mqflow.embedded.pcf.values import settings_of
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, AttributeSpec, QueueAttributes
from mqflow.mqi.options import QueueType
from mqflow.mqi.pcf.codes import CommandCode, ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFIL, CFIN, CFSL, Parameter, PCFError
from mqflow.mqi.reason_codes import Reason

__all__ = ("QUEUE_COMMANDS", "Command", "Row")

Row = tuple[Parameter, ...]
"""The parameters of one response."""

Command = Callable[[Request, Administration], Iterable[Row] | None]
"""Carries a command out, and returns its responses, or None for an OK response."""

Q_NAME: Final = 2016
Q_TYPE: Final = 20
_ALL_TYPES: Final = 1001
_CLUSTER: Final = 7
_KINDS: Final = frozenset(QueueType)
_NOUNS: Final[Mapping[QueueType, QueueNoun]] = {kind: noun for noun, kind in KINDS.items()}
_NOT_HERE: Final = frozenset({_CLUSTER})

_SETTABLE: Final[Mapping[QueueType, Mapping[int, AttributeSpec]]] = {
    kind: {spec.selector: spec for spec in QUEUE_ATTRIBUTES if kind in spec.kinds and not spec.read_only} for kind in _KINDS
}
_SHOWN: Final[Mapping[QueueType, tuple[AttributeSpec, ...]]] = {
    kind: tuple(spec for spec in QUEUE_ATTRIBUTES if kind in spec.kinds) for kind in _KINDS
}


def _define(request: Request, administration: Administration, *names: int) -> None:
    """Define a queue. `names` has the parameters with the names: first the queue to copy, if any, then the new queue."""
    request.check((*names, Q_TYPE), None, filters=False)
    kind = _kind(request)
    replacing = request.yes(ParameterId.REPLACE, PCFReason.REPLACE_VALUE_ERROR)
    values = _values(request, kind, {*names, Q_TYPE, ParameterId.REPLACE, ParameterId.FORCE})
    *sources, name = (request.name(identifier) for identifier in names)
    like = sources[0] if sources else ""
    carry_out(DefineCommand(_NOUNS[kind], name, values, like=like, replace=replacing), administration)


def _change(request: Request, administration: Administration) -> None:
    request.check((Q_NAME, Q_TYPE), None, filters=False)
    kind = _kind(request)
    forced = request.yes(ParameterId.FORCE, PCFReason.FORCE_VALUE_ERROR)
    values = _values(request, kind, {Q_NAME, Q_TYPE, ParameterId.FORCE})
    carry_out(AlterCommand(_NOUNS[kind], request.name(Q_NAME), values, force=forced), administration)


def _delete(request: Request, administration: Administration) -> None:
    """MQCMD_DELETE_Q: deletes a queue. If the command names a kind, the queue must be of this kind."""
    request.check((Q_NAME,), {Q_TYPE, ParameterId.PURGE, ParameterId.IGNORE_STATE, _AUTH_REC}, filters=False)
    name = request.name(Q_NAME)
    found = administration.queue(name)
    kind = _kind(request) if request.has(Q_TYPE) else QueueType.LOCAL if found is None else found.kind
    purge = request.yes(ParameterId.PURGE, PCFReason.PURGE_VALUE_ERROR)
    ignoring = request.yes(ParameterId.IGNORE_STATE, PCFReason.PARM_VALUE_ERROR)
    keeping = not request.choice(_AUTH_REC, (0, 1), 1, PCFReason.PARM_VALUE_ERROR)
    carry_out(DeleteCommand(_NOUNS[kind], name, purge, ignoring, keeping), administration)


def _clear(request: Request, administration: Administration) -> None:
    request.check((Q_NAME,), (), filters=False)
    carry_out(ClearCommand(request.name(Q_NAME)), administration)


def _inquire(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_Q: returns a response for each queue."""
    request.check((Q_NAME,), {Q_TYPE, ParameterId.Q_ATTRS}, filters=True)
    selectors = wanted(request, ParameterId.Q_ATTRS, (Q_NAME, Q_TYPE))
    rows = ((asdict(queue), _SHOWN[queue.kind]) for queue in _matching(request, administration))
    return _some(responses(rows, selectors, request.filter), request)


def _inquire_names(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_Q_NAMES: returns one response, with the names and the types."""
    request.check((Q_NAME,), {Q_TYPE}, filters=False)
    found = tuple(_matching(request, administration))
    if not found:
        raise _unknown(request)
    names, kinds = (queue.name for queue in found), (int(queue.kind) for queue in found)
    return ((CFSL(ParameterId.Q_NAMES, tuple(names)), CFIL(ParameterId.Q_TYPES, tuple(kinds))),)


def _inquire_status(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_Q_STATUS: returns a response for each local queue, or for each of its handles.

    The command accepts and ignores a type of queue, because Datadog's check sends a type to IBM MQ, and works.
    """
    request.check((Q_NAME,), {Q_TYPE, ParameterId.Q_STATUS_TYPE, ParameterId.Q_STATUS_ATTRS}, filters=True)
    choices = (ParameterId.Q_STATUS, ParameterId.Q_HANDLE)
    kind = request.choice(ParameterId.Q_STATUS_TYPE, choices, ParameterId.Q_STATUS, PCFReason.PARM_VALUE_ERROR)
    pattern = request.pattern(Q_NAME)
    named = None if pattern.endswith("*") else administration.queue(pattern)
    if named is not None and named.kind is not QueueType.LOCAL:
        detail = f"{pattern} is no local queue, and only local queues have a status"
        raise PCFError(PCFReason.Q_TYPE_ERROR, detail=detail, parameter=Q_NAME)
    local = of_local_queues(administration, pattern, administration.queue_status)
    if not local:
        raise _unknown(request)
    selectors = wanted(request, ParameterId.Q_STATUS_ATTRS, (Q_NAME, ParameterId.Q_STATUS_TYPE))
    queue_rows = ((asdict(status) | {"type": None}, _STATUS) for status in local)
    rows = queue_rows if kind == ParameterId.Q_STATUS else _handle_rows(local)
    found = [(CFIN(ParameterId.Q_STATUS_TYPE, kind), *row) for row in responses(rows, selectors, request.filter)]
    if not found:
        detail = f"No handle of {pattern} is open" if kind == ParameterId.Q_HANDLE else "No queue passes the filter"
        raise PCFError(PCFReason.Q_STATUS_NOT_FOUND, detail=detail, parameter=Q_NAME)
    return found


_AUTH_REC: Final = 1398
"""MQIACF_REMOVE_AUTHREC of Delete Queue: whether to delete the authority records of the queue too (MQRAR_*)."""
_STATUS: Final = tuple(QUEUE_STATUS.values())
_INPUT: Final = {"NO": 0, "SHARED": 1, "EXCL": 2}
"""MQQSO_*."""
_HANDLES: Final = (*HANDLE_STATUS.values(), AttributeSpec("input", "INPUT", 1098, words=_INPUT))


# Any: the table of attributes gives each value its type.
def _handle_rows(statuses: Iterable[QueueStatus]) -> Iterator[tuple[Mapping[str, Any], tuple[AttributeSpec, ...]]]:
    for status in statuses:
        for handle in status.handles:
            yield asdict(handle) | {"name": status.name, "type": None, "input": _INPUT[handle.input_mode]}, _HANDLES


def _matching(request: Request, administration: Administration) -> Iterator[QueueAttributes]:
    pattern = request.pattern(Q_NAME)
    types = (*_KINDS, *_NOT_HERE, _ALL_TYPES)
    kind = request.choice(Q_TYPE, types, _ALL_TYPES, PCFReason.Q_TYPE_ERROR)
    for queue in administration.queues():
        if matches(pattern, queue.name) and kind in {_ALL_TYPES, queue.kind}:
            yield queue


def _some(rows: Iterable[Row], request: Request) -> Iterable[Row]:
    found = tuple(rows)
    if not found:
        raise _unknown(request)
    return found


def _unknown(request: Request) -> PCFError:
    detail = f"There is no queue {request.text(Q_NAME)} of that kind, or none that passes the filter"
    return PCFError(Reason.UNKNOWN_OBJECT_NAME, detail=detail, parameter=Q_NAME)


def _kind(request: Request) -> QueueType:
    kind = request.choice(Q_TYPE, (*_KINDS, *_NOT_HERE), 0, PCFReason.Q_TYPE_ERROR)
    if kind in _NOT_HERE:
        detail = "The embedded queue manager is in no cluster"
        raise PCFError(Reason.FUNCTION_NOT_SUPPORTED, detail=detail, parameter=Q_TYPE)
    return QueueType(kind)


def _values(request: Request, kind: QueueType, own: set[int]) -> dict[str, Value]:
    """Return the values that the command sets. Each parameter that is not in `own` must be an attribute of this kind."""
    return settings_of(request, _SETTABLE[kind], own, f"a {kind.name.lower()} queue")


QUEUE_COMMANDS: Final[Mapping[CommandCode, Command]] = {
    CommandCode.CREATE_Q: lambda request, on: _define(request, on, Q_NAME),
    CommandCode.COPY_Q: lambda request, on: _define(request, on, ParameterId.FROM_Q_NAME, ParameterId.TO_Q_NAME),
    CommandCode.CHANGE_Q: _change,
    CommandCode.DELETE_Q: _delete,
    CommandCode.CLEAR_Q: _clear,
    CommandCode.INQUIRE_Q: _inquire,
    CommandCode.INQUIRE_Q_NAMES: _inquire_names,
    CommandCode.INQUIRE_Q_STATUS: _inquire_status,
}
