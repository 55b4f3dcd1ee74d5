"""Decision records of the parts of an application without a listener: the consumer, the DLQ handler, the delay processor."""

from contextlib import suppress
from itertools import chain
from pathlib import Path

import anyio
import pytest

from mqflow import App, MQIError, Retry
from mqflow.app.config.settings import Settings
from mqflow.events import Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition_record import (
    DISPOSITION_QUEUE,
    DispositionRecord,
    RecordOutcome,
    many_from_bytes,
    put_time_us,
)
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

ON = Settings(disposition_queue=DISPOSITION_QUEUE)
COMMITTED, ROLLED_BACK, BACKED_OUT = RecordOutcome.COMMITTED, RecordOutcome.ROLLED_BACK, RecordOutcome.BACKED_OUT
REDRIVEN, RELEASED, DEFERRED = RecordOutcome.REDRIVEN, RecordOutcome.RELEASED, RecordOutcome.DEFERRED
LATE_US = 60_000
"""The largest lateness of a delivery in virtual time: the processor looks every 50 ms for earlier due times."""


def identity(descriptor: MessageDescriptor) -> tuple[bytes, int | None]:
    """Return the identity of a message in records: MsgId and put time."""
    return descriptor.message_id, put_time_us(descriptor.put_date, descriptor.put_time)


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    mq.define("BOQ")
    mq.define("LATER", defpsist="YES")
    mq.define("IN", bothresh=1, boqname="BOQ")
    mq.define(DISPOSITION_QUEUE)


async def recorded(mq: QueueManagerKit) -> list[DispositionRecord]:
    """Return the records without heartbeats, in order of time."""
    read = chain.from_iterable(many_from_bytes(found.data) for found in await mq.drain(DISPOSITION_QUEUE, at_least=0))
    found = [each for each in read if each.outcome is not RecordOutcome.HEARTBEAT]
    return sorted(found, key=lambda each: each.event_ts)


# -- the DLQ handler


async def test_the_record_of_the_dlq_handler_comes_before_that_of_the_delivery(mq: QueueManagerKit, tmp_path: Path) -> None:
    mq.define("DEAD.LETTERS")
    table = tmp_path / "rules.tbl"
    table.write_text("INPUTQ(DEAD.LETTERS) WAIT(YES)\nACTION(RETRY)\n")
    app = App(name="orders", settings=ON)
    app.dead_letter_handler(table)

    @app.listener("IN")
    async def take(order: bytes) -> None:
        pass

    async with mq.run(app):
        connection = mq.queue_manager.connect()
        put_dead_letter(connection, "DEAD.LETTERS", b"one", queue="IN")
        connection.disconnect()
        await anyio.sleep(1)

    redriven, committed = await recorded(mq)
    assert (REDRIVEN, "orders/DLQ handler", None) == (redriven.outcome, redriven.consumer, redriven.handler)
    assert (COMMITTED, "take") == (committed.outcome, committed.handler)
    assert (redriven.msg_id, redriven.put_ts, redriven.queue) == (committed.msg_id, committed.put_ts, committed.queue)


async def test_the_dlq_handler_records_a_message_that_stays_as_soon_as_it_stays(mq: QueueManagerKit, tmp_path: Path) -> None:
    mq.define("DEAD.LETTERS")
    table = tmp_path / "rules.tbl"
    table.write_text("INPUTQ(DEAD.LETTERS) WAIT(YES)\nACTION(IGNORE)\n")
    app = App(name="orders", settings=ON)
    app.dead_letter_handler(table)
    async with mq.run(app):
        connection = mq.queue_manager.connect()
        put_dead_letter(connection, "DEAD.LETTERS", b"one", queue="IN")
        connection.disconnect()
        await anyio.sleep(1)
        [left] = await recorded(mq)

    assert (RecordOutcome.LEFT, "DEAD.LETTERS", "orders/DLQ handler") == (left.outcome, left.queue, left.consumer)


# -- the delay processor


async def delayed(mq: QueueManagerKit, *, settings: Settings = ON, seconds: float = 8, **wishes: object) -> None:
    """Send a message with a delay of five seconds, and wait the given number of seconds."""
    async with mq.run(app := App(name="orders", settings=settings)):
        await app.put("LATER", b"a body", **{"delay": 5} | wishes)  # type: ignore[arg-type]  # the keywords of `App.put`
        await anyio.sleep(seconds)


