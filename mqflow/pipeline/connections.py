"""Connections from Spark workers to a queue manager, by URL. This file knows settings and `mqflow.verbs`.

Options carry no secret, so the user and password come from the machine of the worker: its environment, or its mqflow.toml.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mqflow.app.channels.location import locate, reach_queue_manager
from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.many_verbs import disconnect_without_commit
from mqflow.verbs import Connection

__all__ = ("WorkerConnection", "check_url", "connected")


def check_url(source: str, url: str) -> None:
    """Raise `ConfigurationError` if the URL is invalid, or names a queue manager in memory: Spark workers cannot reach it."""
    if locate(url).kind == "memory":
        raise ConfigurationError(
            f"{source}: {url} is in the memory of one process, which Spark workers cannot reach. Serve the queue manager, "
            "and name its socket: embedded+unix:PATH."
        )


class WorkerConnection:
    """The connection of a Spark worker, with the user from the settings of its machine; `close` backs out uncommitted work."""

    def __init__(self, url: str, application_name: str) -> None:
        self._queue_manager = reach_queue_manager(url, settings=load({"url": url}))
        try:
            self.connection: Connection = self._queue_manager.connect(application_name=application_name)
        except BaseException:
            self._queue_manager.close()
            raise

    def close(self) -> None:
        """Back out, disconnect and close the queue manager."""
        try:
            disconnect_without_commit(self.connection)
        finally:
            self._queue_manager.close()


@contextmanager
def connected(url: str, application_name: str) -> Iterator[Connection]:
    """Yield a connection; the end of the block backs out uncommitted work."""
    found = WorkerConnection(url, application_name)
    try:
        yield found.connection
    finally:
        found.close()
