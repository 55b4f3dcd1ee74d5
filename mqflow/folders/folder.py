"""The protocol of a folder, its errors, and the check that an object store keeps the promises of a folder."""

from pathlib import Path
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

__all__ = ("ChangedError", "Entry", "Folder", "FolderError", "Version", "check_store")

_CHECK_NAME: Final = "check"

Version: TypeAlias = str
"""The version of a file that was read; `Folder.replace` compares it. Each implementation has its own form."""


class FolderError(OSError):
    """A folder cannot be used: an unknown kind of URI, a missing package, or an answer of the object store."""


class ChangedError(FolderError):
    """Another process has changed the file since it was read. The file has the contents of the other process."""


class Entry(Struct, frozen=True, order=True):
    """A file in a folder."""

    name: str
    size_bytes: int
    #: The time of the last change, in seconds since 1970.
    modified_s: float


class Folder(Protocol):
    """A folder. Names are plain: they have no slash.

    A reader of a file gets all bytes of one version. A change is durable when its method returns. Every operation raises
    `FileNotFoundError` or `PermissionError` if that is the reason, and otherwise `OSError`.
    """

    @property
    def uri(self) -> str:
        """The folder's name for people and for `folder_at`: an absolute path, or a URI with its scheme."""
        ...

    @property
    def path(self) -> Path | None:
        """The folder's path on this machine; None in an object store."""
        ...

    def folder(self, name: str) -> "Folder":
        """Return the folder of this name in this folder. The inner folder need not exist."""
        ...

    def uri_of(self, name: str) -> str:
        """Return the name of a file for people."""
        ...

    def make(self) -> None:
        """Make the folder and its parents, private to this user. An object store needs no folders: nothing happens there."""
        ...

    def folders(self) -> list[str]:
        """Return the names of the folders in this folder, in order; none if this folder does not exist."""
        ...

    def files(self) -> list[Entry]:
        """Return the files of this folder, by name; none if this folder does not exist."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        ...

    def read(self, name: str) -> bytes:
        """Return the contents of the file."""
        ...

    def read_version(self, name: str) -> tuple[bytes, Version]:
        """Return the contents of the file, and their version."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a file that no other process writes or reads yet. Leaves no file if it fails."""
        ...

    def create(self, name: str, data: bytes) -> None:
        """Create the file. Raises `FileExistsError`, and changes nothing, if there is a file with other contents."""
        ...

    def replace(self, name: str, data: bytes, version: Version | None = None) -> None:
        """Replace the contents of the file, or create it.

        With a `version`, the file changes only if it still has this version; otherwise `ChangedError` is raised.
        """
        ...

    def publish(self, name: str, final: str) -> None:
        """Give the file its final name. Readers find either the whole file or no file under this name.

        Nothing happens if there is no file `name` and `final` exists: the file is published already. Raises `FileExistsError`
        if `final` has other contents.
        """
        ...

    def remove(self, name: str) -> None:
        """Delete the file. Nothing happens if it does not exist."""
        ...

    def room_bytes(self) -> int | None:
        """Return the free bytes of the disk; None if there is no such limit."""
        ...


def check_store(folder: Folder) -> None:
    """Check that the object store refuses to create an object that exists: write the object `check`, then try to create it.

    A folder on a disk needs no check, and gets no file.
    Raises `FolderError` if the store accepts no object, or ignores the condition of a put. Two processes could overwrite each
    other in a store without this condition.
    """
    if folder.path is not None:
        return
    folder.write(_CHECK_NAME, b"first")
    try:
        folder.create(_CHECK_NAME, b"second")
    except FileExistsError:
        return
    raise FolderError(
        f"The object store of {folder.uri} ignores the condition If-None-Match of a put, so two processes could overwrite each "
        "other. No message was got. Use a store with conditional puts."
    )
