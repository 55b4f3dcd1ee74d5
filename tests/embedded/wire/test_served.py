"""A queue manager in use from other processes: lost sockets, and the login.

The conformance tests check its verbs.
"""

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.connection import ServedConnection, ServedHandle
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.administration_calls import Administer
from mqflow.embedded.wire.protocol.end_manner import End, Manner
from mqflow.embedded.wire.protocol.frames import FRAME_BYTES_MAX, FrameError, Frames
from mqflow.embedded.wire.server.client_connection import ClientConnection
from mqflow.embedded.wire.server.listener import _BEYOND_MAX, Room, Server, serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.authorities import Authority, AuthorityKind
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, NotAuthorizedError
from mqflow.mqi.options import CloseOption, GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import UNIT_BYTES_MAX, WAIT_UNLIMITED, GetOptions
from mqflow.world import Running
from tests.conformance.under_test import refused
from tests.embedded.disk_faults.disk import memory_folder

QUEUE = "ORDERS.IN"
BOTH = OpenOption.INPUT_SHARED | OpenOption.OUTPUT
UNDER_SYNCPOINT = GetOptions(options=GetOption.SYNCPOINT)
FOR_EVER = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=WAIT_UNLIMITED)
PERSISTENT = MessageDescriptor(persistence=1)


@pytest.fixture
def server(owner: EmbeddedQueueManager, folder: Path) -> Iterator[Server]:
    with serve(owner, folder / "served" / "qm") as served:
        yield served


@pytest.fixture
def connection(server: Server) -> Iterator[ServedConnection]:
    connected = ServedQueueManager(server.path, name="QM1").connect(application_name="test")
    yield connected
    connected.abandon()


def _put(owner: EmbeddedQueueManager, body: bytes = b"an order") -> None:
    owner.connect().put1(QUEUE, PERSISTENT, body, PutOption.NO_SYNCPOINT)


def _waiting(owner: EmbeddedQueueManager, wait_ms: int = 20_000) -> GetOptions:
    return GetOptions(options=GetOption.NO_SYNCPOINT | GetOption.WAIT, wait_ms=wait_ms)


# ---- what becomes of a unit of work


_CLIENT = """
import sys
from pathlib import Path
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.verbs import GetOptions
connection = ServedQueueManager(Path(sys.argv[1])).connect()
handle = connection.open("ORDERS.IN", OpenOption.INPUT_SHARED)
print(connection.get(handle, GetOptions(options=GetOption.SYNCPOINT)).body.decode(), flush=True)
sys.stdin.read()
"""


