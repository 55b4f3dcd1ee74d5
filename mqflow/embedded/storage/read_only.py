"""Which queue manager a folder is of, and how much it holds, for who only looks: nothing is owned, locked or changed.

Knows the file's header, the row that says the name, and that there is a table of messages.
"""

import sqlite3
from contextlib import closing

import msgspec

from mqflow.embedded.storage import rows
from mqflow.embedded.storage.database import check_identity
from mqflow.embedded.storage.folder import DataFolder
from mqflow.mqi.attributes.queue import QueueManagerAttributes

__all__ = ("messages_in", "name_in")


def name_in(folder: DataFolder) -> str:
    """Return the name of the queue manager; empty where the file does not say it yet: what is in its log only is not read.

    For a folder that nobody owns. Raises `ForeignFolderError` where the file is no queue manager's.
    """
    check_identity(folder)
    try:
        with closing(_opened(folder)) as database:
            database.text_factory = bytes
            state = rows.state_of(database.execute("SELECT key, value, crc FROM state"))
        known = state.get("queue_manager")
        return "" if known is None else msgspec.msgpack.decode(known, type=QueueManagerAttributes).name
    except (sqlite3.Error, rows.DamagedRowError, msgspec.MsgspecError):  # who opens it says what is wrong with it
        return ""


def messages_in(folder: DataFolder) -> int:
    """Return about how many messages the folder holds, 0 where that cannot be said: what is in the log only is not counted."""
    try:
        with closing(_opened(folder)) as database:
            return int(database.execute("SELECT count(*) FROM message").fetchone()[0])
    except sqlite3.Error:
        return 0


def _opened(folder: DataFolder) -> sqlite3.Connection:
    # Immutable: without a lock, and without the log, which a second connection must not touch.
    return sqlite3.connect(f"{folder.database.as_uri()}?mode=ro&immutable=1", uri=True)
