"""Runs an application until it is told to stop: the first SIGTERM or SIGINT drains, the second backs out and leaves."""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import anyio

from mqflow.ambient import SYSTEM_CLOCK, THREADS
from mqflow.app.running import Running
from mqflow.runtime.watchdog import Watchdog

__all__ = ("EXIT_CUT_OFF", "run_until_signal")

EXIT_CUT_OFF: Final = 75
"""Handlers had to be cut off; their messages are on their queues again (EX_TEMPFAIL)."""


async def run_until_signal(run: Callable[[], AbstractAsyncContextManager[Running]]) -> int:
    """Run until told to stop; return 0 after a drain in which everything finished, `EXIT_CUT_OFF` otherwise."""
    cut_off = False
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with anyio.create_task_group() as watch:
            async with Watchdog(SYSTEM_CLOCK).watching(THREADS), run() as running:
                stopping = anyio.Event()
                watch.start_soon(_heed, signals, running, stopping)
                await stopping.wait()
            cut_off = running.cut_off
            watch.cancel_scope.cancel()
    return EXIT_CUT_OFF if cut_off else 0


async def _heed(signals: AsyncIterator[signal.Signals], running: Running, stopping: anyio.Event) -> None:
    """Set `stopping` at the first signal; at the second, cut off what is under way."""
    await anext(signals)
    stopping.set()
    await anext(signals)
    running.cancel()
