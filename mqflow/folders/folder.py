"""The protocol of a folder, its errors, and the check that an object store does what the protocol requires."""

from pathlib import Path
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

__all__ = ("ChangedError", "Entry", "Folder", "FolderError", "Version", "check_store")

_CHECK_NAME: Final = "check"

Version: TypeAlias = str
"""The version of a file that was read; `Folder.replace` compares it. Each implementation has its own form."""


class FolderError(OSError):
    """A folder cannot be used: its kind of URI is unknown, a package is missing, or the object store refused a request."""


class ChangedError(FolderError):
    """Another process has changed the file since this process read it. The file keeps the contents of the other process."""


class Entry(Struct, frozen=True, order=True):
    """A file in a folder."""

    name: str
    size_bytes: int
    #: The time of the last change, in seconds since 1970.
    modified_s: float


class Folder(Protocol):
    """A folder. Names are plain: they have no slash.

    A reader of a file gets all bytes of one version, never a mixture of two versions. A change is durable when its method
    returns. If an operation fails, it raises `OSError` or a subclass, such as `FileNotFoundError` or `PermissionError`.
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
        """Return the folder of this name in this folder, even if it does not exist yet."""
        ...

    def uri_of(self, name: str) -> str:
        """Return the name of a file for people."""
        ...

    def make(self) -> None:
        """Make the folder and its parents, private to this user. In an object store this does nothing: it has no folders."""

    def folders(self) -> list[str]:
        """Return the names of the folders in this folder, sorted; empty if this folder does not exist."""
        ...

    def files(self) -> list[Entry]:
        """Return the files of this folder, sorted by name; empty if this folder does not exist."""
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
        """Write a file that no other process writes or reads yet. If the write fails, no file remains."""

    def create(self, name: str, data: bytes) -> None:
        """Create the file. If the file exists with other contents, change nothing, and raise `FileExistsError`."""

    def replace(self, name: str, data: bytes, version: Version | None = None) -> None:
        """Replace the contents of the file, or create it.

        With a `version`, replace the contents only if the file still has this version. Otherwise raise `ChangedError`.
        """

    def publish(self, name: str, final: str) -> None:
        """Give the file its final name. Readers find either the whole file or no file under this name.

        If `name` does not exist but `final` exists, the file is published already, and nothing happens. If both exist with
        different contents, an object store raises `FileExistsError`; a local folder replaces `final`.
        """

    def remove(self, name: str) -> None:
        """Delete the file. Nothing happens if it does not exist."""

    def room_bytes(self) -> int | None:
        """Return the free bytes of the disk; None in an object store, which has no limit."""
        ...


def check_store(folder: Folder) -> None:
    """Check that the object store refuses to create an object that exists: write the object `check`, then try to create it.

    Some stores ignore the condition that the object of a put must not exist yet. In such a store, two processes can overwrite
    each other's objects. A folder on a disk needs no check, and gets no file. Raises `FolderError` if the store accepts no
    object, or ignores the condition.
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
