"""Delayed messages on any queue manager: staged, found by due time and moved, on a plain queue in order of arrival.

Source: IBM, "JMS 2.0 delivery delay"; the marks of a browse are those of MQGMO_MARK_BROWSE_HANDLE.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import anyio
import pytest
from msgspec.structs import replace

from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import delay as delay_header
from mqflow.mqi.options import Feedback, MessageType, OpenOption, Persistence, Report, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.connection.session import Session
from mqflow.runtime.delay.delayed_move import DelayedMove, DelayedResult
from mqflow.runtime.delay.due_messages import MarkedMessages, OrderedMessages, Seen, StagedMessages
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, STAGING_QUEUE, Stager, moment, staging_queue_of
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.verbs import Connection
from mqflow.world import World
from tests.conformance.programs import Program
from tests.conformance.under_test import ManualClock, UnderTest, refused

T = TypeVar("T")
TARGET = "LATER"
ORDER = MessageDescriptor(
    format="MQSTR", ccsid=1208, message_id=b"m" * 24, correlation_id=b"c" * 24, priority=7, persistence=Persistence.PERSISTENT,
    message_type=MessageType.REQUEST, reply_to_queue="REPLIES", report=int(Report.COA | Report.COD | Report.PAN),
)  # fmt: skip


class _Inline:
    """A session that makes each call immediately, in the same thread."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def call(self, verb: Callable[..., T], *args: Any, **options: Any) -> T:
        return verb(*args, **options)


class Processor:
    """The steps of a delay processor, one call at a time, on the clock of the test."""

    def __init__(
        self, queue_manager: UnderTest, program: Program, queue: str = STAGING_QUEUE, remembered_max: int = 100
    ) -> None:
        assert queue_manager.clock is not None
        self.clock: ManualClock = queue_manager.clock
        self.connection = program.connection
        self.queue = queue
        session = cast("Session", _Inline(program.connection))
        browse = program.open(queue, OpenOption.BROWSE)
        self.staged: StagedMessages
        if queue == EMBEDDED_STAGING_QUEUE:
            self.staged = OrderedMessages(session, browse)
        else:
            self.staged = MarkedMessages(session, queue, browse, remembered_max=remembered_max)
        self.move = DelayedMove(program.connection, program.open(queue, INPUT), queue, self.clock, "conformance")

    def soonest(self) -> Seen | None:
        async def look() -> Seen | None:
            return await self.staged.soonest(moment(self.clock))

        return anyio.run(look)

    def next_due(self) -> Seen:
        """Return the next due message, which must exist."""
        seen = self.soonest()
        assert seen is not None
        return seen

    def deliver(self, seen: Seen) -> DelayedResult | None:
        moved = self.move.deliver(seen.message_id)
        if moved is not None and moved.settlement is Settlement.BACKOUT:
            self.connection.backout()
            self.move.postpone(seen.message_id)
        self.connection.commit()
        self.staged.forget(seen)
        return moved


def in_real_time(queue_manager: UnderTest) -> None:
    if queue_manager.clock is None:
        pytest.skip("this queue manager lives in real time")


@pytest.fixture(autouse=True)
def queues(queue_manager: UnderTest) -> None:
    in_real_time(queue_manager)
    queue_manager.define(STAGING_QUEUE, default_persistence=1, message_delivery_sequence=1)
    for name in (TARGET, "REPLIES"):
        queue_manager.define(name)


def stager(queue_manager: UnderTest, queue: str = STAGING_QUEUE, seed: int = 1) -> Stager:
    assert queue_manager.clock is not None
    return Stager(queue, World(queue_manager.clock, SeededRandom(seed)))


def is_embedded(queue_manager: UnderTest) -> bool:
    return isinstance(queue_manager.queue_manager, EmbeddedQueueManager | ServedQueueManager)


def send(queue_manager: UnderTest, program: Program, *delays_s: float) -> None:
    stages = stager(queue_manager)
    for delay_s in delays_s:
        plain = MessageDescriptor(persistence=Persistence.PERSISTENT, priority=0)
        stages.put_on(program.connection, TARGET, plain, b"%g" % delay_s, round(delay_s * 1_000))
    program.commit()


