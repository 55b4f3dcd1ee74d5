"""Messages of an application survive an ordinary restart of the queue manager, unless the application says otherwise.

Sources: JMS 2.0, "DeliveryMode": a producer sends persistent messages by default. IBM q097600 (Persistence): "applications
must use the persistence of the request message for the reply message". IBM q041190 (2048): a temporary dynamic queue takes no
persistent message.
"""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from mqflow import App, Context, Message
from mqflow.app.channels.location import OpenQueueManager, open_queue_manager
from mqflow.app.config.settings import Settings
from mqflow.app.handlers.outgoing_message import PutKeywords, outgoing
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption, Persistence
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.faults import Fault
from mqflow.testing.kit import QueueManagerKit, carry_out
from mqflow.verbs import Connection
from mqflow.world import SYSTEM_WORLD
from tests.running import moved

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

ORDERS = [f"order {number}" for number in range(10)]
AS_DEFINED, PERSISTENT, NOT_PERSISTENT = Persistence.AS_Q_DEF, Persistence.PERSISTENT, Persistence.NOT_PERSISTENT


# -- an ordinary restart


def opened(folder: Path) -> OpenQueueManager:
    return open_queue_manager(f"embedded:{folder}?qmgr=QM1", settings=Settings(), world=SYSTEM_WORLD)


def after_the_restart(folder: Path, queue: str) -> int:
    """Return how many messages are on the queue in the next life of the queue manager."""
    queue_manager = opened(folder)
    try:
        [found] = [each for each in queue_manager.administration.queues() if each.name == queue]
        return found.depth
    finally:
        queue_manager.close()


def by_ctx_put(app: App) -> Callable[[str], Awaitable[None]]:
    @app.listener("IN")
    async def move(order: str, ctx: Context) -> None:
        await ctx.put("OUT", order)

    return lambda order: put(app, order)


def by_a_plain_function(app: App) -> Callable[[str], Awaitable[None]]:
    @app.listener("IN")
    def move(order: str, ctx: Context) -> None:
        ctx.put_blocking("OUT", order)

    return lambda order: put(app, order)


def by_a_publisher(app: App) -> Callable[[str], Awaitable[None]]:
    @app.listener("IN")
    @app.publisher("OUT")
    async def move(order: str) -> str:
        return order

    return lambda order: put(app, order)


def by_a_reply(app: App) -> Callable[[str], Awaitable[None]]:
    @app.listener("IN")
    async def move(order: str) -> str:
        return order

    return lambda order: put(app, order, reply_to="OUT")


def by_a_publication(app: App) -> Callable[[str], Awaitable[None]]:
    @app.listener("IN")
    async def move(order: str, ctx: Context) -> None:
        await ctx.publish("Orders", order)

    return lambda order: put(app, order)


def by_app_put(app: App) -> Callable[[str], Awaitable[None]]:
    return lambda order: put(app, order, queue="OUT")


def by_app_publish(app: App) -> Callable[[str], Awaitable[None]]:
    async def publish(order: str) -> None:
        await app.publish("Orders", order)

    return publish


async def put(app: App, order: str, *, queue: str = "IN", **keywords: str) -> None:
    await app.put(queue, order, **keywords)  # type: ignore[arg-type]  # the keyword is `reply_to`


WAYS = (by_ctx_put, by_a_plain_function, by_a_publisher, by_a_reply, by_a_publication, by_app_put, by_app_publish)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_ten_orders_that_an_application_moved_are_there_after_a_restart(
    tmp_path: Path, backend: str, way: Callable[[App], Callable[[str], Awaitable[None]]]
) -> None:
    """Both queues are plain: DEFINE QLOCAL makes them with DEFPSIST(NO)."""

    async def life() -> None:
        queue_manager = opened(tmp_path)
        script = "DEFINE QLOCAL(IN)\nDEFINE QLOCAL(OUT)\nDEFINE SUB(OUT) TOPICSTR('Orders') DEST(OUT)"
        carry_out(queue_manager.administration, [script])
        app = App(settings=Settings())
        send = way(app)
        async with app.running(queue_manager, drain_s=60):
            for order in ORDERS:
                await send(order)
            async with app.consumer("OUT") as consumer:
                for _ in ORDERS:
                    await consumer.receive(wait_ms=60_000)
                await consumer.backout()
        queue_manager.close()

    anyio.run(life, backend=backend)

    assert len(ORDERS) == after_the_restart(tmp_path, "OUT")


