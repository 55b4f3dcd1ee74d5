"""MQTM, the trigger message: the queue that triggered, and the process that a trigger monitor starts.

This module knows one layout, 684 bytes. Source: IBM, MQTM; the layout table of the MQTM (version 1).
"""

import struct
from typing import Final

from msgspec import Struct

from mqflow.mqi.layout import FIELD_CCSID, Fields, byte_order, to_field
from mqflow.mqi.options import Encoding
from mqflow.mqi.reason_codes import Reason

__all__ = ("TriggerMessage", "to_bytes")

_FIELDS: Final = Fields(
    "queue:48c process:48c trigger_data:64c application_type:i application:256c environment_data:128c user_data:128c"
)


class TriggerMessage(Struct, frozen=True, kw_only=True):
    """The data of a trigger message. Character fields have no blank padding."""

    #: QName, ProcessName, TriggerData.
    queue: str
    process: str = ""
    trigger_data: str = ""
    #: ApplType (MQAT_*), ApplId, EnvData and UserData of the process.
    application_type: int = 0
    application: str = ""
    environment_data: str = ""
    user_data: str = ""


def to_bytes(message: TriggerMessage, *, encoding: int = Encoding.NATIVE, ccsid: int = FIELD_CCSID) -> bytes:
    """Return the MQTM, its fields padded with blanks."""
    order = byte_order(encoding)
    start = to_field("TM", 4, ccsid) + struct.pack(order + "i", 1)
    return start + _FIELDS.write(message, Reason.TM_ERROR, order, ccsid)
