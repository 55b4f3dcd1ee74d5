"""A worker over a served queue manager gets units of work ahead, and settles several in one request.

Each unit still has an answer of its own. The store of these tests answers when the test says so.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import anyio
import pytest

from mqflow import Backout, Context, Pace
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.store import Change
from mqflow.embedded.wire.client.connection import ServedConnection
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.events import Settled
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Completed, Settlement
from mqflow.runtime.connection import threaded_session
from mqflow.runtime.connection.session_limits import units_ahead
from mqflow.runtime.connection.threaded_session import ThreadedSession
from mqflow.runtime.listener import settler
from mqflow.testing.kit import carry_out
from mqflow.verbs import GetOptions, Got, ObjectHandle, SettledMany
from mqflow.world import THREADS
from tests.embedded.disk_faults.disk import memory_folder
from tests.embedded.storage.scripted_store import FULL, UNKNOWN, ScriptedStore
from tests.queue_contents import put
from tests.runtime.connection.breaking import SOON
from tests.runtime.listener.staged import LATEST_S, StagedApplication

pytestmark = pytest.mark.anyio

Done = Callable[[Exception | None], None]
UNANSWERED_MAX = ThreadedSession.unanswered_max
AT_ONCE = GetOptions(options=GetOption.SYNCPOINT)


class Store(ScriptedStore):
    """A scripted store for the threads of a server."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def write(self, changes: Sequence[Change], done: Done | None) -> None:
        with self._lock:
            super().write(changes, done)

    def answer_all(self, failure: Exception | None = None) -> None:
        """Answer every call that waits, and every later call with success."""
        with self._lock:
            self.holds, waiting, self.unanswered = False, self.unanswered, []
        for done in waiting:
            done(failure)


class Stage(StagedApplication):
    """An application over a served queue manager whose store holds its answers back."""

    def __init__(self, manager: ServedQueueManager, owner: EmbeddedQueueManager, store: Store) -> None:
        super().__init__()
        self.manager, self.owner, self.store = manager, owner, store
        carry_out(owner.administration, ["DEFINE QLOCAL(OUT)", "DEFINE QLOCAL(IN) BOTHRESH(3) BOQNAME(OUT)"])

    def put(self, count: int) -> None:
        persistent = MessageDescriptor(persistence=Persistence.PERSISTENT)
        put(self.owner, "IN", *(b"%d" % number for number in range(count)), descriptor=persistent)
        self.store.calls.clear()

    def listen_until_the_store_holds(self, **options: Any) -> None:
        """Declare a handler that notes each body, and lets the store hold its answers from the second message on."""

        @self.app.listener("IN", **options)
        async def handle(body: bytes) -> None:
            self.note(body)
            if len(self.seen) == 2:
                self.store.holds = True

    async def settle(self, count: int) -> None:
        """Run the application until it has settled this number of messages."""
        async with self.app.running(self.manager):
            await self.until_settled(count)

    async def until_called(self) -> None:
        """Wait until the store holds an answer back."""
        with anyio.fail_after(LATEST_S):
            while not self.store.unanswered:
                await anyio.lowlevel.checkpoint()

    def get(self, wait_ms: int = 0, queue: str = "IN") -> Got | None:
        """Get a message on a connection of the owner."""
        connection = self.owner.connect()
        handle = connection.open(queue, OpenOption.INPUT_SHARED)
        options = GetOption.NO_SYNCPOINT | (GetOption.WAIT if wait_ms else 0)
        got = connection.get(handle, GetOptions(options=options, wait_ms=wait_ms))
        connection.disconnect()
        return got

    def left(self) -> list[tuple[bytes, int]]:
        """Get every message of the queue, with its BackoutCount."""
        return [(got.body, got.descriptor.backout_count) for got in iter(self.get, None)]


