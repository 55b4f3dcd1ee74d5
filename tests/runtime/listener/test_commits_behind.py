"""A worker begins its next unit of work before the disk has answered the last commit. Each unit still has an answer of its own.

The store of these tests answers when the test says so.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from mqflow import Backout, Batch, Context, Reject
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Decided, ListenerPaused, Settled
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Completed, Failed, Settlement
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.testing.kit import carry_out
from tests.embedded.storage.scripted_store import FULL, UNKNOWN, ScriptedStore
from tests.queue_contents import put, taken
from tests.runtime.listener.staged import LATEST_S, StagedApplication

pytestmark = pytest.mark.anyio

UNANSWERED_MAX = InlineSession.unanswered_max
ALL = UNANSWERED_MAX + 3


class Stage(StagedApplication):
    """An application on a queue manager whose store holds its answers back."""

    def __init__(self) -> None:
        super().__init__()
        self.store = ScriptedStore()
        self.queue_manager = EmbeddedQueueManager("QM1", store=self.store)
        carry_out(self.queue_manager.administration, ["DEFINE QLOCAL(OUT)", "DEFINE QLOCAL(IN) BOTHRESH(3) BOQNAME(OUT)"])

    def put(self, count: int) -> None:
        persistent = MessageDescriptor(persistence=Persistence.PERSISTENT)
        put(self.queue_manager, "IN", *(b"%d" % number for number in range(count)), descriptor=persistent)

    def answer_all(self) -> None:
        """Let the store answer every call from now on."""
        self.store.holds = False
        while self.store.unanswered:
            self.store.answer()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the application. After the block, the store answers, because the stop waits for its commits."""
        async with self.app.running(self.queue_manager):
            try:
                yield
            finally:
                self.answer_all()

    async def seen_before_the_first_answer(self, count: int) -> list[bytes]:
        """Run until the handler has had `count` deliveries. Return those that it had when the store answered the first call."""
        self.store.holds = True
        async with self.running():
            await self.until_seen(1)
            await turns()
            seen = list(self.seen)
            self.answer_all()
            await self.until_seen(count)
        return seen

    def left(self) -> list[bytes]:
        """Get every message of the queue."""
        return [got.body for got in taken(self.queue_manager, "IN")]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(
        "mqflow.runtime.listener.settler.SETTLE_DEADLINE_S", 5.0
    )  # an answer that goes astray fails a test soon
    made = Stage()
    yield made
    made.answer_all()
    made.queue_manager.close()


async def turns() -> None:
    """Let every task that can run come to its next wait."""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


async def test_a_handler_gets_the_next_messages_before_the_first_commit_is_answered_and_no_settlement_is_claimed(
    stage: Stage,
) -> None:
    stage.put(ALL)
    stage.listen()
    stage.store.holds = True

    async with stage.running():
        await stage.until_seen(UNANSWERED_MAX + 1)
        await turns()
        seen, settled = list(stage.seen), stage.settled()
        stage.answer_all()
        await stage.until_seen(ALL)

    assert [b"%d" % number for number in range(UNANSWERED_MAX + 1)] == seen  # the last one waits for its commit to begin
    assert [] == settled
    assert ALL == len(stage.settled()) == len(set(stage.settled()))
    assert [b"%d" % number for number in range(ALL)] == stage.seen
    assert [] == stage.left()


async def test_each_answer_is_reported_while_a_later_handler_runs(stage: Stage) -> None:
    stage.put(2)
    waits, goes_on = anyio.Event(), anyio.Event()

    @stage.app.listener("IN")
    async def handle(body: bytes) -> None:
        stage.note(body)
        if body == b"1":
            waits.set()
            await goes_on.wait()

    stage.store.holds = True
    async with stage.running():
        with anyio.fail_after(LATEST_S):
            await waits.wait()
        stage.store.answer()
        await turns()
        settled = len(stage.settled())
        goes_on.set()
        stage.answer_all()

    assert 1 == settled
    assert 2 == len(stage.settled())


