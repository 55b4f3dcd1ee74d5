"""Frames over a stream socket. A frame is four bytes with its length, then its content. An empty frame is a heartbeat.

A frame longer than the limit is refused before it takes memory. A peer counts as dead if, for a limited time, it sends nothing
(not even a heartbeat), receives nothing, or sends a frame too slowly. This module does not know the content of frames.
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
from mqflow.embedded.wire.protocol.streams import Stream, TlsStream
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
"""The longest MQ message, plus a megabyte for the other fields of its request."""
SILENCE_S: Final = 4.0
"""A peer counts as dead after this time without bytes from it or to it. A living peer sends a heartbeat each second."""

LENGTH_BYTES: Final = 4
"""The number of bytes in front of each frame that contain its length."""
Frame = bytes | memoryview
"""A received frame. A long frame is a view of the receive buffer, and valid only until the next `receive`."""

_READ_BYTES: Final = 64 * 1024
# The time of the send of a longer frame is noted, because the send can take long.
_QUICK_BYTES: Final = 64 * 1024
# The buffer for a longer frame grows with the arriving bytes: an announced length alone must not take megabytes of memory.
_ROOM_BYTES_MAX: Final = 1024 * 1024
_BEAT: Final = bytes(LENGTH_BYTES)
# The fewest bytes of a frame that must arrive within each time limit. A modem of 1990 sends a hundred times as many.
_PACE_BYTES: Final = 256


class FrameError(Exception):
    """The received bytes are not a frame, or the frame to send is too long."""


class UndecodableError(FrameError):
    """The content of a frame cannot be decoded."""

    def __init__(self, error: Exception, size_bytes: int) -> None:
        super().__init__(f"a frame of {size_bytes} bytes cannot be decoded: {type(error).__name__}: {error!s:.200}")


class SilenceError(FrameError):
    """For too long, the peer has sent nothing or received nothing."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the peer has sent or received nothing for {seconds:g} s")


class TrickleError(SilenceError):
    """The peer sends its frame so slowly, for example byte by byte, that the frame would take hours."""

    def __init__(self, seconds: float) -> None:
        FrameError.__init__(self, f"a frame began, and fewer than {_PACE_BYTES} bytes of it came in {seconds:g} s")


