"""Runs an application until a signal stops it.

The first SIGTERM, SIGINT or SIGHUP drains the listeners. The second cancels handlers and backs their units of work out. The
third ends the process immediately. This file knows signals and the running application, but no message.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

import anyio

from mqflow.runtime.cancellation import undisturbed
from mqflow.runtime.watchdog import Watchdog
from mqflow.world import SYSTEM_CLOCK, THREADS

if TYPE_CHECKING:  # the process of a queue manager needs the signals, and no application
    from mqflow.app.run.running_application import RunningApplication

__all__ = ("EXIT_CUT_OFF", "EXIT_INCIDENT", "end_process", "run_until_signal", "stop_signals", "threads_left")

EXIT_CUT_OFF: Final = 75
"""The exit code after the stop cancelled handlers; their messages are on their queues again (EX_TEMPFAIL)."""

EXIT_INCIDENT: Final = 1
"""The exit code after a consumer ended although nothing had stopped it, also if it started again (`ConsumerFailed`)."""

LEAVE_AFTER_S: Final = 5.0
"""Seconds after the end of the drain. If a handler still runs then, the process ends with `EXIT_CUT_OFF`."""

_logger = logging.getLogger("mqflow")


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a process: SIGTERM, SIGINT and, unless nohup ignores it, SIGHUP."""
    hang_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGTERM, signal.SIGINT, *hang_up)


def threads_left() -> bool:
    """Return whether there are threads that Python waits for at the end of the process, such as those of cancelled handlers."""
    return any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())


async def run_until_signal(
    run: Callable[[], "AbstractAsyncContextManager[RunningApplication]"],
    stop: Callable[[], None],
    until: Callable[[], Awaitable[None]] | None = None,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> int:
    """Run the application until a signal stops it. Return 0 if every handler finished in the drain, else `EXIT_CUT_OFF`.

    Return `EXIT_INCIDENT` instead of 0 if a consumer has ended although nothing had stopped it.

    The first signal calls `stop` immediately, also during the start, which may wait for the queue manager. The return of
    `until` calls `stop` too: then the first signal changes nothing. `beside` runs at the same time and is cancelled at the
    end.

    A handler can block the event loop, or ignore its cancellation. If it does so for `LEAVE_AFTER_S` after the drain, the log
    names the handler, and the process ends with `EXIT_CUT_OFF`.
    """
    request = _StopRequest(stop)
    with anyio.open_signal_receiver(*stop_signals()) as signals:
        async with anyio.create_task_group() as watch:
            watch.start_soon(undisturbed, partial(_stop_on_signals, signals, request))
            if until is not None:
                watch.start_soon(undisturbed, partial(_stop_after, until, request))
            if beside is not None:
                watch.start_soon(undisturbed, beside)
            watchdog = Watchdog(SYSTEM_CLOCK, overdue=request.left, end=_leave)
            with request.scope:
                async with watchdog.watch(THREADS), run() as running:
                    request.running = running
                    watchdog.report_after(running.time_limit_s)
                    await undisturbed(request.stopping.wait)
            watch.cancel_scope.cancel()
    if request.cut_off:
        return EXIT_CUT_OFF
    return EXIT_INCIDENT if request.running is not None and request.running.incidents else 0


class _StopRequest:
    """Whether the application must stop, and how to stop it."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.stopping: Final = anyio.Event()
        #: The scope of the whole run.
        self.scope: Final = anyio.CancelScope()
        #: None during the start.
        self.running: RunningApplication | None = None
        self._stop: Final = stop

    @property
    def cut_off(self) -> bool:
        """Whether the stop cancelled anything before it had finished."""
        return self.scope.cancelled_caught or (self.running is not None and self.running.cut_off)

    def left(self) -> str:
        """Return the names of the handlers that still run `LEAVE_AFTER_S` after the end of the drain; "" for none."""
        return self.running.left_after(LEAVE_AFTER_S) if self.running is not None else ""

    def stop(self) -> None:
        self.stopping.set()
        self._stop()

    def cancel(self) -> None:
        """Cancel the handlers that run; without handlers, the function of `on_start` or `on_stop`, or the lifespan."""
        _logger.warning("second signal: handlers are backed out; a third ends the process")
        if self.running is None or not self.running.cancel():
            _logger.warning("functions of on_start or on_stop, or the lifespan, are cancelled")
            self.scope.cancel()


def end_process(code: int) -> NoReturn:
    """End the process immediately with this code. The queue manager backs all open units of work out."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _leave(left: str) -> None:
    _logger.error("The drain is over, and these do not end. The process ends, and their messages are redelivered.\n%s", left)
    end_process(EXIT_CUT_OFF)


async def _stop_on_signals(signals: AsyncIterator[signal.Signals], request: _StopRequest) -> None:
    """Stop at the first signal, and cancel at the second; the third one ends the process.

    SIGHUP never cancels: when a terminal closes, SIGHUP comes twice, from the kernel and from the shell.
    """
    is_first = True
    async for number in signals:
        if is_first:
            request.stop()
            is_first = False
        elif number != signal.SIGHUP:
            # Nothing can interrupt a call of a client library. The end of the process backs its unit of work out.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            request.cancel()
            return


async def _stop_after(until: Callable[[], Awaitable[None]], request: _StopRequest) -> None:
    await until()
    request.stop()
