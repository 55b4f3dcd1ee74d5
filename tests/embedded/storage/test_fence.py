"""An owner that has lost its folder stops permanently, and acknowledges no further change."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqflow.embedded.storage.durable_store import DurableStore
from mqflow.embedded.storage.fence import Fence, FileWatch
from mqflow.embedded.storage.folder import prepare_folder
from mqflow.embedded.storage.owner_lock import take_ownership
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import MessageAdded
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from tests.embedded.storage.stored_messages import DEFINITIONS, added, message, write

Harm = Callable[[Path], None]


def moved_away(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def lock_deleted(folder: Path) -> None:
    (folder / "owner.lock").unlink()


def taken_by_a_later_owner(folder: Path) -> None:
    """Take the lock a second time, as on a file system that grants it twice."""
    descriptor = os.open(folder / "owner.lock", os.O_WRONLY)
    os.pwrite(descriptor, f"{os.getpid():<19}\n{2:<19}\n".encode(), 0)
    os.close(descriptor)


def _data(folder: Path) -> Path:
    """Return the file that a commit relies on: the database, or the last segment of the log."""
    return max((folder / "log").glob("*.segment"), default=folder / "queue_manager.db")


def data_replaced(folder: Path) -> None:
    shutil.copyfile(_data(folder), folder / "copy")
    (folder / "copy").rename(_data(folder))


# In another process: a close of the file here would also drop the lock that SQLite has on the file.
_RESTORE = "import sys; data = open(sys.argv[1], 'rb').read(); open(sys.argv[1], 'wb').write(data)"


def copy_restored_in_place(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", _RESTORE, str(_data(folder))], check=True)


def log_deleted(folder: Path) -> None:
    log = folder / "queue_manager.db-wal"
    (log if log.exists() else _data(folder)).unlink()


HARMS = (moved_away, lock_deleted, taken_by_a_later_owner, data_replaced, copy_restored_in_place, log_deleted)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(folder: Path) -> Iterator[DurableStore]:
    opened = SqliteStore(folder)
    opened.load()
    write(opened, DEFINITIONS)
    yield opened
    with contextlib.suppress(MQIError):  # the queue manager has stopped, or stops now
        opened.close()


@pytest.mark.parametrize("harm", HARMS)
def test_an_owner_stops_permanently_when(harm: Harm, store: DurableStore, folder: Path) -> None:
    assert write(store, added(1)) is None

    harm(folder)

    for serial in (2, 3):
        answer = write(store, added(serial))
        assert isinstance(answer, MQIError)
        assert Reason.CALL_INTERRUPTED == answer.reason
        assert "while it was in use" in str(answer)


@pytest.mark.parametrize("harm", HARMS[1:])  # nobody knows the room in a folder that is gone
def test_without_the_fence_no_check_notices_the_loss(
    harm: Harm, store: DurableStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fence, "broken", lambda _: "")

    harm(folder)

    assert write(store, added(1)) is None


def test_a_checkpoint_of_its_own_stops_no_owner(store: DurableStore) -> None:
    for serial in range(1, 40):
        assert write(store, [MessageAdded(message(serial, body=bytes(200_000)))]) is None

    assert write(store, added(40)) is None


def test_each_owner_has_a_later_epoch_and_says_it_beside_its_process(folder: Path) -> None:
    said: list[list[str]] = []
    for _ in range(3):
        store = SqliteStore(folder)
        store.load()
        assert store._medium.epoch() == len(said) + 1
        said.append((folder / "owner.lock").read_text().split())
        store.close()

    assert [[str(os.getpid()), str(epoch)] for epoch in (1, 2, 3)] == said


def test_a_watched_file_is_the_same_until_another_program_changes_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    watch = FileWatch(path)
    assert (True, True) == (watch.unchanged(), watch.same_file())

    path.write_bytes(b"a")  # a file that did not exist before counts as known from now on
    assert (False, True, True) == (watch.unchanged(), watch.same_file(), watch.unchanged())
    path.write_bytes(b"ab")
    assert (False, True) == (watch.unchanged(), watch.same_file())
    watch.renew()
    assert (True, True) == (watch.unchanged(), watch.same_file())
    os.utime(path, ns=(1, 1))
    assert (False, True) == (watch.unchanged(), watch.same_file())
    watch.renew()
    (tmp_path / "other").write_bytes(b"ab")
    (tmp_path / "other").rename(path)
    os.utime(path, ns=(1, 1))
    assert (False, False) == (watch.unchanged(), watch.same_file())
    path.unlink()
    assert (False, False) == (watch.unchanged(), watch.same_file())


def test_the_evidence_names_the_lock_before_the_files(tmp_path: Path) -> None:
    lock = take_ownership(prepare_folder(tmp_path, create=True), lambda: None, lambda _: None)
    fence = Fence(lock, lambda: "its files changed")

    assert "its files changed" == fence.broken()
    lock.release()
    assert "its lock was deleted, replaced, or taken by a later owner" == fence.broken()
