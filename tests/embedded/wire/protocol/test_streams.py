"""A socket behind TLS: the handshake, bytes in both directions, and what happens to bytes for which there is no room."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime

import pytest

from mqflow.embedded.wire.protocol.frames import time_limit
from mqflow.embedded.wire.protocol.streams import TlsStream
from mqflow.embedded.wire.server.certificates import (
    CertificateFiles,
    client_context,
    make_certificates,
    make_client_certificate,
    server_context,
)

NOW = socket.MSG_DONTWAIT


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    folder, now = tmp_path_factory.mktemp("tls"), datetime.now(UTC)
    made = make_certificates(folder, ["localhost"], name="QM1", now=now)
    make_client_certificate(folder, "alice", name="QM1", now=now)
    return made


class Pair:
    """A client and a server, each behind TLS, over two connected sockets."""

    def __init__(self, client: ssl.SSLContext, server: ssl.SSLContext, host: str = "localhost") -> None:
        self.here, self.there = socket.socketpair()
        for raw in (self.here, self.there):
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                raw.setsockopt(socket.SOL_SOCKET, option, time_limit(20))
        self.client = TlsStream(self.here, client, server_side=False, host=host)
        self.server = TlsStream(self.there, server, server_side=True)
        self.refusals: list[ssl.SSLError] = []

    def shake(self) -> None:
        def serve() -> None:
            try:
                self.server.handshake()
            except ssl.SSLError as error:
                self.refusals.append(error)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            self.client.handshake()
        finally:
            serving.join()

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def pair(files: CertificateFiles) -> Iterator[Pair]:
    made = Pair(client_context(files.authority), server_context(files.certificate, files.key))
    with closing(made):
        made.shake()
        yield made


def test_bytes_go_in_both_directions_as_they_are_until_one_side_ends(pair: Pair) -> None:
    pair.client.handshake()  # has been made
    question, answer = bytes(range(256)) * 100, b"answer"
    assert (len(question), 6) == (pair.client.send(question), pair.server.send(bytearray(answer)))

    heard = b""
    while len(heard) < len(question):
        heard += pair.server.recv(7_000)
    assert (question, b"ans", b"wer") == (heard, pair.client.recv(3), pair.client.recv(9))
    with pytest.raises(BlockingIOError):
        pair.client.recv(1, NOW)
    pair.client.send(b"last")
    pair.client.shutdown(socket.SHUT_WR)
    assert [b"last", b"", b""] == [pair.server.recv(9) for _ in range(3)]


def test_a_peer_that_says_good_bye_has_ended(pair: Pair) -> None:
    with suppress(ssl.SSLWantReadError):
        pair.client._tls.unwrap()
    pair.client._flush(0)

    assert b"" == pair.server.recv(9)


def test_a_send_that_must_not_block_keeps_the_rest_for_the_next_send(pair: Pair) -> None:
    much = bytes(4_000_000)
    assert (len(much), 4) == (pair.client.send(much, NOW), pair.client.send(b"more", NOW))
    heard = bytearray()

    def hear() -> None:
        while len(heard) < len(much) + 8:
            heard.extend(pair.server.recv(1_000_000))

    hearing = threading.Thread(target=hear)
    hearing.start()
    assert 4 == pair.client.send(b"last")
    hearing.join()
    assert much + b"morelast" == bytes(heard)


def test_a_send_that_may_block_raises_when_its_limit_is_over(pair: Pair) -> None:
    pair.here.setblocking(False)

    with pytest.raises(BlockingIOError):
        pair.client.send(bytes(4_000_000))


def test_a_stream_has_the_descriptor_the_options_and_the_end_of_its_socket(pair: Pair) -> None:
    pair.client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    assert (pair.here.fileno(), 1) == (pair.client.fileno(), pair.here.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

    pair.close()

    assert [-1, -1] == [pair.here.fileno(), pair.there.fileno()]


def test_a_peer_has_the_names_of_its_certificate(files: CertificateFiles, pair: Pair) -> None:
    alice = files.client("alice")
    own = client_context(files.authority, alice, alice.with_suffix(".key"))
    with closing(Pair(own, server_context(files.certificate, files.key, files.client_authority))) as named:
        named.shake()

        assert [["alice"], ["QM1 at localhost"], []] == [each.peer_names for each in (named.server, named.client, pair.server)]


@pytest.mark.parametrize(("trusts", "host", "alert"), [(False, "localhost", "UNKNOWN_CA"), (True, "elsewhere", "ALERT")])
def test_a_server_that_is_not_trusted_hears_the_alert(files: CertificateFiles, *, trusts: bool, host: str, alert: str) -> None:
    context = client_context(files.authority) if trusts else client_context()
    with closing(Pair(context, server_context(files.certificate, files.key), host)) as pair:
        with pytest.raises(ssl.SSLCertVerificationError):
            pair.shake()
        if not pair.refusals:  # in TLS 1.3 the server has finished, and hears the alert when it receives
            with pytest.raises(ssl.SSLError) as heard:
                pair.server.recv(1)
            pair.refusals.append(heard.value)

    assert alert in str(pair.refusals[0].reason)
