"""The pytest plugin: the fixtures `mq` and `mq_standin`, and virtual time for the coroutine tests that ask for `mq`.

An entry point registers the plugin, so tests need no conftest, no marker and no other plugin. If mqflow is installed, pytest
imports this module in every run. So the module imports nothing of mqflow until a test requests a fixture.
"""

import inspect
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:  # the kit loads the embedded queue manager, so only tests that request it import it
    from mqflow.testing.kit import QueueManagerKit
    from mqflow.testing.standin import StandInKit
    from mqflow.testing.virtual_time import Backend

__all__ = (
    "mq",
    "mq_backend",
    "mq_standin",
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_pyfunc_call",
)

_BACKENDS = ("asyncio", "trio")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option."""
    text = "Event loops that tests with the fixture mq run on: asyncio (default), trio, or both."
    parser.addini("mq_backends", text, type="args", default=["asyncio"])


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line("markers", "mq_backend(*names): run this test with mq on asyncio, on trio, or on both")
    text = "mq_faults('every-call'): run this test again for each MQI call that it makes, with the connection broken there"
    config.addinivalue_line("markers", text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """If several event loops are configured, make one test for each event loop. A plain function uses no event loop."""
    if "mq_backend" in metafunc.fixturenames and inspect.iscoroutinefunction(metafunc.function):
        names = _backends(metafunc.definition)
        if len(names) > 1:
            metafunc.parametrize("mq_backend", names, indirect=True)


@pytest.fixture
def mq_backend(request: pytest.FixtureRequest) -> str:
    """Return the name of the event loop that this test runs on."""
    # getattr: pytest gives a request `param` only if the fixture is parametrized. cast: `param` can be any object for pytest.
    return cast("str", getattr(request, "param", None) or _backends(request.node)[0])


@pytest.fixture
def mq(mq_backend: str) -> Iterator["QueueManagerKit"]:  # noqa: ARG001 - requested so that every test with mq has it
    """Provide a queue manager in memory with a virtual clock. A coroutine test with this fixture runs in virtual time."""
    from mqflow.testing.kit import QueueManagerKit  # noqa: PLC0415 - only tests that request it import it

    kit = QueueManagerKit()
    yield kit
    kit.close()


@pytest.fixture
def mq_standin() -> Iterator["StandInKit"]:
    """Provide a queue manager in memory for unmodified ibmmq and pymqi. Import these packages in the test, not earlier."""
    from mqflow.testing.standin import StandInKit  # noqa: PLC0415 - as above

    kit = StandInKit()
    yield kit
    kit.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test with the fixture `mq` in virtual time; leave every other test to pytest."""
    every_call = _every_call(pyfuncitem)
    if "mq" not in pyfuncitem.funcargs or not inspect.iscoroutinefunction(pyfuncitem.obj):
        if every_call:
            raise pytest.UsageError(
                f"{pyfuncitem.nodeid}: mq_faults needs a coroutine function (async def) with the fixture mq."
            )
        return None
    from mqflow.testing.fault_runs import run_once, run_with_every_call_broken  # noqa: PLC0415 - as above

    kit = cast("QueueManagerKit", pyfuncitem.funcargs["mq"])
    backend = cast("Backend", pyfuncitem.funcargs["mq_backend"])
    names = inspect.signature(pyfuncitem.obj).parameters.keys() & pyfuncitem.funcargs.keys()  # a default is no fixture
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}
    runs = run_with_every_call_broken if every_call else run_once
    runs(kit, partial(pyfuncitem.obj, **arguments), backend)
    return True


def _backends(item: pytest.Item | pytest.Function) -> list[str]:
    marker = item.get_closest_marker("mq_backend")
    names = [str(name) for name in (marker.args if marker is not None and marker.args else item.config.getini("mq_backends"))]
    unknown = [name for name in names if name not in _BACKENDS]
    if unknown or not names:
        raise pytest.UsageError(
            f"mq_backend: {', '.join(unknown) or 'nothing'} is not an event loop. Use one of: {', '.join(_BACKENDS)}."
        )
    return names


def _every_call(item: pytest.Function) -> bool:
    marker = item.get_closest_marker("mq_faults")
    if marker is None:
        return False
    if marker.args != ("every-call",):
        raise pytest.UsageError(f"{item.nodeid}: mq_faults takes 'every-call', not {marker.args!r}.")
    return True
