"""The message that is due next, on a queue in the order of arrival and on one in the order of due times."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, PutOption
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.delay import due_messages
from mqflow.runtime.delay.due_messages import MarkedMessages, OrderedMessages, Seen, StagedMessages, open_staged
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, Stager, moment
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from mqflow.verbs import GetOptions
from mqflow.world import World

pytestmark = pytest.mark.anyio
STAGED = "STAGED"
_IN_UNIT = GetOptions(options=GetOption.SYNCPOINT)
LATEST_S = 5.0
"""A wait that does not end by itself fails after this time."""


class Bench:
    """A staging queue, and a session that looks at it."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.clock = VirtualClock()
        self.world = World(self.clock, SeededRandom(1))
        self.queue_manager = EmbeddedQueueManager("QM1", world=World(self.clock))
        for name in ("LATER", STAGED):
            self.queue_manager.administration.define(QueueAttributes(name=name))
        self.connection = self.queue_manager.connect()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        session = await Supervisor(self.queue_manager, broadcast=Broadcast(()), world=self.world).connect()
        yield session
        await session.close()

    def stage(self, *delays_s: float) -> None:
        for delay_s in delays_s:
            Stager(self.queue, self.world).put_on(self.connection, "LATER", MessageDescriptor(), b"x", round(delay_s * 1_000))
        self.connection.commit()

    async def soonest(self, staged: StagedMessages) -> Seen | None:
        return await staged.soonest(moment(self.clock))

    async def next_s(self, staged: StagedMessages) -> float | None:
        """Return the delay of the message that is due next, in seconds."""
        seen = await self.soonest(staged)
        return None if seen is None else seen.header.delay_ms / 1_000

    async def all_s(self, staged: StagedMessages) -> list[float]:
        """Return the delays of all messages, each skipped after it was found."""
        found: list[float] = []
        while (seen := await self.soonest(staged)) is not None and len(found) < 9:
            found.append(seen.header.delay_ms / 1_000)
            staged.skip(seen)
        return found


@pytest.mark.parametrize("queue", [STAGED, EMBEDDED_STAGING_QUEUE])
async def test_the_message_that_is_due_next_is_found_wherever_it_is_on_the_queue(queue: str) -> None:
    bench = Bench(queue)
    async with bench.session() as session:
        staged = await open_staged(session, queue)
        assert isinstance(staged, OrderedMessages if queue == EMBEDDED_STAGING_QUEUE else MarkedMessages)
        assert await bench.soonest(staged) is None
        bench.stage(30, 10, 20)
        bench.connection.put1(STAGED, MessageDescriptor(), b"another program's", PutOption.NO_SYNCPOINT)
        bench.connection.put1(STAGED, MessageDescriptor(format="MFLDELAY"), b"damaged", PutOption.NO_SYNCPOINT)

        first = await bench.next_s(staged)
        bench.stage(5)
        sooner = await bench.next_s(staged)

        assert (10.0, 5.0) == (first, sooner)
        bench.clock.advance(4)
        bench.stage(3)  # due after the message of five seconds
        assert [5.0, 3.0, 10.0, 20.0, 30.0] == await bench.all_s(staged)


@pytest.mark.parametrize("queue", [STAGED, EMBEDDED_STAGING_QUEUE])
async def test_a_message_that_has_left_the_queue_is_not_found_again(queue: str) -> None:
    bench = Bench(queue)
    async with bench.session() as session:
        staged = await open_staged(session, queue)
        bench.stage(10, 20)
        first = await bench.soonest(staged)
        assert first is not None
        handle = bench.connection.open(queue, OpenOption.INPUT_SHARED)
        bench.connection.get(handle, GetOptions())
        bench.connection.commit()

        staged.forget(first)
        second = await bench.soonest(staged)
        staged.forget(first)  # nothing changes: it is not the next any more

        assert second is not None
        assert 20_000 == second.header.delay_ms
        assert 20.0 == await bench.next_s(staged)


@pytest.mark.parametrize("remembered_max", [2, 3, 4, 5])
async def test_messages_beyond_the_limit_of_the_memory_are_found_in_their_order_too(remembered_max: int) -> None:
    bench = Bench(STAGED)
    async with bench.session() as session:
        handle = session.connection.open(STAGED, OpenOption.BROWSE)
        staged = MarkedMessages(session, STAGED, handle, remembered_max=remembered_max)
        bench.stage(5, 1, 4, 2, 3)

        found: list[float] = []
        own = bench.connection.open(STAGED, OpenOption.INPUT_SHARED)
        while (seen := await bench.soonest(staged)) is not None:
            found.append(seen.header.delay_ms / 1_000)
            match = GetOptions(match=MatchOption.MSG_ID, message_id=seen.message_id)
            assert bench.connection.get(own, match) is not None
            bench.connection.commit()
            staged.forget(seen)

        assert [1.0, 2.0, 3.0, 4.0, 5.0] == found


@pytest.mark.parametrize(("remembered_max", "staged_s", "left"), [(5, (1, 4, 2, 5, 3), 5), (4, (1, 4, 2, 5, 3), 2)])
async def test_a_full_memory_keeps_its_sooner_half_so_that_it_is_seldom_full(
    remembered_max: int, staged_s: Sequence[float], left: int
) -> None:
    bench = Bench(STAGED)
    async with bench.session() as session:
        handle = session.connection.open(STAGED, OpenOption.BROWSE)
        staged = MarkedMessages(session, STAGED, handle, remembered_max=remembered_max)
        bench.stage(*staged_s)

        assert 1.0 == await bench.next_s(staged)
        assert [1_000, 2_000, 3_000, 4_000, 5_000][:left] == sorted(seen.header.delay_ms for _, _, seen in staged._heap)
        assert (3_000 if left == 2 else None) == staged._beyond


