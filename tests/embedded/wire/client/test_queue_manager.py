"""A connect to a served queue manager: the hello that it sends, the addresses in turn, and the sentence of each refusal."""

import socket
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.wire.client.line import Line
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.addresses import Address, TcpAddress, UnixAddress
from mqflow.embedded.wire.protocol.frames import made
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.reason_classes import Class, classify

FIRST, SECOND, THIRD = (TcpAddress(name) for name in ("first", "second", "third"))
ANSWERS = requests.Reply(None, "QM1")


class Network:
    """Answers each connect with an error, or with a stream whose peer has replied so already."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.dialled: list[tuple[str, ssl.SSLContext | None, float]] = []
        self.streams: list[socket.socket] = []
        self.peers: list[socket.socket] = []

    def dial(self, address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> socket.socket:
        name = address.host if isinstance(address, TcpAddress) else address.path.name
        self.dialled.append((name, tls, timeout_s))
        answer = self.answers[name]
        if isinstance(answer, OSError):
            raise answer
        ours, theirs = socket.socketpair()
        self.streams.append(ours)
        if answer is None:
            theirs.close()
        else:
            theirs.sendall(made(requests.encode(answer)))
            self.peers.append(theirs)
        return ours

    def hello(self) -> requests.Request:
        """Return the request that the last peer received."""
        peer = self.peers[-1]
        peer.settimeout(10)
        return requests.decode_request(peer.recv(65_536)[4:])

    def close(self) -> None:
        for peer in self.peers:
            peer.close()


def served(network: Network, address: Any, **options: Any) -> ServedQueueManager:
    return ServedQueueManager(address, name="QM1", dial=network.dial, **options)


def refused(call: Callable[[], object]) -> MQIError:
    with pytest.raises(MQIError) as raised:
        call()
    return raised.value


def test_a_hello_says_who_connects_to_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/orders.py", "--all"])
    network = Network(first=ANSWERS)
    manager = served(network, FIRST, user="app", password="hunter2", silence_s=3.0)  # noqa: S106 - of a test

    assert ("QM1", "QM1") == (manager.name, manager.connect(application_name="batch", user="other").queue_manager_name)
    assert requests.Hello(7, "QM1", "batch", "other", "hunter2") == network.hello()
    manager.connect()
    assert requests.Hello(7, "QM1", "orders.py", "app", "hunter2") == network.hello()
    assert [("first", None, 3.0)] * 2 == network.dialled
    monkeypatch.setattr("sys.argv", [])
    manager.connect()
    assert requests.Hello(7, "QM1", "", "app", "hunter2") == network.hello()
    network.answers["first"] = requests.Reply(None, "QM1")
    assert manager.administration is not None
    assert requests.Hello(7, "QM1", "mqflow administration", "app", "hunter2", administers=True) == network.hello()
    manager.close()
    network.close()


def test_a_password_that_was_exchanged_is_read_again_for_the_next_connection() -> None:
    network = Network(first=ANSWERS)
    manager = served(network, FIRST, user="app", password=iter(("old", "new")).__next__)

    said = list[requests.Request]()
    for _ in range(2):
        manager.connect(application_name="batch")
        said.append(network.hello())

    assert [requests.Hello(7, "QM1", "batch", "app", password) for password in ("old", "new")] == said
    manager.close()
    network.close()


@pytest.mark.parametrize(
    ("data", "said"), [(None, "The password cannot be read: "), (b"hunter2\xff", "The password file is not text in UTF-8")]
)
def test_a_password_that_cannot_be_read_is_an_error_after_which_an_application_connects_again(
    tmp_path: Path, data: bytes | None, said: str
) -> None:
    if data is not None:
        (tmp_path / "secret").write_bytes(data)
    network = Network(first=ANSWERS)
    manager = served(network, FIRST, user="app", password=partial((tmp_path / "secret").read_text, encoding="utf-8"))

    error = refused(manager.connect)

    assert (Reason.UNEXPECTED_ERROR, Class.RECONNECT, []) == (error.reason, classify(error.reason), network.dialled)
    assert said in str(error)
    assert "0xff" not in f"{error}{error.__cause__}"


def failing(reason: Reason, detail: str) -> requests.Reply[object]:
    return requests.Reply(requests.failure_of(error_for(reason, "MQCONNX", queue_manager="QM1", detail=detail)))


GONE = ConnectionRefusedError(111, "Connection refused")
STANDBY = failing(Reason.STANDBY_Q_MGR, "a standby")
NOT_ALLOWED = failing(Reason.NOT_AUTHORIZED, "no such user")


@pytest.mark.parametrize(
    ("answers", "dialled", "reason"),
    [
        ((ANSWERS, GONE, GONE), 1, None),
        ((GONE, ANSWERS, GONE), 2, None),
        ((GONE, GONE, ANSWERS), 3, None),
        ((GONE, GONE, GONE), 3, Reason.Q_MGR_NOT_AVAILABLE),
        ((NOT_ALLOWED, ANSWERS, ANSWERS), 1, Reason.NOT_AUTHORIZED),
        ((GONE, GONE, NOT_ALLOWED), 3, Reason.NOT_AUTHORIZED),
    ],
)
def test_the_addresses_are_tried_in_turn_until_one_answers(answers: Any, dialled: int, reason: Reason | None) -> None:
    network = Network(**dict(zip(("first", "second", "third"), answers, strict=True)))
    manager = served(network, (FIRST, SECOND, THIRD))

    if reason is None:
        assert "QM1" == manager.connect().queue_manager_name
    else:
        assert reason == refused(manager.connect).reason

    assert ["first", "second", "third"][:dialled] == [dialled_at[0] for dialled_at in network.dialled]
    manager.close()
    network.close()


def tls_error(kind: type[ssl.SSLError], reason: str) -> OSError:
    error = kind(1, f"[SSL: {reason}] failed")
    error.reason = reason
    return error


CA = ". ca=FILE in the URL names the authority to trust, and a certificate is valid for its hosts only"
NO_CERTIFICATE = "The queue manager refused the certificate of this client (cert=FILE in the URL),"
CUT_OFF = "The server broke off the TLS handshake (perhaps it is stopping)"
TLS = Reason.SSL_INITIALIZATION_ERROR


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [
        (GONE, Reason.Q_MGR_NOT_AVAILABLE, "No process serves a queue manager at first:1414 (Connection refused)"),
        (OSError("odd"), Reason.Q_MGR_NOT_AVAILABLE, "No process serves a queue manager at first:1414 (odd)"),
        (TimeoutError("timed out"), Reason.Q_MGR_NOT_AVAILABLE, "Nothing answered in time at first:1414 (timed out)"),
        (
            socket.gaierror(-2, "Name or service not known"),
            Reason.HOST_NOT_AVAILABLE,
            "The host name is unknown, at first:1414 (Name or service not known)",
        ),
        (
            tls_error(ssl.SSLCertVerificationError, "CERTIFICATE_VERIFY_FAILED"),
            TLS,
            f"The certificate is not trusted, at first:1414 ([SSL: CERTIFICATE_VERIFY_FAILED] failed){CA}",
        ),
        (
            tls_error(ssl.SSLEOFError, "UNEXPECTED_EOF"),
            Reason.Q_MGR_NOT_AVAILABLE,
            f"{CUT_OFF} at first:1414 ([SSL: UNEXPECTED_EOF] failed)",
        ),
        *(
            (
                tls_error(ssl.SSLError, alert),
                TLS,
                f"{NO_CERTIFICATE} at first:1414 ([SSL: {alert}] failed)",
            )
            for alert in ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "TLSV1_ALERT_UNKNOWN_CA")
        ),
        *(
            (tls_error(ssl.SSLError, name), TLS, f"The TLS handshake failed at first:1414 ([SSL: {name}] failed)")
            for name in ("WRONG_VERSION_NUMBER", "TLSV1_ALERT_DECODE_ERROR", "CERTIFICATE_TYPE")
        ),
    ],
)  # fmt: skip
def test_a_failed_connect_says_where_and_why(error: OSError, reason: Reason, detail: str) -> None:
    refusal = refused(served(Network(first=error), FIRST).connect)

    assert (reason, detail, "MQCONNX", "QM1") == (refusal.reason, refusal.detail, refusal.verb, refusal.queue_manager)
    assert error is refusal.__cause__


@pytest.mark.parametrize(
    ("address", "hint"),
    [(FIRST, "first:1414 accepted the connection and ended it. If it is served with TLS, the URL is embedded+tls:"),
     (UnixAddress(Path("/run/first")), "The owner is gone: ")],
)  # fmt: skip
def test_a_server_that_ends_the_connection_may_want_tls(address: Address, hint: str) -> None:
    refusal = refused(served(Network(first=None), address).connect)

    assert Reason.CONNECTION_BROKEN == refusal.reason
    assert refusal.detail.startswith(hint)


def test_an_answer_of_a_queue_manager_says_more_than_that_none_is_available() -> None:
    network = Network(first=STANDBY, second=GONE, third=GONE)

    refusal = refused(served(network, (FIRST, SECOND, THIRD)).connect)

    assert (Reason.STANDBY_Q_MGR, "a standby", 3) == (refusal.reason, refusal.detail, len(network.dialled))
    network.close()


@pytest.mark.parametrize(("interrupted", "expected"), [(False, MQIError), (True, KeyboardInterrupt)])
def test_a_connect_that_is_refused_or_interrupted_keeps_no_connection(
    *, interrupted: bool, expected: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> object:
        raise KeyboardInterrupt

    network = Network(first=NOT_ALLOWED)
    manager = served(network, FIRST)
    if interrupted:
        monkeypatch.setattr(Line, "call", interrupt)

    with pytest.raises(expected):
        manager.connect()

    assert ([-1], set()) == ([stream.fileno() for stream in network.streams], manager._lines)
    network.close()
