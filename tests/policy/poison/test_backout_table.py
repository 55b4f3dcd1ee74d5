"""The decision table: one row for each sentence of the sources about the disposition of a message.

`first` is IBM q032280, "Handling poison messages in IBM MQ classes for JMS". `second` is John Hawkins, "Understanding MQ
Backout Queues & Thresholds", with its comments. `asf` is IBM q032680, "Removing messages from the queue in ASF". `from memory`
marks a rule that was not read again, `ours` a rule that this project decided without a source.
"""

import pytest
from msgspec import Struct

from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.backout import Plan, decide, dispose, refused
from mqflow.policy.poison.disposition import Behaviour, DeadLetter, Deliver, Discard, Disposition, Requeue, Return

LISTENER = Behaviour.JMS_LISTENER
CONSUMER = Behaviour.JMS_CONSUMER
CONSUMER_NOT_TRANSACTED = Behaviour.JMS_CONSUMER_NOT_TRANSACTED
ASF = Behaviour.CONNECTION_CONSUMER
SERVER = Behaviour.APPLICATION_SERVER
BROKER = Behaviour.BROKER_INPUT_NODE
PLAIN = Behaviour.PLAIN_MQI

JMS = (LISTENER, CONSUMER, CONSUMER_NOT_TRANSACTED, ASF, SERVER)
AUTOMATIC = (*JMS, BROKER)

BOQ, DLQ = "ORDERS.BOQ", "DEAD.LETTERS"
NO_QUEUE_TOOK_IT = frozenset({BOQ, DLQ})


class Row(Struct, frozen=True, kw_only=True):
    """One sentence: a message, its queue, the queues that refuse the put, and the disposition of the message."""

    sentence: str
    by: tuple[Behaviour, ...]
    expected: Disposition
    count: int = 3
    threshold: int = 3
    backout_requeue_queue: str = BOQ
    dead_letter_queue: str = DLQ
    report: int = 0
    persistent: bool = True
    refusing: frozenset[str] = frozenset()
    refusal: int = Reason.Q_FULL


def carry_out(plan: Plan, refusing: frozenset[str] = frozenset(), refusal: int = Reason.Q_FULL) -> Disposition:
    """Return the first disposition that succeeds if these queues refuse every put."""
    while isinstance(plan[0], Requeue | DeadLetter) and plan[0].queue in refusing:
        plan = refused(plan, refusal)
    return plan[0]


def message(row: Row) -> MessageDescriptor:
    persistence = Persistence.PERSISTENT if row.persistent else Persistence.NOT_PERSISTENT
    return MessageDescriptor(report=row.report, persistence=persistence, backout_count=row.count)


def queue(row: Row) -> QueueAttributes:
    return QueueAttributes(name="ORDERS.IN", backout_threshold=row.threshold, backout_requeue_queue=row.backout_requeue_queue)


def without_why(disposition: Disposition) -> Disposition:
    """Return the disposition without its sentence, which is not part of the rule."""
    match disposition:
        case Discard():
            return Discard("")
        case Return():
            return Return("", disposition.stop_delivery)
        case _:
            return disposition


THRESHOLD_ROWS = (
    Row(sentence="first: If the BackoutCount is less than the value of the BOTHRESH attribute, ... deliver it", by=AUTOMATIC,
        count=2, expected=Deliver()),
    Row(sentence="first: if the BackoutCount is greater than or equal to BOTHRESH (equal) ... move the message to BOQNAME",
        by=AUTOMATIC, count=3, expected=Requeue(BOQ)),
    Row(sentence="first: if the BackoutCount is greater than or equal to BOTHRESH (greater) ... move the message to BOQNAME",
        by=AUTOMATIC, count=4, expected=Requeue(BOQ)),
    Row(sentence="first: compare when BackoutCount is greater than zero: a first delivery is never poison", by=AUTOMATIC,
        count=0, threshold=1, expected=Deliver()),
    Row(sentence="first: default value of 0, then poison message handling is disabled", by=JMS, count=1_000, threshold=0,
        expected=Deliver()),
    Row(sentence="first: By default, ... repeatedly redeliver the message to the application", by=JMS, count=1_000_000,
        threshold=0, backout_requeue_queue="", dead_letter_queue="", expected=Deliver()),
    Row(sentence="second: The default is to try to process the message once", by=(BROKER,), count=1, threshold=0,
        expected=Requeue(BOQ)),
    Row(sentence="second: If the retry setting is set to greater than 1, then additional attempts may occur", by=(BROKER,),
        count=1, threshold=2, expected=Deliver()),
    Row(sentence="second: Yes, it's just a hint: nothing is compared for a program that uses the MQI", by=(PLAIN,), count=1_000,
        expected=Deliver()),
    Row(sentence="second: without backout threshold ... poison messages being repeatedly read in and creating a loop",
        by=(SERVER,), count=1_000, threshold=0, expected=Deliver()),
)  # fmt: skip

