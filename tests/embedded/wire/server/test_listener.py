"""The places, the time limits and the end of peers at one address. The test makes peers, threads, signals and the clock."""

import contextlib
import errno
import select
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.protocol.wakeup import Waited
from mqflow.embedded.wire.server.listener import Room, Server, ServingError, UnprotectedAddressError, serve, serve_tcp
from mqflow.embedded.wire.server.strangers import StrangerLimits
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.world import THREADS, World
from tests.conformance.under_test import ManualClock

TOO_MANY = "The limit of 1 served connections is reached; --max-connections changes it"


class Stream:
    """The listening socket, or the stream of a peer."""

    def __init__(self, *peers: "tuple[Stream, object] | OSError") -> None:
        self.peers, self.closed = list(peers), False

    def accept(self) -> "tuple[Stream, object]":
        peer = self.peers.pop(0)
        if isinstance(peer, OSError):
            raise peer
        return peer

    def fileno(self) -> int:
        return -1 if self.closed else 0  # a process without a standard input can have this one

    def close(self) -> None:
        self.closed = True


class Signal:
    """Reports a peer as often as the test says, and then the end."""

    def __init__(self, said: list[str]) -> None:
        self.said, self.results = said, list[Waited]()

    def heard_beside(self, stream: object, wait_s: float | None) -> Waited:  # noqa: ARG002 - as `Signal`
        self.said.append(f"wait {wait_s}")
        return self.results.pop(0) if self.results else Waited(readable=False, signalled=True)

    def heard_within(self, wait_s: float) -> bool:
        self.said.append(f"pause {wait_s}")
        return False

    def set(self) -> None:
        self.said.append("set")

    def clear(self) -> None:
        self.said.append("clear")

    def close(self) -> None:
        self.said.append("close")


class Peer:
    """The server's end of a peer, which records what becomes of it."""

    def __init__(self, arrival: Any, said: list[str], name: str) -> None:
        self.arrival, self.said, self.name = arrival, said, name
        self.unknown_until: float | None = arrival.clock.monotonic() + arrival.hello_s
        self.is_checked = self.is_pulse = False

    def run(self) -> None:
        """Nothing: the test acts for the peer."""

    def end(self) -> None:
        self.said.append(f"end {self.name}")

    def end_slow_send(self, began_before: float) -> None:
        self.said.append(f"end sends of {self.name} before {began_before}")

    def let_go(self) -> None:
        self.said.append(f"let go {self.name}")


class Thread:
    """A thread of the server: it still runs after as many joins as the test says."""

    def __init__(self, kit: "Kit", name: str) -> None:
        self.kit, self.name, self.joins_left = kit, name, 0
        kit.threads.append(self)

    def join(self, timeout: float | None = None) -> None:
        self.kit.said.append(f"join {self.name}")
        if self.joins_left and timeout is not None:
            self.joins_left -= 1
            self.kit.clock.advance(timeout)

    def is_alive(self) -> bool:
        return bool(self.joins_left)


