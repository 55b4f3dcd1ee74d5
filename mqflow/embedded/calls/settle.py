"""The end of a unit of work: makes it durable, then visible to other applications, or backs it out.

The puts of a unit of work become available, and its gets become final, only after the store has written all of them to disk. If
the store refuses the changes, the unit of work is backed out. If nobody knows whether the store wrote them, the queue manager
stops. This file writes units of work, `uncommitted`, `QueuedMessage.stored`, `recounted`, the backout counts, and
`stopped`.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from mqflow.embedded.calls.retained import keep_retained, retained_changes
from mqflow.embedded.calls.wait import announce, notify, wake_everybody
from mqflow.embedded.state.backlog import QueuedMessage
from mqflow.embedded.state.objects import LocalQueue, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.storage.store import BackoutCounted, Change, MessageAdded, MessageRemoved, StoredMessage
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Persistence
from mqflow.mqi.reason_codes import Reason
from mqflow.world import Runner

__all__ = ("Answer", "back_out", "begin_commit", "commit_in_memory", "commit_own_unit", "fail", "is_refused", "release", "stop")

Done = Callable[[MQIError | None], None]
_PERSISTENT: Final = int(Persistence.PERSISTENT)


class Answer:
    """The answer of the store: the store's thread sets it, and the calling thread waits for it."""

    __slots__ = ("_failure", "_outstanding")

    def __init__(self, runner: Runner) -> None:
        # A lock that the answer releases. Every commit needs an answer, and an Event costs more than the commit itself.
        self._outstanding = runner.lock()
        self._outstanding.acquire()  # no `with`: another thread releases it
        self._failure: Exception | None = None

    def __call__(self, failure: Exception | None) -> None:
        """Set the answer and wake the waiting thread. `failure` is None if the store has written the changes."""
        self._failure = failure
        self._outstanding.release()

    def wait(self) -> Exception | None:
        """Wait for the answer; return its failure or None. The caller must not hold the state's lock, which the store needs."""
        with self._outstanding:
            return self._failure


def commit_in_memory(state: QueueManagerState, unit: UnitOfWork) -> bool:
    """Commit a unit of work that has no persistent messages. Return False if the commit needs the store."""
    if unit.has_persistent and state.durable:
        return False
    if unit.operations:
        _apply(state, unit)
    return True


def begin_commit(state: QueueManagerState, unit: UnitOfWork, done: Done, *, counted: bool = True) -> bool:
    """Begin a commit. Return True if it is complete already; otherwise the store's thread calls `done` later.

    Raises the failure if the store fails immediately. If the store refuses, the unit of work is backed out; with `counted`, the
    backout counts of its messages then increase.
    """
    if commit_in_memory(state, unit):
        return True
    changes = _changes(unit)
    if unit.retained:
        changes += retained_changes(state, unit.retained, is_alone=not changes)
    if not changes:
        _apply(state, unit)
        return True
    write = _Write(state, unit, done, counted=counted)
    state.in_commit.add(unit)
    state.store.write(changes, write.finished)
    return write.over_at_once()


def commit_own_unit(state: QueueManagerState, unit: UnitOfWork) -> None:
    """Commit the unit of work of a single put or get, and wait until it is durable.

    Callers do not hold the queue manager's lock. Raises the failure of the store.
    """
    answer = Answer(state.runner)
    with state.lock:
        state.in_commit.discard(unit)  # it stays there only while the store has no answer
        if begin_commit(state, unit, answer, counted=False):
            return
    failure = answer.wait()
    if failure is not None:
        raise failure


def back_out(state: QueueManagerState, unit: UnitOfWork, *, count: bool = True) -> None:
    """Back out: discard the puts, and return the messages of gets to their places. With `count`, count their backout."""
    for queue, _ in unit.puts.values():
        queue.uncommitted -= 1
    changes: list[Change] = []
    for queue, message in unit.gets:
        queue.uncommitted -= 1
        if queue.deleted:  # the message was deleted with its queue
            state.pages.forget(message)
            continue
        if count:
            message.descriptor = replace(message.descriptor, backout_count=message.descriptor.backout_count + 1)
            if message.stored:
                message.recounted = True
                state.pages.forget(message)
                changes.append(BackoutCounted(message.serial, message.descriptor.backout_count))
        release(queue, message)
    for undo in reversed(unit.undo):
        undo()
    marks = tuple(unit.marks)
    unit.clear()
    if changes:
        state.store.write(changes, None)
    if marks:  # released only after the backout counts are written: until then, the marks stand for the counts in the store
        state.store.release_in_flight(marks)


