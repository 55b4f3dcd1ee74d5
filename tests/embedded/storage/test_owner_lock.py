"""A folder has at most one owner, whichever processes start and end."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqflow.embedded.storage.folder import FolderInUseError, UnsafeFolderError, UnusableFileError, prepare_folder
from mqflow.embedded.storage.owner_lock import OwnerLock, take_ownership


class _Forks:
    """Counts its calls, one for each fork."""

    def __init__(self) -> None:
        self.count = 0

    def forked(self) -> None:
        self.count += 1


_HOLDER = """
import sys
from pathlib import Path
from mqflow.embedded.storage.folder import prepare_folder
from mqflow.embedded.storage.owner_lock import take_ownership
lock = take_ownership(prepare_folder(Path(sys.argv[1]), create=True), print, lambda _: None)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def _held_by_another_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        yield holder
    finally:
        holder.kill()
        holder.communicate()


def _take(folder: Path, forks: _Forks | None = None) -> OwnerLock:
    return take_ownership(prepare_folder(folder, create=True), (forks or _Forks()).forked, lambda _: None)


def test_the_error_of_a_second_owner_names_the_process_that_holds_the_folder(tmp_path: Path) -> None:
    with (
        _held_by_another_process(tmp_path) as holder,
        pytest.raises(FolderInUseError, match=f"in use by process {holder.pid}") as refused,
    ):
        _take(tmp_path)

    assert refused.value.pid == holder.pid


def test_a_killed_owner_holds_nothing(tmp_path: Path) -> None:
    with _held_by_another_process(tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        lock = _take(tmp_path)

    assert lock.held
    lock.release()


def test_the_same_process_cannot_own_a_folder_twice(tmp_path: Path) -> None:
    lock = _take(tmp_path)

    with pytest.raises(FolderInUseError, match=str(os.getpid())):
        _take(tmp_path)
    lock.release()


def test_a_released_folder_can_be_owned_again(tmp_path: Path) -> None:
    _take(tmp_path).release()
    lock = _take(tmp_path)

    assert lock.held
    lock.release()
    assert not lock.held


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_lock_whose_file_is_another_one_now_is_not_held(tmp_path: Path, *, replaced: bool) -> None:
    lock = _take(tmp_path)

    (tmp_path / "owner.lock").rename(tmp_path / "moved")
    if replaced:
        (tmp_path / "owner.lock").write_text("1\n")

    assert not lock.held
    lock.release()


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "owner.lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UnusableFileError, match=r"owner\.lock cannot be opened: .*symbolic links"):
        _take(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12 and later; this test forks on purpose
def test_a_forked_child_does_not_keep_the_lock_of_a_dead_owner(tmp_path: Path) -> None:
    forks = _Forks()
    lock = _take(tmp_path, forks)
    ready, say_ready = os.pipe()
    wait, let_go = os.pipe()

    child = os.fork()
    if child == 0:
        os.close(let_go)
        os.write(say_ready, b"1" if forks.count == 1 and not lock.held else b"0")
        os.read(wait, 1)  # lives until the parent closes its end
        os._exit(0)
    os.close(wait)
    answer = os.read(ready, 1)
    os.close(lock._descriptor)  # like the end of the process: close, no unlock
    lock._descriptor = -1
    again = _take(tmp_path)

    assert answer == b"1"
    assert again.held
    again.release()
    os.close(let_go)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(say_ready)


def test_locks_that_keep_no_process_out_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcntl.flock", lambda *_: None)  # like a file system that grants every lock

    with pytest.raises(UnsafeFolderError, match="locks do not work"):
        _take(tmp_path)


def test_a_query_for_the_owner_keeps_no_process_from_becoming_the_owner(tmp_path: Path) -> None:
    """A query about the owner takes the lock for a moment. `mqflow qmgr start` queries while its child takes the folder."""
    folder = prepare_folder(tmp_path / "data", create=True)
    take_ownership(folder, _Forks().forked, lambda _: None).release()
    looking = os.open(folder.lock, os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_EX)

    lock = take_ownership(folder, _Forks().forked, lambda _: os.close(looking))

    assert lock.held


def test_the_file_names_the_owner_and_its_epoch_in_lines_of_twenty_bytes(tmp_path: Path) -> None:
    lock, path = _take(tmp_path), tmp_path / "owner.lock"
    pid = f"{os.getpid():<19}\n"
    assert pid == path.read_text()

    lock.claim(3)

    assert (f"{pid}{3:<19}\n", True) == (path.read_text(), lock.held)
    lock.release()
    lock.release()
    again = _take(tmp_path)
    assert (f"{pid}{3:<19}\n", True) == (path.read_text(), again.held)
    path.write_text(f"{pid}{4:<19}\n")
    assert not again.held
    again.release()


def test_an_owner_that_has_not_written_its_process_yet_is_another_process(tmp_path: Path) -> None:
    with (tmp_path / "owner.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        pauses: list[float] = []
        with pytest.raises(FolderInUseError) as refused:
            take_ownership(prepare_folder(tmp_path, create=True), _Forks().forked, pauses.append)

    assert (None, [0.001] * 19) == (refused.value.pid, pauses)
    assert "is in use by another process. A queue manager has one owner" in str(refused.value)


def test_a_lock_file_that_others_delete_again_and_again_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, deleted = fcntl.flock, list[int]()

    def delete(descriptor: int, operation: int) -> None:
        deleted.append(descriptor)
        (tmp_path / "owner.lock").unlink()
        flock(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", delete)
    with pytest.raises(UnsafeFolderError) as refused:
        _take(tmp_path)

    expected = f"The data folder {tmp_path} is not safe to use: owner.lock is being deleted by others. Find the process that"
    assert (expected, 8) == (str(refused.value)[: len(expected)], len(deleted))
    for descriptor in deleted:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_a_lock_file_that_was_deleted_once_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, calls = fcntl.flock, list[int]()

    def delete_once(descriptor: int, operation: int) -> None:
        calls.append(operation)
        if len(calls) == 1:
            (tmp_path / "owner.lock").unlink()
        flock(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", delete_once)
    lock = _take(tmp_path)

    assert (True, {fcntl.LOCK_EX | fcntl.LOCK_NB}, 3) == (lock.held, set(calls), len(calls))
    lock.release()
