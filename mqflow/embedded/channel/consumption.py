"""The waits of one conversation: gets with a wait, and handles whose messages the client has requested.

Each wait belongs to a handle. This module calls the get of the queue manager without a wait, and calls it again when a message
arrives. It knows no socket and no flow.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from mqflow.embedded.wire.server.contract import ServableConnection
from mqflow.mqi.errors import MQIError
from mqflow.verbs import WAIT_UNLIMITED, GetOptions, Got, ObjectHandle

__all__ = ("Outcome", "Waits", "ends_at")


class Outcome(Struct, frozen=True):
    """The end of a wait: a message, an error, or neither if the time is over."""

    got: Got | None = None
    error: MQIError | None = None


class _Wait:
    """A get that waits."""

    def __init__(
        self, handle: ObjectHandle, options: GetOptions, ends_at: float | None, done: Callable[[Outcome], None]
    ) -> None:
        self.handle: Final = handle
        self.options: Final = options
        self.ends_at: Final = ends_at
        self.done: Final = done
        self.withdraw: Callable[[], None] | None = None


def ends_at(wait_ms: int, now: float) -> float | None:
    """Return the time at which a wait of `wait_ms` ends; None for never."""
    return None if wait_ms == WAIT_UNLIMITED else now + max(0, wait_ms) / 1000


class Waits:
    """The waits of one connection. The caller chooses a number for each handle; a handle has at most one wait."""

    def __init__(self, connection: ServableConnection, wake: Callable[[], None]) -> None:
        self._connection = connection
        self._wake = wake
        self._waits: dict[int, _Wait] = {}

    def __bool__(self) -> bool:
        """Return whether a get of this connection waits."""
        return bool(self._waits)

    def begin(
        self, number: int, handle: ObjectHandle, options: GetOptions, ends_at: float | None, done: Callable[[Outcome], None]
    ) -> None:
        """Begin a wait for a message. `progress` repeats a get with these options, and calls `done` with the outcome.

        The options must not contain a wait. An earlier wait with this number ends without an outcome. `done` can begin a new
        wait.
        """
        self.cancel(number)
        self._waits[number] = _Wait(handle, options, ends_at, done)

    def cancel(self, number: int) -> bool:
        """End the wait without an outcome. Return whether there was a wait with this number."""
        wait = self._waits.pop(number, None)
        if wait is not None and wait.withdraw is not None:
            wait.withdraw()
        return wait is not None

    def clear(self) -> None:
        """End all waits without an outcome."""
        for number in tuple(self._waits):
            self.cancel(number)

    def next_end(self) -> float | None:
        """Return the earliest end of a wait; None if no wait has an end."""
        return min((wait.ends_at for wait in self._waits.values() if wait.ends_at is not None), default=None)

    def progress(self, now: float) -> None:
        """Try a get for every wait. After a message, after an error, or if the time is over, end the wait and call `done`."""
        for number in tuple(self._waits):
            while (wait := self._waits.get(number)) is not None and (outcome := self._outcome(wait, now)) is not None:
                del self._waits[number]
                wait.done(outcome)

    def _outcome(self, wait: _Wait, now: float) -> Outcome | None:
        while True:
            try:
                got = self._connection.get(wait.handle, wait.options)
            except MQIError as error:
                self._withdraw(wait)
                return Outcome(error=error)
            self._withdraw(wait)  # after the get: a waiter without its message wakes another waiter
            if got is not None:
                return Outcome(got)
            if wait.ends_at is not None and now >= wait.ends_at:
                return Outcome()
            wait.withdraw = self._connection.on_arrival(wait.handle, wait.options, self._wake)
            if wait.withdraw is not None:
                return None

    def _withdraw(self, wait: _Wait) -> None:
        withdraw, wait.withdraw = wait.withdraw, None
        if withdraw is not None:
            withdraw()
