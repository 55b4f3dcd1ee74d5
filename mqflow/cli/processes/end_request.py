"""The request to end a queue manager's process: by a signal, by an application, or because the parent process has ended.

This file records the request and wakes the process. The process ends itself.
"""

import signal
from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import TaskStatus

from mqflow.app.run.signals import stop_signals
from mqflow.cli.processes.child_process import until_parent_ends
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.runtime.connection.loop_call import LoopCaller

__all__ = ("END_FOR_GOOD_SIGNAL", "EndRequest", "listen_for_signals", "watch_parent")

END_FOR_GOOD_SIGNAL: Final = signal.SIGUSR1
"""The active process sends this signal to its standbys when the queue manager ends. Then no standby takes over."""


class EndRequest:
    """The request to end the process, and the way to end it. Signals set it on the event loop, administrators on a thread."""

    def __init__(self) -> None:
        self.how: End = End(Manner.IMMEDIATE)
        self.requested: bool = False
        #: True if the whole queue manager must end, with its standbys; false if only this process must end.
        self.for_good: bool = False
        self._loop_caller = LoopCaller()
        self._changed = anyio.Event()
        #: Set when the parent process has ended.
        self.parent_ended: Final = anyio.Event()

    def request(self, how: End, *, for_good: bool = False) -> None:
        """Request the end of the process, or with `for_good` of the queue manager. A later request replaces `how`."""
        self.how = how
        self.requested = True
        self.for_good = self.for_good or for_good
        self.wake()

    def wake(self) -> None:
        """Make `wait` check its condition again. Any thread may call this."""
        self._loop_caller(self._wake_on_loop)

    async def wait(self, until: Callable[[], bool]) -> None:
        """Wait until the end is requested or `until` is true. Both are checked again after each `wake`."""
        while not self.requested and not until():
            self._changed = anyio.Event()
            await self._changed.wait()

    def _wake_on_loop(self) -> None:
        self._changed.set()  # runs on the loop, so this is the event of the present `wait`


async def listen_for_signals(end: EndRequest, *, task_status: TaskStatus[None]) -> None:
    """Turn each signal into a request to end, until this task is cancelled."""
    with anyio.open_signal_receiver(*stop_signals(), END_FOR_GOOD_SIGNAL) as signals:
        task_status.started()
        async for number in signals:
            if number == END_FOR_GOOD_SIGNAL:
                end.request(End(Manner.IMMEDIATE), for_good=True)
                continue
            end.request(End(Manner.CONTROLLED if number == signal.SIGHUP else Manner.IMMEDIATE))


async def watch_parent(parent_pipe: int, end: EndRequest) -> None:
    """Set `parent_ended` when the parent process has ended."""
    await until_parent_ends(parent_pipe)
    end.parent_ended.set()
