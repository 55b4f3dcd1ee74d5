"""A queue manager served over TCP: users with a password, TLS between machines, and no service for others."""

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.state.users import login
from mqflow.embedded.wire.client.dial import dial
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.protocol.frames import Frames
from mqflow.embedded.wire.server.certificates import CertificateFiles, client_context, make_certificates, server_context
from mqflow.embedded.wire.server.listener import Room, Server, serve, serve_tcp
from mqflow.embedded.wire.server.strangers import StrangerLimits
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.authorities import QUEUE_MANAGER_PROFILE, Authority, AuthorityKind
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.verbs import GetOptions
from tests.conformance.under_test import refused
from tests.embedded.disk_faults.disk import memory_folder

HERE = TcpAddress("127.0.0.1", 0)
QUEUE = "ORDERS.IN"
BOTH = OpenOption.INPUT_SHARED | OpenOption.OUTPUT
SECRET = "correct horse"  # noqa: S105 - a test's


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    folder = tmp_path_factory.mktemp("tls")
    return make_certificates(folder, ["127.0.0.1", "localhost"], name="QM1", now=datetime.now(UTC))


@pytest.fixture
def users(tmp_path: Path) -> UsersFile:
    users = UsersFile(tmp_path / "users.json", salt=lambda size: bytes(range(size)), cost=2)
    users.set("alice", SECRET)
    return users


@pytest.fixture
def owner() -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name=QUEUE))
        grant = queue_manager.administration.authorities.set
        grant(AuthorityKind.QMGR, QUEUE_MANAGER_PROFILE, "alice", group=False, add={Authority.CONNECT}, remove=())
        grant(AuthorityKind.QUEUE, QUEUE, "alice", group=False, add={Authority.GET, Authority.PUT}, remove=())
        yield queue_manager


@pytest.fixture
def plain(owner: EmbeddedQueueManager, users: UsersFile) -> Iterator[Server]:
    with serve_tcp(owner, HERE, users) as server:
        yield server


@pytest.fixture
def secure(owner: EmbeddedQueueManager, users: UsersFile, certificates: CertificateFiles) -> Iterator[Server]:
    with serve_tcp(owner, HERE, users, tls=server_context(certificates.certificate, certificates.key)) as server:
        yield server


def alice(server: Server, tls: ssl.SSLContext | None = None, password: str = SECRET) -> ServedQueueManager:
    return ServedQueueManager(server.address, user="alice", password=password, tls=tls)


def moves_a_message(manager: ServedQueueManager, body: bytes) -> None:
    connection = manager.connect()
    handle = connection.open(QUEUE, BOTH)
    connection.put(handle, MessageDescriptor(), body, PutOption.SYNCPOINT)
    connection.commit()
    got = connection.get(handle, GetOptions(options=GetOption.SYNCPOINT))
    connection.commit()
    connection.disconnect()

    assert got is not None
    assert (body, "alice") == (got.body, got.descriptor.user_identifier)


def test_a_user_with_a_password_works_over_tcp(plain: Server) -> None:
    moves_a_message(alice(plain), b"an order")


def test_a_user_with_a_password_works_over_tls(secure: Server, certificates: CertificateFiles) -> None:
    moves_a_message(alice(secure, client_context(certificates.authority)), b"an order" * 100_000)


@pytest.mark.parametrize("protected", [False, True], ids=["tcp", "tls"])
def test_a_user_who_takes_no_bytes_does_not_hold_up_the_end_of_the_server(
    owner: EmbeddedQueueManager,
    users: UsersFile,
    certificates: CertificateFiles,
    monkeypatch: pytest.MonkeyPatch,
    *,
    protected: bool,
) -> None:
    monkeypatch.setattr("mqflow.embedded.wire.server.listener.LAST_SEND_S", 0.02)
    owner.administration.alter_queue_manager({"max_message_bytes": 16_000_000})
    owner.administration.alter(QUEUE, {"max_message_bytes": 16_000_000})
    here = owner.connect()
    here.put1(QUEUE, MessageDescriptor(), bytes(16_000_000), PutOption.NO_SYNCPOINT)
    tls = server_context(certificates.certificate, certificates.key) if protected else None
    with serve_tcp(owner, HERE, users, tls=tls, silence_s=1_000.0) as server:
        stream = dial(server.address, client_context(certificates.authority) if protected else None, 10.0)
        frames = Frames(stream)
        for request in (
            requests.Hello(requests.PROTOCOL_VERSION, "QM1", "slow", "alice", SECRET),
            requests.Open(QUEUE, options=int(OpenOption.INPUT_SHARED)),
        ):
            assert requests.decode_reply(request, frames.exchange(requests.encode(request))).failure is None
        frames.send(requests.encode(requests.Get(1, GetOptions(options=GetOption.SYNCPOINT))))
        assert stream.recv(1)  # the first byte of the reply

    stream.close()
    again = here.get(here.open(QUEUE, OpenOption.INPUT_SHARED), GetOptions())
    assert again is not None
    assert (16_000_000, 1) == (again.data_bytes, again.descriptor.backout_count)


