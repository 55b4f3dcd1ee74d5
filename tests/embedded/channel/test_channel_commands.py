"""The commands about channels and listeners agree with the listener that serves client programs."""

import os
import socket
from contextlib import closing

import pytest

from mqflow.embedded.channel.listener import serve_channel
from mqflow.embedded.mqsc import run
from mqflow.embedded.mqsc.display import as_json
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.listener import Server
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.fap.transmission_segments import SegmentType
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.pcf.codes import CommandCode, PCFReason
from mqflow.mqi.pcf.structures import CFIL, CFIN, CFSL, CFST, Parameter
from mqflow.mqi.reason_codes import Reason
from mqflow.world import World
from tests.conformance.under_test import ManualClock
from tests.embedded.administration.commanding import Commander
from tests.embedded.channel.conftest import APP, Dial
from tests.fap.client_half import ChannelClient, put_body

NAME, TYPE, ADDRESS, ADDRESSES, CLIENT_USER, USERS, ACTION, SOURCE, MCA_USER = (
    3501, 1352, 3506, 3566, 3567, 3568, 1086, 1638, 3527,
)  # fmt: skip
LISTENER = CFST(3554, "SYSTEM.DEFAULT.LISTENER.TCP")


def answers(queue_manager: EmbeddedQueueManager, command: str) -> list[dict[str, object]]:
    [response] = run(command, queue_manager.administration).responses
    assert not response.reason, response.text
    return [dict(as_json(record)) for record in response.records]


def test_display_chstatus_shows_each_connected_program(queue_manager: EmbeddedQueueManager, dial: Dial) -> None:
    client = dial().begin(APP)
    handle = client.open("Q1", OpenOption.OUTPUT).handle
    client.put(handle, b"hello", PutOption.NO_SYNCPOINT)

    [shown] = answers(queue_manager, "DISPLAY CHSTATUS(*) ALL")

    assert {
        "CHANNEL": "DEV.APP.SVRCONN",
        "CHLTYPE": "SVRCONN",
        "CONNAME": "127.0.0.1",
        "CURRENT": True,
        "STATUS": "RUNNING",
        "MCAUSER": "app",
        "RAPPLTAG": "a test",
        "CURSHCNV": 1,
        "MAXSHCNV": 10,
        "MSGS": 3,  # MQCONN, MQOPEN, MQPUT
        "HBINT": 300,
    }.items() <= shown.items()
    assert [10, 8] == [len(str(shown[keyword])) for keyword in ("CHSTADA", "CHSTATI")]


def counts_of(client: ChannelClient) -> tuple[int, ...]:
    """Return what MSGS, BYTSSENT, BYTSRCVD, BUFSSENT and BUFSRCVD must show."""
    return client.call_count, client.bytes_received, client.bytes_sent, client.segments_received, client.segments_sent


COUNTS = {"MSGS": 1534, "BYTSSENT": 1535, "BYTSRCVD": 1536, "BUFSSENT": 1538, "BUFSRCVD": 1539}


def test_a_channel_counts_the_bytes_segments_and_calls_of_all_its_conversations(
    queue_manager: EmbeddedQueueManager, dial: Dial
) -> None:
    other, client = dial().begin(APP, "SYSTEM.DEF.SVRCONN"), dial().begin(APP)
    assert (0, 0) == client.log_in(APP, conversation=3)
    assert 0 == client.connect(conversation=3).reason
    out = client.open("Q1", OpenOption.OUTPUT).handle
    into = client.open("Q1", OpenOption.INPUT_SHARED, conversation=3).handle
    assert 0 == client.put(out, bytes(100_000), PutOption.NO_SYNCPOINT).reason
    client.ask(into, GetOption.NO_SYNCPOINT, conversation=3)
    assert 100_000 == len(client.message().body)
    client.send(SegmentType.HEARTBEAT, b"")
    client.expect(SegmentType.HEARTBEAT)
    assert 14 == client.segments_sent  # the put has four segments, and each of ten other flows has one

    [shown] = answers(queue_manager, f"DISPLAY CHSTATUS(DEV.APP.SVRCONN) {' '.join(COUNTS)} CURSHCNV STOPREQ")
    with Commander(queue_manager) as commander:
        [by_pcf] = commander.done(
            CommandCode.INQUIRE_CHANNEL_STATUS, CFST(NAME, "DEV.APP.SVRCONN"), CFIL(1524, tuple(COUNTS.values()))
        )
        of_others = commander.done(CommandCode.INQUIRE_CHANNEL_STATUS, CFST(NAME, "SYSTEM.*"))

    assert (counts_of(client), 2, "NO") == (tuple(shown[each] for each in COUNTS), shown["CURSHCNV"], shown["STOPREQ"])
    assert (*counts_of(client), 0) == tuple(by_pcf[each] for each in (*COUNTS.values(), 1543))
    assert "a test" == by_pcf[3548]
    assert [counts_of(other)] == [tuple(each[number] for number in COUNTS.values()) for each in of_others]