async def test_of_the_skipped_messages_the_oldest_is_tried_again_beyond_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_messages, "_SKIPPED_MAX", 2)
    bench = Bench(EMBEDDED_STAGING_QUEUE)
    async with bench.session() as session:
        staged = await open_staged(session, EMBEDDED_STAGING_QUEUE)
        bench.stage(1, 2, 3)
        for _ in range(2):
            seen = await bench.soonest(staged)
            assert seen is not None
            staged.skip(seen)

        third = await bench.soonest(staged)
        assert third is not None
        staged.skip(third)

        assert (3_000, 1.0) == (third.header.delay_ms, await bench.next_s(staged))


async def test_skipped_messages_beyond_the_limit_of_the_memory_are_found_again_after_a_backout() -> None:
    bench = Bench(STAGED)
    async with bench.session() as session:
        staged = MarkedMessages(session, STAGED, session.connection.open(STAGED, OpenOption.BROWSE), remembered_max=2)
        for delay_s in (1, 2, 3):
            bench.stage(delay_s)
            seen = await bench.soonest(staged)
            assert seen is not None
            staged.skip(seen)
        handle = bench.connection.open(STAGED, OpenOption.INPUT_SHARED)

        for _ in range(3):
            bench.connection.get(handle, _IN_UNIT)
        bench.connection.backout()

        assert [1.0] == await bench.all_s(staged)


@pytest.mark.parametrize("waiting", ["nothing is staged", "another message is due later"])
@pytest.mark.parametrize("event", ["a message is staged", "it is interrupted"])
async def test_a_wait_ends_when_a_message_is_staged_or_when_it_is_interrupted(waiting: str, event: str) -> None:
    bench = Bench(EMBEDDED_STAGING_QUEUE)
    async with bench.session() as session:
        staged = await open_staged(session, EMBEDDED_STAGING_QUEUE, bench.queue_manager.on_staged)
        if waiting != "nothing is staged":
            bench.stage(600)
        await bench.soonest(staged)
        ended = anyio.Event()

        async def wait() -> None:
            await staged.wait(3_600_000.0)
            ended.set()

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert not ended.is_set()
            if event == "a message is staged":
                bench.stage(5)
            else:
                session.interrupt()
                staged.interrupt()
            with anyio.fail_after(LATEST_S):
                await ended.wait()


async def test_a_message_that_was_staged_just_before_the_wait_ends_it_at_once() -> None:
    bench = Bench(EMBEDDED_STAGING_QUEUE)
    async with bench.session() as session:
        staged = await open_staged(session, EMBEDDED_STAGING_QUEUE, bench.queue_manager.on_staged)
        bench.stage(600)
        await bench.soonest(staged)
        bench.stage(5)

        with anyio.fail_after(LATEST_S):
            await staged.wait(3_600_000.0)

        assert 5.0 == await bench.next_s(staged)


async def test_without_notices_the_queue_is_looked_at_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(EMBEDDED_STAGING_QUEUE)
    async with bench.session() as session:
        staged = await open_staged(session, EMBEDDED_STAGING_QUEUE)
        bench.stage(600)
        await bench.soonest(staged)
        pauses: list[float] = []

        async def pause(seconds: float) -> None:
            pauses.append(seconds)

        monkeypatch.setattr(anyio, "sleep", pause)
        for longest_ms in (600_000.0, 51.0, 49.0, 10.0):
            await staged.wait(longest_ms)

        assert [0.05, 0.05, 0.049, 0.01] == pauses


async def test_a_wait_asks_for_no_notice_after_its_end() -> None:
    bench = Bench(EMBEDDED_STAGING_QUEUE)
    asked: list[str] = []

    def on_staged(wake: object) -> Callable[[], None]:
        asked.append("asked")
        return lambda: asked.append("withdrawn")

    async with bench.session() as session:
        staged = await open_staged(session, EMBEDDED_STAGING_QUEUE, on_staged)
        bench.stage(600)
        await bench.soonest(staged)

        await staged.wait(1.0)

        assert ["asked", "withdrawn"] == asked


async def test_a_skipped_message_is_not_found_again_after_backouts() -> None:
    """Each get ends the mark of the message. If the message were found, two processors would try it without a pause."""
    bench = Bench(STAGED)
    async with bench.session() as session:
        staged = await open_staged(session, STAGED)
        bench.stage(1, 2)
        seen = await bench.soonest(staged)
        assert seen is not None
        handle = bench.connection.open(STAGED, OpenOption.INPUT_SHARED)

        staged.skip(seen)
        for _ in range(2):
            bench.connection.get(handle, _IN_UNIT)
            bench.connection.backout()
            assert 2.0 == await bench.next_s(staged)


async def test_a_message_with_the_identifier_of_a_skipped_message_is_found_if_it_was_put_again() -> None:
    """A person gets the message that nobody could move, and puts it back with the context and the identifiers that it had."""
    bench = Bench(STAGED)
    async with bench.session() as session:
        staged = await open_staged(session, STAGED)
        bench.stage(1)
        seen = await bench.soonest(staged)
        assert seen is not None
        handle = bench.connection.open(STAGED, OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        bench.connection.get(handle, _IN_UNIT)
        bench.connection.backout()
        staged.skip(seen)
        assert await bench.soonest(staged) is None

        got = bench.connection.get(handle, _IN_UNIT)
        assert got is not None
        bench.connection.put(handle, got.descriptor, got.body, PutOption.SYNCPOINT)
        bench.connection.commit()

        assert 1.0 == await bench.next_s(staged)