def test_a_delayed_message_is_delivered_as_it_was_sent(queue_manager: UnderTest, program: Program, other: Program) -> None:
    put = stager(queue_manager).put_on(program.connection, TARGET, ORDER, b"an order", 5_000)
    program.commit()
    processor = Processor(queue_manager, other)
    queue_manager.advance(5)
    seen = processor.soonest()
    assert seen is not None
    moved = processor.deliver(seen)

    assert moved is not None
    got = program.got(TARGET)
    sent = replace(put.descriptor, report=ORDER.report)
    fields = set(MessageDescriptor.__struct_fields__)
    assert {name: getattr(sent, name) for name in fields} == {name: getattr(got.descriptor, name) for name in fields}
    assert b"an order" == got.body


def test_reports_of_arrival_and_delivery_are_passed_on_and_come_from_the_target_only(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    """The seed: MQRO_COA, COD, PAN, NAN and ACTIVITY are ignored for the staged message, but passed on."""
    stager(queue_manager).put_on(program.connection, TARGET, ORDER, b"an order", 5_000)
    program.commit()
    processor = Processor(queue_manager, other)
    queue_manager.advance(5)
    seen = processor.next_due()
    assert [] == program.bodies("REPLIES")

    processor.deliver(seen)
    arrived = program.got("REPLIES")
    program.got(TARGET)
    delivered = program.got("REPLIES")

    assert [Feedback.COA, Feedback.COD] == [arrived.descriptor.feedback, delivered.descriptor.feedback]
    assert [] == program.bodies("REPLIES")


def test_the_message_due_first_is_found_first_in_any_order_of_arrival(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    send(queue_manager, program, 30, 10, 20)
    processor = Processor(queue_manager, other)
    queue_manager.advance(60)

    while seen := processor.soonest():
        processor.deliver(seen)

    assert [b"10", b"20", b"30"] == program.bodies(TARGET)


@pytest.mark.parametrize("remembered_max", [2, 4, 7])
def test_a_message_that_was_not_remembered_is_read_again(
    queue_manager: UnderTest, program: Program, other: Program, remembered_max: int
) -> None:
    delays = [(number * 7) % 20 + 1 for number in range(20)]
    processor = Processor(queue_manager, other, remembered_max=remembered_max)
    send(queue_manager, program, *delays[:12])
    first = processor.next_due()
    assert b"%d" % min(delays[:12]) == b"%d" % (first.header.delay_ms // 1_000)
    send(queue_manager, program, *delays[12:])
    queue_manager.advance(60)

    while seen := processor.soonest():
        processor.deliver(seen)

    assert [b"%d" % delay for delay in sorted(delays)] == program.bodies(TARGET)


def test_a_message_committed_late_is_found_behind_the_browsed_ones(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    late = Program(queue_manager, application_name="late")
    stager(queue_manager, seed=2).put_on(late.connection, TARGET, MessageDescriptor(persistence=1), b"1", 1_000)
    send(queue_manager, program, 10)
    processor = Processor(queue_manager, other)
    first = processor.next_due()
    assert 10_000 == first.header.delay_ms

    late.commit()

    seen = processor.next_due()
    assert 1_000 == seen.header.delay_ms


def test_a_processor_that_dies_with_a_message_leaves_it_to_another(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    send(queue_manager, program, 1)
    mortal = Program(queue_manager, application_name="mortal")
    first, second = Processor(queue_manager, mortal), Processor(queue_manager, other)
    queue_manager.advance(2)
    seen = first.next_due()
    assert second.soonest() is not None  # a mark hides a message only from the handle that made the mark
    assert first.move.deliver(seen.message_id) is not None
    mortal.killed()
    assert [] == program.bodies(TARGET)

    again = second.next_due()
    second.deliver(again)

    assert [b"1"] == program.bodies(TARGET)


def test_of_two_processors_one_delivers(queue_manager: UnderTest, program: Program, other: Program) -> None:
    send(queue_manager, program, 1)
    first = Processor(queue_manager, other)
    second = Processor(queue_manager, Program(queue_manager, application_name="second"))
    queue_manager.advance(2)
    seen, also = first.soonest(), second.soonest()
    assert seen is not None
    assert also is not None

    assert first.deliver(seen) is not None
    assert second.deliver(also) is None

    assert [b"1"] == program.bodies(TARGET)


def test_a_message_that_nothing_takes_is_staged_again_and_found_again(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    send(queue_manager, program, 1)
    queue_manager.administration.alter(TARGET, {"put_inhibited": 1})
    processor = Processor(queue_manager, other)
    queue_manager.advance(2)
    seen = processor.next_due()
    processor.deliver(seen)
    queue_manager.administration.alter(TARGET, {"put_inhibited": 0})

    again = processor.next_due()
    assert (True, seen.header.delay_ms) == (again.header.retry_ms > 0, again.header.delay_ms)
    processor.deliver(again)

    assert [b"1"] == program.bodies(TARGET)


def test_a_message_that_mqflow_did_not_stage_is_browsed_once(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    program.put(STAGING_QUEUE, b"not staged")
    program.put(STAGING_QUEUE, b"not staged either", format=delay_header.FORMAT)
    processor = Processor(queue_manager, other)

    assert processor.soonest() is None
    assert 2 == queue_manager.depth(STAGING_QUEUE)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"put_inhibited": 1}, Reason.PUT_INHIBITED),
        ({"max_message_bytes": 1}, Reason.MSG_TOO_BIG_FOR_Q),
        ({"max_depth": 1}, Reason.Q_FULL),
    ],
    ids=["inhibited", "too big", "full"],
)
def test_the_target_is_checked_at_the_send(
    queue_manager: UnderTest, program: Program, changes: dict[str, int], reason: Reason
) -> None:
    program.put(TARGET, b"is there")
    queue_manager.administration.alter(TARGET, changes)

    with refused(reason):
        stager(queue_manager).put_on(program.connection, TARGET, ORDER, b"a body", 5_000)


def test_without_a_staging_queue_nothing_can_be_delayed(queue_manager: UnderTest, program: Program) -> None:
    queue_manager.administration.delete(STAGING_QUEUE)

    with refused(Reason.FUNCTION_NOT_SUPPORTED):
        stager(queue_manager).put_on(program.connection, TARGET, ORDER, b"a body", 5_000)


def test_the_staging_queue_of_ibm_mq_is_left_to_ibm_mq(queue_manager: UnderTest) -> None:
    if is_embedded(queue_manager):
        assert EMBEDDED_STAGING_QUEUE == staging_queue_of(queue_manager.queue_manager)
        return

    assert STAGING_QUEUE == staging_queue_of(queue_manager.queue_manager)
    with refused(Reason.FUNCTION_NOT_SUPPORTED):
        staging_queue_of(queue_manager.queue_manager, EMBEDDED_STAGING_QUEUE)


def test_a_delayed_publication_reaches_its_subscribers_or_is_refused(
    queue_manager: UnderTest, program: Program, other: Program
) -> None:
    """IBM MQ matches delayed publications for JMS clients only: through the packages the call fails with 2298."""
    queue = EMBEDDED_STAGING_QUEUE if is_embedded(queue_manager) else STAGING_QUEUE
    stages = stager(queue_manager, queue)
    if not is_embedded(queue_manager):
        with refused(Reason.FUNCTION_NOT_SUPPORTED):
            stages.publish_on(program.connection, "a/b", MessageDescriptor(), b"70", 1_000)
        return
    altered = mqsc.run("ALTER TOPIC(SYSTEM.BASE.TOPIC) PMSGDLV(ALLAVAIL)", queue_manager.administration)
    assert mqsc.Verdict.DONE is altered.responses[0].verdict
    options = SubscribeOption.CREATE | SubscribeOption.MANAGED
    subscribed = program.connection.subscribe(SubscriptionDescriptor(object_string="a/b", options=options))
    stages.publish_on(other.connection, "a/b", MessageDescriptor(), b"70", 1_000)
    other.commit()
    processor = Processor(queue_manager, other, queue)
    queue_manager.advance(2)
    seen = processor.next_due()

    processor.deliver(seen)

    assert b"70" == program.got(subscribed.queue).body
    assert seen.header.use_dead_letter_queue
