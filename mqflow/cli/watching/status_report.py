"""The status of an application for people and for scripts: /status and /scale, and the lines of `mqflow status`."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from mqflow.cli.watching.control import QueueFigures
from mqflow.policy.health.judge import Health, judge
from mqflow.policy.health.records import ApplicationStatus, Doing, ListenerStatus, ProcessStatus, WorkerStatus

__all__ = ("History", "Scale", "StatusReport", "doing_now", "report", "scale", "worker_rows")

_POINTS: Final = 30
_DIGITS: Final = 12


class StatusReport(Struct, frozen=True, kw_only=True):
    """The status of an application, with its health and the figures of its queues."""

    status: ApplicationStatus
    health: Health
    queues: tuple[QueueFigures, ...]
    #: The messages delivered per second, by queue. Empty if they were not asked for, or if the application does not count.
    rates: Mapping[str, float] = {}


class Scale(Struct, frozen=True, kw_only=True):
    """The numbers for an autoscaler."""

    messages_waiting: int
    workers: int
    #: `messages_waiting` divided by the number of workers, rounded up.
    messages_per_worker: int
    #: The reason why the number is not known; the other fields are then 0.
    refused: str = ""


class _Trail(Struct):
    """The last figures of one queue of one application."""

    depths: deque[float] = field(default_factory=lambda: deque[float](maxlen=_POINTS))
    ages: deque[float] = field(default_factory=lambda: deque[float](maxlen=_POINTS))
    rates: deque[float] = field(default_factory=lambda: deque[float](maxlen=_POINTS))
    #: The time of the last look with counts; None if there was no such look.
    counted_at: float | None = None
    #: The number of delivered messages, by process; for a process that does not answer, the last number.
    delivered: dict[int, float] = field(default_factory=dict[int, float])


class History:
    """The last depths, ages and rates of each queue of each application."""

    def __init__(self) -> None:
        #: By the process of the application, and by queue.
        self._trails: dict[int, dict[str, _Trail]] = {}

    def note(self, report: StatusReport, now: float) -> None:
        """Record the present depths and counts, and forget the queues that the report does not have.

        `now` is in monotonic seconds.
        """
        status = report.status
        delivered = {
            process.process: {queue: value for (queue, *_), value in process.counts.get("messages_delivered", ())}
            for process in status.processes
        }
        counts = any(process.counts for process in status.processes)
        silent = {each.process for each in status.silent}
        before = self._trails.get(status.process, {})
        self._trails[status.process] = trails = {each.queue: before.get(each.queue, _Trail()) for each in report.queues}
        for each in report.queues:
            trail = trails[each.queue]
            if each.depth is not None:
                trail.depths.append(each.depth)
            if each.oldest_message_age_s is not None or each.depth == 0:
                trail.ages.append(each.oldest_message_age_s or 0)
            if not counts:
                continue
            # A queue without messages has no count yet.
            totals = {number: of.get(each.queue, 0.0) for number, of in delivered.items()}
            if trail.counted_at is not None and now > trail.counted_at:
                # A process is in the rate from its second answer on: its first answer counts messages since its start.
                added = sum(max(0.0, total - trail.delivered.get(number, total)) for number, total in totals.items())
                trail.rates.append(added / (now - trail.counted_at))
            trail.counted_at = now
            trail.delivered = {process: total for process, total in trail.delivered.items() if process in silent} | totals

    def depths(self, process: int, queue: str) -> Sequence[float]:
        """Return the last known depths of the queue; the newest comes last."""
        return tuple(self._trail(process, queue).depths)

    def ages(self, process: int, queue: str) -> Sequence[float]:
        """Return the last known ages of the oldest message, in seconds; the newest comes last. Without a message it is 0."""
        return tuple(self._trail(process, queue).ages)

    def rates(self, process: int, queue: str) -> Sequence[float]:
        """Return the last rates, in messages per second; the newest comes last. Empty if the application does not count."""
        return tuple(self._trail(process, queue).rates)

    def _trail(self, process: int, queue: str) -> _Trail:
        return self._trails.get(process, {}).get(queue, _Trail())


def report(status: ApplicationStatus, queues: Sequence[QueueFigures]) -> StatusReport:
    """Return the report of the application."""
    return StatusReport(status=status, health=judge(status), queues=tuple(queues))


def scale(status: ApplicationStatus, queues: Sequence[QueueFigures]) -> Scale:
    """Return the number of messages that wait for each worker. If a depth is not known, return the reason and no number.

    Without a listener that answers, nobody knows which queues the application has, so no depth is known.
    """
    refused = [each.refused for each in queues if each.depth is None]
    if not queues and not any(process.listeners for process in status.processes):
        refused.append("No listener of the application answers, so nobody knows how many messages wait.")
    if refused:
        return Scale(messages_waiting=0, workers=0, messages_per_worker=0, refused=refused[0])
    waiting = sum(each.depth or 0 for each in queues)
    workers = sum(listener.concurrency for process in status.processes for listener in process.listeners)
    return Scale(messages_waiting=waiting, workers=workers, messages_per_worker=-(-waiting // max(workers, 1)))


def worker_rows(status: ApplicationStatus) -> Iterator[tuple[str, ...]]:
    """Yield for each worker its process, listener, queue and number, and what it does now."""
    for process in status.processes:
        for listener in process.listeners:
            for worker in listener.workers:
                doing = doing_now(worker, listener, process)
                yield (str(process.process), listener.name, listener.queue, str(worker.number), doing)
    for silent in status.silent:
        time = f" for {silent.for_s:.0f} s" if silent.for_s else ""
        yield (str(silent.process), "", "", "", f"the process does not answer{time}")


def doing_now(worker: WorkerStatus, listener: ListenerStatus, process: ProcessStatus) -> str:
    """Return in words what the worker does now: "in handler for 3 s: ..615a0c028e17".

    The digits are the end of the MsgId. `mqflow why` and the search of the console accept them.
    """
    if process.blocked_since is not None and worker.doing in {Doing.IDLE, Doing.SETTLING}:
        return "waits for the blocked event loop"
    text = worker.doing.value
    if worker.since is not None:
        text += f" for {max(0.0, process.taken_at - worker.since):.0f} s"
    if worker.message_id:
        text += f": ..{worker.message_id[-_DIGITS:]}"
    if process.blocked_since is not None and worker.is_running:
        text += ", blocks the event loop"
    if worker.doing is Doing.PAUSED or (listener.held and worker.doing is Doing.SETTLING):
        text += f": {listener.paused}"
    return text