class Kit:
    """A server whose threads run when the test says so."""

    def __init__(self, *, same_machine: bool, places: int = 1, admits: bool = True) -> None:
        self.said, self.peers, self.started, self.threads = list[str](), list[Peer](), list[str](), list[Thread]()
        self.clock, self.room, self.listener = ManualClock(), Room(places), Stream()
        self.clock.now_s = 100.0
        self.signals, self.fails, self.listeners = list[Signal](), list[RuntimeError](), list[Stream]()
        runner: Any = SimpleNamespace(lock=THREADS.lock, event=THREADS.event, mailbox=THREADS.mailbox, start=self.start)
        login: Any = SimpleNamespace(
            same_machine=same_machine, admits=lambda _: admits, close=lambda: self.said.append("login closes")
        )
        queue_manager: Any = SimpleNamespace(name="QM1")
        made: Any = self
        self.server = Server(
            queue_manager, made.listener, TcpAddress("127.0.0.1", 1414), login, host=made.host, silence_s=5.0,
            world=World(self.clock, runner=runner), room=self.room, signals=self.signal, idle_poller=made, peers=made.peer,
            listen=made.listen, when_closed=lambda: self.said.append("closed"),
            strangers=StrangerLimits(most=2, hello_s=30.0, patience_s=1.0),
        )  # fmt: skip

    def host(self, _: object) -> None:
        """Nobody orders anything."""

    def close(self) -> None:
        """Close the idle poller."""
        self.said.append("poller closes")

    def signal(self) -> Signal:
        self.signals.append(Signal(self.said))
        return self.signals[-1]

    def listen(self) -> Stream:
        self.listeners.append(Stream())
        return self.listeners[-1]

    def start(self, target: Callable[[], None], name: str) -> Any:
        if self.peers and self.fails:
            raise self.fails.pop()
        self.started.append(name)
        if name == "mqflow-serve-QM1":
            self.accept = target
        return Thread(self, name)

    def peer(self, arrival: Any) -> Peer:
        self.peers.append(Peer(arrival, self.said, str(len(self.peers) + 1)))
        return self.peers[-1]

    def arrive(self, *addresses: object, silent: int = 0) -> list[Stream]:
        """Let peers from these addresses arrive, after waits without a peer. Return their streams."""
        streams = [Stream() for _ in addresses]
        self.listener.peers += zip(streams, addresses, strict=True)
        self.wait([*[False] * silent, *[True] * len(addresses)])
        return streams

    def wait(self, readable: Sequence[bool]) -> None:
        self.said.clear()
        self.signals[0].results = [Waited(readable=each, signalled=False) for each in readable]
        self.accept()


def of(host: str) -> tuple[str, int]:
    return host, 5_000


def test_a_peer_of_this_machine_takes_a_place_and_the_next_is_refused_in_a_place_beyond() -> None:
    kit = Kit(same_machine=True)

    streams = kit.arrive(*[""] * 18)

    first, *beyond = [(each.arrival.hello_s, each.arrival.full) for each in kit.peers]
    assert (17, (10.0, None)) == (len(kit.peers), first)
    assert {(2.0, Reason.MAX_CONNS_LIMIT_REACHED, TOO_MANY)} == {
        (hello_s, full.reason, full.detail) for hello_s, full in beyond
    }
    assert [False] * 17 + [True] == [each.closed for each in streams]
    assert ["wait None"] + ["wait 1.0"] * 18 == kit.said
    kit.peers[0].arrival.over(kit.peers[0])
    kit.peers[0].arrival.over(kit.peers[0])
    kit.arrive("", "", "")
    assert [10.0] == [each.arrival.hello_s for each in kit.peers[17:]]
    assert 17 == kit.server.connection_count


def test_a_peer_of_another_user_is_disconnected_and_takes_no_place() -> None:
    kit = Kit(same_machine=True, admits=False)

    [stream] = kit.arrive("")

    assert (True, [], True) == (stream.closed, kit.peers, kit.room.take())


@pytest.mark.parametrize("same_machine", [True, False])
def test_a_peer_without_a_thread_is_disconnected_and_frees_its_place(*, same_machine: bool) -> None:
    kit = Kit(same_machine=same_machine)
    for _ in range(3):
        kit.fails.append(RuntimeError("can't start new thread"))
        [stream] = kit.arrive(of("a"))
        number = len(kit.peers)
        assert ["wait None", f"let go {number}", "pause 0.1", "wait None"] == kit.said
        assert (True, 0) == (stream.closed, kit.server.connection_count)
    assert (3, True) == (len(kit.peers), kit.room.take())


def test_an_accept_that_fails_takes_no_place_of_strangers() -> None:
    kit = Kit(same_machine=False)
    kit.listener.peers += [OSError(24, "Too many open files")] * 3
    kit.wait([True] * 3)

    assert ["wait None", "pause 0.1"] * 3 + ["wait None"] == kit.said
    kit.arrive(of("a"), of("b"))
    assert [(30.0, None)] * 2 == [(each.arrival.hello_s, each.arrival.full) for each in kit.peers]


