"""The columns of segments, by kind: disposition record, dead letter, backed-out message, any other message.

The bronze tables of `mqflow.pipeline`, which have the rows of all segments, have the same names and types. This file has data
only; `arrow_schema` makes Arrow's types on request. A change of columns needs a new `SCHEMA_VERSION`.
"""

import re
from enum import StrEnum
from functools import cache
from typing import Final, Literal, TypeAlias

from msgspec import Struct, convert

from mqflow.journal.arrow import pa

__all__ = ("SCHEMA_VERSION", "Column", "Kind", "arrow_schema", "columns_of", "ddl")

SCHEMA_VERSION: Final = 1
"""The version of the columns, which each segment names."""

Type: TypeAlias = Literal["int", "long", "string", "boolean", "timestamp", "binary", "map<string,string>"]


class Kind(StrEnum):
    """The kind of messages in a lane, which decides the columns of its segments."""

    DISPOSITION = "disposition"
    DEAD_LETTER = "dead_letter"
    BACKOUT_MESSAGE = "backout_message"
    PAYLOAD = "payload"

    @property
    def rows(self) -> str:
        """The noun for rows of this kind. Disposition records are not messages: one message can carry up to 64 of them."""
        return "records" if self is Kind.DISPOSITION else "messages"


class Column(Struct, frozen=True, array_like=True):
    """One column. Only the columns lane, segment, ordinal and landed_ts are never null."""

    name: str
    #: Spark's name of the type; a timestamp is UTC, to the microsecond.
    type: Type


def _columns(text: str) -> tuple[Column, ...]:
    """Parse "name type, name type". A comma belongs to a type if no name with a space follows it."""
    pairs = (one.split() for one in re.split(r",\s*(?=\w+ )", text.strip().rstrip(",")))
    return tuple(convert(pair, Column) for pair in pairs)


_POSITION: Final = _columns("lane string, segment long, ordinal int, landed_ts timestamp")
#: The fields of the MQMD, by their names in the tables.
_DESCRIPTOR: Final = _columns(
    "msg_id binary, correl_id binary, group_id binary, msg_type int, format string, ccsid int, encoding int, persistence int,"
    "priority int, expiry_left_ms long, msg_len long, put_ts timestamp, put_appl_name string, put_appl_type int,"
    "user_id string, reply_q string, reply_qm string"
)
_BODY: Final = _columns("body binary, body_sha256 binary, body_truncated boolean")
#: The whole MQMD, version 2, little-endian. A redrive needs the MQMD to put the message back unchanged.
_WHOLE_DESCRIPTOR: Final = _columns("mqmd binary")

_BY_KIND: Final = {
    Kind.DISPOSITION: (
        *_columns("schema_version int"),
        *_POSITION,
        *_columns(
            "disp_id string, event_ts timestamp, qmgr string, queue string, handler string, consumer string, uow_id string"
        ),
        *_DESCRIPTOR,
        *_columns(
            "get_ts timestamp, done_ts timestamp, backout_count int, bothresh int, boqname string, outcome string,"
            "target_queue string, mqrc int, exc_class string, exc_fingerprint string, exc_message string, delay_req_ms long,"
            "due_ts timestamp, redrive_id string, redrive_of binary, trace_id string"
        ),
        # The message data, if this version cannot read it as a record; every other column is null then.
        *_columns("raw binary"),
    ),
    Kind.DEAD_LETTER: (
        *_POSITION,
        *_columns(
            "snapshot_id string, qmgr string, dlq string, has_dlh boolean, dlh_reason int, dlh_dest_q string,"
            "dlh_dest_qm string, dlh_encoding int, dlh_ccsid int, dlh_format string, dlh_put_appl_type int,"
            "dlh_put_appl_name string, dlh_put_ts timestamp"
        ),
        *_DESCRIPTOR,
        # A rules table can also test the last two columns (FEEDBACK, APPLIDAT).
        *_columns("backout_count int, feedback int, appl_identity_data string"),
        *_BODY,
        *_WHOLE_DESCRIPTOR,
    ),
    Kind.BACKOUT_MESSAGE: (
        *_POSITION,
        *_columns("snapshot_id string, qmgr string, boq string, source_queue string"),
        *_DESCRIPTOR,
        *_columns("backout_count int"),
        *_BODY,
        *_WHOLE_DESCRIPTOR,
    ),
    Kind.PAYLOAD: (
        *_POSITION,
        *_columns("qmgr string, queue string"),
        *_DESCRIPTOR,
        *_columns("backout_count int, rfh2 map<string,string>"),
        *_BODY,
        *_WHOLE_DESCRIPTOR,
    ),
}


def columns_of(kind: Kind) -> tuple[Column, ...]:
    """Return the columns of a kind, in order."""
    return _BY_KIND[kind]


def ddl(kind: Kind) -> str:
    """Return the columns as Spark writes a schema: "lane string, segment long, ..."."""
    return ", ".join(f"{column.name} {column.type}" for column in columns_of(kind))


@cache
def arrow_schema(kind: Kind) -> "pa.Schema":
    """Return the Arrow schema of a kind's segments, without metadata."""
    types: dict[str, pa.DataType] = {
        "int": pa.int32(),
        "long": pa.int64(),
        "string": pa.string(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "binary": pa.binary(),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
    }
    return pa.schema([pa.field(column.name, types[column.type]) for column in columns_of(kind)])
