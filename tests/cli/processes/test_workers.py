"""`mqflow run --workers`: the reaction of each process to the death of another one, and the end of all processes."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.leaving import popen_with_parent

APP = """
import anyio, os
from mqflow import App
app = App(name="orders")

@app.listener("ORDERS.IN")
async def book(order: dict[str, int]) -> None:
    os.write(1, f"began {order['n']}\\n".encode())
    await anyio.sleep(order.get("rest_ms", 0) / 1000)
    os.write(1, f"booked {order['n']} by {os.getpid()}\\n".encode())  # one write: workers share the pipe
"""

APP_WITH_SETTINGS = """
import os
from contextlib import suppress
from mqflow import App, MQIError
from mqflow.app.config.settings import Settings
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.options import OpenOption
from mqflow.policy.poison.disposition_record import many_from_bytes
from mqflow.verbs import GetOptions
app = App(settings=Settings(disposition_queue="DISPOSED", drain_s=20.0))

@app.on_start
async def begin() -> None:
    for name in ("ORDERS.IN", "DISPOSED"):
        with suppress(MQIError):  # the other worker was faster
            app.queue_manager.administration.define(QueueAttributes(name=name))
    await app.put("ORDERS.IN", {"n": 7}, delay=0.01)

@app.listener("ORDERS.IN")
async def book(order: dict[str, int]) -> None:
    connection = app.queue_manager.connect()
    queue = connection.open("DISPOSED", OpenOption.INPUT_SHARED)
    while got := connection.get(queue, GetOptions()):
        for record in many_from_bytes(got.body):
            if record.delay_req_ms:
                os.write(1, f"booked {order['n']}, which was {record.outcome}\\n".encode())
    connection.disconnect()
"""

CANCELLING_APP = """
import asyncio, os
from mqflow import App, Backout
app = App(name="orders")

@app.listener("ORDERS.IN", concurrency=3, backout=Backout(threshold=8, queue="ORDERS.BOQ"))
async def book(order: dict[str, int]) -> None:
    if not order["n"]:
        os.write(1, b"cancels\\n")
        asyncio.current_task().cancel()
        await asyncio.sleep(60)
    os.write(1, f"booked {order['n']}\\n".encode())
"""

_MARK = "MQFLOW_WORKERS_OF_TEST={}"
"""In the environment of every process of a test, so that the test finds the process."""
_PATIENCE_S = 60.0


class Running:
    """A running command and its output. All its processes have the pipe open: the end of the pipe is the end of all of them."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []

    def until(self, words: str) -> str:
        """Return the next line with these words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if words in line:
                return line
        raise AssertionError(f"{words!r} was never printed:\n{''.join(self.lines)}")

    def rest(self) -> str:
        """Return the output until all processes have ended. A process that does not end prints its stacks."""
        assert self.process.stdout is not None
        patience = threading.Timer(_PATIENCE_S, self._ask_where_they_stand)
        patience.start()
        try:
            return self.process.stdout.read()
        finally:
            patience.cancel()

    def _ask_where_they_stand(self) -> None:
        """End every process of the command with Python's fault handler, which prints the stacks of its threads."""
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if _MARK.format(os.getpid()).encode() in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGABRT)


