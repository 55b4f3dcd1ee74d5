"""A store whose n-th system call fails. Each pair of a call and a fault is a point; the points of one life are all tried.

Run as a program on the faulty disk. Each point is a forked child with a folder of its own. The child stops at the first refused
step, as a queue manager without an answer does. The parent opens the folder without a fault, and prints a JSON line for each
group of points.
"""

import ctypes
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.embedded.storage.folder import FolderError
from mqflow.embedded.storage.sqlite import medium
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.embedded.disk_faults.scenario import Step, Stored, after, found_in, steps
from tests.embedded.storage.stored_messages import DEFINITIONS, reopened, write

__all__ = ("STEPS", "Fault", "Point", "Tried", "points")

STEPS: Final = 25
_PATIENCE_S: Final = 60
_CALLS_MAX: Final = 4096


class Fault(IntEnum):
    """The kinds of fault, with the numbers of `disk.c`."""

    KILL = 1
    KILL_HALFWAY = 2
    NO_SPACE = 3
    IO_ERROR = 4
    SHORT_WRITE = 5


_CALLS_OF: Final = {
    Fault.KILL: "wtsd", Fault.KILL_HALFWAY: "w", Fault.NO_SPACE: "ws", Fault.IO_ERROR: "rwtsd", Fault.SHORT_WRITE: "w",
}  # fmt: skip
"""The calls that each fault can meet, by the letters of `disk.c`."""


class Point(Struct, frozen=True):
    """A fault at one call, or from this call on."""

    call: int
    letter: str
    fault: Fault
    for_ever: bool


class Tried(Struct):
    """The counts of some points."""

    points: int = 0
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    wrong: list[str] = msgspec.field(default_factory=list)


def points(letters: str) -> list[Point]:
    """Return every point of a life that makes these calls."""
    return [
        Point(number, letter, fault, for_ever)
        for number, letter in enumerate(letters, start=1)
        for fault, reached in _CALLS_OF.items()
        if letter in reached
        for for_ever in ((False,) if fault in {Fault.KILL, Fault.KILL_HALFWAY} else (False, True))
    ]


class _Told(Struct):
    """The facts that the child knew before it ended."""

    #: The last step that the store answered with success, and the last step that the child asked for.
    answered: int = -1
    asked: int = -1
    #: The reason of the refused step, 0 for a refusal without a reason, or None.
    refused: int | None = None


def _live(folder: Path, life: Sequence[Step], tell: int) -> None:
    """Perform the steps up to the first refusal. Each line is one system call on a pipe."""
    store = SqliteStore(folder)
    store.load()
    for number, changes in enumerate((DEFINITIONS, *(step.changes for step in life))):
        os.write(tell, b"asked %d\n" % number)
        if number and not life[number - 1].waited_for:
            store.write(changes, None)
            continue
        error = write(store, changes)
        if error is not None:
            os.write(tell, b"refused %d\n" % int(getattr(error, "reason", 0)))
            break
        os.write(tell, b"answered %d\n" % number)
    store.close()