NO_BACKOUT_QUEUE_ROWS = (
    Row(sentence="first: BOQNAME has not been set ... MQRO_DISCARD_MSG set, the message is discarded", by=JMS,
        backout_requeue_queue="", report=Report.DISCARD_MSG, expected=Discard("")),
    Row(sentence="first: BOQNAME has not been set ... among other report options, MQRO_DISCARD_MSG discards", by=JMS,
        backout_requeue_queue="", report=Report.DISCARD_MSG | Report.EXCEPTION | Report.PASS_MSG_ID, expected=Discard("")),
    Row(sentence="first: BOQNAME has not been set ... neither MQRO_DISCARD_MSG or MQRO_DEAD_LETTER_Q set ... dead letter queue",
        by=JMS, backout_requeue_queue="", report=Report.NONE, expected=DeadLetter(DLQ, Reason.BACKOUT_THRESHOLD_REACHED)),
    Row(sentence="first: BOQNAME has not been set ... no other report option keeps it from the dead letter queue", by=JMS,
        backout_requeue_queue="", report=Report.EXCEPTION_WITH_FULL_DATA | Report.COA | Report.PASS_DISCARD_AND_EXPIRY,
        expected=DeadLetter(DLQ, Reason.BACKOUT_THRESHOLD_REACHED)),
    Row(sentence="second: If the backout queue has not been set ... PUT to the Dead Letter Queue", by=AUTOMATIC,
        backout_requeue_queue="", expected=DeadLetter(DLQ, Reason.BACKOUT_THRESHOLD_REACHED)),
    Row(sentence="second: MessageConsumer and ConnectionConsumer classes automatically re-route ... or the DLQ",
        by=(CONSUMER, CONSUMER_NOT_TRANSACTED, ASF), backout_requeue_queue="",
        expected=DeadLetter(DLQ, Reason.BACKOUT_THRESHOLD_REACHED)),
    Row(sentence="ours: the source of an input node has no discarding, so the option is not obeyed", by=(BROKER,),
        backout_requeue_queue="", report=Report.DISCARD_MSG, expected=DeadLetter(DLQ, Reason.BACKOUT_THRESHOLD_REACHED)),
    Row(sentence="ours: a queue that names itself as its backout queue has none", by=AUTOMATIC,
        backout_requeue_queue="ORDERS.IN", expected=DeadLetter(DLQ, Reason.BACKOUT_THRESHOLD_REACHED)),
)  # fmt: skip

