"""One call that puts, and the function that makes the puts of several calls on the thread of their session.

This file knows messages and verbs, but no commit, no connection that is lost, and no caller.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

import anyio
from msgspec.structs import replace

from mqflow.app.handlers.outgoing_message import Framed, Outgoing, framed, put_framed, put_many_framed, share_a_step
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.reason_classes import Class, classify
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
    """The commit was sent, so the caller waits for its answer even if it is cancelled."""
    OVER = "over"
    """The call has its puts or its error."""


class PutCall:
    """One call of the application: its messages, and its result."""

    __slots__ = ("error", "lost", "many", "messages", "over", "puts", "scope", "stage", "withdrawn")

    def __init__(self, *, many: bool = False) -> None:
        """Make a call; `many` says that it puts many messages, which have a unit of work of their own."""
        self.many: Final = many
        #: The messages with their descriptors and data.
        self.messages: list[Framed] = []
        #: The puts of the first messages in the open unit of work.
        self.puts: list[Put] = []
        self.error: BaseException | None = None
        #: True if the caller does not want its messages any more.
        self.withdrawn: bool = False
        self.stage: Stage = Stage.WAITING
        #: The connections that the puts of this call have lost.
        self.lost: int = 0
        #: The wait of the caller in another task; None without such a wait.
        self.scope: anyio.CancelScope | None = None
        self.over: OneShot | None = None

    def add(self, message: Outgoing) -> None:
        """Add a message. Raises the errors of `framed`."""
        self.messages.append((message, *framed(message)))

    @property
    def size(self) -> Waiting:
        """The number of messages of the call, their bytes, and whether the call has a unit of work of its own."""
        return Waiting(len(self.messages), sum(len(data) for _, _, data in self.messages), self.many)

    @property
    def message_ids(self) -> tuple[bytes, ...]:
        """The MsgIds of the puts."""
        return tuple(put.descriptor.message_id for put in self.puts)

    @property
    def wanted(self) -> bool:
        """True if the puts of this call must be committed."""
        return self.error is None and not self.withdrawn

    @property
    def is_complete(self) -> bool:
        """True if the caller wants the call, and all its messages are in the unit of work."""
        return len(self.puts) == len(self.messages) > 0 and self.error is None and not self.withdrawn

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
        """Record that the unit of work is gone. The next puts have the same MsgIds, which the caller may know."""
        for index, put in enumerate(self.puts):
            message, descriptor, data = self.messages[index]
            self.messages[index] = (message, replace(descriptor, message_id=put.descriptor.message_id), data)
        self.puts.clear()

    def enter(self, stage: Stage) -> None:
        """Go to the stage. While the commit is under way, the caller waits for its answer."""
        self.stage = stage
        if stage is Stage.OVER:
            if self.over is not None:
                self.over.pass_on()
        elif self.scope is not None:
            self.scope.shield = stage is Stage.COMMITTING


def put_all(session: Session, calls: Sequence[PutCall], stager: Stager) -> PutCall | None:
    """Put the messages of the calls that are not put yet, in order, on the thread of the session.

    A call whose message is refused has the error afterwards, and its next messages are left out. Returns the call whose put
    lost the connection, or None.
    """
    if len(calls) == 1 and len(calls[0].messages) == 1:  # the usual call
        return _put_only(session, calls[0], stager)
    todo = [(call, each) for call in calls for each in call.messages[len(call.puts) :]]
    start = 0
    while start < len(todo):
        call, (message, _, _) = todo[start]
        if call.error is not None:  # the message before this one was refused
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
    return isinstance(error, MQIError) and classify(int(error.reason)) is Class.RECONNECT


def _put_run(session: Session, messages: Sequence[Framed], stager: Stager) -> tuple[Sequence[Put], Exception | None]:
    """Put messages for the same target, up to the first error. Return the puts and that error."""
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
    """True if a put of the refused message alone can succeed: on a new handle, or as a non-persistent message."""
    return classify(int(error.reason)) is Class.REOPEN or error.reason == Reason.PERSISTENT_NOT_ALLOWED
