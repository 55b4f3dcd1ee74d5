"""Whole messages over a stream socket: each is four bytes of length and so many bytes. An empty one is a heartbeat.

Knows nothing of what is in them. A length beyond the cap is refused before anything is kept for it; a peer that says nothing,
not even a heartbeat, that takes nothing off, or that has begun a frame and goes on by single bytes, is given up after a bounded
time.
"""

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from mqflow.embedded.wire.protocol.spin_receive import SpinReceive
from mqflow.embedded.wire.protocol.streams import Stream
from mqflow.world import SYSTEM_CLOCK, Clock

__all__ = (
    "FRAME_BYTES_MAX",
    "LENGTH_BYTES",
    "SILENCE_S",
    "Frame",
    "FrameError",
    "Frames",
    "SilenceError",
    "TrickleError",
    "made",
    "time_limit",
)

FRAME_BYTES_MAX: Final = 100 * 1024 * 1024 + 1024 * 1024
"""The longest message of MQ, and a megabyte for what stands around it."""
SILENCE_S: Final = 4.0
"""How long a peer may say nothing, or take nothing off, before it counts as dead. It beats once a second."""

LENGTH_BYTES: Final = 4
"""What stands before a frame: how long it is."""
Frame = bytes | memoryview
"""What was received. A long frame is seen where it came, and is another's there from the next `receive` on."""

_READ_BYTES: Final = 64 * 1024
# What is longer is gathered as it comes: nobody makes room for megabytes by saying that they will come.
_ROOM_BYTES_MAX: Final = 1024 * 1024
_BEAT: Final = bytes(LENGTH_BYTES)
# What has to come of a frame in each silence. A modem of 1990 sends a hundred times as much.
_PACE_BYTES: Final = 256


class FrameError(Exception):
    """What came is no frame, or what should go is too long for one."""


