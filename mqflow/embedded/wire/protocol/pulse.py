"""A pulse: one connection that sends and receives the heartbeats for many connections of a process.

On one machine a connection ends with its process, and no network fault can break a single connection. So one check of the
process is enough for all its connections. `PulseSender` is the application's end; `Pulses` is the server's end. This module
knows frames, but no verb.
"""

import contextlib
import itertools
import socket
from typing import Final, Protocol

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import FrameError, Frames
from mqflow.embedded.wire.protocol.heartbeat_sender import HeartbeatSender
from mqflow.embedded.wire.protocol.streams import Stream
from mqflow.world import Runner

__all__ = ("OWN_BEATS_MAX", "Dependent", "PulseError", "PulseSender", "Pulses")

OWN_BEATS_MAX: Final = 8
"""The most connections of a process that send their own heartbeats. Further connections share a pulse."""

_BEGIN: Final = requests.Pulse(requests.PROTOCOL_VERSION)


class PulseError(Exception):
    """The server does not offer a pulse."""


class Dependent(Protocol):
    """A connection that depends on a pulse and ends with it."""

    def end(self) -> None:
        """End the connection. The present call still gets its reply. A second call of `end` does nothing."""


class PulseSender:
    """Sends a process's heartbeats to a server. If the server sends nothing for too long, the pulse ends its connections."""

    def __init__(self, stream: Stream, heartbeats: HeartbeatSender, runner: Runner) -> None:
        self._heartbeats = heartbeats
        self._frames: Final = Frames(stream, silence_s=heartbeats.silence_s)
        self._guard = runner.lock()
        # In the order of `add`, because the order of a set differs in each process.
        self._living: dict[Dependent, None] = {}
        #: True if the pulse has stopped.
        self.over: bool = False
        #: The number that the server gave to this pulse.
        self.number: Final = self._begun()
        heartbeats.add(self._frames)
        runner.start(self._listen, "mqflow-pulse")

    def add(self, dependent: Dependent) -> bool:
        """End this connection when the pulse stops. Return False if the pulse has already stopped."""
        with self._guard:
            if not self.over:
                self._living[dependent] = None
            return not self.over

    def remove(self, dependent: Dependent) -> None:
        """Forget the connection. If it was the last one, stop the pulse."""
        with self._guard:
            if dependent not in self._living:
                return
            del self._living[dependent]
            last = not self._living
            self.over = self.over or last  # from now on, `add` takes no connection
        if last:
            self.stop()

    def stop(self) -> None:
        """End the connection of the pulse."""
        with self._guard:
            self.over = True
        self._heartbeats.remove(self._frames)
        with contextlib.suppress(OSError):  # the socket is already lost
            self._frames.socket.shutdown(socket.SHUT_RDWR)

    def _begun(self) -> int:
        try:
            reply = requests.decode_reply(_BEGIN, self._frames.exchange(requests.encode(_BEGIN)))
        except (OSError, FrameError) as error:
            self._frames.socket.close()
            raise PulseError(str(error)) from error
        if reply.failure is not None:
            self._frames.socket.close()
            raise PulseError(reply.failure.detail)
        return int(reply.value or 0)

    def _listen(self) -> None:
        """Receive heartbeats until they stop. Then end the connections."""
        with contextlib.suppress(OSError, FrameError):
            self._frames.receive()  # only heartbeats arrive
        self.stop()
        self._frames.socket.close()
        with self._guard:
            living, self._living = tuple(self._living), {}
        for dependent in living:
            dependent.end()


class Pulses:
    """The connections of a server, by the pulse on which they depend."""

    def __init__(self, runner: Runner) -> None:
        self._guard = runner.lock()
        self._numbers = itertools.count(1)
        self._living: dict[int, dict[Dependent, None]] = {}

    def begin(self) -> int:
        """Return the number of a new pulse."""
        with self._guard:
            number = next(self._numbers)
            self._living[number] = {}
        return number

    def join(self, number: int, dependent: Dependent) -> bool:
        """End the connection when the pulse stops. Return False if the pulse has already stopped."""
        with self._guard:
            living = self._living.get(number)
            if living is not None:
                living[dependent] = None
            return living is not None

    def leave(self, number: int, dependent: Dependent) -> None:
        """Forget the connection."""
        with self._guard:
            self._living.get(number, {}).pop(dependent, None)

    def end(self, number: int) -> None:
        """End all connections that depend on the pulse."""
        with self._guard:
            living = self._living.pop(number, {})
        for dependent in living:
            dependent.end()
