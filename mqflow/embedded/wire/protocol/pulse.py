"""One pair of heartbeats for many connections of a process: their pulse.

On one machine a connection ends when its process does, and no wire can break for one connection only: whether the peer is alive
is a question for the process, not for each connection. `Pulse` is the application's end, `Pulses` the server's. Knows frames;
knows no verb.
"""

import contextlib
import itertools
import socket
from typing import Final, Protocol

import msgspec

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import FrameError, Frames
from mqflow.embedded.wire.protocol.heartbeat_sender import HeartbeatSender
from mqflow.embedded.wire.protocol.streams import Stream
from mqflow.world import Runner

__all__ = ("OWN_BEATS_MAX", "Dependent", "Pulse", "PulseError", "Pulses")

OWN_BEATS_MAX: Final = 8
"""So many connections of a process beat for themselves: a pulse costs a connection and a thread."""

_BEGIN: Final = requests.Pulse(requests.PROTOCOL_VERSION)


class PulseError(Exception):
    """The other side offers no pulse."""


class Dependent(Protocol):
    """What ends when its pulse does."""

    def end(self) -> None:
        """End it; what is under way is answered still. Twice is once."""
        ...


class Pulse:
    """The heartbeats of a process to a server. Who lives by it is ended when the server is not heard of."""

    def __init__(self, stream: Stream, heartbeats: HeartbeatSender, runner: Runner) -> None:
        self._heartbeats = heartbeats
        self._frames: Final = Frames(stream, silence_s=heartbeats.silence_s)
        self._guard = runner.lock()
        # In the order they came, as everywhere: that of a set would be another in each process.
        self._living: dict[Dependent, None] = {}
        #: Whether it has stopped.
        self.over = False
        #: What the server calls it.
        self.number: Final = self._begun()
        heartbeats.add(self._frames)
        runner.start(self._listen, "mqflow-pulse")

    def add(self, dependent: Dependent) -> bool:
        """Have it end when this does; return False where that has happened."""
        with self._guard:
            if not self.over:
                self._living[dependent] = None
            return not self.over

    def remove(self, dependent: Dependent) -> None:
        """Let it go; with the last one, stop."""
        with self._guard:
            if dependent not in self._living:
                return
            del self._living[dependent]
            last = not self._living
        if last:
            self.stop()

    def stop(self) -> None:
        """End the connection."""
        with self._guard:
            self.over = True
        self._heartbeats.remove(self._frames)
        with contextlib.suppress(OSError):  # it is lost already
            self._frames.socket.shutdown(socket.SHUT_RDWR)

    def _begun(self) -> int:
        try:
            reply = requests.decode_reply(_BEGIN, self._frames.exchange(requests.encode(_BEGIN)))
        except (OSError, FrameError, msgspec.MsgspecError) as error:
            self._frames.socket.close()
            raise PulseError(str(error)) from error
        if reply.failure is not None:
            self._frames.socket.close()
            raise PulseError(reply.failure.detail)
        return int(reply.value or 0)

    def _listen(self) -> None:
        """Hear heartbeats, until none comes any more."""
        with contextlib.suppress(OSError, FrameError):
            self._frames.receive()  # nothing else is ever said
        self.stop()
        self._frames.socket.close()
        with self._guard:
            living, self._living = tuple(self._living), {}
        for dependent in living:
            dependent.end()


class Pulses:
    """Which connections of a server live by which pulse."""

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
        """Have it end when that pulse does; False where there is no such pulse, or no more."""
        with self._guard:
            living = self._living.get(number)
            if living is not None:
                living[dependent] = None
            return living is not None

    def leave(self, number: int, dependent: Dependent) -> None:
        """Let it go."""
        with self._guard:
            self._living.get(number, {}).pop(dependent, None)

    def end(self, number: int) -> None:
        """End all who live by it."""
        with self._guard:
            living = self._living.pop(number, {})
        for dependent in living:
            dependent.end()
