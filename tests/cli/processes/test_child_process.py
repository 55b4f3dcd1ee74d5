"""The end of a child process: its parent sends SIGTERM and reads its exit code."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator

import anyio
import pytest

from mqflow.cli.processes.child_process import terminate


@pytest.fixture
def anyio_backend() -> str:
    """The parent of worker processes runs on asyncio only."""
    return "asyncio"


@pytest.fixture(autouse=True)
def reaped_by_the_loop() -> Iterator[None]:
    """Let the event loop read the exit codes, as Python does from 3.12, so that a blocked loop leaves a code unread."""
    if sys.version_info < (3, 12):
        policy = asyncio.get_event_loop_policy()
        default = policy.get_child_watcher()
        policy.set_child_watcher(asyncio.PidfdChildWatcher())
        yield
        policy.set_child_watcher(default)
    else:
        yield


@pytest.mark.anyio
async def test_a_process_that_has_just_ended_keeps_its_exit_code() -> None:
    theirs, ours = os.pipe()
    process = await anyio.open_process(["/bin/sh", "-c", "read line; exit 2"], stdin=theirs)
    os.close(theirs)
    os.close(ours)
    # It ends now. The loop does not run until then, because it would read the exit code.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222

    terminate(process)

    assert 2 == await process.wait()
    terminate(process)  # its number can belong to another process now


@pytest.mark.anyio
async def test_a_process_that_runs_gets_the_signal() -> None:
    process = await anyio.open_process(["/bin/sleep", "60"])

    terminate(process)

    assert -signal.SIGTERM == await process.wait()
