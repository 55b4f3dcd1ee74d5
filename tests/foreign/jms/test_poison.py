"""IBM's JMS classes and mqflow cannot handle the same message on queue managers that started equal.

Each case says what IBM's classes leave on the queues, and what mqflow leaves if that differs. Then all fields of the MQMD and
the MQDLH, the MQRFH2 and the body are compared. `DIFFERENT` has the fields that differ, each with its reason.
"""

from typing import Final

import anyio
import pytest
from msgspec import Struct
from msgspec.structs import replace

from mqflow import App, Backout, Pace
from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.fap.calls import InquireCall, OpenCall, VerbRequest
from mqflow.fap.transmission_segments import Flow, Flows, SegmentType
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.chain import Headers, split
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.rfh2 import RFH2
from mqflow.mqi.options import MessageFlag, MessageType, OpenOption, PutOption, Report
from mqflow.policy.poison.disposition import Behaviour
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Got
from tests.foreign.dissecting import Conversations
from tests.foreign.jms.fields import different
from tests.foreign.jms.program import Scenario
from tests.long import of_the_day
from tests.queue_contents import browsed, put

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program

QUEUES: Final = ("INPUT", "BOQ", "DLQ", "REPLY")
CALM: Final = Pace(first_s=1, factor=1, max_s=1, jitter=0)
DISCARD_WITH_REPORT: Final = Report.DISCARD_MSG | Report.EXCEPTION_WITH_FULL_DATA
NO_BOQNAME: Final = "ALTER QLOCAL(INPUT) BOQNAME(' ')"
NO_QUEUE: Final = f"{NO_BOQNAME}\nALTER QLOCAL(DLQ) MAXDEPTH(0)"
ON_BOQ: Final = "BOQ MMMM 'bad'"
STAYS: Final = "INPUT MMMM 'bad'"
#: Every field has a value that is not its default.
SENT: Final = MessageDescriptor(
    expiry_tenths=36_000, format="MQSTR", ccsid=819, encoding=546, priority=3, message_id=b"M" * 24, correlation_id=b"C" * 24,
    reply_to_queue="REPLY", reply_to_queue_manager="QM1", user_identifier="ann", accounting_token=b"T" * 32,
    application_identity_data="identity", put_application_type=6, put_application_name="a COBOL program", put_date="20010203",
    put_time="04050607", application_origin_data="orig", group_id=b"G" * 24,
    message_flags=MessageFlag.MSG_IN_GROUP | MessageFlag.LAST_MSG_IN_GROUP,
)  # fmt: skip
#: An added MQRFH2, and the fields in front of it that describe it.
ADDED: Final = frozenset(f"MQRFH2.{name}" for name in RFH2.__struct_fields__)
#: A dead letter names the program that moved it, and the time of the move. IBM's classes give it a new MsgId.
DEAD: Final = frozenset({
    "MQDLH.put_application_name", "MQDLH.put_application_type", "MQDLH.put_date", "MQDLH.put_time", "MQMD.message_id",
})  # fmt: skip
#: A report of IBM's classes has the context of the message: it passes all context. A report of mqflow has its own context, as
#: the reports of a queue manager have. Each has a MsgId of its own.
REPORT: Final = frozenset({
    "MQMD.accounting_token", "MQMD.application_identity_data", "MQMD.application_origin_data", "MQMD.message_id",
    "MQMD.put_application_name", "MQMD.put_date", "MQMD.put_time", "MQMD.user_identifier",
})  # fmt: skip
#: The fields that differ, by the queue, and by whether a ConnectionConsumer moves the message: it adds no MQRFH2.
#: In the MQRFH2 on the backout queue, only mqflow says why. A message that stays was tried another number of times.
DIFFERENT: Final = {
    ("INPUT", False): {"MQMD.backout_count"},
    ("INPUT", True): {"MQMD.backout_count"},
    ("BOQ", False): {"MQRFH2.folders"},
    ("BOQ", True): ADDED | {"MQMD.format", "MQMD.ccsid", "MQMD.encoding"},
    # Behind an added MQRFH2, IBM's numbers in the MQDLH are big-endian; mqflow's are always those of the processor.
    ("DLQ", False): DEAD | ADDED | {"MQDLH.format", "MQDLH.ccsid", "MQDLH.encoding", "MQMD.encoding"},
    # The character set of the MQDLH: that of the message for IBM's classes, and UTF-8 for mqflow.
    ("DLQ", True): DEAD | {"MQMD.ccsid"},
    ("REPLY", False): REPORT | ADDED | {"MQMD.format", "MQMD.ccsid", "MQMD.encoding"},
    ("REPLY", True): REPORT,
}
#: It differs if the backout queue refuses the message: the lines of the case say so.
DESTINATION: Final = frozenset({"MQDLH.destination_queue"})
#: The time that is left depends on the clock of each queue manager.
EXPIRY: Final = frozenset({"MQMD.expiry_tenths"})
PUT: Final = PutOption.NO_SYNCPOINT | PutOption.SET_ALL_CONTEXT
MINUTE_TENTHS: Final = 600
BACKOUT_THRESHOLD: Final = 22
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
    message_type: int = MessageType.DATAGRAM
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
    Case(name="a program waits for the answer", message_type=MessageType.REQUEST, leaves=(ON_BOQ,),
         mqflow=(ON_BOQ, "REPLY report 2362 of MMMM ''")),
    Case(name="the threshold is 1", mqsc="ALTER QLOCAL(INPUT) BOTHRESH(1)", leaves=(ON_BOQ,), deliveries=1),
    Case(name="the backout queue is full", mqsc="ALTER QLOCAL(BOQ) MAXDEPTH(0)", leaves=("DLQ 2053 for BOQ 'bad'",),
         mqflow=("DLQ 2053 for INPUT 'bad'",)),
    Case(name="the backout queue is inhibited", mqsc="ALTER QLOCAL(BOQ) PUT(DISABLED)", leaves=("DLQ 2051 for BOQ 'bad'",),
         mqflow=("DLQ 2051 for INPUT 'bad'",)),
    Case(name="the backout queue does not exist", mqsc="ALTER QLOCAL(INPUT) BOQNAME(NONE)", leaves=("DLQ 2085 for NONE 'bad'",),
         mqflow=("DLQ 2085 for INPUT 'bad'",)),
    Case(name="there is no BOQNAME", mqsc=NO_BOQNAME, leaves=("DLQ 2362 for INPUT 'bad'",), hows=tuple(BEHAVIOURS)),
    Case(name="the sender asked to discard", mqsc=NO_BOQNAME, report=Report.DISCARD_MSG, leaves=()),
    Case(name="the sender asked to discard and for a report", mqsc=NO_BOQNAME, report=DISCARD_WITH_REPORT,
         leaves=("REPLY report 2362 of MMMM 'bad'",)),
    Case(name="the sender asked for a report", mqsc=NO_BOQNAME, report=Report.EXCEPTION_WITH_FULL_DATA,
         leaves=("DLQ 2362 for INPUT 'bad'", "REPLY report 2362 of MMMM 'bad'"), hows=tuple(BEHAVIOURS)),
    Case(name="the dead-letter queue is full", mqsc=NO_QUEUE, leaves=(STAYS,), losing=("sync", "auto"), hows=tuple(BEHAVIOURS)),
    Case(name="the dead-letter queue is full and the message is not persistent", mqsc=NO_QUEUE, persistence=0, leaves=(STAYS,),
         losing=("sync", "auto", "asf"), hows=tuple(BEHAVIOURS)),
    Case(name="there is no dead-letter queue", mqsc=f"{NO_BOQNAME}\nALTER QMGR DEADQ(' ')", leaves=(STAYS,)),
)  # fmt: skip
PAIRS: Final = [pytest.param(case, how, id=f"{case.name}, {how}") for case in CASES for how in case.hows]


