"""Makes handlers effectively-once: what was handled is noted in the database transaction that the handler works in.

A message whose commit got no answer may be delivered again, and its handler run again. Where the handler's effect is a database
transaction, the MsgId in that transaction says so: both are there, or neither. Knows SQLAlchemy Core and a message's
identifier; opens no transaction and ends none. SQLite and PostgreSQL.
"""

from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Column, Connection, DateTime, LargeBinary, MetaData, String, Table, delete
from sqlalchemy.dialects import postgresql, sqlite

from mqflow import Message

__all__ = ("Inbox",)

_CONSUMER_CHARS: Final = 200


class Inbox:
    """The table of what was handled. One for each consumer: two that get the same publication each handle it once."""

    def __init__(self, consumer: str, *, table: str = "mqflow_inbox", metadata: MetaData | None = None) -> None:
        """Take the consumer's name, and where the table is declared: with `metadata`, among the application's own tables."""
        if not 0 < len(consumer) <= _CONSUMER_CHARS:
            raise ValueError(f"{consumer!r} cannot be the name of a consumer: it has 1 to {_CONSUMER_CHARS} characters.")
        declared = metadata if metadata is not None else MetaData()
        #: To be created by the application's migrations, or by `create`.
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
        """Make the table where it is not there."""
        self.table.create(connection, checkfirst=True)

    def first_time(self, connection: Connection, message: Message, *, now: datetime | None = None) -> bool:
        """Return whether this message was not handled before, and note it in the transaction of this connection.

        Call it first, in the transaction that the handler's work is done in. On PostgreSQL a second delivery waits here for the
        transaction of the first. Raises `NotImplementedError` for another database than SQLite and PostgreSQL.
        """
        moment = now or datetime.now(UTC)
        row = {"consumer": self._consumer, "message_id": message.message_id, "handled_at": moment}
        statement = _insert(connection.dialect.name, self.table).values(row).on_conflict_do_nothing()
        # By what came back: the rowcount of an INSERT is -1, "not known", with some drivers (psycopg 3 among them).
        return connection.execute(statement.returning(self.table.c.message_id)).first() is not None

    def forget(self, connection: Connection, before: datetime) -> int:
        """Drop what this consumer handled before that moment; return how many. No message may come again after so long."""
        table = self.table
        old = delete(table).where(table.c.consumer == self._consumer, table.c.handled_at < before)
        return connection.execute(old).rowcount


def _insert(dialect: str, table: Table) -> Any:
    match dialect:
        case "sqlite":
            return sqlite.insert(table)
        case "postgresql":
            return postgresql.insert(table)
        case other:
            raise NotImplementedError(f"The inbox works on SQLite and PostgreSQL, not on {other}.")
