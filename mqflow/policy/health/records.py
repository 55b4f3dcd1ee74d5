"""The state of an application as records: its processes, their listeners and workers, and counts of events.

Times are seconds of the monotonic clock of the process that made the record; `ProcessStatus.taken_at` is the moment when the
process made the record. The records can be sent through a socket as JSON.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

__all__ = ("ApplicationStatus", "Counts", "Doing", "ListenerStatus", "ProcessStatus", "Series", "SilentProcess", "WorkerStatus")


class Doing(StrEnum):
    """The present activity of a worker."""

    #: The worker has no connection, or its queue is not open.
    CONNECTING = "connecting"
    #: The worker waits in a get for a message; or for its turn to get, if the listener has a rate limit.
    IDLE = "idle"
    HANDLING = "in handler"
    #: The worker waits for the end of a commit or a backout, or is between two calls.
    SETTLING = "waiting for commit"
    #: The listener of the worker pauses.
    PAUSED = "paused"


class WorkerStatus(Struct, frozen=True, kw_only=True):
    """One worker of a listener."""

    number: int
    doing: Doing
    #: The time when the worker began its present activity; None if it is unknown.
    since: float | None = None
    #: The wait time of the worker's get, in seconds; 0 for other calls.
    wait_s: float = 0.0
    #: The MsgId of the message in the handler, in hexadecimal digits.
    message_id: str = ""
    #: True if the handler occupies the event loop at this moment; false while the handler waits, or if it runs on a thread.
    is_running: bool = False
    #: The line of the application that the handler has reached: `file:line in function`; empty if it is unknown.
    at: str = ""
    #: The code that the handler runs now; empty unless the handler runs for longer than its limit.
    stack: str = ""


class ListenerStatus(Struct, frozen=True, kw_only=True):
    """One listener of a process."""

    name: str
    #: The queue; for a subscription, the topic.
    queue: str
    is_topic: bool = False
    #: The number of workers that the listener should have.
    concurrency: int
    #: The reason why the listener pauses; empty if it does not pause.
    paused: str = ""
    #: True if an operator has paused the listener.
    held: bool = False
    #: Seconds after which a running handler counts as stuck.
    stuck_after_s: float = 60.0
    workers: tuple[WorkerStatus, ...] = ()


Series = tuple[tuple[tuple[str, ...], float], ...]
"""The values of one counter: for each combination of labels, in the order that the counter declares, its value."""

Counts = Mapping[str, Series]
"""The counters of a process, by name."""


class ProcessStatus(Struct, frozen=True, kw_only=True):
    """One process that runs listeners of the application."""

    process: int
    #: The number of the worker process, from 1; 0 for an application in one process.
    number: int = 0
    taken_at: float
    ready: bool
    #: The names of the objects that must be open before the process is ready, and are not open.
    missing: tuple[str, ...] = ()
    listeners: tuple[ListenerStatus, ...] = ()
    counts: Counts = {}
    #: The time when the event loop first failed to answer; None if it answers.
    blocked_since: float | None = None
    #: The code that blocks the event loop.
    blocked_at: str = ""


class SilentProcess(Struct, frozen=True, kw_only=True):
    """A process that runs, but does not answer."""

    process: int
    number: int
    #: Seconds since its last answer, or since its start.
    for_s: float


class ApplicationStatus(Struct, frozen=True, kw_only=True):
    """All processes of an application. A process that has ended is not included."""

    application: str
    #: The process identifier (PID) of the process that answers for all processes.
    process: int
    #: The queue manager as its URL names it, without a password.
    url: str = ""
    #: The number of processes that must run.
    expected: int = 1
    processes: tuple[ProcessStatus, ...] = ()
    silent: tuple[SilentProcess, ...] = ()
    #: True if the application is stopping.
    is_stopping: bool = False

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of all listeners, each once. A subscription is not included: it has no queue that can be inquired."""
        listeners = (listener for process in self.processes for listener in process.listeners)
        return tuple(dict.fromkeys(listener.queue for listener in listeners if not listener.is_topic))
