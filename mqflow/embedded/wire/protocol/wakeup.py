"""A signal between threads that a thread can wait for together with a stream.

This module knows descriptors, but no frame and no verb.
"""

import contextlib
import select
import socket
from typing import Protocol

from msgspec import Struct

__all__ = ("HasDescriptor", "Signal", "SocketSignal", "Waited")


class HasDescriptor(Protocol):
    """An object that the system can wait for."""

    def fileno(self) -> int:
        """The number of the descriptor."""
        ...


class Waited(Struct, frozen=True):
    """The result of a wait; neither field is set if the time ran out."""

    readable: bool
    signalled: bool


class Signal(Protocol):
    """A signal from another thread. A thread can wait for the signal and a stream together."""

    def set(self) -> None:
        """Set the signal."""
        ...

    def clear(self) -> None:
        """Reset the signal."""
        ...

    def heard_within(self, wait_s: float) -> bool:
        """Wait until the signal is set, or the time runs out; return whether the signal is set."""
        ...

    def heard_beside(self, stream: HasDescriptor, wait_s: float | None) -> Waited:
        """Wait until the signal is set, the stream has bytes or has ended, or the time runs out."""
        ...

    def close(self) -> None:
        """Close the signal. Afterwards no thread may set it or wait for it."""
        ...


class SocketSignal:
    """A signal that is a byte sent over a pair of sockets."""

    def __init__(self) -> None:
        self._heard, self._said = socket.socketpair()
        self._heard.setblocking(False)
        self._said.setblocking(False)

    def set(self) -> None:
        """Set the signal."""
        with contextlib.suppress(BlockingIOError):  # the signal is set often enough
            self._said.send(b"!")

    def clear(self) -> None:
        """Reset the signal."""
        with contextlib.suppress(BlockingIOError):
            while self._heard.recv(64):
                pass

    def heard_within(self, wait_s: float) -> bool:
        """Wait until the signal is set, or the time runs out; return whether the signal is set."""
        poll = select.poll()
        poll.register(self, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))

    def heard_beside(self, stream: HasDescriptor, wait_s: float | None) -> Waited:
        """Wait until the signal is set, the stream has bytes or has ended, or the time runs out."""
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        poll.register(self, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(None if wait_s is None else wait_s * 1000)}
        return Waited(stream.fileno() in ready, self.fileno() in ready)

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._heard.fileno()

    def close(self) -> None:
        """Close the signal. Afterwards no thread may set it or wait for it."""
        self._heard.close()
        self._said.close()
