"""The fields of the messages that IBM's JMS classes and mqflow put, hand on and delay, and of the reports about them.

The two queue managers are equal, with one clock. Every field of the MQMD and of the headers is compared. The sets have the
fields that differ, each with its reason.
"""

from collections.abc import Mapping
from typing import Final

import anyio
import msgspec
import pytest

from mqflow import App, Context, Message
from mqflow.app.handlers.message import PropertyValue
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import delay, rfh2
from mqflow.mqi.headers.delay import DELAY_HEADER_BYTES
from mqflow.mqi.headers.rfh2 import RFH2
from mqflow.mqi.options import Feedback, MessageType, PutOption, Report
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE
from mqflow.testing.kit import QueueManagerKit
from tests.foreign.jms.conftest import Serve
from tests.foreign.jms.fields import different
from tests.foreign.jms.program import MQSC, Program, Scenario
from tests.queue_contents import browsed, put

pytestmark = [
    pytest.mark.xdist_group("jms"),  # one worker fetches, compiles and starts the program
    pytest.mark.mq_backend("asyncio"),
]

PROPERTIES: Final[Mapping[str, PropertyValue]] = {
    "name": "b\u00fccher", "count": 7, "urgent": True, "rate": 1.5, "number": 12345678901,
}  # fmt: skip
REPORTS: Final = Report.COA_WITH_FULL_DATA | Report.COD_WITH_FULL_DATA | Report.EXPIRATION_WITH_FULL_DATA
#: The program and its user: the JMS program logs in, mqflow's application runs in the process of its queue manager.
CONTEXT: Final = frozenset({"MQMD.put_application_type", "MQMD.put_application_name", "MQMD.user_identifier"})
#: A JMS producer has priority 4; mqflow leaves the priority to DEFPRTY of the queue.
PRIORITY: Final = frozenset({"MQMD.priority"})
#: IBM's classes write numbers big-endian, and mqflow as the processor has them.
NUMBERS: Final = frozenset({"MQMD.encoding", "MQRFH2.encoding"})
#: IBM's classes put an MQRFH2 with `mcd` and `jms` in front of each message. mqflow has one for properties only, with `usr`.
FOLDERS: Final = frozenset({"MQRFH2.folders"})
#: The character set of bytes: IBM's classes say 1208, mqflow 0 (that of the queue manager), as the bytes are no text.
OF_BYTES: Final = frozenset({"MQRFH2.ccsid"})
NO_HEADER: Final = frozenset(f"MQRFH2.{name}" for name in RFH2.__struct_fields__) | {"MQMD.format", "MQMD.encoding"}
#: A JMS program that sends a message that it has received sends it with a new MsgId and its own `jms` folder.
NEW_ID: Final = frozenset({"MQMD.message_id"})


@pytest.fixture
def theirs(mq: QueueManagerKit) -> QueueManagerKit:
    """The queue manager of IBM's classes, with the clock of mqflow's."""
    made = QueueManagerKit("QM1", clock=mq.clock)
    for each in (made, mq):
        each.mqsc(f"{MQSC}\nDEFINE QLOCAL(REPLY)\nALTER QLOCAL(Q1) BOTHRESH(3) BOQNAME(BOQ)")
    return made


@pytest.fixture
def jms(java: Program, theirs: QueueManagerKit, serve: Serve) -> Scenario:
    port, _ = serve(theirs.queue_manager, clock=theirs.clock)
    return lambda name, password="secret", *, stop=None: java.run(port, "app", password, name, stop)


def differences(theirs: QueueManagerKit, mq: QueueManagerKit, queue: str) -> list[set[str]]:
    pairs = zip(browsed(theirs.queue_manager, queue), browsed(mq.queue_manager, queue), strict=True)
    return [different(one, other) for one, other in pairs]


async def test_a_text_and_bytes_have_the_same_fields(jms: Scenario, theirs: QueueManagerKit, mq: QueueManagerKit) -> None:
    """The MsgId and the times are equal too. The other types of JMS messages have the fields of these; mqflow hands them on."""
    jms("send")
    async with mq.run(app := App(name="shop")):
        for payload in ("gr\u00fc\u00dfe", b"\0\1\xff"):
            await app.put("Q1", payload, properties=PROPERTIES)

    every_type = browsed(theirs.queue_manager, "Q1")
    text, octets = browsed(mq.queue_manager, "Q1")
    of_every_type = CONTEXT | PRIORITY | NUMBERS | FOLDERS
    assert [of_every_type, of_every_type | OF_BYTES] == [different(every_type[0], text), different(every_type[1], octets)]
    as_text = NEW_ID | FOLDERS | {"body"}  # a map and a stream are XML, so the format of the body is that of a text
    as_bytes = as_text | {"MQRFH2.format"}
    assert [as_bytes, as_text, as_bytes, as_text] == [different(every_type[0], each) for each in every_type[1:]]


