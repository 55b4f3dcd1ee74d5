"""Both forms of session behave alike: inline on the embedded queue manager, and with a thread on any other queue manager."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.to_thread
import pytest
from anyio import wait_all_tasks_blocked

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.many_verbs import without_wait
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.connection.session import Session, open_session
from mqflow.runtime.connection.threaded_session import ThreadedSession
from mqflow.testing.faults import Fault, Faults
from mqflow.verbs import Connection, Exchange, GetOptions, Got, ObjectHandle
from mqflow.world import THREADS
from tests.doubles import Blocking
from tests.queue_contents import put

pytestmark = pytest.mark.anyio

Opened = Callable[[], AbstractAsyncContextManager[tuple[Session, ObjectHandle]]]

SYNCPOINT = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=100)
FOR_EVER = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=-1)


class TwoGets:
    """A connection without verbs for many messages. From the third get on, gets are refused: the queue is get inhibited."""

    def __init__(self, behind: Connection) -> None:
        self._behind, self._gets = behind, 0

    def __getattr__(self, name: str) -> Any:
        if name in {"get_many", "on_arrival", "begin_commit"}:
            raise AttributeError(name)
        return getattr(self._behind, name)

    def get(self, handle: ObjectHandle, options: GetOptions) -> Got | None:
        self._gets += 1
        if self._gets > 2:
            raise error_for(Reason.GET_INHIBITED, "MQGET", "Q")
        return self._behind.get(handle, options)


class Refusing(Blocking):
    """A queue manager whose connections are `TwoGets`."""

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        return cast("Connection", TwoGets(super().connect(application_name=application_name, user=user)))


@pytest.fixture
def behind() -> EmbeddedQueueManager:
    queue_manager = EmbeddedQueueManager("QM1")
    queue_manager.administration.define(QueueAttributes(name="Q"))
    return queue_manager


@pytest.fixture(params=["inline", "threaded"])
def opened(request: pytest.FixtureRequest, behind: EmbeddedQueueManager) -> Opened:
    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Session, ObjectHandle]]:
        queue_manager = behind if request.param == "inline" else Blocking(behind)
        session = await open_session(queue_manager, THREADS)
        assert isinstance(session, InlineSession if request.param == "inline" else ThreadedSession)
        try:
            yield session, await session.call(session.connection.open, "Q", OpenOption.INPUT_SHARED)
        finally:
            await session.close()

    return opened


async def consuming(made: Awaitable[Session]) -> tuple[Session, ObjectHandle]:
    session = await made
    return session, await session.call(session.connection.open, "Q", OpenOption.INPUT_SHARED)


def depth(behind: EmbeddedQueueManager) -> int:
    return behind.administration.queue_status("Q").depth


async def test_a_unit_takes_the_available_messages_up_to_its_limit(behind: EmbeddedQueueManager, opened: Opened) -> None:
    put(behind, "Q", b"1", b"2", b"3")

    async with opened() as (session, handle):
        first = await session.exchange(None, handle, SYNCPOINT, most=2)
        second = await session.exchange(Settlement.COMMIT, handle, SYNCPOINT, most=2)

        assert [[b"1", b"2"], [b"3"]] == [[got.body for got in exchange.unit] for exchange in (first, second)]
        assert 1 == depth(behind)


async def test_a_message_that_was_delivered_before_is_a_unit_of_its_own(behind: EmbeddedQueueManager, opened: Opened) -> None:
    put(behind, "Q", b"1", b"2", b"3")

    async with opened() as (session, handle):
        await session.exchange(None, handle, SYNCPOINT, most=2)
        replay = await session.exchange(Settlement.BACKOUT, handle, SYNCPOINT, most=3)
        last = await session.exchange(Settlement.COMMIT, handle, SYNCPOINT, most=3)

    assert [[(b"1", 1)], [(b"2", 1)]] == [
        [(got.body, got.descriptor.backout_count) for got in exchange.unit] for exchange in (replay, last)
    ]


async def test_after_a_settlement_nothing_is_waited_for(behind: EmbeddedQueueManager, opened: Opened) -> None:
    """The caller must be able to report the settlement now, and not only at the next message."""
    put(behind, "Q", b"1")

    async with opened() as (session, handle):
        await session.exchange(None, handle, FOR_EVER, most=1)
        with anyio.fail_after(10):
            exchange = await session.exchange(Settlement.COMMIT, handle, FOR_EVER, most=1)

        assert ([], 0) == (list(exchange.unit), depth(behind))


async def test_nothing_there_is_an_empty_unit_after_the_wait(opened: Opened) -> None:
    async with opened() as (session, handle):
        assert [] == list((await session.exchange(None, handle, SYNCPOINT, most=1)).unit)


async def test_a_get_without_a_wait_does_not_wait_although_other_code_has_equal_options(opened: Opened) -> None:
    without_wait(GetOptions(options=GetOption.SYNCPOINT, wait_ms=-1))  # the cache knows an equal record from now on
    async with opened() as (session, handle):
        with anyio.fail_after(10):
            assert not (await session.exchange(None, handle, GetOptions(options=GetOption.SYNCPOINT, wait_ms=-1), most=4)).unit


async def test_a_message_that_arrives_during_the_wait_ends_it(behind: EmbeddedQueueManager, opened: Opened) -> None:
    async with opened() as (session, handle), anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, put, behind, "Q", b"late")
        exchange = await session.exchange(None, handle, FOR_EVER, most=1)
        assert [b"late"] == [got.body for got in exchange.unit]


async def test_an_interrupt_ends_a_wait_that_has_no_end(opened: Opened) -> None:
    async with opened() as (session, handle):
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, session.interrupt)
                exchange = await session.exchange(None, handle, FOR_EVER, most=1)
                assert [] == list(exchange.unit)


async def test_a_cancelled_wait_loses_no_message(behind: EmbeddedQueueManager, opened: Opened) -> None:
    async with opened() as (session, handle):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await session.exchange(None, handle, SYNCPOINT, most=1)
    put(behind, "Q", b"still here")

    assert 1 == depth(behind)


async def test_a_unit_lingers_for_more_no_longer_than_it_may(behind: EmbeddedQueueManager, opened: Opened) -> None:
    put(behind, "Q", b"1")

    async with opened() as (session, handle), anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, put, behind, "Q", b"2", b"3")
        exchange = await session.exchange(None, handle, SYNCPOINT, most=3, linger_ms=20_000)
        assert [b"1", b"2", b"3"] == [got.body for got in exchange.unit]


@pytest.mark.parametrize("linger_ms", [0, 10_000])
async def test_a_get_that_is_refused_after_others_ends_the_unit_and_costs_them_nothing(linger_ms: int) -> None:
    behind = EmbeddedQueueManager("QM1")
    behind.administration.define(QueueAttributes(name="Q"))
    put(behind, "Q", b"1", b"2")
    session, handle = await consuming(open_session(Refusing(behind), THREADS))

    unit = await session.exchange(None, handle, SYNCPOINT, most=3, linger_ms=linger_ms)
    refused = await session.exchange(Settlement.COMMIT, handle, SYNCPOINT, most=3)
    await session.close()

    assert ([b"1", b"2"], None) == ([got.body for got in unit.unit], unit.get_error)
    assert (None, 2016) == (refused.settle_error, refused.get_error and refused.get_error.reason)


async def test_a_thread_knows_the_message_that_arrived_directly_before_the_loss_of_the_connection(
    behind: EmbeddedQueueManager,
) -> None:
    put(behind, "Q", b"1")
    session, handle = await consuming(open_session(Faults(Fault(verb="MQGET", nth=4)).wrap(Blocking(behind)), THREADS))

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, put, behind, "Q", b"2")
        lost = await session.exchange(None, handle, SYNCPOINT, most=3, linger_ms=20_000)
        assert 2009 == (lost.get_error and lost.get_error.reason)
    await session.close()

    assert [b"1", b"2"] == [got.body for got in session.lingering]


class BrokenAnswer(Blocking):
    """The connection is lost after the first part of an answer has arrived."""

    def connect(self, *, application_name: str = "", user: str = "") -> Any:
        connection: Any = super().connect(application_name=application_name, user=user)
        broken = error_for(Reason.CONNECTION_BROKEN, "MQGET")

        def exchange(handle: ObjectHandle, options: GetOptions, *, commit: bool | None, most: int) -> Exchange:
            assert commit is None
            return Exchange(get_error=broken, lost=connection.get_many(handle, options, most - 1))

        # From Python 3.12 on, `isinstance` with a protocol ignores `__getattr__`.
        names = {name for name in dir(connection) if not name.startswith("_")} - {"on_arrival", "begin_commit"}
        return SimpleNamespace(**{name: getattr(connection, name) for name in names}, exchange=exchange)


def losing(nth: int, kind: Callable[[EmbeddedQueueManager], Any] = Blocking) -> Callable[[EmbeddedQueueManager], Any]:
    """Return what makes a queue manager whose connection is lost at this MQGET."""
    return lambda behind: Faults(Fault(verb="MQGET", nth=nth)).wrap(kind(behind))


def inline(behind: EmbeddedQueueManager) -> EmbeddedQueueManager:
    return behind


@pytest.mark.parametrize(
    ("made", "count", "linger_ms"),
    [
        pytest.param(losing(4), 2, 10_000, id="on a thread, while they wait for more"),
        pytest.param(losing(3), 3, 0, id="on a thread, at a later get"),
        pytest.param(losing(3, inline), 3, 0, id="inline, at a later get"),
        pytest.param(BrokenAnswer, 3, 0, id="before the rest of their answer"),
        pytest.param(BrokenAnswer, 3, 20_000, id="before the rest of their answer, while they wait for more"),
    ],
)
async def test_a_session_knows_the_messages_of_its_unit_when_the_connection_is_lost(
    behind: EmbeddedQueueManager, made: Callable[[EmbeddedQueueManager], Any], count: int, linger_ms: int
) -> None:
    put(behind, "Q", *(b"1", b"2", b"3")[:count])
    session, handle = await consuming(open_session(made(behind), THREADS))

    lost = await session.exchange(None, handle, SYNCPOINT, most=3, linger_ms=linger_ms)
    await session.close()

    assert ([], 2009) == (list(lost.unit), lost.get_error and lost.get_error.reason)
    assert [b"1", b"2"] == [got.body for got in session.lingering]


async def test_messages_that_waited_for_more_and_were_returned_are_not_noted(
    behind: EmbeddedQueueManager, opened: Opened
) -> None:
    put(behind, "Q", b"1", b"2")

    async with opened() as (session, handle):
        exchange = await session.exchange(None, handle, SYNCPOINT, most=3, linger_ms=20)

        assert ([b"1", b"2"], ()) == ([got.body for got in exchange.unit], session.lingering)


class Stuck:
    """A connection whose commit waits until the test lets it end."""

    def __init__(self, behind: Connection) -> None:
        self._behind = behind
        self.may_end, self.committed, self.left = threading.Event(), threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def commit(self) -> None:
        self.may_end.wait(10)
        self._behind.commit()
        self.committed.set()

    def disconnect(self) -> None:
        self._behind.disconnect()
        self.left.set()


class Slow:
    """A connection whose gets take longer than the time limit of a settlement."""

    def __init__(self, behind: Connection) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def get(self, *arguments: Any) -> Got | None:
        threading.Event().wait(0.1)
        return self._behind.get(*arguments)


async def test_closing_does_not_wait_for_a_settlement_without_an_answer(
    behind: EmbeddedQueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.runtime.connection.session_limits.SETTLE_DEADLINE_S", 0.01)
    stuck = Stuck(behind.connect())
    session = await ThreadedSession.connected(lambda: cast("Connection", stuck), THREADS)

    with pytest.raises(MQIError, match="2549") as unknown:
        await session.settle(Settlement.COMMIT)
    await session.close()
    committed = stuck.committed.is_set()
    stuck.may_end.set()
    left = await anyio.to_thread.run_sync(stuck.left.wait, 30)

    assert "MQCMIT" == unknown.value.verb
    assert not committed
    assert left  # the session has backed out and disconnected after the commit had ended


async def test_a_commit_without_an_answer_is_in_doubt_also_if_it_is_fused_with_a_get(
    behind: EmbeddedQueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener settles each unit together with the next get. Without a limit, a cut network blocks it until TCP's timeout."""
    monkeypatch.setattr("mqflow.runtime.connection.session_limits.SETTLE_DEADLINE_S", 0.01)
    stuck = Stuck(behind.connect())
    session, handle = await consuming(ThreadedSession.connected(lambda: cast("Connection", stuck), THREADS))

    exchange = await session.exchange(Settlement.COMMIT, handle, SYNCPOINT, most=1)
    await session.close()
    stuck.may_end.set()
    await anyio.to_thread.run_sync(stuck.left.wait, 30)

    assert exchange.settle_error is not None
    assert ("MQCMIT", Reason.CALL_INTERRUPTED) == (exchange.settle_error.verb, exchange.settle_error.reason)


