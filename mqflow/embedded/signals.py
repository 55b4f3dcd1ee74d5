"""Waiting for a socket and for another thread at the same time.

Knows descriptors; knows no frame and no verb.
"""

import contextlib
import select
import socket
from typing import Protocol

from msgspec import Struct

__all__ = ("Signal", "Waited", "wait_for")


class Signal:
    """Something another thread says, that can be waited for together with a socket."""

    def __init__(self) -> None:
        self._heard, self._said = socket.socketpair()
        self._heard.setblocking(False)
        self._said.setblocking(False)

    def set(self) -> None:
        """Say it."""
        with contextlib.suppress(BlockingIOError):  # it was said often enough
            self._said.send(b"!")

    def clear(self) -> None:
        """Forget that it was said."""
        with contextlib.suppress(BlockingIOError):
            while self._heard.recv(64):
                pass

    def heard_within(self, wait_s: float) -> bool:
        """Wait until it is said, or the time is over; return whether it was."""
        poll = select.poll()
        poll.register(self, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))

    def fileno(self) -> int:
        """What to wait for."""
        return self._heard.fileno()

    def close(self) -> None:
        """Say and hear nothing more."""
        self._heard.close()
        self._said.close()


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


class Waited(Struct, frozen=True):
    """What ended a wait; neither where the time was over."""

    readable: bool
    signalled: bool


def wait_for(stream: _HasDescriptor, signal: Signal, wait_s: float | None) -> Waited:
    """Wait until the socket has something (its end, for instance), the signal is set, or the time is over."""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    poll.register(signal, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(None if wait_s is None else wait_s * 1000)}
    return Waited(stream.fileno() in ready, signal.fileno() in ready)
