"""The fixtures of all tests."""

import gc
import logging
import re
import signal
from collections import defaultdict
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import core, settings

from tests.long import DAY, of_the_day, usually
from tests.skips import Skips

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadGroupScheduling

#: No example has a deadline by the wall clock: the machine may be busy. Each day has other examples.
settings.register_profile("mqflow", deadline=None, max_examples=usually(30, long=100))
settings.load_profile("mqflow")

_NUMBERS: Final = count()

#: A failed comparison in this file shows both sides, as in a test.
pytest.register_assert_rewrite("tests.stories.counting")


def pytest_configure(config: pytest.Config) -> None:
    """Take Hypothesis's seed from the day, unless the command line has one, hear Ctrl-C, and check the skips."""
    config.addinivalue_line("markers", "sampled(count): each run has so many rows of this test, and other rows each day")
    config.addinivalue_line("markers", "rare: each run has a third of these tests, and other ones each day")
    config.addinivalue_line("markers", "only_in(package, why): this test runs with one of the client packages only")
    if config.getoption("--hypothesis-seed", None) is None:
        core.global_force_seed = DAY.toordinal()  # type: ignore[assignment]  # Hypothesis does the same; it declares no type
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # `pytest &` in a script: no command of a test would hear its Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # the process that starts the others knows the skips of the run
        whole_files = not config.getoption("keyword") and not any("::" in each for each in config.args)
        config.pluginmanager.register(Skips(whole_files=whole_files))


def pytest_report_header() -> str:
    return f"TESTS_DAY={DAY} repeats the samples of this run"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while pytest collects the tests, and never scan them again: all of them stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the rows of `sampled` tests and the `rare` tests of other days. Begin with the files that may take longest."""
    rows = defaultdict[tuple[str, int], list[pytest.Item]](list)
    rare = [item for item in items if item.get_closest_marker("rare")]
    if rare:
        rows["rare", -(-len(rare) // 3)] = rare
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            rows[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    left_out = {
        item for (name, count), whole in rows.items() for item in set(whole).difference(of_the_day(whole, count, name=name))
    }
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    longest_s = defaultdict[str, int](int)
    for item in items:
        if mark := item.get_closest_marker("timeout"):
            longest_s[_group(item)] = max(longest_s[_group(item)], *mark.args)
    items.sort(key=lambda item: -longest_s[_group(item)])


def _group(item: pytest.Item) -> str:
    """Return the tests that one process runs together: a group of pytest-xdist, or a file."""
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0] if mark else item.path)


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


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    """Both event loops for tests that start their loop by themselves."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _the_log_is_as_it_was() -> Iterator[None]:
    """Restore the log after a test that silences it."""
    logger = logging.getLogger("mqflow")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder. Pytest's own fixture lists the folders of all earlier tests to find a number, and renews a link."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}-{next(_NUMBERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(scope="session")
def server() -> Iterator[dict[str, str]]:
    """An object store on this machine, which this process and those that it starts find by these variables."""
    from tests.object_store import object_store  # noqa: PLC0415 - it takes a second to load

    with object_store() as variables:
        yield variables
