"""Builds a message for its move to the backout requeue or dead-letter queue, and reads the reason from a moved message.

This module puts nothing and reads no clock. The put itself passes the message context on.
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
"""The MQRFH2 folder that has the reason of the move."""

_UTF_8: Final = 1208
_SEGMENT: Final = MessageFlag.SEGMENT | MessageFlag.LAST_SEGMENT
#: Characters that XML 1.0 cannot contain, not even escaped.
_NOT_IN_XML: Final = re.compile("[\0-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")


class Why(Struct, frozen=True, kw_only=True):
    """The reason why a message was moved. A field is empty if the message does not have it."""

    #: The queue that the message came from, or was put to, and its queue manager.
    queue: str = ""
    queue_manager: str = ""
    #: MQRC_* or MQFB_* of the MQDLH.
    reason: int = 0
    #: The last handling: its outcome ("failed", "undecodable"), the exception and its text, and the name of the handler.
    outcome: str = ""
    error: str = ""
    text: str = ""
    #: The innermost frame of the application in the exception's traceback: `file:line in function`.
    frame: str = ""
    handler: str = ""
    #: MQMD.BackoutCount at the move, and the threshold it was compared with.
    count: int = 0
    threshold: int = 0
    #: The application that moved the message, and the time of the move.
    application_name: str = ""
    at: datetime | None = None


def to_backout_queue(
    descriptor: MessageDescriptor, body: bytes, *, folders: tuple[Folder, ...] = ()
) -> tuple[MessageDescriptor, bytes]:
    """Return the descriptor and the body for the put to the backout requeue queue.

    BackoutCount becomes 0, and Expiry is the remaining time at the get. If the message has an MQRFH2, its body does not
    change. Otherwise it gets an MQRFH2 in front, with `folders` in it. Format, CCSID and Encoding of the MQMD then describe
    this header (MQHRF2, 1208, 273). The same fields of the header describe the data after it. A segment gets no header,
    because the offsets of the other segments would be wrong.

    It could not be confirmed which folders IBM MQ classes for JMS write into an added header. mqflow writes `mcd` with the
    message class, which every JMS message has.
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
    """Return the descriptor and the body for a put without an added header. Only BackoutCount changes, to 0."""
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
    """Return the descriptor and the body for the put to the dead-letter queue, with an MQDLH of 172 bytes in front.

    `queue` and `queue_manager` name the queue that the message was on. `now` needs a time zone. `encoding` is the encoding of
    the numbers in the MQDLH. Format, CCSID and Encoding of the descriptor describe the MQDLH; the MQDLH has their old values,
    for the data after it. All other fields stay unchanged, including MsgType.
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
    """Return the folder for an added MQRFH2 with the fields of the reason. Empty fields are left out."""
    values = asdict(reason)
    return Folder(FOLDER, tuple(FolderProperty(name, _written(value)) for name, value in values.items() if value))


def why(descriptor: MessageDescriptor, body: bytes) -> Why | None:
    """Return the reason of the last move, from the MQDLH or the folder of mqflow; None if the message has neither."""
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
    """Return the reason in these properties; None if a value is unexpected, because any program can write a folder."""
    try:
        return convert({name: value for name, value in properties.items() if value is not None}, Why, strict=False)
    except ValidationError:
        return None


def _gmt(digits: str) -> datetime | None:
    """Return the time of PutDate and PutTime (YYYYMMDDHHMMSSTH, in GMT); None if the digits are not a time."""
    try:
        return datetime.strptime(digits, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None


def _has_rfh2(descriptor: MessageDescriptor, body: bytes) -> bool:
    if descriptor.format == Format.RF_HEADER_2:
        return True  # also if it is malformed: a broken message must stay unchanged
    try:
        return any(isinstance(header, RFH2) for header in split(descriptor, body).chain)
    except MQIError:
        return False


def _chained(ccsid: int) -> int:
    """Return the CCSID for a header to describe its data. Only in an MQMD does 0 mean the queue manager's CCSID."""
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
