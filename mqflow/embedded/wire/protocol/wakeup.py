"""A signal between threads. A thread can wait for the signal and for a stream at the same time.

This module knows descriptors, but no frame and no verb.
"""

import contextlib
import select
import socket
from typing import Protocol

from msgspec import Struct

__all__ = ("HasDescriptor", "Signal", "SocketSignal", "Waited")


class HasDescriptor(Protocol):
    """An object with a file descriptor, for which the system can wait."""

    def fileno(self) -> int:
        """Return the number of the file descriptor."""
        ...


class Waited(Struct, frozen=True):
    """The result of a wait. Both fields are false if the time is over."""

    readable: bool
    signalled: bool


class Signal(Protocol):
    """A signal from another thread. A thread can wait for the signal and for a stream at the same time."""

    def set(self) -> None:
        """Set the signal."""

    def clear(self) -> None:
        """Reset the signal."""

    def heard_within(self, wait_s: float) -> bool:
        """Wait until the signal is set or the time is over. Return whether the signal is set."""
        ...

    def heard_beside(self, stream: HasDescriptor, wait_s: float | None) -> Waited:
        """Wait until the signal is set, the stream has bytes or has ended, or the time is over."""
        ...

    def close(self) -> None:
        """Close the signal. After this, no thread may set it or wait for it."""


class SocketSignal:
    """A signal by a byte on a pair of sockets."""

    def __init__(self) -> None:
        self._heard, self._said = socket.socketpair()
        self._heard.setblocking(False)
        self._said.setblocking(False)

    def set(self) -> None:
        """Set the signal."""
        with contextlib.suppress(BlockingIOError):  # the socket is full, so the signal is set already
            self._said.send(b"!")

    def clear(self) -> None:
        """Reset the signal."""
        with contextlib.suppress(BlockingIOError):
            while self._heard.recv(64):
                pass

    def heard_within(self, wait_s: float) -> bool:
        """Wait until the signal is set or the time is over. Return whether the signal is set."""
        poll = select.poll()
        poll.register(self, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))

    def heard_beside(self, stream: HasDescriptor, wait_s: float | None) -> Waited:
        """Wait until the signal is set, the stream has bytes or has ended, or the time is over."""
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        poll.register(self, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(None if wait_s is None else wait_s * 1000)}
        return Waited(stream.fileno() in ready, self.fileno() in ready)

    def fileno(self) -> int:
        """Return the file descriptor, for a wait."""
        return self._heard.fileno()

    def close(self) -> None:
        """Close the signal. After this, no thread may set it or wait for it."""
        self._heard.close()
        self._said.close()