def test_a_get_waits_and_hearts_beat_over_tls(
    owner: EmbeddedQueueManager, users: UsersFile, certificates: CertificateFiles
) -> None:
    context = server_context(certificates.certificate, certificates.key)
    with serve_tcp(owner, HERE, users, tls=context, silence_s=1.5) as server:
        trusting = client_context(certificates.authority)
        manager = ServedQueueManager(server.address, user="alice", password=SECRET, tls=trusting, silence_s=1.5)
        connection = manager.connect()
        handle = connection.open(QUEUE, BOTH)
        patient = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=2_000)

        assert connection.get(handle, patient) is None
        later = threading.Thread(target=lambda: owner.connect().put1(QUEUE, MessageDescriptor(), b"x", PutOption.NO_SYNCPOINT))
        later.start()
        got = connection.get(handle, GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=30_000))
        later.join()
        manager.close()

    assert got is not None


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("bob", SECRET), ("", "")])
def test_a_wrong_user_or_password_is_refused_without_a_hint(plain: Server, user: str, password: str) -> None:
    with refused(Reason.NOT_AUTHORIZED, match="has that password"):
        ServedQueueManager(plain.address, user=user, password=password).connect()


def test_a_user_whose_name_fits_into_no_message_is_refused_with_the_reason(plain: Server, users: UsersFile) -> None:
    with pytest.raises(ValueError, match="13 characters, and a user identifier of MQ"):
        users.set("a" * 13, SECRET)
    with refused(Reason.NOT_AUTHORIZED, match="13 characters"):
        ServedQueueManager(plain.address, user="a" * 13, password=SECRET).connect()


def test_without_a_grant_a_user_with_a_password_cannot_connect(users: UsersFile) -> None:
    with (
        EmbeddedQueueManager("QM1") as nothing_granted,
        serve_tcp(nothing_granted, HERE, users) as server,
        pytest.raises(MQIError, match="User alice lacks CONNECT on the queue manager") as refused,
    ):
        alice(server).connect()

    assert Reason.NOT_AUTHORIZED == refused.value.reason


def test_a_user_that_can_connect_cannot_administer(plain: Server) -> None:
    with refused(Reason.NOT_AUTHORIZED, match="User alice does not administer it"):
        alice(plain).administration.queue(QUEUE)


def test_the_owner_can_make_a_user_an_administrator_and_take_that_back(plain: Server, users: UsersFile) -> None:
    users.set("alice", SECRET, administrator=True)
    manager = alice(plain)
    known = manager.administration.queue(QUEUE)
    assert known is not None
    assert QUEUE == known.name

    users.set("alice", SECRET)

    with pytest.raises(MQIError, match="User alice does not administer it"):
        manager.administration.queue(QUEUE)
    manager.close()


@pytest.mark.parametrize("name", ["mqm", login()])
def test_the_name_of_a_local_administrator_is_refused_over_tcp(
    owner: EmbeddedQueueManager, users: UsersFile, name: str
) -> None:
    users.set(name, SECRET)
    with serve_tcp(owner, HERE, users) as server:
        manager = ServedQueueManager(server.address, user=name, password=SECRET)
        with pytest.raises(MQIError, match="administers the queue manager on its own machine, but not over TCP") as refused:
            manager.connect()
        users.set(name, SECRET, administrator=True)
        manager.connect().disconnect()
        manager.close()

    assert Reason.NOT_AUTHORIZED == refused.value.reason


def test_a_member_of_the_group_mqm_is_refused_over_tcp(users: UsersFile) -> None:
    with (
        EmbeddedQueueManager("QM1", groups=lambda user: frozenset({"mqm"} if user == "alice" else ())) as queue_manager,
        serve_tcp(queue_manager, HERE, users) as server,
        pytest.raises(MQIError, match="administers the queue manager on its own machine, but not over TCP"),
    ):
        alice(server).connect()


def test_the_owner_administers_by_the_unix_socket_while_other_machines_can_connect(users: UsersFile) -> None:
    with (
        memory_folder() as folder,
        EmbeddedQueueManager("QM1") as queue_manager,
        serve_tcp(queue_manager, HERE, users),
        serve(queue_manager, folder / "qm") as local,
    ):
        manager = ServedQueueManager(local.path)
        manager.administration.define(QueueAttributes(name=QUEUE))
        manager.connect().put1(QUEUE, MessageDescriptor(), b"an order", PutOption.NO_SYNCPOINT)
        manager.close()

        assert 1 == queue_manager.administration.queue_status(QUEUE).depth


def test_a_user_that_is_removed_is_out_at_once(plain: Server, users: UsersFile) -> None:
    assert users.remove("alice")

    with pytest.raises(MQIError, match="MQRC_NOT_AUTHORIZED"):
        alice(plain).connect()


def test_a_server_with_an_untrusted_certificate_is_refused(secure: Server) -> None:
    with refused(Reason.SSL_INITIALIZATION_ERROR, match=r"is not trusted.*ca=FILE in the URL names the authority to trust"):
        alice(secure, client_context()).connect()