class Frames:
    """Sends and receives frames over a connected socket. One thread receives; any thread can send."""

    def __init__(self, stream: Stream, *, silence_s: float = SILENCE_S, clock: Clock = SYSTEM_CLOCK) -> None:
        self.socket: Final = stream
        self._clock = clock
        self.silence_s: Final = silence_s
        #: The longest frame that `receive` accepts.
        self.bytes_max = FRAME_BYTES_MAX
        self._received = bytearray()
        #: The buffer for long frames. It is kept for the next long frame, because the system must clear new memory.
        self._room = bytearray()
        self._sending = threading.Lock()
        self._unsent = b""
        #: Short frames to send as soon as no other thread is sending.
        self._to_say: deque[bytes] = deque()
        #: True if the peer now waits for heartbeats.
        self.beating = True
        #: True if the peer can stay silent without a limit, because a pulse shows that the peer is alive.
        self.patient: bool = False
        #: The time when the send of a long frame began, or of a frame for which the stream had no room; otherwise None.
        self.slow_since: float | None = None
        # These are methods of the socket itself, to avoid a further call in this class.
        self._first_part: Callable[[int], bytes] = stream.recv
        self._rest: Callable[[int], bytes] = stream.recv
        self._rest_into: Callable[[memoryview], int] = partial(_copied_into, stream)
        # A wait for a plain socket notices every byte. A wait for TLS does not notice bytes that TLS has already read.
        self._hides_bytes = isinstance(stream, TlsStream)
        if isinstance(stream, socket.socket):
            self._first_part, self._rest = SpinReceive(stream.recv).recv, SpinReceive(stream.recv).recv
            self._rest_into = SpinReceive(partial(_received_into, stream)).recv
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            stream.setsockopt(socket.SOL_SOCKET, option, time_limit(silence_s))

    def have_patience(self) -> None:
        """From now on, wait for the peer without a time limit."""
        self.patient = True
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, time_limit(0))

    def send(self, frame: bytes) -> None:
        """Send the whole frame. Raises `OSError` if the peer is gone, `FrameError` if the frame is too long or not received."""
        if len(frame) > FRAME_BYTES_MAX:
            raise FrameError(f"a frame of {len(frame)} bytes is longer than {FRAME_BYTES_MAX}")
        self.send_made(made(frame))

    def send_made(self, whole: bytes | bytearray) -> None:
        """Send a frame that `made` has returned. Raises the errors of `send`."""
        with self._sending:
            if self._unsent:  # the rest of an earlier frame
                whole, self._unsent = self._unsent + whole, b""
            sent = self._sent(whole) if len(whole) <= _QUICK_BYTES else 0
            if sent < len(whole):
                self._send_rest(memoryview(whole)[sent:])
        if self._to_say:
            self._say()

    def send_filled(self, whole: bytearray) -> None:
        """Write the length of the frame into the first bytes of this buffer, then send it. Raises the errors of `send`."""
        frame_bytes = len(whole) - LENGTH_BYTES
        if frame_bytes > FRAME_BYTES_MAX:
            raise FrameError(f"a frame of {frame_bytes} bytes is longer than {FRAME_BYTES_MAX}")
        whole[:LENGTH_BYTES] = frame_bytes.to_bytes(LENGTH_BYTES)
        self.send_made(whole)

    def send_at_once(self, frame: bytes) -> bool:
        """Send as many bytes as possible without waiting. Return whether all are sent; if not, `send_made(b"")` sends the rest.

        Raises `FrameError` if the frame is too long.
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
        """Send a heartbeat, unless another thread is sending or the peer receives nothing. Never blocks and never raises."""
        if not self.beating or not self._sending.acquire(blocking=False):
            return
        try:
            self._send_now(self._unsent or _BEAT)
        finally:
            self._sending.release()
        self._say()

    def let_go(self) -> None:
        """Free the buffer for long frames, because the next frame is not expected soon."""
        self._room = bytearray()

    def receive(self) -> Frame | None:
        """Return the next frame, or None if the peer ended the stream between two frames. Skips heartbeats.

        Raises `OSError` if the peer is gone. Raises `FrameError` if the peer ended the stream inside a frame, announced too
        long a frame, or sent nothing for too long.
        """
        while True:
            frame = self._next() if self._received else self._first()
            if frame != b"":
                return frame

    def exchange(self, frame: bytes) -> Frame:
        """Send the frame, and return the frame with the reply. Raises `OSError` or `FrameError` if no reply arrives."""
        self.send(frame)
        return self.answer()

    def exchange_made(self, whole: bytes) -> Frame:
        """Send a frame that `made` has returned, and return the reply. Raises the errors of `exchange`."""
        self.send_made(whole)
        return self.answer()

    def answer(self) -> Frame:
        """Return the next frame. Raises `OSError` or `FrameError` if no frame arrives."""
        answer = self.receive()
        if answer is None:
            raise FrameError("the peer ended the connection")
        return answer

    def say(self, frame: bytes) -> None:
        """Send a short frame without a reply, now or after the frame that another thread is sending. Never blocks or raises.

        If the peer does not receive the frame, the thread that receives from this socket notices it.
        """
        self._to_say.append(made(frame))
        self._say()

    @property
    def has_more(self) -> bool:
        """True if bytes have arrived together with the last frame, or, over TLS, can have arrived."""
        return bool(self._received) or self._hides_bytes

    def heard(self) -> bytes | None:
        """Return the next frame if it has already arrived, otherwise None. Skips heartbeats, and does not wait.

        Raises `OSError` or `FrameError` if the peer is gone, or if it announced too long a frame.
        """
        while (frame := self._whole()) is None:
            try:
                more = self.socket.recv(_READ_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            if not more:
                raise FrameError("the peer went away")
            self._received += more
            if not self._hides_bytes:  # one call only: a peer that sends heartbeats without a pause must not hold this thread
                return self._whole()
        return frame

    def _say(self) -> None:
        """Send the waiting short frames. If another thread is sending, that thread sends them afterwards."""
        while self._to_say and self._sending.acquire(blocking=False):
            try:
                self._send_now(self._unsent + b"".join(self._to_say.popleft() for _ in range(len(self._to_say))))
            finally:
                self._sending.release()

    def _whole(self) -> bytes | None:
        """Return the next frame if all its bytes have arrived, otherwise None. Skips heartbeats."""
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
        """Return the next frame, of which no byte has been read yet. Most frames arrive whole and alone."""
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
        if not self._read_up_to(LENGTH_BYTES, self.silence_s / 2):  # a peer sends the length in one call
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
        """Return a long frame of which a part has arrived. Receive the rest directly into the buffer for long frames."""
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
        """Return whether `wanted_bytes` arrive before the stream ends. Raises `TrickleError` if they arrive too slowly."""
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
        """Send as many bytes as possible without waiting. The next send begins with the rest. The caller holds `_sending`."""
        self._unsent = data
        with contextlib.suppress(OSError):  # the thread that receives from this socket notices the error
            self._unsent = data[self.socket.send(data, socket.MSG_DONTWAIT) :]

    def _sent(self, data: bytes | bytearray | memoryview) -> int:
        try:
            return self.socket.send(data)
        except BlockingIOError:
            raise SilenceError(self.silence_s) from None

    def _send_rest(self, rest: memoryview) -> None:
        self.slow_since = self._clock.monotonic()
        while rest:
            rest = rest[self._sent(rest) :]
        self.slow_since = None


class _Pace:
    """Checks the speed of a frame: at least `_PACE_BYTES` of it must arrive in each period of `seconds`."""

    __slots__ = ("_clock", "_had_bytes", "_seconds", "_since")

    def __init__(self, clock: Clock, seconds: float, had_bytes: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._since = clock.monotonic()
        self._had_bytes = had_bytes

    def check(self, has_bytes: int, wanted_bytes: int) -> None:
        """Raise `TrickleError` if the frame arrives too slowly."""
        now = self._clock.monotonic()
        if now - self._since < self._seconds:
            return
        if has_bytes < min(self._had_bytes + _PACE_BYTES, wanted_bytes):
            raise TrickleError(self._seconds)
        self._since, self._had_bytes = now, has_bytes


def _received_into(stream: socket.socket, room: memoryview, flags: int) -> int:
    return stream.recv_into(room, 0, flags)


def _copied_into(stream: Stream, room: memoryview) -> int:
    """Receive into the buffer from a stream that can only return bytes."""
    data = stream.recv(len(room))
    room[: len(data)] = data
    return len(data)


def made(frame: bytes) -> bytes:
    """Return the frame with its length in front, for `send_made`."""
    return len(frame).to_bytes(LENGTH_BYTES) + frame


def time_limit(seconds: float) -> bytes:
    """Return the seconds in the format of SO_RCVTIMEO and SO_SNDTIMEO; 0 means no limit."""
    return struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
