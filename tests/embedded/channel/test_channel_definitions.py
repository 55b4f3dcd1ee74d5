"""Definitions of server-connection channels count when a client program connects."""

import pytest

from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.listener import Room
from mqflow.fap.connection_flows import Credentials, StatusCode
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from tests.embedded.channel.conftest import APP, Dial

OWN = """
DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) MAXMSGL(1000) SHARECNV(3) HBINT(77) MAXINST(1)
DEFINE CHANNEL(AS.GUEST) CHLTYPE(SVRCONN) MCAUSER('guest')
DEFINE CHANNEL(SECURE) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12) SSLCAUTH(OPTIONAL)
DEFINE CHANNEL(NAMED) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12) SSLPEER('CN=app')
DEFINE CHANNEL(AS.OWNER) CHLTYPE(SVRCONN) MCAUSER('mqm')
DEFINE CHANNEL(AS.NOBODY) CHLTYPE(SVRCONN) MCAUSER('nobody')
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('guest') AUTHADD(CONNECT)
"""


@pytest.fixture(autouse=True)
def definitions(queue_manager: EmbeddedQueueManager) -> None:
    assert 0 == run(OWN, queue_manager.administration).exit_code()


@pytest.mark.parametrize("channel", ["SECURE", "NAMED"])
def test_a_channel_with_sslciph_takes_no_program_without_tls(
    dial: Dial, caplog: pytest.LogCaptureFixture, channel: str
) -> None:
    client = dial()
    client.negotiate(channel)
    client.log_in(APP)

    assert Reason.SSL_INITIALIZATION_ERROR == client.connect().reason
    assert f"Channel '{channel}' refused a program at 127.0.0.1 (2393): SSLCIPH(ANY_TLS12) needs TLS" in caplog.text


def test_both_ends_agree_on_the_limits_of_the_channel(dial: Dial) -> None:
    agreed = dial().negotiate("APP")

    assert (1000, 3, 77) == (agreed.message_bytes_max, agreed.conversations_max, agreed.heartbeat_s)


def test_an_unknown_channel_and_a_channel_of_another_type_are_refused(dial: Dial) -> None:
    assert StatusCode.NO_CHANNEL == dial().refused("NOBODY")
    assert StatusCode.WRONG_CHANNEL_TYPE == dial().refused("SYSTEM.DEF.SENDER")


def test_a_program_beyond_maxinst_gets_2537_and_a_message_beyond_maxmsgl_2010(dial: Dial) -> None:
    first, second = dial().begin(APP, "APP"), dial()
    handle = first.open("Q1", OpenOption.OUTPUT).handle
    assert Reason.DATA_LENGTH_ERROR == first.put(handle, bytes(1001), PutOption.NO_SYNCPOINT).reason
    assert 0 == first.put(handle, bytes(1000), PutOption.NO_SYNCPOINT).reason
    second.negotiate("APP")
    second.log_in(APP)

    assert Reason.CHANNEL_NOT_AVAILABLE == second.connect().reason


@pytest.mark.parametrize(
    ("channel", "given", "asked", "said"),
    [
        ("APP", APP, "QM2", "Channel 'APP' refused a program at 127.0.0.1 (2058): The queue manager served here is QM1."),
        ("APP", APP, "QM1", "Channel 'APP' refused a program at 127.0.0.1 (2537): MAXINST(1) is reached."),
        ("AS.NOBODY", APP, "QM1", "Channel 'AS.NOBODY' refused a program at 127.0.0.1 (2035): "),
        ("AS.OWNER", APP, "QM1", "User 'mqm' was refused (2035). mqm administers the queue manager on its own machine, "),
        ("AS.GUEST", Credentials("app", ""), "QM1", "The log-in of user 'app' at 127.0.0.1 failed."),
        ("AS.GUEST", Credentials("too.long.a.name", "x"), "QM1", "The log-in of user 'too.long.a.n'... at 127.0.0.1 failed."),
    ],
)
def test_the_log_says_why_a_program_is_refused(
    dial: Dial, caplog: pytest.LogCaptureFixture, channel: str, given: Credentials, asked: str, said: str
) -> None:
    dial().begin(APP, "APP")
    client = dial()
    client.negotiate(channel)
    client.log_in(given)

    assert 0 != client.connect(queue_manager=asked).reason

    [line] = caplog.messages
    assert line.startswith(said)


def test_the_log_says_that_the_limit_of_connections_is_reached(
    dial: Dial, room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    client = dial()
    client.negotiate("AS.GUEST")
    client.log_in(APP)
    while room.take():
        pass

    assert Reason.MAX_CONNS_LIMIT_REACHED == client.connect().reason

    assert "refused a program at 127.0.0.1 (2025): The limit of 4 served connections is reached" in caplog.text


def test_mcauser_of_the_channel_is_the_user_of_the_connection(dial: Dial, queue_manager: EmbeddedQueueManager) -> None:
    client = dial().begin(APP, "AS.GUEST")

    assert Reason.NOT_AUTHORIZED == client.open("Q1", OpenOption.OUTPUT).reason  # `app` may put
    shown = [each for each in queue_manager.administration.objects.connections() if each.channel]
    assert [("guest", "AS.GUEST", "127.0.0.1")] == [(each.user, each.channel, each.address) for each in shown]


def test_mcauser_gives_no_rights_of_an_administrator_over_tcp(dial: Dial) -> None:
    client = dial()
    client.negotiate("AS.OWNER")
    client.log_in(APP)

    assert Reason.NOT_AUTHORIZED == client.connect().reason
