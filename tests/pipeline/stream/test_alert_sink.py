"""Alerts reach a real HTTP server and a real program, once while nothing is killed, and never zero times."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from threading import Thread
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from mqflow.folders import Folder, folder_at
from mqflow.pipeline.stream.alert_sink import Alert, AlertError, Command, Sender, Webhook, begin, send
from tests.object_store import new_bucket, object_store

__all__ = ("Receiver", "receiving")

HOUR_US = 3_600_000_000
ALERT = Alert(
    qmgr="QM1", queue="ORDERS.IN", handler="on_orders", window_start_us=0, window_end_us=HOUR_US, messages=40, poisoned=12,
    poison_rate=0.3, expected_rate=0.002, score=7.5, first_msg_id="ab" * 24, exc_class="ValueError",
)  # fmt: skip
LATER = replace(ALERT, window_start_us=HOUR_US, window_end_us=2 * HOUR_US)


class Receiver:
    """The requests that a webhook got: the idempotency key and the body of each request."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[int] = []
        self.url = ""

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.got]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a server; it answers with the statuses in `answers`, then with 204."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            receiver.got.append((self.headers["Idempotency-Key"], body))
            status = receiver.answers.pop(0) if receiver.answers else 204
            self.send_response(status)
            if status in range(300, 400):
                self.send_header("Location", "/secret-login")
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Write nothing to stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/secret-path"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(params=["disk", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    if request.param == "disk":
        yield folder_at(tmp_path / "alerts")
        return
    with object_store():
        yield folder_at(f"{new_bucket()}/tables/alerts")


def started(folder: Folder, sender: Sender) -> Sender:
    begin(folder, sender, ())
    return sender


def test_each_alert_is_posted_once_with_its_key_the_oldest_first(folder: Folder, receiver: Receiver) -> None:
    webhook = started(folder, Webhook(receiver.url))

    sent = [send(folder, webhook, alerts) for alerts in ([LATER, ALERT], [ALERT, LATER], [LATER, ALERT])]

    assert [2, 0, 0] == sent
    assert [ALERT.key, LATER.key] == receiver.keys
    assert {"key": ALERT.key, "queue": "ORDERS.IN", "poisoned": 12, "first_msg_id": "ab" * 24}.items() <= receiver.got[0][
        1
    ].items()


def test_an_alert_whose_numbers_grow_is_not_sent_again(folder: Folder, receiver: Receiver) -> None:
    webhook = started(folder, Webhook(receiver.url))

    send(folder, webhook, [ALERT])
    send(folder, webhook, [replace(ALERT, poisoned=30, score=9.0)])

    assert [ALERT.key] == receiver.keys


def test_alerts_from_before_the_first_start_are_old(folder: Folder, receiver: Receiver) -> None:
    webhook = Webhook(receiver.url)

    begin(folder, webhook, [ALERT])
    begin(folder, webhook, [ALERT, LATER])  # the start of a second process
    send(folder, webhook, [ALERT, LATER])

    assert [LATER.key] == receiver.keys


def test_a_refused_alert_is_sent_again_and_those_before_it_are_not(folder: Folder, receiver: Receiver) -> None:
    webhook = started(folder, Webhook(receiver.url))
    receiver.answers = [200, 503]

    with pytest.raises(AlertError, match=r"The webhook http://127\.0\.0\.1 did not take an alert: HTTP Error 503") as refused:
        send(folder, webhook, [ALERT, LATER])
    send(folder, webhook, [ALERT, LATER])

    assert [ALERT.key, LATER.key, LATER.key] == receiver.keys
    assert "secret-path" not in str(refused.value)


def test_a_second_stream_that_starts_at_the_same_time_makes_no_new_alert_old(tmp_path: Path, receiver: Receiver) -> None:
    folder, webhook = folder_at(tmp_path / "alerts"), Webhook(receiver.url)

    class Early(Struct, frozen=True):
        """The folder as the second stream has seen it just before the start of the first."""

        def exists(self, _: str) -> bool:
            return False

        def __getattr__(self, name: str) -> Any:
            return getattr(folder, name)

    early: Any = Early()
    begin(folder, webhook, ())
    begin(early, webhook, [ALERT])

    assert 1 == send(folder, webhook, [ALERT])


@pytest.mark.parametrize("status", [301, 302, 303, 307])
def test_a_webhook_that_redirects_has_not_taken_the_alert(tmp_path: Path, receiver: Receiver, status: int) -> None:
    """A client that follows a redirect asks for the other page with GET and without the alert, and gets 200 there."""
    folder = folder_at(tmp_path / "alerts")
    webhook = started(folder, Webhook(receiver.url))
    receiver.answers = [status]

    with pytest.raises(AlertError, match=rf"did not take an alert: HTTP Error {status}") as refused:
        send(folder, webhook, [ALERT])

    assert "secret" not in str(refused.value)
    assert 1 == send(folder, webhook, [ALERT])


def test_a_server_that_does_not_speak_http_has_not_taken_the_alert(tmp_path: Path) -> None:
    folder = folder_at(tmp_path / "alerts")
    with create_server(("127.0.0.1", 0)) as server:
        webhook = started(folder, Webhook(f"http://127.0.0.1:{server.getsockname()[1]}/secret-path"))

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-server\r\n")
                while connection.recv(65_536):  # a close before the end of the request would break its send off
                    pass

        answering = Thread(target=answer)
        answering.start()
        with pytest.raises(AlertError, match=r"http://127\.0\.0\.1 did not take an alert: .*SSH"):
            send(folder, webhook, [ALERT])
        answering.join()


