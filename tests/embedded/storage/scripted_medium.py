"""A durable store over a medium that records its calls, and whose writer works when a test lets it. No thread runs."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.in_flight_marks import InFlightMarks
from mqflow.embedded.storage.medium import DamagedError, NoRoomError
from mqflow.embedded.storage.store import (
    BackoutCounted,
    Change,
    MessageAdded,
    MessageRemoved,
    ObjectDefined,
    QueueCleared,
    Snapshot,
    StoredIdentifiers,
    StoredMessage,
)
from mqflow.world import World
from tests.conformance.under_test import ManualClock
from tests.embedded.storage.stored_messages import QUEUE, message

__all__ = ("EMPTY", "FULL", "Kit", "ScriptedMedium", "add", "after_a_release", "full", "recorded", "said")

EMPTY = Snapshot(queue_manager=None, queues=(), serials=(), next_serial=1)


class Idle(BaseException):
    """The writer has nothing to do."""


class Stepping:
    """Offers `Runner`: its thread runs in `run`, and whenever somebody waits for an event."""

    def __init__(self) -> None:
        self.items: deque[Any] = deque()
        self.name = ""
        self.is_running = False
        #: Whether the thread has come to its end.
        self.ended = False

    def start(self, target: Callable[[], None], name: str) -> Any:
        self.target, self.name = target, name

    def run(self) -> None:
        self.is_running = True
        try:
            self.target()
            self.ended = True
        except Idle:
            pass
        finally:
            self.is_running = False

    def event(self) -> Any:
        runner = self

        class Event:
            is_over = False

            def set(self) -> None:
                self.is_over = True

            def wait(self, timeout: float | None = None) -> bool:
                if timeout is not None:
                    return self.is_over
                if runner.is_running:
                    raise Idle
                runner.run()
                assert self.is_over
                return True

        return Event()

    def lock(self) -> Any:
        return Lock()

    def mailbox(self) -> Any:
        return self

    def put(self, item: Any) -> None:
        self.items.append(item)

    def get(self) -> Any:
        if not self.items:
            raise Idle
        return self.items.popleft()

    def empty(self) -> bool:
        return not self.items

    def qsize(self) -> int:
        return len(self.items)


class ScriptedMedium:
    """Offers `Medium`: records the calls that change something, and raises the errors that the test gives."""

    def __init__(self, folder: DataFolder) -> None:
        self.path = folder.database
        folder.database.touch()
        self.calls: list[object] = []
        #: For each method, the errors of its next calls; None is success.
        self.errors: dict[str, list[Exception | None]] = {}
        self.messages: dict[int, StoredMessage | DamagedError] = {}
        self.evidence = ""
        self.reusable = 0
        self.log = 0

    def _do(self, method: str, *said: object) -> None:
        errors = self.errors.get(method, [])
        error = errors.pop(0) if errors else None
        self.calls.append((method, *said) if error is None else (method, *said, type(error).__name__))
        assert len(self.calls) < 100, "the store tries again and again"
        if error is not None:
            raise error

    def load(self, held: Mapping[int, int], now: float) -> Snapshot:
        self._do("load", dict(held), now)
        return EMPTY

    def epoch(self) -> int:
        return 7

    def make(self, changes: Iterable[Change], *, synced: bool) -> None:
        self._do("make", [said(change) for change in changes], synced)

    def read_messages(self, serials: Sequence[int]) -> Generator[StoredMessage | DamagedError, None, None]:
        for serial in serials:
            self.calls.append(("read", serial))
            yield self.messages[serial]

    def read_identifiers(self, serial: int) -> StoredIdentifiers:
        found = self.messages[serial]
        if isinstance(found, DamagedError):
            raise found
        return StoredIdentifiers(serial, found.descriptor.message_id, b"", b"")

    def set_aside(self, damaged: Sequence[tuple[int, str]], now: float) -> None:
        self._do("set aside", list(damaged), now)

    def tidy(self) -> None:
        self._do("tidy")

    def make_room(self) -> None:
        self._do("make room")

    def shrink(self) -> None:
        self._do("shrink")
        self.log = 0

    def needed_bytes(self, added_bytes: int) -> int:
        return added_bytes + self.log

    def reusable_bytes(self) -> int:
        return self.reusable

    def changed_by_others(self) -> str:
        return self.evidence

    def backup(self, target: DataFolder) -> None:
        self._do("backup", target.path)

    def close(self, *, write: bool) -> None:
        self._do("close", write)


def said(change: Change) -> object:
    """Return the serial of a message, negative if it is removed, or the name of an object."""
    match change:
        case MessageAdded(each):
            return each.serial
        case MessageRemoved(serial):
            return -serial
        case BackoutCounted(serial, count):
            return serial, count
        case ObjectDefined(kind, name):
            return kind, name
        case QueueCleared(name):
            return name
        case _:
            return change


class Kit:
    """A store over a scripted medium, and the answers of its calls."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder, self.clock, self.runner = folder, ManualClock(), Stepping()
        runner: Any = self.runner
        options = {"free_bytes_min": 0} | options
        self.store = DurableStore(folder, self._open, world=World(self.clock, runner=runner), **options)
        self.answers: list[tuple[str, str | None]] = []

    def _open(self, folder: DataFolder) -> Any:
        self.medium = ScriptedMedium(folder)
        return self.medium

    def write(self, name: str, *changes: Change, waits: bool = True) -> None:
        def done(error: Exception | None) -> None:
            self.answers.append((name, None if error is None else str(error)))

        self.store.write(changes, done if waits else None)

    def run(self) -> list[object]:
        """Let the writer work, and return the calls of the medium."""
        self.medium.calls.clear()
        self.runner.run()
        return self.medium.calls.copy()


def add(serial: int, queue: str = QUEUE) -> Change:
    return MessageAdded(message(serial, queue=queue))


FULL = NoRoomError("database or disk is full")


def full(folder: Path) -> str:
    return (
        f"MQCMIT failed: MQRC_STORAGE_MEDIUM_FULL (2192). There is no room left in {folder}. "
        "The disk is full: puts are refused, gets continue. Free some space, or drain the queues."
    )


def after_a_release(kit: Kit) -> list[object]:
    kit.store.release_in_flight(())
    return kit.run()


def recorded(folder: Path) -> dict[int, int]:
    marks = InFlightMarks(folder / "in_flight")
    try:
        return marks.recorded()
    finally:
        marks.close()
