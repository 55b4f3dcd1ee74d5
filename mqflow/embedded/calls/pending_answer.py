"""The pending answer of a call, and the code that completes it: store the changes, wait, and undo refused changes.

A step is the function of one MQI call or command. It runs under the queue manager's lock and changes the memory. The step
returns a `Pending` with the changes that must become durable before the caller gets the answer. `begin` gives these changes to
the store while the lock is held, so the store receives changes in the order of the steps. `finish` waits without the lock. The
connection and the administration commands use both functions. `carry_out` runs a whole administration command; it knows no kind
of object.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.calls.settle import Answer, back_out, commit_own_unit, fail, is_refused
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.storage.store import Change
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason

__all__ = ("Pending", "begin", "carry_out", "finish")

_Value = TypeVar("_Value")
_Other = TypeVar("_Other")


class Pending(Struct, Generic[_Value], frozen=True, gc=False):
    """The answer of a step, and the changes that must be durable before the caller gets the answer."""

    value: _Value
    #: A unit of work for this step alone, separate from the connection's. It is committed after the changes are durable, and
    #: backed out if the store refuses the changes.
    own_unit: UnitOfWork | None = None
    #: The changes that the store must write; None if the step changed nothing that must survive a restart.
    changes: Sequence[Change] | None = None
    #: Functions that undo the step in memory, in this order and under the lock, if the store refuses the changes.
    undo: tuple[Callable[[], None], ...] = ()
    #: A function that completes the step in memory, under the lock, after the changes are durable.
    then: Callable[[], None] | None = None
    #: A step that undoes this step, under the lock, if the commit of `own_unit` fails.
    revoke: "Callable[[], Pending[None]] | None" = None

    def undone_by(self, *undo: Callable[[], None]) -> "Pending[_Value]":
        """Return this record with these functions added at the end of `undo`."""
        return replace(self, undo=self.undo + undo)

    def with_value(self, value: _Other) -> "Pending[_Other]":
        """Return this record with another value as the answer."""
        return Pending(value, self.own_unit, self.changes, self.undo, self.then, self.revoke)


def begin(state: QueueManagerState, pending: Pending[_Value]) -> Answer | None:
    """Give the changes to the store; the caller still holds the lock of the step. Return the answer to wait for, or None."""
    if pending.own_unit is not None:
        state.in_commit.add(pending.own_unit)
    if pending.changes is None:
        return None
    answer = Answer(state.runner)
    state.store.write(pending.changes, answer)
    return answer


def finish(state: QueueManagerState, pending: Pending[_Value], answer: Answer | None) -> None:
    """Wait, without the lock, until the changes of the step are durable. Then commit the step's own unit of work, if any.

    If the store refuses the changes or the commit, undo the step and raise the refusal.
    """
    if answer is not None:
        _wait_until_durable(state, pending, answer)
    if pending.own_unit is None:
        return
    try:
        commit_own_unit(state, pending.own_unit)
    except MQIError as error:
        if pending.revoke is not None:
            with state.lock:
                revoked = pending.revoke()
                answer = begin(state, revoked)
            with suppress(Refusal):  # the caller gets the reason of the failed commit instead
                finish(state, revoked, answer)
        raise Refusal(error.reason, error.detail) from error


def _wait_until_durable(state: QueueManagerState, pending: Pending[_Value], answer: Answer) -> None:
    failure = answer.wait()
    if failure is None:
        if pending.then is not None:
            with state.lock:
                pending.then()
        return
    with state.lock:
        if is_refused(failure):
            if pending.own_unit is not None:
                state.in_commit.discard(pending.own_unit)
                back_out(state, pending.own_unit, count=False)
            for undo in pending.undo:
                undo()
        else:
            fail(state, failure)
    # A store can answer with any exception; only an `MQIError` has a reason code.
    reason = failure.reason if isinstance(failure, MQIError) else Reason.CALL_INTERRUPTED
    raise Refusal(reason, str(failure))


def carry_out(state: QueueManagerState, command: str, name: str, step: Callable[[], Pending[None]]) -> None:
    """Run the step under the lock, then wait without the lock until the change is durable. Another command of the object waits.

    Turns a `Refusal` into an `MQIError` that names the command and the object. Raises 2059 if the queue manager has stopped.
    """
    try:
        with state.in_turn(name):
            with state.lock:
                if state.stopped:
                    raise Refusal(Reason.Q_MGR_NOT_AVAILABLE)  # noqa: TRY301 - raised here, like every other refusal of the command
                pending = step()
                answer = begin(state, pending)
            finish(state, pending, answer)
    except Refusal as refusal:
        raise refusal.on(command, name, state.name) from None
