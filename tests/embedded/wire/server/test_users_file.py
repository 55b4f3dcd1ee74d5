"""The file of the users: it is on the disk before it takes its name, and no change of two processes at once is lost."""

import errno
import fcntl
import os
import secrets
from pathlib import Path

import pytest

from mqflow.embedded.wire.server.users_file import UsersFile, UsersFileError


def test_the_whole_file_is_synced_before_it_replaces_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "users.json"
    users = UsersFile(path, secrets.token_bytes, cost=2)
    synced: list[tuple[bytes, bool]] = []

    def note(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").read_bytes(), path.exists()))

    monkeypatch.setattr(os, "fsync", note)
    users.set("alice", "a password")

    assert [(path.read_bytes(), False)] == synced
    assert ("alice",) == users.names()
    assert 0o100600 == path.stat().st_mode


def test_no_other_process_can_change_the_file_between_the_read_and_the_write_of_a_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = UsersFile(folder / "users.json", secrets.token_bytes, cost=2)
    users.set("alice", "a password")
    locked: list[bool] = []
    read_bytes, sync = Path.read_bytes, os.fsync

    def note() -> None:
        other = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked.append(False)
        except BlockingIOError:
            locked.append(True)
        finally:
            os.close(other)

    def read(path: Path) -> bytes:
        note()
        return read_bytes(path)

    def write(descriptor: int) -> None:
        note()
        sync(descriptor)

    monkeypatch.setattr(Path, "read_bytes", read)
    monkeypatch.setattr(os, "fsync", write)
    users.set("bob", "a password")
    users.remove("alice")

    assert [True] * 4 == locked
    assert ("bob",) == users.names()
    assert [False] == locked[4:]


def test_the_file_is_read_again_for_administrators_only_after_a_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each open of an administrator asks, while all other users of the queue manager wait."""
    users = UsersFile(folder / "users.json", secrets.token_bytes, cost=2)
    another = UsersFile(folder / "users.json", secrets.token_bytes, cost=2)
    reads, read_bytes = list[Path](), Path.read_bytes

    def read(path: Path) -> bytes:
        reads.append(path)
        return read_bytes(path)

    another.set("alice", "a password", administrator=True)
    with monkeypatch.context() as noted:
        noted.setattr(Path, "read_bytes", read)
        assert [True, True, False] == [users.administers(user) for user in ("alice", "alice", "bob")]
    assert 1 == len(reads)

    another.set("alice", "a password")
    assert not users.administers("alice")
    another.set("alice", "a password", administrator=True)
    assert users.administers("alice")
    (folder / "users.json").unlink()
    assert not users.administers("alice")


def test_a_user_is_added_also_on_a_file_system_that_locks_no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: int) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", refused)
    users = UsersFile(folder / "users.json", secrets.token_bytes, cost=2)

    users.set("alice", "a password")

    assert ("alice",) == users.names()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"alice": {"salt": "?"}}', b'{"\xff": {}}'])
def test_a_damaged_file_is_named_with_the_remedy(folder: Path, content: bytes) -> None:
    path = folder / "users.json"
    path.write_bytes(content)
    users = UsersFile(path, secrets.token_bytes, cost=2)

    for call in (
        users.names,
        lambda: users.knows("alice", "x"),
        lambda: users.set("bob", "x"),
        lambda: users.administers("bob"),
    ):
        with pytest.raises(UsersFileError) as raised:
            call()

        said = str(raised.value)
        assert said.startswith(f"{path} cannot be read: it is damaged (")
        assert said.endswith("or remove it and give each user a password again with `mqflow qmgr user`.")
    assert content == path.read_bytes()


def test_a_file_that_the_system_does_not_give_is_not_an_empty_one(folder: Path) -> None:
    (folder / "users.json").mkdir()

    with pytest.raises(UsersFileError, match=r"users\.json cannot be read: Is a directory\."):
        UsersFile(folder / "users.json", secrets.token_bytes, cost=2).names()
