"""Who stands by, and who only looks whether somebody does."""

import fcntl
from pathlib import Path

import pytest

from mqflow.embedded.folder import prepare_folder
from mqflow.embedded.standby import standby_pid, standing_by


def test_whoever_looks_keeps_nobody_from_standing_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look is to lock for a moment."""
    folder = prepare_folder(tmp_path, create=True)
    real, looks = fcntl.flock, [True, True]

    def flock(descriptor: int, operation: int) -> None:
        if looks:
            looks.pop()
            raise BlockingIOError
        real(descriptor, operation)

    monkeypatch.setattr("fcntl.flock", flock)

    with standing_by(folder) as alone:
        assert alone
    assert not looks


def test_a_second_standby_is_told_so(tmp_path: Path) -> None:
    folder = prepare_folder(tmp_path, create=True)

    with standing_by(folder) as first, standing_by(folder) as second:
        assert (True, False) == (first, second)
    assert standby_pid(folder) is None
