"""The synchronous consumer: it moves poison messages inside the unit of work that was active at the receive.

Source: IBM q032280, "Processing poison messages for synchronous applications".
"""

from contextlib import suppress

import pytest

from mqflow import App, ConfigurationError
from mqflow.events import Decided, Disposed
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Report
from mqflow.policy.poison.disposition import Discard, Requeue, Return
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    mq.define("OUT")
    mq.define("BOQ")
    mq.define("IN", bothresh=1, boqname="BOQ")


async def backed_out_once(mq: QueueManagerKit, app: App, report: Report = Report.NONE) -> None:
    await mq.put("IN", b"poison", report=int(report))
    async with app.consumer("IN") as consumer:
        await consumer.receive()
        await consumer.backout()


async def test_a_received_message_is_off_its_queue_once_the_unit_of_work_is_committed(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        await mq.put("IN", b"one")
        message = await consumer.receive(wait_ms=1000)
        await consumer.put("OUT", b"answer")
        before = mq.depth("OUT"), [found.body for found in mq.browse("OUT")]
        await consumer.commit()

    assert message is not None
    assert b"one" == message.body
    assert (1, []) == before
    assert (0, [b"answer"]) == (mq.depth("IN"), [found.body for found in mq.browse("OUT")])


async def test_leaving_without_a_commit_backs_out(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        await mq.put("IN", b"one")
        async with app.consumer("IN") as consumer:
            await consumer.receive()

    assert [1] == [found.backout_count for found in mq.browse("IN")]


async def test_nothing_there_is_none_after_the_wait(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        started = mq.clock.monotonic()
        assert await consumer.receive(wait_ms=2500) is None
        assert 2.5 == round(mq.clock.monotonic() - started, 1)


async def test_the_move_of_a_poison_message_commits_with_the_unit_of_work(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        await mq.put("IN", b"good")
        async with app.consumer("IN") as consumer:
            message = await consumer.receive()
            uncommitted = [found.body for found in mq.browse("BOQ")]
            await consumer.commit()

    assert message is not None
    assert (b"good", []) == (message.body, uncommitted)
    assert [b"poison"] == [found.body for found in mq.browse("BOQ")]
    assert [Requeue("BOQ")] == [event.disposition for event in mq.told(Disposed)]
    assert 1 == mq.told(Decided)[-1].threshold


async def test_the_move_is_undone_when_the_unit_of_work_is_backed_out(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        async with app.consumer("IN") as consumer:
            assert await consumer.receive() is None
            await consumer.backout()

    assert (0, [2]) == (mq.depth("BOQ"), [found.backout_count for found in mq.browse("IN")])


async def test_a_poison_message_that_nobody_takes_is_discarded_with_the_commit_as_jms_does(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)")
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        async with app.consumer("IN") as consumer:
            assert await consumer.receive() is None
            await consumer.commit()

    [disposed] = mq.told(Disposed)
    assert isinstance(disposed.disposition, Discard)
    assert 2051 == disposed.attempts[0].reason
    assert 0 == mq.depth("IN")


async def test_a_poison_message_that_nobody_takes_is_there_again_when_the_unit_of_work_is_backed_out(
    mq: QueueManagerKit,
) -> None:
    """If no queue takes the message, a backout returns it to its own queue, and its backout count increases."""
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)")
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        async with app.consumer("IN") as consumer:
            assert await consumer.receive() is None
            await consumer.backout()

    assert [(b"poison", 2)] == [(found.body, found.backout_count) for found in mq.browse("IN")]


@pytest.mark.parametrize("end", ["commit", "backout", "lost"])
async def test_a_move_is_told_when_it_is_committed_and_not_before(mq: QueueManagerKit, end: str) -> None:
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        await mq.put("IN", b"good")
        async with app.consumer("IN") as consumer:
            await consumer.receive()
            before = [event.disposition for event in mq.told(Disposed)]
            if end == "lost":
                mq.faults.break_connections()
            with suppress(MQIError):
                await (consumer.commit if end == "commit" else consumer.backout)()

    assert [] == before
    assert ([Requeue("BOQ")] if end == "commit" else []) == [event.disposition for event in mq.told(Disposed)]
    assert (1 if end == "commit" else 0) == mq.depth("BOQ")


async def test_without_a_transaction_the_receive_and_the_move_are_final_at_once(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        await mq.put("IN", b"good")
        async with app.consumer("IN", transacted=False) as consumer:
            message = await consumer.receive()
            moved = [found.body for found in mq.browse("BOQ")]

    assert message is not None
    assert (b"good", [b"poison"]) == (message.body, moved)
    assert 0 == mq.depth("IN")


async def test_a_message_that_may_not_be_moved_is_given_to_the_caller_once_more(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(decide=lambda *_: (Return("it stays"),))):
        await backed_out_once(mq, app)
        async with app.consumer("IN") as consumer:
            message = await consumer.receive()

    assert message is not None
    assert b"poison" == message.body


async def test_a_sender_may_ask_for_a_message_to_be_discarded_rather_than_dead_lettered(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(' ')", "ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    async with mq.run(app := App()):
        await backed_out_once(mq, app, report=Report.DISCARD_MSG)
        async with app.consumer("IN") as consumer:
            assert await consumer.receive() is None
            await consumer.commit()

    assert (0, 0) == (mq.depth("IN"), mq.depth("SYSTEM.DEAD.LETTER.QUEUE"))


async def test_an_application_that_is_not_running_says_how_to_run_it() -> None:
    with pytest.raises(ConfigurationError, match=r"async with app\.running\(\)"):
        App().consumer("IN")
