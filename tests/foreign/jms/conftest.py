"""The fixtures of the tests with IBM's JMS classes: one Java program for all of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqflow.embedded.channel.listener import serve_channel
from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.users_file import UsersFile
from tests.foreign.jms.program import MQSC, Program, Scenario, class_paths


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    program = Program(class_paths(), tmp_path_factory.mktemp("java"))
    yield program
    program.close()


@pytest.fixture
def queue_manager() -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1") as made:
        assert 0 == run(MQSC, made.administration).exit_code()
        yield made


@pytest.fixture
def jms(java: Program, queue_manager: EmbeddedQueueManager, tmp_path: Path) -> Iterator[Scenario]:
    """Run a scenario of IBM's JMS classes; return the lines of its output."""
    users = UsersFile(tmp_path / "users.json", bytes, cost=2)
    users.set("app", "secret", administrator=True)
    with serve_channel(queue_manager, TcpAddress("127.0.0.1", 0), users) as server:
        assert isinstance(server.address, TcpAddress)
        port = server.address.port

        def scenario(
            name: str,
            password: str = "secret",  # noqa: S107 - a test's
            *,
            stop: Callable[[], None] | None = None,
        ) -> list[str]:
            return java.run(port, "app", password, name, stop)

        yield scenario
