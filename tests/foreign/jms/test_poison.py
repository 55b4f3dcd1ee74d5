"""IBM's JMS classes and mqflow cannot handle the same message on queue managers that started equal.

Each case says what IBM's classes leave on the queues, and what mqflow leaves if that differs. A MessageConsumer puts an MQRFH2
in front of a message that has none, and a connection consumer (ASF) does not. That difference is in every case, so the
comparison leaves the MQRFH2 out.
"""

from collections.abc import Iterable
from typing import Final

import anyio
import pytest
from msgspec import Struct

from mqflow import App, Backout, Pace
from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.chain import split
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.options import PutOption, Report
from mqflow.policy.poison.disposition import Behaviour
from mqflow.testing.kit import QueueManagerKit
from tests.foreign.jms.program import Scenario, messages

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program

QUEUES: Final = ("INPUT", "BOQ", "DLQ", "REPLY")
CALM: Final = Pace(first_s=1, factor=1, max_s=1, jitter=0)
DISCARD_WITH_REPORT: Final = Report.DISCARD_MSG | Report.EXCEPTION_WITH_FULL_DATA
NO_BOQNAME: Final = "ALTER QLOCAL(INPUT) BOQNAME(' ')"
NO_QUEUE: Final = f"{NO_BOQNAME}\nALTER QLOCAL(DLQ) MAXDEPTH(0)"
ON_BOQ: Final = "BOQ MMMM 'bad'"
STAYS: Final = "INPUT MMMM 'bad'"
#: A scenario of IBM's classes, and the behaviour of mqflow that does the same.
BEHAVIOURS: Final = {
    "listener": Behaviour.JMS_LISTENER,
    "sync": Behaviour.JMS_CONSUMER,
    "auto": Behaviour.JMS_CONSUMER_NOT_TRANSACTED,
    "asf": Behaviour.CONNECTION_CONSUMER,
}


class Case(Struct, frozen=True, kw_only=True):
    """One way in which a message is poison."""

    name: str
    #: Commands that change the queues.
    mqsc: str = ""
    report: int = 0
    persistence: int = 1
    #: The messages that IBM's classes leave. For the kinds of consumer in `losing`, they leave none.
    leaves: tuple[str, ...]
    losing: tuple[str, ...] = ()
    deliveries: int = 2
    #: The difference: the messages that mqflow leaves.
    mqflow: tuple[str, ...] | None = None
    hows: tuple[str, ...] = ("listener", "asf")


CASES: Final = (
    Case(name="the backout queue takes the message", leaves=(ON_BOQ,), hows=tuple(BEHAVIOURS)),
    Case(
        name="the threshold is 1",
        mqsc="ALTER QLOCAL(INPUT) BOTHRESH(1)",
        leaves=(ON_BOQ,),
        deliveries=1,
    ),
    Case(
        name="the backout queue is full",
        mqsc="ALTER QLOCAL(BOQ) MAXDEPTH(0)",
        leaves=("DLQ 2053 for BOQ 'bad'",),
        mqflow=("DLQ 2053 for INPUT 'bad'",),
    ),
    Case(
        name="the backout queue is inhibited",
        mqsc="ALTER QLOCAL(BOQ) PUT(DISABLED)",
        leaves=("DLQ 2051 for BOQ 'bad'",),
        mqflow=("DLQ 2051 for INPUT 'bad'",),
    ),
    Case(
        name="the backout queue does not exist",
        mqsc="ALTER QLOCAL(INPUT) BOQNAME(NONE)",
        leaves=("DLQ 2085 for NONE 'bad'",),
        mqflow=("DLQ 2085 for INPUT 'bad'",),
    ),
    Case(name="there is no BOQNAME", mqsc=NO_BOQNAME, leaves=("DLQ 2362 for INPUT 'bad'",), hows=tuple(BEHAVIOURS)),
    Case(name="the sender asked to discard", mqsc=NO_BOQNAME, report=Report.DISCARD_MSG, leaves=()),
    Case(
        name="the sender asked to discard and for a report",
        mqsc=NO_BOQNAME,
        report=DISCARD_WITH_REPORT,
        leaves=("REPLY report 2362 of MMMM 'bad'",),
    ),
    Case(
        name="the sender asked for a report",
        mqsc=NO_BOQNAME,
        report=Report.EXCEPTION_WITH_FULL_DATA,
        leaves=("DLQ 2362 for INPUT 'bad'", "REPLY report 2362 of MMMM 'bad'"),
        hows=tuple(BEHAVIOURS),
    ),
    Case(
        name="the dead-letter queue is full",
        mqsc=NO_QUEUE,
        leaves=(STAYS,),
        losing=("sync", "auto"),
        hows=tuple(BEHAVIOURS),
    ),
    Case(
        name="the dead-letter queue is full and the message is not persistent",
        mqsc=NO_QUEUE,
        persistence=0,
        leaves=(STAYS,),
        losing=("sync", "auto", "asf"),
        hows=tuple(BEHAVIOURS),
    ),
    Case(name="there is no dead-letter queue", mqsc=f"{NO_BOQNAME}\nALTER QMGR DEADQ(' ')", leaves=(STAYS,)),
)
PAIRS: Final = [pytest.param(case, how, id=f"{case.name}, {how}") for case in CASES for how in case.hows]


