"""Several processes for one application: workers that run its listeners, and two processes that serve its queue manager.

A process that dies is started again after a growing delay. This process passes signals on to the workers, and ends the queue
manager only when the last worker has drained. If this process is killed, the other processes notice it, drain and end.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process
from msgspec import Struct

from mqflow.app.channels.location import SERVED_SOCKET, Location, locate, served_url
from mqflow.app.config.settings import Settings
from mqflow.app.errors import ConfigurationError, shown_url
from mqflow.app.run.decision_ledger import ledger_file
from mqflow.app.run.signals import EXIT_CUT_OFF, cover_interrupt, stop_signals
from mqflow.cli.processes.active_and_standby import ActiveAndStandby
from mqflow.cli.processes.child_process import WORKER, RestartDelay, parent_pipe, run_command, terminate
from mqflow.cli.processes.delay_processors import DelayProcessors
from mqflow.cli.processes.served_connections import lasting_owner
from mqflow.cli.text.exit_codes import EXIT_FAILED, EXIT_USAGE, sentence_of
from mqflow.cli.text.terminal import note
from mqflow.cli.watching.endpoints import MakeConsole, watched_workers
from mqflow.cli.watching.workers_source import worker_socket
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import FolderInUseError, prepare_folder
from mqflow.embedded.wire.server.listener import serve
from mqflow.events import Hook, ReadinessChanged

__all__ = ("WorkersOptions", "run_workers")

_READY_S: Final = 0.2
"""The seconds between two checks of the workers' ready files."""
_CUT_OFF_SIGNAL: Final = 2
"""At this number of signals a worker cancels its handlers. The next signal ends the worker immediately."""


class WorkersOptions(Struct, frozen=True, kw_only=True):
    """The application that the workers run, and its options."""

    #: The application as on the command line, MODULE:APP.
    application: str
    #: The name of the application.
    name: str
    count: int
    url: str
    #: The URLs for the queue managers of included applications, by name.
    others: Mapping[str, str] = {}
    #: The name of the event loop: "asyncio" or "trio".
    backend: str
    #: The address at which the pages are served; empty for no pages.
    http: str
    #: Further options for each worker.
    more: Sequence[str]
    #: True if a worker that ends with 0 has reached a limit, and must be replaced.
    recycles: bool = False


def run_workers(options: WorkersOptions, settings: Settings, ready: Hook | None, console: MakeConsole | None = None) -> int:
    """Run the workers until they have drained after a signal. Return the worst of their exit codes.

    Two processes serve the embedded queue manager to the workers: an active one and a standby. If another process serves it
    already, both stand by, and take over when that process ends. The hook `ready` keeps a file while every worker is ready.
    Raises `ConfigurationError` if the URL is invalid or the pages cannot be served, and `FolderError` if the folder cannot be
    used.
    """
    for name, other in options.others.items():
        if locate(other).kind in {"embedded", "memory"}:
            raise ConfigurationError(
                f"{name} is {other}: only one process can open it, and --workers starts several. Serve it in a process of its "
                f"own, with mqflow qmgr start, and set its embedded+unix: URL as url below queue_managers.{name}."
            )
    url = options.url
    # For the processes that serve the queue manager, because they do not import the application.
    served_settings = {
        "MQFLOW_DRAIN_S": f"{settings.drain_s:g}",
        "MQFLOW_DISPOSITION_QUEUE": settings.disposition_queue,
        "MQFLOW_DELAY_QUEUE": settings.delay_queue,
    }
    environment = {**os.environ, **served_settings}
    if ledger := ledger_file(url, settings.ledger):
        environment["MQFLOW_LEDGER_FILE"] = str(ledger)
    location = locate(url)
    owner = _owner(location)
    start_limit_s = settings.reconnect.start_limit_s
    command = run_command(
        options.application, *options.more, backend=options.backend, drain_s=settings.drain_s, start_limit_s=start_limit_s
    )
    with parent_pipe() as descriptor, tempfile.TemporaryDirectory(prefix="mqflow-notes-") as notes:
        environment.setdefault("MQFLOW_NOTES_FILE", str(Path(notes) / "notes.sqlite"))
        command += ["--lifeline", str(descriptor)] + (["--counts"] if options.http else [])
        workers = _Workers(command, environment, descriptor, settings, Path(notes), ready, recycles=options.recycles)
        with watched_workers(
            options.name,
            os.getpid(),
            url,
            settings,
            Path(notes),
            options.count,
            http=options.http,
            running=workers.processes,
            served_url=lambda: workers.url or url,
            is_stopping=workers.is_stopping,
            console=console,
            others=options.others,
        ):
            return anyio.run(workers.run, options.count, url, location, owner, backend="asyncio")


