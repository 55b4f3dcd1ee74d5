"""Two processes that own one data folder by turns: an active queue manager and its standby, for the workers of an application.

Whichever dies is started again; the other one goes on. Knows processes and locks; what they run is `mqflow qmgr serve`.
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

from mqflow.cli.processes.is_served import answers
from mqflow.cli.processes.restart_delay import Restarts
from mqflow.cli.text.exit_codes import EXIT_ORDERED
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import prepare_folder
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.standby import owner_pid, standby_pid

__all__ = ("Hosts",)

_LOOK_S: Final = 0.02
_END_S: Final = 10.0
"""How long the end of one may take before it is killed: nothing is under way there any more."""


class Hosts:
    """Of one folder."""

    def __init__(
        self, name: str, folder: Path, lifeline: int, environment: Mapping[str, str], ended: Callable[[], None]
    ) -> None:
        """Take what they need to know, and who is told when an operator has ended the queue manager: nothing is restarted."""
        self.name: Final = name
        self._ended: Final = ended
        self._ordered = False
        self._folder: Final = prepare_folder(folder, create=True)
        self._lifeline: Final = lifeline
        self._environment: Final = environment
        self._stopping = anyio.Event()
        self._turn = anyio.Lock()  # two that start at once would both want to stand by
        #: Those that run; the active one first.
        self._running: list[Process] = []
        #: The exit code of a first one that ended before it served anything; it has said why itself.
        self.failed: int | None = None

    @property
    def active(self) -> int:
        """The process that serves the folder, while one does."""
        return self._running[0].pid

    @asynccontextmanager
    async def serving(self, unless: anyio.Event) -> AsyncIterator[None]:
        """Have the folder served inside, with a standby, and end both on leaving.

        Where `failed` is set nobody serves it; nor where `unless` came before the first was ready.
        """
        if not self._folder.database.exists():
            EmbeddedQueueManager(self.name, store=SqliteStore(self._folder.path)).close()
        async with anyio.create_task_group() as group:
            try:
                await group.start(self._first, unless)
                if self.failed is None and not unless.is_set():
                    group.start_soon(self._keep)
                yield
            finally:
                self._stopping.set()
                with anyio.CancelScope(shield=True):
                    await self._end()

    async def _first(self, unless: anyio.Event, *, task_status: TaskStatus[None]) -> None:
        """Have the first one running; started when it serves the folder, or has failed to."""
        async with self._turn:
            process = await self._start()
            served = await self._ready(process, unless, partial(self._serves, process))
            self.failed = None if served else process.returncode
        task_status.started()
        if served:
            await self._keep(process)

    async def _keep(self, process: Process | None = None) -> None:
        """Have one of the two running, until all end: this one first."""
        restarts = Restarts()
        while True:
            restarts.started()
            if process is None:
                async with self._turn:
                    if self._stopping.is_set():
                        return
                    process = await self._start()
                    await self._ready(process, self._stopping, partial(self._takes_part, process))
            code = await process.wait()
            was_active = self._running[0] is process
            self._running.remove(process)
            if code == EXIT_ORDERED and not self._ordered:
                self._ordered = True
                self._ended()
            if self._ordered or self._stopping.is_set():
                return
            await restarts.pause(self._said(process.pid, code, was_active=was_active), self._stopping)
            process = None

    def _said(self, pid: int, code: int, *, was_active: bool) -> str:
        what = "served" if was_active else "stood by for"
        others = f"process {self._running[0].pid} goes on" if self._running else "nobody serves it now"
        return f"Process {pid}, which {what} {self.name}, ended with {code}; {others}. Another one is started"

    async def _start(self) -> Process:
        words = (sys.executable, "-m", "mqflow.cli", "qmgr", "serve", self.name, "--data", str(self._folder.path), "--standby")
        process = await anyio.open_process(
            (*words, "--lifeline", str(self._lifeline)),
            stdin=subprocess.DEVNULL,
            stdout=None,
            stderr=None,
            env=self._environment,
            pass_fds=(self._lifeline,),
            start_new_session=True,  # Ctrl-C in the terminal is not for it: it ends after the workers
        )
        self._running.append(process)
        return process

    async def _ready(self, process: Process, unless: anyio.Event, so: Callable[[], bool]) -> bool:
        """Return whether it has got so far; False where it has ended, or is to."""
        while process.returncode is None and not unless.is_set():
            if so():
                return True
            await anyio.sleep(_LOOK_S)
        return False

    def _takes_part(self, process: Process) -> bool:
        """Whether it stands by, or serves the folder."""
        return standby_pid(self._folder) == process.pid or self._serves(process)

    def _serves(self, process: Process) -> bool:
        """Whether it owns the folder and answers."""
        return owner_pid(self._folder) == process.pid and answers(self._folder.path)

    async def _end(self) -> None:
        """End the standby first: it would take over."""
        async with self._turn:
            running = self._running.copy()
        if self._ordered and running:  # it ends in its own time, as it was told to, and then in ours
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