def test_a_put_without_a_reply_is_the_last_call_of_a_channel(queue_manager: EmbeddedQueueManager, users: UsersFile) -> None:
    clock = ManualClock()
    with serve_channel(queue_manager, TcpAddress("127.0.0.1", 0), users, world=World(clock)) as server:
        assert isinstance(server.address, TcpAddress)
        with closing(ChannelClient(server.address.port)) as client:
            out = client.begin(APP).open("Q1", OpenOption.OUTPUT).handle
            clock.advance(5.0)
            without = PutOption.ASYNC_RESPONSE | PutOption.NO_SYNCPOINT
            client.call_without_reply(SegmentType.MQPUT, put_body(b"hello", without), handle=out)
            for _ in range(2):  # a heartbeat is no call
                client.send(SegmentType.HEARTBEAT, b"")
                client.expect(SegmentType.HEARTBEAT)
                clock.advance(5.0)

            [status] = queue_manager.channels.statuses()

    assert 3 == status.call_count
    assert ("2026-01-02", "03.04.10") == (status.last_call_date, status.last_call_time)


def test_display_apstatus_counts_the_connections_of_each_application(queue_manager: EmbeddedQueueManager, dial: Dial) -> None:
    dial().begin(APP)
    dial().begin(APP)
    queue_manager.connect(application_name="other")

    shown = answers(queue_manager, "DISPLAY APSTATUS(*) TYPE(APPL) COUNT MOVCOUNT BALANCED")

    counted = {"TYPE": "APPL", "MOVCOUNT": 0, "BALANCED": "NOTAPPLIC"}
    assert [{"APPLNAME": "a test", "COUNT": 2, **counted}, {"APPLNAME": "other", "COUNT": 1, **counted}] == shown
    assert 4097 == run("DISPLAY APSTATUS('nobody')", queue_manager.administration).responses[0].reason
    assert 10 == run("DISPLAY APSTATUS(*) TYPE(LOCAL)", queue_manager.administration).exit_code()


def test_stop_channel_ends_the_programs_of_the_channel(queue_manager: EmbeddedQueueManager, dial: Dial) -> None:
    assert 0 == run("DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)", queue_manager.administration).exit_code()
    first, other = dial().begin(APP, "APP"), dial().begin(APP, "SYSTEM.DEF.SVRCONN")

    answers(queue_manager, "STOP CHANNEL(APP)")

    assert first.receive() is None
    assert 0 == other.open("Q1", OpenOption.OUTPUT).reason
    late = dial()
    late.negotiate("APP")
    late.log_in(APP)
    assert Reason.CHANNEL_NOT_AVAILABLE == late.connect().reason


def test_stop_conn_ends_the_connection_of_a_program(queue_manager: EmbeddedQueueManager, dial: Dial) -> None:
    client = dial().begin(APP)
    [shown] = answers(queue_manager, "DISPLAY CONN(*) CHANNEL CONNAME WHERE(CHANNEL EQ DEV.APP.SVRCONN)")
    assert "127.0.0.1" == shown["CONNAME"]

    answers(queue_manager, f"STOP CONN({shown['CONN']})")

    assert Reason.CONNECTION_BROKEN == client.open("Q1", OpenOption.OUTPUT).reason


def test_a_stopped_listener_refuses_connections_and_a_started_one_accepts_them_at_the_same_port(
    queue_manager: EmbeddedQueueManager, server: Server, dial: Dial
) -> None:
    assert isinstance(server.address, TcpAddress)
    silent, running = dial(), dial().begin(APP)
    [shown] = answers(queue_manager, "DISPLAY LSSTATUS(*)")
    assert {"LISTENER": "SYSTEM.DEFAULT.LISTENER.TCP", "STATUS": "RUNNING", "PID": os.getpid()} == shown
    [shown] = answers(queue_manager, "DISPLAY LSSTATUS(SYSTEM.DEFAULT.LISTENER.TCP)")
    assert (server.address.port, "127.0.0.1", "TCP") == (shown["PORT"], shown["IPADDR"], shown["TRPTYPE"])

    answers(queue_manager, "STOP LISTENER(SYSTEM.DEFAULT.LISTENER.TCP)")

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.address.host, server.address.port))
    assert silent.receive() is None
    assert 0 == running.open("Q1", OpenOption.OUTPUT).reason
    reasons = [
        response.reason
        for response in run(
            "DISPLAY LSSTATUS(*)\nSTOP LISTENER(SYSTEM.DEFAULT.LISTENER.TCP)\nSTOP LISTENER(A)", queue_manager.administration
        ).responses
    ]
    assert [PCFReason.LSTR_STATUS_NOT_FOUND, PCFReason.LISTENER_STOPPED, Reason.UNKNOWN_OBJECT_NAME] == reasons

    answers(queue_manager, "START LISTENER(SYSTEM.DEFAULT.LISTENER.TCP)")

    assert 0 == dial().begin(APP).open("Q1", OpenOption.OUTPUT).reason
    again = run("START LISTENER(SYSTEM.DEFAULT.LISTENER.TCP)", queue_manager.administration).responses[0]
    assert PCFReason.LISTENER_RUNNING == again.reason
    server.close()
    assert () == queue_manager.channels.listeners()


