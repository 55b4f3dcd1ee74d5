"""The type of an argument or option that names a folder: a path, `file:///path` or `s3://bucket/prefix`."""

import click

from mqflow.folders import Folder, FolderError, folder_at

__all__ = ("folder_uri",)


def folder_uri(text: str) -> Folder:
    """Return the folder, as the type of an option. Raises `click.BadParameter` for another kind of URI, and for a file."""
    try:
        found = folder_at(text)
    except FolderError as error:
        raise click.BadParameter(str(error)) from error
    if found.path is not None and found.path.is_file():
        raise click.BadParameter(f"{text!r} is a file, not a folder.")
    return found
