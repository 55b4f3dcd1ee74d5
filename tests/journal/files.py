"""The files of a journal on a disk, for tests that damage them."""

from pathlib import Path

from mqflow.journal import Journal, Lane, Segment

__all__ = ("path_of",)


def path_of(found: Journal | Lane | Segment) -> Path:
    """Return the path of the folder or the file."""
    assert found.folder.path is not None, "it is in an object store"
    return found.folder.path / found.name if isinstance(found, Segment) else found.folder.path
