"""A delay processor says when it stops and starts, attempts a start once a second, and leaves a message that it cannot move."""

from typing import Any

import anyio
import pytest

from mqflow import App
from mqflow.app.config.settings import Settings
from mqflow.events import (
    DelayedDelivered,
    DelayProcessorStarted,
    DelayProcessorStopped,
    Event,
    InDoubt,
    ReadinessChanged,
    Warned,
)
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.connection.session import open_session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.delay.processor import DelayProcessor
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE as STAGING
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.world import THREADS, World
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio")


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    mq.define("LATER", defpsist="YES")
    mq.define("STAGED")


def opened(mq: QueueManagerKit, queue: str) -> int:
    return sum((call.verb, call.object_name) == ("MQOPEN", queue) for call in mq.faults.calls)


async def test_a_processor_counts_as_started_before_it_has_a_connection(mq: QueueManagerKit) -> None:
    supervisor = Supervisor(mq.queue_manager, broadcast=Broadcast(()), world=World(mq.clock, mq.random))
    processor = DelayProcessor("STAGED", supervisor, broadcast=Broadcast(()), clock=mq.clock)
    async with anyio.create_task_group() as group:
        with anyio.fail_after(10):
            await group.start(processor.run)
        processor.stop()


async def test_each_cause_of_a_stop_is_one_event_and_the_application_is_not_ready_until_the_start(mq: QueueManagerKit) -> None:
    async with mq.run(App(settings=Settings(delay_queue="STAGED"))):
        await anyio.sleep(5)
        mq.events.clear()
        for attributes in ("PUT(DISABLED)", "PUT(ENABLED) GET(DISABLED)", "GET(ENABLED)", "PUT(DISABLED)", "PUT(ENABLED)"):
            mq.mqsc(f"ALTER QLOCAL(STAGED) {attributes}")
            await anyio.sleep(10)
        told: list[object] = []
        for event in mq.events:
            if isinstance(event, ReadinessChanged):
                told.append(event.missing)
            elif isinstance(event, DelayProcessorStopped):
                told.append(event.reason)
            elif isinstance(event, DelayProcessorStarted):
                told.append("started")

    stopped = Reason.PUT_INHIBITED
    assert [("STAGED",), stopped, Reason.GET_INHIBITED, (), "started", ("STAGED",), stopped, (), "started"] == told
    assert mq.told(DelayProcessorStopped)[0].why.startswith(
        "The delay processor on STAGED failed: MQRC_PUT_INHIBITED (2051). "
        "PUT(DISABLED) on the staging queue stops the delay processor; PUT(ENABLED) starts it"
    )


async def test_a_first_start_that_fails_is_attempted_once_a_second_and_delays_no_readiness(mq: QueueManagerKit) -> None:
    async with mq.run(App(settings=Settings(delay_queue="MISSING"))):
        await anyio.sleep(60.5)
        attempts = opened(mq, "MISSING")
        ready = [(event.ready, event.missing) for event in mq.told(ReadinessChanged)]

    assert 61 == attempts
    assert [(True, ())] == ready
    assert [Reason.UNKNOWN_OBJECT_NAME] == [event.reason for event in mq.told(DelayProcessorStopped)]


@pytest.mark.parametrize(("queue", "delayed"), [("STAGED", 1), ("STAGED", 0), (STAGING, 1)])
async def test_a_processor_that_waits_inquires_the_put_attribute_once_a_second(
    mq: QueueManagerKit, queue: str, delayed: int
) -> None:
    async with mq.run(app := App(settings=Settings(delay_queue=queue))):
        for _ in range(delayed):
            await app.put("LATER", b"x", delay=600)
        await anyio.sleep(1.5)
        before = opened(mq, queue)
        await anyio.sleep(60)
        inquiries = opened(mq, queue) - before

    assert 60 == inquiries


