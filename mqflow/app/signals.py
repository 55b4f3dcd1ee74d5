"""Runs an application until it is told to stop: the first SIGTERM, SIGINT or SIGHUP drains, the second backs out and leaves."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import anyio

from mqflow.ambient import SYSTEM_CLOCK, THREADS
from mqflow.app.running import Running
from mqflow.runtime.watchdog import Watchdog

__all__ = ("EXIT_CUT_OFF", "run_until_signal", "stop_signals")

EXIT_CUT_OFF: Final = 75
"""Handlers had to be cut off; their messages are on their queues again (EX_TEMPFAIL)."""


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a process: SIGHUP is one of them, unless nohup had it ignored."""
    hang_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGTERM, signal.SIGINT, *hang_up)


async def run_until_signal(
    run: Callable[[], AbstractAsyncContextManager[Running]],
    stop: Callable[[], None],
    until: Callable[[], Awaitable[None]] | None = None,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> int:
    """Run until told to stop; return 0 after a drain in which everything finished, `EXIT_CUT_OFF` otherwise.

    `stop` is called at once, also while it starts: it may wait for its queue manager then. Where `until` is given, its return
    is as good as the first signal; `beside` is run meanwhile.
    """
    cut_off = False
    with anyio.open_signal_receiver(*stop_signals()) as signals:
        async with anyio.create_task_group() as watch:
            told = _Told(stop)
            watch.start_soon(_heed, signals, told)
            if until is not None:
                watch.start_soon(_stop_when, until, told)
            if beside is not None:
                watch.start_soon(beside)
            async with Watchdog(SYSTEM_CLOCK).watching(THREADS), run() as running:
                told.running = running
                await told.stopping.wait()
            cut_off = running.cut_off
            watch.cancel_scope.cancel()
    return EXIT_CUT_OFF if cut_off else 0


class _Told:
    """Whether it is to stop."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.stopping: Final = anyio.Event()
        #: None while it starts.
        self.running: Running | None = None
        self._stop: Final = stop

    def stop(self) -> None:
        self.stopping.set()
        self._stop()


async def _heed(signals: AsyncIterator[signal.Signals], told: _Told) -> None:
    """Stop at the first signal; at another one, cut off what is under way.

    SIGHUP never cuts off: of a terminal that is closed it comes twice, from the kernel and from the shell.
    """
    async for number in signals:
        if not told.stopping.is_set():
            told.stop()
        elif number != signal.SIGHUP and told.running is not None:
            told.running.cancel()
            return


async def _stop_when(until: Callable[[], Awaitable[None]], told: _Told) -> None:
    await until()
    told.stop()