def release(queue: LocalQueue, message: QueuedMessage) -> None:
    """Make a message available, and wake the waiters whose get can return it."""
    queue.add(message)
    if queue.selecting:
        queue.select_from(message.key)
    if queue.waiters:
        announce(queue, message)


def stop(state: QueueManagerState, reason: int) -> None:
    """Stop now: back out all units of work except those in commit, end all connections, wake all waiters."""
    if state.stopped:
        return
    for connection in sorted(state.connections, key=lambda each: each.identifier):  # in the same order on every run
        connection.end(reason)
    state.stopped = reason
    wake_everybody(state)
    for wake in state.when_stopped:
        notify(wake)


def fail(state: QueueManagerState, failure: Exception) -> None:
    """Stop the queue manager, because nobody knows which changes the store has written."""
    state.failure = state.failure or str(failure)
    stop(state, Reason.Q_MGR_STOPPING)


def is_refused(failure: Exception) -> bool:
    """True if the store has certainly written nothing. After any other failure nobody knows, so the queue manager stops."""
    return isinstance(failure, MQIError) and failure.reason == Reason.STORAGE_MEDIUM_FULL


class _Write:
    """A commit that the store has not answered yet."""

    __slots__ = ("_counted", "_done", "_error", "_over", "_state", "_unit", "_waiting")

    def __init__(self, state: QueueManagerState, unit: UnitOfWork, done: Done, *, counted: bool) -> None:
        self._counted = counted
        self._state = state
        self._unit = unit
        self._done = done
        self._over = False
        self._waiting = False
        self._error: MQIError | None = None

    def finished(self, failure: Exception | None) -> None:
        """Process the answer of the store, on the store's thread or inside the call of `write`."""
        with self._state.lock:
            self._state.in_commit.discard(self._unit)
            if failure is None:
                failure = self._applied()
            if failure is not None:
                self._error = self._failed(failure)
            self._over = True
        if self._waiting:
            notify(lambda: self._done(self._error))

    def over_at_once(self) -> bool:
        """Return whether the store has answered already. Raise its failure, if any. A later answer goes to `done`."""
        if self._over and self._error is not None:
            raise self._error
        self._waiting = not self._over
        return self._over

    def _applied(self) -> Exception | None:
        """Make the unit of work visible. Return an unexpected exception, so that the caller is answered in any case."""
        try:
            _apply(self._state, self._unit)
        except Exception as error:  # noqa: BLE001 - the change is durable, but the memory may now be wrong
            return error
        return None

    def _failed(self, failure: Exception) -> MQIError:
        if is_refused(failure):
            back_out(self._state, self._unit, count=self._counted)
        else:
            self._unit.clear()
            fail(self._state, failure)
        if isinstance(failure, MQIError):
            return failure
        return MQIError(Reason.CALL_INTERRUPTED, "MQCMIT", queue_manager=self._state.name, detail=str(failure))


def _changes(unit: UnitOfWork) -> list[Change]:
    changes: list[Change] = [
        MessageAdded(_stored(queue, message))
        for queue, message in unit.puts.values()
        if message.descriptor.persistence == _PERSISTENT and not queue.deleted
    ]
    changes += [MessageRemoved(message.serial) for _, message in unit.gets if message.stored]
    changes += map(MessageRemoved, unit.discarded)
    return changes


def _stored(queue: LocalQueue, message: QueuedMessage) -> StoredMessage:
    return StoredMessage(
        serial=message.serial,
        queue=queue.name,
        order_priority=message.order_priority,
        descriptor=message.descriptor,
        expires_at=message.expires_at,
        put_at=message.put_at,
        body=message.body,
        body_bytes=len(message.body),
    )


def _apply(state: QueueManagerState, unit: UnitOfWork) -> None:
    for queue, message in unit.gets:
        queue.uncommitted -= 1
        if message.stored:
            state.pages.forget(message)
    if unit.puts:
        _release_puts(state, unit)
    if unit.gets and state.attributes.performance_event and state.watcher is not None:
        for queue in dict.fromkeys(queue for queue, _ in unit.gets):
            state.watcher.fell(queue)
    if unit.retained:
        keep_retained(state, unit.retained)
    if unit.marks:
        state.store.release_in_flight(tuple(unit.marks))
    unit.clear()


def _release_puts(state: QueueManagerState, unit: UnitOfWork) -> None:
    for queue, message in unit.puts.values():
        queue.uncommitted -= 1
        if queue.deleted:  # for example a managed queue whose subscription ended: its messages are deleted
            continue
        if message.descriptor.persistence == _PERSISTENT and state.durable:
            message.stored = True
        release(queue, message)