async def test_a_message_that_a_program_hands_on(jms: Scenario, theirs: QueueManagerKit, mq: QueueManagerKit) -> None:
    """The difference: mqflow keeps the MsgId of the descriptor and every byte of the MQRFH2."""
    jms("send")
    copy(theirs.queue_manager, mq.queue_manager)
    app = App(name="shop")

    @app.listener("Q1")
    async def hand_on(message: Message, context: Context) -> None:
        await context.put("OUT", message.data, descriptor=message.descriptor)

    jms("hand-on")
    async with mq.run(app):
        await anyio.sleep(1)  # of virtual time

    assert 5 * [CONTEXT | NEW_ID | FOLDERS] == differences(theirs, mq, "OUT")


def copy(source: EmbeddedQueueManager, target: EmbeddedQueueManager) -> None:
    options = PutOption.NO_SYNCPOINT | PutOption.SET_ALL_CONTEXT
    for each in browsed(source, "Q1"):
        put(target, "Q1", each.body, descriptor=each.descriptor, options=options)


@pytest.mark.parametrize(("taken", "last"), [(False, Feedback.EXPIRATION), (True, Feedback.COD)])
async def test_the_reports_about_a_message(
    jms: Scenario, theirs: QueueManagerKit, mq: QueueManagerKit, *, taken: bool, last: Feedback
) -> None:
    """A report of the queue manager has the context of the queue manager, and the user of the message."""
    jms("reports-taken" if taken else "reports")
    app = App(name="shop")
    if taken:

        @app.listener("Q1")
        async def take(body: str) -> None:
            assert "tell me" == body

    asked = MessageDescriptor(message_type=MessageType.REQUEST, report=REPORTS)
    async with mq.run(app):
        await app.put("Q1", "tell me", descriptor=asked, reply_to="REPLY", correlation_id=b"C" * 24, expiry=60, priority=7)
        await anyio.sleep(1)  # of virtual time
    assert ([] if taken else [CONTEXT | NO_HEADER]) == differences(theirs, mq, "Q1")
    mq.clock.advance(61)
    for each in (theirs, mq):
        assert [] == browsed(each.queue_manager, "Q1")  # a get discards a message that has expired

    assert 2 * [{"MQMD.user_identifier"} | NO_HEADER] == differences(theirs, mq, "REPLY")
    assert [Feedback.COA, last] == [got.descriptor.feedback for got in browsed(mq.queue_manager, "REPLY")]


async def test_a_delayed_message_while_it_waits_and_when_it_arrives(
    jms: Scenario, theirs: QueueManagerKit, mq: QueueManagerKit
) -> None:
    """JMSDeliveryTime is `mqext.Dtm`, in milliseconds since 1970."""
    jms("delay")
    async with mq.run(app := App(name="shop")):
        await app.put("Q1", "later", delay=60, expiry=600, correlation_id=b"order 7".ljust(24, b"\0"))
        [[one], [other]] = [browsed(each.queue_manager, EMBEDDED_STAGING_QUEUE) for each in (theirs, mq)]
        async with theirs.run(App(name="idle")):
            await anyio.sleep(61)  # of virtual time

    assert CONTEXT | PRIORITY | {"body"} == different(one, other)
    header, mine = delay.parse(one.body), delay.parse(other.body)
    assert ("MQHRF2", 273, "MQSTR", 546) == (header.format, header.encoding, mine.format, mine.encoding)
    assert header == msgspec.structs.replace(mine, format="MQHRF2", encoding=273)
    properties, _ = rfh2.parse(one.body[DELAY_HEADER_BYTES:], encoding=header.encoding, ccsid=header.ccsid)
    sent, added = rfh2.properties(properties, "jms"), rfh2.properties(properties, "mqext")
    assert (60_000, 60_000) == (int(str(added["Dly"])), int(str(added["Dtm"])) - int(str(sent["Tms"])))
    assert [CONTEXT | PRIORITY | NO_HEADER] == differences(theirs, mq, "Q1")
