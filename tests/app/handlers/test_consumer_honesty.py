"""A synchronous consumer never reports a unit of work as committed if it was backed out without its caller."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from mqflow import App
from mqflow.app.handlers.consumer import Consumer
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import InDoubt
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.faults import Fault
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Connection, GetOptions, Got

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    mq.define("OUT")
    mq.define("BOQ")
    mq.define("IN", bothresh=1, boqname="BOQ")


async def put_another(consumer: Consumer) -> None:
    await consumer.put("OUT", b"another")


@pytest.mark.parametrize("then", [Consumer.commit, Consumer.receive, put_another])
async def test_a_put_that_lost_the_connection_took_the_unit_of_work_along(
    mq: QueueManagerKit, then: Callable[[Consumer], Awaitable[object]]
) -> None:
    await mq.put("IN", b"one")
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        await consumer.receive()
        mq.faults.add(Fault(verb="MQPUT"))
        with pytest.raises(MQIError, match="CONNECTION_BROKEN"):
            await consumer.put("OUT", b"answer")
        with pytest.raises(MQIError) as told:
            await then(consumer)
        again = await consumer.receive(wait_ms=1_000)
        await consumer.put("OUT", b"answer")
        await consumer.commit()

    assert Reason.BACKED_OUT == told.value.reason
    assert again is None or b"one" == again.body  # the message is at its threshold, so it is on the backout queue now
    assert [b"answer"] == [found.body for found in mq.browse("OUT")]
    assert [] == mq.told(InDoubt)


async def test_a_backout_after_a_lost_connection_has_nothing_to_say(mq: QueueManagerKit) -> None:
    await mq.put("IN", b"one")
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        await consumer.receive()
        mq.faults.add(Fault(verb="MQPUT"))
        with pytest.raises(MQIError):
            await consumer.put("OUT", b"answer")
        await consumer.backout()
        await consumer.put("OUT", b"afterwards")
        await consumer.commit()

    assert [b"afterwards"] == [found.body for found in mq.browse("OUT")]


@pytest.mark.parametrize("others", [0, 1])
async def test_a_message_that_cannot_be_decided_about_is_not_committed_unseen(mq: QueueManagerKit, others: int) -> None:
    await mq.put("IN", b"one")
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        await consumer.receive()
        await consumer.backout()
        if others:
            await consumer.put("OUT", b"in the same unit of work")
        mq.faults.add(Fault(verb="MQINQ", reason=Reason.NOT_AUTHORIZED))
        with pytest.raises(MQIError, match="NOT_AUTHORIZED"):
            await consumer.receive()
        if others:
            with pytest.raises(MQIError, match="BACKED_OUT"):
                await consumer.commit()
        else:
            await consumer.commit()

    assert [(b"one", 2)] == [(found.body, found.backout_count) for found in mq.browse("IN")]
    assert [] == mq.browse("OUT")


class Slow:
    """A connection on which a get waits until the test lets it go on."""

    def __init__(self, behind: Connection) -> None:
        self._behind = behind
        self.getting, self.may_end = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def get(self, handle: Any, options: GetOptions) -> Got | None:
        self.getting.set()
        self.may_end.wait(10)
        return self._behind.get(handle, options)


class SlowQueueManager:
    """The embedded queue manager with blocking calls, so that its sessions have threads."""

    name = "QM1"

    def __init__(self) -> None:
        self.behind = EmbeddedQueueManager("QM1")
        self.behind.administration.define(QueueAttributes(name="IN"))
        self.connections: list[Slow] = []

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        made = Slow(self.behind.connect(application_name=application_name, user=user))
        self.connections.append(made)
        return cast("Connection", made)


def test_a_receive_that_asyncio_gave_up_commits_nothing_that_it_got() -> None:
    manager, app = SlowQueueManager(), App()

    async def given_up() -> int:
        async with app.running(manager, listen=False), app.consumer("IN") as consumer:
            [connection] = manager.connections
            receiving = asyncio.create_task(consumer.receive(wait_ms=500))
            await asyncio.to_thread(connection.getting.wait, 10)
            await app.put("IN", b"one")
            receiving.cancel()
            asyncio.get_running_loop().call_soon(connection.may_end.set)
            with pytest.raises(asyncio.CancelledError):
                await receiving
            await consumer.commit()
        return manager.behind.administration.queue_status("IN").depth

    assert 1 == asyncio.run(given_up())
