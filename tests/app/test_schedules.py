"""Schedules of an application: one firing for all its workers, also when workers die, start together, or the queue is full."""

import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from mqflow import App, ConfigurationError, Firing, MQIError
from mqflow.events import ScheduleFired, Warned
from mqflow.mqi.options import Persistence
from mqflow.policy.schedule import key_of
from mqflow.testing.kit import QueueManagerKit
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

STATE = b'{"schedule":"TICKS","rule":"every 60 s","last":%s}'


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    mq.define("TICKS")
    mq.define("MQFLOW.SCHEDULES")


def ticking(every: Any = timedelta(minutes=1), **options: Any) -> App:
    app = App(name="orders")
    app.schedule(every, "TICKS", **options)
    return app


@asynccontextmanager
async def workers(mq: QueueManagerKit, count: int) -> AsyncIterator[None]:
    """Run several processes of the application."""
    async with AsyncExitStack() as stack:
        for _ in range(count):
            await stack.enter_async_context(ticking().running(mq.queue_manager, clock=mq.clock, random=mq.random))
        yield


def firings(mq: QueueManagerKit) -> list[float]:
    """Return the moments of the firings on the queue, in minutes after the first. The state has the last."""
    found = [datetime.fromisoformat(each.json()["due"]).timestamp() for each in mq.browse("TICKS")]
    [state] = mq.browse("MQFLOW.SCHEDULES")
    assert Persistence.PERSISTENT == state.descriptor.persistence
    assert pytest.approx(found[-1], abs=1e-3) == state.json()["last"]
    return [round((each - found[0]) / 60, 3) for each in found]


async def test_an_interval_puts_a_message_after_each_of_its_pauses(mq: QueueManagerKit) -> None:
    app, seen = ticking(), []

    @app.listener("TICKS")
    async def handle(firing: Firing) -> None:
        seen.append((firing.schedule, firing.due - firing.last, round(anyio.current_time() - began)))

    began = anyio.current_time()
    await run_for(mq, 185, app)

    assert [("TICKS", timedelta(minutes=1), 60 * number) for number in (1, 2, 3)] == seen
    assert [0.0, 0.0, 0.0] == [round(event.late_s, 1) for event in mq.told(ScheduleFired)]


async def test_a_cron_expression_puts_a_message_at_its_moments(mq: QueueManagerKit) -> None:
    await run_for(mq, 1_805, ticking("*/10 * * * *"))

    due = [datetime.fromisoformat(each.json()["due"]) for each in mq.browse("TICKS")]
    assert [3, [0, 0, 0]] == [len(due), [moment.minute % 10 for moment in due]]
    assert {UTC} == {moment.tzinfo for moment in due}


async def test_several_workers_that_start_together_fire_each_moment_once(mq: QueueManagerKit) -> None:
    async with workers(mq, 4):
        await anyio.sleep(305)

    assert [0, 1, 2, 3, 4] == firings(mq)


async def test_a_schedule_goes_on_after_a_restart_and_fires_once_for_all_that_it_missed(mq: QueueManagerKit) -> None:
    async with workers(mq, 1):
        await anyio.sleep(65)
    await anyio.sleep(30)
    async with workers(mq, 1):
        await anyio.sleep(30)  # nothing was missed
    await anyio.sleep(240)
    async with workers(mq, 2):
        await anyio.sleep(1)

    assert [0, 1, 5] == firings(mq)


@pytest.mark.mq_backend("asyncio")
@pytest.mark.mq_faults("every-call")
async def test_a_connection_that_breaks_at_any_call_neither_loses_nor_doubles_a_firing(mq: QueueManagerKit) -> None:
    for queue in ("TICKS", "MQFLOW.SCHEDULES"):  # each run has a new queue manager
        if queue not in {each.name for each in mq.queue_manager.administration.queues()}:
            mq.define(queue)

    await run_for(mq, 130, ticking())

    assert [0, 1] == firings(mq)


async def test_a_queue_that_refuses_the_message_delays_the_firing_and_other_schedules_go_on(mq: QueueManagerKit) -> None:
    mq.define("OTHER")
    app = ticking()
    app.schedule(60, "OTHER")

    async with mq.run(app):
        await anyio.sleep(30)
        mq.mqsc("ALTER QLOCAL(TICKS) PUT(DISABLED)")
        await anyio.sleep(60)
        before = len(mq.browse("TICKS")), len(mq.browse("OTHER"))
        mq.mqsc("ALTER QLOCAL(TICKS) PUT(ENABLED)")
        await anyio.sleep(20)

    assert ((0, 1), 1) == (before, len(mq.browse("TICKS")))
    assert ["TICKS"] == [event.queue for event in mq.told(Warned) if "MQRC_PUT_INHIBITED" in event.text]


async def test_a_changed_rule_begins_again_and_fires_nothing_for_the_past(mq: QueueManagerKit) -> None:
    await run_for(mq, 10, ticking())
    await anyio.sleep(3_600)
    async with mq.run(ticking(timedelta(minutes=10))):
        await anyio.sleep(590)
        before = len(mq.browse("TICKS"))
        await anyio.sleep(20)

    assert (0, 1) == (before, len(mq.browse("TICKS")))


