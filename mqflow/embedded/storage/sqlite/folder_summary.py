"""Reads the queue manager's name and the number of messages from a data folder. Needs no lock, and changes nothing.

This module knows the header of the database file, the row with the name, and the table of messages.
"""

import sqlite3
from contextlib import closing

import msgspec

from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.sqlite import rows
from mqflow.embedded.storage.sqlite.database import check_identity
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes

__all__ = ("messages_in", "name_in")


def name_in(folder: DataFolder) -> str:
    """Return the queue manager's name, or an empty text if the name is only in the log, which this function does not read.

    The folder must have no owner. Raises `ForeignFolderError` if the file is not a queue manager's database.
    """
    check_identity(folder)
    try:
        with closing(_opened(folder)) as database:
            database.text_factory = bytes
            state = rows.state_of(database.execute("SELECT key, value, crc FROM state"))
        known = state.get("queue_manager")
        return "" if known is None else msgspec.msgpack.decode(known, type=QueueManagerAttributes).name
    except (
        sqlite3.Error,
        UnicodeDecodeError,
        rows.DamagedRowError,
        msgspec.MsgspecError,
    ):  # the store reports the damage when it opens the file
        return ""


def messages_in(folder: DataFolder) -> int:
    """Return the approximate number of messages, without those that are only in the log; 0 for an unreadable file."""
    try:
        with closing(_opened(folder)) as database:
            return int(database.execute("SELECT count(*) FROM message").fetchone()[0])
    except (sqlite3.Error, UnicodeDecodeError):
        return 0


def _opened(folder: DataFolder) -> sqlite3.Connection:
    # Immutable: SQLite takes no lock, and does not use the log, which a second connection must not touch.
    return sqlite3.connect(f"{folder.database.as_uri()}?mode=ro&immutable=1", uri=True)
