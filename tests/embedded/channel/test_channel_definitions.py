"""Definitions of server-connection channels count when a client program connects."""

import pytest

from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.fap.connection_flows import StatusCode
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from tests.embedded.channel.conftest import APP, Dial

OWN = """
DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) MAXMSGL(1000) SHARECNV(3) HBINT(77) MAXINST(1)
DEFINE CHANNEL(AS.GUEST) CHLTYPE(SVRCONN) MCAUSER('guest')
DEFINE CHANNEL(SECURE) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12) SSLCAUTH(OPTIONAL)
DEFINE CHANNEL(NAMED) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12) SSLPEER('CN=app')
DEFINE CHANNEL(AS.OWNER) CHLTYPE(SVRCONN) MCAUSER('mqm')
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
