"""A flood of peers that never log in: the decision which of them leaves, and a program that is served meanwhile."""

import contextlib
import socket
from pathlib import Path

import pytest

from mqflow.embedded.channel.listener import serve_channel
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.listener import serve_tcp
from mqflow.embedded.wire.server.strangers import Stranger, StrangerLimits, stranger_to_end
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.fap.connection_flows import Credentials
from mqflow.fap.transmission_segments import Header, SegmentType, to_segment
from mqflow.mqi.options import OpenOption
from mqflow.world import World
from tests.conformance.under_test import ManualClock
from tests.fap.client_half import ORDER, ChannelClient, initial_data

HERE = TcpAddress("127.0.0.1", 0)
LIMITS = StrangerLimits(most=3, hello_s=1_000.0, patience_s=0.0)
"""With these limits and a clock that stands still, no stranger leaves because of its age."""


def strangers(*given: tuple[str, float, bool]) -> list[Stranger]:
    return [Stranger(address=address, since=since, checked=checked) for address, since, checked in given]


@pytest.mark.parametrize(
    ("given", "index"),
    [
        pytest.param([], None, id="nobody is here"),
        pytest.param([("a", 9.5, False), ("a", 9.6, False)], None, id="all of them came just now"),
        pytest.param([("a", 5.0, False), ("a", 4.0, False)], 1, id="the oldest leaves"),
        pytest.param([("a", 4.0, True), ("a", 5.0, False)], 1, id="not while the server checks its log-in"),
        pytest.param([("b", 1.0, False), ("a", 5.0, False), ("a", 6.0, False)], 1, id="of the address with the most"),
        pytest.param([("b", 1.0, False), ("a", 9.5, False), ("a", 9.6, False)], 0, id="of another if those are new"),
    ],
)
def test_the_stranger_that_leaves(given: list[tuple[str, float, bool]], index: int | None) -> None:
    assert index == stranger_to_end(strangers(*given), now=10.0, patience_s=1.0)


@pytest.fixture
def users(tmp_path: Path) -> UsersFile:
    users = UsersFile(tmp_path / "users.json", bytes, cost=2)
    users.set("app", "secret", administrator=True)
    return users


SENT = {
    "nothing": b"",
    "half of a segment": to_segment(Header(kind=SegmentType.INITIAL_DATA), initial_data().to_bytes(ORDER))[:60],
    "a length and no more": b"TSH \0\0\xff\xff",
}


def test_a_client_program_is_served_during_a_flood_of_half_open_connections(users: UsersFile) -> None:
    with (
        EmbeddedQueueManager("QM1") as queue_manager,
        serve_channel(queue_manager, HERE, users, world=World(ManualClock()), strangers=LIMITS) as server,
        contextlib.ExitStack() as opened,
    ):
        assert isinstance(server.address, TcpAddress)
        address = (server.address.host, server.address.port)
        for sent in [*SENT.values()] * 2:  # twice as many as there are places
            opened.enter_context(socket.create_connection(address)).sendall(sent)

        client = opened.enter_context(contextlib.closing(ChannelClient(server.address.port)))
        client.begin(Credentials("app", "secret"))

        for _ in range(4):
            opened.enter_context(socket.create_connection(address))
        assert 0 == client.open("SYSTEM.DEFAULT.LOCAL.QUEUE", OpenOption.OUTPUT).reason


def test_an_application_is_served_during_a_flood_too(users: UsersFile) -> None:
    with (
        EmbeddedQueueManager("QM1") as queue_manager,
        serve_tcp(queue_manager, HERE, users, world=World(ManualClock()), strangers=LIMITS) as server,
        contextlib.ExitStack() as opened,
    ):
        assert isinstance(server.address, TcpAddress)
        for _ in range(6):
            opened.enter_context(socket.create_connection((server.address.host, server.address.port)))

        manager = ServedQueueManager(server.address, user="app", password="secret")  # noqa: S106 - a test's

        assert "QM1" == manager.connect().queue_manager_name
        manager.close()
