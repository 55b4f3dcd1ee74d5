"""A worker that leaves the thread of its session: the calls that settle the rest, and the end of a run on that thread."""

from contextlib import nullcontext
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Completed, Failed, Interrupted
from mqflow.runtime.connection import session_limits
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.settler import SessionLost
from mqflow.runtime.listener.thread_delivery import HandedBack, News, OnThread
from mqflow.runtime.listener.unit import BackOut, Unit
from mqflow.runtime.listener.worker import Worker
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.verbs import Exchange
from mqflow.world import THREADS

pytestmark = pytest.mark.anyio

BROKEN = error_for(Reason.CONNECTION_BROKEN, "MQCMIT")
STOPPED = Interrupted("the listener stopped before the handler had finished")
FAILED = BackOut((), Interrupted("the worker failed: RuntimeError('a defect')"))


class Named(Unit):
    """A unit of two deliveries, with a name for the expectations."""

    def __init__(self, name: str, *, is_told: bool = False, backouts: int = 0) -> None:
        got = SimpleNamespace(descriptor=SimpleNamespace(backout_count=backouts))
        deliveries: Any = [SimpleNamespace(is_over=False, got=got) for _ in range(2)]
        super().__init__(deliveries)
        self.name, self.is_told = name, is_told


class Told:
    """Records what a worker tells its settler and its events. It is both."""

    def __init__(self, **errors: Exception) -> None:
        self.errors, self.calls = errors, list[tuple[Any, ...]]()

    def worker(self) -> Any:
        made: Any = object.__new__(Worker)
        made._settler = made._events = self
        return made

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            self.calls.append((name, *(each.name if isinstance(each, Named) else each for each in given)))
            if name in self.errors:
                raise self.errors[name]

        async def call_later(*given: Any) -> Any:
            call(*given)

        if name in {"committed", "back_out"}:
            return call_later
        if name in {"begin", "left", "lost", "delivered"}:
            return call
        raise AttributeError(name)


class Thread:
    """A thread of a session that hands this back when it is given up."""

    def __init__(self, back: HandedBack | None, held: Any = None) -> None:
        self.back, self.unit, self.told = back, held, list[BaseException]()

    async def give_up(self, error: BaseException) -> HandedBack | None:
        self.told.append(error)
        return self.back

    async def serve(self, _: Unit) -> HandedBack:
        raise RuntimeError("a defect")


FIRST, SECOND, KNOWN = Named("first"), Named("second"), Named("second", is_told=True)
DOUBT = Exchange(settle_error=BROKEN)


@pytest.mark.parametrize(
    ("back", "errors", "calls"),
    [
        (HandedBack(), {}, []),
        (HandedBack(settled=FIRST), {}, [("committed", "first", None)]),
        (HandedBack(DOUBT, settled=FIRST), {}, [("committed", "first", BROKEN)]),
        (HandedBack(unit=KNOWN), {}, [("begin", "second"), ("back_out", "second", FAILED)]),
        (
            HandedBack(settled=FIRST, unit=SECOND),
            {},
            [("committed", "first", None), ("delivered", SECOND.deliveries), ("begin", "second"),
             ("back_out", "second", FAILED)],
        ),
        (
            HandedBack(DOUBT, settled=FIRST, unit=KNOWN),
            {"committed": SessionLost(BROKEN)},
            [("committed", "first", BROKEN), ("lost", BROKEN)],
        ),
        (
            HandedBack(unit=KNOWN),
            {"back_out": SessionLost(BROKEN)},
            [("begin", "second"), ("back_out", "second", FAILED), ("lost", BROKEN)],
        ),
    ],
)  # fmt: skip
async def test_a_worker_settles_what_the_thread_hands_back(back: Any, errors: dict[str, Exception], calls: list[Any]) -> None:
    error, thread, told = RuntimeError("a defect"), Thread(back, held=KNOWN), Told(**errors)

    await told.worker()._leave_thread(thread, error)

    assert (calls, [error], None) == (told.calls, thread.told, thread.unit)


async def test_an_error_of_the_wait_for_the_thread_ends_the_work_after_the_unit_is_backed_out() -> None:
    told = Told()
    worker = told.worker()
    worker._on_thread = Thread(HandedBack(unit=KNOWN))

    with pytest.raises(RuntimeError, match="a defect"):
        await worker._work(KNOWN)

    assert [("begin", "second"), ("back_out", "second", FAILED)] == told.calls