# -- the choice


@pytest.mark.parametrize(
    ("keywords", "persistence"),
    [
        ({}, PERSISTENT),
        ({"persistent": True}, PERSISTENT),
        ({"persistent": False}, NOT_PERSISTENT),
        ({"persistent": None}, AS_DEFINED),
        ({"descriptor": None}, PERSISTENT),
        ({"descriptor": MessageDescriptor()}, PERSISTENT),
        ({"descriptor": MessageDescriptor(persistence=PERSISTENT)}, PERSISTENT),
        ({"descriptor": MessageDescriptor(persistence=NOT_PERSISTENT)}, NOT_PERSISTENT),
        ({"descriptor": MessageDescriptor(persistence=NOT_PERSISTENT), "persistent": True}, PERSISTENT),
        ({"descriptor": MessageDescriptor(persistence=PERSISTENT), "persistent": False}, NOT_PERSISTENT),
        ({"descriptor": MessageDescriptor(), "persistent": None}, AS_DEFINED),
        ({"descriptor": MessageDescriptor(persistence=NOT_PERSISTENT), "persistent": None}, NOT_PERSISTENT),
        ({"descriptor": MessageDescriptor(persistence=7)}, 7),  # MQPUT refuses it: 2047
    ],
)
def test_a_message_is_persistent_unless_a_keyword_or_the_descriptor_says_otherwise(
    keywords: PutKeywords, persistence: int
) -> None:
    assert persistence == outgoing("OUT", b"x", **keywords).descriptor.persistence


@pytest.mark.parametrize(("given", "persistence"), [(True, 1), (False, 0), (None, 2)])
def test_a_publisher_makes_persistent_messages_unless_it_says_otherwise(*, given: bool | None, persistence: int) -> None:
    app = App()

    assert persistence == app.publisher("OUT", persistent=given).outgoing(b"x").descriptor.persistence
    assert PERSISTENT == app.publisher("OUT").outgoing(b"x").descriptor.persistence


@pytest.mark.parametrize(("defined", "persistence"), [("YES", 1), ("NO", 0)])
async def test_none_takes_defpsist_of_the_queue_also_for_a_delayed_message(
    mq: QueueManagerKit, defined: str, persistence: int
) -> None:
    mq.define("OUT", defpsist=defined)

    async with mq.run(app := App()):
        await app.put("OUT", b"now", persistent=None)
        await app.put("OUT", b"later", persistent=None, delay=5)
        found = await mq.drain("OUT", at_least=2)

    assert [persistence] * 2 == [each.descriptor.persistence for each in found]


async def test_a_delayed_message_is_persistent_while_it_is_staged_and_afterwards(mq: QueueManagerKit) -> None:
    mq.define("OUT")

    async with mq.run(app := App()):
        await app.put("OUT", b"later", delay=5)
        [staged] = mq.browse("SYSTEM.DDELAY.LOCAL.QUEUE")
        [found] = await mq.drain("OUT")

    assert (True, True) == (staged.descriptor.persistent, found.descriptor.persistent)


# -- requests and replies


@pytest.mark.parametrize("persistent", [True, False])
async def test_a_reply_is_as_persistent_as_its_request(mq: QueueManagerKit, *, persistent: bool) -> None:
    mq.define("IN")
    mq.define("REPLIES", defpsist="NO" if persistent else "YES")
    app = App()

    @app.listener("IN")
    async def answer(question: str) -> str:
        return question

    async with mq.run(app):
        await app.put("IN", "?", reply_to="REPLIES", persistent=persistent)
        [reply] = await mq.drain("REPLIES")

    assert persistent == reply.descriptor.persistent


