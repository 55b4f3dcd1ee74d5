"""Puts event messages on the event queues: performance events, queue manager events and command events.

An event is put outside every unit of work of an application, with the persistence of its event queue. If the event queue does
not exist, is full, or is inhibited for puts, the event is lost, as IBM documents. Callers hold the queue manager's lock. The
texts are in the character set of the queue manager, or in UTF-8 if this set lacks a character of the event.
Source: IBM q049620, q049630 (event message, its MQMD), q049960 to q050020 (performance events), "Get Inhibited", "Put
Inhibited", "Not Authorized (type 1)" to "(type 5)", "Unknown Object Name", "Queue Manager Active", q049820 (Command).
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from mqflow.embedded.calls.enqueue import check_room, must_be_durable, place
from mqflow.embedded.calls.queue_attributes import reset_statistics
from mqflow.embedded.calls.settle import begin_commit
from mqflow.embedded.catalogue.system_objects import COMMAND_EVENTS, PERFORMANCE_EVENTS, QUEUE_MANAGER_EVENTS
from mqflow.embedded.rules.performance_events import PerformanceEvent
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import ConnectionState, LocalQueue, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import ApplicationType, Encoding, Format, MessageType
from mqflow.mqi.reason_codes import Reason

if TYPE_CHECKING:
    from mqflow.mqi.pcf.structures import Parameter

__all__ = ("REPORTED", "command_event", "mqsc_event", "performance_event", "refusal_event", "start_or_stop_event")

_Values: TypeAlias = dict[int, int | str | bytes]
_NAME_CHARS: Final = 28
_EVENT, _WARNING = 7, 1
_Q_MGR_EVENT, _PERFM_EVENT, _COMMAND_EVENT = 44, 45, 99
_Q_MGR_NAME, _BASE_Q_NAME, _Q_NAME, _APPL_TYPE, _APPL_NAME, _USER = 2015, 2002, 2016, 1, 3024, 3025
_SINCE_RESET, _HIGH_DEPTH, _ENQUEUED, _DEQUEUED = 35, 36, 37, 38
_REASON_QUALIFIER, _OBJECT_NAME = 1020, 3046
_CONTEXT, _DATA = 8001, 8002
# MQRQ_*: the kind of refusal in a Not Authorized event, by verb.
_QUALIFIERS: Final = {"MQCONNX": 1, "MQOPEN": 2, "MQPUT1": 2, "MQCLOSE": 3, "MQSUB": 17}
_CONNECT: Final = 1
_INHIBITED: Final = frozenset({int(Reason.GET_INHIBITED), int(Reason.PUT_INHIBITED)})
_LOCAL: Final = frozenset(
    {int(Reason.ALIAS_BASE_Q_TYPE_ERROR), int(Reason.UNKNOWN_ALIAS_BASE_Q), int(Reason.UNKNOWN_OBJECT_NAME)}
)
REPORTED: Final = _INHIBITED | _LOCAL | {int(Reason.NOT_AUTHORIZED)}
"""The reasons of refusals that can cause a queue manager event."""
# MQEVR_*; then the parameter for the text of an MQSC command. Only mqflow writes it: IBM writes the PCF parameters.
_ENABLED, _NO_DISPLAY = 1, 3
_MQSC, _NO_COMMAND = 3075, 0
_STOPPING, _QUIESCING = 5, 6
# MQEVO_MSG and MQEVO_CONSOLE.
_BY_MESSAGE, _BY_CONSOLE = 3, 1


def performance_event(state: QueueManagerState, queue: LocalQueue, event: PerformanceEvent) -> None:
    """Put the event with the statistics of the queue, reset the statistics, and apply the event's changes to the queue."""
    now = state.clock.monotonic()
    counted = reset_statistics(state, queue)
    queue.attributes = replace(queue.attributes, **event.changes)
    values: _Values = {
        _Q_MGR_NAME: state.name.ljust(48),
        _BASE_Q_NAME: queue.name.ljust(48),
        _SINCE_RESET: int(now - counted.reset_at),
        _HIGH_DEPTH: counted.high_depth,
        _ENQUEUED: counted.enqueued,
        _DEQUEUED: counted.dequeued,
    }
    _put(state, PERFORMANCE_EVENTS, _PERFM_EVENT, event.reason, _parameters(values))


def refusal_event(state: QueueManagerState, connection: ConnectionState, verb: str, name: str, reason: int) -> None:
    """Put the queue manager event of a refused call if this refusal has an event and the event is enabled."""
    attributes = state.attributes
    if reason in _INHIBITED:
        switched_on = attributes.inhibit_event
    elif reason in _LOCAL:
        switched_on = attributes.local_event
    else:
        switched_on = reason == Reason.NOT_AUTHORIZED and attributes.authority_event and verb in _QUALIFIERS
    if not switched_on:
        return
    values: _Values = {_Q_MGR_NAME: state.name.ljust(48)}
    if reason == Reason.NOT_AUTHORIZED:
        values |= {_REASON_QUALIFIER: _QUALIFIERS[verb], _USER: connection.user.ljust(12)}
    if reason != Reason.NOT_AUTHORIZED or _QUALIFIERS[verb] != _CONNECT:
        values[_Q_NAME] = name[:48].ljust(48)
    values |= {_APPL_TYPE: connection.application_type, _APPL_NAME: connection.application_name.ljust(_NAME_CHARS)}
    _put(state, QUEUE_MANAGER_EVENTS, _Q_MGR_EVENT, reason, _parameters(values))


