"""One call that puts messages, and the function that makes the puts of several calls on the thread of their session.

This file makes no commit, and does not wait for a connection or a caller.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

import anyio
from msgspec.structs import replace

from mqflow.app.handlers.outgoing_message import Framed, Outgoing, framed, put_framed, put_many_framed, share_a_step
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.reason_classes import Class, classify, needs_reconnect
from mqflow.policy.shared_puts import Waiting
from mqflow.runtime.connection.loop_call import OneShot
from mqflow.runtime.connection.session import Session
from mqflow.runtime.delay.stage import Stager
from mqflow.verbs import Put

__all__ = ("PutCall", "Stage", "put_all")


class Stage(Enum):
    """The progress of a call."""

    WAITING = "waiting"
    """The puts of the call are not committed yet."""
    COMMITTING = "committing"
    """The commit was sent. From now on the caller waits for its answer, even if it is cancelled."""
    OVER = "over"
    """The call has its puts or its error."""


class PutCall:
    """One call of `App.put` or a similar method: its messages, and its result."""

    __slots__ = ("error", "lost", "many", "messages", "over", "puts", "scope", "stage", "withdrawn")

    def __init__(self, *, many: bool = False) -> None:
        """Make a call. `many` is true for a call that puts many messages; they have their own unit of work."""
        self.many: Final = many
        #: The messages with their descriptors and data.
        self.messages: list[Framed] = []
        #: The results of the puts in the open unit of work, for the first messages of the call.
        self.puts: list[Put] = []
        self.error: BaseException | None = None
        #: True if the caller was cancelled and no longer wants its messages to be put.
        self.withdrawn: bool = False
        self.stage: Stage = Stage.WAITING
        #: The number of connections that were lost during puts of this call.
        self.lost: int = 0
        #: The cancel scope around the rest of the caller's wait, after a cancellation during the commit; otherwise None.
        self.scope: anyio.CancelScope | None = None
        self.over: OneShot | None = None

    def add(self, message: Outgoing) -> None:
        """Add a message. Raises the errors of `framed`."""
        self.messages.append((message, *framed(message)))

    @property
    def size(self) -> Waiting:
        """The number and the bytes of the messages, and whether the call must have its own unit of work."""
        return Waiting(len(self.messages), sum(len(data) for _, _, data in self.messages), self.many)

    @property
    def message_ids(self) -> tuple[bytes, ...]:
        """The MsgIds of the puts."""
        return tuple(put.descriptor.message_id for put in self.puts)

    @property
    def wanted(self) -> bool:
        """True if the puts of this call must be committed: no put was refused, and the caller still wants them."""
        return self.error is None and not self.withdrawn

    @property
    def is_complete(self) -> bool:
        """True if the call is wanted, and all its messages are in the unit of work."""
        return len(self.puts) == len(self.messages) > 0 and self.error is None and not self.withdrawn

    @property
    def is_sent(self) -> bool:
        """True if the commit was sent, so that the caller must wait for its answer."""
        return self.stage is not Stage.WAITING

    def refuse(self, error: Exception) -> None:
        """Record the error of the next put.

        If the call has several messages, the error names the index of the refused message.
        """
        if self.many and isinstance(error, MQIError):
            said = f"The message at index {len(self.puts)} was refused, so none of the messages was put"
            detail = f"{error.detail.removesuffix('.')}. {said}" if error.detail else said
            self.error = error_for(int(error.reason), error.verb, error.object_name, error.queue_manager, detail)
            self.error.__cause__ = error
        else:
            self.error = error

    def undo(self) -> None:
        """Record that the unit of work was backed out. The next puts use the same MsgIds, because the caller may know them."""
        for index, put in enumerate(self.puts):
            message, descriptor, data = self.messages[index]
            self.messages[index] = (message, replace(descriptor, message_id=put.descriptor.message_id), data)
        self.puts.clear()

    def enter(self, stage: Stage) -> None:
        """Set the stage of the call. In the stage COMMITTING, a cancellation does not end the caller's wait."""
        self.stage = stage
        if stage is Stage.OVER:
            if self.over is not None:
                self.over.pass_on()
        elif self.scope is not None:
            self.scope.shield = stage is Stage.COMMITTING


def put_all(session: Session, calls: Sequence[PutCall], stager: Stager) -> PutCall | None:
    """Put the messages of these calls that are not put yet, in order, on the thread of the session.

    If a message is refused, its call has the error afterwards, and the further messages of this call are not put. Returns the
    call whose put lost the connection, or None.
    """
    if len(calls) == 1 and len(calls[0].messages) == 1:  # the usual call
        return _put_only(session, calls[0], stager)
    todo = [(call, each) for call in calls for each in call.messages[len(call.puts) :]]
    start = 0
    while start < len(todo):
        call, (message, _, _) = todo[start]
        if call.error is not None:  # an earlier message of the call was refused
            start += 1
            continue
        end = start + 1
        while end < len(todo) and share_a_step(message, todo[end][1][0]):
            end += 1
        run = todo[start:end]
        puts, error = _put_run(session, [each for _, each in run], stager)
        for (of, _), put in zip(run[: len(puts)], puts, strict=True):
            of.puts.append(put)
        start += len(puts)
        if error is not None:
            call = todo[start][0]
            call.refuse(error)
            if _is_lost(error):
                return call
    return None


def _put_only(session: Session, call: PutCall, stager: Stager) -> PutCall | None:
    try:
        call.puts.append(put_framed(session, *call.messages[0], stager))
    except Exception as error:  # noqa: BLE001 - as in `_put_run`
        call.refuse(error)
        return call if _is_lost(error) else None
    return None


def _is_lost(error: Exception) -> bool:
    return isinstance(error, MQIError) and needs_reconnect(error)


def _put_run(session: Session, messages: Sequence[Framed], stager: Stager) -> tuple[Sequence[Put], Exception | None]:
    """Put messages for the same target, up to the first error. Return the results, and this error."""
    try:
        if len(messages) == 1:
            return (put_framed(session, *messages[0], stager),), None
        many = put_many_framed(session, messages)
    except Exception as error:  # noqa: BLE001 - the error belongs to the call of this message, and the others go on
        return (), error
    if many.error is None or not _needs_care(many.error):
        return many.puts, many.error
    more, refusal = _put_run(session, messages[len(many.puts) :][:1], stager)
    return (*many.puts, *more), refusal


def _needs_care(error: MQIError) -> bool:
    """Return whether the refused message can be put alone: on a new handle, or as a non-persistent message."""
    return classify(int(error.reason)) is Class.REOPEN or error.reason == Reason.PERSISTENT_NOT_ALLOWED
