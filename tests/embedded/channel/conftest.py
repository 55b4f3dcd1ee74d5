"""A queue manager with a listener for MQ's client programs, and programs that connect to it."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqflow.embedded.channel.listener import serve_channel
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.listener import Room, Server
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.fap.connection_flows import Credentials
from tests.doubles import queue_manager_with
from tests.fap.client_half import ChannelClient

APP = Credentials("app", "secret")
MQSC = """
DEFINE QLOCAL(Q1)
DEFINE QLOCAL(CLOSED) GET(DISABLED)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT,INQ)
SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,GET,INQ,BROWSE,SETALL)
"""
Dial = Callable[[], ChannelClient]


queue_manager = queue_manager_with(MQSC)


@pytest.fixture
def room() -> Room:
    return Room(4)


@pytest.fixture
def users(tmp_path: Path) -> UsersFile:
    made = UsersFile(tmp_path / "users.json", bytes, cost=2)
    made.set("app", "secret")
    made.set("guest", "guest")
    return made


@pytest.fixture
def server(queue_manager: EmbeddedQueueManager, users: UsersFile, room: Room) -> Iterator[Server]:
    with serve_channel(queue_manager, TcpAddress("127.0.0.1", 0), users, room=room) as serving:
        yield serving


@pytest.fixture
def dial(server: Server) -> Iterator[Dial]:
    """Connect a socket; all sockets close after the test."""
    assert isinstance(server.address, TcpAddress)
    port = server.address.port
    with contextlib.ExitStack() as opened:
        yield lambda: opened.enter_context(contextlib.closing(ChannelClient(port)))


@pytest.fixture
def client(dial: Dial) -> ChannelClient:
    return dial().begin(APP)
