"""Every call notices a peer that sends nothing, and a peer that is only slow does not count as dead."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import FrameError, Frames, SilenceError, TrickleError, made
from mqflow.embedded.wire.protocol.heartbeat_sender import _AT_ONCE, HeartbeatSender, _shares
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import WAIT_UNLIMITED, GetOptions
from mqflow.world import THREADS
from tests.doubles import SteppingClock

SHORT_S = 0.2
QUEUE = "ORDERS.IN"
FOR_EVER = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=WAIT_UNLIMITED)
BOTH = OpenOption.INPUT_SHARED | OpenOption.OUTPUT
_LONG = made(bytes(100_000))


@pytest.fixture
def pair() -> Iterator[tuple[Frames, Frames]]:
    one, other = socket.socketpair()
    with one, other:
        yield Frames(one, silence_s=SHORT_S), Frames(other, silence_s=SHORT_S)


def test_many_sockets_beat_in_turn_and_none_is_left_out() -> None:
    pairs = [socket.socketpair() for _ in range(_AT_ONCE * 2 + 1)]
    heartbeats = HeartbeatSender(THREADS, silence_s=SHORT_S)
    beating = [Frames(here, silence_s=SHORT_S) for here, _ in pairs]
    for frames in beating:
        heartbeats.add(frames)

    assert {bytes(8)} == {there.recv(8, socket.MSG_WAITALL) for _, there in pairs}  # two beats of each

    for frames, (here, there) in zip(beating, pairs, strict=True):
        heartbeats.remove(frames)
        here.close()
        there.close()


def test_no_more_beat_at_once_than_are_soon_awake() -> None:
    here, there = socket.socketpair()
    beating = tuple(Frames(here) for _ in range(1_000))

    shares = _shares(beating)

    assert beating == tuple(frames for share in shares for frames in share)
    assert {_AT_ONCE, 1_000 % _AT_ONCE} == {len(share) for share in shares}
    assert [beating[:8]] == _shares(beating[:8])
    here.close()
    there.close()


def test_a_silent_peer_counts_as_dead(pair: tuple[Frames, Frames]) -> None:
    with pytest.raises(SilenceError, match=r"0\.2 s"):
        pair[0].receive()


def test_a_peer_that_falls_silent_within_a_frame_counts_as_dead(pair: tuple[Frames, Frames]) -> None:
    pair[1].socket.send(made(b"a frame")[:-1])

    with pytest.raises(SilenceError):
        pair[0].receive()


@pytest.mark.parametrize(
    ("pieces", "given_up"),
    [
        ([b"\0", b"\0", b"\0", b"\1."], True),  # a length may take 2 s
        ([b"\0", b"\0", b"\0\1."], False),
        ([b"\0\0\2\0", *[b"x" * 63] * 8], True),  # 252 bytes in 4 s; the least is 256
        ([b"\0\0\2\0", *[b"x" * 64] * 8], False),
        ([b"\0\0\0\5", b"x", b"x", b"x", b"x", b"x"], True),
        ([b"\0\0\0\5", b"x", b"x", b"x", b"xx"], False),
        ([_LONG[:100], *[b"x" * 63] * 4, _LONG[352:]], True),
        ([_LONG[:100], *[b"x" * 64] * 4, _LONG[356:]], False),
    ],
)
def test_a_frame_that_has_begun_goes_on(pieces: list[bytes], *, given_up: bool) -> None:
    """Silence is 4 s, and a second passes with each piece."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # each send arrives as one piece
    with one, other:
        for piece in pieces:
            other.send(piece)
        other.send(b"\0\0\0\1.")
        frames = Frames(one, silence_s=4.0, clock=SteppingClock())

        if given_up:
            with pytest.raises(TrickleError):
                frames.receive()
        else:
            assert frames.receive()


def test_a_peer_that_receives_nothing_counts_as_dead(pair: tuple[Frames, Frames]) -> None:
    with pytest.raises(SilenceError):
        pair[0].send(bytes(10_000_000))


def test_heartbeats_are_skipped(pair: tuple[Frames, Frames]) -> None:
    for _ in range(3):
        pair[0].beat()
    pair[0].send(b"a frame")
    pair[0].beat()

    assert b"a frame" == pair[1].receive()
    assert pair[1].heard() is None


def test_a_heartbeat_never_blocks(pair: tuple[Frames, Frames]) -> None:
    with pytest.raises(SilenceError):
        pair[0].send(bytes(10_000_000))  # no process reads these bytes

    pair[0].beat()


def test_a_short_frame_between_heartbeats_is_received(pair: tuple[Frames, Frames]) -> None:
    pair[0].beat()
    pair[0].say(b"a word")
    pair[0].beat()

    assert b"a word" == pair[1].heard()
    assert pair[1].heard() is None


def test_half_a_word_waits_for_the_other_half(pair: tuple[Frames, Frames]) -> None:
    pair[0].socket.send(b"\0\0\0\0\0\0\0\2a")
    half = pair[1].heard()
    pair[0].socket.send(b"b")

    assert (None, b"ab") == (half, pair[1].heard())


