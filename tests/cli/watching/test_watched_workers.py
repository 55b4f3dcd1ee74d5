"""`mqflow run --workers 2 --http`: one port, one status and one file for both worker processes, also when one is killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.conftest import Run

APP = """
import os
from mqflow import App
app = App(name="orders")

@app.listener("ORDERS.IN", name="booking", concurrency=2)
async def book(order: dict[str, int]) -> None:
    os.write(1, f"booked {order['n']}\\n".encode())
"""


@contextmanager
def watched() -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run the application; give the process, and the address of its pages."""
    options = ["--workers", "2", "--http", "0", "--ready-file", "ready"]
    command = [sys.executable, "-m", "mqflow.cli", "run", "orders_app:app", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, next(line.split()[-1] for line in process.stdout if "http://" in line)
        finally:
            process.kill()  # the workers notice it, and end


def until_listening(process: "subprocess.Popen[str]", times: int) -> None:
    """Read the output until so many worker processes more have started."""
    assert process.stdout is not None
    for line in process.stdout:
        times -= line.startswith("Listening")
        if not times:
            return


def until(holds: Callable[[], bool]) -> None:
    while not holds():
        os.sched_yield()


def test_one_port_answers_for_all_worker_processes(run: Run, queues: None, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "orders_app.py").write_text(APP)

    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(run("status", "orders", "--json").stdout)
        return found

    def processes() -> list[int]:
        return [process["process"] for process in status()["status"]["processes"]]

    with watched() as (process, address), httpx.Client(base_url=address, timeout=30) as client:
        ready = tmp_path / "ready"
        until_listening(process, 2)
        until(lambda: client.get("readyz").status_code == 200)
        until(ready.exists)
        before = processes()
        assert 2 == len(before)

        # An operator pauses the listener in both processes, and resumes it.
        assert 0 == run("ctl", "orders", "drain", "booking").exit_code
        run("put", "ORDERS.IN", '{"n": 1}')
        assert {"messages_waiting": 1, "workers": 4, "messages_per_worker": 1, "refused": ""} == client.get("scale").json()

        # A killed worker process disappears, nothing else ends, and its successor knows the order.
        os.kill(before[0], signal.SIGKILL)
        until(lambda: before[0] not in processes())
        assert (200, 503) == (client.get("livez").status_code, client.get("readyz").status_code)
        until(lambda: not ready.exists())
        until_listening(process, 1)
        until(lambda: client.get("readyz").status_code == 200)
        until(ready.exists)
        listeners = [listener for each in status()["status"]["processes"] for listener in each["listeners"]]
        assert [True, True] == [listener["held"] for listener in listeners]

        assert 0 == run("ctl", "orders", "resume", "booking").exit_code
        until(lambda: 'mqflow_units_of_work_total{outcome="completed"' in client.get("metrics").text)

        process.send_signal(signal.SIGTERM)
        printed = process.communicate()[0]
        assert (0, 1) == (process.returncode, printed.count("booked 1"))
        assert not ready.exists()
        assert [] == list(folder.iterdir())


@pytest.mark.parametrize("http", ["nowhere", "127.0.0.1:99999"])
def test_a_wrong_address_ends_the_command_before_any_worker_starts(run: Run, queues: None, http: str, tmp_path: Path) -> None:
    (tmp_path / "orders_app.py").write_text(APP)

    shown = run("run", "orders_app:app", "--workers", "2", "--http", http)

    assert shown.exit_code != 0
    assert "give HOST:PORT or PORT" in shown.output
