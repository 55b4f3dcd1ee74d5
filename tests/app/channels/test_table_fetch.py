"""mqflow fetches a channel table from a URL, within limits of time and size. Server errors always give one typed error."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from mqflow.app.channels import table_fetch
from mqflow.app.channels.source_reader import read_table
from mqflow.app.channels.table_fetch import fetch
from mqflow.policy.channels.sources import locate_table
from mqflow.policy.channels.table import ChannelTableError
from mqflow.policy.channels.table_json import TABLE_BYTES_MAX
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.world import SYSTEM_CLOCK, Clock
from tests.doubles import SteppingClock

TABLE = b'{"channel":[{"name":"A","type":"clientConnection"}]}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 52\r\n\r\n" + TABLE

Serve = Callable[[socket.socket], None]


class Server:
    """A server for one connection: its port, and the request that it received."""

    def __init__(self, serve: Serve, context: ssl.SSLContext | None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._serve = serve
        self._context = context
        self.asked = b""
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(OSError), self._listener.accept()[0] as plain:
            connection = self._context.wrap_socket(plain, server_side=True) if self._context else plain
            with connection:
                while b"\r\n\r\n" not in self.asked and (more := connection.recv(4096)):
                    self.asked += more
                self._serve(connection)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@contextmanager
def server(answer: bytes | Serve, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    serving = Server((lambda connection: connection.sendall(answer)) if isinstance(answer, bytes) else answer, context)
    try:
        yield serving
    finally:
        serving.close()


def fetched(port: int, *, path: str = "/ccdt.json", user: str = "", clock: Clock = SYSTEM_CLOCK) -> bytes:
    return fetch(locate_table(f"http://{user}127.0.0.1:{port}{path}", http_allowed=True), clock=clock)


def drip(connection: socket.socket, start: bytes) -> None:
    """Send the first bytes, then single bytes until the client closes the connection."""
    connection.sendall(start)
    while True:
        connection.sendall(b" ")


def test_the_table_is_the_answer_of_the_server() -> None:
    with server(OK) as serving:
        assert TABLE == fetched(serving.port, path="/a/ccdt.json?of=orders#x")

        assert serving.asked.startswith(b"GET /a/ccdt.json?of=orders HTTP/1.1\r\n")


def test_a_table_in_chunks_is_put_together() -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in (TABLE[:10], TABLE[10:], b""))

    with server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks) as serving:
        assert TABLE == fetched(serving.port)


def test_user_and_password_of_the_url_are_sent_and_not_shown() -> None:
    with server(b"HTTP/1.1 401 Unauthorized\r\n\r\n") as serving:
        with pytest.raises(ChannelTableError, match="401 Unauthorized") as caught:
            fetched(serving.port, user="me:hunter2@")

        assert b"Authorization: Basic bWU6aHVudGVyMg==\r\n" in serving.asked
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("where", ["file:///etc/passwd", "https://elsewhere/ccdt.json", "/other.json"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirection_is_not_followed_and_says_where_it_led(status: int, where: str) -> None:
    answer = f"HTTP/1.1 {status} Moved\r\nLocation: {where}\r\nContent-Length: 0\r\n\r\n".encode()

    with server(answer) as serving, pytest.raises(ChannelTableError, match=f"redirects to '{where}'.*not followed"):
        fetched(serving.port)


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    with server(OK) as serving:
        assert TABLE == fetched(serving.port)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "the server answered 404 Not Found"),
        (b"HTTP/1.1 500 \r\n\r\n", "the server answered 500"),
        (b"", "closed connection without response"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "SSH-2.0"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense", "cannot be fetched"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200, "got more than 100 headers"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, "header line"),
    ],
)
def test_the_error_for_another_answer_is_a_sentence(answer: bytes, said: str) -> None:
    with server(answer) as serving, pytest.raises(ChannelTableError, match=said):
        fetched(serving.port)


def test_no_more_is_read_than_shows_that_it_is_too_much() -> None:
    endless = b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (3 * TABLE_BYTES_MAX)

    with server(endless) as serving:
        assert TABLE_BYTES_MAX + 1 == len(fetched(serving.port))


@pytest.mark.parametrize(
    "start", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["status", "header", "body"]
)
def test_a_server_that_sends_a_byte_from_time_to_time_does_not_get_around_the_limit(start: bytes) -> None:
    # The clock reaches the limit of 5 s long before the limits of lines and bodies.
    with server(partial(drip, start=start)) as serving, pytest.raises(ChannelTableError, match="did not arrive within 5 s"):
        fetched(serving.port, clock=SteppingClock())


def test_each_read_may_take_the_rest_of_the_time_and_no_more() -> None:
    one, other = socket.socketpair()
    with one, other:
        other.sendall(b"ab")
        answer = table_fetch._Until(one, 6.0, SteppingClock())
        left = [(answer.readinto(bytearray(1)), one.gettimeout()) for _ in range(2)]

    assert [(1, 5.0), (1, 4.0)] == left


def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    over = threading.Event()

    def wait(_: socket.socket) -> None:
        over.wait()

    with server(wait) as serving:
        where = locate_table(f"http://127.0.0.1:{serving.port}/", http_allowed=True)
        try:
            with pytest.raises(ChannelTableError, match=r"did not arrive within 0\.05 s"):
                fetch(where, clock=SYSTEM_CLOCK, limit_s=0.05)
        finally:
            over.set()


def test_addresses_that_do_not_answer_leave_the_whole_time_to_the_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, connect = VirtualClock(), socket.create_connection

    def after_two_dead_addresses(address: tuple[str, int], timeout: float, *more: None) -> socket.socket:
        clock.advance(2 * timeout)
        return connect(address, timeout, *more)

    monkeypatch.setattr(socket, "create_connection", after_two_dead_addresses)
    with server(OK) as serving:
        assert TABLE == fetched(serving.port, clock=clock)


def test_the_error_says_if_no_process_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(ChannelTableError, match="Connection refused"):
        fetched(port)


@pytest.mark.parametrize("peer", ["169.254.169.254", "fe80::1%eth0", "::ffff:169.254.0.1"])
def test_a_link_local_address_is_refused(peer: str) -> None:
    with pytest.raises(ValueError, match="link-local"):
        table_fetch._refuse_link_local(peer)


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.0.1", "::1", "2001:db8::1", "::ffff:10.0.0.1"])
def test_other_addresses_are_not(peer: str) -> None:
    table_fetch._refuse_link_local(peer)


def test_a_link_local_peer_is_asked_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(peer: str) -> None:
        raise ValueError(f"not {peer}")

    monkeypatch.setattr(table_fetch, "_refuse_link_local", refuse)
    with server(OK) as serving:
        with pytest.raises(ChannelTableError, match=r"not 127\.0\.0\.1"):
            fetched(serving.port)

        serving.close()
        assert b"" == serving.asked


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost and its key, in one file."""
    file = tmp_path_factory.mktemp("tls") / "localhost.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    more = "-addext subjectAltName=DNS:localhost -keyout - -out -"
    made = subprocess.run([*command.split(), *more.split()], capture_output=True, check=True)
    file.write_bytes(made.stdout)
    return file


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_over_https_the_table_comes_from_a_server_that_an_authority_vouches_for(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    with server(OK, server_context(certificate)) as serving:
        assert ["A"] == [channel.name for channel in read_table(f"https://localhost:{serving.port}/ccdt.json").channels]


@pytest.mark.parametrize(("host", "trusted"), [("localhost", False), ("127.0.0.1", True)])
def test_over_https_a_server_without_a_good_certificate_is_refused(
    host: str, trusted: object, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    with server(OK, server_context(certificate)) as serving:
        with pytest.raises(ChannelTableError, match="CERTIFICATE_VERIFY_FAILED"):
            read_table(f"https://{host}:{serving.port}/ccdt.json")

        assert b"" == serving.asked