def test_the_end_of_the_stream_raises_an_error(pair: tuple[Frames, Frames]) -> None:
    pair[0].socket.shutdown(socket.SHUT_WR)

    with pytest.raises(FrameError, match="went away"):
        pair[1].heard()


def test_a_short_frame_to_a_peer_that_receives_nothing_does_not_block(pair: tuple[Frames, Frames]) -> None:
    with pytest.raises(SilenceError):
        pair[0].send(bytes(10_000_000))

    pair[0].say(b"a word")


def test_a_queue_manager_that_says_nothing_more_is_2009(folder: Path) -> None:
    path = folder / "qm"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(MQIError, match=r"has sent or received nothing for 0\.2 s") as lost:
            ServedQueueManager(path, silence_s=SHORT_S).connect()

    assert Reason.CONNECTION_BROKEN == lost.value.reason


def test_an_application_that_is_not_heard_of_is_backed_out(owner: EmbeddedQueueManager, folder: Path) -> None:
    local = owner.connect()
    local.put1(QUEUE, MessageDescriptor(), b"an order", PutOption.NO_SYNCPOINT)
    with serve(owner, folder / "qm", silence_s=SHORT_S), socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(folder / "qm"))
        frames = Frames(stream)  # and no heartbeats
        for request in (
            requests.Hello(requests.PROTOCOL_VERSION, "", "test", ""),
            requests.Open(QUEUE, options=int(BOTH)),
            requests.Get(1, GetOptions(options=GetOption.SYNCPOINT)),
        ):
            frames.exchange(requests.encode(request))

        found = local.get(local.open(QUEUE, BOTH), FOR_EVER)

    assert found is not None
    assert 1 == found.descriptor.backout_count


def test_an_application_that_stops_beating_while_its_get_waits_takes_no_message_along(
    owner: EmbeddedQueueManager, folder: Path
) -> None:
    with serve(owner, folder / "qm", silence_s=SHORT_S) as server, socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(folder / "qm"))
        frames = Frames(stream)
        frames.exchange(requests.encode(requests.Hello(requests.PROTOCOL_VERSION, "", "test", "")))
        frames.exchange(requests.encode(requests.Open(QUEUE, options=int(BOTH))))
        frames.send(requests.encode(requests.Get(1, FOR_EVER)))
        while server.connection_count:
            threading.Event().wait(0.005)

        local = owner.connect()
        local.put1(QUEUE, MessageDescriptor(), b"an order", PutOption.NO_SYNCPOINT)
        found = local.get(local.open(QUEUE, BOTH), GetOptions())

    assert found is not None
    assert 0 == found.descriptor.backout_count


def test_a_get_that_waits_far_longer_than_a_silence_is_served(owner: EmbeddedQueueManager, folder: Path) -> None:
    silence_s = 3 * SHORT_S  # on a busy machine heartbeats are late
    with serve(owner, folder / "qm", silence_s=silence_s):
        manager = ServedQueueManager(folder / "qm", silence_s=silence_s)
        connection = manager.connect()
        handle = connection.open(QUEUE, BOTH)
        waited = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=int(2.5 * silence_s * 1_000))

        assert connection.get(handle, waited) is None
        connection.commit()
        manager.close()


def test_the_heartbeat_thread_ends_without_connections_and_starts_again() -> None:
    one, other = socket.socketpair()
    with one, other:
        frames, peer = Frames(one), Frames(other)
        heartbeats = HeartbeatSender(THREADS, silence_s=0.02)
        for _ in range(2):
            heartbeats.add(frames)
            while not peer._received:
                peer._received += other.recv(4)
            peer._received.clear()
            heartbeats.remove(frames)
            while heartbeats._alive:
                threading.Event().wait(0.001)


def test_a_word_said_while_a_frame_is_being_sent_follows_it() -> None:
    """Otherwise the word is lost: a get would notice an interrupt only at the end of its wait, minutes later."""
    one, other = socket.socketpair()
    with one, other:
        sender, receiver, frame = Frames(one), Frames(other), bytes(10_000_000)
        sending = threading.Thread(target=sender.send, args=(frame,))
        sending.start()
        other.recv(1, socket.MSG_PEEK)  # the frame has begun, and cannot end

        sender.say(b"a word")
        heard = [receiver.receive(), receiver.receive()]
        sending.join()

    assert [frame, b"a word"] == heard


def test_an_interrupt_that_comes_with_the_request_ends_the_wait(owner: EmbeddedQueueManager, folder: Path) -> None:
    with serve(owner, folder / "qm"), socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(folder / "qm"))
        frames = Frames(stream)
        for request in (
            requests.Hello(requests.PROTOCOL_VERSION, "", "", "", "", 0),
            requests.Open(QUEUE, options=int(BOTH)),
        ):
            frames.exchange(requests.encode(request))
        together = (requests.encode(requests.Get(1, FOR_EVER)), requests.encode(requests.Interrupt()))
        stream.sendall(b"".join(made(each) for each in together))

        assert requests.decode_reply(requests.Get(1, FOR_EVER), frames.answer()).value is None
