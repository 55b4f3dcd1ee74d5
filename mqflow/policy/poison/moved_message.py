"""Makes what a message looks like after its move to the backout requeue queue or the dead-letter queue, and reads it back.

Knows descriptors and headers; puts nothing, and knows no clock. The context (who put it, when) is passed on by the put itself.
Source: IBM q032280, "What happens to a message when it is moved to the backout queue"; q096110 for the MQDLH.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, assert_never

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from mqflow.mqi.descriptor import CCSID_INHERIT, CCSID_Q_MGR, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import dead_letter, rfh2
from mqflow.mqi.headers.chain import split
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.rfh2 import RFH2, Folder, Property
from mqflow.mqi.options import ApplicationType, Encoding, Format, MessageFlag

__all__ = ("FOLDER", "Why", "as_it_is", "folder", "to_backout_queue", "to_dead_letter_queue", "why")

FOLDER: Final = "mqflow"
"""The RFH2 folder in which a moved message says why it was moved."""

_UTF_8: Final = 1208
_SEGMENT: Final = MessageFlag.SEGMENT | MessageFlag.LAST_SEGMENT
#: What XML 1.0 has no way to write, not even escaped.
_NOT_IN_XML: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Why(Struct, frozen=True, kw_only=True):
    """Why a message is where it is. Empty where that was not told."""

    #: The queue it came from, or was for, and that queue's queue manager.
    queue: str = ""
    queue_manager: str = ""
    #: MQRC_* or MQFB_* of the MQDLH.
    reason: int = 0
    #: What became of its last handling: "failed", "undecodable"; the exception and its text; the handler's name.
    outcome: str = ""
    error: str = ""
    text: str = ""
    handler: str = ""
    #: MQMD.BackoutCount when it was moved, and the threshold that was compared with it.
    count: int = 0
    threshold: int = 0
    #: Who moved it, and when.
    application_name: str = ""
    at: datetime | None = None


def to_backout_queue(
    descriptor: MessageDescriptor, body: bytes, *, folders: tuple[Folder, ...] = ()
) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and body as they are put to the backout requeue queue.

    BackoutCount is 0, Expiry stays what was left at the get. A message that has an MQRFH2 keeps its body byte for byte. One
    without gets one in front, and `folders` in it; Format, CCSID and Encoding then describe that header (MQHRF2, 1208, 273),
    and those in the header what follows it. A segment is a part of a message, which nothing can be in front of: the offsets of
    the others would not fit. Which folders IBM MQ classes for JMS write into an added header could not be
    confirmed; here it is `mcd` with the message class, as in any JMS message.
    """
    if descriptor.message_flags & _SEGMENT or _has_rfh2(descriptor, body):
        return as_it_is(descriptor, body)
    added = RFH2(
        folders=(Folder("mcd", (Property("Msd", _message_class(descriptor, body)),)), *folders),
        encoding=descriptor.encoding,
        ccsid=_chained(descriptor.ccsid),
        format=descriptor.format,
    )
    described = replace(descriptor, backout_count=0, format=Format.RF_HEADER_2, ccsid=_UTF_8, encoding=Encoding.NORMAL)
    return described, rfh2.to_bytes(added, encoding=Encoding.NORMAL) + body


def as_it_is(descriptor: MessageDescriptor, body: bytes) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and body as they are put where nothing is added: only the BackoutCount begins anew."""
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
    """Return descriptor and body as they are put to the dead-letter queue: behind an MQDLH, which is 172 bytes.

    `queue` and `queue_manager` are those the message was on, `now` is any time with a time zone, `encoding` is that of the
    MQDLH's numbers. Everything else stays, MsgType too; Format, CCSID and Encoding describe the MQDLH, which holds the old
    values for what follows.
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


def folder(told: Why) -> Folder:
    """Return the folder that tells this in an added MQRFH2; what is empty is left out."""
    values = {name: getattr(told, name) for name in told.__struct_fields__}
    return Folder(FOLDER, tuple(Property(name, _written(value)) for name, value in values.items() if value))


def why(descriptor: MessageDescriptor, body: bytes) -> Why | None:
    """Return what the message itself says of its last move, or None: of an MQDLH, or of the folder that `folder` made."""
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


def _of_folder(told: Mapping[str, object]) -> Why | None:
    """Return the record that the folder's properties make; what is not as expected makes none: anybody can write a folder."""
    try:
        return convert({name: value for name, value in told.items() if value is not None}, Why, strict=False)
    except ValidationError:
        return None


def _gmt(digits: str) -> datetime | None:
    """Return the time that PutDate and PutTime say: YYYYMMDDHHMMSSTH, in GMT; None where they say none."""
    try:
        return datetime.strptime(digits, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None


def _has_rfh2(descriptor: MessageDescriptor, body: bytes) -> bool:
    if descriptor.format == Format.RF_HEADER_2:
        return True  # even one that does not hold together: what is broken stays as it came
    try:
        return any(isinstance(header, RFH2) for header in split(descriptor, body).chain)
    except MQIError:
        return False


def _chained(ccsid: int) -> int:
    """Return how a header names the character set of what follows: 0 means the queue manager's own in an MQMD only."""
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