@pytest.fixture(autouse=True)
def _every_handler_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each worker get messages ahead, and keep them. On a busy machine, a handler can look slow."""
    monkeypatch.setattr(settler, "units_ahead", lambda _, unit: units_ahead(0.0, unit))
    monkeypatch.setattr(threaded_session, "_SLOW_HANDLER_S", 2 * LATEST_S)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of messages that the connection holds after each request that settles units of work."""
    numbers = [1]
    settle_many = ServedConnection.settle_many

    def noting(connection: ServedConnection, *arguments: Any, commits: int, **options: Any) -> SettledMany:
        settled = settle_many(connection, *arguments, commits=commits, **options)
        numbers.append(numbers[-1] - commits + sum(map(len, settled.units)))
        return settled

    monkeypatch.setattr(ServedConnection, "settle_many", noting)
    return numbers


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of commits of each request that settles units of work."""
    counts: list[int] = []
    settle_many = ServedConnection.settle_many

    def noting(connection: ServedConnection, *arguments: Any, commits: int, **options: Any) -> Any:
        counts.append(commits)
        return settle_many(connection, *arguments, commits=commits, **options)

    monkeypatch.setattr(ServedConnection, "settle_many", noting)
    return counts


@pytest.fixture
def stage() -> Iterator[Stage]:
    store = Store()
    owner = EmbeddedQueueManager("QM1", store=store)
    with memory_folder() as folder, serve(owner, folder / "qm") as server:
        manager = ServedQueueManager(server.path)
        made = Stage(manager, owner, store)
        yield made
        made.store.answer_all()
        manager.close()
    owner.close()


async def test_the_decisions_made_during_one_request_are_settled_by_the_next(
    stage: Stage, commits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, the last requests can settle one message each, and get none. Then a commit could go with a get.
    monkeypatch.setattr(threaded_session, "_MISSES_MAX", 60)
    stage.put(60)
    stage.listen_until_the_store_holds()

    async with stage.app.running(stage.manager):
        await stage.until_seen(1 + UNANSWERED_MAX + 1)  # the last one waits until its commit can begin
        await stage.until_called()
        settled = stage.settled()
        stage.store.answer_all()
        await stage.until_settled(60)

    assert 1 == len(settled)
    assert 1 == commits[0]
    assert UNANSWERED_MAX <= commits[1] + commits[2]
    assert 60 == sum(commits)


async def test_every_message_is_handled_once_in_order_and_settled_when_its_commit_is_answered(stage: Stage) -> None:
    stage.put(50)
    stage.listen()
    await stage.settle(50)

    assert [b"%d" % number for number in range(50)] == stage.seen
    assert 50 == len(set(stage.settled())) == len(stage.settled())
    assert [["MessageRemoved"]] * 50 == stage.store.calls
    assert [] == stage.left()
    assert [] == stage.in_doubt()


async def test_a_worker_holds_a_bounded_number_of_messages(stage: Stage, held: list[int]) -> None:
    stage.put(200)
    stage.listen()
    await stage.settle(200)

    assert 1 < max(held) <= units_ahead(0.0, 1) + UNANSWERED_MAX + 1


async def test_a_unit_of_several_messages_is_one_call_of_the_store(stage: Stage) -> None:
    stage.put(12)
    stage.listen(unit_of_work=3)
    await stage.settle(12)

    assert [["MessageRemoved"] * 3] * 4 == stage.store.calls


async def test_a_failure_backs_out_its_own_message_alone_and_the_next_delivery_is_its_own_again(stage: Stage) -> None:
    stage.put(8)
    counts: list[int] = []

    @stage.app.listener("IN", backout=Backout(threshold=3, queue="OUT"))
    async def handle(body: bytes, ctx: Context) -> None:
        stage.note(body)
        counts.append(ctx.message.descriptor.backout_count)
        if body == b"4" and counts[-1] == 0:
            raise ValueError("once")

    await stage.settle(8)

    assert [b"0", b"1", b"2", b"3", b"4", b"4", b"5", b"6", b"7"] == stage.seen
    assert [0, 0, 0, 0, 0, 1, 0, 0, 0] == counts
    assert 1 == len(stage.settled(Settlement.BACKOUT))


async def test_a_put_is_committed_with_its_own_message(stage: Stage) -> None:
    stage.put(10)

    @stage.app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        stage.note(body)
        if int(body) % 3 == 0:
            await ctx.put("OUT", body)

    await stage.settle(10)

    expected = [["MessageAdded", "MessageRemoved"] if number % 3 == 0 else ["MessageRemoved"] for number in range(10)]
    assert expected == stage.store.calls
    assert [b"0", b"3", b"6", b"9"] == [got.body for got in iter(lambda: stage.get(queue="OUT"), None)]


async def test_a_listener_in_strict_order_settles_each_message_by_itself(stage: Stage, commits: list[int]) -> None:
    stage.put(5)
    stage.listen(strict_order=True)
    await stage.settle(5)

    assert [] == commits


async def test_a_commit_that_the_store_refuses_is_reported_as_a_backout_and_its_message_comes_again(stage: Stage) -> None:
    stage.put(4)
    stage.listen_until_the_store_holds(backout=Backout(threshold=2, queue="OUT"))

    async with stage.app.running(stage.manager):
        await stage.until_seen(4)
        await stage.until_called()
        stage.store.answer(FULL)
        stage.store.answer_all()
        await stage.until_settled(4)

    assert b"1" == stage.seen[-1]
    assert 1 == len(stage.settled(Settlement.BACKOUT))
    assert [] == stage.left()
    assert [] == stage.in_doubt()


async def test_after_an_unknown_outcome_no_later_message_counts_as_committed(stage: Stage) -> None:
    stage.put(6)
    stage.listen_until_the_store_holds()

    async def run() -> None:
        async with stage.app.running(stage.manager):
            await stage.until_seen(6)
            await stage.until_called()
            stage.store.answer_all(UNKNOWN)
            await stage.until(stage.in_doubt)
            raise RuntimeError("the test has seen enough")

    with suppress(Exception):  # the queue manager is gone, so the application ends with an error
        await run()

    completed = [event for event in stage.events if isinstance(event, Settled) and isinstance(event.outcome, Completed)]
    assert 1 == len(completed)
    assert 5 == len({*stage.in_doubt(), *stage.settled(Settlement.BACKOUT)})
    assert not set(stage.in_doubt()) & set(stage.settled(Settlement.BACKOUT))


async def test_after_a_lost_connection_only_the_commits_that_were_sent_are_in_doubt(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.put(6)
    sent: list[int] = []
    is_cut = threading.Event()
    settle_many = ServedConnection.settle_many

    def cut_at_the_second(connection: ServedConnection, *arguments: Any, commits: int, **options: Any) -> SettledMany:
        sent.append(commits)
        if len(sent) != 2:
            return settle_many(connection, *arguments, commits=commits, **options)
        is_cut.wait(LATEST_S)
        connection._line.break_off()
        return SettledMany([error_for(Reason.CALL_INTERRUPTED, "MQCMIT")] * commits)

    @stage.app.listener("IN")
    async def handle(body: bytes) -> None:
        stage.note(body)
        if len(stage.seen) == 3:
            while len(sent) < 2:
                await anyio.lowlevel.checkpoint()
        if len(stage.seen) == 5:
            is_cut.set()

    monkeypatch.setattr(ServedConnection, "settle_many", cut_at_the_second)
    await stage.settle(6)

    assert sent[1] == len(stage.in_doubt())
    lost = stage.settled(Settlement.BACKOUT)
    assert lost
    assert not set(lost) & set(stage.in_doubt())
    assert 6 == len(set(stage.settled()))


async def test_messages_ahead_of_a_handler_that_turns_slow_go_to_other_programs_uncounted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threaded_session, "_SLOW_HANDLER_S", 0.1)
    stage.put(6)
    goes_on = anyio.Event()

    @stage.app.listener("IN")
    async def handle(body: bytes) -> None:
        stage.note(body)
        if body == b"2":
            await goes_on.wait()

    async with stage.app.running(stage.manager):
        await stage.until_seen(3)
        other = await anyio.to_thread.run_sync(lambda: stage.get(int(LATEST_S * 1_000)))
        goes_on.set()
        await stage.until_settled(5)

    assert other is not None
    assert (b"3", 0) == (other.body, other.descriptor.backout_count)
    assert [b"0", b"1", b"2", b"4", b"5"] == stage.seen


async def test_a_stop_returns_the_messages_ahead_uncounted(stage: Stage) -> None:
    stage.put(6)
    stops, goes_on = anyio.Event(), anyio.Event()

    @stage.app.listener("IN")
    async def handle(body: bytes) -> None:
        stage.note(body)
        if body == b"2":
            stops.set()
            await goes_on.wait()

    async def run() -> None:
        async with stage.app.running(stage.manager):
            await stops.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await stage.until_seen(3)
        await anyio.lowlevel.checkpoint()
        goes_on.set()

    assert [(b"3", 0), (b"4", 0), (b"5", 0)] == stage.left()
    assert 3 == len(stage.settled())


async def test_a_listener_whose_first_backout_moves_a_message_has_no_messages_ahead(stage: Stage, commits: list[int]) -> None:
    carry_out(stage.owner.administration, ["ALTER QLOCAL(IN) BOTHRESH(1)"])
    stage.put(10)
    stage.listen()
    await stage.settle(10)

    assert [] == commits


async def test_a_message_that_was_ahead_at_the_loss_of_the_connection_did_not_fail(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out(stage.owner.administration, ["ALTER QLOCAL(IN) BOTHRESH(2)"])
    stage.put(6)
    requests: list[int] = []
    settle_many = ServedConnection.settle_many

    def cut_at_the_second(connection: ServedConnection, *arguments: Any, commits: int, **options: Any) -> SettledMany:
        requests.append(commits)
        if len(requests) == 2:
            connection._line.break_off()
        return settle_many(connection, *arguments, commits=commits, **options)

    @stage.app.listener("IN", backout=Backout(pace=Pace(first_s=0.001, jitter=0)))
    async def handle(body: bytes) -> None:
        stage.note(body)
        if body in {b"2", b"3"} and stage.seen.count(body) == 1:  # first the request is cut, and then its answer is there
            while not (len(requests) > 1 if body == b"2" else stage.in_doubt() or stage.settled(Settlement.BACKOUT)):
                await anyio.lowlevel.checkpoint()
        if body == b"5" and stage.seen.count(b"5") == 1:
            raise ValueError("its first failure")

    monkeypatch.setattr(ServedConnection, "settle_many", cut_at_the_second)
    async with stage.app.running(stage.manager):
        await stage.until(lambda: len(set(stage.settled())) == 6)

    assert 2 == stage.seen.count(b"5"), "the loss of the connection counted as a failure of its handler"
    assert None is stage.get(queue="OUT")


@pytest.mark.parametrize("verb", ["exchange", "backout"], ids=["a commit that is waited for", "a backout"])
async def test_a_message_that_was_ahead_when_a_settlement_lost_the_connection_did_not_fail(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    carry_out(stage.owner.administration, ["ALTER QLOCAL(IN) BOTHRESH(2)"])
    stage.put(6)
    stage.app.settings = SOON
    settle, cuts = getattr(ServedConnection, verb), list[bytes]()

    def cut(connection: ServedConnection, *arguments: Any, **options: Any) -> Any:
        if stage.seen[-1:] == [b"2"] and not cuts:
            cuts.append(b"2")
            connection._line.break_off()
        return settle(connection, *arguments, **options)

    @stage.app.listener("IN", backout=Backout(pace=Pace(first_s=0, jitter=0)))
    async def handle(body: bytes, ctx: Context) -> None:
        stage.note(body)
        if body == b"2" and stage.seen.count(body) == 1:
            await ctx.put("OUT", body)  # its commit must be waited for
            if verb == "backout":
                raise ValueError("its only failure")
        if body == b"5" and stage.seen.count(body) == 1:
            raise ValueError("its first failure")

    monkeypatch.setattr(ServedConnection, verb, cut)
    async with stage.app.running(stage.manager):
        await stage.until(lambda: len(set(stage.settled())) == 6)

    assert 2 == stage.seen.count(b"5"), "the loss of the connection counted as a failure of its handler"
    assert None is stage.get(queue="OUT")


async def test_messages_that_cannot_come_ahead_cost_one_request_each(
    stage: Stage, commits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, exchanges = stage.owner.connect(), list[int]()
    for number in range(64):
        expiring = MessageDescriptor(persistence=Persistence.PERSISTENT, expiry_tenths=10_000)
        connection.put1("IN", expiring, b"%d" % number, PutOption.NO_SYNCPOINT)
    exchange = ServedConnection.exchange

    def noting(connection: ServedConnection, *arguments: Any, **options: Any) -> Any:
        exchanges.append(1)
        return exchange(connection, *arguments, **options)

    monkeypatch.setattr(ServedConnection, "exchange", noting)
    stage.listen()
    await stage.settle(64)

    assert len(commits) + len(exchanges) < 64 + 10


async def _session_with_messages_ahead(stage: Stage) -> tuple[ThreadedSession, ObjectHandle]:
    """Return a session that has committed the first message, and has the other messages ahead."""
    session = await ThreadedSession.connected(stage.manager.connect, THREADS)
    handle = await session.call(session.connection.open, "IN", OpenOption.INPUT_SHARED)
    assert (await session.exchange(None, handle, AT_ONCE, most=1)).unit
    assert None is session.commit_behind(lambda _: None, 2), "no get has told the session what to get ahead"
    session.get_at_once(handle, AT_ONCE, 1)
    answers: list[object] = []
    assert False is session.commit_behind(answers.append, 2)
    with anyio.fail_after(LATEST_S):
        while not answers:
            await anyio.lowlevel.checkpoint()
    return session, handle


async def test_a_get_returns_the_messages_ahead_first(stage: Stage) -> None:
    stage.put(3)
    session, handle = await _session_with_messages_ahead(stage)

    [got] = (await session.exchange(None, handle, AT_ONCE, most=1)).unit
    await session.settle(Settlement.COMMIT)
    await session.close()

    assert b"1" == got.body
    assert [(b"2", 0)] == stage.left()


async def test_a_closed_session_returns_the_messages_ahead_uncounted(stage: Stage) -> None:
    stage.put(3)
    session, _ = await _session_with_messages_ahead(stage)

    await session.close()

    assert [(b"1", 0), (b"2", 0)] == stage.left()


@pytest.mark.parametrize(
    ("handled_s", "most", "units"),
    [(0.0, 1, 64), (0.00001, 1, 64), (0.0005, 1, 10), (0.005, 1, 1), (60.0, 1, 1), (0.0, 32, 8), (0.002, 32, 2), (0.0, 10, 8)],
)
def test_a_worker_begins_each_unit_ahead_within_five_milliseconds(handled_s: float, most: int, units: int) -> None:
    assert units == units_ahead(handled_s, most)