@pytest.mark.parametrize("queue", ["STAGED", STAGING])
async def test_a_message_is_delivered_in_the_millisecond_in_which_it_is_due(mq: QueueManagerKit, queue: str) -> None:
    async with mq.run(app := App(settings=Settings(delay_queue=queue))):
        for delay_s in (2.5, 5):
            await app.put("LATER", b"x", delay=delay_s)
        await anyio.sleep(10)

    assert [0, 0] == [event.late_ms for event in mq.told(DelayedDelivered)]


@pytest.mark.parametrize("queue", ["STAGED", STAGING, ""])
async def test_an_application_delivers_from_the_staging_queue_of_its_queue_manager_whatever_its_own_is(
    mq: QueueManagerKit, queue: str
) -> None:
    await mq.put("LATER", b"x", delay=5)
    await run_for(mq, 10, App(settings=Settings(delay_queue=queue)))

    assert ([b"x"], 0) == ([found.body for found in mq.browse("LATER")], mq.depth(STAGING))


@pytest.mark.parametrize("queue", ["STAGED", STAGING])
async def test_a_message_whose_unit_of_work_is_refused_stays_until_the_next_start_and_blocks_no_other(
    mq: QueueManagerKit, queue: str
) -> None:
    """The commit of the common unit is refused, and then the commit of the first message's own unit."""
    async with mq.run(app := App(settings=Settings(delay_queue=queue))):
        for body in (b"1", b"2", b"3"):
            await app.put("LATER", body, delay=5)
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.ENVIRONMENT_ERROR, times=2))
        await anyio.sleep(60)
        moved = [found.body for found in mq.browse("LATER")]
        [warned] = mq.told(Warned)
        told = len(mq.told(DelayedDelivered))
        mq.mqsc(f"ALTER QLOCAL({queue}) PUT(DISABLED)")
        await anyio.sleep(5)
        mq.mqsc(f"ALTER QLOCAL({queue}) PUT(ENABLED)")
        await anyio.sleep(5)

    assert ([b"2", b"3"], 2) == (moved, told)
    assert queue == warned.queue
    assert warned.text.startswith(f"A delayed message stays on {queue} until the processor starts again. MQCMIT")
    assert ([b"2", b"3", b"1"], 0) == ([found.body for found in mq.browse("LATER")], mq.depth(queue))


@pytest.mark.parametrize("queue", ["STAGED", STAGING])
@pytest.mark.parametrize("reason", [Reason.BACKED_OUT, Reason.RESOURCE_PROBLEM])
async def test_a_message_whose_unit_of_work_is_refused_for_a_time_is_tried_again_every_second_and_blocks_no_other(
    mq: QueueManagerKit, queue: str, reason: Reason
) -> None:
    """The commits are refused: one of the common unit, and four of the first message's own units."""
    async with mq.run(app := App(settings=Settings(delay_queue=queue))):
        for body in (b"1", b"2", b"3"):
            await app.put("LATER", body, delay=5)
        mq.faults.add(
            Fault(verb="MQCMIT", reason=reason, times=2), *(Fault(verb="MQCMIT", reason=reason, nth=nth) for nth in (5, 6, 7))
        )
        await anyio.sleep(5.5)
        moved = [found.body for found in mq.browse("LATER")]
        await anyio.sleep(60)

    assert [b"2", b"3"] == moved
    assert ([b"2", b"3", b"1"], 0) == ([found.body for found in mq.browse("LATER")], mq.depth(queue))
    *punctual, late = [event.late_ms for event in mq.told(DelayedDelivered)]
    assert [0, 0] == punctual
    assert 4_000 == late
    [warned] = mq.told(Warned)
    assert warned.text.startswith(f"A delayed message stays on {queue}; the processor tries again every second. MQCMIT")
    assert [] == mq.told(DelayProcessorStopped)


