"""After an outage the objects of an application are reopened in order. A refused reopen is reported and delays no other object.

Source: IBM, "Automatic JMS client reconnection with CCDTs" ("reopens all of the objects that the application had open"),
q017800.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from mqflow import App, Context, MQIError
from mqflow.events import (
    ConnectionTried,
    DelayProcessorStarted,
    Event,
    InDoubt,
    ListenerPaused,
    ReadinessChanged,
    Reconnected,
    Reconnecting,
    ReopenRefused,
    Settled,
)
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection import supervisor
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.connection.open_objects import OpenObjects, TakenOver
from mqflow.runtime.connection.session import Session
from mqflow.runtime.listener.backout_settings import SettingsCache
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import ObjectHandle
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")
SOON_S = 60.0
queues = defining("OUT", "AUDIT", "BOQ", "OTHER.BOQ", "SECOND", bothresh=5, boqname="BOQ")


def booking(concurrency: int = 1) -> App:
    app = App()

    @app.listener("IN", concurrency=concurrency)
    async def book(body: str, ctx: Context) -> None:
        if body == "bad":
            raise ValueError(body)
        await ctx.put("OUT", body)
        await ctx.put("AUDIT", body)

    @app.listener("SECOND")
    async def second(body: str, ctx: Context) -> None:
        await ctx.put("OUT", body)

    return app


async def out_and_back(mq: QueueManagerKit) -> None:
    """Break all connections, end the outage, and wait for the reconnection."""
    with mq.faults.outage():
        await anyio.sleep(5)
    await anyio.sleep(SOON_S)


def opens_since(mq: QueueManagerKit, call: int) -> list[str]:
    return [each.object_name for each in mq.faults.calls[call:] if each.verb == "MQOPEN"]


# -- scenarios, which must fail with each planted defect


async def everything_is_open_again_before_anything_is_asked_for(mq: QueueManagerKit) -> None:
    async with mq.run(booking()):
        await mq.put("IN", "1")
        await mq.drain("AUDIT")
        before = len(mq.faults.calls)
        await out_and_back(mq)

        assert {"IN", "OUT", "AUDIT", "SECOND"} == set(opens_since(mq, before))
        [back] = mq.told(Reconnected)
        assert ("IN", "SECOND", "OUT", "AUDIT") == back.objects


async def one_walks_the_ladder_for_all(mq: QueueManagerKit) -> None:
    async with mq.run(booking(concurrency=6)):
        await anyio.sleep(1)
        before = len(mq.faults.calls)
        with mq.faults.outage():
            await anyio.sleep(100)
        tried = sum(each.verb == "MQCONNX" for each in mq.faults.calls[before:])
        await anyio.sleep(SOON_S)

    assert tried == sum(event.attempt > 0 for event in mq.told(Reconnecting))
    assert 1 == len(mq.told(Reconnected))


async def attributes_are_asked_for_again(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)")
    async with mq.run(booking()):
        await mq.put("IN", "bad")
        await mq.drain("BOQ")
        with mq.faults.outage():
            mq.mqsc("ALTER QLOCAL(IN) BOQNAME(OTHER.BOQ)")
        await mq.put("IN", "bad")
        await anyio.sleep(SOON_S)

    assert 1 == mq.depth("OTHER.BOQ")


async def a_commit_is_tried_once(mq: QueueManagerKit) -> None:
    async with mq.run(booking()):
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.CALL_INTERRUPTED, moment=Moment.BEFORE))
        put = await mq.put("IN", "1")
        await mq.drain("OUT", within_s=SOON_S)

    [doubt] = mq.told(InDoubt)
    assert (put.descriptor.message_id,) == doubt.message_ids
    assert 2 == len(doubt.put_message_ids)
    # The commit without an answer, and the commit of the second delivery on another connection.
    commits = [each for each in mq.faults.calls if each.verb == "MQCMIT"]
    assert 2 == len(commits) == len({each.connection for each in commits})


def objects_are_not_replayed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OpenObjects, "take_over", lambda _, __: TakenOver())


def two_reconnect_at_once(patch: pytest.MonkeyPatch) -> None:
    class Gate:
        async def __aenter__(self) -> None: ...
        async def __aexit__(self, *_: object) -> None: ...

    real = supervisor.Supervisor.__init__

    def init(self: supervisor.Supervisor, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        self._gate = Gate()  # type: ignore[assignment]  # the defect: no wait

    patch.setattr(supervisor.Supervisor, "__init__", init)


def the_cache_is_kept(patch: pytest.MonkeyPatch) -> None:
    real = SettingsCache.get

    async def get(self: SettingsCache, session: Session, handle: ObjectHandle, _: int) -> Any:
        return await real(self, session, handle, 0)

    patch.setattr(SettingsCache, "get", get)


def a_commit_is_repeated(patch: pytest.MonkeyPatch) -> None:
    real = InlineSession.settle

    async def settle(self: InlineSession, settlement: Settlement) -> None:
        try:
            await real(self, settlement)
        except MQIError:
            await real(self, settlement)

    patch.setattr(InlineSession, "settle", settle)


Scenario = Callable[[QueueManagerKit], Awaitable[None]]
SCENARIOS: tuple[tuple[Scenario, Callable[[pytest.MonkeyPatch], None]], ...] = (
    (everything_is_open_again_before_anything_is_asked_for, objects_are_not_replayed),
    (one_walks_the_ladder_for_all, two_reconnect_at_once),
    (attributes_are_asked_for_again, the_cache_is_kept),
    (a_commit_is_tried_once, a_commit_is_repeated),
)


@pytest.mark.parametrize("scenario", [each for each, _ in SCENARIOS], ids=[each.__name__ for each, _ in SCENARIOS])
async def test_after_an_outage(mq: QueueManagerKit, scenario: Scenario) -> None:
    await scenario(mq)


@pytest.mark.parametrize(("scenario", "defect"), SCENARIOS, ids=[defect.__name__ for _, defect in SCENARIOS])
async def test_a_planted_defect_is_found(
    mq: QueueManagerKit, scenario: Scenario, defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)

    found = False
    try:
        await scenario(mq)
    except* (AssertionError, ValueError):  # alone, or in the group of the tasks: the supervisor itself refuses two callers
        found = True

    assert found


# -- refused reopens


async def test_a_queue_that_is_gone_after_an_outage_is_named_and_holds_up_its_own_listener_only(mq: QueueManagerKit) -> None:
    async with mq.run(booking()) as running:
        with mq.faults.outage():
            await anyio.sleep(5)
            mq.mqsc("DELETE QLOCAL(IN)")
        await mq.put("SECOND", "still there")
        await mq.drain("OUT", within_s=SOON_S)
        was_ready = running.ready
        mq.define("IN")
        await mq.put("IN", "2")
        await mq.drain("AUDIT", within_s=2 * SOON_S)
        await running.wait_ready()

    [refused] = mq.told(ReopenRefused)
    assert ("IN", "listener book (0)", Reason.RECONNECT_FAILED) == (refused.object, refused.owner, refused.reason)
    assert "2085" in refused.detail
    assert "IN" in mq.told(ListenerPaused)[0].why
    assert not was_ready
    [back] = mq.told(Reconnected)
    assert "IN" not in back.objects


async def test_an_output_queue_that_is_gone_is_named_and_tried_again_when_it_is_put_to(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(9)")
    async with mq.run(booking()):
        await mq.put("IN", "1")
        await mq.drain("AUDIT")
        with mq.faults.outage():
            await anyio.sleep(5)
            mq.mqsc("DELETE QLOCAL(AUDIT)")
        await anyio.sleep(SOON_S)
        [refused] = mq.told(ReopenRefused)
        mq.define("AUDIT")
        await mq.put("IN", "2")
        [audited] = await mq.drain("AUDIT", within_s=SOON_S)

    assert "AUDIT" == refused.object
    assert "2" == audited.text()


# -- readiness


async def test_an_application_is_ready_while_every_listener_has_its_queue_open(mq: QueueManagerKit) -> None:
    async with mq.run(booking(concurrency=2)) as running:
        await running.wait_ready()
        with mq.faults.outage():
            await anyio.sleep(5)
            during = running.ready
        await anyio.sleep(SOON_S)
        after = running.ready

    assert (False, True, False) == (during, after, running.ready)
    assert [True, False, True, False] == [event.ready for event in mq.told(ReadinessChanged)]


async def test_an_application_is_not_ready_before_its_delay_processor_has_the_staging_queue_again(mq: QueueManagerKit) -> None:
    async with mq.run(app := booking()) as running:
        await app.put("OUT", "later", delay=1)
        await mq.drain("OUT")
        await running.wait_ready()
        await out_and_back(mq)
        assert running.ready

    def last(kind: type[Event]) -> int:
        return max(place for place, event in enumerate(mq.events) if isinstance(event, kind))

    ready_at = max(place for place, event in enumerate(mq.events) if isinstance(event, ReadinessChanged) and event.ready)
    assert last(Reconnected) < ready_at == last(DelayProcessorStarted) - 1


# -- objects opened after the outage


async def test_a_handler_that_notices_late_gets_a_connection_at_once_and_makes_no_second_outage(mq: QueueManagerKit) -> None:
    connected_at, noticed_at = list[float](), list[float]()
    app = App(hooks=[lambda event: connected_at.append(anyio.current_time()) if isinstance(event, Reconnected) else None])

    @app.listener("IN", concurrency=2)
    async def slow(body: str, ctx: Context) -> None:
        if ctx.message.backout_count == 0:
            await anyio.sleep(30)
            noticed_at.append(anyio.current_time())
        await ctx.put("OUT", body)

    async with mq.run(app):
        await mq.put("IN", "1")
        await anyio.sleep(1)
        broken_at = anyio.current_time()
        mq.faults.break_connections()
        [out] = await mq.drain("OUT", within_s=SOON_S)
        await anyio.sleep(SOON_S)

    assert "1" == out.text()
    [connected], [noticed] = connected_at, noticed_at
    assert broken_at < connected < noticed, "the other worker did not connect again before the slow handler returned"
    assert 1 == len(mq.told(Reconnected))
    assert 1 == sum(event.attempt == 0 for event in mq.told(Reconnecting))


# -- handles of users


async def test_a_consumer_goes_on_after_an_outage(mq: QueueManagerKit) -> None:
    message = None
    async with mq.run(app := App()), app.consumer("IN") as consumer, anyio.create_task_group() as group:

        async def outage() -> None:
            await anyio.sleep(1)
            await out_and_back(mq)
            await mq.put("IN", "after")

        group.start_soon(outage)
        message = await consumer.receive(wait_ms=-1)
        await consumer.commit()

    assert message is not None
    assert "after" == message.text()
    assert 0 == mq.depth("IN")


async def test_a_consumer_raises_once_if_its_unit_of_work_was_lost_with_the_connection(mq: QueueManagerKit) -> None:
    await mq.put("IN", "1")
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        await consumer.receive()
        mq.faults.break_connections()
        with pytest.raises(MQIError) as caught:
            await consumer.receive()
        again = await consumer.receive(wait_ms=1_000)
        assert again is not None
        await consumer.commit()

    assert Reason.BACKED_OUT == caught.value.reason
    assert [] == mq.told(InDoubt)


async def test_a_consumers_commit_without_an_answer_is_in_doubt_with_its_messages(mq: QueueManagerKit) -> None:
    put = await mq.put("IN", "1")
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        await consumer.receive()
        sent = await consumer.put("OUT", "2")
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.CONNECTION_BROKEN, moment=Moment.AFTER))
        with pytest.raises(MQIError, match="2009"):
            await consumer.commit()
        nothing = await consumer.receive_no_wait()

    [doubt] = mq.told(InDoubt)
    assert ((put.descriptor.message_id,), (sent.descriptor.message_id,)) == (doubt.message_ids, doubt.put_message_ids)
    assert nothing is None
    assert 1 == mq.depth("OUT")


async def test_a_put_outside_of_deliveries_without_an_answer_is_in_doubt_with_its_message(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.CONNECTION_BROKEN, moment=Moment.AFTER))
        with pytest.raises(MQIError, match="2009"):
            await app.put("OUT", "1")

    [found] = mq.browse("OUT")
    [doubt] = mq.told(InDoubt)
    assert (found.message_id,) == doubt.put_message_ids


async def test_a_reply_is_still_waited_for_after_an_outage_on_a_queue_of_the_same_name(mq: QueueManagerKit) -> None:
    app, asked = App(), []

    @app.listener("IN", concurrency=2)
    async def answer(body: str, ctx: Context) -> None:
        reply_to = ctx.message.descriptor.reply_to_queue
        asked.append(reply_to)
        if len(asked) == 1:
            mq.faults.break_connections()
        await anyio.sleep(20)
        await app.put(reply_to, body.upper(), correlation_id=ctx.message.message_id)

    async with mq.run(app):
        replied = await app.request("IN", "hello", reply=str, timeout_s=120)

    assert "HELLO" == replied
    assert asked[0].startswith("AMQ.")


# -- each attempt


async def test_each_attempt_is_reported_with_its_number_its_wait_and_its_reason(mq: QueueManagerKit) -> None:
    async with mq.run(booking()):
        await anyio.sleep(1)
        with mq.faults.outage(Reason.HOST_NOT_AVAILABLE):
            await anyio.sleep(10)
        await anyio.sleep(SOON_S)

    tried = mq.told(ConnectionTried)
    attempts = [event for event in tried if event.attempt]
    assert {0} == {event.reason for event in tried if not event.attempt}
    assert [1, 2, 3, 4] == [event.attempt for event in attempts]
    assert [2538, 2538, 2538, 0] == [event.reason for event in attempts]
    for (fixed_s, random_s), event in zip([(1, 0.25), (2, 0.5), (4, 1), (8, 2)], attempts, strict=True):
        assert fixed_s <= event.delay_s <= fixed_s + random_s
    failed = [event for event in mq.told(Reconnecting) if event.attempt]
    assert [event.delay_s for event in attempts[:-1]] == [event.delay_s for event in failed]
    assert [0.0, *sorted(event.lost_for_s for event in failed)] == [event.lost_for_s for event in mq.told(Reconnecting)]
    assert failed[-1].lost_for_s >= 7


async def test_the_event_names_objects_that_cannot_be_opened_again(mq: QueueManagerKit) -> None:
    app = booking()

    @app.listener(topic="Prices/#")
    async def book(body: str) -> None: ...

    async with mq.run(app):
        await out_and_back(mq)

    [back] = mq.told(Reconnected)
    assert ("Prices/#: publications since the connection was lost",) == back.gone


# -- invalid handles


@pytest.mark.parametrize("reason", [Reason.OBJECT_CHANGED, Reason.Q_DELETED], ids=["2041", "2052"])
async def test_an_output_queue_that_was_changed_under_its_handle_is_opened_again(mq: QueueManagerKit, reason: Reason) -> None:
    async with mq.run(booking()):
        await mq.put("IN", "1")
        await mq.drain("AUDIT")
        mq.faults.add(Fault(verb="MQPUT", object_name="OUT", reason=reason))
        before = len(mq.faults.calls)
        await mq.put("IN", "2")
        [audited] = await mq.drain("AUDIT")
        opened = opens_since(mq, before)
        await mq.put("IN", "3")
        await mq.drain("AUDIT")
        await out_and_back(mq)

    assert "2" == audited.text()
    assert ["OUT"] == opened
    assert [] == [event for event in mq.told(Settled) if event.settlement is Settlement.BACKOUT]
    assert 3 == mq.depth("OUT")
    [back] = mq.told(Reconnected)
    assert ("IN", "SECOND", "AUDIT", "OUT") == back.objects  # OUT was opened last


async def test_an_output_queue_that_is_gone_permanently_is_named_at_the_put(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        await app.put("OUT", "1")
        mq.faults.add(Fault(verb="MQPUT", object_name="OUT", reason=Reason.Q_DELETED))
        mq.faults.add(Fault(verb="MQOPEN", object_name="OUT", reason=Reason.UNKNOWN_OBJECT_NAME))
        with pytest.raises(MQIError, match=r"MQOPEN on OUT .* \(2085\)"):
            await app.put("OUT", "2")
        await app.put("OUT", "3")

    assert ["1", "3"] == [found.text() for found in mq.browse("OUT")]
