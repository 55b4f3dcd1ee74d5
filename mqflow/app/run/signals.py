"""Runs an application until it is told to stop.

The first SIGTERM, SIGINT or SIGHUP drains, the second backs out and leaves, the third ends the process where it stands.
"""

import logging
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import anyio

from mqflow.app.run.running_application import RunningApplication
from mqflow.runtime.stuck import Watchdog
from mqflow.world import SYSTEM_CLOCK, THREADS

__all__ = ("EXIT_CUT_OFF", "run_until_signal", "stop_signals", "threads_left")

EXIT_CUT_OFF: Final = 75
"""Handlers had to be cut off; their messages are on their queues again (EX_TEMPFAIL)."""

_logger = logging.getLogger("mqflow")


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a process: SIGHUP is one of them, unless nohup had it ignored."""
    hang_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGTERM, signal.SIGINT, *hang_up)


def threads_left() -> bool:
    """Whether there are threads that Python waits for at the end of the process: of handlers that were cut off, at last."""
    return any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())


async def run_until_signal(
    run: Callable[[], AbstractAsyncContextManager[RunningApplication]],
    stop: Callable[[], None],
    until: Callable[[], Awaitable[None]] | None = None,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> int:
    """Run until told to stop; return 0 after a drain in which everything finished, `EXIT_CUT_OFF` otherwise.

    `stop` is called at once, also while it starts: it may wait for its queue manager then. Where `until` is given, its return
    is as good as the first signal; `beside` is run meanwhile.
    """
    told = _Told(stop)
    with anyio.open_signal_receiver(*stop_signals()) as signals:
        async with anyio.create_task_group() as watch:
            watch.start_soon(_heed, signals, told)
            if until is not None:
                watch.start_soon(_stop_when, until, told)
            if beside is not None:
                watch.start_soon(beside)
            with told.scope:
                async with Watchdog(SYSTEM_CLOCK).watch(THREADS), run() as running:
                    told.running = running
                    await told.stopping.wait()
            watch.cancel_scope.cancel()
    return EXIT_CUT_OFF if told.cut_off else 0


class _Told:
    """Whether it is to stop."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.stopping: Final = anyio.Event()
        #: Around the whole run.
        self.scope: Final = anyio.CancelScope()
        #: None while it starts.
        self.running: RunningApplication | None = None
        self._stop: Final = stop

    @property
    def cut_off(self) -> bool:
        """Whether anything was cancelled before it had finished."""
        return self.scope.cancelled_caught or (self.running is not None and self.running.cut_off)

    def stop(self) -> None:
        self.stopping.set()
        self._stop()

    def cancel(self) -> None:
        """Cut off what is under way; where no handler is, that is a function of `on_start` or `on_stop`, or the lifespan."""
        _logger.warning("told to stop once more: what is under way is cut off; a third signal ends the process where it stands")
        if self.running is None or not self.running.cancel():
            _logger.warning("functions of on_start or on_stop, or the lifespan, are cut off")
            self.scope.cancel()


async def _heed(signals: AsyncIterator[signal.Signals], told: _Told) -> None:
    """Stop at the first signal; at another one, cut off what is under way, and leave a third to end the process.

    SIGHUP never cuts off: of a terminal that is closed it comes twice, from the kernel and from the shell.
    """
    async for number in signals:
        if not told.stopping.is_set():
            told.stop()
        elif number != signal.SIGHUP:
            # A call of a client library cannot be called back. What it has not committed is backed out when its process ends.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            told.cancel()
            return


async def _stop_when(until: Callable[[], Awaitable[None]], told: _Told) -> None:
    await until()
    told.stop()