def test_a_killed_process_backs_its_unit_of_work_out(owner: EmbeddedQueueManager, server: Server) -> None:
    _put(owner)
    client = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, str(server.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert client.stdout is not None
    held = client.stdout.readline()

    client.send_signal(signal.SIGKILL)
    client.communicate()
    local = owner.connect()
    found = local.get(local.open(QUEUE, BOTH), _waiting(owner))

    assert held == "an order\n"
    assert found is not None
    assert found.descriptor.backout_count == 1


def test_an_application_that_dies_while_its_get_waits_takes_no_message_along(
    owner: EmbeddedQueueManager, server: Server, connection: ServedConnection
) -> None:
    handle = connection.open(QUEUE, BOTH)
    connection._line._frames.send(requests.encode(requests.Get(handle.number, FOR_EVER)))  # asked, and never listened to

    connection.abandon()
    while owner.administration.queue_status(QUEUE).open_input_count:  # until the owner has noticed
        threading.Event().wait(0.005)
    _put(owner)
    local = owner.connect()
    found = local.get(local.open(QUEUE, BOTH), UNDER_SYNCPOINT)

    assert found is not None
    assert found.descriptor.backout_count == 0


# ---- the owner is gone


_CALLS: dict[str, tuple[Reason, Callable[[ServedConnection, ServedHandle], object]]] = {
    "MQCMIT": (Reason.CALL_INTERRUPTED, lambda connection, _: connection.commit()),
    "MQDISC": (Reason.CALL_INTERRUPTED, lambda connection, _: connection.disconnect()),
    "MQPUT": (
        Reason.CALL_INTERRUPTED,
        lambda connection, handle: connection.put(handle, PERSISTENT, b"", PutOption.NO_SYNCPOINT),
    ),
    "MQPUT1 as the queue defines": (
        Reason.CALL_INTERRUPTED,
        lambda connection, _: connection.put1(QUEUE, MessageDescriptor(), b"", PutOption.NO_SYNCPOINT),
    ),
    "MQPUT of a message that is not persistent": (
        Reason.CONNECTION_BROKEN,
        lambda connection, handle: connection.put(handle, MessageDescriptor(persistence=0), b"", PutOption.NO_SYNCPOINT),
    ),
    "MQPUT under syncpoint": (
        Reason.CONNECTION_BROKEN,
        lambda connection, handle: connection.put(handle, PERSISTENT, b"", PutOption.SYNCPOINT),
    ),
    "MQBACK": (Reason.CONNECTION_BROKEN, lambda connection, _: connection.backout()),
    "MQSET, which a repetition does not change": (
        Reason.CONNECTION_BROKEN,
        lambda connection, handle: connection.set(handle, {10: 1}),
    ),
    "MQCLOSE": (Reason.CONNECTION_BROKEN, lambda connection, handle: connection.close(handle)),
    "MQCLOSE that deletes": (
        Reason.CALL_INTERRUPTED,
        lambda connection, handle: connection.close(handle, CloseOption.DELETE_PURGE),
    ),
    "MQCLOSE that keeps": (Reason.CONNECTION_BROKEN, lambda connection, handle: connection.close(handle, CloseOption.KEEP_SUB)),
    "MQGET": (Reason.CONNECTION_BROKEN, lambda connection, handle: connection.get(handle, UNDER_SYNCPOINT)),
}


@pytest.mark.parametrize("call", _CALLS)
def test_a_lost_socket_is_2009_or_2549_where_the_call_may_have_taken_effect(connection: ServedConnection, call: str) -> None:
    reason, make = _CALLS[call]
    handle = connection.open(QUEUE, BOTH)
    connection._line._frames.socket.shutdown(socket.SHUT_RDWR)

    with pytest.raises(MQIError, match="The owner is gone") as told:
        make(connection, handle)
    assert told.value.reason == reason
    with pytest.raises(MQIError) as later:
        connection.backout()
    assert later.value.reason in {Reason.CONNECTION_BROKEN, Reason.HCONN_ERROR}


def test_a_server_that_closes_ends_a_waiting_get_with_2009(server: Server, connection: ServedConnection) -> None:
    handle = connection.open(QUEUE, BOTH)
    told: list[int] = []

    def wait() -> None:
        try:
            connection.get(handle, FOR_EVER)
        except MQIError as error:
            told.append(error.reason)

    waiting = threading.Thread(target=wait)
    waiting.start()
    server.close()
    waiting.join()

    assert [Reason.CONNECTION_BROKEN] == told


def test_a_call_under_way_when_the_queue_manager_stops_hears_why_although_its_connection_ends(
    owner: EmbeddedQueueManager, server: Server, connection: ServedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = connection.open(QUEUE, BOTH)
    told: list[Reason | int] = []
    cut = threading.Event()
    end = ClientConnection.end

    def get() -> None:
        with pytest.raises(MQIError) as raised:
            connection.get(handle, FOR_EVER)
        told.append(raised.value.reason)

    def end_and_say(answering: ClientConnection) -> None:
        end(answering)
        cut.set()

    monkeypatch.setattr(ClientConnection, "end", end_and_say)
    getting, closing = threading.Thread(target=get), threading.Thread(target=server.close)
    getting.start()
    while not owner._state.local_queue(QUEUE).waiters:
        threading.Event().wait(0.005)

    with owner._state.lock:  # so that the get is awake, but has not answered, when its connection ends
        owner.stop()
        closing.start()
        cut.wait()
    for each in (getting, closing):
        each.join()

    assert [Reason.Q_MGR_STOPPING] == told


def test_a_queue_manager_that_no_process_serves_is_not_available(folder: Path) -> None:
    with refused(Reason.Q_MGR_NOT_AVAILABLE, match="No process serves a queue manager at"):
        ServedQueueManager(folder / "qm").connect()


# ---- who gets in


def test_a_stopped_process_with_a_full_backlog_blocks_no_client_for_ever(folder: Path) -> None:
    """After SIGSTOP the system accepts connections until the backlog is full, and then no more."""
    with socket.socket(socket.AF_UNIX) as stopped, ExitStack() as others:
        stopped.bind(str(folder / "qm"))
        stopped.listen(0)
        taken = others.enter_context(socket.socket(socket.AF_UNIX))
        taken.connect(str(folder / "qm"))

        with pytest.raises(MQIError) as told:
            ServedQueueManager(folder / "qm", silence_s=0.05).connect()

    assert Reason.Q_MGR_NOT_AVAILABLE == told.value.reason


def test_only_this_user_can_reach_the_socket(server: Server) -> None:
    assert stat.S_IMODE(server.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(server.path.parent.stat().st_mode) == 0o700


def test_another_user_is_turned_away(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    somebody_else = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody_else)

    with refused(Reason.CONNECTION_BROKEN):
        ServedQueueManager(server.path).connect()


def test_a_queue_manager_of_another_name_is_2058(server: Server) -> None:
    with refused(Reason.Q_MGR_NAME_ERROR, match="The queue manager served here is QM1"):
        ServedQueueManager(server.path, name="QM2").connect()


def test_another_version_of_the_protocol_is_refused_with_both_versions(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "PROTOCOL_VERSION", 1)
    frames = _raw(server)
    answer = frames.exchange(requests.encode(requests.Hello(99, "", "", "")))
    failure = requests.decode_reply(requests.Commit(), answer).failure

    assert failure is not None
    assert failure.detail == "The owner speaks version 1 of the protocol, the application 99"
    frames.socket.close()


def test_too_many_connections_are_refused_with_2025_at_all_addresses_until_one_ends(owner: EmbeddedQueueManager) -> None:
    room = Room(2)
    with memory_folder() as folder, serve(owner, folder / "one", room=room) as one, serve(owner, folder / "two", room=room):
        first = ServedQueueManager(folder / "one").connect()
        second = ServedQueueManager(folder / "two").connect()

        with pytest.raises(MQIError) as told:
            ServedQueueManager(folder / "two").connect()
        first.disconnect()
        while one.connection_count:
            threading.Event().wait(0.001)
        ServedQueueManager(folder / "two").connect().disconnect()
        second.disconnect()

    assert told.value.reason == Reason.MAX_CONNS_LIMIT_REACHED
    assert "The limit of 2 served connections is reached; --max-connections changes it" in str(told.value)


# ---- beyond the limit


@pytest.fixture
def full(owner: EmbeddedQueueManager, folder: Path) -> Iterator[Server]:
    """A server without a place for an application."""
    with serve(owner, folder / "full", room=Room(0)) as served:
        yield served


def test_a_full_server_still_serves_an_administrator(owner: EmbeddedQueueManager, folder: Path) -> None:
    ordered: list[requests.HostOrder] = []
    with serve(owner, folder / "qm", room=Room(0), host=ordered.append) as server:
        administration = ServedQueueManager(server.path).administration
        administration.define(QueueAttributes(name="NEW.QUEUE"))
        administration.order(requests.EndQueueManager(End(Manner.IMMEDIATE)))
        administration.close()

    assert owner.administration.queue("NEW.QUEUE") is not None
    assert [requests.EndQueueManager(End(Manner.IMMEDIATE))] == ordered


def _as_an_administrator(server: Server, user: str = "") -> Frames:
    """Connect as an administrator. Return the stream after the server has accepted the claim."""
    frames = _raw(server)
    hello = requests.Hello(requests.PROTOCOL_VERSION, "", "test", user, administers=True)
    failure = requests.decode_reply(hello, frames.exchange(requests.encode(hello))).failure
    if failure is not None:
        frames.socket.close()
        raise requests.error_of(failure)
    return frames


def test_an_application_that_calls_itself_an_administrator_can_call_no_verb(server: Server, full: Server) -> None:
    for each in (server, full):
        for request in (requests.Commit(), requests.Hello(requests.PROTOCOL_VERSION, "", "", "")):
            frames = _as_an_administrator(each)
            with pytest.raises(FrameError, match="the peer ended the connection"):
                frames.exchange(requests.encode(request))
            frames.socket.close()


def test_a_user_without_authority_gets_no_place_as_an_administrator(owner: EmbeddedQueueManager, full: Server) -> None:
    owner.administration.authorities.set(AuthorityKind.QMGR, "", "app", group=False, add=(Authority.CONNECT,), remove=())

    with pytest.raises(NotAuthorizedError, match="User app does not administer it"):
        _as_an_administrator(full, "app")


def test_an_applications_connection_administers_nothing(server: Server, connection: ServedConnection) -> None:
    with refused(Reason.CONNECTION_BROKEN):
        connection._line.call(Administer("clear", {"name": QUEUE}), "CLEAR")


def test_a_queue_manager_that_quiesces_obeys_its_administrator_still(owner: EmbeddedQueueManager, folder: Path) -> None:
    ordered: list[requests.HostOrder] = []
    with serve(owner, folder / "qm", host=ordered.append) as server:
        manager = ServedQueueManager(server.path)
        connection = manager.connect()
        owner.stop(immediate=False)

        manager.administration.order(requests.EndQueueManager(End(Manner.IMMEDIATE)))
        connection.backout()  # the connection works meanwhile
        connection.disconnect()
        while not owner.stopped:  # though its administrator is connected
            threading.Event().wait(0.001)
        manager.close()

    assert 1 == len(ordered)


def test_silent_peers_beyond_the_limit_delay_no_other_peer(full: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.embedded.wire.server.listener._BEYOND_HELLO_S", 1_000.0)
    silent = [_raw(full) for _ in range(_BEYOND_MAX - 1)]

    with refused(Reason.MAX_CONNS_LIMIT_REACHED):
        ServedQueueManager(full.path).connect()

    for each in silent:
        each.socket.close()


def test_one_more_peer_than_the_places_beyond_the_limit_is_disconnected_at_once(
    full: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.embedded.wire.server.listener._BEYOND_HELLO_S", 1_000.0)
    silent = [_raw(full) for _ in range(_BEYOND_MAX)]

    one_more = _raw(full)
    assert one_more.receive() is None
    assert _BEYOND_MAX == full.connection_count

    for each in (*silent, one_more):
        each.socket.close()


def test_a_peer_that_is_refused_beyond_the_limit_frees_its_place(full: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.embedded.wire.server.listener._BEYOND_HELLO_S", 0.0)
    silent = [_raw(full) for _ in range(_BEYOND_MAX)]
    for each in silent:
        assert each.receive() is None
        each.socket.close()
    while full.connection_count:
        threading.Event().wait(0.001)

    ServedQueueManager(full.path).administration.close()


class _NoDescriptorsLeft:
    """A listening socket that fails to accept once, as when the process has too many files open."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.failures = 0

    def accept(self) -> tuple[socket.socket, object]:
        if not self.failures:
            self.failures += 1
            raise OSError(24, os.strerror(24))
        return self._listener.accept()

    def fileno(self) -> int:
        return self._listener.fileno()

    def close(self) -> None:
        self._listener.close()


def test_an_accept_that_fails_is_tried_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.embedded.wire.server.listener._ACCEPT_AGAIN_S", 0.0)
    failing = _NoDescriptorsLeft(server._listener)
    server._listener = failing  # type: ignore[assignment]  # it has what the server uses

    ServedQueueManager(server.path).connect().disconnect()

    assert failing.failures == 1


def test_a_connection_without_room_keeps_no_other_connection_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.embedded.wire.server.listener._ACCEPT_AGAIN_S", 0.0)
    failures: list[BaseException] = [
        OSError(errno.EMFILE, os.strerror(errno.EMFILE)),  # the socket was there, the pair to wake its thread was not
        RuntimeError("can't start new thread"),
    ]
    start = server._runner.start

    def starting(work: Callable[[], None], name: str) -> Running:
        if failures:
            raise failures.pop(0)
        return start(work, name)

    monkeypatch.setattr(server, "_runner", SimpleNamespace(start=starting))
    for _ in range(2):
        with refused(Reason.CONNECTION_BROKEN):
            ServedQueueManager(server.path).connect()

    ServedQueueManager(server.path).connect().disconnect()

    assert 0 == len(failures)


# ---- what is no request


def _raw(server: Server) -> Frames:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.connect(str(server.path))
    return Frames(stream)


@pytest.mark.parametrize(
    "sent",
    [b"", b"\x00\x00", b"\x00\x00\x00\x05GET", b"\x00\x00\x00\x03GET", (FRAME_BYTES_MAX + 1).to_bytes(4), b"\xff" * 64],
    ids=["nothing", "half a length", "half a frame", "no request", "too long", "noise"],
)
def test_a_peer_with_another_protocol_is_disconnected_and_others_are_served(
    owner: EmbeddedQueueManager, server: Server, sent: bytes
) -> None:
    stranger = _raw(server)
    stranger.socket.send(sent)
    stranger.socket.shutdown(socket.SHUT_WR)

    assert stranger.socket.recv(1) == b""
    stranger.socket.close()
    ServedQueueManager(server.path).connect().disconnect()


def test_the_server_keeps_nothing_of_a_long_frame_before_the_hello(server: Server) -> None:
    stranger = _raw(server)
    stranger.socket.send((1_000_000).to_bytes(4))

    assert stranger.socket.recv(1) == b""  # the server does not wait for the stranger
    stranger.socket.close()


def test_a_second_hello_ends_the_connection(server: Server, connection: ServedConnection) -> None:
    with refused(Reason.CONNECTION_BROKEN):
        connection._line.call(requests.Hello(requests.PROTOCOL_VERSION, "", "", ""), "MQCONNX")


def test_a_message_of_many_frames_length_arrives_whole(owner: EmbeddedQueueManager, connection: ServedConnection) -> None:
    body = os.urandom(3_000_000)
    handle = connection.open(QUEUE, BOTH)

    connection.put(handle, PERSISTENT, body, PutOption.NO_SYNCPOINT)
    got = connection.get(handle, UNDER_SYNCPOINT)

    assert got is not None
    assert body == got.body


def test_an_answer_to_any_request_is_bounded(owner: EmbeddedQueueManager, connection: ServedConnection) -> None:
    """The whole answer is in memory. An answer too long for a frame would end the connection and its unit of work."""
    owner.administration.alter(QUEUE, {"max_depth": 2 * requests.MANY_MAX})
    local = owner.connect()
    output = local.open(QUEUE, OpenOption.OUTPUT)
    for many in (requests.MANY_MAX // 2, requests.MANY_MAX // 2 + 1):
        local.put_many(output, [(MessageDescriptor(), b"")] * many, PutOption.SYNCPOINT)
        local.commit()
    browse = GetOptions(options=GetOption.BROWSE_NEXT)
    handle = connection.open(QUEUE, OpenOption.BROWSE)

    unit = connection.get_many(handle, browse, 10**9, bytes_max=2**62)

    assert len(unit) == requests.MANY_MAX


@pytest.mark.parametrize("bound", [{"most": requests.MANY_MAX + 1}, {"bytes_max": UNIT_BYTES_MAX + 1}], ids=str)
def test_a_request_for_more_than_an_answer_may_hold_is_refused(connection: ServedConnection, bound: dict[str, int]) -> None:
    handle = connection.open(QUEUE, OpenOption.BROWSE)
    browse = GetOptions(options=GetOption.BROWSE_NEXT)

    with refused(Reason.CONNECTION_BROKEN):
        connection._line.call(requests.GetMany(handle.number, browse, **({"most": 1} | bound)), "MQGET")


def test_a_frame_that_is_too_long_is_refused_before_it_is_sent(connection: ServedConnection) -> None:
    with refused(Reason.MSG_TOO_BIG_FOR_Q_MGR):
        connection.put1(QUEUE, PERSISTENT, bytes(FRAME_BYTES_MAX), PutOption.NO_SYNCPOINT)
    connection.backout()  # the connection is as good as before


# ---- the socket


def test_a_server_that_ends_leaves_the_socket_of_another_where_it_is(owner: EmbeddedQueueManager, folder: Path) -> None:
    """The server's folder was moved away, and another server serves a new folder at the same path: it must stay reachable."""
    with serve(owner, folder / "data" / "qm"):
        (folder / "data").rename(folder / "moved")
        other = serve(owner, folder / "data" / "qm")

    ServedQueueManager(other.path).connect().disconnect()
    other.close()
    assert not other.path.exists()


def test_a_user_that_does_not_administer_the_queue_manager_changes_no_definition(
    owner: EmbeddedQueueManager, server: Server
) -> None:
    owner.administration.authorities.set(AuthorityKind.QMGR, "", "app", group=False, add=(Authority.CONNECT,), remove=())
    as_app, as_owner = ServedQueueManager(server.path, user="app"), ServedQueueManager(server.path)

    with pytest.raises(NotAuthorizedError):
        as_app.administration.define(QueueAttributes(name="THEIRS"))
    with pytest.raises(NotAuthorizedError):
        as_app.administration.authorities.records()
    as_owner.administration.define(QueueAttributes(name="OURS"))

    names = {queue.name for queue in as_owner.administration.queues()}
    assert {"OURS"} == names & {"OURS", "THEIRS"}
    as_app.close()
    as_owner.close()
