"""The packages that the stand-in library is tested with: ibmmq where it is installed, pymqi built here from its source."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqflow.standin.headers import write_kit
from mqflow.standin.library import can_load
from tests.standin.harness import ROOT, Child

PYMQI = "pymqi==1.12.13"


@pytest.fixture(scope="session")
def pymqi_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pymqi is installed in, built against our headers and libraries."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc, and pymqi comes as source only")
    kit = tmp_path_factory.mktemp("kit")
    folder = tmp_path_factory.mktemp("pymqi")
    write_kit(kit)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir", "--no-binary", "pymqi"]
    built = subprocess.run(
        [*command, "--target", str(folder), PYMQI],
        env=os.environ | {"MQ_FILE_PATH": str(kit)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "No matching distribution" in built.stderr or "Could not find a version" in built.stderr:
        pytest.skip("there is no package index to get the source of pymqi from")
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="session", params=["ibmmq", "pymqi"])
def package_search(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    """The name of a package, and what must be on the path of a process that imports it."""
    if why := can_load():
        pytest.skip(why)
    name = str(request.param)
    if name == "pymqi":
        return name, [str(ROOT), str(request.getfixturevalue("pymqi_folder"))]
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    return name, [str(ROOT)]


@pytest.fixture(scope="session")
def package(package_search: tuple[str, list[str]]) -> Iterator[Child]:
    """A process in which the package is, on the stand-in library."""
    child = Child(*package_search)
    yield child
    child.close()
