"""Connections and their handles, for DISPLAY CONN and the PCF command Inquire Connection.

Source: IBM, DISPLAY CONN; MQCACF_*, MQIACF_* numbers.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import asdict

from mqflow.embedded.administration.interface import ConnectionStatus
from mqflow.embedded.mqsc.commands import DisplayConnections
from mqflow.embedded.mqsc.display import Record, laid_out, matches
from mqflow.embedded.mqsc.vocabulary import keyword_table
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.options import ApplicationType

__all__ = ("CONNECTION", "CONNECTION_HANDLE", "connection_rows", "external_name", "show_connections")

_USER: Final = 25
"""MQAT_USER. MQAT_QMGR has the word SYSTEM here."""
_SYSTEM: Final = int(ApplicationType.QMGR)
_WHOSE: Final = (
    AttributeSpec("identifier", "CONN", 0, chars=16, read_only=True),
    AttributeSpec("external", "EXTCONN", 0, chars=32, read_only=True),
    AttributeSpec("type", "TYPE", 0, chars=8, read_only=True),
)
CONNECTION: Final = keyword_table(
    (
        *_WHOSE,
        AttributeSpec("application", "APPLTAG", 3058, chars=28),
        AttributeSpec("application_type", "APPLTYPE", 1, words={"USER": _USER, "SYSTEM": _SYSTEM}),
        AttributeSpec("user", "USERID", 3025, chars=12),
        AttributeSpec("unit_of_work", "UOWSTATE", 1128, words={"NONE": 0, "ACTIVE": 1}),
        AttributeSpec("channel", "CHANNEL", 3501, chars=20),
        AttributeSpec("address", "CONNAME", 3506, chars=264),
    )
)
CONNECTION_HANDLE: Final = keyword_table(
    (
        *_WHOSE,
        AttributeSpec("name", "OBJNAME", 3046, chars=48),
        AttributeSpec("object_type", "OBJTYPE", 1016, words={"QUEUE": 1, "NAMELIST": 2, "PROCESS": 3, "QMGR": 5, "TOPIC": 8}),
        AttributeSpec("options", "OPENOPTS", 1022, high=2**31 - 1),
    )
)


def show_connections(
    connections: Iterable[ConnectionStatus], queue_manager: str, command: DisplayConnections
) -> tuple[Record, ...]:
    """Return the connections that the command asks for, or the open handles of these connections."""
    shown: list[Record] = []
    for status in connections:
        if not matches(command.pattern, status.identifier):
            continue
        for handles in (False, True) if command.handles is None else (command.handles,):
            rows = connection_rows((status,), queue_manager, handles=handles)
            attributes = CONNECTION_HANDLE if handles else CONNECTION
            shown += laid_out("AMQ8276: Connection details.", rows, attributes, ("CONN", "EXTCONN", "TYPE"), command.selection)
    return tuple(shown)


def external_name(queue_manager: str) -> bytes:
    """Return EXTCONN: it is the same for all connections, and begins with AMQC and the queue manager's name (DISPLAY CONN)."""
    return f"AMQC{queue_manager:<12.12}".encode("ascii", "replace")


def connection_rows(
    connections: Iterable[ConnectionStatus], queue_manager: str, *, handles: bool
) -> Iterator[Mapping[str, Any]]:  # Any: the table of attributes gives each field's type
    """Yield a row for each connection. With `handles`, yield a row for each open handle instead."""
    external = external_name(queue_manager).hex().upper()
    for status in connections:
        whose = {"identifier": status.identifier, "external": external, "type": "HANDLE" if handles else "CONN"}
        if handles:
            for handle in status.handles:
                yield whose | asdict(handle)
        else:
            own = {
                "application_type": _SYSTEM if status.system else _USER,
                "unit_of_work": min(status.operations, 1),
                # Only connections through a channel have a channel and an address.
                "channel": "",
                "address": "",
            }
            yield whose | {"application": status.application, "user": status.user} | own