REFUSED_ROWS = (
    Row(sentence="first: move the message to the queue specified by the BOQNAME attribute, whatever the report options",
        by=AUTOMATIC, report=Report.DISCARD_MSG | Report.EXCEPTION, expected=Requeue(BOQ)),
    Row(sentence="first: cannot be put to the backout queue, then it is ... discarded, depending upon the report options",
        by=JMS, report=Report.DISCARD_MSG, refusing=frozenset({BOQ}), expected=Discard("")),
    Row(sentence="first: cannot be put to the backout queue, then it is ... moved to the queue manager's dead letter queue",
        by=AUTOMATIC, refusing=frozenset({BOQ}), expected=DeadLetter(DLQ, Reason.Q_FULL)),
    Row(sentence="ours: MQDLH.Reason is that of the refused put", by=AUTOMATIC, refusing=frozenset({BOQ}),
        refusal=Reason.PUT_INHIBITED, expected=DeadLetter(DLQ, Reason.PUT_INHIBITED)),
    Row(sentence="first: put to the dead letter queue fails ... transacted, and the transaction is committed, ... discarded",
        by=(CONSUMER,), refusing=NO_QUEUE_TOOK_IT, expected=Discard("")),
    Row(sentence="first: put to the dead letter queue fails ... non-transacted ..., the message is discarded",
        by=(CONSUMER_NOT_TRANSACTED,), refusing=NO_QUEUE_TOOK_IT, expected=Discard("")),
    Row(sentence="first: put to the dead letter queue fails ... [asynchronous] returns the message to the input queue",
        by=(LISTENER,), refusing=NO_QUEUE_TOOK_IT, expected=Return("")),
    Row(sentence="first: returns the message to the input queue, persistent or not", by=(LISTENER,), persistent=False,
        refusing=NO_QUEUE_TOOK_IT, expected=Return("")),
    Row(sentence="first: put to the dead letter queue fails for some reason: there is no dead letter queue", by=(LISTENER,),
        backout_requeue_queue="", dead_letter_queue="", expected=Return("")),
    Row(sentence="asf: the ConnectionConsumer fails to requeue it on the backout queue ... MQRO_DISCARD_MSG: discarded",
        by=(ASF,), report=Report.DISCARD_MSG, refusing=frozenset({BOQ}), expected=Discard("")),
    Row(sentence="asf: MQRO_DEAD_LETTER_Q: requeued to the queue manager's dead-letter queue. This is the default", by=(ASF,),
        refusing=frozenset({BOQ}), expected=DeadLetter(DLQ, Reason.Q_FULL)),
    Row(sentence="second: cannot be put to the defined backout queue and ... the DLQ then the message is discarded",
        by=(CONSUMER, CONSUMER_NOT_TRANSACTED, ASF), persistent=False, refusing=NO_QUEUE_TOOK_IT, expected=Discard("")),
    Row(sentence="second: This statement is only true for non-persistent messages (from memory: delivery stops)", by=(ASF,),
        refusing=NO_QUEUE_TOOK_IT, expected=Return("", stop_delivery=True)),
    Row(sentence="from memory: an application server stops its listener when no queue takes the message", by=(SERVER,),
        refusing=NO_QUEUE_TOOK_IT, expected=Return("", stop_delivery=True)),
    Row(sentence="from memory: an application server stops for a message that is not persistent, too", by=(SERVER,),
        persistent=False, refusing=NO_QUEUE_TOOK_IT, expected=Return("", stop_delivery=True)),
    Row(sentence="second: If a BOQNAME is defined, put the message on the named Backout queue", by=(BROKER,),
        expected=Requeue(BOQ)),
    Row(sentence="second: If unable to put the message on the Backout queue, put the message on the system Dead Letter queue",
        by=(BROKER,), refusing=frozenset({BOQ}), expected=DeadLetter(DLQ, Reason.Q_FULL)),
    Row(sentence="second: If the message cannot be put to the DLQ, then continue to retry processing the message", by=(BROKER,),
        refusing=NO_QUEUE_TOOK_IT, expected=Return("")),
    Row(sentence="ours: a dead-letter queue is not its own dead-letter queue", by=(LISTENER, BROKER), backout_requeue_queue="",
        dead_letter_queue="ORDERS.IN", expected=Return("")),
)  # fmt: skip


def cases(*tables: tuple[Row, ...]) -> list[object]:
    return [
        pytest.param(row, behaviour, id=f"{behaviour.value}: {row.sentence}")
        for table in tables
        for row in table
        for behaviour in row.by
    ]


@pytest.mark.parametrize(("row", "behaviour"), cases(THRESHOLD_ROWS, NO_BACKOUT_QUEUE_ROWS, REFUSED_ROWS))
def test_a_message_ends_as_the_sentence_says(row: Row, behaviour: Behaviour) -> None:
    plan = decide(message(row), queue(row), row.dead_letter_queue, behaviour)

    assert row.expected == without_why(carry_out(plan, row.refusing, row.refusal))


