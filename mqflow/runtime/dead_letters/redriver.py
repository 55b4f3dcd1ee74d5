"""Redrives messages: puts them back on the queue that they came from, or on a queue of the caller's choice.

For each message: browse it with a lock, get it, put it and commit, in a unit of work of its own. The caller chooses the
messages and the target. `policy.dead_letters.original_message` restores a message as it was before its move. After a stop or a
kill the redriver can be started again, because moved messages are no longer on the source queue.
"""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.intents import Redirect
from mqflow.policy.dead_letters.original_message import Restored, restored
from mqflow.policy.poison.disposition_record import RecordOutcome
from mqflow.policy.reconnect.reason_classes import Class, classify, leaves_in_doubt, needs_reconnect
from mqflow.runtime.connection.output_handles import OutputHandles
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle
from mqflow.world import Clock

__all__ = ("RedrivenMessage", "Redriver", "Target", "identity_of")

_SOURCE: Final = OpenOption.BROWSE | OpenOption.INPUT_SHARED | OpenOption.SAVE_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
# The attribute PROPCTL can hide message properties from a get. A message that is moved must keep its properties.
_AS_IT_IS: Final = GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
_DRY: Final = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT | _AS_IT_IS)
_LOOK: Final = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.LOCK | GetOption.NO_SYNCPOINT | _AS_IT_IS)
_TAKE: Final = GetOptions(options=GetOption.MSG_UNDER_CURSOR | GetOption.SYNCPOINT | _AS_IT_IS)


class Target(Struct, frozen=True):
    """The queue that a message is put on."""

    queue: str
    queue_manager: str = ""

    def __str__(self) -> str:
        return f"{self.queue} ({self.queue_manager})" if self.queue_manager else self.queue


class RedrivenMessage(Struct, frozen=True, kw_only=True):
    """The result of the redrive of one message."""

    message_id: bytes
    identity: int
    #: None if the message does not name the queue that it came from.
    target: Target | None
    #: The reason why the message stays; empty if it was moved. In a dry run, empty if a real run moves the message.
    why_not: str = ""
    reason: int = 0


