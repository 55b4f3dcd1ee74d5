"""A folder on a disk of this machine. Each change syncs the file and the folder to the disk."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path
from shutil import disk_usage
from tempfile import NamedTemporaryFile

from msgspec import Struct

from mqflow.folders.folder import ChangedError, Entry, Version

__all__ = ("LocalFolder",)


class LocalFolder(Struct, frozen=True):
    """See `Folder`."""

    path: Path

    @property
    def uri(self) -> str:
        """The absolute path of the folder."""
        return str(self.path)

    def folder(self, name: str) -> "LocalFolder":
        """See `Folder`."""
        return LocalFolder(self.path / name)

    def uri_of(self, name: str) -> str:
        """See `Folder`."""
        return str(self.path / name)

    def make(self) -> None:
        """See `Folder`."""
        missing = [each for each in self.path.parents if not each.exists()]
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in (self.path, *missing):
            _sync_folder(each.parent)

    def folders(self) -> list[str]:
        """See `Folder`."""
        return sorted(entry.name for entry in self._entries() if entry.is_dir())

    def files(self) -> list[Entry]:
        """See `Folder`. The result does not include the temporary files of `replace`."""
        found: list[Entry] = []
        for entry in self._entries():
            if entry.name.startswith("."):
                continue
            with suppress(FileNotFoundError):  # removed since the folder was listed
                if entry.is_file():
                    said = entry.stat()
                    found.append(Entry(entry.name, said.st_size, said.st_mtime))
        return sorted(found)

    def exists(self, name: str) -> bool:
        """See `Folder`."""
        return (self.path / name).is_file()

    def read(self, name: str) -> bytes:
        """See `Folder`."""
        return (self.path / name).read_bytes()

    def read_version(self, name: str) -> tuple[bytes, Version]:
        """See `Folder`."""
        data = self.read(name)
        return data, _version(data)

    def write(self, name: str, data: bytes) -> None:
        """See `Folder`."""
        path = self.path / name
        try:
            with path.open("wb") as file:
                _write(file.fileno(), data)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        _sync_folder(self.path)

    def create(self, name: str, data: bytes) -> None:
        """See `Folder`."""
        path = self.path / name
        with self._beside(name, data) as beside:
            try:
                path.hardlink_to(beside)
            except FileExistsError:
                if path.read_bytes() != data:
                    raise
            except OSError:  # a file system without links
                if path.exists() and path.read_bytes() != data:
                    raise FileExistsError(f"{path} exists, with other contents") from None
                beside.replace(path)
        _sync_folder(self.path)

    def replace(self, name: str, data: bytes, version: Version | None = None) -> None:
        """See `Folder`. With a `version`, a lock on a file lets only one process of this machine replace the file at a time."""
        if version is None:
            self._replace(name, data)
            return
        with (self.path / f".{name}.lock").open("a") as lock:
            with suppress(OSError):  # a file system without locks: only one process at a time may write there
                flock(lock, LOCK_EX)
            if _version(self.read(name)) != version:
                raise ChangedError(f"{self.path / name} was changed by another process")
            self._replace(name, data)

    def publish(self, name: str, final: str) -> None:
        """See `Folder`."""
        try:
            (self.path / name).rename(self.path / final)
        except FileNotFoundError:
            if not self.exists(final):
                raise
        _sync_folder(self.path)

    def remove(self, name: str) -> None:
        """See `Folder`."""
        try:
            (self.path / name).unlink()
        except FileNotFoundError:
            return
        _sync_folder(self.path)

    def room_bytes(self) -> int | None:
        """See `Folder`."""
        return disk_usage(self.path).free

    def _entries(self) -> list["os.DirEntry[str]"]:
        try:
            with os.scandir(self.path) as entries:
                return list(entries)
        except FileNotFoundError:
            return []

    def _replace(self, name: str, data: bytes) -> None:
        with self._beside(name, data) as beside:
            beside.replace(self.path / name)
        _sync_folder(self.path)

    @contextmanager
    def _beside(self, name: str, data: bytes) -> Iterator[Path]:
        """Write the contents durably to a temporary file in this folder. At the end of the context the file is deleted."""
        with NamedTemporaryFile(dir=self.path, prefix=f".{name}.", delete=False) as file:
            beside = Path(file.name)
            try:
                _write(file.fileno(), data)
                yield beside
            finally:
                beside.unlink(missing_ok=True)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _version(data: bytes) -> Version:
    return sha256(data).hexdigest()
