"""Runs an application until a signal stops it.

The first SIGTERM, SIGINT or SIGHUP drains the listeners. The second signal cancels the handlers, which backs out their units of
work. The third signal ends the process immediately. This file handles no message.
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

if TYPE_CHECKING:  # a queue manager's process uses this file without an application
    from mqflow.app.run.running_application import RunningApplication

__all__ = (
    "EXIT_CUT_OFF",
    "EXIT_INCIDENT",
    "cover_interrupt",
    "end_process",
    "run_until_signal",
    "stop_signals",
    "threads_left",
)

EXIT_CUT_OFF: Final = 75
"""The exit code if handlers were cancelled. Their messages are on their queues again (EX_TEMPFAIL)."""

EXIT_INCIDENT: Final = 1
"""The exit code if a listener or a service has ended unexpectedly, even if it was started again (`ConsumerFailed`)."""

LEAVE_AFTER_S: Final = 5.0
"""If a handler still runs this many seconds after the drain, the process ends with `EXIT_CUT_OFF`."""

_logger = logging.getLogger("mqflow")


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a process: SIGTERM and SIGINT; also SIGHUP, if nohup does not ignore it."""
    hang_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGTERM, signal.SIGINT, *hang_up)


def threads_left() -> bool:
    """Return whether Python would wait for threads at the end of the process, for example for those of cancelled handlers."""
    return any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())


def cover_interrupt(number: int) -> None:
    """Let the next line on the terminal begin on top of the ^C that the terminal has shown. So no line becomes too long."""
    if number == signal.SIGINT and sys.stderr.isatty():
        sys.stderr.write("\r")
        sys.stderr.flush()


async def run_until_signal(
    run: Callable[[], "AbstractAsyncContextManager[RunningApplication]"],
    stop: Callable[[], None],
    until: Callable[[], Awaitable[None]] | None = None,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> int:
    """Run the application until a signal stops it. Return 0 if every handler finished in the drain, else `EXIT_CUT_OFF`.

    Return `EXIT_INCIDENT` instead of 0 if a listener or a service has ended unexpectedly.

    The first signal calls `stop` immediately, even during the start, which may wait for the queue manager. When `until`
    returns, `stop` is called too. If other code calls `App.stop`, the run ends in the same way. A first signal after that has
    no further effect. `beside` runs at the same time, and is cancelled at the end.

    A handler can block the event loop, or ignore its cancellation. If it still runs `LEAVE_AFTER_S` after the drain, the log
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
                    if not request.was_made:
                        await undisturbed(running.stopping.wait)
            watch.cancel_scope.cancel()
    if request.cut_off:
        return EXIT_CUT_OFF
    return EXIT_INCIDENT if request.running is not None and request.running.incidents else 0


class _StopRequest:
    """The request to stop the application, and the way to carry it out."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.was_made = False
        #: The cancel scope around the whole run.
        self.scope: Final = anyio.CancelScope()
        #: The running application; None during its start.
        self.running: RunningApplication | None = None
        self._stop: Final = stop

    @property
    def cut_off(self) -> bool:
        """True if anything was cancelled before it had finished."""
        return self.scope.cancelled_caught or (self.running is not None and self.running.cut_off)

    def left(self) -> str:
        """Return the names of the handlers that still run `LEAVE_AFTER_S` after the end of the drain; "" if no handler runs."""
        return self.running.left_after(LEAVE_AFTER_S) if self.running is not None else ""

    def stop(self) -> None:
        self.was_made = True
        self._stop()

    def cancel(self) -> None:
        """Cancel the handlers that run. If no handler runs, cancel the function of `on_start` or `on_stop`, or the lifespan."""
        _logger.warning("second signal: handlers are cancelled and backed out; a third signal ends the process immediately")
        if self.running is None or not self.running.cancel():
            _logger.warning("functions of on_start or on_stop, or the lifespan, are cancelled")
            self.scope.cancel()


def end_process(code: int) -> NoReturn:
    """End the process immediately with this exit code. The queue manager backs out all open units of work."""
    try:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # also if the reader of stdout has ended
        os._exit(code)


def _leave(left: str) -> None:
    _logger.error("The drain is over, and these do not end. The process ends, and their messages are redelivered.\n%s", left)
    end_process(EXIT_CUT_OFF)


async def _stop_on_signals(signals: AsyncIterator[signal.Signals], request: _StopRequest) -> None:
    """Stop the application at the first signal, cancel at the second, and end the process at the third.

    SIGHUP never cancels: when a terminal closes, SIGHUP comes twice, once from the kernel and once from the shell.
    """
    is_first = True
    async for number in signals:
        cover_interrupt(number)
        if is_first:
            request.stop()
            is_first = False
        elif number != signal.SIGHUP:
            # Nothing can interrupt a call of a client library. When the process ends, its unit of work is backed out.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            request.cancel()
            return


async def _stop_after(until: Callable[[], Awaitable[None]], request: _StopRequest) -> None:
    await until()
    request.stop()
