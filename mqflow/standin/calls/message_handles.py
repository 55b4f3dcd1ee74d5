"""MQCRTMH and MQDLTMH: message handles by number. A message handle belongs to one connection or to none.

`properties` reads and writes the properties of a handle.
Source: IBM, MQCRTMH, MQDLTMH, MQIMPO and MQSMPO options; rc2460, rc2471.
"""

from enum import IntFlag
from typing import Final

from mqflow.mqi.c_structures import MQCMHO, MQDMHO
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.host import Host, MessageHandle
from mqflow.standin.memory.structures import read, structure_at, write

__all__ = ("create_handle", "delete_handle", "handle_of")

UNASSOCIATED: Final = -3
"""MQHC_UNASSOCIATED_HCONN: a message handle that belongs to no connection."""

_UNUSABLE: Final = -1


class Validation(IntFlag):
    """The MQCMHO_* options that the library checks."""

    NO_VALIDATION = 0x1
    VALIDATE = 0x2


def create_handle(host: Host, number: int, options_at: int, handle_at: int) -> int:
    """MQCRTMH: write a new message handle, without properties."""
    options = structure_at(MQCMHO, options_at, "MQCRTMH").number("Options")
    if options not in {0, Validation.NO_VALIDATION, Validation.VALIDATE}:
        raise error_for(Reason.OPTIONS_ERROR, "MQCRTMH", detail=f"MQCMHO.Options 0x{options:x}")
    handles = _handles(host, number, "MQCRTMH")
    hmsg = host.next_number()
    handles[hmsg] = MessageHandle(validate=options != Validation.NO_VALIDATION)
    write(handle_at, hmsg.to_bytes(8, "little", signed=True))
    return Reason.NONE


def delete_handle(host: Host, number: int, handle_at: int, options_at: int) -> int:
    """MQDLTMH: delete the handle and its properties."""
    structure_at(MQDMHO, options_at, "MQDLTMH")
    hmsg = int.from_bytes(read(handle_at, 8), "little", signed=True)
    handle_of(host, number, hmsg, "MQDLTMH")
    del _handles(host, number, "MQDLTMH")[hmsg]
    write(handle_at, _UNUSABLE.to_bytes(8, "little", signed=True))
    return Reason.NONE


def handle_of(host: Host, number: int, hmsg: int, verb: str) -> MessageHandle:
    """Return the message handle. Raises 2460 if the handle does not exist."""
    found = _handles(host, number, verb).get(hmsg)
    if found is None:
        raise error_for(Reason.HMSG_ERROR, verb, detail=f"There is no message handle {hmsg}")
    return found


def _handles(host: Host, number: int, verb: str) -> dict[int, MessageHandle]:
    return host.message_handles if number == UNASSOCIATED else host.hconn(number, verb).message_handles
