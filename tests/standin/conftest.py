"""The packages that the stand-in library is tested with: ibmmq if it is installed, pymqi built here from its source."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client_packages import PACKAGES, ROOT, folder_of
from tests.standin.harness import Child


@pytest.fixture(scope="session")
def pymqi_folder() -> Path:
    """A folder that pymqi is installed in, built against our headers and libraries."""
    return Path(folder_of("pymqi")[0])


@pytest.fixture(scope="session", params=PACKAGES)
def package_search(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    """The name of a package, and what must be on the path of a process that imports it."""
    name = str(request.param)
    return name, [str(ROOT), *folder_of(name)]


@pytest.fixture(scope="session")
def package(package_search: tuple[str, list[str]]) -> Iterator[Child]:
    """A process in which the package is, on the stand-in library."""
    child = Child(*package_search)
    yield child
    child.close()


@pytest.fixture
def program(package: Child) -> Child:
    """The process in which the test gets its `Program`."""
    return package


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test with a `Program` in the process of its package."""
    child = pyfuncitem.funcargs.get("program")
    if not isinstance(child, Child):
        return None
    mark = pyfuncitem.get_closest_marker("only_in")
    if mark is not None and child.name != mark.args[0]:
        pytest.skip(mark.args[1])
    child.run(pyfuncitem.path, pyfuncitem.originalname)
    return True
