"""Frames that a socket takes in parts, heartbeats and short frames between them, and what arrives without a wait."""

import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mqflow.embedded.wire.protocol.frames import (
    FrameError,
    Frames,
    SilenceError,
    TrickleError,
    UndecodableError,
    made,
    time_limit,
)
from tests.conformance.under_test import ManualClock

BEAT = bytes(4)
WAITS = -1


class Stream:
    """Takes so many bytes of each send, and gives the pieces in turn. WAITS and None stand for a call that would block."""

    def __init__(self, takes: Sequence[int] = (), gives: Sequence[bytes | OSError | None] = (), step_s: float = 0.0) -> None:
        self.takes, self.gives = list(takes), list(gives)
        self.clock, self.step_s = ManualClock(), step_s
        self.sent: list[tuple[bytes, int]] = []
        self.asked: list[tuple[int, int]] = []
        self.options: list[tuple[int, int | bytes]] = []

    def send(self, data: Any, flags: int = 0, /) -> int:
        taken = self.takes.pop(0) if self.takes else len(data)
        if taken == WAITS:
            raise BlockingIOError
        self.sent.append((bytes(data[:taken]), flags))
        return min(taken, len(data))

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        self.asked.append((bufsize, flags))
        self.clock.advance(self.step_s)
        given = self.gives.pop(0) if self.gives else b""
        if given is None:
            raise BlockingIOError
        if isinstance(given, OSError):
            raise given
        if len(given) > bufsize:
            self.gives.insert(0, given[bufsize:])
        return given[:bufsize]

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None:
        assert level == socket.SOL_SOCKET
        self.options.append((option, value))

    @property
    def bytes_sent(self) -> bytes:
        return b"".join(data for data, _ in self.sent)


def frames(stream: Stream, **options: Any) -> Frames:
    given: Any = stream
    return Frames(given, clock=stream.clock, **options)


def raised(call: Callable[[], object]) -> str:
    with pytest.raises(FrameError) as error:
        call()
    return f"{type(error.value).__name__}: {error.value}"


NOW = socket.MSG_DONTWAIT


