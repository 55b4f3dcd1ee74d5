"""Whole messages over a stream socket: each is four bytes of length and so many bytes.

Knows nothing of what is in them. A length beyond the cap is refused before anything is kept for it.
"""

import socket
from typing import Final

__all__ = ("FRAME_BYTES_MAX", "FrameError", "Frames")

FRAME_BYTES_MAX: Final = 100 * 1024 * 1024 + 1024 * 1024
"""The longest message of MQ, and a megabyte for what stands around it."""

_LENGTH_BYTES: Final = 4
_READ_BYTES: Final = 64 * 1024


class FrameError(Exception):
    """What came is no frame, or what should go is too long for one."""


class Frames:
    """A connected socket, in frames. One thread at a time."""

    def __init__(self, stream: socket.socket) -> None:
        self.socket: Final = stream
        self._received = bytearray()

    def send(self, frame: bytes) -> None:
        """Send it whole. Raises `OSError` where the peer is gone, `FrameError` where it is too long."""
        if len(frame) > FRAME_BYTES_MAX:
            raise FrameError(f"a frame of {len(frame)} bytes is longer than {FRAME_BYTES_MAX}")
        self.socket.sendall(len(frame).to_bytes(_LENGTH_BYTES) + frame)

    def receive(self) -> bytes | None:
        """Return the next frame, or None where the peer ended the stream between two.

        Raises `OSError` where the peer is gone, `FrameError` where it went in the middle or announced too long a frame.
        """
        if not self._read_up_to(_LENGTH_BYTES):
            if self._received:
                raise FrameError("the stream ended within a frame")
            return None
        end = _LENGTH_BYTES + int.from_bytes(self._received[:_LENGTH_BYTES])
        if end > _LENGTH_BYTES + FRAME_BYTES_MAX:
            raise FrameError(f"a frame of {end - _LENGTH_BYTES} bytes was announced; the most is {FRAME_BYTES_MAX}")
        if not self._read_up_to(end):
            raise FrameError("the stream ended within a frame")
        frame = bytes(self._received[_LENGTH_BYTES:end])
        del self._received[:end]
        return frame

    def exchange(self, frame: bytes) -> bytes:
        """Send it and return the frame that answers it. Raises `OSError` or `FrameError` where none does."""
        self.send(frame)
        answer = self.receive()
        if answer is None:
            raise FrameError("the peer ended the connection")
        return answer

    def _read_up_to(self, wanted_bytes: int) -> bool:
        while len(self._received) < wanted_bytes:
            more = self.socket.recv(max(_READ_BYTES, min(wanted_bytes - len(self._received), 16 * _READ_BYTES)))
            if not more:
                return False
            self._received += more
        return True