def start_or_stop_event(state: QueueManagerState, reason: int, *, quiesces: bool = False) -> None:
    """Put Queue Manager Active (2222) or Queue Manager Not Active (2223), if STRSTPEV is ENABLED."""
    if not state.attributes.start_stop_event:
        return
    values: _Values = {_Q_MGR_NAME: state.name.ljust(48)}
    if reason == Reason.Q_MGR_NOT_ACTIVE:
        values[_REASON_QUALIFIER] = _QUIESCING if quiesces else _STOPPING
    _put(state, QUEUE_MANAGER_EVENTS, _Q_MGR_EVENT, reason, _parameters(values))


def command_event(state: QueueManagerState, command: int, data: "tuple[Parameter, ...]", sender: MessageDescriptor) -> None:
    """Put the command event of a successful PCF command if CMDEV requires it. `sender` is the descriptor of the command."""
    from mqflow.mqi.pcf.codes import CommandCode  # noqa: PLC0415 - most queue managers put no event

    if _asks_for(state, shows=command in set(CommandCode) and CommandCode(command).name.startswith(("INQUIRE", "PING"))):
        _put_command(state, Reason.COMMAND_PCF, command, data, sender)


def mqsc_event(state: QueueManagerState, text: str, user: str, *, shows: bool) -> None:
    """Put the command event of a successful MQSC command of this user if CMDEV requires it. Its data is the command's text."""
    if _asks_for(state, shows=shows):
        sender = MessageDescriptor(user_identifier=user[:12])
        _put_command(state, Reason.COMMAND_MQSC, _NO_COMMAND, _parameters({_MQSC: text}), sender)


def _asks_for(state: QueueManagerState, *, shows: bool) -> bool:
    return state.attributes.command_event == _ENABLED or (state.attributes.command_event == _NO_DISPLAY and not shows)


def _put_command(
    state: QueueManagerState, reason: int, command: int, data: "tuple[Parameter, ...]", sender: MessageDescriptor
) -> None:
    from mqflow.mqi.pcf.structures import CFGR  # noqa: PLC0415 - as above

    context: _Values = {
        3045: sender.user_identifier.ljust(12),
        1011: _BY_MESSAGE if reason == Reason.COMMAND_PCF else _BY_CONSOLE,
        3047: state.name.ljust(48),
    }
    if reason == Reason.COMMAND_PCF:
        context |= {
            7001: sender.accounting_token,
            3049: sender.application_identity_data.ljust(32),
            1010: sender.put_application_type,
            3050: sender.put_application_name.ljust(28),
            3051: sender.application_origin_data.ljust(4),
        }
    context[1021] = command
    _put(state, COMMAND_EVENTS, _COMMAND_EVENT, reason, (CFGR(_CONTEXT, _parameters(context)), CFGR(_DATA, data)))


def _parameters(values: _Values) -> "tuple[Parameter, ...]":
    from mqflow.mqi.pcf.structures import CFBS, CFIN, CFST  # noqa: PLC0415 - as above

    return tuple(
        CFIN(number, value)
        if isinstance(value, int)
        else CFST(number, value)
        if isinstance(value, str)
        else CFBS(number, value)
        for number, value in values.items()
    )


def _put(state: QueueManagerState, queue_name: str, command: int, reason: int, parameters: "tuple[Parameter, ...]") -> None:
    from mqflow.mqi.pcf.codes import StructureType  # noqa: PLC0415 - as above
    from mqflow.mqi.pcf.structures import CFH, PCFMessage, readable_bytes  # noqa: PLC0415 - as above

    header = CFH(type=StructureType(_EVENT), version=3, command=command, completion=_WARNING, reason=int(reason))
    body, ccsid = readable_bytes(PCFMessage(header, parameters), encoding=Encoding.NATIVE, ccsid=state.attributes.ccsid)
    try:
        queue = state.local_queue(queue_name)
        if queue.attributes.put_inhibited:
            return
        check_room(state, queue, len(body))
    except Refusal:
        return
    now_s = state.clock.wall()
    date, time = state.timestamps.of(now_s)
    descriptor = MessageDescriptor(
        format=Format.EVENT,
        message_type=MessageType.DATAGRAM,
        persistence=queue.attributes.default_persistence,
        priority=queue.attributes.default_priority,
        message_id=state.identifiers.identifier(),
        encoding=Encoding.NATIVE,
        ccsid=ccsid,
        put_application_type=ApplicationType.QMGR,
        put_application_name=state.name[:_NAME_CHARS],
        put_date=date,
        put_time=time,
    )
    unit = UnitOfWork() if must_be_durable(state, descriptor) else None
    place(state, unit, queue, descriptor, body, now_s)
    if unit is not None:
        with suppress(MQIError):
            begin_commit(state, unit, lambda _: None)
