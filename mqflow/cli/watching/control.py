"""The requests to a running application, their answers, and the part of the application that answers them.

A `Source` returns the state of an application, and carries out orders. `ProcessSource` is the source for one process. This file
uses no socket.
"""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from msgspec import Struct

from mqflow.app.application import App
from mqflow.app.errors import shown_url
from mqflow.policy.health.records import ApplicationStatus, Counts, ListenerStatus, ProcessStatus
from mqflow.runtime.connection.loop_call import LoopCaller
from mqflow.runtime.watchdog import stack_of
from mqflow.world import SYSTEM_WORLD, Event, World

__all__ = ("Figures", "Order", "OrderError", "PartlyDoneError", "ProcessSource", "QueueFigures", "Source", "shown_urls")

_LOOP_ANSWER_S: Final = 1.0
"""If the event loop runs no function for this many seconds, it counts as blocked."""


class Order(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An order of an operator to one listener of an application."""

    #: The name of the listener, or of its queue.
    listener: str
    #: True to pause, False to resume; None for no change.
    held: bool | None = None
    #: The number of workers in each process; None for no change.
    concurrency: int | None = None


class OrderError(Exception):
    """An order cannot be carried out. The text gives the reason."""


class PartlyDoneError(OrderError):
    """Some processes have carried out the order. The text names the others."""


class Source(Protocol):
    """Returns the state of an application, and carries out orders. Any thread may call it."""

    def status(self) -> ApplicationStatus:
        """Return the present state of all processes that answer."""
        ...

    def order(self, order: Order) -> None:
        """Carry out the order in all processes. Raises `OrderError` if that is not possible.

        Raises `PartlyDoneError` if only some processes have carried it out.
        """


class QueueFigures(Struct, frozen=True, kw_only=True):
    """The depth and other figures of one queue."""

    queue: str
    #: CURDEPTH, which includes uncommitted messages; for an alias, that of its target queue. None if the inquiry was refused.
    depth: int | None = None
    #: MSGAGE, the age of the oldest message; None if the queue is empty, or if the age is not known.
    oldest_message_age_s: int | None = None
    #: UNCOM, the number of messages in open units of work; None if it is not known.
    uncommitted: int | None = None
    #: The reason why the inquiry was refused; empty if it was not.
    refused: str = ""

    @property
    def oldest(self) -> str:
        """The age of the oldest message, for people: "in flight" if all are in units of work; empty without messages."""
        if self.oldest_message_age_s is not None:
            return f"{self.oldest_message_age_s:,} s"
        if not self.depth:
            return ""
        return "unknown" if self.uncommitted is None or self.uncommitted < self.depth else "in flight"


class Figures(Protocol):
    """Returns the figures for queues with these names, in the same order. Never raises."""

    def __call__(self, queues: Sequence[str], /) -> tuple[QueueFigures, ...]:
        """Return the figures."""
        ...


def shown_urls(*urls: str) -> str:
    """Return the URLs of an application's queue managers in one text, without passwords."""
    return " and ".join(map(shown_url, urls))


class _Turn(Struct, frozen=True):
    """A turn of the event loop that was asked for, and whether it came."""

    asked_at: float
    came: Event


class ProcessSource:
    """The source for an application in one process."""

    def __init__(
        self,
        app: App,
        *urls: str,
        number: int = 0,
        counts: Callable[[], Counts] | None = None,
        first: tuple[Order, ...] = (),
        world: World = SYSTEM_WORLD,
    ) -> None:
        """Take the application. `urls` name its queue managers, and `number` is the number of the worker process.

        `counts` reads the counts. `first` has the orders to carry out when the application starts.
        """
        self._app: Final = app
        self._url: Final = shown_urls(*urls)
        self._number: Final = number
        self._counts: Final = counts
        self._first: Final = first
        self._world: Final = world
        self._loop: LoopCaller | None = None
        self._thread = 0
        self._turn: _Turn | None = None

    def started(self) -> None:
        """Remember the event loop, and carry out the first orders. The application calls this method when it starts."""
        self._loop = LoopCaller()
        self._thread = threading.get_ident()
        running = self._app.current
        if running is not None:
            if self._counts is not None:
                running.watch()
            for order in self._first:
                running.order(order.listener, held=order.held, concurrency=order.concurrency)

    def status(self) -> ApplicationStatus:
        """Return the present state of this process. The first call takes a second if the event loop is blocked."""
        pid, running = os.getpid(), self._app.current
        blocked_since, blocked_at = self._blocked()
        listeners: tuple[ListenerStatus, ...] = () if running is None else running.listeners()
        process = ProcessStatus(
            process=pid,
            number=self._number,
            taken_at=self._world.clock.monotonic(),
            ready=running is not None and running.ready,
            missing=() if running is None else running.missing,
            listeners=listeners,
            counts={} if self._counts is None else self._counts(),
            blocked_since=blocked_since,
            blocked_at=blocked_at,
        )
        name = self._app.name or "mqflow" if running is None else running.name
        return ApplicationStatus(application=name, process=pid, url=self._url, processes=(process,))

    def order(self, order: Order) -> None:
        """Carry out the order. Raises `OrderError` if that is not possible, or if the event loop does not react in time."""

        def carry_out() -> None:
            running = self._app.current
            if running is None:
                raise OrderError("The application starts or stops; try again.")
            try:
                running.order(order.listener, held=order.held, concurrency=order.concurrency)
            except (LookupError, ValueError) as error:
                raise OrderError(str(error.args[0])) from error

        errors: list[OrderError] = []

        def noting() -> None:
            try:
                carry_out()
            except OrderError as error:
                errors.append(error)

        if not self._on_loop(noting):
            raise OrderError(
                "The event loop of the application is blocked, so it takes no order now. `mqflow status` shows where."
            )
        if errors:
            raise errors[0]

    def _blocked(self) -> tuple[float | None, str]:
        """Return the time since when the event loop is blocked, and the code that blocks it; None and "" if it is not blocked.

        An event loop that has not run the function of an earlier call is blocked still, so a later call need not wait.
        """
        if self._loop is None or threading.get_ident() == self._thread:
            return None, ""
        turn = self._turn
        if turn is None or turn.came.is_set():
            turn = self._turn = _Turn(self._world.clock.monotonic(), self._world.runner.event())
            self._loop(turn.came.set)
        if turn.came.wait(max(0.0, turn.asked_at + _LOOP_ANSWER_S - self._world.clock.monotonic())):
            return None, ""
        return turn.asked_at, stack_of(self._thread)

    def _on_loop(self, function: Callable[[], None]) -> bool:
        """Run the function on the event loop. If the loop does not begin it within a second, never run it, and return False."""
        if self._loop is None:
            function()
            return True
        done, waiting = self._world.runner.event(), [function]

        def run() -> None:
            with suppress(IndexError):  # the caller has given up, so nothing waits
                waiting.pop()()
            done.set()

        self._loop(run)
        if done.wait(_LOOP_ANSWER_S):
            return True
        try:
            waiting.pop()
        except IndexError:  # the loop has just begun it
            done.wait(_LOOP_ANSWER_S)
            return True
        return False
