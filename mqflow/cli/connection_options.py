"""Functions that open the queue manager in the options of a command, or connect to it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from mqflow.app.channels.location import SERVED_SOCKET, Location, OpenQueueManager, locate, reach_queue_manager
from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.bindings.connect_options import ClientPackageError
from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.storage.folder import DataFolder, prepare_folder
from mqflow.embedded.storage.standby import owner_pid
from mqflow.many_verbs import disconnect_without_commit
from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.errors import MQIError
from mqflow.runtime.delay.stage import Stager, staging_queue_for
from mqflow.verbs import Connection, QueueManager
from mqflow.world import SYSTEM_WORLD

__all__ = (
    "administered",
    "connected",
    "connection_to",
    "is_missing",
    "message_id_from",
    "opened",
    "served_queues",
    "stager_for",
    "staging_queue",
)


def message_id_from(digits: str) -> bytes:
    """Return the 24 bytes for 48 hexadecimal digits.

    Raises `click.BadParameter` for any other text, and for zeros: a get with this identifier (MQMI_NONE) takes any message.
    """
    try:
        found = bytes.fromhex(digits)
    except ValueError:
        found = b""
    if len(found) != len(NO_ID):
        raise click.BadParameter(
            f"{digits!r} is not a message identifier: give 48 hexadecimal digits, as `mqflow browse` prints them."
        )
    if found == NO_ID:
        raise click.BadParameter(f"{digits!r} is not a message identifier: zeros stand for any message.")
    return found


def staging_queue(url: str | None) -> str:
    """Return the staging queue of delayed messages: the setting `delay_queue`, or the default of this queue manager.

    Raises `MQIError` 2298 like `staging_queue_for`.
    """
    settings = load({"url": url})
    embedded = locate(settings.url).kind in {"embedded", "memory", "served"}
    return staging_queue_for(settings.delay_queue, embedded=embedded)


def stager_for(url: str | None) -> Stager:
    """Return the stager that puts delayed messages on the staging queue of this queue manager."""
    return Stager(staging_queue(url), SYSTEM_WORLD)


def is_missing(location: Location) -> bool:
    """Return whether there is no queue manager at the path of the location: no socket, no folder, or a folder without data.

    A folder that this user may not search counts as one with data, and so does a file. To open it is then an error.
    """
    path = location.path
    if path is None or not path.exists():
        return path is not None
    return location.kind == "embedded" and os.access(path, os.X_OK) and DataFolder(path).remains is None


@contextmanager
def opened(url: str | None) -> Iterator[OpenQueueManager]:
    """Yield the queue manager that the option or the settings name. Close it at the end.

    If a process of `mqflow run` has opened the queue manager, the command connects to that process. Raises `ConfigurationError`
    if the folder has no queue manager. Without this check, a misspelt folder, or any other folder, would become a new queue
    manager.
    """
    settings = load({"url": url})
    location = locate(settings.url)
    if is_missing(location):
        remedy = "start the process that serves it" if location.kind == "served" else "create it with `mqflow mqsc`"
        raise ConfigurationError(f"{settings.url}: there is no queue manager at {location.path} yet; {remedy}.")
    queue_manager = reach_queue_manager(settings.url, settings=settings)
    try:
        yield queue_manager
    finally:
        queue_manager.close()


@contextmanager
def connected(url: str | None) -> Iterator[Connection]:
    """Yield a connection. At the end, an open unit of work is backed out."""
    with opened(url) as queue_manager, connection_to(queue_manager, "mqflow") as connection:
        yield connection


@contextmanager
def connection_to(queue_manager: QueueManager, application_name: str) -> Iterator[Connection]:
    """Yield a connection. At the end, an open unit of work is backed out. Raises the `MQIError` of the connect."""
    connection = queue_manager.connect(application_name=application_name)
    try:
        yield connection
    finally:
        disconnect_without_commit(connection)  # raises nothing, so that the user sees the error of the command


@contextmanager
def administered(queue_manager: QueueManager) -> Iterator[Administration | None]:
    """Yield the administration of an embedded queue manager. Close it at the end.

    Yields None for IBM MQ, even behind a channel table, and if this user may not administer the queue manager.
    """
    try:
        administration = getattr(queue_manager, "administration", None)  # the protocol `QueueManager` does not have it
    except (ClientPackageError, ConfigurationError, MQIError):
        administration = None
    try:
        yield administration
    finally:
        close = getattr(administration, "close", None)  # only the administration of a served queue manager has `close`
        if close is not None:
            close()


def served_queues(url: str | None) -> list[str]:
    """Return the names of the queues, sorted, to complete a command line.

    The list is empty if no process serves the queue manager, or if it cannot be reached.
    """
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
