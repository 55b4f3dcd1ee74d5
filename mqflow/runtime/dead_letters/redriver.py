"""Puts messages back where they came from: browse with a lock, get, put, commit, a unit of work for each.

What a message was before it was moved is said by `policy.dead_letters.original_message`; which messages, and where to, by
whoever asks. Stopped or killed at any point, it goes on by being started again: what is moved is not there any more.
"""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Final

from msgspec import Struct, field

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import Redirect
from mqflow.policy.dead_letters.original_message import Restored, restored
from mqflow.policy.poison.disposition_record import RecordOutcome
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.runtime.connection.output_handles import Targets
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle
from mqflow.world import Clock

__all__ = ("Moved", "Redriver", "Target", "identity_of")

_SOURCE: Final = OpenOption.BROWSE | OpenOption.INPUT_SHARED | OpenOption.SAVE_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
# A message that is moved keeps its properties, whatever PROPCTL hides.
_AS_IT_IS: Final = GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
_DRY: Final = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT | _AS_IT_IS)
_LOOK: Final = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.LOCK | GetOption.NO_SYNCPOINT | _AS_IT_IS)
_TAKE: Final = GetOptions(options=GetOption.MSG_UNDER_CURSOR | GetOption.SYNCPOINT | _AS_IT_IS)


class Target(Struct, frozen=True):
    """Where a message goes."""

    queue: str
    queue_manager: str = ""

    def __str__(self) -> str:
        return f"{self.queue} ({self.queue_manager})" if self.queue_manager else self.queue


class Moved(Struct, frozen=True, kw_only=True):
    """What became of one message."""

    message_id: bytes
    identity: int
    #: None where the message does not say where it came from.
    target: Target | None
    #: Why it stayed; empty where it was moved, or would be.
    why_not: str = ""
    reason: int = 0


class Redriver(Struct, kw_only=True):
    """Moves the messages of one queue, each once."""

    connection: Connection
    queue: str
    #: Which messages; asked with each as it lies there.
    wanted: Callable[[Got], bool]
    #: Where to, whatever a message says; None for where each came from.
    to: Target | None = None
    #: Messages a second at most; 0 for as fast as it goes.
    rate: float = 0.0
    clock: Clock
    #: Lets so many seconds pass.
    pause: Callable[[float], None]
    dry_run: bool = False
    #: How often each message was moved already, by `identity_of`; one that is back again stays.
    moved_before: Counter[int] = field(default_factory=Counter[int])
    times_max: int = 1
    #: Puts a record of each message that is moved, in the unit of work of the move; None for none.
    records: ConnectionRecorder | None = None
    #: Names this redrive in the records.
    redrive_id: str = ""
    _refused: dict[Target, MQIError] = field(default_factory=dict[Target, MQIError])

    def run(self) -> Generator[Moved, None, None]:
        """Yield what became of each message that is wanted, after it is settled: once through the queue from its head.

        A target that refuses for a reason of its own (full, inhibited, missing) is not tried again; one that was altered
        (2041) is opened anew. Raises `MQIError` where the
        connection is lost or the queue refuses; the message under way is on its queue then, unless the commit got no answer.
        """
        handle = self.connection.open(self.queue, OpenOption.BROWSE if self.dry_run else _SOURCE)
        look = _DRY if self.dry_run else _LOOK
        due = self.clock.monotonic()
        targets = Targets(self.connection, handle)
        try:
            while (seen := self.connection.get(handle, look)) is not None:
                if not self.wanted(seen):
                    continue
                if self.rate:
                    self.pause(max(0.0, due - self.clock.monotonic()))
                    due = max(due, self.clock.monotonic()) + 1 / self.rate
                yield self._redrive(handle, targets, seen)
        finally:
            targets.close()
            with suppress(MQIError):  # gone with its connection
                self.connection.close(handle)

    def _redrive(self, handle: ObjectHandle, targets: Targets, seen: Got) -> Moved:
        identity = identity_of(seen)
        message_id = seen.descriptor.message_id
        target = self.to or _origin(restored(seen.descriptor, seen.body))
        why_not, reason = self._why_not(identity, target, seen), 0
        if not why_not and target is not None and not self.dry_run:
            error = self._move(handle, targets, target)
            if error is None:
                self.moved_before[identity] += 1
            else:
                why_not, reason = str(error), int(error.reason)
        return Moved(message_id=message_id, identity=identity, target=target, why_not=why_not, reason=reason)

    def _why_not(self, identity: int, target: Target | None, seen: Got) -> str:
        if target is None:
            return "It does not say where it came from: --to QUEUE says where to."
        if self.moved_before[identity] >= self.times_max:
            return "It was put back before, and came again."
        if target.queue in {self.queue, seen.resolved_queue} and target.queue_manager in {
            "",
            self.connection.queue_manager_name,
        }:
            return "It is there already."
        refused = self._refused.get(target)
        return "" if refused is None else f"As the one before: {refused}"

    def _move(self, handle: ObjectHandle, targets: Targets, target: Target) -> MQIError | None:
        """Move the message under the cursor; return why it could not be, when it is back on its queue."""
        try:
            got = self.connection.get(handle, _TAKE)
            if got is None:
                raise error_for(Reason.NO_MSG_UNDER_CURSOR, "MQGET", self.queue, self.connection.queue_manager_name)
            before = restored(got.descriptor, got.body)
            targets.put(Redirect(target.queue, target.queue_manager), before.descriptor, before.data)
            self._record(target, before)
            self.connection.commit()
        except MQIError as error:
            if classify(int(error.reason)) is Class.RECONNECT:
                raise
            if error.reason != Reason.BACKED_OUT:
                self.connection.backout()
            if error.verb != "MQGET" and classify(int(error.reason)) is not Class.MESSAGE:
                self._refused[target] = error
            return error
        return None

    def _record(self, target: Target, before: Restored) -> None:
        """Say that the message was put back: by its MsgId and put time, which it keeps, its next deliveries are known."""
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
            )


def identity_of(got: Got) -> int:
    """Return a number that tells messages apart, the same in every process: of MsgId and CorrelId, which a move keeps."""
    from hashlib import blake2b  # noqa: PLC0415 - only who redrives pays

    both = got.descriptor.message_id + got.descriptor.correlation_id
    return int.from_bytes(blake2b(both, digest_size=8).digest())


def _origin(before: Restored) -> Target | None:
    return Target(before.origin_queue, before.origin_queue_manager) if before.origin_queue else None
