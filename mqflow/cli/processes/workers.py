"""Several processes for one application: workers that run the listeners, and two that serve them the queue manager.

A process that dies is started again after a growing delay. Signals are passed on, and the queue manager ends only after the
last worker has drained. Where this process is killed, the others notice, drain and end. Knows processes; handles no message.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process
from msgspec import Struct

from mqflow.app.channels.locate import SERVED_SOCKET, Location, locate, served_url
from mqflow.app.config.settings import Settings
from mqflow.app.run.decision_ledger import ledger_file
from mqflow.app.run.signals import EXIT_CUT_OFF, stop_signals
from mqflow.cli.processes.active_and_standby import Hosts
from mqflow.cli.processes.delay_processors import DelayProcessors
from mqflow.cli.processes.parent_pipe import lifeline
from mqflow.cli.processes.restart_delay import Restarts
from mqflow.cli.text.exit_codes import EXIT_FAILED, EXIT_USAGE
from mqflow.cli.text.terminal import note
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import FolderInUseError, prepare_folder
from mqflow.embedded.storage.standby import owner_pid
from mqflow.embedded.wire.server.listener import serve

__all__ = ("run_workers",)

_CUTTING_OFF: Final = 2
"""The signal by which a worker cuts off what is under way; another one ends it where it stands."""


def run_workers(target: str, count: int, url: str, settings: Settings, backend: str) -> int:
    """Run the workers until a signal has drained them all; return the worst of their exit codes.

    An embedded queue manager that nobody serves is served to them by two processes, of which one stands by. Raises
    `ConfigurationError` for a URL that leads nowhere, and a `FolderError` for a folder that cannot be had.
    """
    # For the processes that serve the queue manager, and never see the application.
    said = {
        "MQFLOW_DRAIN_S": f"{settings.drain_s:g}",
        "MQFLOW_DISPOSITION_QUEUE": settings.disposition_queue,
        "MQFLOW_DELAY_QUEUE": settings.delay_queue,
    }
    environment = {**os.environ, **said}
    if ledger := ledger_file(url, settings.ledger):
        environment["MQFLOW_LEDGER_FILE"] = str(ledger)
    location = locate(url)
    owner = _owner(location)
    # As arguments: an application that has its settings in its source reads no environment.
    words = [sys.executable, "-m", "mqflow.cli", "run", target, "--backend", backend, "--drain", f"{settings.drain_s:g}"]
    with lifeline() as descriptor:
        workers = _Workers([*words, "--lifeline", str(descriptor)], environment, descriptor, settings)
        return anyio.run(workers.run, count, url, location, owner, backend="asyncio")


def _owner(location: Location) -> int | None:
    """Return the process that serves the folder already, if one does. Raises `FolderInUseError` for one that does not serve."""
    if location.kind != "embedded" or location.path is None:
        return None
    owner = owner_pid(prepare_folder(location.path, create=True))
    if owner is not None and not (location.path / SERVED_SOCKET).is_socket():
        raise FolderInUseError(location.path, owner)
    return owner


class _Served(Struct, frozen=True):
    """Where the workers find the queue manager, and who serves it, in words."""

    url: str
    how: str = ""


class _Workers:
    """The processes, and whether they are to stop."""

    def __init__(self, words: list[str], environment: dict[str, str], descriptor: int, settings: Settings) -> None:
        self._words: Final = words
        self._environment: Final = environment
        self._lifeline: Final = descriptor
        self._settings: Final = settings
        self._running: Final[dict[int, Process]] = {}
        self._worst = 0
        self._signals = 0

    async def run(self, count: int, url: str, location: Location, owner: int | None) -> int:
        self._stopping = anyio.Event()
        with anyio.open_signal_receiver(*stop_signals()) as signals:
            async with anyio.create_task_group() as listening:
                listening.start_soon(self._pass_on, signals)
                async with self._served(url, location, owner) as served, anyio.create_task_group() as workers:
                    if served is not None:
                        note(f"{count} workers on {url}{served.how}; Ctrl-C drains and stops.")
                        self._words.extend(("--url", served.url))
                        for number in range(1, count + 1):
                            workers.start_soon(self._keep, number)
                listening.cancel_scope.cancel()
        return self._worst

    @asynccontextmanager
    async def _served(self, url: str, location: Location, owner: int | None) -> AsyncIterator[_Served | None]:
        """Have the queue manager reached inside; None where it cannot be, or all are to stop before it is."""
        match location:
            case Location(kind="embedded", path=Path() as folder) if owner is None:
                hosts = Hosts(location.queue_manager, folder, self._lifeline, self._environment, self._ended_by_order)
                async with hosts.serving(self._stopping):
                    if hosts.failed is not None:
                        self._worst = _told_to_stop(hosts.failed)
                    if hosts.failed is not None or self._stopping.is_set():
                        yield None
                        return
                    yield _Served(served_url(location), f", served by process {hosts.active} with a standby")
            case Location(kind="embedded"):
                yield _Served(served_url(location), f", which process {owner} serves already")
            case Location(kind="memory", queue_manager=name):
                with (
                    tempfile.TemporaryDirectory(prefix="mqflow-") as scratch,
                    closing(EmbeddedQueueManager(name)) as queue_manager,
                    closing(serve(queue_manager, Path(scratch) / SERVED_SOCKET)) as server,
                ):
                    at = f"embedded+unix:{server.path}?qmgr={name}"
                    async with self._delivering_delayed(queue_manager):
                        yield _Served(at, ", in the memory of this process: nobody takes over")
            case _:  # another process, or IBM MQ, serves it
                yield _Served(url)

    @asynccontextmanager
    async def _delivering_delayed(self, queue_manager: EmbeddedQueueManager) -> AsyncIterator[None]:
        """Have delayed messages delivered inside: the workers do not have the queue manager in their processes."""
        queues = {"disposition_queue": self._settings.disposition_queue, "delay_queue": self._settings.delay_queue}
        delayed = DelayProcessors(queue_manager, **queues)
        async with anyio.create_task_group() as group:
            group.start_soon(delayed.run)
            yield
            delayed.stop()

    async def _pass_on(self, signals: AsyncIterator[signal.Signals]) -> None:
        """Stop at a signal: every worker gets a SIGTERM for each that came here, but for another SIGHUP: those come in twos."""
        async for number in signals:
            if number == signal.SIGHUP and self._stopping.is_set():
                continue
            self._signals += 1
            self._stop()

    def _stop(self) -> None:
        self._stopping.set()
        for process in self._running.values():
            process.terminate()

    def _ended_by_order(self) -> None:
        """Stop where an operator has ended the queue manager: whoever started it again would take the order back."""
        if not self._stopping.is_set():
            note("The queue manager was ended by mqflow qmgr stop, so the workers drain and end too.")
            self._stop()

    async def _keep(self, number: int) -> None:
        """Have this worker running until all are to stop."""
        restarts = Restarts()
        while not self._stopping.is_set():
            restarts.started()
            code = await self._once(number)
            if self._stopping.is_set() or code == EXIT_USAGE:
                cut_off = code == -signal.SIGTERM and self._signals > _CUTTING_OFF
                self._worst = max(self._worst, EXIT_CUT_OFF if cut_off else _told_to_stop(code))
                self._stopping.set()
                break
            await restarts.pause(f"Worker {number} ended with {code}; it is started again", self._stopping)

    async def _once(self, number: int) -> int:
        """Run the worker once and return its exit code; a negative one is the signal that killed it."""
        # A session of its own: Ctrl-C in the terminal reaches this process alone, which passes it on once.
        process = await anyio.open_process(
            self._words,
            stdin=subprocess.DEVNULL,
            stdout=None,
            stderr=None,
            env=self._environment,
            pass_fds=(self._lifeline,),
            start_new_session=True,
        )
        self._running[number] = process
        if self._stopping.is_set():  # the signal came while it was being started
            process.terminate()
        code = await process.wait()
        del self._running[number]
        return code


def _told_to_stop(code: int) -> int:
    """Return the exit code of a process that was told to stop."""
    if code == -signal.SIGTERM:  # the signal came before it listened for signals, so before it got a message
        return 0
    return code if code >= 0 else EXIT_FAILED
