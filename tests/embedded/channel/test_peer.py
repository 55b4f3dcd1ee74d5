"""The listener's end of a socket: a program that reads nothing, sends nothing, or waits long."""

import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from mqflow.embedded.channel.peer import ChannelPeer, send_whole
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.streams import TlsStream
from mqflow.embedded.wire.protocol.wakeup import HasDescriptor, SocketSignal, Waited
from mqflow.embedded.wire.server.contract import Arrival, ServedPeer
from mqflow.embedded.wire.server.login import SameUser
from mqflow.fap import calls
from mqflow.fap.fields import Writer
from mqflow.fap.negotiation import Offer, answer
from mqflow.fap.structures import GetFields, write_descriptor
from mqflow.fap.transmission_segments import Flow, Flows, Header, SegmentType, segments_of, to_segment
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.world import SYSTEM_RANDOM
from tests.conformance.under_test import ManualClock
from tests.doubles import queue_manager_with
from tests.fap.client_half import ORDER, connect_body, initial_data, open_body

OFFER = Offer(queue_manager="QM1", queue_manager_identifier="QM1")
POLL_MS_MAX = 2**31
"""A longer wait is an error of the system's poll."""


class PassingTime(SocketSignal):
    """A signal whose waits take no time: the clock of the test advances."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self.waits = 0

    def heard_beside(self, stream: HasDescriptor, wait_s: float | None) -> Waited:
        assert wait_s is not None
        assert wait_s * 1000 < POLL_MS_MAX
        self.waits += 1
        waited = super().heard_beside(stream, 0)
        if not waited.readable and not waited.signalled:
            self._clock.advance(wait_s)
        return waited


class Stranger:
    """A program on one end of a pair of sockets, and the listener's end, which runs when the test says so."""

    def __init__(self, queue_manager: EmbeddedQueueManager) -> None:
        self.socket, self.raw = socket.socketpair()
        self.clock = ManualClock()
        self.complaints: list[str] = []
        self.arrived = PassingTime(self.clock)
        arrival = Arrival(
            raw=self.raw, clock=self.clock, complain=self.complaints.append, complain_once=self.complaints.append,
            arrived=self.arrived, admit=admit, take_place=lambda: None, give_place_back=lambda: None, over=over, hello_s=10.0,
            full=None,
        )  # fmt: skip
        self.peer = ChannelPeer(queue_manager, arrival, SameUser(), OFFER, None, SYSTEM_RANDOM)

    def send(self, kind: SegmentType, body: bytes) -> None:
        for segment in segments_of(Flow(Header(kind=kind), body), OFFER.transmission_bytes_max):
            self.socket.sendall(segment)

    def negotiate(self, heartbeat_s: int = 300) -> None:
        """Send the initial data that the listener agrees with, for a socket that is not shared."""
        asked = replace(initial_data(conversations=0), heartbeat_s=heartbeat_s)
        self.send(SegmentType.INITIAL_DATA, replace(answer(asked, OFFER)[0], errors1=0, errors2=0).to_bytes(ORDER))

    def call(self, kind: SegmentType, body: bytes, handle: int = 0) -> None:
        self.send(kind, bytes(12) + handle.to_bytes(4, signed=True) + body)

    def answers(self) -> list[Flow]:
        """Let the listener's end run until it ends; return what it sent."""
        self.peer.run()
        data = b""
        while part := self.socket.recv(65_536):
            data += part
        return list(Flows().feed(data))

    def close(self) -> None:
        self.socket.close()
        self.peer.let_go()


def admit(connection: ServedPeer, *, administers: bool) -> None:
    """Give every program a place."""


def over(connection: ServedPeer) -> None:
    """Keep no list of programs."""


queue_manager = queue_manager_with("DEFINE QLOCAL(Q1)")


Begin = Callable[[], Stranger]


@pytest.fixture
def begin(queue_manager: EmbeddedQueueManager) -> Iterator[Begin]:
    """Return a new program."""
    with contextlib.ExitStack() as opened:
        yield lambda: opened.enter_context(contextlib.closing(Stranger(queue_manager)))


def connect_and_open(program: Stranger) -> int:
    """Send what connects, and opens the queue; return the handle, which is the first one."""
    program.negotiate()
    asked = calls.Connect(
        queue_manager="QM1", application_name="a test", application_type=28, accounting_token=bytes(32), options=7,
        extended_options=0,
    )  # fmt: skip
    program.call(SegmentType.MQCONN, connect_body(asked))
    program.call(SegmentType.SPI, open_body("Q1", OpenOption.INPUT_SHARED), -1)
    return 1


def get(program: Stranger, wait_ms: int) -> None:
    """Connect, open the queue, and send a get that waits."""
    handle = connect_and_open(program)
    writer = Writer(ORDER)
    write_descriptor(writer, MessageDescriptor(), 2)
    GetFields(version=2, options=int(GetOption.WAIT | GetOption.NO_SYNCPOINT), wait_ms=wait_ms).write(writer)
    program.call(SegmentType.MQGET, writer.number(100).done(), handle)


