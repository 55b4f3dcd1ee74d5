"""Decision records: one record for each decision, committed with the decision. Without a disposition queue, no records."""

import re
from collections import Counter
from typing import Any

import anyio
import pytest

from mqflow import App, Backout, Batch, Pace, RateLimit, Reject, Retry
from mqflow.app.config.settings import Settings
from mqflow.events import Settled, Warned
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.poison.disposition_record import (
    DISPOSITION_QUEUE,
    FORMAT,
    RECORDS_MAX,
    DispositionRecord,
    RecordOutcome,
    many_from_bytes,
)
from mqflow.runtime.listener.worker_records import HEARTBEAT_S
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import GetOptions
from tests.running import defining, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

ON = Settings(disposition_queue=DISPOSITION_QUEUE)
COMMITTED, ROLLED_BACK, BACKED_OUT = RecordOutcome.COMMITTED, RecordOutcome.ROLLED_BACK, RecordOutcome.BACKED_OUT
queues = defining("BOQ", DISPOSITION_QUEUE, bothresh=3, boqname="BOQ")


def failing(*bad: str, settings: Settings = ON, **options: Any) -> App:
    """Return an application whose handler fails on these payloads."""
    app = App(name="orders", settings=settings)

    @app.listener("IN", **options)
    def on_order(payload: str) -> None:
        if payload in bad:
            raise ValueError(f"order {payload} of customer 4711 is no good")

    return app


async def recorded(mq: QueueManagerKit, app: App, seconds: float = 30.0) -> list[DispositionRecord]:
    await run_for(mq, seconds, app)
    return [each for found in await mq.drain(DISPOSITION_QUEUE, at_least=0) for each in many_from_bytes(found.data)]


def decisions(records: list[DispositionRecord]) -> list[tuple[RecordOutcome, int | None]]:
    return [(each.outcome, each.backout_count) for each in records if each.outcome is not RecordOutcome.HEARTBEAT]


async def test_no_record_is_put_without_the_setting(mq: QueueManagerKit) -> None:
    await mq.put("IN", "good")

    assert [] == await recorded(mq, failing(settings=Settings()))


async def test_each_field_of_a_record_has_the_value_of_its_own_source(mq: QueueManagerKit) -> None:
    await mq.put("IN", "bad", priority=9)  # its failure makes BOTHRESH and BOQNAME known
    put = await mq.put(
        "IN", "good", persistent=True, priority=7, expiry_tenths=36_000, reply_to_queue="BOQ", correlation_id=b"c" * 24
    )

    found = await recorded(mq, failing("bad"))

    [record] = [each for each in found if each.outcome is COMMITTED]
    of = put.descriptor
    assert (of.message_id, of.correlation_id, of.group_id) == (record.msg_id, record.correl_id, record.group_id)
    assert (of.message_type, of.format, of.ccsid) == (record.msg_type, record.format, record.ccsid)
    assert (of.encoding, of.persistence, of.priority) == (record.encoding, record.persistence, record.priority)
    assert (of.put_application_name, of.put_application_type) == (record.put_appl_name, record.put_appl_type)
    assert (of.user_identifier, of.reply_to_queue) == (record.user_id, record.reply_q)
    assert (of.reply_to_queue_manager, 0) == (record.reply_qm, record.backout_count)
    assert (3, "BOQ", 4) == (record.bothresh, record.boqname, record.msg_len)
    assert ("QM1", "IN", "on_order") == (record.qmgr, record.queue, record.handler)
    assert record.consumer == "orders/on_order#0"
    assert record.uow_id is not None
    connection, unit = record.uow_id.split("/")
    assert re.fullmatch("[0-9a-f]{12}", connection)
    names = [each.disp_id.removeprefix(f"QM1/{connection}/") for each in found]  # a heartbeat, and a record for each delivery
    assert (["0/1", "1/1", "2/1", "3/1", "4/1"], "4") == (names, unit)
    assert record.expiry_left_ms is not None
    assert 3_500_000 < record.expiry_left_ms <= 3_600_000
    assert record.put_ts is not None
    assert record.get_ts is not None
    assert record.done_ts is not None
    assert record.put_ts - 10_000 <= record.get_ts <= record.done_ts <= record.event_ts
    assert 1 == record.schema_version
    others = (record.target_queue, record.mqrc, record.exc_class, record.exc_fingerprint, record.exc_message)
    assert (None,) * 5 == others
    assert (None,) * 5 == (record.delay_req_ms, record.due_ts, record.redrive_id, record.redrive_of, record.trace_id)


