"""MQTM, the trigger message: the queue that triggered, and the process that a trigger monitor starts.

This module knows one layout, 684 bytes. Source: IBM, MQTM; the layout table of the MQTM (version 1).
"""

from typing import Final

from msgspec import Struct

from mqflow.mqi.layout import FIELD_CCSID, byte_order, packed, to_field
from mqflow.mqi.options import Encoding
from mqflow.mqi.reason_codes import Reason

__all__ = ("TriggerMessage", "to_bytes")

_LAYOUT: Final = "4si48s48s64si256s128s128s"
_CHARS: Final = {
    "queue": 48, "process": 48, "trigger_data": 64, "application": 256, "environment_data": 128, "user_data": 128
}  # fmt: skip


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
    queue, process, data, application, environment, user = (
        to_field(getattr(message, field), chars, ccsid)  # the field name comes from the table
        for field, chars in _CHARS.items()
    )
    return packed(
        message, Reason.TM_ERROR, byte_order(encoding) + _LAYOUT,
        to_field("TM", 4, ccsid), 1, queue, process, data, message.application_type, application, environment, user,
    )  # fmt: skip
