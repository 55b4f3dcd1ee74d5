"""Folders that a queue manager uses or refuses, and the sentence of each refusal."""

import os
import pickle
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.embedded.storage.folder import (
    DamagedFolderError,
    DamagedLogError,
    DataFolder,
    FolderInUseError,
    FolderVersionError,
    ForeignFolderError,
    ForeignLogError,
    UnsafeFolderError,
    UnusableFileError,
    file_identity,
    prepare_folder,
)

OWN, ROOT, OTHER = 1_000, 0, 1_001
UNSAFE = "The data folder {0} is not safe to use: "


@pytest.mark.parametrize(
    ("mode", "owner", "above", "user", "said"),
    [
        (0o700, OWN, 0o755, OWN, None),
        (0o755, ROOT, 0o1777, OWN, None),
        (0o700, OTHER, 0o775, ROOT, None),
        (0o700, OTHER, 0o755, OWN, "it belongs to another user (number 1001). Choose a folder of your own."),
        (0o770, OWN, 0o755, OWN, "other users may write to it. chmod go-w {0}."),
        (0o702, OWN, 0o755, OWN, "other users may write to it. chmod go-w {0}."),
        (0o700, OWN, 0o757, OWN, "every user may rename the files in {1}. Choose a folder elsewhere."),
    ],
)
def test_a_folder_is_safe_if_only_its_user_and_root_can_replace_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, above: int, user: int, said: str | None
) -> None:
    """Root can use any folder: in a container, root often uses the folder of its user."""
    folder = tmp_path / "data"
    folder.mkdir()

    def found(path: Path, *, follow_symlinks: bool = True) -> SimpleNamespace:
        del follow_symlinks
        return SimpleNamespace(st_mode=stat.S_IFDIR | (mode if path == folder else above), st_uid=owner)

    monkeypatch.setattr("os.geteuid", lambda: user)
    with monkeypatch.context() as faked:
        faked.setattr(Path, "stat", found)
        if said is None:
            assert DataFolder(folder) == prepare_folder(folder, create=True)
        else:
            with pytest.raises(UnsafeFolderError) as refused:
                prepare_folder(folder, create=True)
            assert (UNSAFE + said).format(folder, tmp_path) == str(refused.value)


def test_a_folder_is_created_for_its_user_only_and_on_request_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a" / "b"
    foreign = (
        f"{path} is not a queue manager's data: there is no queue_manager.db in it. Nothing was changed. Choose another folder."
    )
    with pytest.raises(ForeignFolderError) as refused:
        prepare_folder(path, create=False)
    assert (foreign, False) == (str(refused.value), path.parent.exists())

    folder = prepare_folder(Path("a/b"), create=True)

    assert (DataFolder(path), 0o700, False) == (folder, stat.S_IMODE(path.stat().st_mode), folder.in_use)
    folder.database.touch()
    assert (folder, True) == (prepare_folder(path, create=False), folder.in_use)
    with pytest.raises(ForeignFolderError, match="data: it is a file, and a folder is needed"):
        prepare_folder(folder.database, create=True)


def test_a_power_cut_does_not_lose_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))

    for _ in range(2):
        prepare_folder(tmp_path / "a" / "b", create=True)

    assert [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino] == synced


def test_a_file_keeps_its_identity_under_another_name_and_a_link_has_its_own(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to(file)
    identity = file_identity(file)
    file.rename(tmp_path / "moved")

    found = (tmp_path / "moved").stat()
    assert ((found.st_dev, found.st_ino), None) == (identity, file_identity(file))
    assert file_identity(link) not in {None, identity}


HERE = Path("/data/qm1")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            (FolderInUseError, 7),
            """The data folder /data/qm1 is in use by process 7. A queue manager has one owner: stop that process, connect to it
            instead of opening its folder (embedded+unix:/data/qm1/served.sock?qmgr=NAME, if it serves), or choose another
            folder.""",
        ),
        (
            (FolderVersionError, 3, 2),
            """The data folder /data/qm1 has format version 3; this mqflow knows versions up to 2. Nothing was changed. Open it
            with the newer mqflow that wrote it.""",
        ),
        (
            (DamagedFolderError, "odd"),
            """/data/qm1 is damaged: odd. Keep a copy of the folder, and check the disk. To restore a backup, move the folder
            away, and put the whole folder of the backup in its place. Or choose another folder.""",
        ),
        (
            (DamagedLogError, HERE / "log", "odd"),
            """Acknowledged changes are lost in /data/qm1/log: odd. Nothing was changed. Keep a copy of the folder, and check
            the disk. To restore a backup, move the folder away, and put the whole folder of the backup in its place. Or accept
            the loss with mqflow qmgr accept-loss NAME --data /data/qm1, which keeps a copy of the log.""",
        ),
        (
            (ForeignLogError, HERE / "log"),
            """/data/qm1/log is the log of another database than /data/qm1. Nothing was changed. To restore a backup, move the
            folder away, and put the whole folder of the backup in its place.""",
        ),
        (
            (UnusableFileError, "odd"),
            """/data/qm1 cannot be opened: odd. Nothing was changed. It must be a file, not a link, and this user must have the
            right to write it and its folder.""",
        ),
    ],
)
def test_an_error_of_a_folder_says_what_to_do_and_stays_whole_in_a_copy(given: tuple[Any, ...], said: str) -> None:
    kind, *arguments = given
    error = kind(HERE, *arguments)

    assert [" ".join(said.split())] * 2 == [str(error), str(pickle.loads(pickle.dumps(error)))]  # noqa: S301 - made here