async def test_a_message_sent_with_a_delay_has_a_record_of_its_release(mq: QueueManagerKit) -> None:
    await delayed(mq)

    [record], [found] = await recorded(mq), mq.browse("LATER")
    assert (RELEASED, "QM1", "LATER") == (record.outcome, record.qmgr, record.queue)
    assert (*identity(found.descriptor), 6, 5_000) == (record.msg_id, record.put_ts, record.msg_len, record.delay_req_ms)
    assert record.due_ts is not None
    assert 0 <= record.event_ts - record.due_ts <= LATE_US
    assert (None, None, None, "orders/delay processor") == (record.handler, record.get_ts, record.done_ts, record.consumer)


async def test_a_release_is_not_recorded_without_the_setting(mq: QueueManagerKit) -> None:
    await delayed(mq, settings=Settings())

    assert ([], 1) == (await recorded(mq), mq.depth("LATER"))


async def test_a_retry_that_waited_is_deferred_then_released_then_handled(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(3)")
    await mq.put("IN", "later", persistent=True)
    app = App(name="orders", settings=ON)
    seen: list[str] = []

    @app.listener("IN")
    def on_order(payload: str) -> None:
        seen.append(payload)
        if len(seen) == 1:
            raise Retry("not yet", after=20)

    await run_for(mq, 30, app)

    deferred, released, committed = found = await recorded(mq)
    assert [DEFERRED, RELEASED, COMMITTED] == [each.outcome for each in found]
    assert 1 == len({(each.queue, each.msg_id, each.put_ts) for each in found})
    assert deferred.due_ts is not None
    assert released.due_ts is not None
    assert abs(released.due_ts - deferred.due_ts) <= 1_000
    assert released.event_ts <= (committed.get_ts or 0)


@pytest.mark.parametrize(
    ("wishes", "deadq", "outcome", "target"),
    [
        pytest.param({}, "DLQ", RecordOutcome.DEAD_LETTERED, "DLQ", id="dead-lettered"),
        pytest.param({"report": int(Report.DISCARD_MSG)}, "DLQ", RecordOutcome.DISCARDED, None, id="discarded"),
        pytest.param({}, " ", RecordOutcome.LEFT, "LATER", id="tried again later"),
    ],
)
async def test_a_message_that_its_queue_refuses_is_recorded_with_why(
    mq: QueueManagerKit, wishes: dict[str, int], deadq: str, outcome: RecordOutcome, target: str | None
) -> None:
    mq.mqsc("DEFINE QLOCAL(DLQ)", f"ALTER QMGR DEADQ('{deadq}')")
    await mq.put("LATER", b"x", delay=5, persistent=True, **wishes)  # type: ignore[arg-type]  # report options
    mq.mqsc("ALTER QLOCAL(LATER) PUT(DISABLED)")
    await run_for(mq, 5.5, App(name="orders", settings=ON))

    [record] = await recorded(mq)
    assert (outcome, "LATER", target, Reason.PUT_INHIBITED) == (record.outcome, record.queue, record.target_queue, record.mqrc)
    assert record.handler is None


async def test_a_message_that_was_refused_and_came_later_is_late_by_all_of_that(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QMGR DEADQ(' ')")
    await mq.put("LATER", b"x", delay=5, persistent=True)
    mq.mqsc("ALTER QLOCAL(LATER) PUT(DISABLED)")
    async with mq.run(App(name="orders", settings=ON)):
        await anyio.sleep(5.5)
        mq.mqsc("ALTER QLOCAL(LATER) PUT(ENABLED)")
        await anyio.sleep(30)

    left, released = await recorded(mq)
    assert (RecordOutcome.LEFT, RELEASED) == (left.outcome, released.outcome)
    assert (left.msg_id, left.put_ts) == (released.msg_id, released.put_ts)
    assert released.due_ts is not None
    assert 1_000_000 <= released.event_ts - released.due_ts


async def test_a_message_that_expired_while_it_waited_is_known_to_have(mq: QueueManagerKit) -> None:
    """Only the delay processor can record the expiry."""
    await mq.put("LATER", b"x", delay=5, expiry=6)
    await anyio.sleep(7)
    await run_for(mq, 1, App(name="orders", settings=ON))

    assert [(RecordOutcome.EXPIRED, "LATER")] == [(each.outcome, each.queue) for each in await recorded(mq)]


async def test_a_publication_is_recorded_as_the_message_that_it_became(mq: QueueManagerKit) -> None:
    mq.mqsc("DEFINE TOPIC(PRICES) TOPICSTR('prices') PMSGDLV(ALLAVAIL) NPMSGDLV(ALLAVAIL)")
    mq.mqsc("DEFINE SUB(S1) TOPICSTR('prices/fruit') DEST(LATER)", "DEFINE SUB(S2) TOPICSTR('prices/fruit') DEST(BOQ)")
    async with mq.run(app := App(name="orders", settings=ON)):
        await app.publish("prices/fruit", b"70", delay=5)
        await anyio.sleep(6)

    there = {(queue, *identity(found.descriptor)) for queue in ("LATER", "BOQ") for found in mq.browse(queue)}
    assert 2 == len(there)
    assert there == {(each.queue, each.msg_id, each.put_ts) for each in await recorded(mq)}


async def test_releases_of_one_unit_of_work_share_a_message_of_records(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(name="orders", settings=ON)):
        for _ in range(10):
            await app.put("LATER", b"x", delay=2)
        await anyio.sleep(4)

    assert 1 == mq.depth(DISPOSITION_QUEUE)
    assert 10 == len({each.disp_id for each in await recorded(mq)})


async def test_a_unit_of_work_without_room_for_records_moves_each_message_alone(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(name="orders", settings=ON)):
        for _ in range(3):
            await app.put("LATER", b"x", delay=2)
        mq.mqsc("ALTER QMGR MAXUMSGS(6)")  # three gets and three puts
        await anyio.sleep(4)

    assert (3, 3) == (mq.depth("LATER"), len(await recorded(mq)))
    assert [] == mq.told(Warned)


async def test_a_queue_that_refuses_records_of_releases_holds_none_up(mq: QueueManagerKit) -> None:
    mq.mqsc(f"ALTER QLOCAL({DISPOSITION_QUEUE}) MAXDEPTH(1)")
    async with mq.run(app := App(name="orders", settings=ON)):
        for delay_s in (2, 3, 4, 5):
            await app.put("LATER", b"x", delay=delay_s)
        await anyio.sleep(8)

    assert (4, 1) == (mq.depth("LATER"), len(await recorded(mq)))
    assert 1 == sum("decisions are not recorded" in event.text for event in mq.told(Warned))


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("verb", ["MQPUT1", "MQCMIT"])
async def test_a_release_is_recorded_once_wherever_its_connection_breaks(
    mq: QueueManagerKit, verb: str, moment: Moment
) -> None:
    for number in range(6):
        await mq.put("LATER", f"{number}", persistent=True, delay=2 + number // 3)
    mq.faults.add(Fault(verb=verb, nth=2, moment=moment))

    await run_for(mq, 60, App(name="orders", settings=ON))

    released = sorted(each.msg_id or b"" for each in await recorded(mq) if each.outcome is RELEASED)
    assert sorted(found.descriptor.message_id for found in mq.browse("LATER")) == released
    assert 6 == len(released)


# -- the consumer


async def backed_out_once(app: App) -> None:
    async with app.consumer("IN") as consumer:
        await consumer.receive_no_wait()
        await consumer.backout()


def told(records: list[DispositionRecord]) -> list[tuple[RecordOutcome, int | None, bool]]:
    """Return the outcome and backout count of each record, and whether the caller received the message."""
    return [(each.outcome, each.backout_count, each.done_ts is not None) for each in records]


async def test_each_message_that_a_consumer_commits_has_a_record(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(name="orders", settings=ON)), app.consumer("IN") as consumer:
        for body in (b"one", b"three"):
            await mq.put("IN", body)
            message = await consumer.receive()
        await anyio.sleep(2)
        before = await recorded(mq)
        await consumer.commit()

    first, second = found = await recorded(mq)
    assert [] == before
    assert message is not None
    assert (message.message_id, "IN", "consumer of IN", 5) == (second.msg_id, second.queue, second.handler, second.msg_len)
    assert [(COMMITTED, 0, True)] * 2 == told(found)
    assert first.uow_id == second.uow_id
    assert first.put_ts is not None
    assert first.get_ts is not None
    assert 2_000_000 <= (first.done_ts or 0) - first.get_ts


async def test_a_consumer_puts_no_record_without_the_setting(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(name="orders")):
        await mq.put("IN", b"one")
        await backed_out_once(app)
        async with app.consumer("IN") as consumer:
            await consumer.receive_no_wait()
            await consumer.commit()

    assert 0 == mq.depth(DISPOSITION_QUEUE)


async def test_a_poison_message_of_a_consumer_has_a_record_of_its_delivery_and_one_of_its_move(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(name="orders", settings=ON)):
        await mq.put("IN", b"poison")
        await backed_out_once(app)
        async with app.consumer("IN") as consumer:
            assert await consumer.receive_no_wait() is None
            await consumer.commit()

    rolled_back, moved = found = await recorded(mq)
    assert [(ROLLED_BACK, 0, True), (BACKED_OUT, 1, False)] == told(found)
    assert ("BOQ", 1, "BOQ") == (moved.target_queue, moved.bothresh, moved.boqname)
    assert 1 == len({(each.queue, each.msg_id, each.put_ts) for each in found})
    assert rolled_back.uow_id != moved.uow_id


async def test_the_record_of_a_move_that_was_backed_out_has_no_handler(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(name="orders", settings=ON)):
        await mq.put("IN", b"poison")
        await backed_out_once(app)
        await backed_out_once(app)

    assert [(ROLLED_BACK, 0, True), (RecordOutcome.LEFT, 1, False)] == told(await recorded(mq))
    assert (1, 0) == (mq.depth("IN"), mq.depth("BOQ"))


async def test_leaving_without_a_commit_is_recorded_as_the_backout_that_it_is(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(name="orders", settings=ON)):
        await mq.put("IN", b"one")
        async with app.consumer("IN") as consumer:
            await consumer.receive()

    assert [(ROLLED_BACK, 0, True)] == told(await recorded(mq))
    assert [1] == [found.backout_count for found in mq.browse("IN")]


async def test_without_a_transaction_each_message_is_recorded_as_it_comes(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(name="orders", settings=ON)):
        await mq.put("IN", b"poison")
        await backed_out_once(app)
        await mq.put("IN", b"good")
        async with app.consumer("IN", transacted=False) as consumer:
            await consumer.receive()

    assert {(ROLLED_BACK, 0, True), (BACKED_OUT, 1, False), (COMMITTED, 0, True)} == set(told(await recorded(mq)))


async def test_a_queue_that_refuses_a_consumers_records_holds_nothing_up(mq: QueueManagerKit) -> None:
    mq.mqsc(f"ALTER QLOCAL({DISPOSITION_QUEUE}) PUT(DISABLED)")
    async with mq.run(app := App(name="orders", settings=ON)):
        await mq.put("IN", b"poison")
        await backed_out_once(app)
        await mq.put("IN", b"good")
        async with app.consumer("IN") as consumer:
            message = await consumer.receive()
            await consumer.commit()

    assert message is not None
    assert (b"good", 0, 1) == (message.body, mq.depth("IN"), mq.depth("BOQ"))
    assert 2 == sum("decisions are not recorded" in event.text for event in mq.told(Warned)), "each consumer says it once"


async def test_an_idle_consumer_says_once_a_minute_that_it_is_there(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(name="orders", settings=ON)), app.consumer("IN") as consumer:
        began = mq.clock.monotonic()
        assert await consumer.receive(wait_ms=200_500) is None
        took_s = mq.clock.monotonic() - began

    read = [many_from_bytes(found.data) for found in await mq.drain(DISPOSITION_QUEUE, at_least=0)]
    assert [RecordOutcome.HEARTBEAT] * 4 == [each.outcome for [each] in read]
    assert 200.5 == round(took_s, 1)


@pytest.mark.parametrize("moment", Moment)
async def test_a_consumers_record_is_there_if_and_only_if_its_commit_is(mq: QueueManagerKit, moment: Moment) -> None:
    for number in range(4):
        await mq.put("IN", f"{number}", persistent=True)
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(0)")
    mq.faults.add(Fault(verb="MQCMIT", nth=2, moment=moment))

    async with mq.run(app := App(name="orders", settings=ON)), app.consumer("IN") as consumer:
        while await consumer.receive(wait_ms=1_000) is not None:
            with suppress(MQIError):
                await consumer.commit()

    committed = [each.msg_id for each in await recorded(mq) if each.outcome is COMMITTED]
    assert (4, 4) == (len(committed), len(set(committed)))
    assert 0 == mq.depth("IN")
