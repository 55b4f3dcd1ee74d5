"""The folder of a durable queue manager: its files, its permissions, and the errors for an unusable folder.

This file knows paths and modes, but no SQL, no lock and no rule of MQ.
"""

import os
import stat
from contextlib import suppress
from errno import EINVAL, ENOTSUP, EOPNOTSUPP
from pathlib import Path
from typing import Final

from msgspec import Struct

__all__ = (
    "DamagedFolderError",
    "DamagedLogError",
    "DataFolder",
    "FileIdentity",
    "FolderError",
    "FolderInUseError",
    "FolderVersionError",
    "ForeignFolderError",
    "ForeignLogError",
    "UnsafeFolderError",
    "UnusableFileError",
    "file_identity",
    "prepare_folder",
    "sync_folder",
)

FileIdentity = tuple[int, int]
"""Device and inode. They stay the same if the file gets another name."""

_NOT_SUPPORTED: Final = frozenset({EINVAL, ENOTSUP, EOPNOTSUPP})


class FolderError(Exception):
    """The data folder cannot be used. The message names the folder, the reason and the remedy."""

    # Python keeps the arguments of each error in `args`, so a copy of the error has them too.
    def __init__(self, path: Path, found: str) -> None:
        self.path = path
        self.found = found


class FolderInUseError(FolderError):
    """Another process owns the folder."""

    def __init__(self, path: Path, pid: int | None, *, is_served: bool = False) -> None:
        self.path = path
        self.pid = pid
        #: True if the owner is known to serve the folder to other processes.
        self.is_served = is_served

    def __str__(self) -> str:
        holder = "another process" if self.pid is None else f"process {self.pid}"
        return (
            f"The data folder {self.path} is in use by {holder}. A queue manager has one owner: stop that process, connect to "
            f"it instead of opening its folder (embedded+unix:{self.path}/served.sock?qmgr=NAME, if it serves), or choose "
            "another folder."
        )


class FolderVersionError(FolderError):
    """A newer mqflow wrote the folder."""

    def __init__(self, path: Path, version: int, known: int) -> None:
        self.path = path
        self.version = version
        self.known = known

    def __str__(self) -> str:
        return (
            f"The data folder {self.path} has format version {self.version}; this mqflow knows versions up to {self.known}. "
            "Nothing was changed. Open it with the newer mqflow that wrote it."
        )


class ForeignFolderError(FolderError):
    """The folder contains something other than a queue manager's data."""

    def __str__(self) -> str:
        return f"{self.path} is not a queue manager's data: {self.found}. Nothing was changed. Choose another folder."


class UnsafeFolderError(FolderError):
    """Other users can change the files of the folder, or locks have no effect on its file system."""

    def __init__(self, path: Path, found: str, advice: str) -> None:
        self.path = path
        self.found = found
        self.advice = advice

    def __str__(self) -> str:
        return f"The data folder {self.path} is not safe to use: {self.found}. {self.advice}."


class DamagedFolderError(FolderError):
    """The damage of the database file is not limited to single messages."""

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged: {self.found}. Keep a copy of the folder, and check the disk. To restore a backup, move "
            "the folder away, and put the whole folder of the backup in its place. Or choose another folder."
        )


class DamagedLogError(FolderError):
    """Synced changes are in an unreadable part of the log."""

    def __init__(self, path: Path, log: Path, found: str) -> None:
        self.path = path
        self.log = log
        self.found = found

    def __str__(self) -> str:
        return (
            f"Acknowledged changes are lost in {self.log}: {self.found}. Nothing was changed. Keep a copy of the folder, and "
            "check the disk. To restore a backup, move the folder away, and put the whole folder of the backup in its place. "
            f"Or accept the loss with mqflow qmgr accept-loss NAME --data {self.path}, which keeps a copy of the log."
        )