def _in_a_child(folder: Path, life: Sequence[Step], disk: ctypes.CDLL, point: Point | None) -> tuple[_Told, str, str]:
    """Run the life in a child with this fault. Return what it told, how it ended, and a letter for each call.

    A child that was killed has no letters.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a refused start prints its error
        signal.alarm(_PATIENCE_S)
        code = 1
        try:
            fault, at, for_ever = (point.fault, point.call, point.for_ever) if point else (0, 0, False)
            disk.disk_fault(ctypes.c_int64(fault), ctypes.c_int64(at), ctypes.c_int64(for_ever))
            _live(folder, life, writer)
            letters = ctypes.create_string_buffer(_CALLS_MAX)
            disk.disk_calls(letters, ctypes.c_int64(_CALLS_MAX))
            os.write(writer, b"calls %s\n" % letters.value)
            code = 0
        except (MQIError, FolderError, OSError):
            code = 2
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as lines:
        told, letters_told = _Told(), ""
        for line in lines:
            what, _, value = line.partition(" ")
            match what:
                case "asked":
                    told.asked = int(value)
                case "answered":
                    told.answered = int(value)
                case "refused":
                    told.refused = int(value)
                case _:
                    letters_told = value.strip()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    ended = {0: "ended", 2: "refused to start", -signal.SIGKILL: "killed", -signal.SIGALRM: "hung"}.get(
        code, f"failed ({code})"
    )
    return told, ended, letters_told


def _wrong(folder: Path, life: Sequence[Step], told: _Told, ended: str, point: Point, met: str) -> Iterator[str]:
    """Yield what is wrong after a life with this fault. `met` is the letter of the call that met the fault."""
    if ended not in {"ended", "refused to start", "killed"} or (ended == "killed" and point.fault > Fault.KILL_HALFWAY):
        yield f"the process {ended}"
    failed_sync = met == "s" and point.fault == Fault.IO_ERROR
    if failed_sync and told.refused not in {None, Reason.CALL_INTERRUPTED}:
        yield f"a failed sync was answered with {told.refused}, not with 2549"
    if met == "w" and point.fault == Fault.NO_SPACE and told.refused not in {None, Reason.STORAGE_MEDIUM_FULL}:
        yield f"a full disk was answered with {told.refused}, not with 2192"
    try:
        found = found_in(reopened(folder))
    except FolderError as error:
        if told.answered >= 0:
            yield f"the folder cannot be opened: {error}"
        return
    # 2192 is a clean refusal; any other refusal, and no answer, leave open whether the step happened.
    last = told.asked - 1 if told.refused == Reason.STORAGE_MEDIUM_FULL else told.asked
    allowed = [after(life[:number]) for number in range(max(told.answered, 0), max(last, told.answered, 0) + 1)]
    waits = told.refused is not None
    if not any(_agrees(found, each, counts_may_wait=waits) for each in allowed):
        yield f"found {found} after step {told.answered} was answered and step {told.asked} was asked for ({told.refused})"


def _agrees(found: Stored, allowed: Stored, *, counts_may_wait: bool) -> bool:
    """Return whether the contents are allowed. A backout count without a waiting caller can be missing if the disk failed."""
    if not counts_may_wait:
        return found == allowed
    return found.keys() == allowed.keys() and all(
        queue == allowed[serial][0] and count <= allowed[serial][1] for serial, (queue, count) in found.items()
    )


def main(where: str, seed: str, part: str, parts: str, last: str = str(_CALLS_MAX)) -> None:
    """Try one of several equal parts of the points of the life that this seed decides, up to the call `last`."""
    disk = ctypes.CDLL(os.environ["DISK_LIBRARY"])
    medium._LOG_PAGES_MAX = 60  # type: ignore[misc]  # so that a short life has checkpoints
    life, root, tried, counts = steps(int(seed), STEPS), Path(where), Tried(), Counter[str]()
    told, ended, letters = _in_a_child(_new(root / "whole"), life, disk, None)
    assert (ended, told.answered >= 0, told.refused) == ("ended", True, None), (ended, told)
    for number, point in enumerate(points(letters)):
        if number % int(parts) != int(part) or point.call > int(last):
            continue
        folder = _new(root / str(number))
        told, ended, made = _in_a_child(folder, life, disk, point)
        # Two threads make the calls, so their numbers can differ a little from the life without a fault.
        met = made[point.call - 1 : point.call] or point.letter
        how = "from then on" if point.for_ever else "once"
        tried.wrong += [
            f"call {point.call} ({point.letter}), {point.fault.name} {how}: {each}"
            for each in _wrong(folder, life, told, ended, point, met)
        ]
        tried.points += 1
        counts[point.fault.name.lower().replace("_", " ")] += 1
        counts[ended] += 1
        counts["refused with 2549"] += told.refused == Reason.CALL_INTERRUPTED
        counts["refused with 2192"] += told.refused == Reason.STORAGE_MEDIUM_FULL
        shutil.rmtree(folder)
    tried.counts = dict(counts)
    sys.stdout.buffer.write(msgspec.json.encode(tried))


def _new(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


if __name__ == "__main__":
    main(*sys.argv[1:])
