"""From a worker of Spark to a queue manager: by URL, as whoever the settings of that machine say. Knows settings and the seam.

Options carry no secret, so who connects is said where the code runs: the environment of the executors, or their mqflow.toml.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mqflow.app.channels.locate import locate, reach_queue_manager
from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.runtime.leaving import leave
from mqflow.verbs import Connection

__all__ = ("WorkerConnection", "check_url", "connected")


def check_url(source: str, url: str) -> None:
    """Return where workers can reach it. Raises `ConfigurationError` for a URL that leads nowhere, or into one process only."""
    if locate(url).kind == "memory":
        raise ConfigurationError(
            f"{source}: {url} is in the memory of one process, and workers are others. Serve it, and name its socket: "
            "embedded+unix:PATH."
        )


class WorkerConnection:
    """A connection with the queue manager it belongs to; `close` backs out what was not committed."""

    def __init__(self, url: str, application_name: str) -> None:
        self._queue_manager = reach_queue_manager(url, settings=load({"url": url}))
        try:
            self.connection: Connection = self._queue_manager.connect(application_name=application_name)
        except BaseException:
            self._queue_manager.close()
            raise

    def close(self) -> None:
        """Let go of both."""
        try:
            leave(self.connection)
        finally:
            self._queue_manager.close()


@contextmanager
def connected(url: str, application_name: str) -> Iterator[Connection]:
    """Give a connection; what was not committed is backed out at the end."""
    found = WorkerConnection(url, application_name)
    try:
        yield found.connection
    finally:
        found.close()