async def test_a_copied_state_message_does_not_double_a_firing(mq: QueueManagerKit) -> None:
    async with mq.run(ticking()):
        await anyio.sleep(65)
        [state] = mq.browse("MQFLOW.SCHEDULES")
        await mq.put("MQFLOW.SCHEDULES", state.text(), correlation_id=state.correlation_id)
        await anyio.sleep(120)

    assert [0, 1, 2] == firings(mq)


UNREADABLE = (b"no JSON", b"\xff", b"{}", *(STATE % last for last in (b'"noon"', b"-1e400", b"-1e308", b"-1")))


@pytest.mark.parametrize("body", UNREADABLE)
async def test_a_state_message_that_cannot_be_read_begins_its_schedule_again_and_stops_no_other(
    mq: QueueManagerKit, body: bytes
) -> None:
    mq.define("OTHER")
    put = await mq.put("MQFLOW.SCHEDULES", body, correlation_id=key_of("orders", "TICKS"))
    app = ticking()
    app.schedule(60, "OTHER")
    await run_for(mq, 185, app)

    assert (3, 3) == (len(mq.browse("TICKS")), len(mq.browse("OTHER")))
    assert 2 == len([state.json() for state in mq.browse("MQFLOW.SCHEDULES")])
    [warned] = [event for event in mq.told(Warned) if event.queue == "MQFLOW.SCHEDULES"]
    assert warned.text == (
        f"The state message {put.descriptor.message_id.hex()} of the schedule TICKS on MQFLOW.SCHEDULES cannot be read, so a "
        "new state message replaces it. The schedule begins again, and fires nothing for earlier moments."
    )


async def test_a_state_message_that_cannot_be_read_gives_way_to_one_that_can(mq: QueueManagerKit) -> None:
    async with mq.run(ticking()):
        await anyio.sleep(65)
        put = await mq.put("MQFLOW.SCHEDULES", b"no JSON", correlation_id=key_of("orders", "TICKS"))
        await anyio.sleep(120)

    assert [0, 1, 2] == firings(mq)
    [warned] = [event for event in mq.told(Warned) if event.queue == "MQFLOW.SCHEDULES"]
    assert warned.text == (
        f"The state message {put.descriptor.message_id.hex()} of the schedule TICKS on MQFLOW.SCHEDULES cannot be read, so a "
        "new state message replaces it."
    )


async def test_a_firing_has_the_payload_and_the_options_of_its_schedule(mq: QueueManagerKit) -> None:
    app = ticking(1.0, payload={"do": "clean"}, priority=7, properties={"kind": "nightly"})

    await run_for(mq, 1.5, app)

    [tick] = mq.browse("TICKS")
    assert ({"do": "clean"}, 7, {"kind": "nightly"}) == (tick.json(), tick.descriptor.priority, tick.properties)


async def test_an_application_does_not_start_without_the_queue_of_a_schedule(mq: QueueManagerKit) -> None:
    with pytest.raises(MQIError, match=r"NO\.STATE"):
        async with mq.run(ticking(state_queue="NO.STATE")):
            raise AssertionError("the application has started")


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("every day", "TICKS"), {}, "schedule('every day', ...): this is no cron expression"),
        (("0 6 * * *", "TICKS"), {"timezone": "Berlin"}, "there is no such time zone. An example is 'Europe/Berlin'"),
        (("0 0 6 * * *", "TICKS"), {}, "this is no cron expression: Too many fields. It has minute hour day month weekday"),
        (("0 6 * * *", "TICKS"), {"timezone": None}, "timezone=None): it takes a text"),
        ((60, "TICKS"), {"state_queue": ""}, "state_queue=''): it takes a text"),
        ((60, "TICKS"), {"name": 5}, "name=5): it takes a text"),
        ((math.inf, "TICKS"), {}, "an interval of 1 second or more, at most a century"),
        ((0, "TICKS"), {}, "an interval of 1 second or more"),
        ((timedelta(0), "TICKS"), {}, "an interval of 1 second or more"),
        ((60,), {}, "schedule(60) has no queue. It puts messages on a queue, and a listener handles them: app.schedule("),
        ((60, "TICKS"), {"delay": 5}, "a firing has no delay"),
        ((60, "OTHER"), {"name": "TICKS"}, "there is a schedule TICKS already. Give one of them another name"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(arguments: Any, options: dict[str, Any], said: str) -> None:
    app = App()
    if "name" in options:
        app.schedule(60, "TICKS")

    with pytest.raises(ConfigurationError) as refused:
        app.schedule(*arguments, **options)

    assert said in str(refused.value)


def test_a_schedule_above_a_function_says_what_to_write() -> None:
    app = App()

    with pytest.raises(ConfigurationError) as refused:

        @app.schedule("0 6 * * *", "NIGHTLY")
        async def report() -> None: ...

    assert str(refused.value) == (
        "@app.schedule('0 6 * * *', 'NIGHTLY') above report: schedule is no decorator. It puts messages on a queue, and a "
        "listener handles them. Write app.schedule('0 6 * * *', 'NIGHTLY') on a line of its own, and "
        "@app.listener('NIGHTLY') above report."
    )