def commands(case: Case) -> str:
    queues = "".join(f"DEFINE QLOCAL({queue}) REPLACE\n" for queue in QUEUES)
    return f"{queues}ALTER QLOCAL(INPUT) BOTHRESH(2) BOQNAME(BOQ)\nALTER QMGR DEADQ(DLQ)\n{case.mqsc}\n"


def send(queue_manager: EmbeddedQueueManager, case: Case) -> None:
    sent = replace(SENT, message_type=case.message_type, persistence=case.persistence, report=case.report)
    put(queue_manager, "INPUT", b"bad", descriptor=sent, options=PUT)


class Left(Struct, frozen=True):
    """A message on one of the queues."""

    queue: str
    got: Got

    @property
    def headers(self) -> Headers:
        return split(self.got.descriptor, self.got.body)

    @property
    def line(self) -> str:
        """The message in one line."""
        given = self.got.descriptor
        dead = [header for header in self.headers.chain if isinstance(header, DeadLetterHeader)]
        if dead:
            said = f"{dead[0].reason} for {dead[0].destination_queue}"
        elif given.feedback:
            said = f"report {given.feedback} of {given.correlation_id[:4].decode('latin-1')}"
        else:
            said = given.message_id[:4].decode("latin-1")
        return f"{self.queue} {said} {self.headers.body.decode()!r}"