def test_a_heartbeat_before_both_ends_agree_ends_the_socket_without_an_answer(begin: Begin) -> None:
    stranger = begin()
    stranger.send(SegmentType.HEARTBEAT, b"")

    assert [] == stranger.answers()
    assert "a heartbeat came before both ends agreed" in stranger.complaints[0]


def test_a_stranger_whose_time_is_over_gets_no_more_bytes(begin: Begin) -> None:
    stranger = begin()

    stranger.peer.end()

    with pytest.raises(BrokenPipeError):
        stranger.raw.send(b"an answer")


def test_a_send_ends_after_its_time_also_if_a_program_takes_a_byte_from_time_to_time() -> None:
    clock, taken = ManualClock(), bytearray()

    def slow(data: memoryview) -> int:
        clock.advance(10.0)
        taken.extend(data[:1])
        return 1

    with pytest.raises(OSError, match="too few bytes"):
        send_whole(slow, bytes(100), 30.0, clock)

    assert 3 == len(taken)


def test_a_heartbeat_interval_beyond_mqs_longest_harms_nothing(begin: Begin) -> None:
    stranger = begin()
    stranger.negotiate(heartbeat_s=2**31 - 1)

    assert [SegmentType.INITIAL_DATA] == [flow.header.kind for flow in stranger.answers()]


def test_a_program_that_waits_in_mqget_on_a_socket_of_its_own_is_not_silent(begin: Begin) -> None:
    program = begin()
    get(program, 2_000_000)

    answered = program.answers()[-1]

    assert SegmentType.MQGET + calls.REPLY == answered.header.kind
    assert "silent for 660 seconds" in program.complaints[0]  # after the wait


class Busy:
    """A stream on which more bytes have arrived at each receive: a heartbeat every second, until the program has its reply."""

    def __init__(self, program: Stranger, reply: int) -> None:
        raw = program.raw
        self._program, self._raw, self._reply = program, raw, reply
        self.heartbeats = 0
        self.fileno, self.setsockopt, self.shutdown, self.close = raw.fileno, raw.setsockopt, raw.shutdown, raw.close
        self._over = False

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        if self._over or self.heartbeats == 100:
            self._raw.recv(bufsize, flags)
            return b""
        self.heartbeats += 1
        self._program.clock.advance(1.0)
        if self.heartbeats > 1:
            return to_segment(Header(kind=SegmentType.HEARTBEAT), b"")
        asked = self._raw.recv(bufsize, flags)
        self._program.socket.sendall(b"more")
        return asked

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> int:
        self._over = self._over or bytes(data)[9] == self._reply
        return self._raw.send(data, flags)


def test_a_get_is_answered_in_time_also_if_the_program_sends_without_a_pause(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = begin()
    get(program, 7_000)
    busy = Busy(program, SegmentType.MQGET + calls.REPLY)
    monkeypatch.setattr(SameUser, "secured", lambda *_: busy)

    program.answers()

    assert 8 == busy.heartbeats


class BehindTls(TlsStream):
    """A stream that may hide bytes, over a socket without TLS."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw  # type: ignore[misc]

    @property
    def peer_names(self) -> list[str]:
        return []

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        return self._raw.recv(bufsize, flags)

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> int:
        return self._raw.send(data, flags)


def test_a_program_behind_tls_costs_no_more_waits_for_its_socket_than_another(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = list[int]()
    for is_behind_tls in (False, True):
        program = begin()
        connect_and_open(program)
        if is_behind_tls:
            monkeypatch.setattr(SameUser, "secured", lambda _, raw: BehindTls(raw))
        program.answers()
        waits.append(program.arrived.waits)

    plain, behind_tls = waits
    assert behind_tls <= plain


def test_the_last_call_of_a_channel_is_completed_by_its_reply(begin: Begin) -> None:
    program = begin()
    began_s = program.clock.wall()
    assert program.peer.status().last_call_s is None
    get(program, 7_000)

    program.answers()

    assert (3, began_s + 7) == (program.peer.status().call_count, program.peer.status().last_call_s)


def test_a_program_that_sends_nothing_and_waits_for_nothing_is_silent(begin: Begin) -> None:
    program = begin()
    connect_and_open(program)

    program.answers()

    said = "A client program at an unknown address was silent for 660 seconds, so it counts as dead, and is disconnected."
    assert [said] == program.complaints
    assert ManualClock().now_s + 660 == program.clock.now_s


def test_a_program_that_has_ended_is_no_running_channel(begin: Begin, queue_manager: EmbeddedQueueManager) -> None:
    program = begin()
    connect_and_open(program)

    replies = [flow.header.kind for flow in program.answers()]

    assert SegmentType.MQCONN + calls.REPLY in replies
    assert () == queue_manager.channels.statuses()
