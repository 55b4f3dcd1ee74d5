"""Two processes for one data folder: the active queue manager and its standby, for the workers of an application.

Both processes run `mqflow qmgr serve`. If another process serves the folder already, both stand by for it. If one process dies,
it is started again, and meanwhile the other process continues.
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process, TaskStatus

from mqflow.cli.processes.child_process import RestartDelay
from mqflow.cli.processes.served_connections import is_served
from mqflow.cli.text.exit_codes import EXIT_ORDERED
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import prepare_folder
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.standby import owner_pid, standby_pid

__all__ = ("ActiveAndStandby",)

_POLL_S: Final = 0.02
_END_S: Final = 10.0
"""The seconds that a process has to end before it is killed. By then, its units of work are committed or backed out."""


class ActiveAndStandby:
    """The two processes that serve one data folder."""

    def __init__(
        self, name: str, folder: Path, parent_pipe: int, environment: Mapping[str, str], on_operator_end: Callable[[], None]
    ) -> None:
        """Take the parameters for the processes. `on_operator_end` is called if an operator ends the queue manager.

        After this call, no process is started again.
        """
        self.name: Final = name
        self._on_operator_end: Final = on_operator_end
        self._ended_by_operator = False
        self._folder: Final = prepare_folder(folder, create=True)
        self._parent_pipe: Final = parent_pipe
        self._environment: Final = environment
        self._stopping = anyio.Event()
        self._start_lock = anyio.Lock()  # if both started at the same time, both would become standbys
        #: The processes that run. The active process comes first.
        self._running: list[Process] = []
        #: The exit code of the first process if it has ended before it served the folder. It has printed the reason itself.
        self.failed: int | None = None

    @property
    def active(self) -> int:
        """The process identifier of the active process. Valid inside `serve`, if `failed` is None.

        Another command can have started the active process at the same time. Then both processes of this command stand by.
        """
        return owner_pid(self._folder) or self._running[0].pid

    @asynccontextmanager
    async def serve(self, stopping: anyio.Event) -> AsyncIterator[None]:
        """Serve the folder in the block, with a standby. At the end of the block, end both processes.

        If `failed` is set, or if `stopping` was set before the first process was ready, no process serves the folder.
        """
        if not self._folder.database.exists():
            EmbeddedQueueManager(self.name, store=SqliteStore(self._folder.path)).close()
        async with anyio.create_task_group() as group:
            try:
                await group.start(self._keep_first, stopping)
                if self.failed is None and not stopping.is_set():
                    group.start_soon(self._keep)
                yield
            finally:
                self._stopping.set()
                with anyio.CancelScope(shield=True):
                    await self._end()

    async def _keep_first(self, stopping: anyio.Event, *, task_status: TaskStatus[None]) -> None:
        """Keep the first process running. `task_status` is set when a process serves the folder, or the first has failed."""
        async with self._start_lock:
            process = await self._start()
            served = await self._wait_until(partial(self._is_served, process), process, stopping)
            self.failed = None if served else process.returncode
        task_status.started()
        if served:
            await self._keep(process)

    async def _keep(self, process: Process | None = None) -> None:
        """Keep one of the two processes running until both must end. If `process` is given, begin with it."""
        restart_delay = RestartDelay()
        while True:
            restart_delay.started()
            if process is None:
                async with self._start_lock:
                    if self._stopping.is_set():
                        return
                    process = await self._start()
                    await self._wait_until(partial(self._is_ready, process), process, self._stopping)
            code = await process.wait()
            was_active = self._running[0] is process
            self._running.remove(process)
            if code == EXIT_ORDERED and not self._ended_by_operator:
                self._ended_by_operator = True
                self._on_operator_end()
            if self._ended_by_operator or self._stopping.is_set():
                return
            await restart_delay.wait(self._restart_text(process.pid, code, was_active=was_active), self._stopping)
            process = None

    def _restart_text(self, pid: int, code: int, *, was_active: bool) -> str:
        running = [process.pid for process in self._running]
        named = owner_pid(self._folder)
        owner = None if named == pid else named  # the next owner has not yet written its own process identifier
        role = "stood by for" if not was_active or (owner and owner not in running) else "served"
        other = f"process {owner or running[0]} goes on" if owner or running else "no process serves it now"
        return f"Process {pid}, which {role} {self.name}, ended with {code}; {other}. Another process starts"

    async def _start(self) -> Process:
        command = (
            sys.executable,
            "-m",
            "mqflow.cli",
            "qmgr",
            "serve",
            self.name,
            "--data",
            str(self._folder.path),
            "--standby",
        )
        process = await anyio.open_process(
            (*command, "--lifeline", str(self._parent_pipe)),
            stdin=subprocess.DEVNULL,
            stdout=None,
            stderr=None,
            env=self._environment,
            pass_fds=(self._parent_pipe,),
            start_new_session=True,  # so that Ctrl-C does not reach this process, which must end after the workers
        )
        self._running.append(process)
        return process

    async def _wait_until(self, condition: Callable[[], bool], process: Process, stopping: anyio.Event) -> bool:
        """Wait until the condition is true. Return False if the process ends or `stopping` is set first."""
        while process.returncode is None and not stopping.is_set():
            if condition():
                return True
            await anyio.sleep(_POLL_S)
        return False

    def _is_served(self, process: Process) -> bool:
        """Return whether the process serves the folder, or stands by for another process that serves it."""
        return self._is_ready(process) and is_served(self._folder.path)

    def _is_ready(self, process: Process) -> bool:
        """Return whether the process serves the folder, or is in the line of the standbys. It may not be the first there."""
        first, served = standby_pid(self._folder), is_served(self._folder.path)
        return first == process.pid or (served and (bool(first) or owner_pid(self._folder) == process.pid))

    async def _end(self) -> None:
        """End both processes. The standby ends first, because otherwise it would take over."""
        async with self._start_lock:
            running = self._running.copy()
        if self._ended_by_operator and running:  # the active process ends as the operator ordered, within _END_S
            with anyio.move_on_after(_END_S):
                await running[0].wait()
        for process in reversed(running):
            if process.returncode is None:
                process.terminate()
            with anyio.move_on_after(_END_S):
                await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