class ForeignLogError(FolderError):
    """The log beside the database file belongs to another database, which this file has replaced."""

    def __init__(self, path: Path, log: Path) -> None:
        self.path = path
        self.log = log

    def __str__(self) -> str:
        return (
            f"{self.log} is the log of another database than {self.path}. Nothing was changed. To restore a backup, move the "
            "folder away, and put the whole folder of the backup in its place."
        )


class UnusableFileError(FolderError):
    """A file of the folder cannot be opened or read."""

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be opened: {self.found}. Nothing was changed. It must be a file, not a link, and this user "
            "must have the right to write it and its folder."
        )


class DataFolder(Struct, frozen=True):
    """A folder and the files in it."""

    path: Path

    @property
    def database(self) -> Path:
        """The file with definitions and persistent messages. SQLite writes its log beside this file."""
        return self.path / "queue_manager.db"

    @property
    def log(self) -> Path:
        """The log of the database."""
        return self.path / f"{self.database.name}-wal"

    @property
    def note(self) -> Path:
        """The file that says how much of the log is synced."""
        return self.path / f"{self.database.name}-synced"

    @property
    def in_use(self) -> bool:
        """True if the folder has a queue manager."""
        return self.database.exists()

    @property
    def remains(self) -> Path | None:
        """A file that belongs to one database, so that no other database can use the folder; None if there is no such file."""
        return next((path for path in (self.database, self.log, self.note, self.in_flight) if path.exists()), None)

    def half_copy(self, mark: str) -> Path:
        """Return the file for a backup that is not complete yet. Each backup has a mark of its own."""
        return self.path / f"{self.database.name}.{mark}.half"

    def half_copies(self) -> list[Path]:
        """Return the files of backups that run now, or that a kill has ended."""
        return sorted(self.path.glob(f"{self.database.name}.*.half"))

    @property
    def lock(self) -> Path:
        """The file that the owner locks. It contains the owner's process id."""
        return self.path / "owner.lock"

    @property
    def in_flight(self) -> Path:
        """The file that records which messages units of work have got."""
        return self.path / "in_flight"

    @property
    def serials(self) -> Path:
        """The file in which the last owner recorded the serial numbers of all messages when it closed a large database."""
        return self.path / "serials"

    @property
    def ballast(self) -> Path:
        """The file that the store deletes when the disk is full."""
        return self.path / "ballast"


def prepare_folder(path: Path, *, create: bool) -> DataFolder:
    """Return the folder. Create it durably, with mode 0700, if it does not exist.

    Raises `ForeignFolderError` if the path is not a folder, or if `create` is False and the folder has no queue manager. Raises
    `UnsafeFolderError` if other users could replace its files.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() follows a link, which may change later
    folder = DataFolder(path)
    if not create and not folder.in_use:
        raise ForeignFolderError(path, f"there is no {folder.database.name} in it")
    missing = [each for each in (path, *path.parents) if not each.exists()]
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise ForeignFolderError(path, "it is a file, and a folder is needed") from None
    for each in missing:  # without this sync, a power cut could lose the folder with all its files
        with suppress(OSError):  # some file systems sync no folder, and SQLite ignores this too
            sync_folder(each.parent)
    found = path.stat()
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeFolderError(path, "other users may write to it", f"chmod go-w {path}")
    if found.st_uid not in {0, os.geteuid()} and os.geteuid():  # root in a container often uses the folder of another user
        raise UnsafeFolderError(path, f"it belongs to another user (number {found.st_uid})", "Choose a folder of your own")
    parent = path.parent.stat().st_mode
    if parent & stat.S_IWOTH and not parent & stat.S_ISVTX:
        raise UnsafeFolderError(path, f"every user may rename the files in {path.parent}", "Choose a folder elsewhere")
    return folder


def sync_folder(path: Path) -> None:
    """Make the names of the files and folders in this folder durable, unless its file system syncs no folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
    finally:
        os.close(descriptor)


def file_identity(path: Path) -> FileIdentity | None:
    """Return the identity of the file at this path, or None if there is no file."""
    try:
        found = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino
