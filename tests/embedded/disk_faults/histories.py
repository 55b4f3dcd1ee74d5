"""Kills of an owner or of its applications, and the checker of their histories.

The killed process prints each line in one system call, so the kill loses no printed line. Half of the kills come between two
calls, the other half in the middle of a write to the database or its log.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.verbs import GetOptions
from tests.embedded.disk_faults.disk import Disk
from tests.embedded.disk_faults.kills import DONE, IN, define_queues

__all__ = ("kill_applications", "kill_owners", "violations")


class _History:
    """Checks the history line by line, and collects contradictions in `wrong`."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        #: The messages that can be on the input queue, in order of arrival, each with its possible BackoutCounts.
        self.counts: dict[str, set[int]] = {}
        #: The messages that need not be on the input queue, because their put never returned.
        self.doubtful: set[str] = set()
        #: Commits that never returned: the message of the get, and the message of the put in the same unit of work.
        self.undecided: dict[str, str] = {}
        #: Messages with a committed get; with a committed put; with a put that was certainly backed out.
        self.gone: set[str] = set()
        self.done: set[str] = set()
        self.never: set[str] = set()
        self._putting = ""
        self._getting = False
        self._committing = False
        self._held: dict[str, str] = {}

    def tell(self, line: str) -> None:
        what, *words = line.split()
        pairs = dict(word.split(">") for word in words if ">" in word)
        match what:
            case "asked-put":
                self._putting = words[0]
            case "put":
                self.counts[words[0]] = {0}
                self._putting = ""
            case "asked-get":
                self._getting = True
            case "got":
                self._getting = False
                self.seen(words[0], int(words[1]))
                self._held[words[0]] = ""
            case "asked-commit" | "asked-backout":
                self._getting = False
                self._held |= pairs
                self._committing = what == "asked-commit"
            case "committed":
                self._end(gone=pairs)
            case "backed-out":
                self._count_held()
                self.never |= set(pairs.values())
                self._end(gone={})
            case "life":
                self._killed()
            case _:
                self.wrong.append(f"what is {line!r}?")

    def seen(self, name: str, backout_count: int) -> None:
        """Check a delivery of this message with this BackoutCount."""
        if name not in self.counts:
            self.wrong.append(f"{name} was delivered after it was {'committed' if name in self.gone else 'never put'}")
            self.counts[name] = {backout_count}
            return
        if backout_count not in self.counts[name]:
            self.wrong.append(f"{name} was delivered with BackoutCount {backout_count}, not {self.counts[name]}")
        self.counts[name] = {backout_count}
        self.doubtful.discard(name)
        if name in self.undecided:  # so that commit did not happen
            self.never.add(self.undecided.pop(name))

    def _killed(self) -> None:
        if self._putting:
            self.counts[self._putting] = {0}
            self.doubtful.add(self._putting)
        if self._getting:
            self._next_may_be_counted()
        self._count_held()
        if self._committing:
            self.undecided |= self._held
        self._putting = ""
        self._getting = False
        self._end(gone={})

    def _next_may_be_counted(self) -> None:
        """Allow for a get that returned just before the kill, so that the process could not print the get."""
        for name in self.counts:
            if name not in self._held:
                self.counts[name] |= {count + 1 for count in self.counts[name]}
                if name not in self.doubtful and name not in self.undecided:
                    return

    def _count_held(self) -> None:
        for name in self._held:
            self.counts[name] = {count + 1 for count in self.counts[name]}

    def _end(self, gone: dict[str, str]) -> None:
        for name, moved in gone.items():
            del self.counts[name]
            self.gone.add(name)
            self.done.add(moved)
        self._held = {}
        self._committing = False


def violations(said: Iterable[str], left: list[tuple[str, int]], moved: list[str]) -> list[str]:
    """Return the contradictions between the history and the two queues at the end; empty if all is right."""
    history = _History()
    for line in said:
        history.tell(line)
    for name, backout_count in left:
        history.seen(name, backout_count)
    return history.wrong + list(_wrong_at_the_end(history, [name for name, _ in left], moved))


def _wrong_at_the_end(history: _History, left: list[str], moved: list[str]) -> Iterator[str]:
    for place, names in (("left", left), ("moved", moved)):
        yield from (f"{name} is there twice among what is {place}" for name in names if names.count(name) > 1)
    for name in history.counts:
        if name not in left and name not in history.doubtful and name not in history.undecided:
            yield f"{name} is lost"
    for name, other in history.undecided.items():
        if other not in moved:
            yield f"{name} is gone, and what was put in the same unit of work ({other}) is not there"
    yield from (f"{name} was committed and is not there" for name in history.done - set(moved))
    yield from (f"{name} was backed out and is there" for name in history.never & set(moved))
    expected = history.done | set(history.undecided.values())
    yield from (f"{name} is there and was never put" for name in set(moved) - expected - history.never)


def _drained(queue_manager: EmbeddedQueueManager) -> tuple[list[tuple[str, int]], list[str]]:
    found: dict[str, list[tuple[str, int]]] = {IN: [], DONE: []}
    connection = queue_manager.connect()
    for name, messages in found.items():
        handle = connection.open(name, OpenOption.INPUT_SHARED)
        while got := connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT)):
            messages.append((got.body.decode(), got.descriptor.backout_count))
    return found[IN], [name for name, _ in found[DONE]]


def kill_owners(disk: Disk, folder: Path, seed: int, lives: int, defect: str = "none") -> tuple[list[str], list[str]]:
    """Kill a queue manager many times. Return the history, and its contradictions."""
    ended = disk.run("tests.embedded.disk_faults.kills", str(seed), str(lives), defect, folder=folder / "data")
    assert (0, "") == (ended.returncode, ended.stderr)
    said = ended.stdout.splitlines()
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as queue_manager:
        return said, violations(said, *_drained(queue_manager))


def kill_applications(folder: Path, seed: int, lives: int) -> tuple[list[str], list[str]]:
    """Kill applications, not the owner. Return the history, and its contradictions, like `kill_owners`."""
    with EmbeddedQueueManager("QM1") as owner:
        define_queues(owner.administration)
        with serve(owner, folder / "qm") as server:
            ended = subprocess.run(
                [sys.executable, "-m", "tests.embedded.disk_faults.kills", str(server.path), str(seed), str(lives)],
                cwd=Path(__file__).parents[3],
                capture_output=True,
                text=True,
                timeout=50,
                check=False,
            )
        assert (0, "") == (ended.returncode, ended.stderr)
        said = ended.stdout.splitlines()
        return said, violations(said, *_drained(owner))
