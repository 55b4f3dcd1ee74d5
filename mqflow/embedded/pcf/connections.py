"""The PCF command about connections. Source: IBM, "Inquire Connection" and its response."""

from collections.abc import Iterable, Iterator
from typing import Final

from mqflow.embedded.administration.interface import Administration, ConnectionStatus
from mqflow.embedded.mqsc.connections import CONNECTION, CONNECTION_HANDLE, connection_rows, external_name
from mqflow.embedded.pcf.queues import Row
from mqflow.embedded.pcf.request import Request
from mqflow.embedded.pcf.selection import responses, wanted
from mqflow.mqi.pcf.codes import ParameterId, PCFReason
from mqflow.mqi.pcf.structures import CFBS, CFIN, PCFError

__all__ = ("inquire", "stop")

_ID_BYTES: Final = 24


def inquire(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_INQUIRE_CONNECTION: returns a response for each connection, for each handle of a connection, or both."""
    by_id = request.has(ParameterId.CONNECTION_ID)
    identifier = ParameterId.CONNECTION_ID if by_id else ParameterId.GENERIC_CONNECTION_ID
    request.check((identifier,), {ParameterId.CONN_INFO_TYPE, ParameterId.CONNECTION_ATTRS}, filters=True)
    types = (ParameterId.CONN_INFO_CONN, ParameterId.CONN_INFO_HANDLE, ParameterId.CONN_INFO_ALL)
    kind = request.choice(ParameterId.CONN_INFO_TYPE, types, types[0], PCFReason.PARM_VALUE_ERROR)
    queue_manager = administration.queue_manager.name
    chosen = [
        status
        for status in administration.objects.connections()
        if _matches(_identifier(status, queue_manager), request.bytes(identifier), whole=by_id)
    ]
    found = [
        row
        for status in chosen
        for part in ((kind,) if kind != ParameterId.CONN_INFO_ALL else types[:2])
        for row in _rows(request, status, queue_manager, part)
    ]
    if not found:
        raise PCFError(PCFReason.NONE_FOUND, detail="No connection matches", parameter=identifier)
    return found


def stop(request: Request, administration: Administration) -> Iterable[Row]:
    """MQCMD_STOP_CONNECTION."""
    request.check((ParameterId.CONNECTION_ID,), (), filters=False)
    asked, queue_manager = request.bytes(ParameterId.CONNECTION_ID), administration.queue_manager.name
    for status in administration.objects.connections():
        if _matches(_identifier(status, queue_manager), asked, whole=True):
            administration.objects.stop_connection(status.identifier)
            return ()
    raise PCFError(PCFReason.CONNECTION_ID_ERROR, detail="No connection matches", parameter=ParameterId.CONNECTION_ID)


def _rows(request: Request, status: ConnectionStatus, queue_manager: str, kind: int) -> Iterator[Row]:
    handles = kind == ParameterId.CONN_INFO_HANDLE
    specs = tuple((CONNECTION_HANDLE if handles else CONNECTION).values())
    rows = ((row, specs) for row in connection_rows((status,), queue_manager, handles=handles))
    always = CFBS(ParameterId.CONNECTION_ID, _identifier(status, queue_manager)), CFIN(ParameterId.CONN_INFO_TYPE, kind)
    for row in responses(rows, wanted(request, ParameterId.CONNECTION_ATTRS, ()), request.filter):
        yield (*always, *row)


def _identifier(status: ConnectionStatus, queue_manager: str) -> bytes:
    """Return the connection identifier of MQ: 24 bytes, EXTCONN and then CONN."""
    return external_name(queue_manager) + bytes.fromhex(status.identifier)


def _matches(identifier: bytes, asked: bytes, *, whole: bool) -> bool:
    """Return whether the identifier begins with `asked`, without the NULs at its end. If `whole`, `asked` must be complete."""
    stem = asked.rstrip(b"\0")
    return identifier.startswith(stem) and (not whole or len(stem) == _ID_BYTES)
