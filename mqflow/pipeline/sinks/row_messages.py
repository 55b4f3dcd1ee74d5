"""Messages from rows: the columns that become fields of a message, and its MsgId.

This file is pure, except for Arrow's batches, and knows no queue manager.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from msgspec.structs import replace

from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.options import Format
from mqflow.pipeline.errors import OptionError, SinkError
from mqflow.pipeline.extras import pa
from mqflow.pipeline.sinks.exactly_once import Message

__all__ = ("COLUMNS", "check_columns", "in_order", "messages")

_FIELDS: Final[Mapping[str, str]] = {
    "msg_id": "message_id",
    "correl_id": "correlation_id",
    "group_id": "group_id",
    "msg_type": "message_type",
    "format": "format",
    "ccsid": "ccsid",
    "encoding": "encoding",
    "persistence": "persistence",
    "priority": "priority",
    "reply_q": "reply_to_queue",
    "reply_qm": "reply_to_queue_manager",
    "user_id": "user_identifier",
    "put_appl_name": "put_application_name",
    "put_appl_type": "put_application_type",
}
"""The fields of the MQMD, by the columns of the tables."""
COLUMNS: Final = ("body", "mqmd", "queue", "expiry_left_ms", "body_truncated", *_FIELDS)
_UTF_8: Final = 1208
_ID_BYTES: Final = len(NO_ID)


def check_columns(names: Iterable[str], queue: str, msg_id_from: str, order_by: Sequence[str] = ()) -> None:
    """Raise `OptionError` for a column that is not part of a message, and for a missing column."""
    there = tuple(names)
    if strange := [name for name in there if name not in (*COLUMNS, msg_id_from, *order_by)]:
        raise OptionError(
            f"mqflow_mq: the column {strange[0]} is not part of a message. Select only columns to put. Known columns: "
            f"{', '.join(COLUMNS)}."
        )
    if not queue and "queue" not in there:
        raise OptionError("mqflow_mq: the target queue is missing. Give the option 'queue', or a column of that name.")
    for option, name in [("msgIdFrom", msg_id_from), *(("orderBy", each) for each in order_by)]:
        if name and name not in there:
            raise OptionError(f"mqflow_mq: {option}={name!r} is not a column. Columns: {', '.join(there)}.")


def in_order(batches: Iterable["pa.RecordBatch"], order_by: Sequence[str]) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of a partition in an order that a replay repeats: by these columns, then by all others.

    A shuffle gives rows in any order, and Spark cannot sort a stream. The function holds the rows of the partition in memory.
    """
    table = pa.Table.from_batches(found) if (found := list(batches)) else None
    if table is not None:
        names = (*order_by, *(name for name in table.column_names if name not in order_by))
        yield from table.sort_by([(name, "ascending") for name in names]).to_batches()


def messages(batches: Iterable["pa.RecordBatch"], *, queue: str, msg_id_from: str, seed: str) -> Iterator[Message]:
    """Yield a message for each row. Its MsgId comes from `msg_id` or `mqmd`, from `msgIdFrom`, or from the row's position.

    A row has the same MsgId in every replay, as a second safeguard besides the marker. Raises `SinkError` for a cut body.
    """
    number = 0
    for batch in batches:
        for row in batch.to_pylist():
            key = str(number) if not msg_id_from else repr(row[msg_id_from])
            yield _message(row, queue, own_id=sha256(f"{seed}\0{key}".encode()).digest()[:_ID_BYTES], derived=bool(msg_id_from))
            number += 1


def _message(row: Mapping[str, Any], queue: str, *, own_id: bytes, derived: bool) -> Message:
    target = row.get("queue") or queue
    if not target:
        raise SinkError(
            "mqflow_mq: a row has no queue, and the option 'queue' names none. Nothing of its unit of work was put."
        )
    if row.get("body_truncated"):
        raise SinkError(
            f"mqflow_mq: the body of a row for {target} is cut (body_truncated), and the sink does not put half a message. "
            "Read the journal with payload=full."
        )
    if "body" in row and row["body"] is None:
        raise SinkError(
            f"mqflow_mq: a row for {target} has no body (null), perhaps because its table has no payloads. The sink does not "
            "put a message without its data. For empty messages select no body, or coalesce(body, x'')."
        )
    body = row.get("body")
    base = MessageDescriptor() if row.get("mqmd") is None else MessageDescriptor.from_bytes(row["mqmd"])
    if isinstance(body, str):
        body = body.encode()
        base = replace(base, format=Format.STRING, ccsid=_UTF_8)
    said = {field: row[column] for column, field in _FIELDS.items() if row.get(column) is not None}
    if row.get("expiry_left_ms") is not None:
        said["expiry_tenths"] = max(1, row["expiry_left_ms"] // 100)
    descriptor = replace(base, **said, backout_count=0) if said or base.backout_count else base
    if derived or descriptor.message_id == NO_ID:
        descriptor = replace(descriptor, message_id=own_id)
    return Message(target, descriptor, body or b"")
