"""Connections to a served queue manager: whether its process answers, and how many connections the limit of files allows.

This file knows the socket in a data folder and the limit of the system, but no command.
"""

import contextlib
from pathlib import Path
from typing import Final

from mqflow.app.channels.location import SERVED_SOCKET
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason

__all__ = ("is_served", "queue_manager_name_at", "raise_open_file_limit", "too_few_open_files")

_NO_SERVER: Final = frozenset({Reason.Q_MGR_NOT_AVAILABLE, Reason.CONNECTION_BROKEN})
_FILES_EACH: Final = 3
_OTHER_FILES: Final = 64
"""Files that the storage, the sockets and Python itself have open."""


def queue_manager_name_at(folder: Path) -> str:
    """Return the name of the folder's served queue manager. Raises `MQIError` if the queue manager refuses the connection."""
    connection = ServedQueueManager(folder / SERVED_SOCKET).connect(application_name="mqflow qmgr")
    name = connection.queue_manager_name
    connection.disconnect()
    return name


def is_served(folder: Path) -> bool:
    """Return whether a server at the socket of the folder accepts a connection, or refuses it with a reason.

    This function connects, because a dead server leaves its socket in the folder.
    """
    try:
        queue_manager_name_at(folder)
    except MQIError as error:
        return error.reason not in _NO_SERVER
    return True


def raise_open_file_limit() -> int | None:
    """Raise the soft limit of open files to the hard limit, and return the hard limit.

    Returns None if the system has no hard limit, or if the soft limit cannot be changed.

    The soft limit is 1,024 on most systems, for programs that use `select`. A served connection takes three files.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not on every system

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return None if hard == resource.RLIM_INFINITY else hard
    return None


def too_few_open_files(allowed: int | None, connections_max: int) -> str:
    """Return a warning if `allowed` open files are too few for `connections_max` connections; else the empty string."""
    if allowed is None or allowed >= _OTHER_FILES + _FILES_EACH * connections_max:
        return ""
    connections = max(allowed - _OTHER_FILES, 0) // _FILES_EACH
    return (
        f"The system allows {allowed:,} open files. That is enough for {connections:,} connections, not for "
        f"{connections_max:,}: raise the hard limit (ulimit -Hn, LimitNOFILE), or lower --max-connections."
    )
