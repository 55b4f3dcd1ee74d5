"""If a running application loses a queue or an authority, only the part that needs it waits until it is restored.

Spring's containers and MQ's own listeners also retry with pauses, and log each retry.
"""

import anyio
import pytest

from mqflow import App, MQIError
from mqflow.events import ListenerPaused, ListenerStopped, ReadinessChanged, Warned
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.rules import Action
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.testing.faults import CONNECT, Fault
from mqflow.testing.kit import QueueManagerKit
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

OFTEN = 10**6


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    mq.define("DLQ")
    mq.define("IN", bothresh=3, boqname="DLQ")
    mq.define("OTHER", bothresh=3, boqname="DLQ")


def app_on(*queues: str, concurrency: int = 1) -> tuple[App, list[str]]:
    app, seen = App(), list[str]()

    async def take(body: str) -> None:
        seen.append(body)

    for queue in queues:
        app.listener(queue, name=queue, concurrency=concurrency)(take)
    return app, seen


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("verb", ["MQGET", "MQOPEN"])
@pytest.mark.parametrize("reason", [Reason.NOT_AUTHORIZED, Reason.UNKNOWN_OBJECT_NAME, Reason.OPTIONS_ERROR])
async def test_a_listener_that_may_not_go_on_waits_loudly_and_the_others_go_on(
    mq: QueueManagerKit, verb: str, reason: Reason, concurrency: int
) -> None:
    app, seen = app_on("IN", "OTHER", concurrency=concurrency)

    async with mq.run(app) as running:
        await running.wait_ready()
        mq.faults.add(Fault(verb="MQGET", object_name="IN", reason=reason, times=OFTEN if verb == "MQGET" else concurrency))
        if verb == "MQOPEN":
            mq.faults.add(Fault(verb=verb, object_name="IN", reason=reason, times=OFTEN))
        await mq.put("IN", "one")
        await anyio.sleep(600)
        await mq.put("OTHER", "two")
        await anyio.sleep(1)
        assert ["two"] == seen
        mq.faults.clear()  # the authority is granted again
        await anyio.sleep(120)

    assert ["two", "one"] == seen
    assert {"IN"} == {event.queue for event in mq.told(ListenerPaused)}
    assert 5 < len(mq.told(ListenerPaused)) < 60
    assert {int(reason)} == {event.reason for event in mq.told(ListenerPaused)}
    assert [True, False, True, False] == [event.ready for event in mq.told(ReadinessChanged)]


async def test_a_listener_that_may_not_connect_any_more_delays_no_other_listener(mq: QueueManagerKit) -> None:
    app, seen = app_on("IN", "OTHER")

    async with mq.run(app) as running:
        await running.wait_ready()
        mq.faults.add(Fault(verb="MQGET", object_name="IN", reason=Reason.NOT_AUTHORIZED))
        mq.faults.add(Fault(verb=CONNECT, reason=Reason.NOT_AUTHORIZED, times=OFTEN))
        await mq.put("IN", "one")
        await anyio.sleep(600)
        await mq.put("OTHER", "two")
        await anyio.sleep(1)
        assert ["two"] == seen
        mq.faults.clear()
        await anyio.sleep(120)

    assert ["two", "one"] == seen


async def test_at_the_start_a_queue_that_may_not_be_read_ends_the_application(mq: QueueManagerKit) -> None:
    app, _ = app_on("IN", "OTHER")
    mq.faults.add(Fault(verb="MQOPEN", object_name="IN", reason=Reason.NOT_AUTHORIZED, times=OFTEN))

    with pytest.raises(MQIError, match="NOT_AUTHORIZED"):
        await run_for(mq, 60, app)


async def test_a_connection_that_is_refused_in_an_outage_ends_the_application(mq: QueueManagerKit) -> None:
    app, _ = app_on("IN", "OTHER")

    async def run() -> None:
        async with mq.run(app) as running:
            await running.wait_ready()
            mq.faults.add(Fault(verb=CONNECT, reason=Reason.NOT_AUTHORIZED, times=OFTEN))
            mq.faults.break_connections()
            await anyio.sleep(60)

    with pytest.raises(MQIError, match="NOT_AUTHORIZED"):
        await run()

    assert {"IN", "OTHER"} == {event.queue for event in mq.told(ListenerStopped)}


async def test_an_outage_whose_end_wants_resources_first_is_waited_for(mq: QueueManagerKit) -> None:
    app, seen = app_on("IN")

    async with mq.run(app) as running:
        await running.wait_ready()
        mq.faults.add(Fault(verb=CONNECT, reason=Reason.RESOURCE_PROBLEM, times=3))
        mq.faults.break_connections()
        await mq.put("IN", "one")
        await anyio.sleep(60)

    assert ["one"] == seen


@pytest.mark.parametrize("connects", [True, False])
async def test_a_dead_letter_handler_that_may_not_go_on_waits_and_the_listeners_go_on(
    mq: QueueManagerKit, *, connects: bool
) -> None:
    app, seen = app_on("IN")
    app.dead_letter_handler(queue="DLQ").rule(Action.DISCARD)(lambda _: True)

    async with mq.run(app) as running:
        await running.wait_ready()
        mq.faults.add(Fault(verb="MQGET", object_name="DLQ", reason=Reason.NOT_AUTHORIZED, times=OFTEN))
        if not connects:
            mq.faults.add(Fault(verb=CONNECT, reason=Reason.NOT_AUTHORIZED, times=OFTEN))
        connection = mq.queue_manager.connect()
        put_dead_letter(connection, "DLQ", b"dead", queue="IN")
        connection.disconnect()
        await anyio.sleep(600)
        await mq.put("IN", "one")
        mq.faults.clear()
        await anyio.sleep(60)

    assert ["one"] == seen
    assert 0 == mq.depth("DLQ")
    assert [True, False, True, False] == [event.ready for event in mq.told(ReadinessChanged)]
    assert [True] == ["The DLQ handler waits" in event.text for event in mq.told(Warned)]


async def test_a_dead_letter_handler_without_its_queue_at_the_start_ends_the_application(mq: QueueManagerKit) -> None:
    app = App()
    app.dead_letter_handler(queue="NOWHERE")

    with pytest.raises(MQIError, match="UNKNOWN_OBJECT_NAME"):
        await run_for(mq, 60, app)
