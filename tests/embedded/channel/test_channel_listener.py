"""A client program of MQ connects over the network: log-in, verbs, messages, refusals, and bytes that are no flow."""

import contextlib
import random
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from mqflow.embedded.channel.listener import serve_channel
from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.certificates import client_context, make_certificates, server_context
from mqflow.embedded.wire.server.listener import Room, Server, UnprotectedAddressError
from mqflow.embedded.wire.server.password_guard import PasswordGuard
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.fap.async_messages import Notice, Notification
from mqflow.fap.calls import REPLY
from mqflow.fap.connection_flows import Credentials, StatusCode
from mqflow.fap.fields import Reader
from mqflow.fap.transmission_segments import ONLY, Flag, Flow, Header, SegmentType, kind_name, segments_of, to_segment
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions
from mqflow.world import SYSTEM_WORLD
from tests.embedded.channel.conftest import APP, Dial
from tests.fap.client_half import ORDER, ChannelClient, Golden, flow_of, golden_of, initial_data, open_body
from tests.queue_contents import put

INPUT = OpenOption.INPUT_SHARED | OpenOption.INQUIRE | OpenOption.BROWSE
NOW = GetOptions()
DURABLE = MessageDescriptor(persistence=1)
XAER_RMERR = -3
FLOWS = Path(__file__).with_name("flows.json")


@pytest.fixture
def negotiated(dial: Dial) -> ChannelClient:
    """A client program that has agreed with the listener, and has not logged in."""
    client = dial()
    client.negotiate()
    return client


@pytest.fixture
def two_places(room: Room) -> None:
    """Leave two places."""
    assert [True, True] == [room.take(), room.take()]


# -- connecting


def test_the_client_and_the_listener_agree_on_the_lower_level(dial: Dial) -> None:
    agreed = dial().negotiate()

    assert (12, 10, 32_748, "QM1") == (
        agreed.level,
        agreed.conversations_max,
        agreed.transmission_bytes_max,
        agreed.queue_manager,
    )


@pytest.mark.parametrize("credentials", [Credentials("app", "wrong"), None], ids=["wrong", "none"])
def test_a_wrong_password_is_refused_with_2035(negotiated: ChannelClient, credentials: Credentials | None) -> None:
    if credentials is not None:
        negotiated.log_in(credentials)

    assert Reason.NOT_AUTHORIZED == negotiated.connect().reason


def test_a_user_without_authority_is_refused_with_2035(negotiated: ChannelClient) -> None:
    negotiated.log_in(Credentials("guest", "guest"))

    assert Reason.NOT_AUTHORIZED == negotiated.connect().reason


def test_several_listeners_can_check_passwords_with_one_guard(queue_manager: EmbeddedQueueManager, tmp_path: Path) -> None:
    users = UsersFile(tmp_path / "users.json", bytes, cost=2)
    users.set("app", "secret")
    guard = PasswordGuard(users, SYSTEM_WORLD)
    nobody = UsersFile(tmp_path / "nobody.json", bytes, cost=2)

    for _ in range(2):
        with serve_channel(queue_manager, TcpAddress("127.0.0.1", 0), nobody, guard=guard) as server:
            assert isinstance(server.address, TcpAddress)
            with contextlib.closing(ChannelClient(server.address.port)) as client:
                client.begin(APP)


@pytest.mark.parametrize("name", ["", "QM1", "*", "*GROUP"])
def test_the_name_of_a_group_of_queue_managers_is_accepted(negotiated: ChannelClient, name: str) -> None:
    negotiated.log_in(APP)

    assert Reason.NONE == negotiated.connect(queue_manager=name).reason


@pytest.mark.parametrize(("asked", "put"), [(28, 28), (11, 11), (7, 6), (-1, 6)])
def test_a_client_program_says_what_it_is_but_cannot_be_a_queue_manager(
    negotiated: ChannelClient, queue_manager: EmbeddedQueueManager, asked: int, put: int
) -> None:
    negotiated.log_in(APP)
    negotiated.connect(application_type=asked)
    negotiated.put(negotiated.open("Q1", OpenOption.OUTPUT).handle, b"hello", PutOption.NO_SYNCPOINT)

    connection = queue_manager.connect()
    got = connection.get(connection.open("Q1", OpenOption.INPUT_SHARED), NOW)

    assert got is not None
    assert (put, "a test") == (got.descriptor.put_application_type, got.descriptor.put_application_name)


