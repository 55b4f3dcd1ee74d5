"""The state of an application as records: its processes, their listeners and workers, and counts of events.

Times are monotonic seconds of the process that made the record; `ProcessStatus.taken_at` is its present moment. The records can
cross a socket as JSON.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

__all__ = ("ApplicationStatus", "Counts", "Doing", "ListenerStatus", "ProcessStatus", "Series", "SilentProcess", "WorkerStatus")


class Doing(StrEnum):
    """The present work of a worker."""

    #: It has no connection, or its queue is not open.
    CONNECTING = "connecting"
    #: It waits in a get for a message.
    IDLE = "idle"
    HANDLING = "in handler"
    #: It waits for a commit or a backout, or is between two calls.
    SETTLING = "waiting for commit"
    #: Its listener pauses.
    PAUSED = "paused"


class WorkerStatus(Struct, frozen=True, kw_only=True):
    """One worker of a listener."""

    number: int
    doing: Doing
    #: When the worker began its present work; None if nobody noted that.
    since: float | None = None
    #: The longest wait of its get, in seconds; 0 for other calls.
    wait_s: float = 0.0
    #: The MsgId of the message in the handler, in hexadecimal digits.
    message_id: str = ""
    #: True if the handler occupies the event loop at this moment; false for a handler on a thread, and while it waits.
    is_running: bool = False
    #: The code that the handler runs now; empty unless the handler runs for longer than its limit.
    stack: str = ""


class ListenerStatus(Struct, frozen=True, kw_only=True):
    """One listener of a process."""

    name: str
    #: The queue; for a subscription, the topic.
    queue: str
    is_topic: bool = False
    #: The wanted number of workers.
    concurrency: int
    #: Why it pauses; empty if it does not pause.
    paused: str = ""
    #: True if an operator has paused it.
    held: bool = False
    #: Seconds after which a running handler counts as stuck.
    stuck_after_s: float = 60.0
    workers: tuple[WorkerStatus, ...] = ()


Series = tuple[tuple[tuple[str, ...], float], ...]
"""The values of one counter by their labels. The labels are in the order that the counter declares."""

Counts = Mapping[str, Series]
"""The counters of a process, by name."""


class ProcessStatus(Struct, frozen=True, kw_only=True):
    """One process that runs listeners of the application."""

    process: int
    #: The number of the worker process, from 1; 0 for an application in one process.
    number: int = 0
    taken_at: float
    ready: bool
    #: The names of the objects that are missing for readiness.
    missing: tuple[str, ...] = ()
    listeners: tuple[ListenerStatus, ...] = ()
    counts: Counts = {}
    #: When the event loop did not answer for the first time; None if it answers.
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
    """All processes of an application. A process that has ended is in no list."""

    application: str
    #: The process that answers for all the others.
    process: int
    #: The queue manager as its URL names it, without a password.
    url: str = ""
    #: The number of processes that must run.
    expected: int = 1
    processes: tuple[ProcessStatus, ...] = ()
    silent: tuple[SilentProcess, ...] = ()
    #: True if the application drains and ends.
    is_stopping: bool = False

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of all listeners, each once. A subscription has no queue that can be inquired."""
        listeners = (listener for process in self.processes for listener in process.listeners)
        return tuple(dict.fromkeys(listener.queue for listener in listeners if not listener.is_topic))
