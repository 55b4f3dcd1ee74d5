"""The folders of the tests: each test of the lander runs on a disk and in an object store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqflow.folders import Folder, folder_at
from tests.embedded.disk_faults.disk import memory_folder
from tests.long import LONG, of_the_day
from tests.object_store import new_bucket

_FAILURES = ("refused", "answer lost")
_FAILS = "test_a_folder_that_fails_at_any_operation_loses_nothing_and_doubles_nothing"
_LONG_IN_A_STORE = (
    "test_nothing_is_lost_and_nothing_landed_twice_however",
    "test_a_connection_that_breaks_at_any_call",
    f"{_FAILS}[s3-browse",
    *(f"{_FAILS}[s3-get-{how}" for how in _FAILURES if how not in of_the_day(_FAILURES, 1)),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In an object store, run the longest tests only when asked. One way to land still meets the failure of the day."""
    for item in items:
        if item.name.startswith(_LONG_IN_A_STORE) and "s3" in item.name:
            item.add_marker(LONG)


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
