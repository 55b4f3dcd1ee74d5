"""The calls of a DLQ handler in an application: one message in a unit of work, and no call that is not needed."""

from collections import Counter
from pathlib import Path

import anyio
import pytest

from mqflow import App
from mqflow.events import DeadLetterActed, Warned
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.policy.dead_letters.rules import Control
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.dead_letters.dead_letter_handler import Rules
from mqflow.runtime.dead_letters.service import DeadLetterService
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.testing.kit import QueueManagerKit
from mqflow.world import World
from tests.running import run_for

DLQ = "DEAD.LETTERS"


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    for queue in (DLQ, "ORDERS.IN"):
        mq.define(queue)


def application(folder: Path, rules: str) -> App:
    (folder / "rules.tbl").write_text(rules)
    app = App()
    app.dead_letter_handler(folder / "rules.tbl", queue=DLQ)
    return app


def put(mq: QueueManagerKit, *bodies: bytes) -> None:
    connection = mq.queue_manager.connect()
    for body in bodies:
        put_dead_letter(connection, DLQ, body, queue="ORDERS.IN")
    connection.disconnect()


def calls(mq: QueueManagerKit) -> Counter[str]:
    return Counter(call.verb for call in mq.faults.calls)


async def test_each_of_several_messages_has_a_unit_of_work_of_its_own(mq: QueueManagerKit, tmp_path: Path) -> None:
    put(mq, b"one", b"two", b"three")
    await run_for(mq, 1, application(tmp_path, "RETRYINT(5)\nACTION(RETRY)"))

    assert [b"one", b"two", b"three"] == [found.body for found in mq.browse("ORDERS.IN")]
    assert 3 == calls(mq)["MQCMIT"]


async def test_a_message_that_stays_costs_no_commit(mq: QueueManagerKit, tmp_path: Path) -> None:
    put(mq, b"one")
    await run_for(mq, 1, application(tmp_path, "RETRYINT(5)\nACTION(IGNORE)"))

    assert 1 == len(mq.told(DeadLetterActed))
    assert 0 == calls(mq)["MQCMIT"]


async def test_after_a_refusal_one_look_without_a_wait_is_made_and_the_next_refusal_is_reported_again(
    mq: QueueManagerKit, tmp_path: Path
) -> None:
    looks: list[int] = []
    async with mq.run(application(tmp_path, "RETRYINT(60)\nACTION(RETRY)")):
        await anyio.sleep(1)
        for state in ("DISABLED", "ENABLED", "DISABLED", "ENABLED"):
            mq.mqsc(f"ALTER QLOCAL({DLQ}) GET({state})")
            await anyio.sleep(10)
            before = calls(mq)["MQGET"]
            for _ in range(3):
                put(mq, b"one")
                await anyio.sleep(40)
            looks.append(calls(mq)["MQGET"] - before)

    assert 2 == len(mq.told(Warned))
    assert [24, 12, 24, 12] == looks


async def test_a_message_that_came_during_a_refusal_is_handled_at_the_first_look_after_it(
    mq: QueueManagerKit, tmp_path: Path
) -> None:
    async with mq.run(application(tmp_path, "RETRYINT(600)\nACTION(RETRY)")) as running:
        await anyio.sleep(1)
        mq.mqsc(f"ALTER QLOCAL({DLQ}) GET(DISABLED)")
        put(mq, b"one")
        await anyio.sleep(10)
        ready = [running.ready]
        mq.mqsc(f"ALTER QLOCAL({DLQ}) GET(ENABLED)")
        await anyio.sleep(5)
        ready.append(running.ready)

    assert [False, True] == ready
    assert [b"one"] == [found.body for found in mq.browse("ORDERS.IN")]


async def test_a_handler_without_a_queue_ends_the_start_if_the_queue_manager_has_no_dead_letter_queue(
    mq: QueueManagerKit, tmp_path: Path
) -> None:
    (tmp_path / "rules.tbl").write_text("ACTION(RETRY)")
    app = App()
    app.dead_letter_handler(tmp_path / "rules.tbl")

    with pytest.raises(MQIError, match="It has no dead-letter queue"):
        async with mq.run(app):
            raise AssertionError("it has started")


@pytest.mark.parametrize("cause", ["another program has the queue exclusively", "the queue is inhibited for gets"])
async def test_a_handler_whose_queue_refuses_at_the_start_delays_no_listener(
    mq: QueueManagerKit, tmp_path: Path, cause: str
) -> None:
    handled: list[bytes] = []
    app = application(tmp_path, "RETRYINT(5)\nACTION(FWD) FWDQ(FIXED)")
    mq.define("FIXED")

    @app.listener("ORDERS.IN")
    def book(order: bytes) -> None:
        handled.append(order)

    put(mq, b"dead")
    await mq.put("ORDERS.IN", b"alive")
    other = mq.queue_manager.connect()
    if cause == "the queue is inhibited for gets":
        mq.mqsc(f"ALTER QLOCAL({DLQ}) GET(DISABLED)")
    else:
        other.open(DLQ, OpenOption.INPUT_EXCLUSIVE)
    with anyio.fail_after(60):
        async with mq.run(app) as running:
            await anyio.sleep(20)
            before = (list(handled), running.ready, mq.depth("FIXED"))
            other.disconnect()
            mq.mqsc(f"ALTER QLOCAL({DLQ}) GET(ENABLED)")
            await anyio.sleep(20)
            after = (running.ready, mq.depth("FIXED"))

    assert ([b"alive"], False, 0) == before
    assert (True, 1) == after
    assert 1 == sum(event.queue == DLQ for event in mq.told(Warned))


async def test_a_handler_that_was_stopped_before_its_start_counts_as_started(mq: QueueManagerKit) -> None:
    broadcast = Broadcast(())
    supervisor = Supervisor(mq.queue_manager, broadcast=broadcast, world=World(mq.clock, mq.random))
    service = DeadLetterService(Rules(Control(), ()), DLQ, supervisor, broadcast=broadcast, clock=mq.clock)
    service.stop()

    async with anyio.create_task_group() as group:
        await group.start(service.run)

    assert [] == mq.faults.calls
