"""Compares the durable store with the disk, in turns in one run. `python -m benchmarks.store` prints the table.

The floor of a rate writes and syncs the bodies in one file: one write for the puts, and one for the gets. The figures of the
store are of its medium alone, without the writer's thread.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from mqflow.embedded.storage.medium import Medium
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import Change, MessageAdded, MessageRemoved, QueueDefined, StoredMessage
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence

__all__ = ("main",)

QUEUE = "ORDERS.IN"
BODY_BYTES = 1024
ROUNDS = 5
# The bytes that the removal of a message, or the frame of a group, needs on any disk.
REMOVAL_BYTES = 64


def _message(serial: int) -> StoredMessage:
    descriptor = MessageDescriptor(persistence=Persistence.PERSISTENT, message_id=serial.to_bytes(24), format="MQSTR")
    return StoredMessage(
        serial=serial, queue=QUEUE, order_priority=0, descriptor=descriptor, body=os.urandom(BODY_BYTES), body_bytes=BODY_BYTES
    )


@contextmanager
def _opened(folder: Path) -> Iterator[Medium]:
    store = SqliteStore(folder)
    try:
        store.load()
        medium = store._medium  # noqa: SLF001 - the benchmark measures what is below the writer's thread
        medium.make([QueueDefined(QueueAttributes(name=QUEUE))], synced=True)
        yield medium
    finally:
        store.close()


class Work:
    """Puts and gets in one file or one store, in units of `unit` messages. Each round uses new serials."""

    def __init__(self, make: Callable[[list[Change]], None], unit: int) -> None:
        self._make = make
        self._unit = unit
        self._serial = 1

    def round(self, units: int) -> None:
        for start in range(self._serial, self._serial + units * self._unit, self._unit):
            serials = range(start, start + self._unit)
            self._make([MessageAdded(_message(serial)) for serial in serials])
            self._make([MessageRemoved(serial) for serial in serials])
        self._serial += units * self._unit


def _maker(medium: Medium) -> Callable[[list[Change]], None]:
    def make(changes: list[Change]) -> None:
        medium.make(changes, synced=True)
        medium.tidy()

    return make


def _floor(folder: Path) -> Callable[[list[Change]], None]:
    descriptor = os.open(folder / "floor", os.O_RDWR | os.O_CREAT, 0o600)
    length = 32 * 1024 * 1024
    os.pwrite(descriptor, bytes(length), 0)
    os.fsync(descriptor)
    at = 0

    def make(changes: list[Change]) -> None:
        nonlocal at
        data = b"".join(c.message.body if isinstance(c, MessageAdded) else bytes(REMOVAL_BYTES) for c in changes)
        at = 0 if at + len(data) > length else at
        os.pwrite(descriptor, data, at)
        os.fdatasync(descriptor)
        at += len(data)

    return make


def _written() -> tuple[int, int]:
    """Return the bytes and the calls of all writes of this process."""
    found = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(found["wchar"]), int(found["syscw"])


def rates(folder: Path, unit: int, units: int) -> Iterator[str]:
    """Yield a line for the floor and a line for the store: rate, ratio to the floor, and processor time, bytes and writes."""
    with _opened(folder / "data") as medium:
        works = {"floor": Work(_floor(folder), unit), "store": Work(_maker(medium), unit)}
        figures: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in works}
        for _ in range(ROUNDS):
            for name, work in works.items():
                before, wall, processor = _written(), time.perf_counter(), time.process_time()
                work.round(units)
                processor, wall = time.process_time() - processor, time.perf_counter() - wall
                after = _written()
                messages = units * unit
                figures[name].append(
                    (
                        messages / wall,
                        processor / messages * 1e6,
                        (after[0] - before[0]) / messages,
                        (after[1] - before[1]) / messages,
                    )
                )
        floors = [figure[0] for figure in figures["floor"]]
        for name, found in figures.items():
            ratio = median(figure[0] / floor for figure, floor in zip(found, floors, strict=True))
            middle = [median(column) for column in zip(*found, strict=True)]
            yield (
                f"unit {unit:3} {name:5}: {middle[0]:8.0f}/s, {ratio:4.2f} of the floor, {middle[1]:5.0f} us processor, "
                f"{middle[2]:6.0f} bytes and {middle[3]:4.2f} writes a message"
            )


def main() -> None:
    """Print every figure."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as made:
        for unit, units in ((1, 200), (10, 60), (100, 12)):
            folder = Path(made) / str(unit)
            folder.mkdir()
            for line in rates(folder, unit, units):
                print(line, flush=True)


if __name__ == "__main__":
    main()
