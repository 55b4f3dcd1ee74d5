"""Standby processes, the processes that wait behind the first standby, and queries about both."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqflow.embedded.storage.folder import DataFolder, UnsafeFolderError, prepare_folder
from mqflow.embedded.storage.standby import LockWait, first_in_line, owner_pid, standby_pid, until_free
from mqflow.world import THREADS

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
        assert self._times.acquire(timeout=120)

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