@contextmanager
def workers(*more: str) -> Iterator[Running]:
    command = [sys.executable, "-m", "mqflow.cli", "run", "orders_app:app", "--workers", "2", *more]
    name, value = _MARK.format(os.getpid()).split("=")
    environment = {**os.environ, name: value, "PYTHONFAULTHANDLER": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as process:
        try:
            yield Running(process)
        finally:
            process.kill()  # the others end by themselves; a test below checks this


@pytest.fixture
def hang_ups() -> Iterator[None]:
    """Reset SIGHUP for the processes of a test: under nohup they would inherit that it is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True)
def orders(queues: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", popen_with_parent())
    (tmp_path / "orders_app.py").write_text(APP)
    monkeypatch.setenv("MQFLOW_RECONNECT_DELAYS", "(50)")


def status(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("qmgr", "status", "QM1", "--data", "data", "--json").stdout)
    return found


def with_standby(run: Run, *, not_active: int = 0) -> dict[str, Any]:
    """Return the status when a process other than `not_active` serves the queue manager, and a second one stands by."""
    while not ((now := status(run))["standby"] and now["status"] == "active" and now["process"] != not_active):
        os.sched_yield()
    return now


def put(run: Run, **order: int) -> None:
    done = run("put", "ORDERS.IN", json.dumps(order))
    assert 0 == done.exit_code, done.output


def test_a_dead_process_is_replaced_and_a_hang_up_drains_all(run: Run, hang_ups: None) -> None:
    with workers("--backend", "trio") as running:
        assert "served by process" in running.until("2 workers on embedded:./data?qmgr=QM1")
        for _ in range(2):
            running.until("Listening")
        before = with_standby(run)
        put(run, n=1)
        worker = int(running.until("booked 1").split()[-1])

        os.kill(worker, signal.SIGKILL)
        os.kill(before["process"], signal.SIGKILL)
        after = with_standby(run, not_active=before["process"])
        running.until("Listening")
        put(run, n=2)
        running.until("booked 2")
        for number in (signal.SIGHUP, signal.SIGHUP):  # when a terminal closes, the kernel and the shell both send it
            running.process.send_signal(number)
        rest = running.rest()
        code = running.process.wait()

    assert 0 == code, rest
    assert before["standby"] == after["process"]
    assert after["standby"] not in {before["process"], before["standby"]}
    printed = "".join(running.lines)
    assert "ended with -9; it starts again in 1 s." in printed
    assert f"Process {before['process']}, which served QM1, ended with -9; process {after['process']} goes on." in printed
    assert "ended" == status(run)["status"]


def test_a_worker_is_replaced_at_its_limit_and_each_message_is_handled_once(run: Run) -> None:
    run("put", "ORDERS.IN", *(json.dumps({"n": number}) for number in range(12)))
    with workers("--recycle-after", "3") as running:
        booked = [running.until("booked").split() for _ in range(12)]
        running.process.terminate()
        rest = running.rest()
        code = running.process.wait()

    printed = "".join(running.lines) + rest
    assert 0 == code, printed
    assert list(range(12)) == sorted(int(number) for _, number, *_ in booked)
    assert "booked" not in rest
    by_process = Counter(process for *_, process in booked)
    assert len(by_process) >= 3  # each ends after three messages and those under way
    assert "This process drains and ends, because it has handled 3 messages." in printed
    assert "it starts again in" not in printed


def test_a_message_whose_handler_cancels_its_own_task_stops_no_consumer_of_any_process(run: Run, tmp_path: Path) -> None:
    (tmp_path / "orders_app.py").write_text(CANCELLING_APP)
    with workers() as running:
        for _ in range(2):
            running.until("Listening")
        put(run, n=0)
        running.until(", on ORDERS.BOQ now")
        put(run, n=1)
        running.until("booked 1")
        running.process.terminate()
        rest = running.rest()
        code = running.process.wait()

    story = run("browse", "ORDERS.BOQ")
    assert 0 == code, rest
    assert "asyncio.CancelledError" in story.output
    assert "ended although nothing stopped it" not in "".join(running.lines) + rest
    assert 8 == "".join(running.lines).count("cancels")  # its threshold: more than there are consumers


def test_if_the_command_is_killed_its_workers_drain_and_all_processes_end(run: Run) -> None:
    put(run, n=1, rest_ms=300)

    with workers() as running:
        running.until("began 1")
        running.process.kill()
        rest = running.rest()

    assert "booked 1" in rest
    assert "ended" == status(run)["status"]
    assert 3 == run("get", "ORDERS.IN").exit_code  # the get was committed


def test_if_an_operator_ends_the_queue_manager_the_command_ends_too(run: Run) -> None:
    with workers() as running:
        for _ in range(2):
            running.until("Listening")
        with_standby(run)

        assert 0 == run("qmgr", "stop", "QM1", "--data", "data").exit_code
        rest = running.rest()
        code = running.process.wait()

    assert 0 == code, rest
    assert "was ended by mqflow qmgr stop, so the workers drain and end too.\n" in rest
    assert "starts" not in rest
    assert "ended" == status(run)["status"]


def test_a_queue_manager_that_is_served_already_is_used_and_left_alone(run: Run) -> None:
    started = run("qmgr", "start", "QM1", "--data", "data")
    assert 0 == started.exit_code, started.output
    owner = status(run)["process"]
    try:
        with workers() as running:
            assert f"which process {owner} serves already" in running.until("2 workers on")
            running.until("Listening")
            put(run, n=1)
            running.until("booked 1")
            assert owner == with_standby(run)["process"]
            running.process.send_signal(signal.SIGINT)
            rest = running.rest()
            assert 0 == running.process.wait(), rest

        assert (owner, None) == (status(run)["process"], status(run)["standby"])
    finally:
        run("qmgr", "stop", "QM1", "--data", "data", "-i")


@pytest.mark.parametrize("ends_by", ["death", "order"])
def test_the_workers_outlive_a_queue_manager_that_another_command_served_but_not_the_order_to_end_it(
    run: Run, ends_by: str
) -> None:
    assert 0 == run("qmgr", "start", "QM1", "--data", "data").exit_code
    with workers() as running:
        for _ in range(2):
            running.until("Listening")
        before = with_standby(run)
        if ends_by == "death":
            os.kill(before["process"], signal.SIGKILL)
            after = with_standby(run, not_active=before["process"])
            put(run, n=1)
            running.until("booked 1")
            running.process.terminate()
            assert before["standby"] == after["process"]
        else:
            assert 0 == run("qmgr", "stop", "QM1", "--data", "data").exit_code
        rest = running.rest()
        code = running.process.wait()
    while status(run)["process"] == before["process"]:  # not a process of the workers, so it can end after them
        os.sched_yield()

    assert 0 == code, rest
    assert (ends_by == "order") == ("was ended by mqflow qmgr stop, so the workers drain and end too.\n" in rest)
    assert "ended" == status(run)["status"]


@pytest.mark.parametrize(
    ("url", "by"),
    [("embedded::memory:", "in the memory of this process, without a standby"), ("embedded:./new?qmgr=QM1", "with a standby")],
    ids=["in memory", "in a folder"],
)
def test_settings_in_the_source_apply_to_the_serving_process_too(url: str, by: str) -> None:
    Path("orders_app.py").write_text(APP_WITH_SETTINGS)
    with workers("--url", url) as running:
        running.until(by)
        running.until("booked 7, which was released")
        running.process.send_signal(signal.SIGTERM)
        rest = running.rest()
        code = running.process.wait()

    assert 0 == code, rest


def test_if_the_folder_cannot_be_served_the_command_ends_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 90)  # no room for a socket

    with workers("--url", f"embedded:{folder}?qmgr=QM1") as running:
        printed = running.rest()
        code = running.process.wait()

    assert 1 == code
    assert 1 == printed.count("A socket's path has at most 103 bytes")
    assert "starts again" not in printed


APP_THAT_FAILS = """
import os
from anyio.lowlevel import checkpoint
from mqflow import App, Backout, Pace, Reject
from mqflow.events import Disposed
app = App(name="orders")
app.hooks.append(lambda event: os.write(1, b"disposed\\n") if isinstance(event, Disposed) else None)

@app.listener(
    "ORDERS.IN", concurrency=4, unit_of_work=UNIT_OF_WORK, backout=Backout(threshold=3, pace=Pace(first_s=0.01, max_s=0.01))
)
async def book(order: dict[str, int]) -> None:
    os.write(1, f"handled {order['n']}\\n".encode())
    await checkpoint()
    if order["n"] % 3 == 0:
        raise Reject("never")
    if order["n"] % 3 == 1:
        raise ValueError("always")
"""


@pytest.mark.parametrize("unit_of_work", [1, 4])
def test_two_processes_handle_each_poison_message_as_often_as_one_does_and_every_reason_goes_with_it(
    run: Run, unit_of_work: int
) -> None:
    Path("orders_app.py").write_text(APP_THAT_FAILS.replace("UNIT_OF_WORK", str(unit_of_work)))
    orders = "".join(json.dumps({"n": number}) + "\n" for number in range(90))
    assert 0 == run("put", "ORDERS.IN", "--jsonl", "-", stdin=orders).exit_code
    with workers() as running:
        for _ in range(60):
            running.until("disposed")
        running.process.send_signal(signal.SIGTERM)
        rest = running.rest()
        assert 0 == running.process.wait(), rest

    lines = "".join([*running.lines, rest]).splitlines()
    handled = Counter(int(line.split()[-1]) for line in lines if line.startswith("handled"))
    poison = {number: 3 if number % 3 else 1 for number in range(90) if number % 3 < 2}
    assert poison == {number: count for number, count in handled.items() if number in poison}
    found = [json.loads(line) for line in run("browse", "ORDERS.BOQ", "--limit", "100", "--json").stdout.splitlines()]
    assert poison == {json.loads(each["body"])["n"]: each["why"]["count"] for each in found}
    errors = {json.loads(each["body"])["n"]: each["why"]["error"] for each in found}
    assert {number: "ValueError" if number % 3 else "Reject" for number in poison} == errors
