"""Standby processes, the processes that wait behind the first standby, and queries about both."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.storage.folder import DataFolder, UnsafeFolderError, prepare_folder
from mqflow.embedded.storage.standby import LockWait, first_in_line, owner_pid, standby_pid, until_free
from mqflow.world import THREADS

_PATIENCE_S = 10.0
_HOLDER = """
import fcntl, sys
with open(sys.argv[1], "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


class Changes:
    """Counts its calls, one for each change."""

    def __init__(self) -> None:
        self._times = threading.Semaphore(0)

    def __call__(self) -> None:
        self._times.release()

    def wait(self) -> None:
        assert self._times.acquire(timeout=_PATIENCE_S), "nothing has changed"

    @property
    def nothing(self) -> bool:
        return not self._times.acquire(blocking=False)


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return prepare_folder(tmp_path, create=True)


@contextmanager
def held_by_another_process(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = (sys.executable, "-c", _HOLDER, str(path))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()
        try:
            yield holder
        finally:
            holder.kill()


def test_a_waiting_standby_gets_the_lock_when_the_owner_is_killed(folder: DataFolder) -> None:
    changes = Changes()
    with held_by_another_process(folder.lock) as owner, until_free(folder, THREADS, changes) as free:
        assert (False, True) == (free.held, changes.nothing)

        owner.send_signal(signal.SIGKILL)

        changes.wait()
        assert free.held
    assert owner_pid(folder) is None


def test_the_line_moves_on_one_by_one(folder: DataFolder) -> None:
    turns = [Changes(), Changes(), Changes()]
    first = first_in_line(folder, THREADS, turns[0])
    turns[0].wait()
    waiting = {first_in_line(folder, THREADS, turn): turn for turn in turns[1:]}

    assert os.getpid() == standby_pid(folder)
    assert all(turn.nothing for turn in waiting.values())
    first.release()
    while not any(wait.held for wait in waiting):
        threading.Event().wait(0.001)
    [second] = [wait for wait in waiting if wait.held]
    [third] = [wait for wait in waiting if wait is not second]
    waiting[second].wait()
    assert waiting[third].nothing
    second.release()
    waiting[third].wait()
    assert third.held
    third.release()
    assert standby_pid(folder) is None


def test_a_query_keeps_no_process_from_standing_by(folder: DataFolder) -> None:
    """A query takes the lock for a moment."""
    changes = Changes()
    path = folder.path / "standby.lock"
    with path.open("a") as looking:
        fcntl.flock(looking, fcntl.LOCK_EX)
        turn = first_in_line(folder, THREADS, changes)
        assert changes.nothing

    changes.wait()
    assert turn.held
    turn.release()


def test_a_standby_that_gave_up_releases_a_lock_granted_later(folder: DataFolder) -> None:
    changes, next_told = Changes(), Changes()
    with held_by_another_process(folder.lock):
        given_up = until_free(folder, THREADS, changes)
        given_up.release()
    changes.wait()

    assert not given_up.held
    with until_free(folder, THREADS, next_told) as free:
        next_told.wait()
        assert free.held


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 and later; this test forks on purpose
@pytest.mark.parametrize("held", [True, False], ids=["that holds it", "that waits for it"])
def test_a_forked_child_of_a_process(folder: DataFolder, *, held: bool) -> None:
    """The child shares the file and the lock, but no process must wait for the child after the parent has ended."""
    changes = Changes()
    wait, let_go = os.pipe()
    with folder.lock.open("a") as other:
        if not held:
            fcntl.flock(other, fcntl.LOCK_EX)
        waiting = until_free(folder, THREADS, changes)
        if held:
            changes.wait()
        child = os.fork()
        if child == 0:
            os.close(let_go)
            os.read(wait, 1)  # lives until the parent closes its end
            os._exit(int(waiting.held))
        os.close(wait)
        fcntl.flock(other, fcntl.LOCK_UN)
        if not held:
            changes.wait()

    _end_without_a_word(waiting)

    with until_free(folder, THREADS, changes) as free:
        changes.wait()
        assert free.held
    os.close(let_go)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _end_without_a_word(waiting: LockWait) -> None:
    """Close the file without an unlock, like the end of the process."""
    os.close(waiting._descriptor)
    waiting._descriptor = -1
    waiting._held = False


def test_a_lock_without_a_possible_wait_raises_an_error(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        del descriptor, operation
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    changes = Changes()
    waiting = until_free(folder, THREADS, changes)
    changes.wait()

    with pytest.raises(UnsafeFolderError, match=r"it cannot wait for a lock: No locks available\. Use a local disk"):
        assert waiting.held


def test_a_lock_that_was_passed_on_names_no_former_standby(folder: DataFolder) -> None:
    changes = Changes()
    with first_in_line(folder, THREADS, changes):
        changes.wait()
    with held_by_another_process(folder.path / "standby.lock"):  # a standby that has not written its number yet
        assert 0 == standby_pid(folder)


class Turn:
    """A runner whose one thread waits for its lock when the test says so."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def start(self, target: Callable[[], None], name: str) -> None:
        self.said.append(name)
        self.comes = target

    def changed(self) -> None:
        self.said.append("changed")


def waiting_for(folder: DataFolder, wait: Callable[..., LockWait]) -> tuple[Turn, LockWait]:
    turn: Any = Turn()
    return turn, wait(folder, turn, turn.changed)


@pytest.mark.parametrize(("wait", "name", "signed"), [(first_in_line, "standby.lock", True), (until_free, "owner.lock", False)])
def test_only_a_standby_writes_its_process_into_the_file_of_its_lock_until_it_releases_the_lock(
    folder: DataFolder, wait: Callable[..., LockWait], name: str, *, signed: bool
) -> None:
    path = folder.path / name
    turn, waiting = waiting_for(folder, wait)
    assert ([f"mqflow-standby-{folder.path.name}"], b"", 0o600, False) == (
        turn.said,
        path.read_bytes(),
        path.stat().st_mode & 0o777,
        waiting.held,
    )

    turn.comes()

    assert ("changed", True) == (turn.said[-1], waiting.held)
    assert (f"{os.getpid():<19}\n" if signed else "") == path.read_text()
    assert (os.getpid() if signed else 0) == (standby_pid if signed else owner_pid)(folder)
    for _ in range(2):
        waiting.release()
        assert (False, f"{'':<19}\n" if signed else "", -1) == (waiting.held, path.read_text(), waiting._descriptor)
    assert (None, None) == (standby_pid(folder), owner_pid(folder))


def test_a_standby_that_gave_up_before_its_turn_writes_nothing_and_holds_nothing(folder: DataFolder) -> None:
    turn, waiting = waiting_for(folder, first_in_line)
    with waiting:
        pass
    assert waiting._descriptor >= 0

    turn.comes()

    assert ("changed", False, -1) == (turn.said[-1], waiting.held, waiting._descriptor)
    assert (None, b"") == (standby_pid(folder), (folder.path / "standby.lock").read_bytes())


def test_a_full_disk_leaves_a_standby_without_a_name_and_with_its_lock(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    turn, waiting = waiting_for(folder, first_in_line)
    with monkeypatch.context() as filled:
        filled.setattr("os.pwrite", full)
        turn.comes()
        assert (True, 0) == (waiting.held, standby_pid(folder))
        waiting.release()
    assert (False, None) == (waiting.held, standby_pid(folder))


def test_a_lock_that_is_disowned_is_closed_without_an_unlock_and_twice_is_as_once(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, waiting = waiting_for(folder, first_in_line)
    turn.comes()
    monkeypatch.setattr("fcntl.flock", lambda *_: pytest.fail("a lock was changed"))
    for _ in range(2):
        waiting.disown()

    assert (False, -1) == (waiting.held, waiting._descriptor)
    assert f"{os.getpid():<19}\n" == (folder.path / "standby.lock").read_text()  # of the parent, which holds the lock


@pytest.mark.parametrize(("written", "pid"), [(f"{7:<19}\n{3:<19}\n", 7), ("", 0), (f"{'':<19}\n", 0)])
def test_the_holder_of_a_lock_is_named_by_the_first_line_of_its_file(folder: DataFolder, written: str, pid: int) -> None:
    assert (None, None) == (owner_pid(folder), standby_pid(folder))
    folder.lock.write_text(written)
    assert owner_pid(folder) is None
    with folder.lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert (pid, None) == (owner_pid(folder), standby_pid(folder))
