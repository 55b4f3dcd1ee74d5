"""The names of the queues of a queue manager that a process serves, for shell completion."""

from contextlib import suppress

from mqflow.app.channels.location import SERVED_SOCKET, Location, locate
from mqflow.app.config.settings import load
from mqflow.cli.connection_options import opened
from mqflow.embedded.storage.folder import prepare_folder
from mqflow.embedded.storage.standby import owner_pid

__all__ = ("served_queues",)


def served_queues(url: str | None) -> list[str]:
    """Return the names, sorted. The list is empty if no process serves the queue manager, or if it cannot be reached."""
    with suppress(Exception):  # a shell must not show an error in the middle of a line
        if _is_served(locate(load({"url": url}).url)):
            with opened(url) as queue_manager:
                return sorted(queue.name for queue in queue_manager.administration.queues())
    return []


def _is_served(location: Location) -> bool:
    """Return whether a process serves the queue manager. If not, the caller must not open its data folder."""
    folder = location.path
    if location.kind == "embedded" and folder is not None:
        return (folder / SERVED_SOCKET).is_socket() and owner_pid(prepare_folder(folder, create=False)) is not None
    return location.kind == "served"
