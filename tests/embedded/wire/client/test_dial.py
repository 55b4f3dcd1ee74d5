"""The socket of a new connection: its options and its time limits, and no open file after a failure."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mqflow.embedded.wire.client.dial import dial
from mqflow.embedded.wire.protocol.addresses import TcpAddress, UnixAddress
from mqflow.embedded.wire.protocol.frames import time_limit


@pytest.fixture
def tcp() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_request_over_tcp_goes_out_at_once_and_waits_without_the_limit_of_the_connect(tcp: socket.socket) -> None:
    with closing(dial(TcpAddress(*tcp.getsockname()), None, 2.0)) as stream:
        assert isinstance(stream, socket.socket)
        assert (True, None) == (bool(stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)), stream.gettimeout())


def test_a_connect_to_a_unix_socket_has_a_limit(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "qm"))
        listener.listen()
        with closing(dial(UnixAddress(folder / "qm"), None, 2.5)) as stream:
            assert isinstance(stream, socket.socket)
            limit = stream.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, 16)
            assert (time_limit(2.5), None) == (limit, stream.gettimeout())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted where Linux lists them")
def test_a_connect_that_fails_leaves_no_socket_open(tcp: socket.socket, folder: Path) -> None:
    here = TcpAddress(*tcp.getsockname())
    before = open_files()

    with pytest.raises(FileNotFoundError) as unix:
        dial(UnixAddress(folder / "nothing"), None, 2.0)
    with pytest.raises(OSError, match="timed out") as handshake:
        dial(here, ssl.create_default_context(), 0.01)  # the listener answers no handshake

    assert before == open_files(), (unix.value, handshake.value)  # the errors hold the sockets that were not closed
