"""The type of an argument or option that names a folder: a path, `file:///path` or `s3://bucket/prefix`."""

import click

from mqflow.folders import Folder, FolderError, folder_at

__all__ = ("existing_folder_uri", "exists", "folder_uri", "journal_uri")


def folder_uri(text: str) -> Folder:
    """Return the folder that an option names. Raises `click.BadParameter` for a URI of an unknown kind, or of a file."""
    try:
        found = folder_at(text)
    except FolderError as error:
        raise click.BadParameter(str(error)) from error
    if found.path is not None and found.path.is_file():
        raise click.BadParameter(f"{text!r} is a file, not a folder.")
    return found


def journal_uri(text: str) -> Folder:
    """Return the folder of a journal for Spark, perhaps on a Hadoop file system. Raises the errors of `folder_uri`."""
    from mqflow.pipeline.sources.hadoop_folder import HadoopFolder, journal_folder  # noqa: PLC0415 - only Spark needs it

    try:
        found = journal_folder(text)
    except FolderError:
        return folder_uri(text)
    return found if isinstance(found, HadoopFolder) else folder_uri(text)


def existing_folder_uri(text: str) -> Folder:
    """Return the folder that an option names. Raises `click.BadParameter` if the folder does not exist."""
    found = folder_uri(text)
    try:
        there = exists(found)
    except OSError as error:
        raise click.BadParameter(str(error)) from error
    if not there:
        raise click.BadParameter(f"Directory {text!r} does not exist.")
    return found


def exists(folder: Folder) -> bool:
    """Return whether the folder exists; in an object store, whether it has files. Raises `OSError` if nothing answers."""
    return folder.path.is_dir() if folder.path is not None else bool(folder.folders() or folder.files())