def _owner(location: Location) -> int | None:
    """Return the process identifier of the process that already serves the folder; None if there is no such process.

    Raises `FolderInUseError` for an owner that does not serve the folder, unless the folder has a socket: then this owner can
    serve it soon.
    """
    if location.kind != "embedded" or location.path is None:
        return None
    prepare_folder(location.path, create=True)
    owner = lasting_owner(location.path)
    if owner is not None and not (location.path / SERVED_SOCKET).is_socket():
        raise FolderInUseError(location.path, owner)
    return owner


class _Served(Struct, frozen=True):
    """The URL of the queue manager for the workers, and a phrase that names the process that serves it."""

    url: str
    server: str = ""


class _Workers:
    """The worker processes, and the request to stop them."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        descriptor: int,
        settings: Settings,
        folder: Path,
        ready: Hook | None,
        *,
        recycles: bool,
    ) -> None:
        self._recycles: Final = recycles
        self._command: Final = command
        self._environment: Final = environment
        self._parent_pipe: Final = descriptor
        self._settings: Final = settings
        self._folder: Final = folder
        self._ready: Final = ready
        self._ready_failed = False
        #: The URL of the queue manager for the workers; empty until the queue manager can be reached.
        self.url = ""
        self._running: Final[dict[int, Process]] = {}
        self._worst = 0
        self._signals = 0
        self._stops = False

    def processes(self) -> Mapping[int, int]:
        """Return the worker processes that run, by number. Any thread may call this function."""
        return {number: process.pid for number, process in self._running.copy().items()}

    def is_stopping(self) -> bool:
        """Return whether the workers drain and end. Any thread may call this function."""
        return self._stops

    async def run(self, count: int, url: str, location: Location, owner: int | None) -> int:
        self._stopping = anyio.Event()
        with anyio.open_signal_receiver(*stop_signals()) as signals:
            async with anyio.create_task_group() as signal_group:
                signal_group.start_soon(self._pass_on, signals)
                async with self._served(url, location, owner) as served, anyio.create_task_group() as workers:
                    if served is not None:
                        note(f"{count} workers on {shown_url(url)}{served.server}; Ctrl-C drains and stops.")
                        self._command.extend(("--url", served.url))
                        self.url = served.url
                        if self._ready is not None:
                            signal_group.start_soon(self._keep_ready, count)
                        for number in range(1, count + 1):
                            workers.start_soon(self._keep, number)
                signal_group.cancel_scope.cancel()
        return self._worst

    @asynccontextmanager
    async def _served(self, url: str, location: Location, owner: int | None) -> AsyncIterator[_Served | None]:
        """Make the queue manager reachable in the block. Yields None if this fails, or if a signal comes before."""
        match location:
            case Location(kind="embedded", path=Path() as folder):
                pair = ActiveAndStandby(
                    location.queue_manager, folder, self._parent_pipe, self._environment, self._stop_after_operator
                )
                async with pair.serve(self._stopping):
                    if pair.failed is not None:
                        self._worst = _exit_code_after_stop(pair.failed)
                    if pair.failed is not None or self._stopping.is_set():
                        yield None
                        return
                    ours = f", served by process {pair.active} with a standby"
                    yield _Served(served_url(location), ours if owner is None else f", which process {owner} serves already")
            case Location(kind="memory", queue_manager=name):
                with (
                    tempfile.TemporaryDirectory(prefix="mqflow-") as scratch,
                    closing(EmbeddedQueueManager(name)) as queue_manager,
                    closing(serve(queue_manager, Path(scratch) / SERVED_SOCKET)) as server,
                ):
                    at = f"embedded+unix:{server.path}?qmgr={name}"
                    async with self._deliver_delayed(queue_manager):
                        yield _Served(at, ", in the memory of this process, without a standby")
            case _:  # IBM MQ, or a queue manager that another process serves
                yield _Served(url)

    @asynccontextmanager
    async def _deliver_delayed(self, queue_manager: EmbeddedQueueManager) -> AsyncIterator[None]:
        """Deliver delayed messages in the block, because the queue manager is in this process and not in a worker."""
        queues = {"disposition_queue": self._settings.disposition_queue, "delay_queue": self._settings.delay_queue}
        delayed = DelayProcessors(queue_manager, **queues)
        async with anyio.create_task_group() as group:
            group.start_soon(delayed.run)
            yield
            delayed.stop()

    async def _pass_on(self, signals: AsyncIterator[signal.Signals]) -> None:
        """Send SIGTERM to every worker at each signal, except at a second SIGHUP, because a closed terminal sends two."""
        async for number in signals:
            cover_interrupt(number)
            if number == signal.SIGHUP and self._stopping.is_set():
                continue
            self._signals += 1
            self._stop()

    async def _keep_ready(self, count: int) -> None:
        """Keep the ready file while every worker has its own ready file. A worker that is not ready has no ready file."""
        while not self._stops:
            files = [_ready_file(self._folder, number).exists() for number in range(1, count + 1)]
            self._show_ready(ready=all(files))
            await anyio.sleep(_READY_S)

    def _show_ready(self, *, ready: bool) -> None:
        """Call the hook for the ready file. If this fails, the workers continue, and the first failure prints a note."""
        if self._ready is None:
            return
        try:
            self._ready(ReadinessChanged(ready=ready))
        except OSError as error:
            if not self._ready_failed:
                note(f"mqflow: the ready file is not kept, because it cannot be changed. {sentence_of(error)}")
            self._ready_failed = True

    def _stop(self) -> None:
        self._stops = True
        self._stopping.set()
        self._show_ready(ready=False)
        for process in self._running.values():
            terminate(process)

    def _stop_after_operator(self) -> None:
        """Stop because an operator has ended the queue manager. A restart would undo the operator's order."""
        if not self._stopping.is_set():
            note("The queue manager was ended by mqflow qmgr stop, so the workers drain and end too.")
            self._stop()

    async def _keep(self, number: int) -> None:
        """Keep the worker with this number running, until all workers must stop."""
        restart_delay = RestartDelay()
        while not self._stopping.is_set():
            restart_delay.started()
            code = await self._run_once(number)
            if self._stopping.is_set() or code == EXIT_USAGE:
                cut_off = code == -signal.SIGTERM and self._signals > _CUT_OFF_SIGNAL
                self._worst = max(self._worst, EXIT_CUT_OFF if cut_off else _exit_code_after_stop(code))
                if not self._stopping.is_set():  # only once: a second signal would cancel the handlers of other workers
                    self._stop()
                break
            if code == 0 and self._recycles:
                continue
            await restart_delay.wait(f"Worker {number} ended with {code}; it starts again", self._stopping)

    async def _run_once(self, number: int) -> int:
        """Run the worker once and return its exit code. A negative code is the number of the signal that killed it."""
        # The worker has its own session, so that Ctrl-C in the terminal reaches only this process, which passes it on once.
        own = ["--watched-at", str(worker_socket(self._folder, number))]
        if self._ready is not None:
            own += ["--ready-file", str(_ready_file(self._folder, number))]
        process = await anyio.open_process(
            [*self._command, *own],
            stdin=subprocess.DEVNULL,
            stdout=None,
            stderr=None,
            env={**self._environment, WORKER: str(number)},
            pass_fds=(self._parent_pipe,),
            start_new_session=True,
        )
        self._running[number] = process
        if self._stopping.is_set():  # a signal came during the start of the worker
            terminate(process)
        code = await process.wait()
        del self._running[number]
        _ready_file(self._folder, number).unlink(missing_ok=True)  # a killed worker does not remove its ready file
        return code


def _ready_file(folder: Path, number: int) -> Path:
    return folder / f"ready-{number}"


def _exit_code_after_stop(code: int) -> int:
    """Return the exit code to use for a process that had to stop."""
    if code == -signal.SIGTERM:  # the signal came before the process had a handler for it, so before its first message
        return 0
    return code if code >= 0 else EXIT_FAILED