def test_a_stranger_leaves_for_the_next_peer_after_its_patience_and_one_at_a_time() -> None:
    kit = Kit(same_machine=False)
    kit.arrive(of("a"), of("b"))
    waits = ["wait 1.0", "pause 0.01"]

    kit.clock.now_s = 100.9
    kit.wait([True])
    assert [*waits, "wait 1.0"] == kit.said
    kit.clock.now_s = 101.0
    kit.wait([True, True])
    assert ["wait 1.0", "end 1", "pause 0.01", *waits, "wait 1.0"] == kit.said
    kit.peers[0].arrival.over(kit.peers[0])
    kit.arrive(of("c"))
    assert (3, 2) == (len(kit.peers), kit.server.connection_count)
    kit.peers[1].is_checked = True
    kit.clock.now_s = 102.0
    kit.wait([True])
    assert ["wait 1.0", "end 3", "pause 0.01", "wait 1.0"] == kit.said


def test_the_address_with_the_most_strangers_makes_room() -> None:
    kit = Kit(same_machine=False)
    kit.server._strangers.give_back()
    kit.arrive(of("a"), of("b"), of("b"))
    kit.clock.now_s = 105.0
    kit.wait([True])

    assert "end 2" in kit.said


def test_a_stranger_ends_when_its_time_is_over() -> None:
    kit = Kit(same_machine=False)
    kit.arrive(of("a"), of("b"))
    kit.peers[1].unknown_until = None

    kit.clock.now_s = 130.0
    kit.wait([False])
    assert ["wait 1.0", "wait 1.0"] == kit.said
    kit.clock.now_s = 130.1
    kit.wait([False])
    assert ["wait 1.0", "end 1", "wait 1.0"] == kit.said
    kit.peers[0].unknown_until = None
    kit.wait([False])
    assert ["wait None", "wait None"] == kit.said


def test_a_log_in_moves_a_peer_from_the_places_of_strangers_to_its_own() -> None:
    kit = Kit(same_machine=False)
    kit.arrive(of("a"), of("b"))
    first, second = kit.peers

    first.arrival.admit(first, administers=False)
    with pytest.raises(MQIError) as full:
        second.arrival.admit(second, administers=False)
    assert (Reason.MAX_CONNS_LIMIT_REACHED, TOO_MANY) == (full.value.reason, full.value.detail)
    second.arrival.admit(second, administers=True)
    with pytest.raises(MQIError, match="The limit of 1 served"):
        first.arrival.take_place()
    kit.arrive(of("c"), of("d"))
    assert 4 == kit.server.connection_count
    first.arrival.over(first)
    first.arrival.take_place()
    assert not kit.room.take()
    first.arrival.give_place_back()
    assert kit.room.take()


def test_a_peer_of_this_machine_keeps_its_place_when_it_logs_in() -> None:
    kit = Kit(same_machine=True)
    kit.arrive("")
    kit.peers[0].arrival.admit(kit.peers[0], administers=False)

    assert not kit.room.take()


def test_a_close_ends_the_pulses_last_and_a_second_close_does_nothing() -> None:
    kit = Kit(same_machine=True, places=3)
    kit.arrive("", "", "")
    kit.peers[0].is_pulse = True
    kit.said.clear()
    kit.server.close()
    kit.server.close()
    kit.server.stop_listening()
    kit.server.start_listening()

    first = ["set", "login closes", "join mqflow-serve-QM1", "closed"]
    join = "join mqflow-served-connection"
    assert [*first, "end 2", "end 3", join, join, "end 1", join, "poller closes", "close"] == kit.said
    assert ([], True) == (kit.listeners, kit.listener.closed)


def test_a_close_breaks_off_sends_that_take_longer_than_four_seconds() -> None:
    kit = Kit(same_machine=True, places=2)
    kit.arrive("", "")
    kit.threads[1].joins_left, kit.threads[2].joins_left = 3, 2
    kit.said.clear()

    kit.server.close()

    join = "join mqflow-served-connection"
    ends = ["end 1", "end 2", join, "end sends of 1 before 100.0", join, "end sends of 1 before 104.0", join]
    assert [*ends, join, "end sends of 2 before 108.0", join] == kit.said[4:-2]


def test_a_server_that_stops_listening_ends_strangers_and_can_listen_again() -> None:
    kit = Kit(same_machine=True, places=2)
    kit.arrive("", "")
    kit.peers[0].unknown_until = None
    kit.said.clear()
    kit.server.start_listening()
    assert [] == kit.listeners
    kit.server.stop_listening()
    kit.server.stop_listening()

    assert (["set", "join mqflow-serve-QM1", "clear", "end 2"], True) == (kit.said, kit.listener.closed)
    kit.server.start_listening()
    kit.server.start_listening()
    assert (1, 2) == (len(kit.listeners), kit.started.count("mqflow-serve-QM1"))
    kit.server.close()
    assert kit.listeners[0].closed


