"""The steps of a test, and the contents that a store must have after any crash. Each step happens wholly or not at all.

As a program, this file performs the steps on a real store, and prints a line before each step and after its answer.
"""

import ctypes
import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from mqflow.embedded.storage import durable_store, group_commit
from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.requests import Done
from mqflow.embedded.storage.sqlite import medium
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import BackoutCounted, Change, MessageAdded, MessageRemoved
from tests.embedded.storage.stored_messages import DEFINITIONS, OTHER_QUEUE, QUEUE, Contents, message, say, write

Stored = dict[int, tuple[str, int]]
"""For each serial number of a message: its queue and its backout count."""


class Step(Struct, frozen=True):
    """Changes that belong together."""

    changes: tuple[Change, ...]
    #: Whether the store acknowledges the step. An acknowledged step must survive a power cut.
    waited_for: bool = True


def steps(seed: int, count: int) -> list[Step]:
    """Return puts, gets, moves to the backout queue and backouts in an order that the seed decides."""
    chance = random.Random(seed)  # noqa: S311 - the same life for the same seed
    made: list[Step] = []
    stored: Stored = {}
    serial = 0
    for _ in range(count):
        kind = chance.choice(["put", "put", "get", "move", "back out"]) if stored else "put"
        changes: list[Change] = []
        if kind in {"get", "move"}:
            changes.append(MessageRemoved(chance.choice(list(stored))))
        if kind == "back out":
            poison = chance.choice(list(stored))
            changes.append(BackoutCounted(poison, stored[poison][1] + 1))
        for _ in range({"put": chance.randint(1, 3), "move": 1}.get(kind, 0)):
            serial += 1
            body = chance.randbytes(chance.choice([10, 200, 3000, 9000]))
            changes.append(MessageAdded(message(serial, body, queue=OTHER_QUEUE if kind == "move" else QUEUE)))
        made.append(Step(tuple(changes), waited_for=kind != "back out"))
        stored = after([made[-1]], stored)
    return made


def after(performed: Sequence[Step], before: Stored | None = None) -> Stored:
    """Return the contents of a store after these steps."""
    stored = dict(before or {})
    for step in performed:
        for change in step.changes:
            match change:
                case MessageAdded(added):
                    stored[added.serial] = (added.queue, 0)
                case MessageRemoved(serial):
                    del stored[serial]
                case BackoutCounted(serial, backout_count):
                    stored[serial] = (stored[serial][0], backout_count)
                case _:
                    raise AssertionError(change)
    return stored


def found_in(contents: Contents) -> Stored:
    """Return the contents of a loaded store, in the same form."""
    return {each.serial: (each.queue, each.descriptor.backout_count) for each in contents.messages}


def perform(store: DurableStore, performed: Sequence[Step], tell: Callable[[str, int], None], at_once: int) -> None:
    """Perform the steps, up to `at_once` at a time, and print ``asked`` and ``answered`` with each step's number.

    If several steps are under way, the thread of the store waits after every second step, until the next two are asked for.
    So steps share a transaction on a fast disk too.
    """
    free, asked = threading.Semaphore(at_once), [threading.Event() for _ in range(len(performed) + 3)]
    for number, step in enumerate(performed, start=1):
        free.acquire()
        tell("asked", number)
        if step.waited_for:
            behind = asked[min(number + 2, len(performed))] if number % 2 and at_once > 1 else None
            store.write(step.changes, partial(_answered, tell, free, number, behind))
        else:
            store.write(step.changes, None)
            free.release()
        asked[number].set()
    for _ in range(at_once):
        free.acquire()


def _answered(
    tell: Callable[[str, int], None],
    free: threading.Semaphore,
    number: int,
    behind: threading.Event | None,
    error: Exception | None,
) -> None:
    if error is None:
        tell("answered", number)
    else:
        say("refused", number, int(getattr(error, "reason", 0)))
    free.release()
    if behind is not None:
        behind.wait()


def _answer_before_the_sync() -> None:
    durable_store._needs_sync = lambda call: False  # noqa: ARG005 - the name belongs to the signature


def _move_in_two_units_of_work() -> None:
    whole = DurableStore.write

    def write_in_parts(self: DurableStore, changes: Sequence[Change], done: Done | None) -> None:
        for change in changes[:-1]:
            whole(self, [change], None)
        whole(self, changes[-1:], done)

    DurableStore.write = write_in_parts  # type: ignore[method-assign]  # the defect
    group_commit.ITEMS_MAX = 0  # type: ignore[misc]  # so that one transaction does not make the parts whole again


DEFECTS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "answers before the sync": _answer_before_the_sync,
    "moves in two units of work": _move_in_two_units_of_work,
}
"""Defects of a store that the harness must notice."""


def _mark(disk: ctypes.CDLL, what: str, number: int) -> None:
    """Write the mark into the recording of the disk, among the writes."""
    disk.disk_mark(ctypes.c_int64(number if what == "answered" else -number))


def main(folder: str, seed: str, count: str, at_once: str, defect: str = "none") -> None:
    DEFECTS[defect]()
    medium._LOG_PAGES_MAX = 60  # type: ignore[misc]  # so that a short life has checkpoints
    library = os.environ.get("DISK_LIBRARY")
    tell = say if library is None else partial(_mark, ctypes.CDLL(library))
    store = SqliteStore(Path(folder))
    store.load()
    assert write(store, DEFINITIONS) is None
    tell("answered", 0)
    perform(store, steps(int(seed), int(count)), tell, int(at_once))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