@pytest.mark.parametrize("holds", [True, False])
async def test_a_handler_that_runs_on_is_over_for_its_worker(*, holds: bool) -> None:
    held, told = Named("held"), Told()
    thread = Thread(None, held if holds else None)

    await told.worker()._leave_thread(thread, RuntimeError("a stop"))

    assert ([("left", "held", STOPPED)] * holds, None) == (told.calls, thread.unit)
    assert [holds, holds] == [delivery.is_over for delivery in held.deliveries]


async def test_the_news_of_the_thread_are_reported_as_they_are() -> None:
    told = Told()
    worker = told.worker()

    await worker._tell(News(FIRST, is_committed=False))
    await worker._tell(News(FIRST, is_committed=True))

    assert [("begin", "first"), ("delivered", FIRST.deliveries), ("committed", "first", None)] == told.calls


@pytest.mark.parametrize(
    ("settles", "thread", "expected"),
    [
        (False, None, False),
        (True, None, True),
        (False, Thread(None), False),
        (False, Thread(None, FIRST), True),
        (True, Thread(None), True),
    ],
)
def test_a_worker_holds_a_unit_of_work_itself_or_on_its_thread(*, settles: bool, thread: Any, expected: bool) -> None:
    worker: Any = object.__new__(Worker)
    worker._settler, worker._on_thread = SimpleNamespace(under_way=settles), thread

    assert expected is worker.under_way


class Ran:
    """One run of the thread of a session, with a plan for its handler and its exchanges."""

    def __init__(self, outcomes: list[Any], exchanges: list[Any]) -> None:
        self.clock, self.handled, self.committed = VirtualClock(100.0), 0, 0
        self.outcomes, self.exchanges = outcomes, exchanges
        self.state = SimpleNamespace(
            broadcast=Broadcast(()), clock=self.clock, calls=None, handling={}, refused=False, refused_commits=0,
            spec=SimpleNamespace(handle=self._handle),
        )  # fmt: skip
        anything: Any = self.state
        session: Any = SimpleNamespace(runner=THREADS)
        self.thread = OnThread(anything, session, 3, self._unit_of, self._exchange, self._tell)
        place: Any = SimpleNamespace(entered=nullcontext)
        self.thread._place = place

    async def _handle(self, _: object) -> Any:
        self.handled += 1
        assert (True, None) == (self.thread._in_handler, self.thread._settling_since)
        outcome = self.outcomes.pop(0)
        if outcome == "give up":
            self.thread._given_up = True
        elif isinstance(outcome, BaseException):
            raise outcome
        return None if outcome == "give up" else outcome

    def _exchange(self) -> Exchange:
        self.committed += 1
        assert (False, True) == (self.thread._in_handler, self.thread._settling_since is not None)
        exchange = self.exchanges.pop(0)
        if isinstance(exchange, BaseException):
            raise exchange
        assert isinstance(exchange, Exchange)
        return exchange

    def _unit_of(self, got: Any) -> Any:
        return got[0]

    async def _tell(self, _: News) -> None:
        raise AssertionError("nobody wants news")


OK, EMPTY = Completed(), Exchange()
NEXT: Any = Named("next")
AGAIN: Any = Named("again", backouts=1)


@pytest.mark.parametrize(
    ("outcomes", "exchanges", "back", "held", "counts"),
    [
        ([OK, None], [EMPTY], HandedBack(EMPTY, FIRST), None, (2, 1)),
        ([OK, OK], [DOUBT], HandedBack(DOUBT, FIRST), FIRST, (2, 1)),
        ([OK] * 4, [Exchange(unit=(NEXT,)), EMPTY], HandedBack(EMPTY, NEXT), None, (4, 2)),
        ([OK] * 2, [Exchange(unit=(AGAIN,))], HandedBack(Exchange(unit=(AGAIN,)), FIRST, AGAIN), None, (2, 1)),
        ([OK, Failed("ValueError", "no")], [], HandedBack(unit=FIRST), FIRST, (2, 0)),
        ([ValueError("no")], [], HandedBack(unit=FIRST), FIRST, (1, 0)),
        (["give up"], [], HandedBack(unit=FIRST), FIRST, (1, 0)),
        ([OK, "give up"], [], HandedBack(unit=FIRST), FIRST, (2, 0)),
        ([OK, OK], [RuntimeError("a defect")], None, FIRST, (2, 1)),
    ],
)
def test_a_thread_is_in_no_handler_and_in_no_commit_when_its_run_ends(
    outcomes: list[Any], exchanges: list[Any], back: HandedBack | None, held: Any, counts: tuple[int, int]
) -> None:
    ran = Ran(list(outcomes), list(exchanges))

    with pytest.raises(RuntimeError, match="a defect") if back is None else nullcontext():
        assert back == ran.thread._run(FIRST, copy_context())

    assert (False, None, held) == (ran.thread._in_handler, ran.thread._settling_since, ran.thread.unit)
    assert counts == (ran.handled, ran.committed)


