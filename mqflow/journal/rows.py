"""Messages as columns: puts the parts of a message into the columns of a segment. The kind of the lane decides the columns.

No message is refused: a part that cannot be read is null, and the original bytes are kept. Times are microseconds since 1970,
UTC. Pure: this file knows records; it knows no file and no clock.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, assert_never

from msgspec import Struct

from mqflow.journal.schemas import Kind
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import rfh2
from mqflow.mqi.headers.chain import split
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.rfh2 import RFH2
from mqflow.mqi.options import Format
from mqflow.policy.dead_letters.actions import dead_letter
from mqflow.policy.poison import disposition_record, moved_message
from mqflow.policy.poison.disposition_record import DispositionRecord, put_time_us
from mqflow.verbs import Got

__all__ = ("Position", "columns")

Columns = dict[str, Sequence[Any]]  # values of many types, by column

_DESCRIPTOR: Final[Mapping[str, Callable[[MessageDescriptor], Any]]] = {
    "msg_id": lambda md: md.message_id,
    "correl_id": lambda md: md.correlation_id,
    "group_id": lambda md: md.group_id,
    "msg_type": lambda md: md.message_type,
    "format": lambda md: md.format,
    "ccsid": lambda md: md.ccsid,
    "encoding": lambda md: md.encoding,
    "persistence": lambda md: md.persistence,
    "priority": lambda md: md.priority,
    "expiry_left_ms": lambda md: None if md.expiry_tenths < 0 else md.expiry_tenths * 100,
    "put_ts": lambda md: put_time_us(md.put_date, md.put_time),
    "put_appl_name": lambda md: md.put_application_name,
    "put_appl_type": lambda md: md.put_application_type,
    "user_id": lambda md: md.user_identifier,
    "reply_q": lambda md: md.reply_to_queue,
    "reply_qm": lambda md: md.reply_to_queue_manager,
    "backout_count": lambda md: md.backout_count,
    "mqmd": lambda md: md.to_bytes(),
}


class Position(Struct, frozen=True, kw_only=True):
    """The queue that messages come from, and the place in the journal that they go to."""

    lane: str
    segment: int
    landed_us: int
    queue: str
    queue_manager: str


def columns(kind: Kind, unit: Sequence[Got], position: Position) -> Columns:
    """Return the columns of a segment with these messages, in their order.

    There can be more rows than messages, because one message can carry several disposition records.
    """
    made: Columns
    match kind:
        case Kind.DISPOSITION:
            made = _dispositions(unit)
        case Kind.DEAD_LETTER:
            made = _message_columns(unit) | _dead_letters(unit)
            made.update(qmgr=[position.queue_manager] * len(unit), dlq=[position.queue] * len(unit))
            made.update(snapshot_id=[None] * len(unit))
        case Kind.BACKOUT_MESSAGE:
            made = _message_columns(unit)
            made.update(qmgr=[position.queue_manager] * len(unit), boq=[position.queue] * len(unit))
            made.update(snapshot_id=[None] * len(unit), source_queue=[_source_queue(got) for got in unit])
        case Kind.PAYLOAD:
            made = _message_columns(unit)
            made.update(qmgr=[position.queue_manager] * len(unit), queue=[position.queue] * len(unit))
            made.update(rfh2=[_properties(got) for got in unit])
        case _:
            assert_never(kind)
    rows = len(next(iter(made.values())))
    made.update(lane=[position.lane] * rows, segment=[position.segment] * rows, ordinal=range(rows))
    made["landed_ts"] = [position.landed_us] * rows
    return made


def _message_columns(unit: Sequence[Got]) -> Columns:
    """Return the columns that every kind except the disposition has: the descriptor, and the unchanged message data."""
    descriptors = [got.descriptor for got in unit]
    made: Columns = {name: [read(md) for md in descriptors] for name, read in _DESCRIPTOR.items()}
    made["msg_len"] = [got.data_bytes for got in unit]
    made["body"] = [got.body for got in unit]
    made["body_sha256"] = [sha256(got.body).digest() for got in unit]
    made["body_truncated"] = [len(got.body) < got.data_bytes for got in unit]
    return made


def _dispositions(unit: Sequence[Got]) -> Columns:
    """Return a row for each record. A message without a readable record has one row, with its data in `raw`."""
    read: list[DispositionRecord | None] = []
    raw: list[bytes | None] = []
    for got in unit:
        records = disposition_record.many_from_bytes(got.body)
        read += records or (None,)
        raw += [None] * len(records) if records else (got.body,)
    made: Columns = {
        name: [None if record is None else getattr(record, name) for record in read]  # a column for each field, by its name
        for name in disposition_record.DispositionRecord.__struct_fields__
    }
    made["raw"] = raw
    return made


def _dead_letters(unit: Sequence[Got]) -> Columns:
    headers = [_dead_letter_header(got) for got in unit]

    def each(read: Callable[[DeadLetterHeader], Any]) -> list[Any]:
        return [None if header is None else read(header) for header in headers]

    return {
        "has_dlh": [header is not None for header in headers],
        "dlh_reason": each(lambda dlh: dlh.reason),
        "dlh_dest_q": each(lambda dlh: dlh.destination_queue),
        "dlh_dest_qm": each(lambda dlh: dlh.destination_queue_manager),
        "dlh_encoding": each(lambda dlh: dlh.encoding),
        "dlh_ccsid": each(lambda dlh: dlh.ccsid),
        "dlh_format": each(lambda dlh: dlh.format),
        "dlh_put_appl_type": each(lambda dlh: dlh.put_application_type),
        "dlh_put_appl_name": each(lambda dlh: dlh.put_application_name),
        "dlh_put_ts": each(lambda dlh: put_time_us(dlh.put_date, dlh.put_time)),
        "feedback": [got.descriptor.feedback for got in unit],
        "appl_identity_data": [got.descriptor.application_identity_data for got in unit],
    }


def _dead_letter_header(got: Got) -> DeadLetterHeader | None:
    """Return the MQDLH as the DLQ handler sees it. The start of the data decides whether there is an MQDLH, not the Format."""
    letter = dead_letter(got.descriptor, got.body)
    return None if letter is None else letter.header


def _source_queue(got: Got) -> str | None:
    why = moved_message.why(got.descriptor, got.body)
    return why.queue or None if why is not None else None


def _properties(got: Got) -> dict[str, str] | None:
    """Return the properties of the message's MQRFH2 folders, as "folder.name": text; None if no folder can be read."""
    if got.descriptor.format not in {Format.RF_HEADER_2, Format.DEAD_LETTER_HEADER, Format.MD_EXTENSION}:
        return None
    try:
        headers = [header for header in split(got.descriptor, got.body).chain if isinstance(header, RFH2)]
        return {
            f"{folder.name}.{name}": str(value)
            for header in headers
            for folder in header.folders
            for name, value in rfh2.properties(header, folder.name).items()
        } or None
    except MQIError:
        return None
