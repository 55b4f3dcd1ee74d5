"""A synchronous consumer never reports a unit of work as committed if it was backed out without its caller."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from mqflow import App
from mqflow.app.handlers.consumer import Consumer
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.events import Event, InDoubt
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.faults import Fault
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Connection, GetOptions, Got
from tests.queue_contents import taken
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")
queues = defining("OUT", "BOQ", bothresh=1, boqname="BOQ")


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


@pytest.mark.parametrize("backout_fails", [False, True])
async def test_a_unit_of_work_whose_commit_is_in_doubt_is_in_no_later_commit(
    mq: QueueManagerKit, *, backout_fails: bool
) -> None:
    """The reason 2102 leaves the connection usable, and the unit of work can be open still."""
    await mq.put("IN", b"one")
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        message = await consumer.receive()
        put = await consumer.put("OUT", b"answer")
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.RESOURCE_PROBLEM))
        if backout_fails:
            mq.faults.add(Fault(verb="MQBACK", reason=Reason.RESOURCE_PROBLEM))
        with pytest.raises(MQIError, match="2102"):
            await consumer.commit()
        await consumer.put("OUT", b"answer")
        await consumer.commit()

    assert [b"answer"] == [found.body for found in mq.browse("OUT")]
    assert [(b"one", 1)] == [(found.body, found.backout_count) for found in mq.browse("IN")]
    [doubt] = mq.told(InDoubt)
    assert ((message.message_id,), (put.descriptor.message_id,)) == (doubt.message_ids, doubt.put_message_ids)


async def test_a_unit_of_work_whose_backout_failed_is_in_no_later_commit(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        await consumer.put("OUT", b"unwanted")
        mq.faults.add(Fault(verb="MQBACK", reason=Reason.RESOURCE_PROBLEM))
        with pytest.raises(MQIError, match="2102"):
            await consumer.backout()
        await consumer.put("OUT", b"wanted")
        await consumer.commit()

    assert [b"wanted"] == [found.body for found in mq.browse("OUT")]


async def test_a_commit_that_the_queue_manager_backed_out_is_followed_by_a_backout(mq: QueueManagerKit) -> None:
    """Source: IBM, 2003 (MQRC_BACKED_OUT): the program must issue MQBACK before it starts another unit of work."""
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        await consumer.put("OUT", b"one")
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.BACKED_OUT))
        with pytest.raises(MQIError, match="2003"):
            await consumer.commit()

        assert ["MQCMIT", "MQBACK"] == [call.verb for call in mq.faults.calls][-2:]
    assert [] == mq.told(InDoubt)


class Told(list[Event]):
    """Collects the events of an application."""

    def __call__(self, event: Event) -> None:
        self.append(event)


class Slow:
    """A connection on which a get waits until the test lets it go on, and a commit waits after it took effect."""

    def __init__(self, behind: Connection, verb: str) -> None:
        self._behind = behind
        self._verb = verb
        self.under_way, self.may_end = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def get(self, handle: Any, options: GetOptions) -> Got | None:
        self._dawdle("MQGET")
        return self._behind.get(handle, options)

    def commit(self) -> None:
        self._behind.commit()
        self._dawdle("MQCMIT")

    def _dawdle(self, verb: str) -> None:
        if verb == self._verb:
            self.under_way.set()
            self.may_end.wait(10)


class SlowQueueManager:
    """The embedded queue manager with blocking calls, so that its sessions have threads."""

    name = "QM1"

    def __init__(self, verb: str) -> None:
        self.behind = EmbeddedQueueManager("QM1")
        self.verb = verb
        for queue in ("IN", "OUT"):
            self.behind.administration.define(QueueAttributes(name=queue))
        self.connections: list[Slow] = []

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        made = Slow(self.behind.connect(application_name=application_name, user=user), self.verb)
        self.connections.append(made)
        return cast("Connection", made)

    async def give_up(self, call: Coroutine[Any, Any, object]) -> None:
        """Start the call of the only connection, and cancel its task while the verb waits."""
        [connection] = self.connections
        calling = asyncio.create_task(call)
        await asyncio.to_thread(connection.under_way.wait, 10)
        calling.cancel()
        asyncio.get_running_loop().call_soon(connection.may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await calling

    def put(self, queue: str, body: bytes) -> bytes:
        """Put this message, and return its MsgId."""
        connection = self.behind.connect()
        return connection.put1(queue, MessageDescriptor(), body, PutOption.NO_SYNCPOINT).descriptor.message_id

    def bodies(self, queue: str) -> list[bytes]:
        return bodies_on(self.behind, queue)


def bodies_on(queue_manager: EmbeddedQueueManager, queue: str) -> list[bytes]:
    """Get all messages of the queue."""
    return [got.body for got in taken(queue_manager, queue)]


def test_a_receive_that_asyncio_gave_up_commits_nothing_that_it_got() -> None:
    manager, app = SlowQueueManager("MQGET"), App()

    async def given_up() -> None:
        async with app.running(manager, listen=False), app.consumer("IN") as consumer:
            manager.put("IN", b"one")
            await manager.give_up(consumer.receive(wait_ms=500))
            await consumer.commit()

    asyncio.run(given_up())

    assert [b"one"] == manager.bodies("IN")


def test_a_commit_that_asyncio_gave_up_is_in_doubt() -> None:
    told = Told()
    manager, app = SlowQueueManager("MQCMIT"), App(hooks=[told])
    received = manager.put("IN", b"one")

    async def given_up() -> bytes:
        async with app.running(manager, listen=False), app.consumer("IN") as consumer:
            await consumer.receive()
            put = await consumer.put("OUT", b"answer")
            await manager.give_up(consumer.commit())
            await consumer.put("OUT", b"not committed")
        return put.descriptor.message_id

    sent = asyncio.run(given_up())

    [doubt] = [event for event in told if isinstance(event, InDoubt)]
    assert (Reason.CALL_INTERRUPTED, (received,), (sent,)) == (doubt.reason, doubt.message_ids, doubt.put_message_ids)
    assert ([], [b"answer"]) == (manager.bodies("IN"), manager.bodies("OUT"))


def test_a_receive_that_asyncio_gave_up_in_its_commit_is_in_doubt() -> None:
    told = Told()
    manager, app = SlowQueueManager("MQCMIT"), App(hooks=[told])
    received = manager.put("IN", b"one")

    async def given_up() -> None:
        async with app.running(manager, listen=False), app.consumer("IN", transacted=False) as consumer:
            await manager.give_up(consumer.receive())

    asyncio.run(given_up())

    assert [(received,)] == [event.message_ids for event in told if isinstance(event, InDoubt)]


@pytest.mark.parametrize("turns", range(1, 25))
def test_whenever_asyncio_gives_up_a_receive_its_message_is_on_its_queue_or_in_doubt(turns: int) -> None:
    told, received = Told(), list[bytes]()
    manager, app = SlowQueueManager("none"), App(hooks=[told])
    first = manager.put("IN", b"first")

    async def given_up() -> None:
        async with app.running(manager, listen=False), app.consumer("IN", transacted=False) as consumer:
            receiving = asyncio.create_task(consumer.receive())
            for _ in range(turns):
                await asyncio.sleep(0)
            receiving.cancel()
            with suppress(asyncio.CancelledError):
                received.append((await receiving).message_id)
            manager.put("IN", b"second")
            while (message := await consumer.receive_no_wait()) is not None:
                received.append(message.message_id)

    asyncio.run(given_up())

    doubts = [message_id for event in told if isinstance(event, InDoubt) for message_id in event.message_ids]
    assert first in received + doubts


def test_a_commit_to_disk_that_asyncio_gave_up_is_in_doubt_and_in_no_later_commit(tmp_path: Path) -> None:
    told = Told()
    app = App(hooks=[told])

    async def given_up(queue_manager: EmbeddedQueueManager) -> None:
        async with app.running(queue_manager, listen=False), app.consumer("IN") as consumer:
            await consumer.put("OUT", b"first")
            committing = asyncio.create_task(consumer.commit())
            await asyncio.sleep(0)  # the task sends the commit, and waits for the disk
            committing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await committing
            await consumer.put("OUT", b"second")
            await consumer.commit()

    with EmbeddedQueueManager("QM1", store=SqliteStore(tmp_path / "data")) as queue_manager:
        for queue in ("IN", "OUT"):
            queue_manager.administration.define(QueueAttributes(name=queue, default_persistence=1))
        asyncio.run(given_up(queue_manager))
        found = bodies_on(queue_manager, "OUT")

    assert found in ([b"second"], [b"first", b"second"])
    assert [Reason.CALL_INTERRUPTED] == [event.reason for event in told if isinstance(event, InDoubt)]
