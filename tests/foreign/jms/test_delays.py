"""IBM's JMS classes send with a delivery delay: the queue manager stages the messages, and refuses what cannot be delayed."""

import anyio
import pytest

from mqflow.cli.processes.delay_processors import DelayProcessors
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.headers import delay, rfh2
from mqflow.mqi.headers.delay import DELAY_HEADER_BYTES
from tests.foreign.jms.program import Scenario
from tests.queue_contents import browsed

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program


def test_a_delayed_message_of_ibms_classes_is_staged_with_its_identifier_as_correlid(
    jms: Scenario, queue_manager: EmbeddedQueueManager
) -> None:
    identifier, difference_ms, _ = jms("delay")

    [staged] = browsed(queue_manager, queue_manager.staging_queue)
    header = delay.parse(staged.body)
    assert (f"ID:{staged.descriptor.correlation_id.hex()}", "60000") == (identifier, difference_ms)
    assert (60_000, "Q1", "MQHRF2", 6_000) == (header.delay_ms, header.target, header.format, header.expiry_tenths)
    assert staged.descriptor.message_id != staged.descriptor.correlation_id
    jms_header, end = rfh2.parse(staged.body[DELAY_HEADER_BYTES:], encoding=header.encoding, ccsid=header.ccsid)
    assert b"later" == staged.body[DELAY_HEADER_BYTES + end :]
    assert {"Dly": "60000"}.items() <= rfh2.properties(jms_header, "mqext").items()
    assert [] == browsed(queue_manager, "Q1")


@pytest.mark.anyio
@pytest.mark.parametrize("scenario", ["delay-soon", "delay-topic"])
async def test_a_delayed_message_arrives_when_its_delay_is_over(
    jms: Scenario, queue_manager: EmbeddedQueueManager, scenario: str
) -> None:
    said: list[str] = []
    async with anyio.create_task_group() as group:
        processors = DelayProcessors(queue_manager, disposition_queue="", delay_queue="")
        group.start_soon(processors.run)
        said += await anyio.to_thread.run_sync(jms, scenario)
        processors.stop()

    assert ["later", "delay 50", "early false", "end"] == said


def test_ibms_classes_and_the_queue_manager_refuse_what_cannot_be_delayed(jms: Scenario) -> None:
    """The first five are refused by the classes themselves, and the others by the queue manager.

    The difference: a time to live that equals the delay is refused by the classes. The document refuses a lower one only,
    and so does mqflow.
    """
    said = [line for line in jms("delay-refused") if ":" in line or line[-4:].isdecimal()]

    own = [line.split(" com.ibm")[0] + line.split("JMSCC")[1][:4] for line in said if "JMSCC" in line]
    assert [
        "ttl below delay0113", "delay above ttl0113", "ttl equals delay0113", "negative0005", "group0115", "retained0114",
    ] == own  # fmt: skip
    assert ["inhibited 2051", "full 2053", "too long 2030", "topic that is not ALLAVAIL 2502"] == [
        line for line in said if "JMSCC" not in line
    ]
