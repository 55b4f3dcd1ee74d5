"""A child process of a command. It notices when its parent ends. The parent waits before each restart of the child.

The child has one end of a pipe. The operating system closes the other end when the parent ends, even after SIGKILL.
"""

import math
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import anyio
from anyio.abc import Process

from mqflow.cli.text.terminal import note
from mqflow.world import SYSTEM_CLOCK

__all__ = ("WORKER", "RestartDelay", "parent_pipe", "run_command", "terminate", "until_parent_ends")

WORKER: Final = "MQFLOW_WORKER"
"""The environment variable that gives a worker process of `mqflow run --workers` its number, from 1."""

_FIRST_DELAY_S: Final = 1.0
_LONGEST_DELAY_S: Final = 30.0
_STABLE_S: Final = 60.0
"""If a process has run for this many seconds, it has started well, and its delay is reset."""


def run_command(application: str, *more: str, backend: str, drain_s: float, start_limit_s: float | None) -> list[str]:
    """Return the command `mqflow run` for a child process. The settings are passed as arguments.

    If an application has its settings in its source code, it does not read them from the environment.
    """
    command = [sys.executable, "-m", "mqflow.cli", "run", application, "--backend", backend, "--drain", f"{drain_s:g}", *more]
    return command if start_limit_s in {None, math.inf} else [*command, "--wait", f"{start_limit_s:g}"]


@contextmanager
def parent_pipe() -> Iterator[int]:
    """Yield a descriptor for the child processes that must end with this process. Pass it with `pass_fds`."""
    theirs, ours = os.pipe()  # no process inherits `ours`, which would keep the pipe open
    try:
        yield theirs
    finally:
        os.close(theirs)
        os.close(ours)


async def until_parent_ends(descriptor: int) -> None:
    """Wait until the process that has passed the descriptor ends."""
    os.set_inheritable(descriptor, False)
    while True:
        await anyio.wait_readable(descriptor)
        if not os.read(descriptor, 1):
            return


def terminate(process: Process) -> None:
    """Send SIGTERM to the process if it still runs. Its exit code stays the one that the process gives.

    `Process.terminate` of Python before 3.13 reads the exit code first. If the process has just ended, asyncio then finds no
    code, and reports 255.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)


class RestartDelay:
    """The delay before the next start of one process. It doubles at each start, and is reset after a run of a minute."""

    def __init__(self) -> None:
        self._delay_s = _FIRST_DELAY_S
        self._started_at = 0.0

    def started(self) -> None:
        """Record that the process starts now."""
        self._started_at = SYSTEM_CLOCK.monotonic()

    async def wait(self, text: str, stopping: anyio.Event) -> None:
        """Print the text and the delay before the next start. Then wait for this delay, or until `stopping` is set."""
        if SYSTEM_CLOCK.monotonic() - self._started_at >= _STABLE_S:
            self._delay_s = _FIRST_DELAY_S
        note(f"{text} in {self._delay_s:g} s.")
        with anyio.move_on_after(self._delay_s):
            await stopping.wait()
        self._delay_s = min(2 * self._delay_s, _LONGEST_DELAY_S)
