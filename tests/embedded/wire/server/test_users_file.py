"""The file of the users: it is on the disk before it takes its name."""

import os
import secrets
from pathlib import Path

import pytest

from mqflow.embedded.wire.server.users_file import UsersFile


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