def test_of_two_streams_that_send_the_same_alert_none_fails(tmp_path: Path, receiver: Receiver) -> None:
    folder = folder_at(tmp_path / "alerts")
    webhook = started(folder, Webhook(receiver.url))

    class Slow(Struct, frozen=True):
        """Before its answer, another stream sends and records the same alert, with numbers that have grown."""

        name: str = "webhook"

        def send(self, alert: Alert) -> None:
            send(folder, webhook, [replace(alert, poisoned=30)])
            webhook.send(alert)

    assert 1 == send(folder, Slow(), [ALERT])
    assert [ALERT.key] * 2 == receiver.keys
    assert 0 == send(folder, webhook, [ALERT])


def test_a_kill_after_the_answer_and_before_the_record_sends_the_same_key_again(folder: Folder, receiver: Receiver) -> None:
    webhook = started(folder, Webhook(receiver.url))
    webhook.send(ALERT)  # the receiver has it, and no file records it

    send(folder, webhook, [ALERT])

    assert [ALERT.key] * 2 == receiver.keys


def test_a_webhook_that_is_away_takes_nothing(tmp_path: Path) -> None:
    folder, webhook = folder_at(tmp_path), Webhook("http://127.0.0.1:9/secret-path")
    begin(folder, webhook, ())

    with pytest.raises(AlertError, match=r"http://127\.0\.0\.1 did not take an alert: .*refused"):
        send(folder, webhook, [ALERT])


@pytest.mark.parametrize(
    "url",
    ["http://example:99999/secret", "http://example:port/secret", "http://example/secret path", "http://example/gehe\u00efm"],
)
def test_an_address_that_no_client_can_use_is_refused_without_its_path(url: str) -> None:
    with pytest.raises(AlertError, match="The URL of the webhook") as refused:
        Webhook(url).check()
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "example.com/hook", "http://", "http://[::1/secret"])
def test_a_text_that_is_not_a_web_address_is_refused_before_the_stream_starts(url: str) -> None:
    with pytest.raises(AlertError, match="must start with http:// or https://, and name a host"):
        Webhook(url).check()


def program(tmp_path: Path, text: str) -> Command:
    script = tmp_path / "program.py"
    script.write_text(text)
    return Command((sys.executable, str(script), str(tmp_path / "got")))


KEEPS = "import os, sys\nopen(sys.argv[1], 'a').write(os.environ['MQFLOW_ALERT_KEY'] + ' ' + sys.stdin.read() + '\\n')\n"


def test_a_command_gets_each_alert_once_on_its_stdin(tmp_path: Path) -> None:
    folder = folder_at(tmp_path / "alerts")
    command = started(folder, program(tmp_path, KEEPS))

    for _ in range(2):
        send(folder, command, [ALERT, LATER])

    lines = (tmp_path / "got").read_text().splitlines()
    assert [ALERT.key, LATER.key] == [line.partition(" ")[0] for line in lines]
    assert "on_orders" == json.loads(lines[0].partition(" ")[2])["handler"]


def test_a_command_that_ends_with_0_has_taken_the_alert_even_if_a_program_that_it_started_still_runs(tmp_path: Path) -> None:
    """A script can start its pager in the background. The pager then keeps the output of the script open."""
    folder, fifo = folder_at(tmp_path / "alerts"), tmp_path / "fifo"
    os.mkfifo(fifo)
    command = started(folder, program(tmp_path, f"import subprocess\nsubprocess.Popen(['cat', {str(fifo)!r}])\n"))

    try:
        assert 1 == send(folder, command, [ALERT])
    finally:
        fifo.open("wb").close()  # `cat` ends


def test_a_command_that_fails_keeps_its_alert_and_says_why(tmp_path: Path) -> None:
    folder = folder_at(tmp_path / "alerts")
    command = started(folder, program(tmp_path, "import sys\nsys.exit('no pager today')\n"))

    with pytest.raises(AlertError, match=r"ended with 1\. no pager today"):
        send(folder, command, [ALERT])

    assert 1 == send(folder, program(tmp_path, KEEPS), [ALERT])


def test_a_command_that_hangs_is_killed_and_keeps_its_alert(tmp_path: Path) -> None:
    folder = folder_at(tmp_path / "alerts")
    hanging = replace(program(tmp_path, "import signal\nsignal.pause()\n"), timeout_s=0.01)

    with pytest.raises(AlertError, match=r"did not take an alert: it ran longer than 0\.01 s, and was killed\.$"):
        send(folder, started(folder, hanging), [ALERT])

    assert 1 == send(folder, program(tmp_path, KEEPS), [ALERT])


def test_webhook_and_command_have_records_of_their_own(tmp_path: Path, receiver: Receiver) -> None:
    folder = folder_at(tmp_path / "alerts")
    senders = [started(folder, Webhook(receiver.url)), started(folder, program(tmp_path, KEEPS))]

    assert [1, 1] == [send(folder, sender, [ALERT]) for sender in senders]
    assert [ALERT.key] == receiver.keys