async def test_while_every_commit_is_refused_only_one_waiting_message_is_tried_each_second(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(settings=Settings(delay_queue="STAGED"))):
        for body in (b"1", b"2", b"3"):
            await app.put("LATER", body, delay=5)
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.BACKED_OUT, times=4 + 20))
        await anyio.sleep(5.5)
        commits = [sum(call.verb == "MQCMIT" for call in mq.faults.calls)]
        await anyio.sleep(20)
        commits.append(sum(call.verb == "MQCMIT" for call in mq.faults.calls))
        await anyio.sleep(2)

    assert 20 == commits[1] - commits[0]
    assert [b"1", b"2", b"3"] == sorted(found.body for found in mq.browse("LATER"))
    assert 1 == len(mq.told(Warned))


async def test_a_processor_that_cannot_move_many_messages_starts_again_and_forgets_none(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.runtime.delay.processor._REFUSED_MAX", 2)
    async with mq.run(app := App(settings=Settings(delay_queue="STAGED"))):
        for body in (b"1", b"2", b"3"):
            await app.put("LATER", body, delay=5)
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.BACKED_OUT, times=4))
        await anyio.sleep(10)

    assert [b"1", b"2", b"3"] == [found.body for found in mq.browse("LATER")]
    assert [Reason.BACKED_OUT] == [event.reason for event in mq.told(DelayProcessorStopped)]


@pytest.mark.parametrize("queue", ["STAGED", STAGING])
async def test_a_commit_in_doubt_names_the_message_ids_that_the_puts_returned(mq: QueueManagerKit, queue: str) -> None:
    async with mq.run(app := App(settings=Settings(delay_queue=queue))):
        sent = [await app.put("LATER", b"x", delay=5) for _ in range(2)]
        mq.faults.add(Fault(verb="MQCMIT", moment=Moment.AFTER))
        await anyio.sleep(60)

    [doubt] = mq.told(InDoubt)
    assert tuple(put.descriptor.message_id for put in sent) == doubt.message_ids


async def test_a_commit_in_doubt_of_a_message_in_its_own_unit_names_only_that_message(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        first = await app.put("LATER", b"1", delay=5)
        await app.put("LATER", b"2", delay=5)
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.BACKED_OUT), Fault(verb="MQCMIT", nth=2, moment=Moment.AFTER))
        await anyio.sleep(60)

    broken = int(Reason.CONNECTION_BROKEN)
    doubt = InDoubt(queue=STAGING, listener="delay processor", reason=broken, message_ids=(first.descriptor.message_id,))
    assert [b"1", b"2"] == [found.body for found in mq.browse("LATER")]
    assert [doubt] == mq.told(InDoubt)


@pytest.mark.parametrize(
    ("queue", "user", "own_authority", "checks", "as_sender", "warnings"),
    [
        ("STAGED", "", False, True, True, 0),
        ("STAGED", "mqm", False, False, True, 0),
        ("STAGED", "", True, False, False, 1),
        (STAGING, "", False, False, False, 0),
        (STAGING, "", True, False, False, 0),
    ],
)
async def test_only_a_processor_that_acts_for_the_senders_checks_its_own_authority(
    mq: QueueManagerKit, queue: str, user: str, *, own_authority: bool, checks: bool, as_sender: bool, warnings: int
) -> None:
    told = list[Event]()
    broadcast = Broadcast((lambda event: told.append(event),))  # noqa: PLW0108 - `append` has another parameter's name
    supervisor = Supervisor(mq.queue_manager, broadcast=broadcast, world=World(mq.clock, mq.random))
    processor = DelayProcessor(queue, supervisor, broadcast=broadcast, clock=mq.clock, own_authority=own_authority)
    processor._user = user  # type: ignore[misc]  # as on a queue manager with and without an owner in this process
    session: Any = await open_session(mq.faults.wrap(mq.queue_manager), THREADS)

    found = [await processor._puts_as_sender(session) for _ in range(2)]

    assert [as_sender] * 2 == found
    assert [2 * checks, warnings] == [sum(call.verb == "MQPUT1" for call in mq.faults.calls), len(told)]
    mq.faults.add(Fault(verb="MQPUT1", reason=Reason.PUT_INHIBITED))
    if checks:
        with pytest.raises(MQIError, match="2051"):
            await processor._puts_as_sender(session)
    await session.close()