@pytest.mark.parametrize(("waiting", "goes_on"), [(1_998, True), (1_999, False)])
def test_a_thread_goes_back_to_the_event_loop_if_more_than_two_thousand_news_wait(waiting: int, *, goes_on: bool) -> None:
    ran = Ran([OK, OK], [Exchange(unit=(NEXT,))])
    ran.thread._wants_news = True  # type: ignore[misc]  # as with a hook
    ran.thread._news.extend([News(FIRST, is_committed=True)] * waiting)

    step = ran.thread._step(Named("told"), copy_context())

    assert (NEXT if goes_on else HandedBack(Exchange(unit=(NEXT,)), unit=NEXT)) == step


DEADLINE_S = session_limits.SETTLE_DEADLINE_S


@pytest.mark.parametrize(
    ("settles", "has_settled", "detects", "after_s", "overdue"),
    [
        (True, False, False, DEADLINE_S, True),
        (True, False, False, DEADLINE_S - 1, False),
        (False, False, False, DEADLINE_S, False),
        (True, True, False, DEADLINE_S, False),
        (True, False, True, DEADLINE_S, False),
    ],
)
def test_a_commit_without_an_answer_in_time_is_in_doubt(
    *, settles: bool, has_settled: bool, detects: bool, after_s: float, overdue: bool
) -> None:
    ran, left = Ran([], []), list[str]()
    ran.thread._session = SimpleNamespace(  # type: ignore[misc, assignment]  # all that it reads
        has_settled=has_settled, detects_dead_peers=detects, leave=lambda: left.append("left"),
        connection=SimpleNamespace(queue_manager_name="QM1"),
    )  # fmt: skip
    ran.thread.unit = FIRST
    ran.thread._settling_since = ran.clock.monotonic() if settles else None
    ran.clock.advance(after_s)

    found = ran.thread._overdue()

    assert (overdue, ["left"] * overdue) == (ran.thread._given_up, left)
    if not overdue:
        assert found is None
        return
    assert found is not None
    error, nothing = found.exchange.settle_error, HandedBack(found.exchange, settled=FIRST)
    said = f"MQCMIT (QM1) failed: MQRC_CALL_INTERRUPTED (2549). No answer came within {DEADLINE_S:g} s"
    assert (nothing, said) == (found, str(error)[: len(said)])


@pytest.mark.parametrize(
    ("wants", "since_s", "look_s", "expected"),
    [
        (False, None, 0.05, DEADLINE_S),
        (False, 1.0, 0.05, DEADLINE_S - 1),
        (False, DEADLINE_S + 1, 0.05, 0.0),
        (True, None, 0.05, 0.05),
        (True, DEADLINE_S - 0.02, 0.05, 0.02),
        (True, DEADLINE_S + 1, 0.05, 0.0),
    ],
)
def test_a_worker_looks_at_its_thread_for_news_and_at_the_deadline_of_a_commit(
    *, wants: bool, since_s: float | None, look_s: float, expected: float
) -> None:
    ran = Ran([], [])
    ran.thread._wants_news = wants  # type: ignore[misc]  # as with a hook
    ran.thread._settling_since = None if since_s is None else ran.clock.monotonic()
    ran.clock.advance(since_s or 0.0)

    assert expected == pytest.approx(ran.thread._until_look_s(look_s))


@pytest.mark.parametrize("in_handler", [True, False])
async def test_a_thread_that_is_given_up_is_left_only_inside_its_handler(*, in_handler: bool) -> None:
    ran, calls, back = Ran([], []), list[Any](), HandedBack(settled=FIRST)
    error = RuntimeError("a stop")

    async def answered() -> tuple[HandedBack, None]:
        calls.append("answer")
        return back, None

    thread: Any = ran.thread
    thread._session = SimpleNamespace(leave=lambda: calls.append("left"))
    thread._place, thread._answer = SimpleNamespace(cancel=calls.append), SimpleNamespace(wait=answered)
    thread._in_handler = in_handler
    ran.state.handling |= {3: "mine", 4: "another worker's"}

    found = await thread.give_up(error)

    assert (None if in_handler else back, [error, "left"] if in_handler else ["answer"]) == (found, calls)
    assert (True, {4: "another worker's"}) == (thread._given_up, ran.state.handling)
