"""Builds a message for its move to the backout requeue or dead-letter queue, and reads the reason from a moved message.

This module knows descriptors and headers; it puts nothing, and knows no clock. The put itself passes the message context on.
Source: IBM q032280, "What happens to a message when it is moved to the backout queue"; q096110 for the MQDLH.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, assert_never

from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict, replace

from mqflow.mqi.descriptor import CCSID_INHERIT, CCSID_Q_MGR, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import dead_letter, rfh2
from mqflow.mqi.headers.chain import split
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.options import ApplicationType, Encoding, Format, MessageFlag

__all__ = ("FOLDER", "Why", "as_it_is", "folder", "to_backout_queue", "to_dead_letter_queue", "why")

FOLDER: Final = "mqflow"
"""The RFH2 folder of a moved message with the reason of the move."""

_UTF_8: Final = 1208
_SEGMENT: Final = MessageFlag.SEGMENT | MessageFlag.LAST_SEGMENT
#: Characters that XML 1.0 cannot write, not even escaped.
_NOT_IN_XML: Final = re.compile("[\0-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")


class Why(Struct, frozen=True, kw_only=True):
    """The reason why a message was moved. A field is empty if the message does not give it."""

    #: The queue the message came from, or was for, and the queue manager of that queue.
    queue: str = ""
    queue_manager: str = ""
    #: MQRC_* or MQFB_* of the MQDLH.
    reason: int = 0
    #: The outcome of its last handling: "failed", "undecodable"; the exception and its text; the name of the handler.
    outcome: str = ""
    error: str = ""
    text: str = ""
    #: `file:line in function`, the innermost frame of the application that the exception came from.
    frame: str = ""
    handler: str = ""
    #: MQMD.BackoutCount at the move, and the threshold that was compared with it.
    count: int = 0
    threshold: int = 0
    #: The application that moved it, and the time of the move.
    application_name: str = ""
    at: datetime | None = None


def to_backout_queue(
    descriptor: MessageDescriptor, body: bytes, *, folders: tuple[Folder, ...] = ()
) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and body for the put to the backout requeue queue.

    BackoutCount is 0; Expiry is what was left at the get. A message that has an MQRFH2 keeps its body byte for byte. A message
    without an MQRFH2 gets one in front, with `folders` in it. The MQMD's Format, CCSID and Encoding then describe that header
    (MQHRF2, 1208, 273); the same fields of the header describe the data that follows. A segment gets no header, because the
    offsets of the other segments would be wrong. Which folders IBM MQ classes for JMS write into an added header could not be
    confirmed. Here the folder is `mcd` with the message class, as in any JMS message.
    """
    if descriptor.message_flags & _SEGMENT or _has_rfh2(descriptor, body):
        return as_it_is(descriptor, body)
    added = RFH2(
        folders=(Folder("mcd", (FolderProperty("Msd", _message_class(descriptor, body)),)), *folders),
        encoding=descriptor.encoding,
        ccsid=_chained(descriptor.ccsid),
        format=descriptor.format,
    )
    described = replace(descriptor, backout_count=0, format=Format.RF_HEADER_2, ccsid=_UTF_8, encoding=Encoding.NORMAL)
    return described, rfh2.to_bytes(added, encoding=Encoding.NORMAL) + body


def as_it_is(descriptor: MessageDescriptor, body: bytes) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and body for a put without an added header: only BackoutCount changes, to 0."""
    return replace(descriptor, backout_count=0), body


def to_dead_letter_queue(
    descriptor: MessageDescriptor,
    body: bytes,
    *,
    reason: int,
    queue: str,
    queue_manager: str,
    application_name: str,
    now: datetime,
    application_type: int = ApplicationType.UNIX,
    encoding: int = Encoding.NATIVE,
) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and body for the put to the dead-letter queue, with an MQDLH of 172 bytes in front.

    `queue` and `queue_manager` name the queue that the message was on. `now` is any time with a time zone, `encoding` is the
    encoding of the numbers in the MQDLH. Format, CCSID and Encoding describe the MQDLH, which holds their old values for the
    data that follows. All other fields stay unchanged, MsgType included.
    """
    gmt = now.astimezone(UTC)
    header = DeadLetterHeader(
        reason=int(reason),
        destination_queue=queue,
        destination_queue_manager=queue_manager,
        encoding=descriptor.encoding,
        ccsid=_chained(descriptor.ccsid),
        format=descriptor.format,
        put_application_type=int(application_type),
        put_application_name=application_name,
        put_date=f"{gmt:%Y%m%d}",
        put_time=f"{gmt:%H%M%S%f}"[:8],  # HHMMSSTH: down to the hundredths
    )
    described = replace(descriptor, backout_count=0, format=Format.DEAD_LETTER_HEADER, ccsid=_UTF_8, encoding=encoding)
    return described, dead_letter.to_bytes(header, encoding=encoding) + body


def folder(reason: Why) -> Folder:
    """Return the folder of an added MQRFH2 with these fields; empty fields are left out."""
    values = asdict(reason)
    return Folder(FOLDER, tuple(FolderProperty(name, _written(value)) for name, value in values.items() if value))


def why(descriptor: MessageDescriptor, body: bytes) -> Why | None:
    """Return the reason of the last move, from the MQDLH or the folder that `folder` makes; None if the message has neither."""
    try:
        chain = split(descriptor, body).chain
    except MQIError:
        return None
    for header in chain:
        if isinstance(header, DeadLetterHeader):
            return _of_dead_letter_header(header)
        if isinstance(header, RFH2) and FOLDER in (folder.name for folder in header.folders):
            return _of_folder(rfh2.properties(header, FOLDER))
    return None


def _of_dead_letter_header(header: DeadLetterHeader) -> Why:
    return Why(
        queue=header.destination_queue,
        queue_manager=header.destination_queue_manager,
        reason=header.reason,
        application_name=header.put_application_name,
        at=_gmt(header.put_date + header.put_time),
    )


def _of_folder(properties: Mapping[str, object]) -> Why | None:
    """Return the record of these properties, or None if one has an unexpected value: any program can write a folder."""
    try:
        return convert({name: value for name, value in properties.items() if value is not None}, Why, strict=False)
    except ValidationError:
        return None


def _gmt(digits: str) -> datetime | None:
    """Return the time of PutDate and PutTime (YYYYMMDDHHMMSSTH, in GMT), or None if the digits are not a time."""
    try:
        return datetime.strptime(digits, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None


def _has_rfh2(descriptor: MessageDescriptor, body: bytes) -> bool:
    if descriptor.format == Format.RF_HEADER_2:
        return True  # a malformed header counts as a header: a broken message stays as it came
    try:
        return any(isinstance(header, RFH2) for header in split(descriptor, body).chain)
    except MQIError:
        return False


def _chained(ccsid: int) -> int:
    """Return the CCSID that a header gives for the data behind it; only in an MQMD does 0 mean the queue manager's CCSID."""
    return CCSID_INHERIT if ccsid == CCSID_Q_MGR else ccsid


def _message_class(descriptor: MessageDescriptor, body: bytes) -> str:
    if descriptor.format == Format.STRING:
        return "jms_text"
    return "jms_bytes" if body else "jms_none"


def _written(value: str | int | datetime) -> str | int:
    match value:
        case datetime():
            return value.isoformat(timespec="milliseconds")
        case str():
            return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", value)
        case int():
            return value
        case _:
            assert_never(value)
