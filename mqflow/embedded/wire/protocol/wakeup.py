"""Waiting for a stream and for another thread at the same time.

Knows descriptors; knows no frame and no verb.
"""

import contextlib
import select
import socket
from typing import Protocol

from msgspec import Struct

__all__ = ("HasDescriptor", "Signal", "SocketSignal", "Waited")


class HasDescriptor(Protocol):
    """What the system can wait for."""

    def fileno(self) -> int:
        """Its number."""
        ...


class Waited(Struct, frozen=True):
    """What ended a wait; neither where the time was over."""

    readable: bool
    signalled: bool


class Signal(Protocol):
    """Something another thread says, that can be waited for together with a stream."""

    def set(self) -> None:
        """Say it."""
        ...

    def clear(self) -> None:
        """Forget that it was said."""
        ...

    def heard_within(self, wait_s: float) -> bool:
        """Wait until it is said, or the time is over; return whether it was."""
        ...

    def heard_beside(self, stream: HasDescriptor, wait_s: float | None) -> Waited:
        """Wait until it is said, the stream has something (its end, for instance), or the time is over."""
        ...

    def close(self) -> None:
        """Say and hear nothing more."""
        ...


class SocketSignal:
    """Said by a byte over a pair of sockets."""

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

    def heard_beside(self, stream: HasDescriptor, wait_s: float | None) -> Waited:
        """Wait until it is said, the stream has something (its end, for instance), or the time is over."""
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        poll.register(self, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(None if wait_s is None else wait_s * 1000)}
        return Waited(stream.fileno() in ready, self.fileno() in ready)

    def fileno(self) -> int:
        """What to wait for."""
        return self._heard.fileno()

    def close(self) -> None:
        """Say and hear nothing more."""
        self._heard.close()
        self._said.close()