@pytest.mark.parametrize(
    ("defined", "keywords", "persistence"),
    [
        ("NO", {}, 0),
        ("YES", {}, 1),
        ("NO", {"persistent": True}, 1),
        ("YES", {"persistent": False}, 0),
        ("NO", {"descriptor": MessageDescriptor(persistence=PERSISTENT)}, 1),
    ],
)
async def test_a_request_leaves_its_persistence_to_the_queue_and_gets_its_reply(
    mq: QueueManagerKit, defined: str, keywords: PutKeywords, persistence: int
) -> None:
    mq.define("IN", defpsist=defined)
    app, seen = App(), []

    @app.listener("IN")
    async def answer(question: str, message: Message) -> str:
        seen.append(message.descriptor.persistence)
        return question

    async with mq.run(app):
        assert "?" == await app.request("IN", "?", reply=str, timeout_s=5, **keywords)

    assert [persistence] == seen


# -- a temporary dynamic queue


@pytest.fixture
def requester(mq: QueueManagerKit) -> Iterator[Connection]:
    """Give a connection that has a temporary dynamic queue open, as a requester has."""
    connection = mq.queue_manager.connect(application_name="requester")
    yield connection
    connection.disconnect()


def temporary_queue(requester: Connection) -> str:
    return requester.open("SYSTEM.DEFAULT.MODEL.QUEUE", OpenOption.INPUT_SHARED).name


@pytest.mark.parametrize(
    "keywords",
    [{}, {"persistent": True}, {"delay": 5}, {"descriptor": MessageDescriptor(persistence=PERSISTENT)}],
    ids=["default", "persistent", "delayed", "descriptor"],
)
async def test_a_temporary_dynamic_queue_gets_messages_that_it_accepts(
    mq: QueueManagerKit, requester: Connection, keywords: PutKeywords
) -> None:
    mq.define("IN")
    replies, app = temporary_queue(requester), App()

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        await ctx.put(replies, body, **keywords)

    async with mq.run(app):
        await mq.put("IN", "from a handler")
        put = await app.put(replies, "from outside", **keywords)
        found = await mq.drain(replies, at_least=2)

    expected = {("from a handler", NOT_PERSISTENT), ("from outside", NOT_PERSISTENT)}
    assert expected == {(each.text(), each.descriptor.persistence) for each in found}
    assert NOT_PERSISTENT == put.descriptor.persistence


async def test_a_put_on_a_temporary_dynamic_queue_is_undone_with_the_unit_of_work_of_its_handler(
    mq: QueueManagerKit, requester: Connection
) -> None:
    mq.define("INHIBITED", put="DISABLED")
    mq.define("BOQ")
    mq.define("IN", bothresh=1, boqname="BOQ")
    replies, app = temporary_queue(requester), App()

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        await ctx.put(replies, body)
        await ctx.put("INHIBITED", body)  # MQPUT refuses it: 2051

    await moved(mq, app, "?")

    assert 0 == mq.depth(replies)


async def test_a_reply_needs_no_inquire_authority_on_a_temporary_dynamic_queue(
    mq: QueueManagerKit, requester: Connection
) -> None:
    mq.define("IN")
    replies = temporary_queue(requester)
    for profile, words in (("IN", "GET,INQ"), (replies, "PUT")):
        mq.mqsc(f"SET AUTHREC PROFILE('{profile}') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD({words})")
    mq.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT,INQ)")
    app = App()

    @app.listener("IN")
    async def answer(question: str) -> str:
        return question

    async with mq.run(app, user="app"):
        await mq.put("IN", "?", persistent=True, reply_to_queue=replies, message_type=1)
        [reply] = await mq.drain(replies)

    assert ("?", False) == (reply.text(), reply.descriptor.persistent)


async def test_another_queue_that_refuses_persistent_messages_is_an_error(mq: QueueManagerKit) -> None:
    """Source: IBM q041190: on z/OS also a shared queue whose structure cannot be recovered refuses a persistent message."""
    mq.define("SHARED")
    mq.faults.add(Fault(verb="MQPUT", object_name="SHARED", reason=Reason.PERSISTENT_NOT_ALLOWED))

    async with mq.run(app := App()):
        with pytest.raises(MQIError, match=r"MQPUT on SHARED .*MQRC_PERSISTENT_NOT_ALLOWED \(2048\)"):
            await app.put("SHARED", b"x")

    assert 0 == mq.depth("SHARED")
