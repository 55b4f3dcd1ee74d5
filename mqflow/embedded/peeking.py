"""Which queue manager a folder is of, for who only looks: nothing is owned, locked or changed.

Knows the file's header and the row that says the name; knows no message.
"""

import sqlite3
from contextlib import closing

import msgspec

from mqflow.embedded import rows
from mqflow.embedded.database import check_identity
from mqflow.embedded.folder import DataFolder
from mqflow.mqi.attributes import QueueManagerAttributes

__all__ = ("name_in",)


def name_in(folder: DataFolder) -> str:
    """Return the name of the queue manager; empty where the file does not say it yet: what is in its log only is not read.

    For a folder that nobody owns. Raises `ForeignFolderError` where the file is no queue manager's.
    """
    check_identity(folder)
    try:
        # Immutable: without a lock, and without the log, which a second connection must not touch.
        with closing(sqlite3.connect(f"{folder.database.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = bytes
            state = rows.state_of(database.execute("SELECT key, value, crc FROM state"))
        known = state.get("queue_manager")
        return "" if known is None else msgspec.msgpack.decode(known, type=QueueManagerAttributes).name
    except (sqlite3.Error, rows.DamagedRowError, msgspec.MsgspecError):  # who opens it says what is wrong with it
        return ""
