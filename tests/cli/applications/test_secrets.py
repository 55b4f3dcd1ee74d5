"""No password and no body is in anything that mqflow writes down: logs, spans, the ledger, records, headers, arguments, errors.

Real processes work with a planted password and planted bodies. Then the tests search everything that they wrote.
"""

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.verbs import GetOptions
from tests.cli.conftest import Run, free_port
from tests.leaving import popen_with_parent

PASSWORD = "planted-password-7f3a"  # noqa: S105 - searched for
WRONG = "planted-wrong-password-91c2"
BODY = "planted-body-5d8e"
POISON, UNDECODABLE = f'{{"n": "{BODY}"}}', f"{BODY}, which is no JSON"
QUEUES = ("ORDERS.IN", "ORDERS.BOQ", "MQFLOW.DISPOSITION")
APP = """
import os
from mqflow import App
app = App(name="orders")

@app.listener("ORDERS.IN")
async def book(order: dict[str, str]) -> None:
    raise RuntimeError("the handler failed")
"""


class Written(Struct):
    """Everything that the processes wrote down."""

    #: By name: the outputs of the commands, and the files outside of the stored messages.
    texts: dict[str, bytes]
    #: The messages on the backout requeue queue, with their headers.
    requeued: list[bytes]
    records: list[bytes]


def _found(texts: dict[str, bytes], secret: str) -> list[str]:
    return [name for name, text in texts.items() if secret.encode() in text]


def _next_bodies(queue: str, at_most: int, wait_ms: int = 60_000) -> list[bytes]:
    """Get up to so many messages, and wait for each."""
    connection = ServedQueueManager(Path("QM1/served.sock")).connect()
    handle = connection.open(queue, OpenOption.INPUT_SHARED)
    patient = GetOptions(options=GetOption.NO_SYNCPOINT | GetOption.WAIT, wait_ms=wait_ms)
    found = [got.body for _ in range(at_most) if (got := connection.get(handle, patient))]
    connection.disconnect()
    return found


def _arguments_below(folder: Path) -> bytes:
    """Return the arguments of all processes that run in this folder."""
    found: list[bytes] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve().is_relative_to(folder):
                found.append((process / "cmdline").read_bytes())
        except OSError:
            continue
    return b"\n".join(found)


def _handled(tmp_path: Path, url: str) -> tuple[dict[str, bytes], list[bytes]]:
    """Run the application with two workers until both messages are requeued. Return its output and arguments, and both."""
    command = [sys.executable, "-m", "mqflow.cli", "run", "orders_app:app", "--workers", "2", "--url", url]
    with (tmp_path / "out").open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            requeued = _next_bodies("ORDERS.BOQ", 2)
            arguments = _arguments_below(tmp_path)
        finally:
            process.send_signal(signal.SIGTERM)
    return {"arguments": arguments, "output of mqflow run": (tmp_path / "out").read_bytes()}, requeued


@pytest.fixture
def written(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    port = free_port()
    url = f"embedded+tcp://127.0.0.1:{port}/QM1"
    monkeypatch.setattr(subprocess, "Popen", popen_with_parent())
    texts: dict[str, bytes] = {}

    def say(*words: str, stdin: str | None = None) -> None:
        result = run(*words, stdin=stdin)
        error = "" if result.exc_info is None else "".join(traceback.format_exception(*result.exc_info))
        texts[" ".join(words)] = f"{result.stdout}{result.stderr}{error}".encode()

    (tmp_path / "orders_app.py").write_text(APP)
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    say("qmgr", "create", "QM1")
    say("qmgr", "user", "QM1", "alice", "--password-file", "password", "--administrator")
    password.unlink()
    say("qmgr", "start", "QM1", "--listen", f"127.0.0.1:{port}")
    definitions = [f"DEFINE QLOCAL({queue}) DEFPSIST(YES)" for queue in QUEUES]
    definitions += ["ALTER QLOCAL(ORDERS.IN) BOTHRESH(1) BOQNAME(ORDERS.BOQ)"]
    monkeypatch.setenv("MQFLOW_URL", "embedded+unix:QM1/served.sock?qmgr=QM1")
    say("mqsc", stdin="\n".join(definitions))
    run("put", "ORDERS.IN", POISON, UNDECODABLE)
    monkeypatch.setenv("MQFLOW_URL", url)
    monkeypatch.setenv("MQFLOW_USER", "alice")
    for name, value in {
        "DISPOSITION_QUEUE": QUEUES[2],
        "LEDGER_FILE": str(tmp_path / "ledger.db"),
        "LEDGER_RECORD": "all",
        "LOG_LEVEL": "debug",
        "TELEMETRY": "true",
        "PASSWORD": WRONG,
    }.items():
        monkeypatch.setenv(f"MQFLOW_{name}", value)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    say("--debug", "run", "orders_app:app")
    say("--debug", "put", "ORDERS.IN", "x")
    monkeypatch.setenv("MQFLOW_PASSWORD", PASSWORD)
    output, requeued = _handled(tmp_path, url)
    say("doctor")
    say("explain", "orders_app:app", "--config")
    say("why", "--all")
    stored = {"queue_manager.db", "queue_manager.db-wal"}
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name not in stored]
    try:
        yield Written(
            texts | output | {str(path): path.read_bytes() for path in files}, requeued, _next_bodies(QUEUES[2], 100, wait_ms=0)
        )
    finally:
        monkeypatch.setenv("MQFLOW_URL", "embedded+unix:QM1/served.sock?qmgr=QM1")
        run("qmgr", "stop", "QM1", "-i")


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc: it has the arguments of other processes")
def test_no_password_and_no_body_is_in_anything_that_is_written_down(written: Written) -> None:
    output = written.texts["output of mqflow run"]

    for proof in (b"the handler failed", b"Traceback", b"DEBUG", b'"trace_id"'):
        assert proof in output, f"too little was written to prove anything: {proof!r} is missing"
    assert any(b"NOT_AUTHORIZED" in text for text in written.texts.values())
    assert b"--lifeline" in written.texts["arguments"]
    assert 2 == len(written.requeued)
    assert 2 <= sum(b"heartbeat" not in record for record in written.records)
    assert [] == _found(written.texts, PASSWORD)
    assert [] == _found(written.texts, WRONG)
    assert [] == _found(written.texts, BODY)
    assert [] == [record for record in written.records if BODY.encode() in record or PASSWORD.encode() in record]
    for whole in written.requeued:
        assert whole.endswith((POISON.encode(), UNDECODABLE.encode()))
        assert 1 == whole.count(BODY.encode()), "the header has a part of the body"
        assert PASSWORD.encode() not in whole


def test_the_search_finds_a_secret_in_any_text() -> None:
    assert ["b"] == _found({"a": b"nothing", "b": f"...{BODY}...".encode(), "c": os.urandom(99)}, BODY)
