"""Decides whether an application is alive and ready, and finds each worker that is stuck. Reads no clock.

Each activity of a worker has a time limit. If a worker exceeds the limit, the application is not ready; above twice the limit,
the application is not alive. So the orchestrator first sends no more work to the application, and later restarts it. A worker
that makes progress always begins new activities, so it stays below the limits. A pause or an outage does not count, because a
restart does not end it.
"""

from collections.abc import Iterator
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.policy.health.records import ApplicationStatus, Doing, ListenerStatus, ProcessStatus, WorkerStatus

__all__ = ("DEAD_AFTER", "GET_SLACK_S", "SETTLE_LIMIT_S", "SILENT_LIMIT_S", "Health", "Stuck", "judge", "limit_s")

GET_SLACK_S: Final = 10.0
"""A get must end within its wait time and this many seconds more."""
SETTLE_LIMIT_S: Final = 40.0
"""The limit of a commit or backout. After 30 seconds the runtime itself reports a commit as in doubt."""
SILENT_LIMIT_S: Final = 30.0
"""A process must answer within this many seconds."""
DEAD_AFTER: Final = 2.0
"""If a worker, an event loop or a process exceeds its limit this many times, the application is not alive."""


class Stuck(Struct, frozen=True, kw_only=True):
    """A worker, an event loop or a process that has exceeded its limit."""

    process: int
    #: Empty for an event loop and for a process.
    listener: str = ""
    #: The number of the worker in its listener; -1 for an event loop and for a process.
    worker: int = -1
    for_s: float
    limit_s: float
    #: A sentence that says what is stuck.
    text: str
    stack: str = ""

    @property
    def is_dead(self) -> bool:
        """True if only a restart of the process can help."""
        return self.for_s > DEAD_AFTER * self.limit_s


class Health(Struct, frozen=True, kw_only=True):
    """Says whether an application is alive and ready, and which workers are stuck."""

    live: bool
    ready: bool
    stuck: tuple[Stuck, ...] = ()
    #: Sentences that say why the application is not ready; empty if it is ready.
    why: tuple[str, ...] = ()


def judge(application: ApplicationStatus) -> Health:
    """Return the health of the application. For each process, the present moment is `ProcessStatus.taken_at`."""
    stuck = tuple(_all_stuck(application))
    why = (*_lacks(application), *(each.text for each in stuck))
    return Health(live=not any(each.is_dead for each in stuck), ready=not why, stuck=stuck, why=why)


def limit_s(worker: WorkerStatus, listener: ListenerStatus) -> float | None:
    """Return the longest time in seconds that the worker's present activity may take; None for no limit."""
    match worker.doing:
        case Doing.IDLE:
            return worker.wait_s + GET_SLACK_S
        case Doing.HANDLING:
            return listener.stuck_after_s
        case Doing.SETTLING:
            return SETTLE_LIMIT_S
        case Doing.CONNECTING | Doing.PAUSED:
            return None
        case _:
            assert_never(worker.doing)


def _lacks(application: ApplicationStatus) -> Iterator[str]:
    if application.is_stopping:
        yield "The application is stopping."
        return
    present = len(application.processes)
    if present < application.expected:
        yield f"{present} of {application.expected} processes answer."
    for process in application.processes:
        if not process.ready:
            missing = f"it has not opened {', '.join(process.missing)}" if process.missing else "it starts or stops"
            yield f"Process {process.process} is not ready: {missing}."


def _all_stuck(application: ApplicationStatus) -> Iterator[Stuck]:
    for silent in application.silent:
        if silent.for_s > SILENT_LIMIT_S:
            text = f"Process {silent.process} has not answered for {silent.for_s:.0f} s."
            yield Stuck(process=silent.process, for_s=silent.for_s, limit_s=SILENT_LIMIT_S, text=text)
    for process in application.processes:
        yield from _stuck_in(process)


def _stuck_in(process: ProcessStatus) -> Iterator[Stuck]:
    late = [*_workers_above_limits(process)]
    if process.blocked_since is None:
        yield from (stuck for _, stuck in late)
        return
    # While the event loop is blocked, no get and no commit can end. So only the code that blocks the loop is reported.
    for_s = process.taken_at - process.blocked_since
    most = min((listener.stuck_after_s for listener in process.listeners), default=SILENT_LIMIT_S)
    loop = Stuck(process=process.process, for_s=for_s, limit_s=most, text="")
    above = [*([loop] if for_s > most else ()), *(stuck for _, stuck in late)]
    if above:
        longest = max(above, key=lambda each: (each.is_dead, each.for_s - each.limit_s))
        yield replace(longest, listener="", worker=-1, text=_blocked_sentence(process, for_s), stack=process.blocked_at)
    yield from (stuck for worker, stuck in late if worker.doing is Doing.HANDLING and not worker.is_running)


def _workers_above_limits(process: ProcessStatus) -> Iterator[tuple[WorkerStatus, Stuck]]:
    for listener in process.listeners:
        for worker in listener.workers:
            limit = limit_s(worker, listener)
            if limit is None or worker.since is None:
                continue
            for_s = process.taken_at - worker.since
            if for_s > limit:
                text = _sentence(process, listener, worker, for_s, limit)
                yield (
                    worker,
                    Stuck(
                        process=process.process,
                        listener=listener.name,
                        worker=worker.number,
                        for_s=for_s,
                        limit_s=limit,
                        text=text,
                        stack=worker.stack,
                    ),
                )


def _blocked_sentence(process: ProcessStatus, for_s: float) -> str:
    """Return a sentence that names the handler that blocks the event loop. It has blocked the loop for at least `for_s`."""
    where = f"the event loop of process {process.process}"
    for listener in process.listeners:
        for worker in listener.workers:
            if worker.is_running and worker.since is not None:
                blocks = f"Worker {worker.number} of {listener.name} blocks {where}: it has run its handler"
                return f"{blocks} for {process.taken_at - worker.since:.0f} s with message {worker.message_id}."
    return f"T{where[1:]} has not turned for {for_s:.0f} s."


def _sentence(process: ProcessStatus, listener: ListenerStatus, worker: WorkerStatus, for_s: float, limit: float) -> str:
    where = f"Worker {worker.number} of {listener.name} in process {process.process}"
    match worker.doing:
        case Doing.HANDLING:
            return f"{where} has been in its handler for {for_s:.0f} s, above {limit:g} s, with message {worker.message_id}."
        case Doing.IDLE:
            return f"{where} has not come back from its get for {for_s:.0f} s, above {limit:g} s."
        case Doing.SETTLING | Doing.CONNECTING | Doing.PAUSED:
            return f"{where} has waited for its commit for {for_s:.0f} s, above {limit:g} s."
        case _:
            assert_never(worker.doing)
