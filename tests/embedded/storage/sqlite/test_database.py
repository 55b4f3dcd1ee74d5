"""The settings of the database, and the errors of SQLite that mean a full disk."""

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.storage.folder import (
    DamagedFolderError,
    ForeignFolderError,
    UnsafeFolderError,
    UnusableFileError,
    prepare_folder,
)
from mqflow.embedded.storage.sqlite.database import APPLICATION_ID, is_full, open_database
from mqflow.embedded.storage.sqlite.folder_summary import messages_in, name_in
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason

WRITES, HALF = os.write, lambda descriptor, data: os.pwrite(descriptor, data[:-1], 0)


def fails(number: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("code", "write", "full"),
    [
        (sqlite3.SQLITE_FULL, WRITES, True),
        (sqlite3.SQLITE_FULL | 1 << 8, WRITES, True),
        (sqlite3.SQLITE_IOERR_WRITE, WRITES, False),
        (sqlite3.SQLITE_IOERR_WRITE, HALF, True),
        (sqlite3.SQLITE_IOERR_WRITE, fails(errno.ENOSPC), True),
        (sqlite3.SQLITE_IOERR_WRITE, fails(errno.EDQUOT), True),
        (sqlite3.SQLITE_IOERR_WRITE, fails(errno.EIO), False),
        (sqlite3.SQLITE_IOERR_FSYNC, HALF, False),
        (sqlite3.SQLITE_CANTOPEN, HALF, True),
        (sqlite3.SQLITE_CANTOPEN_FULLPATH, HALF, True),
        (sqlite3.SQLITE_CANTOPEN, WRITES, False),
        (sqlite3.SQLITE_CORRUPT, HALF, False),
        (None, HALF, False),
    ],
)
def test_an_error_means_a_full_disk_if_sqlite_says_so_or_if_no_other_write_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None, write: Any, *, full: bool
) -> None:
    error = sqlite3.OperationalError("odd")
    if code is not None:
        error.sqlite_errorcode = code
    monkeypatch.setattr("os.write", write)

    assert full == is_full(error, prepare_folder(tmp_path, create=True))
    assert [] == list(tmp_path.iterdir())


def test_a_quota_that_refuses_even_the_file_of_the_other_write_means_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = sqlite3.OperationalError("odd")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    folder = prepare_folder(tmp_path, create=True)
    monkeypatch.setattr("os.open", fails(errno.EDQUOT))

    assert is_full(error, folder)


@pytest.mark.parametrize(("is_new", "said"), [(True, "for a new queue manager"), (False, "left")])
def test_a_database_that_cannot_be_opened_on_a_full_disk_is_2192_and_another_error_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_new: bool, said: str
) -> None:
    folder = prepare_folder(tmp_path, create=True)
    if not is_new:
        open_database(folder).close()
    error = sqlite3.OperationalError("odd")

    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("mqflow.embedded.storage.sqlite.database._upgrade", broken)
    with pytest.raises(DamagedFolderError, match=r"queue_manager\.db is damaged: odd\."):
        open_database(folder)
    if is_new:
        folder.database.unlink()
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    with pytest.raises(MQIError) as full:
        open_database(folder)

    expected = (Reason.STORAGE_MEDIUM_FULL, "MQCONN", f"There is no room {said} in {tmp_path}")
    assert expected == (full.value.reason, full.value.verb, full.value.detail)


@pytest.mark.parametrize("transaction", ["BEGIN", "BEGIN EXCLUSIVE"])
def test_a_database_that_another_program_has_opened_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transaction: str
) -> None:
    folder = prepare_folder(tmp_path, create=True)
    open_database(folder).close()
    monkeypatch.setattr("mqflow.embedded.storage.sqlite.database.sqlite3.connect", partial(sqlite3.connect, timeout=0))
    with closing(sqlite3.connect(folder.database, isolation_level=None)) as other:
        other.execute(transaction)
        other.execute("SELECT count(*) FROM message").fetchall()

        with pytest.raises(
            UnsafeFolderError, match=r"another program has opened queue_manager\.db\. Nothing was changed\. End"
        ):
            open_database(folder)

    open_database(folder).close()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM])
def test_a_database_that_this_user_cannot_write_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    error = sqlite3.OperationalError("attempt to write a readonly database")
    error.sqlite_errorcode = code

    def refused(*_: object) -> None:
        raise error

    monkeypatch.setattr("mqflow.embedded.storage.sqlite.database._recognise", refused)
    with pytest.raises(
        UnusableFileError, match=r"attempt to write a readonly database\. .* right to write it and its folder\."
    ):
        open_database(prepare_folder(tmp_path, create=True))


def test_a_damaged_definition_whose_error_sqlite3_cannot_decode_is_damage(tmp_path: Path) -> None:
    folder = prepare_folder(tmp_path, create=True)
    open_database(folder).close()
    whole = folder.database.read_bytes()
    undecodable = 0

    for place in range(start := whole.index(b"CREATE TABLE"), start + 60):
        folder.database.write_bytes(whole[:place] + bytes([whole[place] ^ 0x80]) + whole[place + 1 :])
        with pytest.raises(DamagedFolderError, match="is damaged: ") as raised:
            open_database(folder)
        assert ("", 0) == (name_in(folder), messages_in(folder))
        undecodable += isinstance(raised.value.__cause__, UnicodeDecodeError)

    assert undecodable


def test_a_database_has_settings_that_lose_nothing(tmp_path: Path) -> None:
    expected: dict[str, object] = {
        "locking_mode": b"exclusive", "journal_mode": b"wal", "synchronous": 2, "fullfsync": 1, "checkpoint_fullfsync": 1,
        "wal_autocheckpoint": 0, "mmap_size": None, "cell_size_check": 1, "trusted_schema": 0, "page_size": 4096,
        "application_id": APPLICATION_ID, "user_version": 2,
    }  # fmt: skip
    folder = prepare_folder(tmp_path, create=True)
    for _ in range(2):
        with closing(open_database(folder)) as database:
            found = {name: (database.execute(f"PRAGMA {name}").fetchone() or [None])[0] for name in expected}
            found["mmap_size"] = found["mmap_size"] or None
            assert (expected, 0o600) == (found, folder.database.stat().st_mode & 0o777)


def test_a_database_of_an_unknown_application_is_refused_and_closed(tmp_path: Path) -> None:
    folder = prepare_folder(tmp_path, create=True)
    with closing(sqlite3.connect(folder.database)) as other:
        other.execute("CREATE TABLE theirs (id)")

    with pytest.raises(
        ForeignFolderError, match=r"queue_manager\.db is not .*: it is another application's database \(application id 0x0\)"
    ):
        open_database(folder)

    with closing(sqlite3.connect(folder.database)) as other:
        other.execute("INSERT INTO theirs VALUES (1)")