def test_another_queue_manager_is_refused_with_2058(negotiated: ChannelClient) -> None:
    negotiated.log_in(APP)

    assert Reason.Q_MGR_NAME_ERROR == negotiated.connect(queue_manager="QM2").reason


def test_a_socket_beyond_the_limit_is_refused_with_2025(dial: Dial, two_places: None) -> None:
    first, second, third = dial().begin(APP), dial().begin(APP), dial()
    third.negotiate()
    third.log_in(APP)

    assert Reason.MAX_CONNS_LIMIT_REACHED == third.connect().reason
    assert first.open("Q1", INPUT).reason == second.open("Q1", INPUT).reason == 0


def second_conversation(client: ChannelClient, conversation: int = 3) -> int:
    """Begin another conversation of the socket, and return the reason of its MQCONN."""
    client.send(SegmentType.SOCKET_ACTION, b"".join(n.to_bytes(4) for n in (conversation, 0, 1, 1, 2)), conversation=None)
    client.expect(SegmentType.SOCKET_ACTION)
    assert (0, 0) == client.log_in(APP, conversation=conversation)
    return client.connect(conversation=conversation).reason


def test_each_conversation_of_a_socket_takes_a_place(client: ChannelClient, dial: Dial, two_places: None) -> None:
    assert 0 == second_conversation(client)

    assert Reason.MAX_CONNS_LIMIT_REACHED == second_conversation(client, 5)
    other = dial()
    other.negotiate()
    other.log_in(APP)
    assert Reason.MAX_CONNS_LIMIT_REACHED == other.connect().reason


@pytest.mark.parametrize("first", [1, 3])
def test_a_conversation_that_disconnects_gives_its_place_back(
    client: ChannelClient, dial: Dial, first: int, two_places: None
) -> None:
    assert 0 == second_conversation(client)

    client.call(SegmentType.MQDISC, conversation=first)

    other = dial().begin(APP)
    assert Reason.MAX_CONNS_LIMIT_REACHED == client.connect(conversation=first).reason
    other.call(SegmentType.MQDISC)
    assert 0 == other.connect().reason


def test_a_conversation_that_is_refused_takes_no_place(client: ChannelClient, dial: Dial, two_places: None) -> None:
    client.send(SegmentType.SOCKET_ACTION, b"".join(n.to_bytes(4) for n in (5, 0, 1, 1, 2)), conversation=None)
    client.expect(SegmentType.SOCKET_ACTION)
    client.log_in(Credentials("guest", "guest"), conversation=5)
    assert Reason.NOT_AUTHORIZED == client.connect(conversation=5).reason

    assert 0 == dial().begin(APP).open("Q1", INPUT).reason


def test_flows_that_come_with_the_end_of_the_handshake_are_answered(
    queue_manager: EmbeddedQueueManager, tmp_path: Path
) -> None:
    users, now = UsersFile(tmp_path / "users.json", bytes), datetime.now(UTC)
    made = make_certificates(tmp_path / "tls", ["127.0.0.1"], name="QM1", now=now)
    incoming, outgoing, trusting = ssl.MemoryBIO(), ssl.MemoryBIO(), ssl.create_default_context(cafile=made.authority)
    program = trusting.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    first = to_segment(Header(kind=SegmentType.INITIAL_DATA, flags=ONLY), initial_data().to_bytes(ORDER))

    tls = server_context(made.certificate, made.key)
    with serve_channel(queue_manager, TcpAddress("127.0.0.1", 0), users, tls=tls) as server:
        assert isinstance(server.address, TcpAddress)
        with socket.create_connection(("127.0.0.1", server.address.port), timeout=5) as raw:

            def feed() -> None:
                raw.sendall(outgoing.read())
                incoming.write(raw.recv(65_536))

            step(program.do_handshake, feed)
            program.write(first)  # the last bytes of the handshake are still here

            assert step(lambda: program.read(4), feed) == b"TSH "