@pytest.mark.parametrize("unit_of_work", [1, 3])
async def test_every_unit_is_one_call_of_the_store(stage: Stage, unit_of_work: int) -> None:
    stage.put(6)
    stage.listen(unit_of_work=unit_of_work)
    stage.store.calls.clear()

    async with stage.running():
        await stage.until_seen(6)

    assert [["MessageRemoved"] * unit_of_work] * (6 // unit_of_work) == stage.store.calls


async def test_a_listener_in_strict_order_waits_for_each_answer(stage: Stage) -> None:
    stage.put(2)
    stage.listen(strict_order=True)

    assert [b"0"] == await stage.seen_before_the_first_answer(2)


async def test_a_unit_with_a_put_is_answered_before_the_next_message_is_got(stage: Stage) -> None:
    stage.put(2)

    @stage.app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        await ctx.put("OUT", body)
        stage.note(body)

    assert [b"0"] == await stage.seen_before_the_first_answer(2)


async def test_a_redelivered_message_is_committed_before_the_next_message_is_got(stage: Stage) -> None:
    stage.put(2)
    stage.store.answers = []

    @stage.app.listener("IN")
    async def handle(body: bytes) -> None:
        stage.note(body)
        if stage.seen == [b"0"]:
            stage.store.holds = True
            raise ValueError("once")

    async with stage.running():
        await stage.until_seen(2)
        await turns()
        seen = list(stage.seen)
        stage.answer_all()
        await stage.until_seen(3)

    assert [b"0", b"0"] == seen
    assert [b"0", b"0", b"1"] == stage.seen


async def test_a_listener_whose_first_backout_moves_a_message_waits_for_each_commit(stage: Stage) -> None:
    stage.put(3)
    stage.listen(backout=Backout(threshold=1, queue="OUT"))

    assert [b"0"] == await stage.seen_before_the_first_answer(3)


async def test_a_failure_backs_out_its_own_message_alone_while_earlier_commits_are_unanswered(stage: Stage) -> None:
    stage.put(3)

    @stage.app.listener("IN", backout=Backout(threshold=3, queue="OUT"))
    async def handle(body: bytes) -> None:
        stage.note(body)
        if body == b"2":
            raise Reject("always")

    stage.store.holds = True
    async with stage.running():
        await stage.until_seen(3)
        await turns()
        stage.answer_all()
        with anyio.fail_after(LATEST_S):
            while len(stage.settled()) < 3:
                await anyio.lowlevel.checkpoint()

    outcomes = [type(event.outcome).__name__ for event in stage.events if isinstance(event, Settled)]
    assert ["Completed", "Completed", "Failed"] == outcomes
    assert [1] == [event.backout_count for event in stage.events if isinstance(event, Decided)]
    assert [b"0", b"1", b"2"] == stage.seen


async def test_a_commit_that_the_store_refuses_is_reported_as_a_backout_and_its_message_comes_again(stage: Stage) -> None:
    stage.put(3)
    stage.listen(backout=Backout(threshold=2, queue="OUT"))
    stage.store.holds = True

    async with stage.running():
        await stage.until_seen(3)
        await turns()
        stage.store.answer(FULL)
        stage.answer_all()
        await stage.until_seen(4)

    assert [b"0", b"1", b"2", b"0"] == stage.seen
    assert 1 == len(stage.settled(Settlement.BACKOUT))
    assert 3 == len(stage.settled())
    assert set(stage.settled(Settlement.BACKOUT)) < set(stage.settled())
    assert [] == stage.left() == stage.in_doubt()


async def test_the_backout_of_a_refused_commit_is_no_failed_attempt(stage: Stage) -> None:
    """With a threshold of 1, the message would be moved if the backout counted."""
    stage.put(1)
    stage.listen(backout=Backout(threshold=1, queue="OUT"))
    stage.store.holds = True

    async with stage.running():
        await stage.until_seen(1)
        stage.store.holds = False
        stage.store.answer(FULL)
        await stage.until_seen(2)

    assert [b"0", b"0"] == stage.seen
    assert 0 == sum(isinstance(event, ListenerPaused) for event in stage.events)
    [outcome] = [
        event.outcome for event in stage.events if isinstance(event, Settled) and event.settlement is Settlement.BACKOUT
    ]
    assert isinstance(outcome, Failed)
    assert ("MQRC_BACKED_OUT", True) == (outcome.error, "MQRC_BACKED_OUT (2003)" in outcome.text)


@pytest.mark.parametrize(("shares_notes", "seen"), [(False, 2), (True, 3)], ids=["in memory, as MQ counts", "in a file"])
async def test_after_a_restart_only_notes_in_a_file_tell_a_refused_commit_from_a_failed_attempt(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, shares_notes: bool, seen: int
) -> None:
    """BackoutCount counts every backout, so without notes the message is poison although its handler has never failed."""
    if shares_notes:
        monkeypatch.setenv("MQFLOW_NOTES_FILE", str(tmp_path / "notes"))
    stage.put(1)
    stage.store.answers = [FULL, FULL]
    stage.listen(backout=Backout(threshold=2, queue="OUT"))
    async with stage.running():
        await stage.until(lambda: any(isinstance(event, ListenerPaused) for event in stage.events))

    async with stage.running():
        await stage.until_settled(1)

    assert (seen, 0 if shares_notes else 1) == (len(stage.seen), len(taken(stage.queue_manager, "OUT")))


@pytest.mark.parametrize(
    ("answers", "paused"),
    [([FULL, None, FULL], []), ([FULL, FULL], ["the queue manager backed the unit of work out at its commit"])],
    ids=["with a success between", "in a row"],
)
async def test_two_refused_commits_in_a_row_pause_the_listener(
    stage: Stage, answers: list[Exception | None], paused: list[str]
) -> None:
    stage.put(2)
    stage.store.answers = list(answers)
    stage.listen(backout=Backout(threshold=5, queue="OUT"))

    async with stage.running():
        await stage.until(lambda: len(stage.settled(Settlement.BACKOUT)) == 2)
        if not paused:
            await stage.until_settled(2)

    assert paused == [event.why.partition(":")[0] for event in stage.events if isinstance(event, ListenerPaused)]
    assert [Reason.BACKED_OUT] * len(paused) == [event.reason for event in stage.events if isinstance(event, ListenerPaused)]


@pytest.mark.parametrize("goes_on", [False, True], ids=["cancelled", "completed"])
async def test_after_an_unknown_outcome_no_message_counts_as_committed(stage: Stage, *, goes_on: bool) -> None:
    stage.put(3)
    waits, knows = anyio.Event(), anyio.Event()

    @stage.app.listener("IN")
    async def handle(body: bytes) -> None:
        stage.note(body)
        if body == b"2":
            waits.set()
            await (knows.wait() if goes_on else anyio.sleep_forever())

    async def run() -> None:
        async with stage.running():
            with anyio.fail_after(LATEST_S):
                await waits.wait()
            stage.store.answer(UNKNOWN)
            stage.store.answer(UNKNOWN)
            await turns()
            knows.set()
            await turns()
            raise RuntimeError("the test has seen enough")

    stage.store.holds = True
    with suppress(Exception):  # the queue manager is gone, so the application ends with an error
        await run()

    completed = [event for event in stage.events if isinstance(event, Settled) and isinstance(event.outcome, Completed)]
    assert [] == completed
    assert 2 == len(stage.in_doubt()) == len(set(stage.in_doubt()))
    assert 1 == len(stage.settled(Settlement.BACKOUT))
    assert not set(stage.in_doubt()) & set(stage.settled(Settlement.BACKOUT))


@pytest.mark.parametrize("fails", [False, True], ids=["completed", "failed"])
async def test_a_stop_waits_for_the_answers_of_all_commits(stage: Stage, *, fails: bool) -> None:
    stage.put(3)
    goes_on, stops = anyio.Event(), anyio.Event()
    ended: list[int] = []

    @stage.app.listener("IN")
    async def handle(body: bytes) -> None:
        stage.note(body)
        if body == b"1":
            await goes_on.wait()
            if fails:
                raise ValueError("at the stop")

    async def run() -> None:
        async with stage.app.running(stage.queue_manager):
            await stops.wait()
        ended.append(len(stage.settled()))

    early: list[int] | None = None
    stage.store.holds = True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await stage.until_seen(2)
        stops.set()
        await turns()
        goes_on.set()
        await turns()
        early = list(ended)
        stage.answer_all()

    assert [] == early
    assert [1 if fails else 2] == ended
    assert ([b"1", b"2"] if fails else [b"2"]) == stage.left()
    assert [] == stage.in_doubt()


async def test_a_batch_that_lingers_waits_for_each_answer(stage: Stage) -> None:
    stage.put(2)
    batches: list[int] = []

    @stage.app.listener("IN", batch=Batch(max=1, wait_ms=1))
    async def handle(bodies: list[bytes]) -> None:
        batches.append(len(bodies))
        stage.note(bodies[0])

    assert [b"0"] == await stage.seen_before_the_first_answer(2)
    assert [1, 1] == batches
