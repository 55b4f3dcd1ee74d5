"""An owner that has lost its folder stops for good, and acknowledges no further change.

Source: facts on reliability, rows "active loses the lock file" and "shared folder without working locks".
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqflow.embedded.storage.fence import Fence
from mqflow.embedded.storage.load import read_epoch
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


def database_replaced(folder: Path) -> None:
    shutil.copyfile(folder / "queue_manager.db", folder / "copy")
    (folder / "copy").rename(folder / "queue_manager.db")


# In another process: a close of the file here would also drop the lock that SQLite has on the file.
_RESTORE = "import sys; data = open(sys.argv[1], 'rb').read(); open(sys.argv[1], 'wb').write(data)"


def copy_restored_in_place(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", _RESTORE, str(folder / "queue_manager.db")], check=True)


def log_deleted(folder: Path) -> None:
    (folder / "queue_manager.db-wal").unlink()


HARMS = (moved_away, lock_deleted, taken_by_a_later_owner, database_replaced, copy_restored_in_place, log_deleted)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(folder: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(folder)
    opened.load()
    write(opened, DEFINITIONS)
    yield opened
    with contextlib.suppress(MQIError):  # the queue manager has stopped, or stops now
        opened.close()


@pytest.mark.parametrize("harm", HARMS)
def test_an_owner_stops_for_good_when(harm: Harm, store: SqliteStore, folder: Path) -> None:
    assert write(store, added(1)) is None

    harm(folder)

    for serial in (2, 3):
        answer = write(store, added(serial))
        assert isinstance(answer, MQIError)
        assert Reason.CALL_INTERRUPTED == answer.reason
        assert "while it was in use" in str(answer)


@pytest.mark.parametrize("harm", HARMS[1:])  # nobody knows the room in a folder that is gone
def test_without_the_fence_no_check_notices_the_loss(
    harm: Harm, store: SqliteStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fence, "broken", lambda _: "")

    harm(folder)

    assert write(store, added(1)) is None


def test_a_checkpoint_of_its_own_stops_no_owner(store: SqliteStore) -> None:
    for serial in range(1, 40):
        assert write(store, [MessageAdded(message(serial, body=bytes(200_000)))]) is None

    assert write(store, added(40)) is None


def test_each_owner_has_a_later_epoch_and_says_it_beside_its_process(folder: Path) -> None:
    said: list[list[str]] = []
    for _ in range(3):
        store = SqliteStore(folder)
        store.load()
        assert read_epoch(store._database) == len(said) + 1
        said.append((folder / "owner.lock").read_text().split())
        store.close()

    assert [[str(os.getpid()), str(epoch)] for epoch in (1, 2, 3)] == said
