"""Compares the media of the durable store with each other and with the disk, by turns in one run.

`python -m benchmarks.stores [depth]` prints the table. The floor of a rate writes and syncs the bodies in one
file: one write for the puts, and one for the gets. The figures are of the medium alone, without the writer's thread.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.folder import FolderError
from mqflow.embedded.storage.log_store import LogStore
from mqflow.embedded.storage.medium import Medium
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import Change, MessageAdded, MessageRemoved, QueueDefined, StoredMessage
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence

__all__ = ("main",)

STORES: dict[str, type[SqliteStore | LogStore]] = {"sqlite": SqliteStore, "log": LogStore}
QUEUE = "ORDERS.IN"
BODY_BYTES = 1024
ROUNDS = 5
# What a removal and a frame of a group need on any disk.
REMOVAL_BYTES = 64


def _message(serial: int) -> StoredMessage:
    descriptor = MessageDescriptor(persistence=Persistence.PERSISTENT, message_id=serial.to_bytes(24), format="MQSTR")
    return StoredMessage(
        serial=serial, queue=QUEUE, order_priority=0, descriptor=descriptor, body=os.urandom(BODY_BYTES), body_bytes=BODY_BYTES
    )


@contextmanager
def _opened(kind: str, folder: Path) -> Iterator[tuple[DurableStore, Medium]]:
    store = STORES[kind](folder)
    try:
        store.load()
        medium = store._medium  # noqa: SLF001 - the benchmark measures what is below the writer's thread
        medium.make([QueueDefined(QueueAttributes(name=QUEUE))], synced=True)
        yield store, medium
    finally:
        store.close()


class Work:
    """Puts and gets of one medium, in units of `unit` messages. Each round uses new serials."""

    def __init__(self, make: Callable[[list[Change]], None], unit: int, first_serial: int = 1) -> None:
        self._make = make
        self._unit = unit
        self._serial = first_serial

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
    """Yield a line for each medium: its rate over the floor's, processor time, bytes and writes of each message."""
    with _opened("sqlite", folder / "s") as (_, sqlite), _opened("log", folder / "l") as (_, log):
        works = {
            "floor": Work(_floor(folder), unit),
            "sqlite": Work(_maker(sqlite), unit),
            "log": Work(_maker(log), unit),
        }
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
                f"unit {unit:3} {name:6}: {middle[0]:8.0f}/s, {ratio:4.2f} of the floor, {middle[1]:5.0f} us processor, "
                f"{middle[2]:6.0f} bytes and {middle[3]:4.2f} writes a message"
            )


def depth(kind: str, folder: Path, messages: int) -> Iterator[str]:
    """Yield the figures of a deep queue: fill, size, rate one by one, backup and open."""
    with _opened(kind, folder / kind) as (store, medium):
        began = time.process_time()
        for start in range(1, messages + 1, 1000):
            medium.make([MessageAdded(_message(serial)) for serial in range(start, start + 1000)], synced=True)
            medium.tidy()
        filled = time.process_time() - began
        work = Work(_maker(medium), 1, first_serial=10**8)
        began = time.process_time()
        work.round(300)
        one_by_one = (time.process_time() - began) / 300 * 1e6
        began = time.process_time()
        store.backup(folder / f"{kind} copy")
        copied = time.process_time() - began
    size = sum(path.stat().st_size for path in (folder / kind).rglob("*") if path.is_file())
    before, wall, processor = _resident(), time.perf_counter(), time.process_time()
    store = STORES[kind](folder / kind)
    snapshot = store.load()
    first = next(iter(snapshot.serials)).serials[0]
    assert store.read_messages([first], 0)[first] is not None
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    grown = _resident() - before
    store.close()
    yield f"{messages} messages in {kind}: {filled / messages * 1e6:.0f} us processor to put, {size / messages:.0f} bytes each"
    yield f"  {one_by_one:.0f} us processor for a put and a get one by one, {copied:.2f} s processor for a backup"
    yield f"  open to first message: {wall:.2f} s ({processor:.2f} s processor), {grown / messages:.0f} bytes of memory each"


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def flipped_bit(kind: str, folder: Path) -> str:
    """Flip a bit in the middle of 300 acknowledged messages of a killed owner, and say what a restart makes of it."""
    outcomes = {"none": 0, "set aside": 0, "refused": 0, "lost in silence": 0}
    flips = 40
    with _opened(kind, folder / kind) as (_, medium):
        for serial in range(1, 301):
            medium.make([MessageAdded(_message(serial))], synced=True)
        shutil.copytree(folder / kind, folder / "killed")
    for flip in range(flips):
        damaged = folder / f"flip {flip}"
        shutil.copytree(folder / "killed", damaged)
        files = [path for path in damaged.rglob("*") if path.suffix in {".segment", ".db-wal"}]
        whole = bytearray(files[0].read_bytes())
        whole[len(whole.rstrip(b"\0")) * (10 + 2 * flip) // 100] ^= 4
        files[0].write_bytes(whole)
        outcomes[_outcome(kind, damaged)] += 1
        shutil.rmtree(damaged)
    return f"{flips} flipped bits in {kind}: " + ", ".join(f"{count} {name}" for name, count in outcomes.items() if count)


def _outcome(kind: str, folder: Path) -> str:
    try:
        store = STORES[kind](folder)
        snapshot = store.load()
    except FolderError:
        return "refused"
    serials = [serial for entry in snapshot.serials for serial in entry.serials]
    read = [store.read_messages([serial], 0)[serial] for serial in serials]
    store.close()
    if len(serials) + len(snapshot.quarantined) < 300:
        return "lost in silence"
    return "set aside" if None in read or snapshot.quarantined else "none"


def main(messages: str = "100000") -> None:
    """Print every figure."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("STORES_FOLDER")) as made:
        folder = Path(made)
        for unit, units in ((1, 200), (10, 60), (100, 12)):
            for line in rates(_new(folder / str(unit)), unit, units):
                print(line, flush=True)
        for kind in STORES:
            print(flipped_bit(kind, _new(folder / f"flips of {kind}")), flush=True)
        for kind in STORES:
            for line in depth(kind, _new(folder / f"depth of {kind}"), int(messages)):
                print(line, flush=True)


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main(*sys.argv[1:])