async def test_a_get_that_takes_long_after_a_commit_leaves_no_doubt_about_the_commit(
    behind: EmbeddedQueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, the get of a message of 100 MiB over a slow line takes long."""
    monkeypatch.setattr("mqflow.runtime.connection.session_limits.SETTLE_DEADLINE_S", 0.01)
    put(behind, "Q", b"1")
    slow = Slow(behind.connect())
    session, handle = await consuming(ThreadedSession.connected(lambda: cast("Connection", slow), THREADS))

    exchange = await session.exchange(Settlement.COMMIT, handle, SYNCPOINT, most=1)
    await session.close()

    assert (None, [b"1"]) == (exchange.settle_error, [got.body for got in exchange.unit])


async def test_closing_backs_out_the_open_unit_of_work(behind: EmbeddedQueueManager, opened: Opened) -> None:
    put(behind, "Q", b"1")
    async with opened() as (session, handle):
        await session.exchange(None, handle, SYNCPOINT, most=1)
    async with opened() as (session, handle):
        [got] = (await session.exchange(None, handle, SYNCPOINT, most=1)).unit

    assert 1 == got.descriptor.backout_count


async def test_a_handle_for_output_is_opened_once(behind: EmbeddedQueueManager, opened: Opened) -> None:
    async with opened() as (session, _):
        assert await session.output("Q") is await session.output("Q")


async def test_the_result_distinguishes_the_error_of_a_get_from_that_of_a_settlement(
    behind: EmbeddedQueueManager, opened: Opened
) -> None:
    put(behind, "Q", b"1")
    async with opened() as (session, handle):
        behind.administration.alter("Q", {"get_inhibited": True})
        inhibited = await session.exchange(None, handle, SYNCPOINT, most=1)
        behind.stop()
        stopped = await session.exchange(Settlement.COMMIT, handle, SYNCPOINT, most=1)

    assert (None, 2016) == (inhibited.settle_error, inhibited.get_error and inhibited.get_error.reason)
    assert isinstance(stopped.settle_error, MQIError)
    assert stopped.get_error is None


async def test_a_failed_connect_raises_the_error_of_the_queue_manager(behind: EmbeddedQueueManager) -> None:
    behind.stop()

    for queue_manager in (behind, Blocking(behind)):
        with pytest.raises(MQIError, match="2059"):
            await open_session(queue_manager, THREADS)


async def test_a_cancelled_caller_does_not_wait_for_a_slow_connect_and_the_connection_is_closed(
    behind: EmbeddedQueueManager,
) -> None:
    """A host that drops packets blocks MQCONNX for minutes. An application that must end does not wait for that call."""
    may_connect, has_connected = threading.Event(), threading.Event()
    made: list[Stuck] = []

    def connect() -> Connection:
        may_connect.wait(10)
        made.append(Stuck(behind.connect()))
        has_connected.set()
        return cast("Connection", made[0])

    with anyio.move_on_after(0.01) as cancelled:
        await ThreadedSession.connected(connect, THREADS)
    before = list(made)
    may_connect.set()
    await anyio.to_thread.run_sync(has_connected.wait, 30)
    left = await anyio.to_thread.run_sync(made[0].left.wait, 30)

    assert cancelled.cancelled_caught
    assert [] == before
    assert left


async def test_a_message_wakes_one_of_two_that_wait(behind: EmbeddedQueueManager, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first waiter gets the message before it withdraws its wait. Otherwise the second waiter is woken without need."""
    gets: list[Session] = []
    units: list[int] = []

    async def consume() -> None:
        session, handle = await consuming(open_session(behind, THREADS))
        get = session.connection.get

        def counted(*args: Any) -> Got | None:
            gets.append(session)
            return get(*args)

        monkeypatch.setattr(session.connection, "get", counted)
        units.append(len((await session.exchange(None, handle, FOR_EVER, most=1)).unit))

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        group.start_soon(consume)
        await wait_all_tasks_blocked()
        gets.clear()
        put(behind, "Q", b"for one")
        await wait_all_tasks_blocked()

        assert (len(gets), units) == (1, [1])
        group.cancel_scope.cancel()


@pytest.mark.parametrize("linger_ms", [0, 1])
async def test_a_cancelled_caller_learns_that_its_unit_was_settled(
    behind: EmbeddedQueueManager, opened: Opened, linger_ms: int
) -> None:
    """This holds after any number of calls. Otherwise a commit that no caller knows of is in no event and in no ledger."""
    async with opened() as (session, handle):
        put(behind, "Q", b"an order")
        heard = 0
        with anyio.CancelScope() as scope:
            scope.cancel()
            for _ in range(200):
                exchange = await session.exchange(Settlement.COMMIT, handle, SYNCPOINT, most=2, linger_ms=linger_ms)
                assert exchange.settle_error is None
                heard += 1

    assert heard == 200


async def test_a_closed_session_says_so(opened: Opened) -> None:
    async with opened() as (session, handle):
        await session.close()

        with pytest.raises(MQIError) as called:
            await session.call(session.connection.inquire, handle, ())
        with pytest.raises(MQIError) as settled:
            await session.settle(Settlement.COMMIT)

    assert called.value.reason == settled.value.reason == Reason.HCONN_ERROR
