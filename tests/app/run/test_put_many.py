"""`App.put_many` puts all messages in one unit of work, and a publisher puts outside of deliveries with its own options.

Source: docs/life-of-a-message.md, "Puts outside of deliveries share commits"; IBM q026790, units of work.
"""

from collections import Counter
from datetime import timedelta

import anyio
import pytest

from mqflow import App, ConfigurationError, MQIError, Publisher
from mqflow.app.handlers.outgoing_message import Outgoing, Send
from mqflow.events import InDoubt
from mqflow.mqi.options import Persistence
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_time import Backend, run
from mqflow.verbs import Put
from tests.app.run.held_commits import HeldCommits

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


class Counting:
    """Publish middleware that counts its calls."""

    def __init__(self) -> None:
        self.calls = Counter[bytes]()

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        self.calls[message.body] += 1
        return await call_next(message)


@pytest.fixture(params=[False, True], ids=["plain", "within middleware"])
def app(request: pytest.FixtureRequest) -> App:
    return App(middleware=[Counting()] if request.param else [])


def calls(app: App) -> set[int]:
    return {count for layer in app.middleware for count in layer.calls.values()}


async def test_many_payloads_are_put_in_order_with_one_result_each(mq: QueueManagerKit, app: App) -> None:
    mq.define("OUT")
    bodies = [f"{number}" for number in range(100)]

    async with mq.run(app):
        puts = await app.put_many("OUT", (body for body in bodies), priority=4)
        assert [] == await app.put_many("OUT", [])

    found = mq.browse("OUT")
    assert bodies == [message.text() for message in found]
    assert [put.descriptor.message_id for put in puts] == [message.message_id for message in found]
    assert {4} == {put.descriptor.priority for put in puts}
    assert 1 == sum(call.verb == "MQCMIT" for call in mq.faults.calls)
    assert ({1} if app.middleware else set()) == calls(app)


async def test_if_one_of_many_messages_is_refused_none_is_put_and_the_error_names_its_index(
    mq: QueueManagerKit, app: App
) -> None:
    mq.define("OUT", maxdepth=5)

    async with mq.run(app):
        with pytest.raises(MQIError, match=r"2053.* index 5 ") as caught:
            await app.put_many("OUT", [f"{number}" for number in range(8)])
        await app.put("OUT", "next")

    assert Reason.Q_FULL == caught.value.reason
    assert ["next"] == [message.text() for message in mq.browse("OUT")]


async def test_a_payload_that_cannot_be_encoded_is_named_by_its_index_and_nothing_is_put(mq: QueueManagerKit, app: App) -> None:
    mq.define("OUT")

    async with mq.run(app):
        with pytest.raises(TypeError) as caught:
            await app.put_many("OUT", ["one", object()])

    assert "index 1" in "".join(caught.value.__notes__)
    assert [] == mq.browse("OUT")


async def test_many_messages_that_lose_their_connection_are_put_again_together(mq: QueueManagerKit, app: App) -> None:
    mq.define("OUT")

    async with mq.run(app):
        mq.faults.add(Fault(verb="MQPUT", nth=3))
        await app.put_many("OUT", ["a", "b", "c", "d"])

    assert ["a", "b", "c", "d"] == [message.text() for message in mq.browse("OUT")]
    assert ({1} if app.middleware else set()) == calls(app)


async def test_a_commit_of_many_messages_without_an_answer_is_in_doubt_for_all_of_them(mq: QueueManagerKit, app: App) -> None:
    mq.define("OUT")

    async with mq.run(app):
        mq.faults.add(Fault(verb="MQCMIT", moment=Moment.AFTER))
        with pytest.raises(MQIError, match="may be on OUT") as caught:
            await app.put_many("OUT", ["a", "b"])

    [doubt] = mq.told(InDoubt)
    found = [message.message_id for message in mq.browse("OUT")]
    assert tuple(found) == doubt.put_message_ids
    assert all(message_id.hex() in str(caught.value) for message_id in found)


@pytest.mark.parametrize("within", [False, True])
def test_many_messages_have_a_unit_of_work_of_their_own(backend: Backend, *, within: bool) -> None:
    app, manager = App(middleware=[Counting()] if within else []), HeldCommits()

    async def main() -> None:
        async with app.running(manager, listen=False), anyio.create_task_group() as group:
            group.start_soon(app.put, "OUT", "first")
            await manager.next_commit()
            group.start_soon(app.put, "OUT", "early")
            await manager.next_commit()
            group.start_soon(app.put_many, "OUT", ["a", "b", "c"])
            await manager.next_commit()
            group.start_soon(app.put, "OUT", "last")
            for _ in range(4):
                await manager.next_commit()
                manager.answer()

    run(main, backend=backend)

    assert [[b"first"], [b"early"], [b"a", b"b", b"c"], [b"last"]] == manager.commits


async def test_a_publisher_puts_outside_of_deliveries_with_its_own_options(mq: QueueManagerKit) -> None:
    mq.define("OUT")
    app = App()
    orders = app.publisher("OUT", persistent=False, priority=7, expiry_s=60)

    async with mq.run(app):
        await orders.put("one")
        await orders.put_many(["two", "three"], priority=2, expiry=timedelta(hours=1))

    found = {message.text(): message.descriptor for message in mq.browse("OUT")}
    assert {"one": 7, "two": 2, "three": 2} == {text: descriptor.priority for text, descriptor in found.items()}
    assert {Persistence.NOT_PERSISTENT} == {descriptor.persistence for descriptor in found.values()}
    assert found["one"].expiry_tenths <= 600 < found["two"].expiry_tenths


async def test_a_publisher_without_a_running_application_puts_nothing(mq: QueueManagerKit) -> None:
    with pytest.raises(ConfigurationError, match="not running"):
        await App().publisher("OUT").put("one")
    with pytest.raises(ConfigurationError, match="no application"):
        await Publisher(queue="OUT").put("one")
    assert mq.queue_manager.administration.queue("OUT") is None
