"""The end of an application after one, two and three signals, and the things that it does not wait for."""

import asyncio
import io
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskStatus

from mqflow import App
from mqflow.app.config.settings import Settings
from mqflow.app.run.signals import EXIT_CUT_OFF, EXIT_INCIDENT, cover_interrupt, run_until_signal
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.events import Event, ReadinessChanged, Warned
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.runtime import Runtime
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.world import SYSTEM_WORLD, World

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture
def _signals_as_they_were() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def again() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("stuck_in", ["on_start", "on_stop"])
@pytest.mark.usefixtures("_signals_as_they_were")
def test_a_second_signal_cuts_off_the_waits_of_the_start_and_of_the_end(
    backend: str, stuck_in: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mqflow")
    app, third = App("embedded::memory:", settings=Settings()), []
    told = threading.Event()

    def stop() -> None:
        told.set()
        app.stop()

    async def waits_for_ever() -> None:
        again()
        try:
            while stuck_in == "on_start" and not told.is_set():  # noqa: ASYNC110 - two signals at the same time count as one
                await anyio.sleep(0.001)
            if stuck_in == "on_start":
                again()
            await anyio.sleep_forever()
        finally:
            third.append(signal.getsignal(signal.SIGTERM))

    if stuck_in == "on_start":
        app.on_start(waits_for_ever)
    else:
        app.on_start(again)
        app.on_stop(waits_for_ever)

    assert EXIT_CUT_OFF == anyio.run(run_until_signal, app.running, stop, backend=backend)

    assert "functions of on_start or on_stop, or the lifespan, are cancelled" in caplog.text
    assert [signal.SIG_DFL] == third  # so the next signal ends the process immediately


@pytest.mark.usefixtures("_signals_as_they_were")
def test_the_first_signal_cuts_nothing_off_although_another_stop_came_before(backend: str) -> None:
    app, stops = App("embedded::memory:", settings=Settings()), list[int]()
    started, told = threading.Event(), threading.Event()
    app.on_start(started.set)

    def stop() -> None:
        stops.append(1)
        if len(stops) == 2:
            told.set()
        app.stop()

    async def until() -> None:
        await anyio.to_thread.run_sync(started.wait)

    @app.on_stop
    async def ends_after_the_signal() -> None:
        again()
        await anyio.to_thread.run_sync(told.wait, abandon_on_cancel=True)

    try:
        assert 0 == anyio.run(run_until_signal, app.running, stop, until, backend=backend)
    finally:
        told.set()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("number", "stream", "written"),
    [(signal.SIGINT, Terminal, "\r"), (signal.SIGTERM, Terminal, ""), (signal.SIGINT, io.StringIO, "")],
    ids=["Ctrl-C", "no Ctrl-C", "no terminal"],
)
def test_the_line_after_ctrl_c_begins_on_top_of_it(
    number: signal.Signals, stream: type[io.StringIO], written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = stream()
    monkeypatch.setattr(sys, "stderr", terminal)

    cover_interrupt(number)

    assert written == terminal.getvalue()


class Stubborn:
    """A service that does not end when it must stop."""

    def __init__(self) -> None:
        self.name = "stubborn service"
        self.stopping = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        task_status.started()
        await anyio.sleep_forever()

    def stop(self) -> None:
        self.stopping.set()


class Brief(Stubborn):
    """A service that ends immediately, like a DLQ handler after its WAIT."""

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        task_status.started()


@pytest.mark.parametrize("how", ["told twice", "drained"])
@pytest.mark.anyio
async def test_a_service_that_does_not_end_is_cut_off_and_named(how: str) -> None:
    stubborn, said = Stubborn(), list[str]()

    def note(event: Event) -> None:
        if isinstance(event, Warned):
            said.append(event.text)

    with EmbeddedQueueManager("QM1") as queue_manager:
        broadcast = Broadcast([note])
        runtime = Runtime(
            Supervisor(queue_manager, broadcast=broadcast, world=SYSTEM_WORLD), [], broadcast=broadcast, world=SYSTEM_WORLD,
            application_name="orders", services=[Brief(), stubborn],
        )  # fmt: skip

        async def tell_again() -> None:
            await stubborn.stopping.wait()
            assert runtime.cancel()

        drain_s = 0.01 if how == "drained" else 3_600
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group, runtime.running(drain_s=drain_s):
                if how == "told twice":
                    group.start_soon(tell_again)

    assert runtime.cut_off
    assert ["Cut off: stubborn service. Uncommitted messages return to their queues."] == said
    assert not runtime.cancel()


def test_the_third_signal_ends_a_process_whose_output_nobody_takes() -> None:
    script = "from mqflow.app.run.signals import end_process; print('booked', end=''); end_process(75)"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([sys.executable, "-c", script], env=buffered, stdout=full, timeout=60, check=False)

    assert 75 == ended.returncode


def test_a_plain_handler_that_never_returns_does_not_keep_the_process(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import os, signal, time\n"
        "from mqflow import App\n"
        "from mqflow.mqi.attributes.queue import QueueAttributes\n"
        "app = App('embedded::memory:?qmgr=QM1')\n"
        "@app.on_start\n"
        "async def put():\n"
        "    app.queue_manager.administration.define(QueueAttributes(name='IN'))\n"
        "    await app.put('IN', 'one')\n"
        "@app.listener('IN')\n"
        "def handle(body: str) -> None:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(3600)\n"
    )
    words = [sys.executable, "-m", "mqflow", "run", "app:app", "--drain", "0"]

    ended = subprocess.run(words, cwd=tmp_path, timeout=60, capture_output=True, text=True, check=False)

    assert 75 == ended.returncode, ended.stderr
    assert re.search(r"Cut off: (delay processor.*, )?listener handle", ended.stderr), ended.stderr


IGNORES = """
    while True:
        try:
            await anyio.sleep(3600)
        except BaseException:
            pass
"""
IS_SHIELDED = """
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()
"""
BLOCKS_AT_THE_STOP = """
    try:
        await anyio.sleep_forever()
    finally:
        time.sleep(3600)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("body", [IGNORES, IS_SHIELDED, BLOCKS_AT_THE_STOP], ids=["ignores", "is shielded", "blocks"])
def test_a_handler_that_ignores_the_stop_is_named_and_left(tmp_path: Path, body: str, backend: str) -> None:
    (tmp_path / "app.py").write_text(
        "import anyio, os, signal, time\n"
        "from mqflow import App\n"
        "from mqflow.app.run import signals\n"
        "from mqflow.mqi.attributes.queue import QueueAttributes\n"
        "signals.LEAVE_AFTER_S = 2\n"  # on a busy machine the event loop needs a moment to log what it cuts off
        "app = App('embedded:./data?qmgr=QM1')\n"
        "@app.on_start\n"
        "async def put():\n"
        "    app.queue_manager.administration.define(QueueAttributes(name='IN'))\n"
        "    await app.put('IN', 'one', persistent=True)\n"
        "@app.listener('IN')\n"
        "async def handle(body: str) -> None:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)" + body
    )
    words = [sys.executable, "-m", "mqflow", "run", "app:app", "--drain", "0", "--backend", backend]

    ended = subprocess.run(words, cwd=tmp_path, timeout=60, capture_output=True, text=True, check=False)

    assert 75 == ended.returncode, ended.stderr
    assert re.search(r"Cut off: (delay processor.*, )?listener handle", ended.stderr), ended.stderr
    assert "The drain is over, and these do not end." in ended.stderr
    assert "handle: the handler of message " in ended.stderr
    assert "app.py" in ended.stderr.partition("these do not end")[2]
    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        assert 1 == queue_manager.administration.queue_status("IN").depth


@pytest.mark.anyio
async def test_remaining_handlers_are_reported_only_after_the_drain_and_the_bound() -> None:
    clock, stubborn, told = VirtualClock(), Stubborn(), list[str]()
    world = World(clock, SYSTEM_WORLD.random, SYSTEM_WORLD.runner)
    with EmbeddedQueueManager("QM1") as queue_manager:
        broadcast = Broadcast([])
        runtime = Runtime(
            Supervisor(queue_manager, broadcast=broadcast, world=world), [], broadcast=broadcast, world=world,
            application_name="orders", services=[stubborn],
        )  # fmt: skip

        async def look() -> None:
            await stubborn.stopping.wait()
            await anyio.lowlevel.checkpoint()
            for _ in range(5):
                told.append(runtime.left_after(5))
                clock.advance(5)
            runtime.cancel()

        async with anyio.create_task_group() as group, runtime.running(drain_s=12):
            told.append(runtime.left_after(5))
            group.start_soon(look)
        told.append(runtime.left_after(5))

    assert ["", "", "", "", "", "stubborn service", ""] == told


@pytest.mark.usefixtures("_signals_as_they_were")
@pytest.mark.parametrize("caller", ["a handler", "a thread"])
def test_a_call_of_stop_ends_the_run_after_the_handlers_have_finished(backend: str, caller: str) -> None:
    app, finished = App("embedded::memory:", settings=Settings()), list[str]()

    @app.on_start
    async def put() -> None:
        assert isinstance(app.queue_manager, EmbeddedQueueManager)
        app.queue_manager.administration.define(QueueAttributes(name="IN"))
        await app.put("IN", "one")

    @app.listener("IN")
    async def handle(body: str) -> None:
        if caller == "a handler":
            app.stop()
        else:
            await anyio.to_thread.run_sync(app.stop)
        await anyio.lowlevel.checkpoint()
        finished.append(body)

    assert 0 == app.run(backend=backend)
    assert ["one"] == finished


@pytest.mark.usefixtures("_signals_as_they_were")
def test_an_application_whose_handler_cancels_every_task_continues_and_reports_that() -> None:
    app, calls, ready = App("embedded::memory:", settings=Settings()), list[str](), anyio.Event()

    def note(event: Event) -> None:
        if isinstance(event, ReadinessChanged) and event.ready:
            ready.set()

    app.hooks.append(note)

    @app.on_start
    async def put() -> None:
        assert isinstance(app.queue_manager, EmbeddedQueueManager)
        app.queue_manager.administration.define(QueueAttributes(name="IN"))
        await app.put("IN", "one")

    @app.listener("IN", concurrency=2)
    async def handle(body: str) -> None:
        calls.append(body)
        await ready.wait()
        if len(calls) == 1:
            for task in asyncio.all_tasks():
                task.cancel()
            await asyncio.sleep(60)
        again()

    assert EXIT_INCIDENT == anyio.run(run_until_signal, app.running, app.stop, backend="asyncio")

    assert ["one", "one"] == calls


@pytest.mark.sampled(1)
def test_a_call_that_blocks_the_event_loop_beyond_the_time_limit_is_logged_with_its_line(tmp_path: Path, backend: str) -> None:
    (tmp_path / "app.py").write_text(
        "import logging, os, signal, threading, time\n"
        "from mqflow import App\n"
        "from mqflow.mqi.attributes.queue import QueueAttributes\n"
        "app = App('embedded::memory:?qmgr=QM1')\n"
        "told = threading.Event()\n"
        "def hear(record):\n"
        "    if 'has not turned' in record.getMessage():\n"
        "        told.set()\n"
        "    return True\n"
        "@app.on_start\n"
        "async def put():\n"
        "    logging.getLogger('mqflow').addFilter(hear)\n"
        "    app.queue_manager.administration.define(QueueAttributes(name='IN'))\n"
        "    await app.put('IN', 'one')\n"
        "@app.listener('IN', time_limit_s=0.5)\n"
        "async def handle(body: str) -> None:\n"
        "    told.wait(30)  # blocks\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    words = [sys.executable, "-m", "mqflow", "run", "app:app", "--backend", backend]

    ended = subprocess.run(words, cwd=tmp_path, timeout=60, capture_output=True, text=True, check=False)

    assert 0 == ended.returncode, ended.stderr
    assert "told.wait(30)  # blocks" in ended.stderr
    assert "its time limit is 0.5 s" in ended.stderr
    assert "Its outcome: Completed." in ended.stderr
    assert f"{tmp_path / 'app.py'}:15 in handle" in ended.stderr
