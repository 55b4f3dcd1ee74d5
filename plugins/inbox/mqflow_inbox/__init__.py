"""Makes handlers effectively-once: writes the MsgId of each handled message in the database transaction of its handler.

If a commit on the queue manager gets no answer, the message can be redelivered and its handler can run again. If the handler
does its work in a database transaction, a MsgId in the same transaction shows that the work is done. Both are committed, or
neither is. This module knows SQLAlchemy Core and message identifiers, and begins and ends no transaction. It works on SQLite
and PostgreSQL.
"""

from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Column, Connection, DateTime, LargeBinary, MetaData, String, Table, delete
from sqlalchemy.dialects import postgresql, sqlite

from mqflow import Message

__all__ = ("Inbox",)

_CONSUMER_CHARS: Final = 200


class Inbox:
    """The table of handled messages of one consumer. If two consumers receive one publication, each of them handles it once."""

    def __init__(self, consumer: str, *, table: str = "mqflow_inbox", metadata: MetaData | None = None) -> None:
        """Take the consumer's name of 1 to 200 characters. With `metadata`, the table is declared there.

        Raises `ValueError` for a name of another length.
        """
        if not 0 < len(consumer) <= _CONSUMER_CHARS:
            raise ValueError(f"{consumer!r} cannot be the name of a consumer: it has 1 to {_CONSUMER_CHARS} characters.")
        declared = metadata if metadata is not None else MetaData()
        #: The table. The application's migrations or `create` make it in the database.
        self.table: Final[Table] = Table(
            table,
            declared,
            Column("consumer", String(_CONSUMER_CHARS), primary_key=True),
            Column("message_id", LargeBinary(24), primary_key=True),
            Column("handled_at", DateTime(timezone=True), nullable=False),
            extend_existing=True,
        )
        self._consumer: Final = consumer

    def create(self, connection: Connection) -> None:
        """Create the table if it does not exist."""
        self.table.create(connection, checkfirst=True)

    def first_time(self, connection: Connection, message: Message, *, now: datetime | None = None) -> bool:
        """Write the MsgId of the message in the connection's transaction. Return False if the message was handled before.

        Call it first in the transaction of the handler's work. On PostgreSQL, a second delivery of the message waits here for
        the transaction of the first delivery. `now` is the time of the row, by default the current time.
        Raises `NotImplementedError` for a database other than SQLite and PostgreSQL. Raises `ValueError` for a time without a
        zone.
        """
        moment = _utc(now) if now else datetime.now(UTC)
        row = {"consumer": self._consumer, "message_id": message.message_id, "handled_at": moment}
        statement = _insert(connection.dialect.name, self.table).values(row).on_conflict_do_nothing()
        # RETURNING, because with some drivers (such as psycopg 3) the rowcount of an INSERT is -1, "not known".
        return connection.execute(statement.returning(self.table.c.message_id)).first() is not None

    def forget(self, connection: Connection, before: datetime) -> int:
        """Delete the rows of this consumer that are older than `before`, and return their number.

        Delete only rows of messages that are never delivered again: otherwise such a message is handled a second time.
        Raises `ValueError` for a time without a zone.
        """
        table = self.table
        old = delete(table).where(table.c.consumer == self._consumer, table.c.handled_at < _utc(before))
        return connection.execute(old).rowcount


def _utc(moment: datetime) -> datetime:
    """Return the time in UTC: SQLite stores and compares a time without its zone."""
    if moment.utcoffset() is None:
        raise ValueError(f"The time {moment} has no time zone. Give for example datetime.now(UTC).")
    return moment.astimezone(UTC)


def _insert(dialect: str, table: Table) -> Any:  # `Any`: the Insert classes of the two dialects have no common base
    match dialect:
        case "sqlite":
            return sqlite.insert(table)
        case "postgresql":
            return postgresql.insert(table)
        case other:
            raise NotImplementedError(f"The inbox works on SQLite and PostgreSQL, not on {other}.")