async def test_a_poison_message_has_a_record_for_each_of_its_deliveries(mq: QueueManagerKit) -> None:
    await mq.put("IN", "bad")

    found = await recorded(mq, failing("bad"))

    assert [(ROLLED_BACK, 0), (ROLLED_BACK, 1), (BACKED_OUT, 2)] == decisions(found)
    last = found[[each.outcome for each in found].index(BACKED_OUT)]
    assert ("BOQ", 3, "BOQ", "ValueError") == (last.target_queue, last.bothresh, last.boqname, last.exc_class)
    assert "order bad of customer 4711 is no good" == last.exc_message
    assert 1 == mq.depth("BOQ")


async def test_a_record_has_the_valid_part_of_a_text_that_is_no_unicode(mq: QueueManagerKit) -> None:
    """A file name in another encoding can be in such a text. This once ended the whole application."""
    await mq.put("IN", "bad")
    app = App(name="orders", settings=ON)

    @app.listener("IN")
    def on_order(payload: str) -> None:
        raise FileNotFoundError(f"{payload}: caf\udce9")

    found = await recorded(mq, app)

    assert {"bad: caf\\udce9"} == {each.exc_message for each in found if each.exc_class}
    assert (0, 1) == (mq.depth("IN"), mq.depth("BOQ"))


async def test_the_same_trouble_has_the_same_print_and_no_two_records_the_same_name(mq: QueueManagerKit) -> None:
    for number in range(3):
        await mq.put("IN", f"bad{number}")
    app = App(name="orders", settings=ON)

    @app.listener("IN")
    def on_order(payload: str) -> None:
        raise ValueError(f"no customer {len(payload) * 1_000 + int(payload[-1])}")

    found = await recorded(mq, app)

    assert 1 == len({each.exc_fingerprint for each in found if each.exc_class})
    assert 9 == len(decisions(found))
    assert len(found) == len({each.disp_id for each in found})


async def test_a_message_that_does_not_decode_keeps_its_own_exception_in_the_record_of_its_batch(mq: QueueManagerKit) -> None:
    app = App(name="orders", settings=ON)

    @app.listener("IN", batch=Batch(max=3))
    def on_orders(numbers: list[int]) -> None:
        if len(numbers) > 1:
            raise ValueError("only one at a time")

    for body in (1, "broken", 3):
        await mq.put("IN", body)

    found = await recorded(mq, app)

    assert ["ValueError", "msgspec.DecodeError", "ValueError"] == [
        each.exc_class for each in found if each.outcome is ROLLED_BACK
    ]
    assert ["msgspec.DecodeError"] == [each.exc_class for each in found if each.outcome is BACKED_OUT]
    assert 2 == [each.outcome for each in found].count(COMMITTED)


async def test_in_a_longer_unit_only_the_culprit_has_the_exception_in_its_record(mq: QueueManagerKit) -> None:
    for body in ("one", "bad", "three"):
        await mq.put("IN", body)

    found = await recorded(mq, failing("bad", unit_of_work=3))

    assert {"ValueError"} == {each.exc_class for each in found if each.exc_class}
    assert 2 == sum(each.outcome is COMMITTED for each in found)
    assert 1 == sum(each.outcome is BACKED_OUT for each in found)


@pytest.mark.parametrize(
    ("boq", "expected", "reason"),
    [("NOT.THERE", RecordOutcome.DEAD_LETTERED, Reason.BACKOUT_THRESHOLD_REACHED), ("BOQ", BACKED_OUT, None)],
)
async def test_the_record_says_where_the_message_went_and_why(
    mq: QueueManagerKit, boq: str, expected: RecordOutcome, reason: int | None
) -> None:
    mq.mqsc(f"ALTER QLOCAL(IN) BOQNAME({boq})", "DEFINE QLOCAL(DLQ)", "ALTER QMGR DEADQ(DLQ)")
    await mq.put("IN", "bad")
    app = App(name="orders", settings=ON)

    @app.listener("IN")
    def on_order(payload: str) -> None:
        raise Reject(payload)

    found = await recorded(mq, app)

    [last] = [each for each in found if each.outcome is expected]
    assert last.target_queue == ("DLQ" if reason else "BOQ")
    assert bool(reason) == bool(last.mqrc)


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("unit_of_work", [1, 2, 4])
async def test_a_record_is_there_if_and_only_if_its_decision_is(mq: QueueManagerKit, unit_of_work: int, moment: Moment) -> None:
    for number in range(6):
        await mq.put("IN", f"{number}", persistent=True)
    mq.faults.add(Fault(verb="MQCMIT", nth=3 if unit_of_work == 1 else 2, moment=moment))

    found = await recorded(mq, failing(unit_of_work=unit_of_work), seconds=60)

    committed = [each.msg_id for each in found if each.outcome is COMMITTED]
    assert 6 == len(committed)
    assert 6 == len(set(committed))
    assert 0 == mq.depth("IN")


