"""Finds out whether the process of a queue manager answers, and how many connections the limit of open files allows."""

import contextlib
from pathlib import Path
from threading import Event
from typing import Final

from mqflow.app.channels.location import SERVED_SOCKET
from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.standby import owner_pid
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason

__all__ = ("is_served", "lasting_owner", "queue_manager_name_at", "raise_open_file_limit", "too_few_open_files")

_NO_SERVER: Final = frozenset({Reason.Q_MGR_NOT_AVAILABLE, Reason.CONNECTION_BROKEN})
_OWNER_LOOKS: Final = 50
_OWNER_LOOK_S: Final = 0.1
_FILES_EACH: Final = 3
_OTHER_FILES: Final = 64
"""The number of files that the storage, the sockets and Python itself have open."""


def queue_manager_name_at(folder: Path) -> str:
    """Return the name of the queue manager that is served in the folder. Raises `MQIError` if it refuses the connection."""
    connection = ServedQueueManager(folder / SERVED_SOCKET).connect(application_name="mqflow qmgr")
    name = connection.queue_manager_name
    connection.disconnect()
    return name


def is_served(folder: Path) -> bool:
    """Return whether a server accepts a connection at the socket of the folder, or refuses it with a reason.

    This function connects, because a server that has died leaves its socket in the folder.
    """
    try:
        queue_manager_name_at(folder)
    except MQIError as error:
        return error.reason not in _NO_SERVER
    return True


def lasting_owner(place: Path) -> int | None:
    """Return the process identifier of the owner of this data folder; None if the folder has no owner.

    A command owns a folder only for a moment. So this function waits for an owner that does not serve the folder, for about 5
    seconds.
    """
    folder = DataFolder(place)
    owner = owner_pid(folder)
    for _ in range(_OWNER_LOOKS):
        if owner is None or is_served(place):
            break
        Event().wait(_OWNER_LOOK_S)
        owner = owner_pid(folder)
    return owner


def raise_open_file_limit() -> int | None:
    """Raise the soft limit of open files to the hard limit. Return the hard limit.

    Returns None if the system has no hard limit, or if the soft limit cannot be raised. On most systems the soft limit is
    1,024, for programs that use `select`. A served connection needs three files.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not on every system

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return None if hard == resource.RLIM_INFINITY else hard
    return None


def too_few_open_files(allowed: int | None, connections_max: int) -> str:
    """Return a warning if `allowed` open files are too few for `connections_max` connections; otherwise an empty text."""
    if allowed is None or allowed >= _OTHER_FILES + _FILES_EACH * connections_max:
        return ""
    connections = max(allowed - _OTHER_FILES, 0) // _FILES_EACH
    return (
        f"The system allows {allowed:,} open files. That is enough for {connections:,} connections, not for "
        f"{connections_max:,}: raise the hard limit (ulimit -Hn, LimitNOFILE), or lower --max-connections."
    )
