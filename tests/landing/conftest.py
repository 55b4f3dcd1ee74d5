"""The folders of the tests: each test of the lander runs on a disk and in an object store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqflow.folders import Folder, folder_at
from tests.embedded.disk_faults.disk import memory_folder
from tests.object_store import new_bucket


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory: the tests of the journal cover the disk."""
    with memory_folder() as folder:
        yield folder


@pytest.fixture
def disk(memory: Path) -> Folder:
    return folder_at(memory / "folder")


@pytest.fixture(params=["disk", "s3"])
def folder(request: pytest.FixtureRequest, disk: Folder) -> Folder:
    if request.param == "disk":
        return disk
    request.getfixturevalue("server")
    return folder_at(f"{new_bucket()}/some/prefix")