@pytest.mark.parametrize(("count", "expected"), [(3, [3]), (RECORDS_MAX + 1, [RECORDS_MAX, 1])])
async def test_the_records_of_a_unit_of_work_share_messages(mq: QueueManagerKit, count: int, expected: list[int]) -> None:
    for number in range(count):
        await mq.put("IN", f"{number}")
    await run_for(mq, 1, failing(unit_of_work=count))

    messages = [many_from_bytes(found.data) for found in await mq.drain(DISPOSITION_QUEUE)]

    assert expected == [len(records) for records in messages if records[0].outcome is COMMITTED]
    assert count + 1 == len({each.disp_id for records in messages for each in records})  # and the heartbeat record


async def test_a_queue_that_refuses_records_holds_no_message_up(mq: QueueManagerKit) -> None:
    mq.mqsc(f"ALTER QLOCAL({DISPOSITION_QUEUE}) PUT(DISABLED)")
    for _ in range(3):
        await mq.put("IN", "good")
    await mq.put("IN", "bad")

    found = await recorded(mq, failing("bad"))

    assert [] == found
    assert (0, 1) == (mq.depth("IN"), mq.depth("BOQ"))
    assert 1 == sum("decisions are not recorded" in event.text for event in mq.told(Warned))


async def test_a_queue_that_refuses_records_again_later_is_warned_about_again(mq: QueueManagerKit) -> None:
    async with mq.run(failing()):
        for word in ("DISABLED", "ENABLED", "DISABLED"):
            mq.mqsc(f"ALTER QLOCAL({DISPOSITION_QUEUE}) PUT({word})")
            await mq.put("IN", "good")
            await anyio.sleep(1)

    assert 2 == sum("decisions are not recorded" in event.text for event in mq.told(Warned))


async def test_an_idle_worker_says_once_a_minute_that_it_is_there(mq: QueueManagerKit) -> None:
    found = await recorded(mq, failing(), seconds=HEARTBEAT_S * 3.5)

    beats = [each.event_ts for each in found if each.outcome is RecordOutcome.HEARTBEAT]
    assert 4 == len(beats)
    assert all(each.msg_id is None for each in found)
    assert {"orders/on_order#0"} == {each.consumer for each in found}


async def test_a_worker_that_waits_for_its_turn_says_once_a_minute_that_it_is_there(mq: QueueManagerKit) -> None:
    await mq.put("IN", "good")
    app = failing(rate_limit=RateLimit(1, per_s=HEARTBEAT_S * 3.5), concurrency=2)

    found = await recorded(mq, app, seconds=HEARTBEAT_S * 3.4)

    beats = Counter(each.consumer for each in found if each.outcome is RecordOutcome.HEARTBEAT)
    assert {"orders/on_order#0": 4, "orders/on_order#1": 4} == beats
    assert [(COMMITTED, 0)] == decisions(found)


async def test_a_record_has_its_own_format(mq: QueueManagerKit) -> None:
    await mq.put("IN", "good")
    await run_for(mq, 1, failing())

    assert {FORMAT} == {found.descriptor.format for found in await mq.drain(DISPOSITION_QUEUE)}


