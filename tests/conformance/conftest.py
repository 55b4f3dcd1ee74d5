"""The queue managers of the conformance tests."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import MemoryStore, Store
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import Server, serve
from mqflow.verbs import Connection
from mqflow.world import World
from tests.client_packages import PACKAGES
from tests.conformance.elsewhere import RUNMQSC, URL, elsewhere
from tests.conformance.programs import Program
from tests.conformance.through_packages import through
from tests.conformance.under_test import ManualClock, UnderTest
from tests.long import of_the_day

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the tests use only folders that they make below it
QueueManagerMaker = Callable[[], Iterator[UnderTest]]


def _in_memory() -> Iterator[UnderTest]:
    yield from _embedded(MemoryStore)


def _on_sqlite() -> Iterator[UnderTest]:
    # The store is in a file system in memory if possible: these tests check the rules, and the tests of the store check the
    # disk.
    with TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as quick:
        yield from _embedded(lambda: SqliteStore(Path(quick) / "data"), survives=True)


def _served() -> Iterator[UnderTest]:
    """Yield the queue manager in memory behind a server: every call goes through a socket to another thread and back."""
    with TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as quick:
        for owner in _embedded(MemoryStore):
            assert isinstance(owner.queue_manager, EmbeddedQueueManager)
            assert owner.clock is not None
            with serve(owner.queue_manager, Path(quick) / "qm", world=World(owner.clock)) as server:
                served = ServedQueueManager(server.path, name=owner.name)
                administration = served.administration
                yield replace(owner, queue_manager=served, administration=administration, kill=partial(_kill_process, server))
                served.close()


def _kill_process(server: Server, connection: Connection) -> None:
    assert isinstance(connection, ServedConnection)
    before = server.connection_count
    connection.abandon()
    while server.connection_count == before:  # the owner notices immediately, but only after this thread continues
        threading.Event().wait(0.001)


def _embedded(make_store: Callable[[], Store], *, survives: bool = False) -> Iterator[UnderTest]:
    clock = ManualClock()
    running: list[EmbeddedQueueManager] = []

    def start() -> UnderTest:
        queue_manager = EmbeddedQueueManager("QM1", store=make_store(), world=World(clock))
        running.append(queue_manager)
        return UnderTest(
            queue_manager,
            queue_manager.administration,
            kill=_kill,
            quiesce=queue_manager.quiesce,
            stop=queue_manager.stop,
            clock=clock,
            restart=restart if survives else None,
        )

    def restart() -> UnderTest:
        running[-1].close()
        return start()

    yield start()
    running[-1].close()


def _kill(connection: Connection) -> None:
    assert isinstance(connection, EmbeddedConnection)
    connection.abandon()


def _through(package: str) -> Iterator[UnderTest]:
    for under_test in _embedded(MemoryStore):
        yield from through(package, under_test)


MAKERS: dict[str, QueueManagerMaker] = {"memory": _in_memory, "sqlite": _on_sqlite, "served": _served} | {
    package: partial(_through, package) for package in PACKAGES
}
_SAMPLED = tuple(name for name in MAKERS if name != "memory")
if URL and RUNMQSC:
    MAKERS["elsewhere"] = elsewhere


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run each row of a table in memory and on one other queue manager, another one each day; other tests run on all.

    A row differs from the other rows in what the engine decides, and each table is on every queue manager every day.
    """
    left_out = {item for item in items if isinstance(item, pytest.Function) and _is_of_another_day(item)}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _is_of_another_day(item: pytest.Function) -> bool:
    given = item.callspec.params if hasattr(item, "callspec") else {}
    maker = given.get("queue_manager")
    if maker not in _SAMPLED or not given.keys() - {"queue_manager", "anyio_backend"}:
        return False
    row = item.nodeid.replace(f"[{maker}-", "[")
    return maker not in of_the_day(_SAMPLED, 1, name=row)


@pytest.fixture(params=MAKERS)
def queue_manager(request: pytest.FixtureRequest) -> Iterator[UnderTest]:
    made = MAKERS[request.param]()
    under_test = next(made)
    test: str = request.node.originalname
    given = request.node.callspec.id.removeprefix(str(request.param)).removeprefix("-")
    why = under_test.differences.get(test) or under_test.differences.get(f"{test}[{given}]")
    if why is not None:
        pytest.skip(f"declared difference: {why}")
    yield under_test
    next(made, None)


@pytest.fixture
def program(queue_manager: UnderTest) -> Program:
    """A connected program."""
    return Program(queue_manager, application_name="conformance", user="tester")


@pytest.fixture
def other(queue_manager: UnderTest) -> Program:
    """Another program, connected to the same queue manager."""
    return Program(queue_manager, application_name="other", user="somebody")


@pytest.fixture
def queue(queue_manager: UnderTest) -> str:
    """A local queue with default attributes."""
    return queue_manager.define("Q")
