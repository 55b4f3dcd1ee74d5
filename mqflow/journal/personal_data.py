"""Finds the messages of one person: rows by keys, and all other rows about the same messages.

MsgId and put time together identify a message, because applications can set the same MsgId twice. Pure: this file knows Arrow
tables, and no file.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Any, Final, TypeAlias

from msgspec import Struct

from mqflow.journal.arrow import compute as pc
from mqflow.journal.arrow import pa
from mqflow.journal.errors import JournalError

__all__ = ("Key", "Message", "key_of", "matches", "messages_of", "within")

Message: TypeAlias = tuple[bytes, int | None]
"""The MsgId and the put time, in microseconds since 1970."""
_IDENTIFIERS: Final = ("msg_id", "correl_id")
_TEXTS: Final = ("user_id", "put_appl_name", "appl_identity_data")
_BODY: Final = "body"
_DATA: Final = ("body", "raw")
"""The columns with message data: `raw` has the data that could not be read as a record."""


class Key(Struct, frozen=True):
    """A condition on one column."""

    column: str
    #: The bytes of an identifier; text for the other columns.
    value: bytes | str

    @property
    def digest(self) -> str:
        """The SHA-256 of the key, which a receipt can show."""
        value = self.value if isinstance(self.value, bytes) else self.value.encode()
        return sha256(self.column.encode() + b"=" + value).hexdigest()


def key_of(text: str) -> Key:
    """Return the key in `column=value`. Identifiers are hexadecimal; `body` means that the data contains this text, in UTF-8.

    Raises `JournalError` for another column, for an empty value, and for a value that is not an identifier.
    """
    column, _, value = text.partition("=")
    if column not in (*_IDENTIFIERS, *_TEXTS, _BODY):
        known = ", ".join((*_IDENTIFIERS, *_TEXTS, _BODY))
        raise JournalError(f"{column!r} is not a key. Write COLUMN=VALUE with one of these columns: {known}.")
    if not value.strip():
        raise JournalError(f"The key {column} has no value: it would choose messages of everybody.")
    if column not in _IDENTIFIERS:
        return Key(column, value)
    try:
        identifier = bytes.fromhex(value)
    except ValueError:
        identifier = b""
    if len(identifier) != 24 or not any(identifier):  # noqa: PLR2004 - the length of an MQBYTE24
        raise JournalError(f"{column} needs the 48 hexadecimal digits of an identifier that is not empty, not {value!r}.")
    return Key(column, identifier)


def matches(rows: "pa.Table", keys: Sequence[Key]) -> "pa.Array":
    """Return for each row whether one of the keys is true. A key about a column that the rows lack is never true."""
    found: Any = pa.chunked_array([pa.repeat(pa.scalar(False), rows.num_rows)])
    for key in keys:
        for name in _DATA if key.column == _BODY else (key.column,):
            if name in rows.column_names:
                found = pc.or_(found, pc.fill_null(_is(rows[name], key), False))
    return found


def within(rows: "pa.Table", messages: AbstractSet[Message]) -> "pa.Array":
    """Return for each row whether it is about one of these messages."""
    return pa.chunked_array([pa.array([each in messages for each in _messages(rows)], pa.bool_())])


def messages_of(rows: "pa.Table") -> set[Message]:
    """Return the messages that these rows are about."""
    return {(msg_id, put_us) for msg_id, put_us in _messages(rows) if msg_id is not None}


def _is(column: "pa.ChunkedArray", key: Key) -> "pa.ChunkedArray":
    if key.column == _BODY:
        assert isinstance(key.value, str)  # noqa: S101 - as `key_of` makes it
        return pc.match_substring(column, key.value)
    if key.column in _TEXTS:
        return pc.equal(pc.utf8_rtrim_whitespace(column), str(key.value).rstrip())
    return pc.equal(column, key.value)


def _messages(rows: "pa.Table") -> Iterable[tuple[bytes | None, int | None]]:
    return zip(rows["msg_id"].to_pylist(), rows["put_ts"].cast(pa.int64()).to_pylist(), strict=True)
