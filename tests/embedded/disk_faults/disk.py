"""A faulty disk for processes under test: compiles and preloads `disk.c`, and replays its recordings as power cuts."""

import random
import shutil
import struct
import subprocess
import sys
import tempfile
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from operator import itemgetter
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from tests.own_programs import run_module

_HEAD = struct.Struct("<4q")
_SECTOR_BYTES = 512


class Kind(IntEnum):
    WRITE = 1
    TRUNCATE = 2
    SYNC = 3
    DELETE = 4
    MARK = 5


class Event(Struct, frozen=True):
    """One event on the disk, or a mark of the test itself (its number is in `offset`)."""

    kind: Kind
    file: int
    offset: int
    data: bytes


class Disk(Struct, frozen=True):
    """The compiled library."""

    library: Path

    def run(self, module: str, *arguments: str, folder: Path, **faults: object) -> subprocess.CompletedProcess[str]:
        """Run a module of the tests on this disk, in a process of its own, with these faults of `disk.c`."""
        environment = {f"DISK_{name.upper()}": str(value) for name, value in faults.items()}
        environment |= {"LD_PRELOAD": str(self.library), "DISK_FOLDER": str(folder), "DISK_LIBRARY": str(self.library)}
        return run_module(module, folder, *arguments, environment=environment)


def build_disk(folder: Path) -> Disk:
    """Compile `disk.c`. Skips the test if there is no C compiler or no loader that preloads."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler on Linux: the faulty disk is a preloaded library")
    library = folder / "libdisk.so"
    command = [
        compiler,
        "-O1",
        "-shared",
        "-fPIC",
        "-o",
        str(library),
        str(Path(__file__).with_name("disk.c")),
        "-ldl",
        "-lpthread",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return Disk(library)


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Yield a folder, in memory if possible. It is for hundreds of stores whose syncs need not reach a disk."""
    memory = Path("/dev/shm")  # noqa: S108 - only the place of a temporary folder
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


class Recording:
    """The events of a disk. Keeps each file as of each sync, so that a power cut applies only the later changes."""

    _FILES: Final = ((0, "queue_manager.db"), (1, "queue_manager.db-wal"), (4, "queue_manager.db-synced"))

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        #: For each file, the places in the recording after which its contents were synced, and these contents.
        self._synced: dict[int, list[tuple[int, bytes | None]]] = {}
        for file, _ in self._FILES:
            synced: list[tuple[int, bytes | None]] = [(0, None)]
            content: bytearray | None = None
            for place, event in enumerate(events, start=1):
                if event.file == file and event.kind == Kind.SYNC:
                    synced.append((place, None if content is None else bytes(content)))
                elif event.file == file and event.kind != Kind.MARK:
                    content = _applied(content, event, None)
            self._synced[file] = synced

    def files_after_power_cut(self, cut: int, chance: random.Random) -> dict[str, bytes | bytearray]:
        """Return possible contents of the disk if the power fails after so many events.

        Each file has all its changes before its last sync. It has none, all, or some of its later changes, and writes can be
        torn at sectors.
        """
        lost = chance.choice(["all", "none", "some", "some"])
        found: dict[str, bytes | bytearray] = {}
        for file, name in self._FILES:
            place, base = self._synced[file][bisect(self._synced[file], cut, key=itemgetter(0)) - 1]
            content = None if base is None else bytearray(base)
            for event in self.events[place:cut]:
                mine = event.file == file and event.kind != Kind.MARK
                if mine and (lost == "none" or (lost == "some" and chance.random() < 0.6)):
                    content = _applied(content, event, chance if lost == "some" else None)
            if content is not None:
                found[name] = content
        return found


def recorded(log: Path) -> Recording:
    """Return a recording, with its events in order."""
    data = log.read_bytes()
    events: list[Event] = []
    at = 0
    while at < len(data):
        kind, file, offset, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        events.append(Event(Kind(kind), file, offset, data[at : at + length]))
        at += length
    return Recording(events)


def _applied(content: bytearray | None, event: Event, torn: random.Random | None) -> bytearray | None:
    if event.kind == Kind.DELETE:
        return None
    content = bytearray() if content is None else content
    if event.kind == Kind.TRUNCATE:
        del content[event.offset :]
        content.extend(bytes(event.offset - len(content)))
        return content
    content.extend(bytes(max(0, event.offset + len(event.data) - len(content))))
    for start in range(0, len(event.data), _SECTOR_BYTES):
        if torn is None or torn.random() < 0.9:
            piece = event.data[start : start + _SECTOR_BYTES]
            content[event.offset + start : event.offset + start + len(piece)] = piece
    return content