def left(queue_manager: EmbeddedQueueManager) -> list[Left]:
    return [Left(queue, got) for queue in QUEUES for got in browsed(queue_manager, queue)]


def lines(found: list[Left]) -> tuple[str, ...]:
    return tuple(each.line for each in found)


def left_tenths(left: Left) -> int:
    """Return how much of the time to live is left. A report has its own."""
    return left.got.descriptor.expiry_tenths if left.queue != "REPLY" else SENT.expiry_tenths - 1


@pytest.mark.parametrize(("case", "how"), of_the_day(PAIRS, 18, name="poison"))
@pytest.mark.mq_backend("asyncio")
async def test_ibms_classes_and_mqflow_leave_a_poison_message(
    jms: Scenario, queue_manager: EmbeddedQueueManager, mq: QueueManagerKit, case: Case, how: str
) -> None:
    assert 0 == run(commands(case), queue_manager.administration).exit_code()
    send(queue_manager, case)
    mq.mqsc(commands(case))
    send(mq.queue_manager, case)

    said = jms(f"poison-{how}:INPUT:{case.deliveries}")
    async with mq.run(failing(BEHAVIOURS[how])):
        await anyio.sleep(10)  # of virtual time

    theirs, ours = left(queue_manager), left(mq.queue_manager)
    assert [f"delivery {count}" for count in range(1, case.deliveries + 1)] == said[: case.deliveries]
    assert (() if how in case.losing else case.leaves) == lines(theirs)
    assert (() if how in case.losing else case.mqflow or case.leaves) == lines(ours)
    for header in [header for each in theirs for header in each.headers.chain if isinstance(header, DeadLetterHeader)]:
        assert (28, "MQ JMS ConnectionConsumer") == (header.put_application_type, header.put_application_name)
    for one, other in zip(theirs, ours[: len(theirs)], strict=True):
        found = different(one.got, other.got) - DESTINATION - EXPIRY
        assert (one.queue, DIFFERENT[one.queue, how == "asf"]) == (other.queue, found)
        assert all(0 < SENT.expiry_tenths - left_tenths(each) < MINUTE_TENTHS for each in (one, other))


def failing(behaviour: Behaviour) -> App:
    app = App(name="failing")

    @app.listener("INPUT", backout=Backout(pace=CALM, behaviour=behaviour))
    async def handle(body: bytes) -> None:
        raise ValueError("cannot be handled")

    return app


def started(queue_manager: EmbeddedQueueManager, name: str, changes: str = "") -> Case:
    """Set the queue manager up for a case with changes, and put its message."""
    case = next(case for case in CASES if case.name == name)
    assert 0 == run(commands(case) + changes, queue_manager.administration).exit_code()
    send(queue_manager, case)
    return case


def test_after_a_failed_move_a_rollback_keeps_the_message(jms: Scenario, queue_manager: EmbeddedQueueManager) -> None:
    started(queue_manager, "the dead-letter queue is full")

    assert ["delivery 1", "delivery 2", "receive 2053", "end"] == jms("poison-rollback:INPUT")
    assert (STAYS,) == lines(left(queue_manager))


@pytest.mark.parametrize(
    ("scenario", "leaves"),
    [("poison-rollback", (ON_BOQ,)), ("poison-after-put", (STAYS,))],
    ids=["the transaction is empty", "the program has put a message"],
)
def test_a_synchronous_consumer_moves_in_its_transaction_unless_that_is_empty(
    jms: Scenario, queue_manager: EmbeddedQueueManager, scenario: str, leaves: tuple[str, ...]
) -> None:
    """The transaction ends with a rollback. The difference: the classes commit the move in an empty transaction at once."""
    started(queue_manager, "the backout queue takes the message")

    assert ["delivery 1", "delivery 2", "end"] == jms(f"{scenario}:INPUT")
    assert leaves == lines(left(queue_manager))


