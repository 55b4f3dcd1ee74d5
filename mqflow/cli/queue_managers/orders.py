"""The orders to a queue manager in another process: to end, or to make a backup."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mqflow.app.channels.location import SERVED_SOCKET
from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.standby import owner_pid
from mqflow.embedded.wire.client.administration import ServedAdministration
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason

__all__ = ("NotServedError", "back_up", "end")


class NotServedError(Exception):
    """The owner of the folder takes no orders. The message names its process and the remedy."""

    def __init__(self, place: Path, pid: int) -> None:
        self.place = place
        self.pid = pid

    def __str__(self) -> str:
        return (
            f"Process {self.pid} has opened {self.place}, but does not answer at {self.place / SERVED_SOCKET}. End an "
            "application that has opened the folder itself. If a queue manager starts there, try again."
        )


def end(place: Path, name: str, how: End) -> Sequence[str]:
    """Order the queue manager to end. Return the applications that it waits for.

    Raises `MQIError` if it refuses, and `NotServedError` if the owner of the folder takes no orders.
    """
    with _administered(place, name) as administration:
        administration.order(requests.EndQueueManager(how))
        return _connected(administration) if how.manner is Manner.CONTROLLED else ()


def back_up(place: Path, name: str, target: Path) -> None:
    """Order a backup of the durable data to a new folder. Raises like `end`."""
    with _administered(place, name) as administration:
        administration.order(requests.Backup(str(target.absolute())))


@contextmanager
def _administered(place: Path, name: str) -> Iterator[ServedAdministration]:
    manager = ServedQueueManager(place / SERVED_SOCKET, name=name)
    try:
        yield manager.administration
    except MQIError as error:
        pid = owner_pid(DataFolder(place)) if error.reason == Reason.Q_MGR_NOT_AVAILABLE else None
        if pid is None:
            raise
        raise NotServedError(place, pid) from error
    finally:
        manager.close()


def _connected(administration: ServedAdministration) -> Sequence[str]:
    try:
        connections = administration.objects.connections()
    except MQIError:  # it has ended already, because it had no application to wait for
        return ()
    return sorted({each.application for each in connections if not each.system})
