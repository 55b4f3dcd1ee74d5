"""The waits of a session with a thread on a connection like IBM's: no wait can be interrupted, so each is short."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.threaded_session import ThreadedSession
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle
from mqflow.world import THREADS

pytestmark = pytest.mark.anyio

SYNCPOINT = GetOption.SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2


class Noting:
    """A connection without the verbs for many messages. It notes the wait of each get, and waits for nothing.

    The fourth wait of a second interrupts the session.
    """

    def __init__(self, behind: Connection) -> None:
        self.behind, self.waits, self.session = behind, list[int](), list[ThreadedSession]()

    def __getattr__(self, name: str) -> Any:
        if name in {"get_many", "put_many", "exchange", "exchange_at_once", "on_arrival", "begin_commit", "interrupt"}:
            raise AttributeError(name)
        return getattr(self.behind, name)

    def get(self, handle: ObjectHandle, options: GetOptions) -> Got | None:
        waits = bool(options.options & GetOption.WAIT)
        self.waits.append(options.wait_ms if waits else 0)
        if self.waits == [1_000] * 4:
            self.session[0].interrupt()
        return self.behind.get(handle, GetOptions(options=options.options & ~GetOption.WAIT))


class Bench:
    def __init__(self) -> None:
        manager = EmbeddedQueueManager("QM1")
        manager.administration.define(QueueAttributes(name="Q"))
        self.own = manager.connect()
        self.noting = Noting(manager.connect())

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        self.session = await ThreadedSession.connected(lambda: cast("Connection", self.noting), THREADS)
        self.noting.session.append(self.session)
        self.handle = await self.session.call(self.session.connection.open, "Q", OpenOption.INPUT_SHARED)
        yield
        await self.session.close()
        await self.session.close()

    def put(self, *bodies: bytes) -> None:
        for body in bodies:
            self.own.put1("Q", MessageDescriptor(), body, PutOption.NO_SYNCPOINT)

    async def exchange(self, settlement: Settlement | None, wait_ms: int, most: int = 1) -> list[bytes]:
        options = GetOptions(options=SYNCPOINT | GetOption.WAIT if wait_ms else SYNCPOINT, wait_ms=wait_ms)
        exchange = await self.session.exchange(settlement, self.handle, options, most=most)
        assert (None, None) == (exchange.settle_error, exchange.get_error)
        return [got.body for got in exchange.unit]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("wait_ms", "waits"),
    [(0, [0]), (1, [1]), (999, [999]), (1_000, [1_000]), (1_001, [1_000, 1]), (2_500, [1_000, 1_000, 500]), (-1, [1_000] * 4)],
)
async def test_a_wait_is_cut_into_waits_of_a_second(bench: Bench, wait_ms: int, waits: list[int]) -> None:
    async with bench.connected():
        assert [] == await bench.exchange(None, wait_ms)
    assert waits == bench.noting.waits


async def test_a_get_after_a_settlement_does_not_wait_at_first(bench: Bench) -> None:
    bench.put(b"1", b"2", b"3")

    async with bench.connected():
        assert [b"1", b"2"] == await bench.exchange(None, 500, most=2)
        assert [b"1"] == await bench.exchange(Settlement.BACKOUT, 500)
        assert [[b"2"], [b"3"], []] == [await bench.exchange(Settlement.COMMIT, 500) for _ in range(3)]
    assert [500, 0, 0, 0, 0, 0] == bench.noting.waits


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_the_open_unit_of_work_is_backed_out_when_the_session_ends_also_if_its_owner_is_cancelled(
    bench: Bench, *, is_cancelled: bool
) -> None:
    bench.put(b"1")
    async with bench.connected():
        await bench.exchange(None, 0)
        with anyio.CancelScope() as scope:
            if is_cancelled:
                scope.cancel()
            await bench.session.close()
        assert not bench.session.abandoned

    handle = bench.own.open("Q", OpenOption.INPUT_SHARED)
    got = bench.own.get(handle, GetOptions(options=SYNCPOINT))
    assert got is not None
    assert 1 == got.descriptor.backout_count