def test_a_message_listener_moves_outside_of_the_transaction_of_its_next_message(
    jms: Scenario, queue_manager: EmbeddedQueueManager
) -> None:
    """While the next message is in the listener, and before it fails too, the poison message is on the backout queue."""
    case = started(queue_manager, "the backout queue takes the message")
    send(queue_manager, case)
    seen: list[tuple[str, ...]] = []

    said = jms("poison-look:INPUT:4", stop=lambda: seen.append(lines(left(queue_manager))))

    assert ["delivery 1", "delivery 2", "delivery 1", "stop", "delivery 2", "end"] == said
    assert [(ON_BOQ,)] == seen


def test_without_a_threshold_a_message_is_delivered_again_and_again(jms: Scenario, queue_manager: EmbeddedQueueManager) -> None:
    """The consumer ends the loop with a commit."""
    started(queue_manager, "the backout queue takes the message", "ALTER QLOCAL(INPUT) BOTHRESH(0)")

    assert [*(f"delivery {count}" for count in range(1, 7)), "end"] == jms("poison-sync:INPUT:6")
    assert () == lines(left(queue_manager))


def test_the_backout_attributes_of_an_alias_are_those_of_its_target(jms: Scenario, queue_manager: EmbeddedQueueManager) -> None:
    started(queue_manager, "the backout queue takes the message", "DEFINE QALIAS(ALIAS) TARGET(INPUT)")

    assert ["delivery 1", "delivery 2", "end"] == jms("poison-listener:ALIAS")
    assert (ON_BOQ,) == lines(left(queue_manager))


@pytest.mark.parametrize(
    ("authorities", "leaves"),
    [("PUT,PASSALL", ON_BOQ), ("PUT", "DLQ 2035 for BOQ 'bad'")],
    ids=["put and passall", "put alone"],
)
def test_a_move_takes_put_and_passall_on_the_backout_queue(
    jms: Scenario, queue_manager: EmbeddedQueueManager, authorities: str, leaves: str
) -> None:
    changes = (
        "DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN) MCAUSER('ann')\n"
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT,INQ)\n"
        "SET AUTHREC PROFILE(INPUT) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(GET,INQ,BROWSE)\n"
        f"SET AUTHREC PROFILE(BOQ) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD({authorities})\n"
        "SET AUTHREC PROFILE(DLQ) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT,PASSALL)\n"
    )
    started(queue_manager, "the backout queue takes the message", changes)

    assert ["delivery 1", "delivery 2", "end"] == jms("poison-listener:INPUT")
    assert (leaves,) == lines(left(queue_manager))


def test_the_classes_inquire_the_backout_attributes_once(
    jms: Scenario, queue_manager: EmbeddedQueueManager, conversations: Conversations, request: pytest.FixtureRequest
) -> None:
    """They open the queue for inquire when the first message with a BackoutCount comes, inquire, and close the queue again."""
    send(queue_manager, started(queue_manager, "the backout queue takes the message"))

    jms("poison-listener:INPUT:4")

    [kept] = [segments for (name, _), segments in conversations.kept.items() if name == request.node.name]
    flows = list(Flows().feed(b"".join(segment for from_client, segment in kept if from_client)))
    kinds = [flow.header.kind for flow in flows]
    [asked] = [at for at, flow in enumerate(flows) if kinds[at] == SegmentType.MQINQ and inquires_threshold(flow)]
    assert [SegmentType.MQOPEN, SegmentType.MQINQ, SegmentType.MQCLOSE] == kinds[asked - 1 : asked + 2]
    opened = OpenCall.read(VerbRequest.of(flows[asked - 1]).reader())
    assert ("INPUT", OpenOption.INQUIRE | OpenOption.FAIL_IF_QUIESCING) == (opened.fields.descriptor.name, opened.options)


def inquires_threshold(flow: Flow) -> bool:
    return BACKOUT_THRESHOLD in InquireCall.read(VerbRequest.of(flow).reader()).selectors
