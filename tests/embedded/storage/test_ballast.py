"""The room that a queue manager keeps back: whether a change has room, and the ballast file, byte by byte."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from mqflow.embedded.storage.ballast import BALLAST_BYTES, Reserve
from mqflow.embedded.storage.folder import DataFolder, prepare_folder

MINIMUM = 1_000


class Disk:
    """Says how many bytes are free, less than the ballast file has."""

    def __init__(self, path: Path, free: int) -> None:
        self.path = path
        self.free = free

    def statvfs(self, path: Path) -> SimpleNamespace:
        assert self.path == path
        ballast = path / "ballast"
        used = ballast.stat().st_size if ballast.exists() else 0
        return SimpleNamespace(f_bavail=self.free - used, f_frsize=1)


def disk_of(folder: DataFolder, free: int, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(folder.path, free)
    monkeypatch.setattr("os.statvfs", disk.statvfs)
    return disk


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return prepare_folder(tmp_path, create=True)


def ballast_bytes(folder: DataFolder) -> int | None:
    return folder.ballast.stat().st_size if folder.ballast.exists() else None


def test_the_ballast_is_8_mib() -> None:
    assert 8_388_608 == BALLAST_BYTES


@pytest.mark.parametrize(
    ("spare", "needed", "reusable", "admitted"),
    [(500, 500, 0, True), (500, 501, 0, False), (500, 501, 1, True), (500, 502, 1, False), (0, 0, 0, True),
     (-1, 0, 9_999, False)],
)  # fmt: skip
def test_a_change_has_room_beside_the_minimum_and_the_ballast(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch, spare: int, needed: int, reusable: int, *, admitted: bool
) -> None:
    """`spare` bytes are free beside both. Free pages of the database count as room too, but not for the ballast."""
    disk_of(folder, MINIMUM + BALLAST_BYTES + spare, monkeypatch)
    reserve = Reserve(folder, MINIMUM, lambda: reusable)

    assert (False, admitted, spare >= 0) == (reserve.held, reserve.admits(needed), reserve.held)
    assert (BALLAST_BYTES if spare >= 0 else None) == ballast_bytes(folder)


def test_a_ballast_of_an_earlier_owner_is_taken_over_if_it_is_whole(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_of(folder, MINIMUM + BALLAST_BYTES, monkeypatch)
    for size, held in ((BALLAST_BYTES - 1, False), (BALLAST_BYTES, True), (BALLAST_BYTES + 1, False)):
        os.truncate(os.open(folder.ballast, os.O_CREAT | os.O_WRONLY, 0o600), size)

        assert held == Reserve(folder, MINIMUM, lambda: 0).held


def test_the_room_of_a_shorter_ballast_counts_for_the_whole_one(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.ballast.write_bytes(bytes(1_000))
    disk_of(folder, MINIMUM + BALLAST_BYTES, monkeypatch)
    reserve = Reserve(folder, MINIMUM, lambda: 0)

    assert (True, True, BALLAST_BYTES) == (reserve.admits(0), reserve.held, ballast_bytes(folder))


def test_a_released_ballast_is_written_again_when_there_is_room(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_of(folder, MINIMUM + BALLAST_BYTES, monkeypatch)
    reserve = Reserve(folder, MINIMUM, lambda: 0)
    assert reserve.admits(0)

    reserve.release()
    reserve.release()
    assert (False, None) == (reserve.held, ballast_bytes(folder))
    disk.free -= 1
    assert (False, None) == (reserve.admits(0), ballast_bytes(folder))
    disk.free += 1
    assert (True, BALLAST_BYTES) == (reserve.admits(0), ballast_bytes(folder))


def test_a_ballast_has_blocks_of_the_disk(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("posix_fallocate", "write"):  # the second is for a file system that cannot reserve blocks
        disk_of(folder, 2 * BALLAST_BYTES, monkeypatch)
        reserve = Reserve(folder, MINIMUM, lambda: 0)

        assert reserve.admits(0), function
        found = folder.ballast.stat()
        assert found.st_blocks * 512 >= BALLAST_BYTES == found.st_size, function
        reserve.release()
        monkeypatch.setattr("os.posix_fallocate", refused)


def refused(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_ballast_that_the_disk_does_not_take_whole_is_deleted(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.write
    disk_of(folder, 2 * BALLAST_BYTES, monkeypatch)
    monkeypatch.setattr("os.posix_fallocate", refused)
    monkeypatch.setattr("os.write", lambda descriptor, data: whole(descriptor, data[:-1]))
    reserve = Reserve(folder, MINIMUM, lambda: 0)

    assert (False, False, None) == (reserve.admits(0), reserve.held, ballast_bytes(folder))


def test_a_disk_that_makes_no_file_has_no_ballast(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_of(folder, 2 * BALLAST_BYTES, monkeypatch)
    reserve = Reserve(folder, MINIMUM, lambda: 0)
    monkeypatch.setattr("os.open", refused)

    assert (False, False) == (reserve.admits(0), reserve.held)


def test_a_ballast_is_not_written_through_a_link(folder: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_of(folder, 2 * BALLAST_BYTES, monkeypatch)
    target = tmp_path / "theirs"
    folder.ballast.symlink_to(target)

    assert not Reserve(folder, MINIMUM, lambda: 0).admits(0)
    assert not target.exists()


@pytest.mark.parametrize(
    ("given_back", "kept"), [(-1, None), (0, None), (1, 1), (BALLAST_BYTES, BALLAST_BYTES), (BALLAST_BYTES + 1, BALLAST_BYTES)]
)
def test_room_that_is_given_back_is_kept_for_the_next_start(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch, given_back: int, kept: int | None
) -> None:
    disk = disk_of(folder, 100, monkeypatch)
    reserve = Reserve(folder, MINIMUM, lambda: 0)

    with reserve.keeping():
        disk.free += given_back

    assert (kept, False) == (ballast_bytes(folder), reserve.held)


def test_room_that_is_given_back_beside_a_ballast_stays_free(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_of(folder, 10 * BALLAST_BYTES, monkeypatch)
    reserve = Reserve(folder, MINIMUM, lambda: 0)
    for make in (lambda: reserve.admits(0), reserve.release):
        make()
        folder.ballast.write_bytes(b"a part")
        with reserve.keeping():
            disk.free += 1_000
        assert 6 == ballast_bytes(folder)
