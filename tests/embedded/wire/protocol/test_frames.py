"""Frames arrive as they were sent: at any length, in any pieces, with any other frames."""

import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqflow.embedded.wire.protocol import frames as frames_module
from mqflow.embedded.wire.protocol.frames import _ROOM_BYTES_MAX, LENGTH_BYTES, FrameError, Frames, made
from mqflow.embedded.wire.protocol.streams import Stream

_BEAT = bytes(LENGTH_BYTES)
_EDGE = 64 * 1024
"""The length, in bytes, from which a frame is long."""


# No buffer length is a multiple of this length, so displaced bytes differ.
_ALPHABET = bytes(range(1, 252))


class _Pieces:
    """A stream that gives these pieces and then ends."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = deque(pieces)

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        del flags
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        if len(piece) > bufsize:
            self._pieces.appendleft(piece[bufsize:])
        return piece[:bufsize]

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None:
        del level, option, value


def _frames(lengths: Sequence[int]) -> list[bytes]:
    return [(_ALPHABET * (length // len(_ALPHABET) + 2))[number:][:length] for number, length in enumerate(lengths)]


def _cut(data: bytes, lengths: Sequence[int]) -> list[bytes]:
    """Return the data in pieces of these lengths, which are repeated."""
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        length = lengths[len(pieces) % len(lengths)]
        pieces.append(data[at : at + length])
        at += length
    return pieces


def _send(frames: Frames, sent: Sequence[bytes]) -> None:
    for frame in sent:
        frames.send(frame)


_LENGTHS = st.lists(
    st.one_of(st.integers(1, 600), st.integers(_EDGE - 8, _EDGE + 8), st.integers(_EDGE, 300_000)), min_size=1, max_size=6
)


@given(_LENGTHS, st.lists(st.integers(1, 200_000), min_size=1, max_size=5), st.integers(0, 3))
@example([_EDGE - LENGTH_BYTES, _EDGE - LENGTH_BYTES + 1], [3, _EDGE], 0)
@example([_ROOM_BYTES_MAX - LENGTH_BYTES, _ROOM_BYTES_MAX - LENGTH_BYTES + 1, 1], [100_000], 1)
@example([130_000, 129_000, 140_000, 2], [200_000], 0)
def test_the_received_frames_equal_the_sent_frames(lengths: list[int], pieces: list[int], beats: int) -> None:
    sent = _frames(lengths)
    stream = b"".join(made(frame) + _BEAT * beats for frame in sent)
    least = max(1, len(stream) // 500)  # it need not take long
    frames = Frames(cast("Stream", _Pieces(_cut(stream, [max(each, least) for each in pieces]))))

    for frame in sent:
        assert frame == frames.receive()
    assert frames.receive() is None


@pytest.mark.parametrize("lengths", [[1, 100_000, 2, 3, 200_000, 90_000, 2_000_000, 5, 70_000]])
def test_a_socket_gives_them_as_they_were_sent(lengths: list[int]) -> None:
    one, other = socket.socketpair()
    sent = _frames(lengths) * 4
    with one, other:
        sender = threading.Thread(target=_send, args=(Frames(one), sent))
        sender.start()
        frames = Frames(other)

        for frame in sent:
            assert frame == frames.receive()
        sender.join()


@pytest.mark.parametrize("came", [1, 5, 60_000, 99_999])
def test_an_end_within_a_long_frame_raises_an_error(came: int) -> None:
    frames = Frames(cast("Stream", _Pieces([made(bytes(100_000))[:came]])))

    with pytest.raises(FrameError, match="ended within a frame"):
        frames.receive()


def test_a_filled_buffer_is_sent_as_a_frame() -> None:
    one, other = socket.socketpair()
    with one, other:
        whole, frames = bytearray(LENGTH_BYTES), Frames(other)
        for frame in (b"first", b"a second one", b"3"):
            whole[LENGTH_BYTES:] = frame
            Frames(one).send_filled(whole)

            assert frame == frames.receive()


def test_memory_for_long_frames_is_kept_until_it_is_let_go() -> None:
    long = made(bytes(100_000))
    frames = Frames(cast("Stream", _Pieces([piece for _ in range(3) for piece in (long[:50_000], long[50_000:])])))
    frames.receive()
    first = frames._room
    frames.receive()
    kept = frames._room
    frames.let_go()
    let_go = len(frames._room)
    frames.receive()

    assert kept is first
    assert 0 == let_go
    assert frames._room is not first


def test_an_announced_length_alone_takes_no_megabytes() -> None:
    frames = Frames(cast("Stream", _Pieces([made(bytes(_ROOM_BYTES_MAX))[:1_000]])))

    with pytest.raises(FrameError):
        frames.receive()
    assert len(frames._room) + len(frames._received) < _EDGE


LIMIT = 70_000
"""A limit beyond the shortest long frame."""


@pytest.mark.parametrize("first", [3, LENGTH_BYTES, 100, 66_000], ids=lambda came: f"{came} bytes come first")
@pytest.mark.parametrize("limit", [1_000, LIMIT])
def test_a_frame_of_exactly_the_limit_is_received_and_one_byte_more_is_refused(limit: int, first: int) -> None:
    for more, refused in ((0, False), (1, True)):
        whole = made(bytes([1]) * (limit + more))
        frames = Frames(cast("Stream", _Pieces([whole[: min(first, limit)], whole[min(first, limit) :]])))
        frames.bytes_max = limit

        if refused:
            with pytest.raises(FrameError, match=f"a frame of {limit + 1} bytes was announced; the most is {limit}"):
                frames.receive()
        else:
            assert whole[LENGTH_BYTES:] == frames.receive()


def _filled(frames: Frames, frame: bytes) -> None:
    frames.send_filled(bytearray(LENGTH_BYTES) + frame)


@pytest.mark.parametrize("send", [Frames.send, Frames.send_at_once, _filled], ids=["send", "send_at_once", "send_filled"])
def test_a_frame_of_exactly_the_limit_is_sent_and_one_byte_more_is_refused(
    send: Callable[[Frames, bytes], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames_module, "FRAME_BYTES_MAX", 1_000)
    one, other = socket.socketpair()
    with one, other:
        sender, receiver = Frames(one), Frames(other)

        send(sender, b"x" * 1_000)
        with pytest.raises(FrameError, match="a frame of 1001 bytes is longer than 1000"):
            send(sender, b"x" * 1_001)
        send(sender, b"the next")

        assert [b"x" * 1_000, b"the next"] == [receiver.receive(), receiver.receive()]
