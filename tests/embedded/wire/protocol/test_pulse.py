"""Many connections of a process share one pulse (heartbeat). It saves heartbeats, and both sides still notice a dead peer."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.protocol.frames import Frames, made
from mqflow.embedded.wire.protocol.pulse import OWN_BEATS_MAX, PulseError, Pulses, PulseSender
from mqflow.embedded.wire.server.client_connection import ClientConnection
from mqflow.embedded.wire.server.listener import Server, serve, serve_tcp
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import WAIT_UNLIMITED, GetOptions
from mqflow.world import THREADS
from tests.queue_contents import put

SHORT_S = 1.0
MANY = OWN_BEATS_MAX + 4
QUEUE = "ORDERS.IN"
BOTH = OpenOption.INPUT_SHARED | OpenOption.OUTPUT
FOR_EVER = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=WAIT_UNLIMITED)
UNIT = GetOptions(options=GetOption.SYNCPOINT)


@pytest.fixture
def server(owner: EmbeddedQueueManager, folder: Path) -> Iterator[Server]:
    with serve(owner, folder / "qm") as served:
        yield served


@pytest.fixture
def manager(server: Server) -> Iterator[ServedQueueManager]:
    reached = ServedQueueManager(server.path)
    yield reached
    reached.close()


@pytest.fixture
def many(manager: ServedQueueManager) -> list[ServedConnection]:
    return [manager.connect() for _ in range(MANY)]


def told_while_waiting(connections: list[ServedConnection]) -> tuple[list[threading.Thread], list[int]]:
    """Make each connection wait for a message, each in a thread. Return the threads, and the list of their reasons."""
    told: list[int] = []

    def wait(connection: ServedConnection) -> None:
        handle = connection.open(QUEUE, BOTH)
        with pytest.raises(MQIError) as raised:
            connection.get(handle, FOR_EVER)
        told.append(raised.value.reason)

    threads = [threading.Thread(target=wait, args=(each,)) for each in connections]
    for each in threads:
        each.start()
    return threads, told


def until_they_wait(owner: EmbeddedQueueManager, count: int) -> None:
    while len(owner._state.local_queue(QUEUE).waiters) < count:
        threading.Event().wait(0.005)


def test_a_few_connections_beat_for_themselves_and_the_others_by_one_pulse(
    server: Server, manager: ServedQueueManager, many: list[ServedConnection]
) -> None:
    assert MANY == len({id(each) for each in many})
    assert OWN_BEATS_MAX + 1 == len(manager._heartbeats._beating)
    assert OWN_BEATS_MAX + 1 == len(server._heartbeats._beating)
    assert MANY + 1 == server.connection_count


def test_a_connection_with_a_pulse_may_be_silent_for_ever(server: Server, many: list[ServedConnection]) -> None:
    limits = [
        each.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16) != bytes(16)  # type: ignore[attr-defined]  # a socket
        for each in (
            *(each._line._frames for each in many),
            *(each._frames for each in server._served if isinstance(each, ClientConnection)),
        )
    ]

    assert OWN_BEATS_MAX == sum(limits[:MANY])
    assert OWN_BEATS_MAX + 1 == sum(limits[MANY:])  # the pulse itself must send heartbeats


def test_when_a_process_is_not_heard_of_its_units_of_work_are_backed_out(owner: EmbeddedQueueManager, folder: Path) -> None:
    put(owner, QUEUE, b"an order")
    local = owner.connect()
    with (
        serve(owner, folder / "qm", silence_s=SHORT_S),
        socket.socket(socket.AF_UNIX) as one,
        socket.socket(socket.AF_UNIX) as two,
    ):
        for stream in (one, two):
            stream.connect(str(folder / "qm"))
        pulse, by_pulse = Frames(one), Frames(two)  # and no heartbeats: a process that was stopped
        begun = requests.decode_reply(
            requests.Pulse(0), pulse.exchange(requests.encode(requests.Pulse(requests.PROTOCOL_VERSION)))
        )
        for request in (
            requests.Hello(requests.PROTOCOL_VERSION, "", "test", "", "", begun.value or 0),
            requests.Open(QUEUE, options=int(BOTH)),
            requests.Get(1, UNIT),
        ):
            by_pulse.exchange(requests.encode(request))

        found = local.get(local.open(QUEUE, BOTH), FOR_EVER)

    assert found is not None
    assert 1 == found.descriptor.backout_count


def test_when_a_pulse_ends_connections_with_their_own_heartbeats_continue(
    owner: EmbeddedQueueManager, manager: ServedQueueManager, many: list[ServedConnection]
) -> None:
    put(owner, QUEUE, b"one", b"two")
    own, by_pulse = many[0], many[-1]
    for each in (own, by_pulse):
        assert each.get(each.open(QUEUE, BOTH), UNIT) is not None
    local = owner.connect()

    [pulse] = manager._pulses.values()
    pulse.stop()
    found = local.get(local.open(QUEUE, BOTH), FOR_EVER)
    own.commit()

    assert found is not None
    assert (b"two", 1) == (found.body, found.descriptor.backout_count)
    with pytest.raises(MQIError) as told:
        by_pulse.commit()
    assert told.value.reason in {Reason.CALL_INTERRUPTED, Reason.CONNECTION_BROKEN}


def test_when_the_pulse_of_the_queue_manager_ends_all_waiting_calls_raise(
    owner: EmbeddedQueueManager, server: Server, many: list[ServedConnection]
) -> None:
    threads, told = told_while_waiting(many[OWN_BEATS_MAX:])
    until_they_wait(owner, len(threads))

    [pulse] = [each for each in server._served if each.is_pulse]
    pulse.end()
    for each in threads:
        each.join()

    assert [Reason.CONNECTION_BROKEN] * len(threads) == told


def test_a_call_under_way_when_the_queue_manager_ends_hears_why_before_the_pulse_stops(
    owner: EmbeddedQueueManager, server: Server, many: list[ServedConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, told = told_while_waiting(many)
    until_they_wait(owner, len(threads))
    first, end = threading.Event(), ClientConnection.end

    def end_and_say(answering: ClientConnection) -> None:
        end(answering)
        if not answering.is_pulse:
            first.set()

    monkeypatch.setattr(ClientConnection, "end", end_and_say)
    closing = threading.Thread(target=server.close)
    with owner._state.lock:  # so that no connection has an answer when the first connection ends
        owner.stop()
        closing.start()
        first.wait()
    for each in (*threads, closing):
        each.join()

    assert [Reason.Q_MGR_STOPPING] * MANY == told


def test_the_pulse_stops_with_its_last_connection_and_another_begins(
    server: Server, manager: ServedQueueManager, many: list[ServedConnection]
) -> None:
    [pulse] = manager._pulses.values()
    for each in many[OWN_BEATS_MAX:]:
        each.disconnect()

    assert pulse.over
    again = manager.connect()
    [another] = manager._pulses.values()
    assert not another.over
    again.disconnect()


def test_an_application_lives_by_no_pulse_that_is_not_there(server: Server) -> None:
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(server.path))
        hello = requests.Hello(requests.PROTOCOL_VERSION, "", "test", "", "", 99)
        failure = requests.decode_reply(hello, Frames(stream).exchange(requests.encode(hello))).failure

    assert failure is not None
    assert (Reason.CONNECTION_BROKEN, "No such pulse") == (failure.reason, failure.detail)


class _Anybody:
    def knows(self, user: str, password: str) -> bool:
        return user == password

    def knows_again(self, user: str, password: str) -> bool:
        return self.knows(user, password)

    def administers(self, user: str) -> bool:
        return bool(user)


def test_over_a_network_every_connection_beats_for_itself(owner: EmbeddedQueueManager) -> None:
    with serve_tcp(owner, TcpAddress("127.0.0.1", 0), _Anybody()) as server:
        assert isinstance(server.address, TcpAddress)
        manager = ServedQueueManager(server.address, user="app", password="app")  # noqa: S106 - of a test
        with socket.create_connection((server.address.host, server.address.port)) as stranger:
            frames = Frames(stranger)
            frames.send(requests.encode(requests.Pulse(requests.PROTOCOL_VERSION)))
            assert frames.receive() is None  # turned away

        for _ in range(MANY):
            manager.connect()
        beating = len(manager._heartbeats._beating)
        manager.close()

    assert MANY == beating


class Around:
    """A stream with one reply, the heartbeats and the runner of a pulse; it notes their calls."""

    silence_s = 2.0
    lock = staticmethod(THREADS.lock)

    def __init__(self, *gives: bytes | OSError) -> None:
        self.gives, self.sent, self.said = list(gives), b"", list[object]()

    def recv(self, _most: int, _flags: int = 0, /) -> bytes:
        given = self.gives.pop(0) if self.gives else b""
        if isinstance(given, OSError):
            raise given
        return given

    def send(self, data: bytes, _flags: int = 0, /) -> int:
        self.sent += data
        return len(data)

    def setsockopt(self, *_: object) -> None: ...

    def start(self, target: Callable[[], None], name: str) -> None:
        self.said.append(name)
        self.listen = target

    def add(self, _: Frames) -> None:
        self.said.append("add")

    def remove(self, _: Frames) -> None:
        self.said.append("remove")

    def shutdown(self, how: int, /) -> None:
        self.said.append(("shutdown", how))
        raise OSError(107, "not connected")

    def close(self) -> None:
        self.said.append("close")


class Ended:
    """A connection that notes its end."""

    def __init__(self, said: list[object], name: str) -> None:
        self.said, self.name = said, name

    def end(self) -> None:
        self.said.append(f"end {self.name}")


def begun(*gives: bytes | OSError) -> tuple[Any, Callable[[], PulseSender]]:
    around: Any = Around(*gives)
    return around, lambda: PulseSender(around, around, around)


NUMBER = made(requests.encode(requests.Reply(None, 5)))
STOP = ["remove", ("shutdown", socket.SHUT_RDWR)]


@pytest.mark.parametrize(
    ("given", "said"),
    [(OSError("no route"), "no route"),
     (b"", "the peer ended the connection"),
     (made(requests.encode(requests.Reply(requests.failure_of(error_for(Reason.Q_MGR_STOPPING, "", detail="ends"))))), "ends")],
)  # fmt: skip
def test_a_pulse_that_cannot_begin_leaves_no_socket_open(given: bytes | OSError, said: str) -> None:
    around, begin = begun(given)

    with pytest.raises(PulseError) as raised:
        begin()

    assert (said, ["close"]) == (str(raised.value), around.said)


def test_a_pulse_ends_its_connections_in_order_when_the_server_falls_silent() -> None:
    around, begin = begun(NUMBER)
    pulse = begin()
    assert (5, False, ["add", "mqflow-pulse"]) == (pulse.number, pulse.over, around.said)
    assert made(requests.encode(requests.Pulse(requests.PROTOCOL_VERSION))) == around.sent
    first, gone, last = (Ended(around.said, name) for name in ("first", "gone", "last"))
    assert [True] * 3 == [pulse.add(each) for each in (first, gone, last)]
    pulse.remove(gone)
    around.said.clear()

    around.listen()

    assert [*STOP, "close", "end first", "end last"] == around.said
    assert (True, False) == (pulse.over, pulse.add(gone))


def test_a_pulse_stops_with_its_last_connection_and_not_with_a_stranger() -> None:
    around, begin = begun(NUMBER)
    pulse = begin()
    first, last, stranger = (Ended(around.said, name) for name in ("first", "last", "stranger"))
    pulse.add(first)
    pulse.add(last)
    around.said.clear()
    for each in (stranger, first, first, last, last):
        pulse.remove(each)
        around.said.append(pulse.over)

    assert [False, False, False, *STOP, True, True] == around.said


class Overtaken:
    """A lock that lets another thread run directly after it was released."""

    def __init__(self) -> None:
        self._lock = THREADS.lock()
        self.then: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self.then:
            self.then.pop()()


def test_a_connection_that_comes_while_the_last_one_goes_does_not_depend_on_the_pulse_that_stops() -> None:
    around, begin = begun(NUMBER)
    overtaken = Overtaken()
    around.lock = lambda: overtaken
    pulse = begin()
    last, late = Ended(around.said, "last"), Ended(around.said, "late")
    pulse.add(last)
    taken: list[bool] = []
    overtaken.then.append(lambda: taken.append(pulse.add(late)))

    pulse.remove(last)
    around.listen()

    assert ([False], False) == (taken, "end late" in around.said)


def test_the_pulses_of_a_server_have_numbers_and_end_what_has_joined_them() -> None:
    said: list[object] = []
    pulses = Pulses(THREADS)
    one, gone, two = (Ended(said, name) for name in ("one", "gone", "two"))

    assert [1, 2] == [pulses.begin(), pulses.begin()]
    assert [True, True, True, False] == [pulses.join(*each) for each in ((1, one), (1, gone), (2, two), (3, two))]
    pulses.leave(1, gone)
    pulses.leave(2, one)
    pulses.leave(9, one)
    for number in (1, 1, 9):
        pulses.end(number)

    assert (["end one"], False, True) == (said, pulses.join(1, one), pulses.join(2, one))
