"""The function of each PCF command, and the form of its responses.

This file knows commands, reasons and the order of responses, but no queue and no thread.
Source: IBM, "Standard responses" (an OK response; a data response for each object; an error response for each error, then a
last error response with MQRCCF_COMMAND_FAILED), "MQCFH - PCF header".
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.pcf import authorities, connections, managers, objects, queues, status, topics
from mqflow.embedded.pcf.queues import Command, Row
from mqflow.embedded.pcf.request import Request
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Format
from mqflow.mqi.pcf.codes import CommandCode, ParameterId, PCFReason, StructureType
from mqflow.mqi.pcf.pcf_reader import parse
from mqflow.mqi.pcf.structures import CFH, CFIN, PCFError, PCFMessage
from mqflow.mqi.reason_codes import CompletionCode, Reason

__all__ = ("answer", "failed")

_COMMANDS: Final[Mapping[CommandCode, Command]] = {
    **managers.MANAGER_COMMANDS,
    **queues.QUEUE_COMMANDS,
    **connections.CONNECTION_COMMANDS,
    **authorities.AUTHORITY_COMMANDS,
    **topics.TOPIC_COMMANDS,
    **objects.OBJECT_COMMANDS,
    **status.STATUS_COMMANDS,
}

_NUMBERS: Final = frozenset(
    number
    for first, last in (
        *((1, 13), (16, 42), (60, 67), (70, 75), (78, 90), (92, 98), (100, 134), (136, 163), (169, 179), (181, 188)),
        *((190, 195), (197, 199), (201, 208), (213, 214), (216, 221)),
    )
    for number in range(first, last + 1)
)
"""The numbers of all IBM MQ commands on any platform (MQCMD_*), without those of events, statistics and reports."""

_REASONS: Final[Mapping[int, int]] = {
    Reason.OBJECT_ALREADY_EXISTS: PCFReason.OBJECT_ALREADY_EXISTS,
    Reason.OBJECT_TYPE_ERROR: PCFReason.OBJECT_WRONG_TYPE,
    Reason.OBJECT_IN_USE: PCFReason.OBJECT_OPEN,
    Reason.ITEM_VALUE_ERROR: PCFReason.ATTR_VALUE_ERROR,
    Reason.OBJECT_NAME_ERROR: PCFReason.OBJECT_NAME_ERROR,
}
"""Reason codes of verbs that have another number in a response to a command, each with that number."""


class _Failure(Struct, frozen=True):
    reason: int
    parameter: int = 0
    rows: tuple[Row, ...] = ()


def answer(
    descriptor: MessageDescriptor,
    body: bytes,
    administration_of: Callable[[str], Administration],
    report: Callable[[PCFMessage], None],
) -> tuple[PCFMessage, ...]:
    """Carry the command out, and return its responses in order. An error is also a response.

    `report` receives a successful command. `administration_of` refuses with 2035 a user who may not administer the queue
    manager.
    """
    header = CFH(type=StructureType.RESPONSE)
    try:
        message = _read(descriptor, body)
        header = message.header
        rows = _carried_out(message, descriptor.user_identifier, administration_of)
    except managers.EscapeFailedError as error:
        return _failed(header, _Failure(int(error.reason), rows=error.rows))
    except PCFError as error:
        return _failed(header, _Failure(int(error.reason), error.parameter))
    except MQIError as error:
        return _failed(header, _Failure(_REASONS.get(error.reason, int(error.reason))))
    if header.command != CommandCode.ESCAPE:  # each MQSC command in the ESCAPE has an event of its own
        report(message)
    if not rows:
        return (PCFMessage(_response(header)),)
    last = len(rows)
    return tuple(PCFMessage(_response(header, number, last=number == last), row) for number, row in enumerate(rows, start=1))


def failed(reason: int) -> tuple[PCFMessage, ...]:
    """Return the responses to a command after an unexpected error in the command server."""
    error = PCFMessage(_response(CFH(), last=False, reason=Reason.UNEXPECTED_ERROR), (CFIN(ParameterId.ERROR_ID, int(reason)),))
    return (error, PCFMessage(_response(CFH(), 2, reason=PCFReason.COMMAND_FAILED)))


def _read(descriptor: MessageDescriptor, body: bytes) -> PCFMessage:
    if descriptor.format != Format.ADMIN:
        raise PCFError(PCFReason.MD_FORMAT_ERROR, detail=f"Format is {descriptor.format!r}, not {Format.ADMIN!r}")
    return parse(body, encoding=descriptor.encoding, ccsid=descriptor.ccsid)


def _carried_out(message: PCFMessage, user: str, administration_of: Callable[[str], Administration]) -> tuple[Row, ...]:
    header = message.header
    if header.type not in {StructureType.COMMAND, StructureType.COMMAND_XR}:
        raise PCFError(PCFReason.CFH_TYPE_ERROR, detail=f"{header.type!r} is no command")
    if header.sequence_number != 1:
        raise PCFError(PCFReason.CFH_MSG_SEQ_NUMBER_ERR, detail=f"MsgSeqNumber is {header.sequence_number}, not 1")
    if not header.last:
        raise PCFError(PCFReason.CFH_CONTROL_ERROR, detail="A command is one message, so Control is MQCFC_LAST")
    if header.command not in _NUMBERS:
        raise PCFError(PCFReason.CFH_COMMAND_ERROR, detail=f"Command {header.command} is not known")
    code = CommandCode(header.command) if header.command in set(CommandCode) else None
    command = None if code is None else _COMMANDS.get(code)
    if code is None or command is None:
        name = "" if code is None else f" (MQCMD_{code.name})"
        detail = f"{header.command}{name} is a command of MQ that the embedded queue manager does not offer"
        raise PCFError(Reason.FUNCTION_NOT_SUPPORTED, detail=detail)
    return tuple(command(Request(message.parameters), administration_of(user)) or ())


def _failed(header: CFH, failure: _Failure) -> tuple[PCFMessage, ...]:
    """Return the error responses, then the last response with MQRCCF_COMMAND_FAILED."""
    rows = failure.rows or ((CFIN(ParameterId.PARAMETER_ID, failure.parameter),) if failure.parameter else (),)
    errors = [
        PCFMessage(_response(header, number, last=False, reason=failure.reason), row)
        for number, row in enumerate(rows, start=1)
    ]
    return (*errors, PCFMessage(_response(header, len(errors) + 1, reason=PCFReason.COMMAND_FAILED)))


def _response(request: CFH, number: int = 1, *, last: bool = True, reason: int = 0) -> CFH:
    return CFH(
        type=StructureType.RESPONSE,
        version=request.version,
        command=request.command,
        sequence_number=number,
        last=last,
        completion=CompletionCode.FAILED if reason else CompletionCode.OK,
        reason=reason,
    )