class Redriver(Struct, kw_only=True):
    """Redrives the messages of one queue. It moves each message at most `times_max` times."""

    connection: Connection
    queue: str
    #: Called with each message on the queue. Returns whether to move the message.
    wanted: Callable[[Got], bool]
    #: The target of all messages. With None, each message goes to the queue that it came from.
    to: Target | None = None
    #: The largest number of messages in a second; 0 for no limit.
    rate: float = 0.0
    clock: Clock
    #: Waits for the given number of seconds.
    pause: Callable[[float], None]
    dry_run: bool = False
    #: The number of moves of each message so far, by `identity_of`. A message that comes back after `times_max` moves stays.
    moved_before: Counter[int] = field(default_factory=Counter[int])
    times_max: int = 1
    #: Puts a record of each moved message, in the unit of work of the move; None for no records.
    records: ConnectionRecorder | None = None
    #: A name for this redrive, for the records.
    redrive_id: str = ""
    #: Changes each message before its put. If the unit of work is backed out, the source queue still has the old message.
    change: Callable[[Restored], Restored] = lambda before: before
    #: A remark for the records, for people.
    remark: str | None = None
    #: Makes a block around each move. The block ends when the caller wants the next result, so the caller can note the move.
    whole: Callable[[], AbstractContextManager[None]] = nullcontext
    #: The message whose commit is in doubt, if there is one. It ended the run.
    in_doubt: RedrivenMessage | None = None
    _refused: dict[Target, MQIError] = field(default_factory=dict[Target, MQIError])

    def run(self) -> Generator[RedrivenMessage, None, None]:
        """Make one pass through the queue from its head. Yield the result of each wanted message after its settlement.

        If a put is refused because of the target (full, inhibited, missing), no further message is put on this target. If the
        target was altered (2041), it is opened again. Raises `MQIError` if the connection is lost, the source queue refuses a
        call, or a commit is in doubt. The current message is then still on its queue, except if a commit is in doubt: then it
        is `in_doubt`.
        """
        handle = self.connection.open(self.queue, OpenOption.BROWSE if self.dry_run else _SOURCE)
        look = _DRY if self.dry_run else _LOOK
        due = self.clock.monotonic()
        targets = OutputHandles(self.connection, handle)
        try:
            while (seen := self.connection.get(handle, look)) is not None:
                if not self.wanted(seen):
                    continue
                if self.rate:
                    self.pause(max(0.0, due - self.clock.monotonic()))
                    due = max(due, self.clock.monotonic()) + 1 / self.rate
                with self.whole():
                    yield self._redrive(handle, targets, seen)
        finally:
            targets.close()
            with suppress(MQIError):  # the connection is lost
                self.connection.close(handle)

    def _redrive(self, handle: ObjectHandle, targets: OutputHandles, seen: Got) -> RedrivenMessage:
        identity = identity_of(seen)
        message_id = seen.descriptor.message_id
        before, target = restored(seen.descriptor, seen.body), self.to
        if target is None and before.origin_queue:
            target = Target(before.origin_queue, before.origin_queue_manager)
        done = RedrivenMessage(
            message_id=message_id, identity=identity, target=target, why_not=self._why_not(identity, target, seen)
        )
        if done.why_not or target is None:
            return done
        error = None if self.dry_run else self._moved(handle, targets, target, done)
        if error is not None:
            return replace(done, why_not=str(error), reason=int(error.reason))
        self.moved_before[identity] += 1  # in a dry run too, because the real run does not move a second copy
        return done

    def _moved(self, handle: ObjectHandle, targets: OutputHandles, target: Target, done: RedrivenMessage) -> MQIError | None:
        """Move the message as `_move` does. If its commit is in doubt, remember the message."""
        try:
            return self._move(handle, targets, target)
        except MQIError as error:
            if leaves_in_doubt(error):
                doubt = f"Nobody knows whether the commit took effect. Look for {done.message_id.hex()} on both queues."
                self.in_doubt = replace(done, why_not=doubt, reason=int(error.reason))
            raise

    def _why_not(self, identity: int, target: Target | None, seen: Got) -> str:
        if target is None:
            return "The message does not name the queue that it came from: give the target with --to QUEUE."
        if self.moved_before[identity] >= self.times_max:
            return (
                "This run or its journal has a move of the same MsgId and CorrelId already. "
                f"--again {self.moved_before[identity] + 1} moves this message too."
            )
        if target.queue in {self.queue, seen.resolved_queue} and target.queue_manager in {
            "",
            self.connection.queue_manager_name,
        }:
            return "The message is on that queue already."
        refused = self._refused.get(target)
        return "" if refused is None else f"As for an earlier message: {refused}"

    def _move(self, handle: ObjectHandle, targets: OutputHandles, target: Target) -> MQIError | None:
        """Move the message under the cursor. If the move fails, back out and return the error: the message stays.

        Raises `MQIError` if the connection is lost, or if the commit is in doubt.
        """
        try:
            got = self.connection.get(handle, _TAKE)
            if got is None:
                raise error_for(Reason.NO_MSG_UNDER_CURSOR, "MQGET", self.queue, self.connection.queue_manager_name)
            before = self.change(restored(got.descriptor, got.body))
            targets.put(Redirect(target.queue, target.queue_manager), before.descriptor, before.data)
            self._record(target, before)
            self.connection.commit()
        except MQIError as error:
            if needs_reconnect(error):
                raise
            if leaves_in_doubt(error):
                with suppress(MQIError):  # the caller needs the error of the commit
                    self.connection.backout()
                raise
            if error.reason != Reason.BACKED_OUT:
                self.connection.backout()
            if error.verb not in {"MQGET", "MQCMIT"} and classify(int(error.reason)) is not Class.MESSAGE:
                self._refused[target] = error
            return error
        return None

    def _record(self, target: Target, before: Restored) -> None:
        """Put the record of this redrive. The message keeps its MsgId and put time, so later records can be matched with it."""
        if self.records is not None:
            self.records.put(
                self.connection,
                RecordOutcome.REDRIVEN,
                before.descriptor,
                queue=target.queue,
                queue_manager=target.queue_manager,
                msg_len=len(before.data),
                redrive_id=self.redrive_id,
                redrive_of=before.descriptor.message_id,
                exc_message=self.remark,
            )


def identity_of(got: Got) -> int:
    """Return a hash of MsgId and CorrelId. It is the same number in every process, and before and after a move."""
    from hashlib import blake2b  # noqa: PLC0415 - only a redrive needs it

    both = got.descriptor.message_id + got.descriptor.correlation_id
    return int.from_bytes(blake2b(both, digest_size=8).digest())
