"""Folders of files named by a URI: on a disk of this machine, or in an object store (`s3://bucket/prefix`).

The journal and the tables read and write their files through this package. The package handles names and bytes only.

No module here imports `mqflow.mqi`, `mqflow.journal` or `pyarrow`.
"""

from mqflow.folders.folder import ChangedError, Entry, Folder, FolderError, Version, check_store
from mqflow.folders.uri import folder_at

__all__ = ("ChangedError", "Entry", "Folder", "FolderError", "Version", "check_store", "folder_at")