def test_a_certificate_is_for_its_hosts_only(owner: EmbeddedQueueManager, users: UsersFile, tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "other", ["mq.example"], name="QM1", now=datetime.now(UTC))
    with (
        serve_tcp(owner, HERE, users, tls=server_context(files.certificate, files.key)) as server,
        pytest.raises(MQIError, match="is not trusted"),
    ):
        alice(server, client_context(files.authority)).connect()


def test_a_queue_manager_that_ends_in_the_middle_of_tls_is_tried_again(certificates: CertificateFiles) -> None:
    """A switchover ends a queue manager like this. A reason of TLS means wrong settings: the application would end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ending = threading.Thread(target=_hear_and_end, args=(listener,))
        ending.start()
        address = TcpAddress("127.0.0.1", listener.getsockname()[1])
        with pytest.raises(MQIError) as told:
            ServedQueueManager(address, user="alice", password=SECRET, tls=client_context(certificates.authority)).connect()
        ending.join()

    assert classify(told.value.reason) is Class.RECONNECT


def _hear_and_end(listener: socket.socket) -> None:
    stream, _ = listener.accept()
    with stream:
        stream.recv(64 * 1024)


def test_a_client_without_tls_gets_no_answer(secure: Server) -> None:
    with refused(Reason.CONNECTION_BROKEN) as lost:
        alice(secure).connect()

    assert "If it is served with TLS, the URL is embedded+tls:" in str(lost.value)


def test_too_many_connections_are_refused_over_tls_too(
    owner: EmbeddedQueueManager, users: UsersFile, certificates: CertificateFiles
) -> None:
    context = server_context(certificates.certificate, certificates.key)
    with serve_tcp(owner, HERE, users, tls=context, room=Room(0)) as server, pytest.raises(MQIError) as refused:
        alice(server, client_context(certificates.authority)).connect()

    assert Reason.MAX_CONNS_LIMIT_REACHED == refused.value.reason


def test_strangers_at_a_port_take_no_place_of_an_application(owner: EmbeddedQueueManager, users: UsersFile) -> None:
    room, limits = Room(2), StrangerLimits(most=4, hello_s=1_000.0, patience_s=1_000.0)  # an administrator and an application
    with (
        memory_folder() as folder,
        serve_tcp(owner, HERE, users, room=room, strangers=limits) as server,
        serve(owner, folder / "qm", room=room),
    ):
        assert isinstance(server.address, TcpAddress)
        strangers = [socket.create_connection((server.address.host, server.address.port)) for _ in range(5)]
        local = ServedQueueManager(folder / "qm")
        assert "QM1" == local.administration.queue_manager.name
        local.connect().disconnect()
        local.close()
        for stranger in strangers:
            stranger.close()
        alice(server).connect().disconnect()


def test_a_peer_without_a_hello_in_time_is_disconnected(owner: EmbeddedQueueManager, users: UsersFile) -> None:
    limits = StrangerLimits(hello_s=0.0)
    # With a long silence, so that the silence does not end the connection.
    with serve_tcp(owner, HERE, users, silence_s=3_600, strangers=limits) as server:
        assert isinstance(server.address, TcpAddress)
        with socket.create_connection((server.address.host, server.address.port), timeout=20) as stranger:
            assert b"" == stranger.recv(1)


def test_a_damaged_file_of_users_refuses_log_ins_and_leaves_those_that_are_connected(plain: Server, tmp_path: Path) -> None:
    manager = alice(plain)
    before = manager.connect()
    (tmp_path / "users.json").write_text("{")

    with pytest.raises(MQIError, match=r"UNEXPECTED_ERROR \(2195\)\. The queue manager cannot read its users") as raised:
        manager.connect()
    put = before.put1(QUEUE, MessageDescriptor(), b"an order", PutOption.NO_SYNCPOINT)

    assert "alice" == put.descriptor.user_identifier
    assert str(tmp_path) not in str(raised.value)


def test_more_applications_than_places_for_strangers_connect_at_the_same_time(
    owner: EmbeddedQueueManager, users: UsersFile
) -> None:
    connected: list[str] = []
    with serve_tcp(owner, HERE, users, strangers=StrangerLimits(most=4)) as server:

        def connect() -> None:
            manager = alice(server)
            connected.append(manager.connect().queue_manager_name)
            manager.close()

        applications = [threading.Thread(target=connect) for _ in range(40)]
        for application in applications:
            application.start()
        for application in applications:
            application.join()

    assert ["QM1"] * 40 == connected


def test_administrators_that_logged_in_leave_the_places_of_strangers(owner: EmbeddedQueueManager, users: UsersFile) -> None:
    users.set("alice", SECRET, administrator=True)
    with serve_tcp(owner, HERE, users, room=Room(3), strangers=StrangerLimits(most=2)) as server:
        manager = alice(server)
        administrations = [manager.administration for _ in range(5)]  # the last two beyond the limit of applications

        assert ["QM1"] * 5 == [administration.queue_manager.name for administration in administrations]
        manager.close()
