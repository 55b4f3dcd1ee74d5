"""`mqflow run` waits for a queue manager that is not there yet: real processes, also in the middle of a failover."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.applications.test_applications import APP
from tests.cli.conftest import Run
from tests.leaving import popen_with_parent

URL = "embedded+unix:QM1/served.sock?qmgr=QM1"
NOT_THERE = "MQRC_Q_MGR_NOT_AVAILABLE (2059)"


@pytest.fixture(autouse=True)
def _queue_manager(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Create QM1 with the application's queue, without starting it. End its processes after the test, or with the test run."""
    monkeypatch.setattr(subprocess, "Popen", popen_with_parent())
    monkeypatch.setenv("MQFLOW_URL", "embedded:QM1?qmgr=QM1")
    monkeypatch.setenv("MQFLOW_RECONNECT_DELAYS", "(50)")
    (tmp_path / "orders_app.py").write_text(APP)
    assert 0 == run("mqsc", stdin="DEFINE QLOCAL(ORDERS.IN) BOTHRESH(3) DEFPSIST(YES)").exit_code
    monkeypatch.setenv("MQFLOW_URL", URL)
    yield
    while pids := [pid for pid in _processes(run) if pid]:
        for pid in pids:
            os.kill(int(pid), signal.SIGKILL)
        threading.Event().wait(0.02)


def _processes(run: Run) -> tuple[str, str]:
    row = json.loads(run("qmgr", "status", "QM1", "--json").stdout)
    return str(row["process"] or ""), str(row["standby"] or "")


@contextmanager
def _application(*arguments: str) -> Iterator[Iterator[str]]:
    """Run the application, yield its lines, and drain it."""
    command = [sys.executable, "-m", "mqflow.cli", "run", "orders_app:app", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ) as process:
        assert process.stdout is not None
        try:
            yield iter(process.stdout.readline, "")
        finally:
            process.send_signal(signal.SIGTERM)
    assert 0 == process.returncode


def test_an_application_that_started_first_handles_messages_when_the_queue_manager_is_there(run: Run) -> None:
    with _application() as lines:
        assert any(NOT_THERE in line for line in lines)
        assert 0 == run("qmgr", "start", "QM1").exit_code
        assert 0 == run("put", "ORDERS.IN", '{"n":7}').exit_code

        assert any("booked 7" in line for line in lines)


def test_an_application_that_restarts_during_a_failover_goes_on_with_the_standby(run: Run) -> None:
    run("qmgr", "start", "QM1")
    run("qmgr", "start", "QM1", "--standby")
    active, standby = map(int, _processes(run))
    assert 0 == run("put", "ORDERS.IN", '{"n":1}').exit_code
    os.kill(standby, signal.SIGSTOP)  # so the takeover waits until the application has failed to connect
    os.kill(active, signal.SIGKILL)

    with _application() as lines:
        assert any(NOT_THERE in line for line in lines)
        os.kill(standby, signal.SIGCONT)

        assert any("booked 1" in line for line in lines)


@pytest.mark.parametrize("how", ["option", "setting"])
def test_the_start_gives_up_at_its_limit_with_the_reason(run: Run, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "setting":
        monkeypatch.setenv("MQFLOW_RECONNECT_START_LIMIT_S", "0.2")
    ended = run("run", "orders_app:app", *(["--wait", "0"] if how == "option" else []))

    assert 1 == ended.exit_code
    assert NOT_THERE in ended.stderr


def test_workers_wait_for_a_queue_manager_too(run: Run) -> None:
    with _application("--workers", "2", "--wait", "60") as lines:
        assert any(NOT_THERE in line for line in lines)
        assert 0 == run("qmgr", "start", "QM1").exit_code
        assert 0 == run("put", "ORDERS.IN", '{"n":7}').exit_code

        assert any("booked 7" in line for line in lines)
