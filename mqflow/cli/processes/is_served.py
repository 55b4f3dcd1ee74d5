"""Whether a queue manager answers at the socket in its folder: it is asked, for a dead server leaves its socket behind."""

from pathlib import Path
from typing import Final

from mqflow.app.channels.locate import SERVED_SOCKET
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason

__all__ = ("answers", "name_said_at")

_NOBODY: Final = frozenset({Reason.Q_MGR_NOT_AVAILABLE, Reason.CONNECTION_BROKEN})


def name_said_at(folder: Path) -> str:
    """Return the name that is said by the queue manager which serves the folder. Raises `MQIError` where it says no."""
    connection = ServedQueueManager(folder / SERVED_SOCKET).connect(application_name="mqflow qmgr")
    name = connection.queue_manager_name
    connection.disconnect()
    return name


def answers(folder: Path) -> bool:
    """Return whether somebody there takes a connection, or says why not."""
    try:
        name_said_at(folder)
    except MQIError as error:
        return error.reason not in _NOBODY
    return True
