"""The fixtures of all tests."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.skips import Skips

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadGroupScheduling

#: No example has a deadline by the wall clock: the machine may be busy.
settings.register_profile("mqflow", deadline=None)
settings.load_profile("mqflow")

#: A failed comparison in this file shows both sides, as in a test.
pytest.register_assert_rewrite("tests.stories.counting")


def pytest_configure(config: pytest.Config) -> None:
    """Know the skips of a run, in the process that starts the others."""
    if not hasattr(config, "workerinput"):
        whole_files = not config.getoption("keyword") and not any("::" in each for each in config.args)
        config.pluginmanager.register(Skips(whole_files=whole_files))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadGroupScheduling | None":
    """Give each process whole files: a fixture of a module is made once, and one list has 900 entries instead of 13,000."""
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.whole_files import WholeFiles  # noqa: PLC0415 - only the process that starts the others loads the scheduler

    return WholeFiles(config, log)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both event loops for tests marked anyio, always: a missing trio is an error here, not a shorter run."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _the_log_is_as_it_was() -> Iterator[None]:
    """Restore the log after a test that silences it."""
    logger = logging.getLogger("mqflow")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture(scope="session")
def server() -> Iterator[dict[str, str]]:
    """An object store on this machine, which this process and those that it starts find by these variables."""
    from tests.object_store import object_store  # noqa: PLC0415 - it takes a second to load

    with object_store() as variables:
        yield variables