def test_both_directions_have_the_limit_of_silence_until_a_pulse_stands_for_the_peer() -> None:
    stream = Stream()
    patient = frames(stream, silence_s=2.5)
    assert (2.5, False, True, False) == (patient.silence_s, patient.patient, patient.beating, patient.has_more)
    patient.have_patience()

    limit = struct.pack("ll", 2, 500_000)
    assert [
        (socket.SO_RCVTIMEO, limit), (socket.SO_SNDTIMEO, limit), (socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
    ] == stream.options  # fmt: skip
    assert (True, limit) == (patient.patient, time_limit(2.5))


def test_a_frame_that_the_socket_takes_in_parts_is_sent_whole() -> None:
    stream = Stream(takes=[3, 5])

    frames(stream).send(b"0123456789")

    assert [(made(b"0123456789")[:3], 0), (made(b"0123456789")[3:8], 0), (b"456789", 0)] == stream.sent


@pytest.mark.parametrize("takes", [[WAITS], [3, WAITS]])
def test_a_peer_that_receives_nothing_is_silent(takes: list[int]) -> None:
    assert "SilenceError: the peer has sent or received nothing for 4 s" == raised(
        lambda: frames(Stream(takes=takes)).send(b"0123456789")
    )


@pytest.mark.parametrize("takes", [[WAITS], [0], [6]])
def test_what_a_socket_does_not_take_at_once_goes_before_the_next_frame(takes: list[int]) -> None:
    stream = Stream(takes=takes)
    sender = frames(stream)

    assert not sender.send_at_once(b"first")
    assert made(b"first")[: max(takes[0], 0)] == stream.bytes_sent
    sender.send(b"second")
    assert made(b"first") + made(b"second") == stream.bytes_sent
    assert sender.send_at_once(b"third")
    assert (made(b"third"), NOW) == stream.sent[-1]


def test_the_rest_of_a_frame_can_be_sent_without_another() -> None:
    stream = Stream(takes=[2, 3])
    sender = frames(stream)

    assert [False, False] == [sender.send_at_once(b"first"), sender.send_at_once(b"second")]
    sender.send_made(b"")
    sender.send_made(b"")

    assert made(b"first") + made(b"second") == stream.bytes_sent


def test_a_heartbeat_is_four_nulls_or_the_rest_of_a_frame() -> None:
    stream = Stream(takes=[4, 6])
    sender = frames(stream)
    sender.beat()
    sender.send_at_once(b"first")
    sender.beat()
    sender.beat()

    assert [BEAT, made(b"first")[:6], made(b"first")[6:], BEAT] == [data for data, _ in stream.sent]
    assert {NOW} == {flags for _, flags in stream.sent}


def test_a_peer_that_does_not_wait_for_heartbeats_gets_none() -> None:
    stream = Stream()
    sender = frames(stream)
    sender.beating = False
    sender.beat()
    assert b"" == stream.bytes_sent

    sender.beating = True
    sender.beat()
    assert BEAT == stream.bytes_sent


class Busy(Stream):
    """A stream that lets the test act in the middle of a send, as another thread would."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.act: Callable[[], object] | None = act

    def send(self, data: Any, flags: int = 0, /) -> int:
        act, self.act = self.act, None
        if act is not None:
            act()
        return super().send(data, flags)


@pytest.mark.parametrize(
    "send", [lambda each: each.send(b"frame"), lambda each: each.send_at_once(b"frame"), lambda each: each.beat()]
)
def test_a_short_frame_follows_the_frame_that_another_thread_sends(send: Callable[[Frames], object]) -> None:
    def act() -> None:
        sender.say(b"one")
        sender.say(b"two")
        sender.beat()

    stream = Busy(act)
    sender = frames(stream)

    send(sender)
    sender.say(b"three")

    data = [data for data, _ in stream.sent]
    assert [made(b"one") + made(b"two"), made(b"three")] == data[1:]
    assert data[0] in {made(b"frame"), BEAT}


def test_a_short_frame_to_a_peer_that_is_gone_raises_nothing() -> None:
    def gone() -> None:
        raise BrokenPipeError

    frames(Busy(gone)).say(b"one")


def received(stream: Stream) -> list[object]:
    receiver, found = frames(stream), list[object]()
    while (frame := receiver.receive()) is not None:
        found.append(bytes(frame))
    return found


ONE, TWO = made(b"one"), made(b"two")


@pytest.mark.parametrize(
    "gives",
    [
        [ONE, TWO], [ONE + TWO], [BEAT, ONE, BEAT + BEAT, TWO, BEAT], [ONE + BEAT, TWO], [ONE + TWO[:1], TWO[1:]],
        [ONE[:3], ONE[3:5], ONE[5:] + BEAT + TWO], [ONE + BEAT + TWO + BEAT], [BEAT[:2], BEAT[2:] + ONE, TWO],
    ],
)  # fmt: skip
def test_frames_come_without_the_heartbeats_between_them(gives: list[bytes]) -> None:
    assert [b"one", b"two"] == received(Stream(gives=gives))


@pytest.mark.parametrize("gives", [[ONE[:2]], [ONE[:4]], [ONE[:6]], [ONE[:4], ONE[4:6]]])
def test_a_stream_that_ends_within_a_frame_is_an_error(gives: list[bytes]) -> None:
    assert "FrameError: the stream ended within a frame" == raised(lambda: received(Stream(gives=gives)))


@pytest.mark.parametrize("gives", [[None], [ONE[:2], None], [ONE[:6], None], [made(bytes(100_000))[:50_000], None]])
def test_a_peer_that_sends_nothing_more_is_silent(gives: list[bytes | None]) -> None:
    assert "SilenceError: the peer has sent or received nothing for 4 s" == raised(lambda: received(Stream(gives=gives)))


LONG = made(bytes(1_000))


@pytest.mark.parametrize(
    ("pieces", "step_s", "slow"),
    [
        ([LONG[:300], LONG[300:555], LONG[555:]], 4.0, "fewer than 256 bytes of it came in 4 s"),
        ([LONG[:300], LONG[300:556], LONG[556:812], LONG[812:]], 4.0, None),
        ([LONG[:300], LONG[300:301], LONG[301:]], 1.9, None),
        ([LONG[:300], LONG[300:301], LONG[301:302], LONG[302:]], 2.0, "fewer than 256 bytes of it came in 4 s"),
        ([LONG[:1], LONG[1:2], LONG[2:3], LONG[3:]], 1.0, "fewer than 256 bytes of it came in 2 s"),
        ([LONG[:1], LONG[1:2], LONG[2:]], 1.9, None),
    ],
)
def test_a_frame_must_not_trickle(pieces: list[bytes], step_s: float, slow: str | None) -> None:
    """256 bytes must come in each period of silence; the four bytes of the length in half of it."""
    stream = Stream(gives=pieces, step_s=step_s)

    if slow is None:
        assert [bytes(1_000)] == received(stream)
    else:
        assert f"TrickleError: a frame began, and {slow}" == raised(lambda: received(stream))


def test_a_long_frame_must_not_trickle_either() -> None:
    whole = made(bytes(100_000))
    stream = Stream(gives=[whole[:50_000], whole[50_000:50_255], whole[50_255:]], step_s=4.0)

    assert issubclass(TrickleError, SilenceError)
    assert raised(lambda: received(stream)).startswith("TrickleError: a frame began")


@pytest.mark.parametrize(
    ("gives", "expected"),
    [
        ([ONE], [b"one"]),
        ([BEAT], [None]),
        ([None], [None]),
        ([ONE[:5], None, ONE[5:] + TWO], [None, None, b"one", b"two"]),
        ([BEAT + ONE + BEAT + TWO], [b"one", b"two"]),
        ([ONE[:3], ONE[3:]], [None, b"one"]),
    ],
)
def test_a_frame_that_has_arrived_comes_without_a_wait(gives: list[bytes | None], expected: list[bytes | None]) -> None:
    stream = Stream(gives=gives)
    hearer = frames(stream)

    assert expected == [hearer.heard() for _ in expected]
    assert ({(65_536, NOW)}, False) == (set(stream.asked), hearer.has_more)


def test_a_peer_that_went_away_is_an_error_without_a_wait() -> None:
    assert "FrameError: the peer went away" == raised(frames(Stream()).heard)


def test_a_part_of_a_frame_is_more() -> None:
    receiver = frames(Stream(gives=[ONE + TWO[:2]]))
    receiver.receive()

    assert receiver.has_more


def test_an_exchange_returns_the_answer_or_says_that_none_came() -> None:
    stream = Stream(gives=[ONE, TWO])
    asking = frames(stream)

    assert [b"one", b"two"] == [asking.exchange(b"a"), asking.exchange_made(made(b"b"))]
    assert made(b"a") + made(b"b") == stream.bytes_sent
    assert "FrameError: the peer ended the connection" == raised(lambda: asking.exchange(b"c"))


def test_an_undecodable_frame_says_its_length_and_a_part_of_the_error() -> None:
    assert f"a frame of 7 bytes cannot be decoded: ValueError: {'x' * 200}" == str(UndecodableError(ValueError("x" * 201), 7))