async def test_a_message_that_no_queue_takes_is_left_and_said_to_be(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(NOT.THERE)", "ALTER QMGR DEADQ(' ')")
    await mq.put("IN", "bad")

    found = await recorded(mq, failing("bad"))

    assert RecordOutcome.LEFT in {each.outcome for each in found}
    assert 1 == mq.depth("IN")


async def test_a_message_that_waits_on_the_staging_queue_is_deferred(mq: QueueManagerKit) -> None:
    await mq.put("IN", "later", persistent=True)
    app = App(name="orders", settings=ON)
    seen: list[str] = []

    @app.listener("IN")
    def on_order(payload: str) -> None:
        seen.append(payload)
        if len(seen) == 1:
            raise Retry("not yet", after=20)

    found = await recorded(mq, app, seconds=60)

    [deferred] = [each for each in found if each.outcome is RecordOutcome.DEFERRED]
    assert (20_000, "Retry") == (deferred.delay_req_ms, deferred.exc_class)
    assert deferred.due_ts is not None
    assert deferred.done_ts is not None
    assert 20_000_000 == deferred.due_ts - deferred.done_ts
    assert 1 == sum(each.outcome is COMMITTED for each in found)


def handlings(records: list[DispositionRecord]) -> list[tuple[RecordOutcome, bool]]:
    """Return the outcome of each record except heartbeats, and whether a handler received the message."""
    return [(each.outcome, each.done_ts is not None) for each in records if each.outcome is not RecordOutcome.HEARTBEAT]


async def test_a_message_found_to_be_poison_was_not_handled_by_that_delivery(mq: QueueManagerKit) -> None:
    """Records count attempts, because BOTHRESH does not show them: other messages in a unit of work add backouts."""
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)")
    await mq.put("IN", "bad")
    connection = mq.queue_manager.connect()
    handle = connection.open("IN", OpenOption.INPUT_SHARED)
    assert connection.get(handle, GetOptions(options=GetOption.SYNCPOINT)) is not None
    connection.backout()
    connection.disconnect()

    assert [(BACKED_OUT, False)] == handlings(await recorded(mq, failing("bad")))


async def test_the_time_of_a_handling_has_no_pause_in_it(mq: QueueManagerKit) -> None:
    await mq.put("IN", "bad")
    app = App(name="orders", settings=ON)

    @app.listener("IN", backout=Backout(threshold=2, pace=Pace(first_s=50, max_s=50, jitter=0)))
    async def on_order(payload: str) -> None:
        await anyio.sleep(3)
        raise ValueError(payload)

    found = [each for each in await recorded(mq, app, seconds=120) if each.outcome is not RecordOutcome.HEARTBEAT]

    assert [ROLLED_BACK, BACKED_OUT] == [each.outcome for each in found]
    assert [3_000_000] * 2 == [(each.done_ts or 0) - (each.get_ts or 0) for each in found]


async def test_a_message_rejected_at_once_was_handled(mq: QueueManagerKit) -> None:
    await mq.put("IN", "bad")
    app = App(name="orders", settings=ON)

    @app.listener("IN")
    def on_order(payload: str) -> None:
        raise Reject(payload)

    assert [(BACKED_OUT, True)] == handlings(await recorded(mq, app))


@pytest.mark.parametrize("unit_of_work", [1, 2])
async def test_a_deferred_delivery_has_one_record(mq: QueueManagerKit, unit_of_work: int) -> None:
    for body in ("good", "bad")[-unit_of_work:]:
        await mq.put("IN", body, persistent=True)
    app = App(name="orders", settings=ON)

    @app.listener("IN", unit_of_work=unit_of_work)
    def on_order(payload: str) -> None:
        if payload == "bad":
            raise Retry("later", after=3_600)

    found = [each for each in await recorded(mq, app) if each.exc_class]

    assert [RecordOutcome.DEFERRED] == [each.outcome for each in found]
    assert all(each.done_ts is not None for each in found)


async def test_a_heartbeat_during_a_handled_unit_is_part_of_that_unit_and_any_other_is_committed_at_once(
    mq: QueueManagerKit,
) -> None:
    app, seen = App(name="orders", settings=ON), list[str]()

    @app.listener("IN")
    async def on_order(payload: str) -> None:
        seen.append(payload)
        await anyio.sleep(HEARTBEAT_S + 1)

    mq.faults.add(Fault(verb="MQCMIT", nth=2, reason=Reason.BACKED_OUT))
    async with mq.run(app):
        await anyio.sleep(1)
        assert [RecordOutcome.HEARTBEAT] == [
            made.outcome for found in mq.browse(DISPOSITION_QUEUE) for made in many_from_bytes(found.data)
        ]
        await mq.put("IN", "good")
        await anyio.sleep(HEARTBEAT_S * 2.5)

    assert ["good", "good"] == seen
    assert [Settlement.BACKOUT, Settlement.COMMIT] == [event.settlement for event in mq.told(Settled)]
    assert [] == mq.told(Warned)


async def test_a_refused_commit_of_a_heartbeat_is_a_warning_and_holds_no_message_up(mq: QueueManagerKit) -> None:
    mq.faults.add(Fault(verb="MQCMIT", reason=Reason.BACKED_OUT))
    await mq.put("IN", "good")

    found = await recorded(mq, failing())

    [warned] = mq.told(Warned)
    assert (DISPOSITION_QUEUE, True) == (warned.queue, warned.text.startswith("on_order: a record may be missing. MQCMIT"))
    assert [(COMMITTED, 0)] == decisions(found)
    assert 0 == mq.depth("IN")
