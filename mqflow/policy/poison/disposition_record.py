"""The record of one decision about a message, for the queue `MQFLOW.DISPOSITION`, and its form as bytes.

A message on that queue carries one record as a JSON object, or several records, made at the same time, as a JSON array.

The fields have the names of the table columns that they fill. Times are microseconds since 1970, UTC. Version 2 adds the
outcome `RELEASED`. Each record has the lowest version that can express it, so a reader of version 1 can read all other records.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, fields, replace

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence

__all__ = (
    "DESCRIPTOR",
    "DISPOSITION_QUEUE",
    "EXC_MESSAGE_CHARS_MAX",
    "FORMAT",
    "RECORDS_MAX",
    "RECORD_VERSION",
    "DispositionRecord",
    "RecordOutcome",
    "from_bytes",
    "in_order",
    "many_from_bytes",
    "many_to_bytes",
    "messages_of",
    "put_time_us",
    "to_bytes",
)

DISPOSITION_QUEUE: Final = "MQFLOW.DISPOSITION"
FORMAT: Final = "MFLDISP"
"""MQMD.Format of a record: JSON in UTF-8. The name does not start with MQ, because IBM uses such names."""
DESCRIPTOR: Final = MessageDescriptor(format=FORMAT, ccsid=1208, persistence=Persistence.PERSISTENT)
"""The descriptor for the put of a message with records."""
RECORD_VERSION: Final = 2
RECORDS_MAX: Final = 64
"""The largest number of records in a message: usually 60 KB, and always far below a MAXMSGL of 4 MB."""
EXC_MESSAGE_CHARS_MAX: Final = 512
_MICROSECONDS: Final = 1_000_000
_PUT_DATE_CHARS: Final = 8
_HOURS: Final = 24
_MINUTES: Final = 60
_HUNDREDTHS: Final = 62 * 100
_UNIX_DAY: Final = date(1970, 1, 1).toordinal()
_YEARS: Final = range(2, 9999)
"""The years of `Time`."""

# The range of the table column. Any program can put to the queue; a number out of range must not stop other records.
Int: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Long: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Time: TypeAlias = Annotated[int, Meta(ge=-62_104_060_800_000_000, le=253_370_764_799_999_999)]
"""The years 2 to 9998. Python and SQL know the years 1 to 9999, also for local times, and for the windows around a time."""


class RecordOutcome(StrEnum):
    """The result of a delivery or a move. `HEARTBEAT` is not about a message: the listener or service still runs.

    Only the delay processor writes `EXPIRED`, for staged messages. mqflow does not learn when any other message expires,
    because a queue manager deletes expired messages without notice.
    """

    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    BACKED_OUT = "backed_out"
    DEAD_LETTERED = "dead_lettered"
    DISCARDED = "discarded"
    DEFERRED = "deferred"
    EXPIRED = "expired"
    LEFT = "left"
    REDRIVEN = "redriven"
    #: The delay is over, and the message is on its queue. Since version 2.
    RELEASED = "released"
    HEARTBEAT = "heartbeat"


class DispositionRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One decision, or a heartbeat. A field is None if its value is unknown, or if it does not apply."""

    #: A record without this field has version 1, so the default must not change.
    schema_version: Int = 1
    #: A unique name: queue manager, connection, unit of work, and a number within the unit of work.
    disp_id: str
    event_ts: Time
    qmgr: str
    queue: str
    #: The listener or the consumer; None if a service that moves messages decided, for example the DLQ handler.
    handler: str | None = None
    consumer: str | None = None
    uow_id: str | None = None
    msg_id: bytes | None = None
    correl_id: bytes | None = None
    group_id: bytes | None = None
    msg_type: Int | None = None
    format: str | None = None
    ccsid: Int | None = None
    encoding: Int | None = None
    persistence: Int | None = None
    priority: Int | None = None
    expiry_left_ms: Long | None = None
    msg_len: Long | None = None
    put_ts: Time | None = None
    put_appl_name: str | None = None
    put_appl_type: Int | None = None
    user_id: str | None = None
    reply_q: str | None = None
    reply_qm: str | None = None
    get_ts: Time | None = None
    #: The time when the handling ended. None if the message was poison and no handler had it, or if another record of the same
    #: delivery has this time.
    done_ts: Time | None = None
    #: MQMD.BackoutCount at the delivery: how often the message was backed out before.
    backout_count: Int | None = None
    bothresh: Int | None = None
    boqname: str | None = None
    outcome: RecordOutcome
    target_queue: str | None = None
    mqrc: Int | None = None
    exc_class: str | None = None
    #: SHA-256 of the exception's class and its text without numbers and quoted parts, so equal failures have equal values.
    exc_fingerprint: str | None = None
    #: Has at most `EXC_MESSAGE_CHARS_MAX` characters. From the DLQ handler: the rule, and the error if its action failed.
    exc_message: str | None = None
    delay_req_ms: Long | None = None
    due_ts: Time | None = None
    #: With `REDRIVEN`: the redrive that put the message back. Records of later deliveries do not name the redrive, because
    #: a redrive does not change the message.
    redrive_id: str | None = None
    redrive_of: bytes | None = None
    #: The trace of the span around the handling, 32 hexadecimal digits; None without tracing.
    trace_id: str | None = None


