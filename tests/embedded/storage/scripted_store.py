"""A store for tests. It remembers every change, and the test decides when and how the store answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mqflow.embedded.storage.store import Change, Snapshot, StoredIdentifiers, StoredMessage
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("FULL", "UNKNOWN", "ScriptedStore")

Done = Callable[[Exception | None], None]

FULL: MQIError = error_for(Reason.STORAGE_MEDIUM_FULL, "write", detail="The disk is full")
UNKNOWN: MQIError = error_for(Reason.CALL_INTERRUPTED, "write", detail="The sync failed")


@dataclass
class ScriptedStore:
    """Answers every call at once with success, until the test sets `holds` or `refuses`."""

    durable: bool = True
    #: If set, the store does not answer until the test calls `answer`.
    holds: bool = False
    #: The error of every answer.
    refuses: Exception | None = None
    #: The errors of the next answers.
    answers: list[Exception | None] = field(default_factory=list)
    written: list[Change] = field(default_factory=list)
    #: The changes, grouped by call. The changes of one call are made together or not at all.
    calls: list[list[str]] = field(default_factory=list)
    unanswered: list[Done] = field(default_factory=list)
    marked: list[tuple[int, int, bool]] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    #: The messages to read. None stands for a damaged message.
    messages: dict[int, StoredMessage | None] = field(default_factory=dict)
    asked_for: list[tuple[int, ...]] = field(default_factory=list)
    snapshot: Snapshot = field(default_factory=lambda: Snapshot(queue_manager=None, queues=(), serials=(), next_serial=1))
    closed: bool = False

    def load(self) -> Snapshot:
        return self.snapshot

    def write(self, changes: Sequence[Change], done: Done | None) -> None:
        self.written.extend(changes)
        self.calls.append([type(change).__name__ for change in changes])
        if done is None:
            return
        if self.holds:
            self.unanswered.append(done)
        else:
            done(self.answers.pop(0) if self.answers else self.refuses)

    def answer(self, failure: Exception | None = None) -> None:
        """Answer the oldest waiting call."""
        self.unanswered.pop(0)(failure)

    def mark_in_flight(self, serial: int, backout_count: int, *, harden: bool) -> int:
        self.marked.append((serial, backout_count, harden))
        return len(self.marked)

    def release_in_flight(self, marks: Sequence[int]) -> None:
        self.released.extend(marks)

    def read_messages(self, serials: Sequence[int], body_bytes_max: int) -> Mapping[int, StoredMessage | None]:
        self.asked_for.append(tuple(serials))
        found = {}
        for serial in serials:
            message = found[serial] = self.messages[serial]
            body_bytes_max -= 0 if message is None else message.body_bytes
            if body_bytes_max <= 0:
                break
        return found

    def read_identifiers(self, serials: Sequence[int]) -> Iterator[StoredIdentifiers]:
        for serial in serials:
            message = self.messages[serial]
            if message is not None:
                descriptor = message.descriptor
                yield StoredIdentifiers(serial, descriptor.message_id, descriptor.correlation_id, descriptor.group_id)

    def close(self) -> None:
        self.closed = True

    def kinds(self) -> list[str]:
        """Return the names of the changes so far, and forget them."""
        names = [type(change).__name__ for change in self.written]
        self.written.clear()
        return names