def step(call: Callable[[], bytes | None], feed: Callable[[], None]) -> bytes | None:
    """Make a call of TLS, which gets as many bytes from the socket as it wants."""
    while True:
        try:
            return call()
        except ssl.SSLWantReadError:
            feed()


def test_a_program_behind_tls_gets_its_messages(queue_manager: EmbeddedQueueManager, tmp_path: Path) -> None:
    users = UsersFile(tmp_path / "users.json", bytes, cost=2)
    users.set("app", "secret")
    made = make_certificates(tmp_path / "tls", ["127.0.0.1"], name="QM1", now=datetime.now(UTC))
    tls = server_context(made.certificate, made.key)
    secure = "DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12) SSLCAUTH(OPTIONAL)"
    assert 0 == run(secure, queue_manager.administration).exit_code()

    with serve_channel(queue_manager, TcpAddress("127.0.0.1", 0), users, tls=tls) as server:
        assert isinstance(server.address, TcpAddress)
        with contextlib.closing(ChannelClient(server.address.port, client_context(made.authority))) as client:
            handle = client.begin(APP).open("Q1", INPUT | OpenOption.OUTPUT).handle
            client.put(handle, bytes(100_000), PutOption.NO_SYNCPOINT)
            client.ask(handle, GetOption.NO_SYNCPOINT)

            assert bytes(100_000) == client.message().body


def test_an_address_beyond_this_machine_needs_tls(queue_manager: EmbeddedQueueManager, tmp_path: Path) -> None:
    with pytest.raises(UnprotectedAddressError, match="needs TLS"):
        serve_channel(queue_manager, TcpAddress("0.0.0.0", 0), UsersFile(tmp_path / "users.json", bytes))  # noqa: S104 - refused


# -- verbs


def test_a_message_goes_to_the_queue_and_comes_back(client: ChannelClient) -> None:
    handle = client.open("Q1", INPUT | OpenOption.OUTPUT).handle
    assert 0 == client.put(handle, b"hello", PutOption.NO_SYNCPOINT).reason

    client.ask(handle, GetOption.NO_SYNCPOINT)

    message = client.message()
    assert (handle, b"hello", "MQSTR") == (message.handle, message.body, message.descriptor.format)


def test_a_long_message_goes_and_comes_in_several_segments(client: ChannelClient) -> None:
    body = bytes(range(256)) * 800
    handle = client.open("Q1", INPUT | OpenOption.OUTPUT).handle
    client.put(handle, body, PutOption.NO_SYNCPOINT)

    client.ask(handle, GetOption.NO_SYNCPOINT)

    assert body == client.message().body