class SilenceError(FrameError):
    """The peer is there, or not: it has said nothing, or taken nothing off, for too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the peer has not been heard of for {seconds:g} s")


class TrickleError(SilenceError):
    """The peer is there, and what it sends comes by single bytes: an answer would take hours."""

    def __init__(self, seconds: float) -> None:
        FrameError.__init__(self, f"a frame has begun, and fewer than {_PACE_BYTES} bytes of it came in {seconds:g} s")


class Frames:
    """A connected socket, in frames. One thread receives, any thread sends."""

    def __init__(self, stream: Stream, *, silence_s: float = SILENCE_S, clock: Clock = SYSTEM_CLOCK) -> None:
        self.socket: Final = stream
        self._clock = clock
        self.silence_s: Final = silence_s
        #: The longest frame that is taken.
        self.bytes_max = FRAME_BYTES_MAX
        self._received = bytearray()
        #: Where long frames come, one after the other: what is made anew for each is memory that the system has to clear first.
        self._room = bytearray()
        self._sending = threading.Lock()
        self._unsent = b""
        #: What is to be said as soon as nobody else is sending.
        self._to_say: deque[bytes] = deque()
        #: Whether the peer listens for heartbeats now.
        self.beating = True
        #: Whether the peer may say nothing for ever, because a pulse says that it is alive.
        self.patient = False
        # By the socket itself, which costs no call more than without.
        self._first_part: Callable[[int], bytes] = stream.recv
        self._rest: Callable[[int], bytes] = stream.recv
        self._rest_into: Callable[[memoryview], int] = partial(_copied_into, stream)
        if isinstance(stream, socket.socket):
            self._first_part, self._rest = SpinReceive(stream.recv).recv, SpinReceive(stream.recv).recv
            self._rest_into = SpinReceive(partial(_received_into, stream)).recv
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            stream.setsockopt(socket.SOL_SOCKET, option, time_limit(silence_s))

    def have_patience(self) -> None:
        """Wait for the peer for ever, from now on."""
        self.patient = True
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, time_limit(0))

    def send(self, frame: bytes) -> None:
        """Send it whole. Raises `OSError` where the peer is gone, `FrameError` where it is too long or not taken off."""
        if len(frame) > FRAME_BYTES_MAX:
            raise FrameError(f"a frame of {len(frame)} bytes is longer than {FRAME_BYTES_MAX}")
        self.send_made(made(frame))

    def send_made(self, whole: bytes | bytearray) -> None:
        """Send what `made` returned. Raises what `send` does."""
        with self._sending:
            if self._unsent:  # the half of a heartbeat
                whole, self._unsent = self._unsent + whole, b""
            sent = self._sent(whole)
            if sent < len(whole):
                self._send_rest(memoryview(whole)[sent:])
        if self._to_say:
            self._say()

    def send_filled(self, whole: bytearray) -> None:
        """Send the frame that stands in there behind `LENGTH_BYTES`, which are filled in. Raises what `send` does."""
        frame_bytes = len(whole) - LENGTH_BYTES
        if frame_bytes > FRAME_BYTES_MAX:
            raise FrameError(f"a frame of {frame_bytes} bytes is longer than {FRAME_BYTES_MAX}")
        whole[:LENGTH_BYTES] = frame_bytes.to_bytes(LENGTH_BYTES)
        self.send_made(whole)

    def send_at_once(self, frame: bytes) -> bool:
        """Send what goes without waiting; return whether that is all. If not, `send_made` of nothing sends the rest.

        Raises `FrameError` where it is too long.
        """
        if len(frame) > FRAME_BYTES_MAX:
            raise FrameError(f"a frame of {len(frame)} bytes is longer than {FRAME_BYTES_MAX}")
        with self._sending:
            self._send_now(self._unsent + made(frame))
            whole = not self._unsent
        if self._to_say:
            self._say()
        return whole

    def beat(self) -> None:
        """Send a heartbeat, unless something is being sent anyway or nothing is taken off. Never blocks, never raises."""
        if not self.beating or not self._sending.acquire(blocking=False):
            return
        try:
            self._send_now(self._unsent or _BEAT)
        finally:
            self._sending.release()
        self._say()

    def let_go(self) -> None:
        """Keep no memory for long frames: the next is not expected soon."""
        self._room = bytearray()

    def receive(self) -> Frame | None:
        """Return the next frame, or None where the peer ended the stream between two. Heartbeats are skipped.

        Raises `OSError` where the peer is gone, `FrameError` where it went in the middle, announced too long a frame, or was
        not heard of.
        """
        while True:
            frame = self._next() if self._received else self._first()
            if frame != b"":
                return frame

    def exchange(self, frame: bytes) -> Frame:
        """Send it and return the frame that answers it. Raises `OSError` or `FrameError` where none does."""
        self.send(frame)
        return self.answer()

    def exchange_made(self, whole: bytes) -> Frame:
        """Send what `made` returned and return the frame that answers it. Raises what `exchange` does."""
        self.send_made(whole)
        return self.answer()

    def answer(self) -> Frame:
        """Return the next frame, which must come. Raises `OSError` or `FrameError` where none does."""
        answer = self.receive()
        if answer is None:
            raise FrameError("the peer ended the connection")
        return answer

    def say(self, frame: bytes) -> None:
        """Send a short frame that nobody waits for an answer to, now or after what is being sent. Never blocks or raises.

        Whoever listens notices if it did not go: the peer takes nothing off.
        """
        self._to_say.append(made(frame))
        self._say()

    @property
    def has_more(self) -> bool:
        """Whether something came together with the last frame."""
        return bool(self._received)

    def heard(self) -> bytes | None:
        """Return a frame that is there, without waiting; heartbeats are skipped.

        Raises `OSError` or `FrameError` where the peer is gone, or announced too long a frame.
        """
        frame = self._whole()
        if frame is not None:
            return frame
        try:
            more = self.socket.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        if not more:
            raise FrameError("the peer went away")
        self._received += more
        return self._whole()

    def _say(self) -> None:
        """Send what is to be said. Whoever sends meanwhile does it afterwards: it looks once it has let go of the lock."""
        while self._to_say and self._sending.acquire(blocking=False):
            try:
                self._send_now(self._unsent + b"".join(self._to_say.popleft() for _ in range(len(self._to_say))))
            finally:
                self._sending.release()

    def _whole(self) -> bytes | None:
        """Return the next frame of what was received, where it is there whole; heartbeats are skipped."""
        while len(self._received) >= LENGTH_BYTES:
            end = self._end_of_frame()
            if len(self._received) < end:
                return None
            frame = bytes(self._received[LENGTH_BYTES:end])
            del self._received[:end]
            if frame:
                return frame
        return None

    def _first(self) -> Frame | None:
        """Return the next frame where nothing of it is there yet: mostly it comes whole, and alone."""
        try:
            data = self._first_part(_READ_BYTES)
        except BlockingIOError:
            raise SilenceError(self.silence_s) from None
        if int.from_bytes(data[:LENGTH_BYTES]) == len(data) - LENGTH_BYTES:
            return data[LENGTH_BYTES:]
        if not data:
            return None
        self._received += data
        return self._next()

    def _next(self) -> Frame | None:
        if not self._read_up_to(LENGTH_BYTES, self.silence_s / 2):  # sent by one call, and at once
            if self._received:
                raise FrameError("the stream ended within a frame")
            return None
        end = self._end_of_frame()
        if len(self._received) < end and _READ_BYTES < end <= _ROOM_BYTES_MAX:
            return self._long(end)
        if not self._read_up_to(end, self.silence_s):
            raise FrameError("the stream ended within a frame")
        with memoryview(self._received) as received:
            frame = bytes(received[LENGTH_BYTES:end])
        del self._received[:end]
        return frame

    def _long(self, end: int) -> memoryview:
        """Return the next frame, of which only a part was received. It comes where it stays."""
        if len(self._room) < end:
            self._room = bytearray(-(-end // _READ_BYTES) * _READ_BYTES)
        whole = memoryview(self._room)[:end]
        here = len(self._received)
        whole[:here] = self._received
        self._received.clear()
        pace = _Pace(self._clock, self.silence_s, here)
        while here < end:
            try:
                more = self._rest_into(whole[here:])
            except BlockingIOError:
                raise SilenceError(self.silence_s) from None
            if not more:
                raise FrameError("the stream ended within a frame")
            here += more
            pace.check(here, end)
        return whole[LENGTH_BYTES:]

    def _end_of_frame(self) -> int:
        end = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES])
        if end > LENGTH_BYTES + self.bytes_max:
            raise FrameError(f"a frame of {end - LENGTH_BYTES} bytes was announced; the most is {self.bytes_max}")
        return end

    def _read_up_to(self, wanted_bytes: int, pace_s: float) -> bool:
        """Return whether so much has come before the stream ended. A frame that has begun gets on in each `pace_s`."""
        if len(self._received) >= wanted_bytes:
            return True
        pace = _Pace(self._clock, pace_s, len(self._received))
        while (missing := wanted_bytes - len(self._received)) > 0:
            more = self._more(max(_READ_BYTES, min(missing, 16 * _READ_BYTES)))
            if not more:
                return False
            self._received += more
            pace.check(len(self._received), wanted_bytes)
        return True

    def _more(self, most: int) -> bytes:
        try:
            return self._rest(most)
        except BlockingIOError:
            raise SilenceError(self.silence_s) from None

    def _send_now(self, data: bytes) -> None:
        """Send what goes without waiting; the rest goes first next time. Called with the lock held."""
        self._unsent = data
        with contextlib.suppress(OSError):  # whoever listens to this socket will notice
            self._unsent = data[self.socket.send(data, socket.MSG_DONTWAIT) :]

    def _sent(self, data: bytes | bytearray | memoryview) -> int:
        try:
            return self.socket.send(data)
        except BlockingIOError:
            raise SilenceError(self.silence_s) from None

    def _send_rest(self, rest: memoryview) -> None:
        while rest:
            rest = rest[self._sent(rest) :]


class _Pace:
    """Of a frame that has begun: so much comes of it in each so many seconds."""

    __slots__ = ("_clock", "_had_bytes", "_seconds", "_since")

    def __init__(self, clock: Clock, seconds: float, had_bytes: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._since = clock.monotonic()
        self._had_bytes = had_bytes

    def check(self, has_bytes: int, wanted_bytes: int) -> None:
        """Raise `TrickleError` where it does not get on."""
        now = self._clock.monotonic()
        if now - self._since < self._seconds:
            return
        if has_bytes < min(self._had_bytes + _PACE_BYTES, wanted_bytes):
            raise TrickleError(self._seconds)
        self._since, self._had_bytes = now, has_bytes


def _received_into(stream: socket.socket, room: memoryview, flags: int) -> int:
    return stream.recv_into(room, 0, flags)


def _copied_into(stream: Stream, room: memoryview) -> int:
    """As `_received_into`, of a stream that gives bytes only."""
    data = stream.recv(len(room))
    room[: len(data)] = data
    return len(data)


def made(frame: bytes) -> bytes:
    """Return the frame with its length before it, as it is sent."""
    return len(frame).to_bytes(LENGTH_BYTES) + frame


def time_limit(seconds: float) -> bytes:
    """Return the seconds as a socket takes them (SO_RCVTIMEO, SO_SNDTIMEO); 0 is for ever."""
    return struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
