"""Slows down password guessing, so that guesses take little processor time and do not delay other addresses.

The check of a password deliberately takes 50 ms of a processor and 16 megabytes. Only one check runs at a time. A user at an
address has one attempt at a time, with a pause before each attempt after a failure. An address has one check at a time, with a
pause after each failed check. So the guesses from one address take at most a fifth of one processor. A user who logs in again
with the same right password does not wait. This file knows no socket and no TLS.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from msgspec import Struct

from mqflow.world import Event, Lock, World

__all__ = ("PAUSE_S_MAX", "PasswordGuard", "Passwords", "pause_s")

PAUSE_S_MAX: Final = 4.0
_PAUSE_S_FIRST: Final = 0.25
_FORGOTTEN_AFTER_S: Final = 600.0
#: A peer can try any number of user names, so the number of remembered failures needs a limit.
_REMEMBERED_MAX: Final = 10_000
_REST_PER_CHECK: Final = 4.0


def pause_s(failures: int) -> float:
    """Return the pause after a number of consecutive failures: 0.25 s, doubled by each further failure, at most 4 s."""
    return min(_PAUSE_S_FIRST * 2 ** min(failures - 1, 10), PAUSE_S_MAX) if failures else 0.0


class Passwords(Protocol):
    """Checks passwords."""

    def knows(self, user: str, password: str) -> bool:
        """Return whether this is the user's password. Deliberately slow, so that guessing is slow."""
        ...

    def knows_again(self, user: str, password: str) -> bool:
        """Return whether this password was right at an earlier log-in and is still right. This check is fast."""
        ...

    def administers(self, user: str) -> bool:
        """Return whether the owner of the queue manager made this user an administrator."""
        ...


class _Failures(Struct, frozen=True):
    """The consecutive failed log-ins of one user at one address."""

    count: int
    last_at: float


class _Turn(Struct):
    """A lock, and the number of threads that have it or wait for it."""

    lock: Lock
    threads: int = 0


class PasswordGuard:
    """Checks passwords, one at a time. Any thread can call it."""

    def __init__(self, passwords: Passwords, world: World) -> None:
        self._passwords: Final = passwords
        self._clock: Final = world.clock
        runner = self._runner = world.runner
        self._check: Final[Lock] = runner.lock()
        self._guard: Final[Lock] = runner.lock()
        self._turns: Final[dict[Hashable, _Turn]] = {}
        self._failed: Final = OrderedDict[tuple[str, str], _Failures]()
        self._closing: Final[Event] = runner.event()

    def knows(self, user: str, password: str, address: str) -> bool:
        """Return whether this is the user's password. After failures of this user at this address, pause first."""
        if self._passwords.knows_again(user, password):
            return True
        with self._turn((user, address)):
            self._closing.wait(self._pause_s(user, address))
            if self._passwords.knows_again(user, password):  # another log-in has proved the password meanwhile
                return True
            with self._turn(address):
                began = self._clock.monotonic()
                with self._check:
                    known = self._passwords.knows(user, password)
                self._note(user, address, known=known)
                if not known:
                    self._closing.wait(_REST_PER_CHECK * (self._clock.monotonic() - began))
        return known

    def close(self) -> None:
        """End all pauses."""
        self._closing.set()

    @contextmanager
    def _turn(self, key: Hashable) -> Iterator[None]:
        """Wait until no other thread is in a block with this key, then run the block."""
        with self._guard:
            turn = self._turns.setdefault(key, _Turn(self._runner.lock()))
            turn.threads += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._guard:
                turn.threads -= 1
                if not turn.threads:
                    del self._turns[key]

    def _pause_s(self, user: str, address: str) -> float:
        with self._guard:
            failures = self._failed.get((user, address))
            if failures is None or self._clock.monotonic() - failures.last_at > _FORGOTTEN_AFTER_S:
                return 0.0
            return pause_s(failures.count)

    def _note(self, user: str, address: str, *, known: bool) -> None:
        with self._guard:
            before = self._failed.pop((user, address), None)
            if known:
                return
            self._failed[user, address] = _Failures(1 + (before.count if before else 0), self._clock.monotonic())
            if len(self._failed) > _REMEMBERED_MAX:
                self._failed.popitem(last=False)
