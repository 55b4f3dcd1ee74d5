"""Several processes for one application: this one owns the queue manager and serves it, the others run the listeners.

A worker that dies is started again after a growing delay. Signals are passed on, and the queue manager is closed only after the
last worker has drained. Knows processes; handles no message.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process

from mqflow.ambient import SYSTEM_CLOCK
from mqflow.app.decision_ledger import ledger_file
from mqflow.app.errors import ConfigurationError
from mqflow.app.locate import SERVED_SOCKET, locate, open_queue_manager
from mqflow.app.settings import Settings
from mqflow.cli.exits import EXIT_FAILED, EXIT_USAGE
from mqflow.cli.terminal import note
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.serving import serve

__all__ = ("run_workers",)

_FIRST_DELAY_S: Final = 1.0
_LONGEST_DELAY_S: Final = 30.0
_LONG_ENOUGH_S: Final = 60.0
"""A worker that ran so long did not die of what kills it at its start: the delay begins anew."""


def run_workers(target: str, count: int, url: str, settings: Settings, backend: str) -> int:
    """Run the workers until a signal has drained them all; return the worst of their exit codes."""
    with _served(url) as served_url:
        environment = {**os.environ, "MQFLOW_URL": served_url, "MQFLOW_DRAIN_S": f"{settings.drain_s:g}"}
        if ledger := ledger_file(url, settings.ledger):
            environment["MQFLOW_LEDGER_FILE"] = str(ledger)
        words = [sys.executable, "-m", "mqflow.cli", "run", target, "--backend", backend]
        note(f"{count} workers on {url}, served to them at {locate(served_url).path}; Ctrl-C drains and stops.")
        return anyio.run(_Workers(words, environment).run, count, backend="asyncio")


class _Workers:
    """The processes, and whether they are to stop."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self._words: Final = words
        self._environment: Final = environment
        self._running: Final[dict[int, Process]] = {}
        self._worst = 0

    async def run(self, count: int) -> int:
        self._stopping = anyio.Event()
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with anyio.create_task_group() as listening:
                listening.start_soon(self._pass_on, signals)
                async with anyio.create_task_group() as workers:
                    for number in range(1, count + 1):
                        workers.start_soon(self._keep, number)
                listening.cancel_scope.cancel()
        return self._worst

    async def _pass_on(self, signals: AsyncIterator[signal.Signals]) -> None:
        """Stop at a signal: every worker gets a SIGTERM for each that came here."""
        async for _ in signals:
            self._stopping.set()
            for process in self._running.values():
                process.terminate()

    async def _keep(self, number: int) -> None:
        """Have this worker running until all are to stop."""
        delay_s = _FIRST_DELAY_S
        while not self._stopping.is_set():
            started = SYSTEM_CLOCK.monotonic()
            code = await self._once(number)
            if self._stopping.is_set() or code == EXIT_USAGE:
                self._worst = max(self._worst, _told_to_stop(code))
                self._stopping.set()
                break
            if SYSTEM_CLOCK.monotonic() - started >= _LONG_ENOUGH_S:
                delay_s = _FIRST_DELAY_S
            note(f"Worker {number} ended with {code}; it is started again in {delay_s:g} s.")
            with anyio.move_on_after(delay_s):
                await self._stopping.wait()
            delay_s = min(2 * delay_s, _LONGEST_DELAY_S)

    async def _once(self, number: int) -> int:
        """Run the worker once and return its exit code; a negative one is the signal that killed it."""
        # A session of its own: Ctrl-C in the terminal reaches this process alone, which passes it on once.
        process = await anyio.open_process(
            self._words,
            stdin=subprocess.DEVNULL,
            stdout=None,
            stderr=None,
            env=self._environment,
            start_new_session=True,
        )
        self._running[number] = process
        if self._stopping.is_set():  # the signal came while it was being started
            process.terminate()
        code = await process.wait()
        del self._running[number]
        return code


def _told_to_stop(code: int) -> int:
    """Return the exit code of a worker that was told to stop."""
    if code == -signal.SIGTERM:  # the signal came before it listened for signals, so before it got a message
        return 0
    return code if code >= 0 else EXIT_FAILED


@contextmanager
def _served(url: str) -> Iterator[str]:
    """Own the queue manager of the URL and serve it; give the URL it is reached by. Closed last."""
    location = locate(url)
    if location.kind in {"served", "client"}:
        yield url  # another process, or IBM MQ, serves it already
        return
    with tempfile.TemporaryDirectory(prefix="mqflow-") as folder:
        queue_manager = open_queue_manager(url)
        try:
            if not isinstance(queue_manager, EmbeddedQueueManager):
                raise ConfigurationError(f"{url!r}: only an embedded queue manager is served to workers.")
            path = (location.path or Path(folder)) / SERVED_SOCKET
            server = serve(queue_manager, path)
            try:
                yield f"embedded+unix:{path}?qmgr={location.queue_manager}"
            finally:
                server.close()
        finally:
            queue_manager.close()
