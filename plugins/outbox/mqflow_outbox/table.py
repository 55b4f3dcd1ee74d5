"""The table of the outbox: messages that wait for the relay, written in the transaction of the application's own work.

This module knows SQLAlchemy Core, and how mqflow checks and encodes a message. It knows no queue manager, and begins and ends
no transaction.
"""

import math
import os
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
)

from mqflow import MQIError
from mqflow.app.handlers.codecs import encode
from mqflow.app.handlers.outgoing_message import framed, outgoing
from mqflow.mqi.names import is_object_name

__all__ = ("Outbox", "Waiting")

_NAME_CHARS: Final = 48
_IDENTIFIER_BYTES: Final = 24
_PRIORITY_MAX: Final = 9


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A message that waits for the relay."""

    #: The MsgId that the message has on its queue.
    message_id: bytes
    queue: str
    body: bytes
    #: MQMD.Format: "MQSTR" for text and JSON in UTF-8, empty for bytes.
    format: str
    correlation_id: bytes | None
    reply_to: str
    #: None for DEFPRTY of the queue.
    priority: int | None
    persistent: bool
    #: The application properties.
    properties: Mapping[str, str | int | float | bool]


class Outbox:
    """The table of the messages that were put in a database and not yet on a queue."""

    def __init__(self, *, table: str = "mqflow_outbox", metadata: MetaData | None = None) -> None:
        """Declare the table. With `metadata`, the table is declared there."""
        declared = metadata if metadata is not None else MetaData()
        #: The table. The application's migrations or `create` make it in the database.
        self.table: Final[Table] = Table(
            table,
            declared,
            Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
            Column("message_id", LargeBinary(_IDENTIFIER_BYTES), nullable=False, unique=True),
            Column("queue", String(_NAME_CHARS), nullable=False),
            Column("body", LargeBinary, nullable=False),
            Column("format", String(8), nullable=False),
            Column("correlation_id", LargeBinary(_IDENTIFIER_BYTES)),
            Column("reply_to", String(_NAME_CHARS), nullable=False),
            Column("priority", Integer),
            Column("persistent", Boolean, nullable=False),
            Column("properties", Text, nullable=False),
            Column("put_at", DateTime(timezone=True), nullable=False),
            extend_existing=True,
        )

    def create(self, connection: Connection) -> None:
        """Create the table if it does not exist."""
        self.table.create(connection, checkfirst=True)

    def put(
        self,
        connection: Connection,
        queue: str,
        payload: Any,  # Any: everything that JSON can become
        *,
        correlation_id: bytes | None = None,
        reply_to: str = "",
        priority: int | None = None,
        persistent: bool = True,
        properties: Mapping[str, str | int | float | bool] | None = None,
    ) -> bytes:
        """Write the message in the connection's transaction, and return the MsgId that it will have.

        The payload becomes a body as in `App.put`: bytes stay unchanged, text becomes UTF-8, any other payload becomes JSON.
        Raises `ValueError` for a name, an identifier, a priority or a property that no message can have. Raises `TypeError` for
        a payload that JSON cannot become, and for a property of another type. A queue can still refuse the message later.
        """
        _check(queue, reply_to, correlation_id, priority)
        _check_properties(queue, properties or {})
        body, message_format = encode(payload)[:2]
        message_id = os.urandom(_IDENTIFIER_BYTES)
        row = {
            "message_id": message_id,
            "queue": queue,
            "body": body,
            "format": message_format,
            "correlation_id": correlation_id,
            "reply_to": reply_to,
            "priority": priority,
            "persistent": persistent,
            "properties": msgspec.json.encode(dict(properties or {})).decode(),
            "put_at": datetime.now(UTC),
        }
        connection.execute(insert(self.table).values(row))
        return message_id

    def waiting(self, connection: Connection, most: int, *, without: Collection[str] = ()) -> Sequence[Waiting]:
        """Return the oldest messages, up to `most`, except those for the queues `without`."""
        table = self.table
        oldest = select(table).where(table.c.queue.not_in(without)).order_by(table.c.number).limit(most)
        return [
            Waiting(
                message_id=bytes(row.message_id),
                queue=row.queue,
                body=bytes(row.body),
                format=row.format,
                correlation_id=None if row.correlation_id is None else bytes(row.correlation_id),
                reply_to=row.reply_to,
                priority=row.priority,
                persistent=row.persistent,
                properties=msgspec.json.decode(row.properties),
            )
            for row in connection.execute(oldest)
        ]

    def remove(self, connection: Connection, message_ids: Collection[bytes]) -> None:
        """Delete the rows of messages that are on their queues."""
        connection.execute(delete(self.table).where(self.table.c.message_id.in_(message_ids)))


def _check(queue: str, reply_to: str, correlation_id: bytes | None, priority: int | None) -> None:
    if not is_object_name(queue) or (reply_to and not is_object_name(reply_to)):
        names = f"the name of a queue has 1 to {_NAME_CHARS} characters of A-Z a-z 0-9 . _ / %"
        raise ValueError(f"put to {queue!r}, reply to {reply_to!r}: {names}.")
    if correlation_id is not None and len(correlation_id) != _IDENTIFIER_BYTES:
        raise ValueError(f"put to {queue}: a CorrelId has {_IDENTIFIER_BYTES} bytes, not {len(correlation_id)}.")
    if priority is not None and not 0 <= priority <= _PRIORITY_MAX:
        raise ValueError(f"put to {queue}: a priority is 0 to {_PRIORITY_MAX}, not {priority}.")


def _check_properties(queue: str, properties: Mapping[str, object]) -> None:
    """Raise `ValueError` or `TypeError` for properties that the relay cannot put, or that JSON changes."""
    for name, value in properties.items():
        if isinstance(value, bytes):
            raise TypeError(f"put to {queue}: property {name!r} is bytes; it takes str, int, float or bool.")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"put to {queue}: property {name!r} is {value}, and JSON has no such number.")
    try:
        framed(outgoing(queue, b"", properties=properties))  # type: ignore[arg-type]  # it checks the types
    except MQIError as error:
        raise ValueError(f"put to {queue}: {error}") from error
