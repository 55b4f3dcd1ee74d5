"""Checks that an object store keeps the promises of a folder, before messages are got for it."""

from typing import Final

from mqflow.folders.folder import Folder, FolderError

__all__ = ("check_store",)

_NAME: Final = "check"


def check_store(folder: Folder) -> None:
    """Write an object `check` and try to create it again; a folder on a disk needs no check, and gets no file.

    Raises `FolderError` if the store accepts no object, or ignores the condition of a put. Two processes could overwrite each
    other in a store without this condition.
    """
    if folder.path is not None:
        return
    folder.write(_NAME, b"first")
    try:
        folder.create(_NAME, b"second")
    except FileExistsError:
        return
    raise FolderError(
        f"The object store of {folder.uri} ignores the condition If-None-Match of a put, so two processes could overwrite each "
        "other. No message was got. Use a store with conditional puts."
    )
