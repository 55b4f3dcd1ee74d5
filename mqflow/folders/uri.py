"""Finds the folder that a URI names, on this machine or in an object store."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from mqflow.folders.folder import Folder, FolderError
from mqflow.folders.local_folder import LocalFolder
from mqflow.folders.object_folder import object_folder

__all__ = ("folder_at",)

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_S3: Final = frozenset({"s3", "s3a"})
_KNOWN: Final = "a path, file:///path or s3://bucket/prefix"


def folder_at(uri: str | Path) -> Folder:
    """Return the folder that the URI names. The folder need not exist, and this function reads no file.

    A text without a scheme is a path of this machine; the default file system of Spark has no effect on this. Raises
    `FolderError` for an unknown scheme, and for `s3://` if the package obstore is missing.
    """
    if isinstance(uri, Path) or not _SCHEME.match(uri):
        return LocalFolder(Path(uri).absolute())
    scheme, (host, path) = uri.partition(":")[0].lower(), _parts(uri)
    if scheme == "file":
        if host not in {"", "localhost"}:
            raise FolderError(f"{uri} names the machine {host}. Use file:///path for a folder of this machine.")
        return LocalFolder(Path(unquote(path)))
    if scheme not in _S3:
        raise FolderError(f"{uri}: folders of the scheme {scheme}: are not supported. Use {_KNOWN}. Nothing was changed.")
    if not host:
        raise FolderError(f"{uri} names no bucket. Use s3://bucket/prefix.")
    return object_folder(f"s3://{host}/{path.strip('/')}")


def _parts(uri: str) -> tuple[str, str]:
    """Return the host and the path of a URI. `?` and `#` are plain characters; in an object store, so is `%`."""
    rest = uri.partition(":")[2]
    if not rest.startswith("//"):
        return "", rest
    host, slash, path = rest[2:].partition("/")
    return host, slash + path