_InOrder: Final = msgspec.defstruct(
    "_InOrder",
    [(each.name, each.type, None if each.default is msgspec.NODEFAULT else each.default) for each in fields(DispositionRecord)],
    bases=(DispositionRecord,),
    frozen=True,
    kw_only=False,
    omit_defaults=True,
    gc=False,
)
# cast: type checkers know no fields of a class that `defstruct` makes.
in_order: Final = cast("Callable[..., DispositionRecord]", _InOrder)
"""Returns a record from the values of all fields, in order. A call with keyword arguments takes ten times as long."""

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(DispositionRecord | list[DispositionRecord])


def to_bytes(record: DispositionRecord) -> bytes:
    """Return the record as message data: JSON with identifiers in base64, without the fields that are None."""
    return many_to_bytes([record])


def many_to_bytes(records: Sequence[DispositionRecord]) -> bytes:
    """Return the records as the data of one message, at most `RECORDS_MAX`. For one record the result equals `to_bytes`."""
    try:
        return _ENCODER.encode(_alone(records))
    except UnicodeEncodeError:  # UTF-8 has no surrogates; a file name can contain one
        return _ENCODER.encode(_alone([_written(record) for record in records]))


def _alone(records: Sequence[object]) -> object:
    """Return the only record, if there is one; otherwise return the sequence."""
    match records:
        case [record]:
            return record
        case _:
            return records


def messages_of(records: Sequence[DispositionRecord]) -> Iterator[bytes]:
    """Yield the data of the fewest messages that carry all records, in order."""
    for at in range(0, len(records), RECORDS_MAX):
        yield many_to_bytes(records[at : at + RECORDS_MAX])


def from_bytes(data: bytes) -> DispositionRecord | None:
    """Return the record in the data, or None if the data does not have exactly one record that this version understands."""
    found = _alone(many_from_bytes(data))
    return found if isinstance(found, DispositionRecord) else None


def many_from_bytes(data: bytes) -> Sequence[DispositionRecord]:
    """Return the records in the data, in order. If this version does not understand one of them, return no record."""
    try:
        read = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
    records = read if isinstance(read, list) else (read,)
    return records if all(record.schema_version <= RECORD_VERSION for record in records) else ()


def _written(record: DispositionRecord) -> DispositionRecord:
    """Return the record with each surrogate in its texts written as a backslash, u and four digits, for UTF-8."""
    texts = {name: value for name, value in asdict(record).items() if type(value) is str}
    return replace(record, **{name: text.encode(errors="backslashreplace").decode() for name, text in texts.items()})


@lru_cache(maxsize=512)  # messages of one unit often have the same put time
def put_time_us(put_date: str, put_time: str) -> int | None:
    """Return the time of PutDate (YYYYMMDD) and PutTime (HHMMSSTH), in GMT, or None if they are not a time, such as 99 o'clock.

    The years 1 and 9999 are no time either, as in `Time`. A clock may show the seconds 60 and 61. They count as the first
    seconds of the next minute.
    """
    if len(put_date) != _PUT_DATE_CHARS or len(put_time) != _PUT_DATE_CHARS:
        return None
    text = put_date + put_time
    day = _day(put_date) if text.isascii() and text.isdigit() else None
    if day is None:
        return None
    hours, minutes, hundredths = int(put_time[:2]), int(put_time[2:4]), int(put_time[4:])
    if hours >= _HOURS or minutes >= _MINUTES or hundredths >= _HUNDREDTHS:
        return None
    return ((day * 24 + hours) * 60 + minutes) * 60 * _MICROSECONDS + hundredths * 10_000


@lru_cache(maxsize=64)  # the messages of a unit of work were mostly put on the same day
def _day(text: str) -> int | None:
    try:
        day = datetime.strptime(text, "%Y%m%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return day.toordinal() - _UNIX_DAY if day.year in _YEARS else None