def test_a_defined_listener_that_nothing_serves_cannot_be_started(queue_manager: EmbeddedQueueManager) -> None:
    script = "DEFINE LISTENER(A) TRPTYPE(TCP) PORT(1500)\nSTART LISTENER(A)\nSTART LISTENER(B)"

    reasons = [response.reason for response in run(script, queue_manager.administration).responses]

    assert [0, Reason.FUNCTION_NOT_SUPPORTED, Reason.UNKNOWN_OBJECT_NAME] == reasons


def test_pcf_has_the_same_commands(queue_manager: EmbeddedQueueManager, dial: Dial) -> None:
    run("DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)", queue_manager.administration)
    client = dial().begin(APP, "APP")
    with Commander(queue_manager) as commander:

        def rule(*parameters: Parameter, profile: str = "A.*") -> None:
            assert [{}] == commander.done(CommandCode.SET_CHLAUTH_REC, CFST(NAME, profile), *parameters)

        rule(CFIN(TYPE, 5), CFST(CLIENT_USER, "u"), CFST(MCA_USER, "v"))
        rule(CFIN(TYPE, 1), CFSL(USERS, ("x", "y")))
        rule(CFIN(TYPE, 4), CFST(ADDRESS, "*"), CFIN(SOURCE, 1))
        rule(CFIN(TYPE, 4), CFIN(ACTION, 8))
        rule(CFIN(TYPE, 2), CFSL(ADDRESSES, ("10.9.*",)), profile="*")
        stranger = commander.refused(
            CommandCode.SET_CHLAUTH_REC, CFST(NAME, "*"), CFIN(TYPE, 2), CFSL(ADDRESSES, ("10.8.*",)), CFSL(USERS, ("x",))
        )
        found = commander.done(CommandCode.INQUIRE_CHLAUTH_RECS, CFST(NAME, "*"))
        [blocks] = commander.done(CommandCode.INQUIRE_CHLAUTH_RECS, CFST(NAME, "*"), CFIN(TYPE, 1))
        [status] = commander.done(CommandCode.INQUIRE_CHANNEL_STATUS, CFST(NAME, "*"))
        assert [status] == commander.done(CommandCode.INQUIRE_CHANNEL_STATUS, CFST(NAME, "*"), CFST(ADDRESS, "127.0.0.1"))
        assert [status] == commander.done(CommandCode.INQUIRE_CHANNEL_STATUS, CFST(NAME, "*"), CFIN(1523, 1011))
        strangers = [
            commander.refused(CommandCode.INQUIRE_CHANNEL_STATUS, CFST(NAME, "*"), chosen)[0]
            for chosen in (CFST(ADDRESS, "10.0.0.1"), CFIN(1523, 1012), CFST(3505, "TO.QM2"))
        ]
        [listener] = commander.done(CommandCode.INQUIRE_LISTENER_STATUS, CFST(3554, "*"))
        others = commander.refused(CommandCode.SET_CHLAUTH_REC, CFST(NAME, "A.*"), CFIN(TYPE, 3))
        commander.done(CommandCode.STOP_CHANNEL, CFST(NAME, "APP"))
        assert client.receive() is None
        commander.done(CommandCode.START_CHANNEL, CFST(NAME, "APP"))
        commander.done(CommandCode.STOP_CHANNEL_LISTENER, LISTENER)
        commander.done(CommandCode.START_CHANNEL_LISTENER, LISTENER)

    assert [("*", 2, "", (), ("10.9.*",)), ("A.*", 1, "", ("x", "y"), ()), ("A.*", 5, "u", (), ())] == [
        (
            each[NAME],
            each[TYPE],
            each[CLIENT_USER],
            *(tuple(one.rstrip() for one in each[listed]) for listed in (USERS, ADDRESSES)),
        )
        for each in found
    ]
    assert 1 == blocks[TYPE]
    assert [PCFReason.CHL_STATUS_NOT_FOUND] * 3 == strangers, "another address, the saved status, a transmission queue"
    assert (PCFReason.CFSL_PARM_ID_ERROR, USERS) == stranger
    assert ("APP", 7, 1011, 3, "127.0.0.1", "app") == tuple(
        status[each] for each in (NAME, 1511, 1523, 1527, ADDRESS, MCA_USER)
    )
    assert ("SYSTEM.DEFAULT.LISTENER.TCP", 2) == (listener[3554], listener[1599])
    assert (Reason.FUNCTION_NOT_SUPPORTED, TYPE) == others