@pytest.mark.parametrize(("row", "behaviour"), cases(NO_BACKOUT_QUEUE_ROWS, REFUSED_ROWS))
def test_a_rejected_message_ends_where_a_poison_message_does(row: Row, behaviour: Behaviour) -> None:
    poison = decide(message(row), queue(row), row.dead_letter_queue, behaviour)
    first_delivery = message(row)
    first_delivery = MessageDescriptor(report=first_delivery.report, persistence=first_delivery.persistence)

    assert poison == dispose(first_delivery, queue(row), row.dead_letter_queue, behaviour)


PLAIN_ROWS = (
    Row(sentence="second: retrieve the name of the backout queue ... and PUT the message onto that backout queue", by=(PLAIN,),
        expected=Requeue(BOQ)),
    Row(sentence="second: If the backout queue has not been set ... PUT to the Dead Letter Queue", by=(PLAIN,),
        backout_requeue_queue="", expected=DeadLetter(DLQ, Reason.BACKOUT_THRESHOLD_REACHED)),
    Row(sentence="ours: the source of a program has no discarding, so the option is not obeyed", by=(PLAIN,),
        backout_requeue_queue="", report=Report.DISCARD_MSG, expected=DeadLetter(DLQ, Reason.BACKOUT_THRESHOLD_REACHED)),
    Row(sentence="ours: a message that neither queue takes stays where it is", by=(PLAIN,), refusing=NO_QUEUE_TOOK_IT,
        expected=Return("")),
)  # fmt: skip


@pytest.mark.parametrize(("row", "behaviour"), cases(PLAIN_ROWS))
def test_a_program_that_uses_the_mqi_disposes_of_a_message_as_the_sentence_says(row: Row, behaviour: Behaviour) -> None:
    plan = dispose(message(row), queue(row), row.dead_letter_queue, behaviour)

    assert row.expected == without_why(carry_out(plan, row.refusing, row.refusal))


def test_the_reason_of_a_disposal_goes_to_the_dead_letter_queue_with_the_message() -> None:
    row = Row(sentence="", by=(), expected=Deliver(), backout_requeue_queue="")

    plan = dispose(message(row), queue(row), DLQ, LISTENER, reason=Reason.JMS_FORMAT_ERROR)

    assert DeadLetter(DLQ, 2364) == plan[0]


@pytest.mark.parametrize(
    ("backout_requeue_queue", "dead_letter_queue", "skipped"),
    [("IN", DLQ, "BOQNAME is IN"), (BOQ, "IN", "DEADQ is IN"), ("IN", "IN", "BOQNAME, like DEADQ, is IN")],
)
def test_a_message_that_stays_says_which_attribute_names_its_own_queue(
    backout_requeue_queue: str, dead_letter_queue: str, skipped: str
) -> None:
    attributes = QueueAttributes(name="IN", backout_threshold=3, backout_requeue_queue=backout_requeue_queue)

    *_, last = dispose(MessageDescriptor(), attributes, dead_letter_queue, Behaviour.JMS_LISTENER)

    assert isinstance(last, Return)
    assert last.why.endswith(
        f". {skipped}, the queue itself, where the message would begin again with a backout count of 0. "
        "ALTER QLOCAL('IN') BOQNAME('...') names another queue"
    )


def test_every_behaviour_has_rows() -> None:
    tables = (*THRESHOLD_ROWS, *NO_BACKOUT_QUEUE_ROWS, *REFUSED_ROWS, *PLAIN_ROWS)

    assert set(Behaviour) == {behaviour for row in tables for behaviour in row.by}


def test_no_two_rows_say_the_same_sentence_of_the_same_behaviour() -> None:
    tables = (*THRESHOLD_ROWS, *NO_BACKOUT_QUEUE_ROWS, *REFUSED_ROWS)
    said = [(row.sentence, behaviour) for row in tables for behaviour in row.by]

    assert len(said) == len(set(said))