def test_a_program_that_takes_no_bytes_does_not_hold_up_the_end_of_the_listener(
    dial: Dial, queue_manager: EmbeddedQueueManager, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.embedded.wire.server.listener.LAST_SEND_S", 0.02)
    monkeypatch.setattr("mqflow.embedded.channel.peer._SEND_S", 1_000.0)
    run("ALTER QMGR MAXMSGL(16000000)\nALTER QLOCAL(Q1) MAXMSGL(16000000)", queue_manager.administration)
    put(queue_manager, "Q1", bytes(16_000_000), descriptor=DURABLE)
    client = dial().begin(APP)
    handle = client.open("Q1", INPUT).handle
    client.ask(handle, GetOption.SYNCPOINT)
    client.expect(SegmentType.ASYNC_MESSAGE)

    server.close()

    reader = queue_manager.connect()
    [got] = reader.get_many(reader.open("Q1", OpenOption.INPUT_SHARED), NOW, 1)
    assert (16_000_000, 1) == (got.data_bytes, got.descriptor.backout_count)


def test_a_commit_makes_the_put_messages_visible(client: ChannelClient, queue_manager: EmbeddedQueueManager) -> None:
    reader = queue_manager.connect()
    opened = reader.open("Q1", OpenOption.INPUT_SHARED)
    handle = client.open("Q1", OpenOption.OUTPUT).handle
    client.put(handle, b"1", PutOption.SYNCPOINT)
    client.put(handle, b"2", PutOption.SYNCPOINT)
    assert [] == reader.get_many(opened, NOW, 5)

    assert 0 == client.call(SegmentType.MQCMIT).reason

    assert [b"1", b"2"] == [got.body for got in reader.get_many(opened, NOW, 5)]


def test_a_backout_returns_the_message_with_a_backout_count(client: ChannelClient, queue_manager: EmbeddedQueueManager) -> None:
    put(queue_manager, "Q1", b"again", descriptor=DURABLE)
    handle = client.open("Q1", INPUT).handle
    client.ask(handle, GetOption.SYNCPOINT)
    assert 0 == client.message().descriptor.backout_count

    client.call(SegmentType.MQBACK)

    client.ask(handle, GetOption.SYNCPOINT)
    assert 1 == client.message().descriptor.backout_count


def test_a_program_that_dies_backs_its_unit_of_work_out(
    client: ChannelClient, dial: Dial, queue_manager: EmbeddedQueueManager
) -> None:
    put(queue_manager, "Q1", b"kept", descriptor=DURABLE)
    client.ask(client.open("Q1", INPUT).handle, GetOption.SYNCPOINT)
    client.message()

    client.close()

    other = dial().begin(APP)
    other.ask(other.open("Q1", INPUT).handle, GetOption.SYNCPOINT, wait_ms=10_000)
    assert (b"kept", 1) == ((message := other.message()).body, message.descriptor.backout_count)


def test_a_disconnect_commits(client: ChannelClient, queue_manager: EmbeddedQueueManager) -> None:
    client.put(client.open("Q1", OpenOption.OUTPUT).handle, b"kept", PutOption.SYNCPOINT)

    client.call(SegmentType.MQDISC)

    connection = queue_manager.connect()
    assert connection.get(connection.open("Q1", OpenOption.INPUT_SHARED), NOW) is not None


def test_a_waiting_program_receives_the_message_that_arrives(
    client: ChannelClient, queue_manager: EmbeddedQueueManager
) -> None:
    client.ask(client.open("Q1", INPUT).handle, GetOption.NO_SYNCPOINT | GetOption.WAIT, wait_ms=10_000)

    put(queue_manager, "Q1", b"late", descriptor=DURABLE)

    assert b"late" == client.message().body


def test_a_wait_without_a_message_ends_with_a_notice(client: ChannelClient) -> None:
    handle = client.open("Q1", INPUT).handle

    client.ask(handle, GetOption.NO_SYNCPOINT | GetOption.WAIT, wait_ms=1)

    notice = client.notice()
    assert (handle, Notice.CHECK_MESSAGE) == (notice.handle, notice.notice)


def test_the_last_check_of_a_wait_is_answered_with_the_message_first(
    client: ChannelClient, queue_manager: EmbeddedQueueManager
) -> None:
    handle = client.open("Q1", INPUT).handle
    put(queue_manager, "Q1", b"just now", descriptor=DURABLE)

    client.ask(handle, GetOption.NO_SYNCPOINT, flags=0x1E, request=3)

    assert b"just now" == client.message().body
    assert Notice.CHECK_MESSAGE == client.notice().notice


def test_a_listener_receives_messages_until_the_program_stops_it(
    client: ChannelClient, queue_manager: EmbeddedQueueManager
) -> None:
    handle = client.open("Q1", INPUT).handle
    client.ask(handle, GetOption.NO_SYNCPOINT, flags=0x11)
    put(queue_manager, "Q1", b"first", descriptor=DURABLE)
    assert b"first" == client.message().body
    client.ask(handle, GetOption.NO_SYNCPOINT, flags=0x01)

    client.send(SegmentType.NOTIFICATION, b"".join(n.to_bytes(4, signed=True) for n in (1, -1, 3, 3)), request=3, flags=0x31)

    assert Notice.CONNECTION_STATE_REPLY == client.notice().notice
    put(queue_manager, "Q1", b"second", descriptor=DURABLE)
    assert [0, 0] == [client.open("Q1", INPUT).reason for _ in range(2)]  # no answer is the second message


def test_a_queue_inhibited_for_gets_gives_a_notice_with_the_reason(client: ChannelClient) -> None:
    handle = client.open("CLOSED", INPUT).handle

    client.ask(handle, GetOption.NO_SYNCPOINT | GetOption.WAIT, wait_ms=10_000)

    notice = client.notice()
    assert (Notice.GET_INHIBITED, Reason.GET_INHIBITED) == (notice.notice, notice.value)


def test_two_conversations_of_a_socket_have_units_of_work_of_their_own(client: ChannelClient) -> None:
    assert 0 == second_conversation(client)
    first = client.open("Q1", INPUT | OpenOption.OUTPUT).handle
    second = client.open("Q1", INPUT, conversation=3).handle
    client.put(first, b"mine", PutOption.SYNCPOINT)

    assert 0 == client.call(SegmentType.MQCMIT, conversation=3).reason

    client.ask(second, GetOption.NO_SYNCPOINT, flags=0x1E, request=3, conversation=3)
    assert Notice.CHECK_MESSAGE == client.notice().notice


def test_the_texts_of_an_inquiry_are_behind_as_many_numbers_as_the_client_asked_for(client: ChannelClient) -> None:
    handle = client.open("Q1", INPUT).handle
    asked = b"".join(number.to_bytes(4) for number in (2, 3, 48, 22, 2016))  # BOTHRESH and QNAME, and a number too many

    answered = client.call(SegmentType.MQINQ, asked, handle=handle)

    assert (0, bytes(4) + b"\xff" * 8 + b"Q1".ljust(48)) == (answered.reason, answered.body[20:])


@pytest.mark.parametrize(("default", "code"), [("NO", 0), ("YES", 1)])
def test_an_open_gives_the_default_persistence_of_the_queue(
    client: ChannelClient, queue_manager: EmbeddedQueueManager, default: str, code: int
) -> None:
    run(f"ALTER QLOCAL(Q1) DEFPSIST({default})", queue_manager.administration)

    answered = client.open("Q1", OpenOption.OUTPUT)

    at = answered.body.index(b"LPOO") + 16
    assert code == int.from_bytes(answered.body[at : at + 4])


def test_a_refused_call_comes_back_with_the_structures_of_the_request(client: ChannelClient) -> None:
    asked = open_body("NOT.THERE", int(INPUT))

    answered = client.call(SegmentType.SPI, asked, handle=-1)

    assert (Reason.UNKNOWN_OBJECT_NAME, asked) == (answered.reason, answered.body)


def test_an_unknown_handle_is_refused_with_2019(client: ChannelClient) -> None:
    assert Reason.HOBJ_ERROR == client.put(77, b"", PutOption.NO_SYNCPOINT).reason


def test_a_verb_before_mqconn_is_refused_with_2018(negotiated: ChannelClient) -> None:
    negotiated.log_in(APP)

    assert Reason.HCONN_ERROR == negotiated.call(SegmentType.MQCMIT).reason


@pytest.mark.parametrize(("kind", "code"), [(SegmentType.XA_START, XAER_RMERR), (SegmentType.XA_RECOVER, XAER_RMERR)])
def test_a_verb_that_is_not_served_is_refused_by_its_name_and_logged_once(
    client: ChannelClient, kind: SegmentType, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [client.call(kind, bytes(16)) for _ in range(3)]

    assert [code] * 3 == [each.completion for each in answers]
    assert {Reason.FUNCTION_NOT_SUPPORTED if code == 2 else 0} == {each.reason for each in answers}
    assert [kind.name] == [kind.name for record in caplog.records if kind.name in record.getMessage()]


def test_socket_actions_that_are_not_known_give_one_line_in_the_log(dial: Dial, caplog: pytest.LogCaptureFixture) -> None:
    stranger = dial()
    for kind in (3, 4, 2**31 - 1):
        stranger.send(SegmentType.SOCKET_ACTION, b"".join(n.to_bytes(4) for n in (1, 0, kind, 1, 2)))

    stranger.negotiate()

    assert 1 == sum("socket action" in record.getMessage() for record in caplog.records)


def test_a_heartbeat_of_the_socket_is_answered_as_one_of_the_socket(client: ChannelClient) -> None:
    client.send_bytes(to_segment(Header(kind=SegmentType.HEARTBEAT, flags=0x31, of_socket=True), b""))

    answered = client.expect(SegmentType.HEARTBEAT).header
    assert (True, None) == (answered.of_socket, answered.conversation)


def test_a_queue_manager_that_quiesces_ends_a_wait_with_a_notice(
    client: ChannelClient, queue_manager: EmbeddedQueueManager
) -> None:
    handle = client.open("Q1", INPUT).handle
    client.ask(handle, GetOption.NO_SYNCPOINT | GetOption.WAIT | GetOption.FAIL_IF_QUIESCING, wait_ms=60_000)

    queue_manager.quiesce()

    notice = client.notice()
    assert (Notice.QUEUE_MANAGER_QUIESCING, Reason.Q_MGR_QUIESCING) == (notice.notice, notice.value)


@pytest.mark.parametrize("kind", [0x02, 0x0B, 0x90, 0xF5])
def test_a_segment_type_that_is_not_known_ends_the_channel_with_a_status(client: ChannelClient, kind: int) -> None:
    client.send_bytes(to_segment(Header(kind=kind, conversation=1), bytes(32)))

    status = client.reader(client.expect(SegmentType.STATUS))
    assert (8, StatusCode.PROTOCOL_SEGMENT_TYPE) == (status.number(), status.number())
    assert client.receive() is None


# -- bytes that are no flow


def golden_flows() -> tuple[Golden, ...]:
    return msgspec.json.decode(FLOWS.read_bytes(), type=tuple[Golden, ...])


def in_words(flow: Flow) -> str:
    """Return the kind of an answer, with its reason or its text."""
    reader = Reader(flow.body, flow.header.order, "an answer")
    kind = flow.header.kind
    if kind > SegmentType.MQCONN:
        reader.raw(8)
        return f"{kind_name(kind - REPLY)} {reader.number()}"
    if kind == SegmentType.NOTIFICATION:
        return f"NOTIFICATION {Notice(Notification.read(reader).notice).name}"
    return kind_name(kind)


def test_the_flows_of_ibms_jms_classes_get_the_answers_that_those_classes_accepted(dial: Dial) -> None:
    client = dial()

    for number, golden in enumerate(golden_flows()):
        client.send_bytes(b"".join(segments_of(flow_of(golden), 32_748)))
        got = [in_words(flow) for _ in golden.answers if (flow := client.receive()) is not None]
        assert list(golden.answers) == got, f"flow {number}: {golden}"


def test_the_recorded_flows_are_read_as_they_were_written() -> None:
    for golden in golden_flows():
        assert golden == replace(golden_of(flow_of(golden)), answers=golden.answers)


@pytest.mark.parametrize("seed", range(24))
def test_a_mutated_flow_harms_no_other_program(dial: Dial, client: ChannelClient, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a test's
    flows = golden_flows()
    end = chance.randrange(1, len(flows))
    data = bytearray(b"".join(segments_of(flow_of(flows[end]), 32_748)))
    for _ in range(chance.randint(1, 4)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    stranger = dial()

    for golden in flows[:end]:
        stranger.send_bytes(b"".join(segments_of(flow_of(golden), 32_748)))
        for _ in golden.answers:
            stranger.receive()
    with contextlib.suppress(OSError):
        stranger.send_bytes(bytes(data))
    stranger.close()

    handle = client.open("Q1", INPUT | OpenOption.OUTPUT).handle
    assert 0 == client.put(handle, b"on", PutOption.NO_SYNCPOINT).reason


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        to_segment(Header(kind=SegmentType.MQCONN, conversation=1), bytes(16)),
        to_segment(Header(kind=SegmentType.MQCONN, flags=Flag.FIRST, conversation=1), b""),
        to_segment(Header(kind=SegmentType.INITIAL_DATA), b"ID  "),
        b"TSH " + (2**31).to_bytes(4) + bytes(28),
    ],
    ids=[
        "another protocol",
        "a verb before the negotiation",
        "the begin of a verb",
        "initial data that is cut",
        "a segment of two gigabytes",
    ],
)
def test_bytes_that_are_no_flow_end_the_socket_with_a_line_in_the_log(
    dial: Dial, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = dial()

    stranger.send_bytes(data)

    assert stranger.receive() is None
    assert 1 == sum("that MQ's clients do not send" in record.getMessage() for record in caplog.records)