def test_a_socket_path_has_at_most_103_bytes(owner: EmbeddedQueueManager, folder: Path) -> None:
    longest = folder / ("x" * (102 - len(str(folder))))
    with serve(owner, longest) as server:
        assert (longest, 103, 0o600) == (server.path, len(str(longest)), longest.stat().st_mode & 0o777)
    longer = longest.with_name(f"{longest.name}x")

    with pytest.raises(ServingError) as refused:
        serve(owner, longer)

    assert f"A socket's path has at most 103 bytes: {longer} is longer. Choose a shorter one." == str(refused.value)
    assert not longest.exists()


def test_a_server_takes_the_place_of_a_killed_server_and_of_no_other_file(owner: EmbeddedQueueManager, folder: Path) -> None:
    path, file, link = folder / "qm", folder / "file", folder / "link"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    file.write_text("a letter")
    link.symlink_to(folder / "nothing")
    refusals: list[str] = []
    with serve(owner, path):
        for taken in (path, file, link):
            with pytest.raises((ServingError, OSError)) as refused:
                serve(owner, taken)
            refusals.append(str(refused.value))
        assert path.is_socket()

    assert [
        f"Another process serves a queue manager at {path}. Connect to it, or choose another path.",
        f"{file} exists and is not a socket. Choose another path.",
        f"[Errno {errno.EADDRINUSE}] Address already in use",
    ] == refusals
    assert (False, "a letter", True) == (path.exists(), file.read_text(), link.is_symlink())


def test_a_suspended_server_whose_backlog_is_full_is_not_waited_for(owner: EmbeddedQueueManager, folder: Path) -> None:
    path = folder / "qm"
    with contextlib.ExitStack() as opened, socket.socket(socket.AF_UNIX) as suspended:
        suspended.bind(str(path))
        suspended.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting = opened.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(path))

        with pytest.raises(ServingError, match="Another process serves a queue manager at"):
            serve(owner, path)

        assert path.is_socket()


class Passwords:
    """No user has a password."""

    def knows(self, user: str, password: str) -> bool:
        return user == password == ""

    knows_again = knows

    def administers(self, user: str) -> bool:
        return user == "root"


def test_a_server_beyond_this_machine_needs_tls_and_a_free_port(owner: EmbeddedQueueManager) -> None:
    with pytest.raises(UnprotectedAddressError) as unprotected:
        serve_tcp(owner, TcpAddress("0.0.0.0", 1), Passwords())  # noqa: S104 - refused
    with serve_tcp(owner, TcpAddress("127.0.0.1", 0), Passwords()) as server:
        assert isinstance(server.address, TcpAddress)
        with pytest.raises(ServingError) as taken:
            serve_tcp(owner, server.address, Passwords())
        assert f"{server.address} cannot be used to listen: Address already in use. Choose another port." == str(taken.value)
    tls: Any = object()
    with pytest.raises(ServingError) as elsewhere:
        serve_tcp(owner, TcpAddress("192.0.2.1", 0), Passwords(), tls=tls)
    said = "192.0.2.1:0 cannot be used to listen: Cannot assign requested address. Name a host or an address of this machine."
    assert said == str(elsewhere.value)

    said = (
        "0.0.0.0:1 can be reached from other machines, so it needs TLS: `mqflow qmgr tls` makes certificates. 127.0.0.1 is for "
        "this machine only."
    )
    assert said == str(unprotected.value)


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="lines are lent where the system has epoll: Linux")
def test_peers_of_another_protocol_need_no_idle_poller(owner: EmbeddedQueueManager, folder: Path) -> None:
    here, refuse = TcpAddress("127.0.0.1", 0), Kit(same_machine=False).peer
    peers_of: Any = lambda _: refuse  # noqa: E731 - one of another type
    with (
        serve(owner, folder / "qm") as unix,
        serve_tcp(owner, here, Passwords()) as own,
        serve_tcp(owner, here, Passwords(), peers_of=peers_of) as others,
    ):
        assert [False, False, True] == [each._idle_poller is None for each in (unix, own, others)]
