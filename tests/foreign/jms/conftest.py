"""The fixtures of the tests with IBM's JMS classes: one Java program for all of them, and listeners for its connections.

Each conversation of the program is kept. At the end, Wireshark reads all conversations.
"""

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, Protocol

import pytest

from mqflow.embedded.channel.admission import ServableToClients
from mqflow.embedded.channel.listener import serve_channel
from mqflow.embedded.channel.peer import Tap
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.listener import Server
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.world import SYSTEM_CLOCK, Clock, World
from tests.doubles import queue_manager_with
from tests.foreign.dissecting import TSHARK, Conversations, wrong_conversations
from tests.foreign.jms.program import MQSC, Program, Scenario, class_paths

BROKEN_ON_PURPOSE: Final = "broken"


class Serve(Protocol):
    """Serves a queue manager to the program until the end of the test; returns the port, and the server."""

    def __call__(
        self,
        queue_manager: ServableToClients,
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
        clock: Clock = SYSTEM_CLOCK,
        heard: Tap | None = None,
    ) -> tuple[int, Server]: ...


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    program = Program(class_paths(), tmp_path_factory.mktemp("java"))
    yield program
    program.close()


@pytest.fixture(scope="session")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversations]:
    """Keep what the program and the listeners say. Wireshark must understand every segment, except messages that are broken."""
    kept = Conversations()
    yield kept
    if TSHARK is not None:
        wrong = wrong_conversations(kept, tmp_path_factory.mktemp("conversations"))
        assert [] == [name for name in wrong if BROKEN_ON_PURPOSE not in name]


@pytest.fixture
def serve(conversations: Conversations, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Serve]:
    users = UsersFile(tmp_path / "users.json", bytes, cost=2)
    users.set("app", "secret", administrator=True)
    with ExitStack() as servers:

        def serve(
            queue_manager: ServableToClients,
            port: int = 0,
            *,
            tls: ssl.SSLContext | None = None,
            clock: Clock = SYSTEM_CLOCK,
            heard: Tap | None = None,
        ) -> tuple[int, Server]:
            kept = conversations.tap(request.node.name)

            def tap(from_client: bool, data: bytes) -> None:  # noqa: FBT001 - as in `Tap`
                kept(from_client, data)
                if heard is not None:
                    heard(from_client, data)

            server = serve_channel(queue_manager, TcpAddress("127.0.0.1", port), users, tls=tls, world=World(clock), tap=tap)
            servers.enter_context(closing(server))
            assert isinstance(server.address, TcpAddress)
            return server.address.port, server

        yield serve


queue_manager = queue_manager_with(MQSC)


@pytest.fixture
def jms(java: Program, queue_manager: EmbeddedQueueManager, serve: Serve) -> Scenario:
    """Return a function that runs a scenario of IBM's JMS classes, and returns the lines of its output."""
    port, _ = serve(queue_manager)

    def scenario(
        name: str,
        password: str = "secret",  # noqa: S107 - a test's
        *,
        stop: Callable[[], None] | None = None,
    ) -> list[str]:
        return java.run(port, "app", password, name, stop)

    return scenario
