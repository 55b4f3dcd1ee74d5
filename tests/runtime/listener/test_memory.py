"""A listener forgets a message that has left its queue: a later message can have the same MsgId, and owes nothing to it."""

import gc

import anyio
import pytest

from mqflow import App, Backout, Pace
from mqflow.events import HandlerStuck
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.message_notes import message_key
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import GetOptions, Got
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

MESSAGE_ID = b"the identifier of both.."
THRESHOLD = 3


def _identifiers(got: Got) -> bytes:
    return got.descriptor.message_id + got.descriptor.correlation_id


@pytest.fixture(autouse=True, params=[True, False], ids=["with MsgToken", "without MsgToken"])
def tokens(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some queues return no MsgToken. Two messages with the same identifiers are then the same message for the memory."""
    if not request.param:
        monkeypatch.setattr(message_key, "__code__", _identifiers.__code__)


queues = defining("BOQ", bothresh=THRESHOLD, boqname="BOQ")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", ["good", "bad"], ids=["was handled", "was moved"])
async def test_a_message_has_all_its_attempts_though_an_earlier_message_had_its_identifier(
    mq: QueueManagerKit, first: str
) -> None:
    """The first message is backed out once because of another message. That backout does not count for it."""
    app, handled = App(), list[str]()

    @app.listener("IN", unit_of_work=2, backout=Backout(pace=Pace(first_s=0.1, jitter=0)))
    async def handle(body: str) -> None:
        handled.append(body)
        if body != "good":
            raise ValueError("always")

    await mq.put("IN", "another", priority=9)
    await mq.put("IN", first, message_id=MESSAGE_ID)
    async with mq.run(app):
        await mq.drain("BOQ", at_least=1 + (first == "bad"), quiet_s=30)
        await mq.put("IN", "second", message_id=MESSAGE_ID)
        [dead] = await mq.drain("BOQ", quiet_s=30)

    assert THRESHOLD == handled.count("second") == dead.why.count


async def test_the_reason_of_a_message_is_not_the_failure_of_an_earlier_message_with_its_identifier(
    mq: QueueManagerKit,
) -> None:
    """Another program backs the second message out, so this process does not know why it is poison."""
    app, handled = App(), list[str]()

    @app.listener("IN", backout=Backout(pace=Pace(first_s=0.1, jitter=0)))
    async def handle(body: str) -> None:
        handled.append(body)
        if len(handled) == 1:
            raise ValueError("only once")

    async with mq.run(app):
        await mq.put("IN", "first", message_id=MESSAGE_ID)
        await mq.drain("BOQ", at_least=0, quiet_s=30)
        back_out_as_another_program(mq)
        [dead] = await mq.drain("BOQ")

    assert ["first", "first"] == handled
    assert ("", "") == (dead.why.error, dead.why.text)


async def test_messages_whose_handlers_were_reported_as_stuck_are_forgotten_when_they_have_ended(mq: QueueManagerKit) -> None:
    app = App()

    @app.listener("IN", stuck_after_s=5)
    async def handle(_: str) -> None:
        await anyio.sleep(20)

    for number in range(10):
        await mq.put("IN", f"order {number}")
    async with mq.run(app):
        await anyio.sleep(300)
        gc.collect()
        kept = [each.got.body for each in gc.get_objects() if isinstance(each, Delivery)]
        kept = [body for body in kept if body.startswith(b"order ")]  # others are of other tests in this process

    assert (10, 0) == (len(mq.told(HandlerStuck)), mq.depth("IN"))
    assert kept in ([], [b"order 9"])  # the context of the worker's task can keep its last delivery


def back_out_as_another_program(mq: QueueManagerKit) -> None:
    """Put the second message, and back it out until it is poison. The listener cannot run before this function returns."""
    connection = mq.queue_manager.connect()
    handle = connection.open("IN", OpenOption.INPUT_SHARED)
    connection.put1("IN", MessageDescriptor(message_id=MESSAGE_ID), b"second", PutOption.NO_SYNCPOINT)
    for _ in range(THRESHOLD):
        assert connection.get(handle, GetOptions(options=GetOption.SYNCPOINT)) is not None
        connection.backout()
    connection.disconnect()
