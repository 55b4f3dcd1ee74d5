"""IBM's JMS classes and statements of the documents that no other file has."""

import pytest

from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import dead_letter
from mqflow.mqi.reason_codes import Reason
from tests.foreign.jms.program import Scenario
from tests.queue_contents import browsed, put

GIVEN = MessageDescriptor(format="MQHRF2", ccsid=1208, encoding=273, persistence=1)
pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program


def test_an_xa_session_is_refused_by_name(jms: Scenario) -> None:
    connected, refused, *_ = jms("xa")

    assert "connected" == connected
    assert "JMSWMQ1068: Failed to obtain the XA resource" in refused


def test_another_name_than_that_of_the_queue_manager_is_refused(jms: Scenario) -> None:
    assert ["refused 2058", "end"] == jms("other-name")


def test_a_message_that_was_got_outside_a_transaction_is_gone(jms: Scenario) -> None:
    assert ["text once deliveries=1", "none", "end"] == jms("outside")


@pytest.mark.parametrize("body", [b"RFH \0\0\0\2\0\0\0\x40", b"xxxx"], ids=["its length is wrong", "no header"])
def test_a_message_with_a_broken_header_is_moved_at_its_first_delivery(
    jms: Scenario, queue_manager: EmbeddedQueueManager, body: bytes
) -> None:
    """The program does not see the message, whose BackoutCount is 0. The difference: Reason is 2362, and 2364 by mqflow."""
    put(queue_manager, "POISON", body, descriptor=GIVEN)
    put(queue_manager, "DEAD", body, descriptor=GIVEN)

    assert (["none", "end"], ["none", "end"]) == (jms("broken:POISON"), jms("broken:DEAD"))
    assert ([], []) == (browsed(queue_manager, "POISON"), browsed(queue_manager, "DEAD"))
    [moved], [dead] = browsed(queue_manager, "BOQ"), browsed(queue_manager, "DLQ")
    header = dead_letter.parse(dead.body, encoding=dead.descriptor.encoding, ccsid=dead.descriptor.ccsid)
    assert (body, Reason.BACKOUT_THRESHOLD_REACHED, "DEAD") == (moved.body, header.reason, header.destination_queue)
    assert dead.body.endswith(body)


def test_a_connection_consumer_leaves_a_message_with_a_broken_header(
    jms: Scenario, queue_manager: EmbeddedQueueManager
) -> None:
    put(queue_manager, "POISON", b"xxxx", descriptor=GIVEN)

    assert ["end"] == jms("poison-asf:POISON:1")
    [kept] = browsed(queue_manager, "POISON")
    assert 1 == kept.descriptor.backout_count


def test_a_header_of_other_bytes_is_an_error_in_the_program(jms: Scenario, queue_manager: EmbeddedQueueManager) -> None:
    """The difference: `receive` throws an exception that is no JMSException. mqflow moves this message too."""
    put(queue_manager, "POISON", b"not a header", descriptor=GIVEN)

    assert "failed java.lang.ArrayIndexOutOfBoundsException" == jms("broken:POISON")[0].partition(":")[0]
    assert 1 == len(browsed(queue_manager, "POISON"))


def test_the_classes_read_what_they_can_of_a_strange_folder(jms: Scenario, queue_manager: EmbeddedQueueManager) -> None:
    """The folder is no XML. The message is delivered, and is poison after two rollbacks like any other message."""
    strange = b"RFH \0\0\0\2\0\0\0\x30\0\0\x01\x11\0\0\4\xb8MQSTR   \0\0\0\0\0\0\4\xb8\0\0\0\x08<mcd<<<>abc"
    put(queue_manager, "POISON", strange, descriptor=GIVEN)

    delivered = [line for count in (1, 2) for line in ("received JMSTextMessage", f"text abc deliveries={count}")]
    assert [*delivered, "none", "end"] == jms("broken:POISON")
    assert 1 == len(browsed(queue_manager, "BOQ"))


def test_a_program_takes_its_message_back_from_the_staging_queue(jms: Scenario, queue_manager: EmbeddedQueueManager) -> None:
    assert ["taken back true", "end"] == jms("take-back")

    assert 1 == len(browsed(queue_manager, queue_manager.staging_queue))


def test_a_delayed_message_needs_authority_for_its_target(jms: Scenario, queue_manager: EmbeddedQueueManager) -> None:
    changes = (
        "DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) MCAUSER('ann')\n"
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT,INQ)\n"
        "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(GET,INQ)\n"
    )
    assert 0 == run(changes, queue_manager.administration).exit_code()

    assert ["refused 2035", "end"] == jms("delay")