def commands(case: Case) -> str:
    queues = "".join(f"DEFINE QLOCAL({queue}) REPLACE\n" for queue in QUEUES)
    return f"{queues}ALTER QLOCAL(INPUT) BOTHRESH(2) BOQNAME(BOQ)\nALTER QMGR DEADQ(DLQ)\n{case.mqsc}\n"


def put(queue_manager: EmbeddedQueueManager, case: Case) -> None:
    connection = queue_manager.connect(application_name="a COBOL program")
    descriptor = MessageDescriptor(
        format="MQSTR",
        ccsid=1208,
        encoding=273,
        persistence=case.persistence,
        report=case.report,
        reply_to_queue="REPLY",
        message_id=b"M" * 24,
        correlation_id=b"C" * 24,
    )
    connection.put1("INPUT", descriptor, b"bad", PutOption.NO_SYNCPOINT)
    connection.disconnect()


def left(queue_manager: EmbeddedQueueManager) -> Iterable[str]:
    """Yield one line for each message on the queues."""
    for queue in QUEUES:
        for got in messages(queue_manager, queue):
            headers = split(got.descriptor, got.body)
            dead = [header for header in headers.chain if isinstance(header, DeadLetterHeader)]
            given = got.descriptor
            if dead:
                said = f"{dead[0].reason} for {dead[0].destination_queue}"
            elif given.feedback:
                said = f"report {given.feedback} of {given.correlation_id[:4].decode('latin-1')}"
            else:
                said = given.message_id[:4].decode("latin-1")
            yield f"{queue} {said} {headers.body.decode()!r}"


@pytest.mark.parametrize(("case", "how"), PAIRS)
def test_ibms_classes_leave_a_poison_message(jms: Scenario, queue_manager: EmbeddedQueueManager, case: Case, how: str) -> None:
    assert 0 == run(commands(case), queue_manager.administration).exit_code()
    put(queue_manager, case)

    said = jms(f"poison-{how}:INPUT")

    assert [f"delivery {count}" for count in range(1, case.deliveries + 1)] == said[: case.deliveries]
    assert (() if how in case.losing else case.leaves) == tuple(left(queue_manager))


def test_after_a_failed_move_a_rollback_keeps_the_message(jms: Scenario, queue_manager: EmbeddedQueueManager) -> None:
    case = next(case for case in CASES if case.name == "the dead-letter queue is full")
    assert 0 == run(commands(case), queue_manager.administration).exit_code()
    put(queue_manager, case)

    assert ["delivery 1", "delivery 2", "receive 2053", "end"] == jms("poison-rollback:INPUT")
    assert [STAYS] == list(left(queue_manager))


@pytest.mark.parametrize(("case", "how"), PAIRS)
@pytest.mark.mq_backend("asyncio")
async def test_mqflow_leaves_a_poison_message(mq: QueueManagerKit, case: Case, how: str) -> None:
    mq.mqsc(commands(case))
    put(mq.queue_manager, case)
    app = App(name="failing")

    @app.listener("INPUT", backout=Backout(pace=CALM, behaviour=BEHAVIOURS[how]))
    async def handle(body: bytes) -> None:
        raise ValueError("cannot be handled")

    async with mq.run(app):
        await anyio.sleep(10)  # of virtual time

    assert (() if how in case.losing else case.mqflow or case.leaves) == tuple(left(mq.queue_manager))
