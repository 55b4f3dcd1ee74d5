"""A session in its caller's task: every 64th call lets other tasks run, and the options of the last get are converted once."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

import anyio
import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, PutOption
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.verbs import GetOptions, ObjectHandle

pytestmark = pytest.mark.anyio

GET = GetOptions(options=GetOption.SYNCPOINT | GetOption.WAIT, wait_ms=60_000)
TURNS = 64


class Bench:
    def __init__(self) -> None:
        manager = EmbeddedQueueManager("QM1")
        for name in ("Q", "OUT"):
            manager.administration.define(QueueAttributes(name=name))
        self.connection = manager.connect()
        self.handle: ObjectHandle = self.connection.open("Q", OpenOption.INPUT_SHARED)
        self.taken = 0

    @cached_property
    def session(self) -> InlineSession:
        """The session. It belongs to the event loop of the test that uses it first."""
        return InlineSession(self.connection)

    def put(self, count: int, queue: str = "Q") -> list[bytes]:
        return [
            self.connection.put1(queue, MessageDescriptor(), b"%d" % number, PutOption.NO_SYNCPOINT).descriptor.message_id
            for number in range(count)
        ]

    def at_once(self, options: GetOptions = GET, most: int = 1) -> list[bytes]:
        return [got.body for got in self.session.get_at_once(self.handle, options, most)]

    async def exchange(self, settlement: Settlement | None = None, linger_ms: int = 0) -> list[bytes]:
        exchange = await self.session.exchange(settlement, self.handle, GET, most=1, linger_ms=linger_ms)
        assert (None, None) == (exchange.settle_error, exchange.get_error)
        return [got.body for got in exchange.unit]

    async def exchange_in_a_cancelled_scope(self) -> tuple[list[bytes], bool]:
        """Return the bodies, and whether the call let other tasks run: then the scope has ended it."""
        bodies: list[bytes] = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            bodies = await self.exchange()
        return bodies, scope.cancelled_caught


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_the_64th_get_at_once_is_empty_and_the_exchange_after_it_lets_other_tasks_run(bench: Bench) -> None:
    bench.put(3 * TURNS)
    for _ in range(2):
        assert ([b"%d" % bench.taken], False) == await bench.exchange_in_a_cancelled_scope()
        got = [len(bench.at_once()) for _ in range(TURNS)]

        assert [1] * (TURNS - 2) + [0] * 2 == got
        bench.taken += TURNS - 1
        assert ([], True) == await bench.exchange_in_a_cancelled_scope()


async def test_the_64th_exchange_with_a_settlement_settles_and_gets_nothing(bench: Bench) -> None:
    bench.put(2 * TURNS)

    got = [len(await bench.exchange(Settlement.COMMIT)) for _ in range(TURNS + 1)]

    assert [1] * (TURNS - 1) + [0] * 2 == got
    assert [b"%d" % (TURNS - 1)] == await bench.exchange()
    assert 1 == len(await bench.exchange(Settlement.COMMIT))
    assert [] == await bench.exchange(Settlement.COMMIT, linger_ms=1)


async def test_each_get_at_once_has_the_options_of_its_call(bench: Bench) -> None:
    ids = bench.put(4)
    third = GetOptions(options=GetOption.SYNCPOINT, match=MatchOption.MSG_ID, message_id=ids[2])

    assert [[b"0"], [b"2"], [b"1"], []] == [bench.at_once(), bench.at_once(third), bench.at_once(), bench.at_once(third)]
    await bench.session.settle(Settlement.BACKOUT)
    assert [[b"0"], [b"1"], [b"2"], [b"3"]] == [bench.at_once(most=2) for _ in range(4)]  # got again, so each is alone
    bench.put(3)
    assert [[b"0", b"1"], [b"2"], []] == [bench.at_once(most=2) for _ in range(3)]


async def test_a_wait_asks_for_one_notice_and_waits_for_it(bench: Bench) -> None:
    asked = 0

    class Noting:
        def __getattr__(self, name: str) -> Any:
            return getattr(bench.connection, name)

        def on_arrival(self, *arguments: Any) -> Callable[[], None] | None:
            nonlocal asked
            asked += 1
            assert 1 == asked, "it asks again although nothing has come"
            return bench.connection.on_arrival(*arguments)

    bench.session = InlineSession(cast("Any", Noting()))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.exchange)
        await anyio.wait_all_tasks_blocked()
        assert 1 == asked
        bench.session.interrupt()


@pytest.mark.parametrize("waits", [True, False])
async def test_an_interrupt_ends_a_wait_and_each_later_wait(bench: Bench, *, waits: bool) -> None:
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            if waits:
                tasks.start_soon(bench.exchange)
                await anyio.wait_all_tasks_blocked()
            bench.session.interrupt()
        assert [] == await bench.exchange()


async def test_only_a_unit_that_removes_messages_is_committed_behind_its_worker(bench: Bench) -> None:
    bench.put(2)
    bench.at_once()
    removes = bench.session.commit_behind(lambda _: None)
    bench.at_once()
    bench.connection.put1("OUT", MessageDescriptor(), b"", PutOption.SYNCPOINT)
    puts = bench.session.commit_behind(lambda _: None)
    await bench.session.settle(Settlement.BACKOUT)

    assert (True, None, [b"1"]) == (removes, puts, bench.at_once())
