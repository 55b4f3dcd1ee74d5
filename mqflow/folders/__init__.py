"""Folders of files named by a URI: on a disk of this machine, or in an object store (`s3://bucket/prefix`).

The journal and the tables read and write small and large files through this package. It knows bytes and names only.

No module here imports `mqflow.mqi`, `mqflow.journal` or `pyarrow`.
"""

from mqflow.folders.folder import ChangedError, Entry, Folder, FolderError, Version, check_store
from mqflow.folders.uri import folder_at, is_remote

__all__ = ("ChangedError", "Entry", "Folder", "FolderError", "Version", "check_store", "folder_at", "is_remote")
