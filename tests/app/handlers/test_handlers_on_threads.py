"""A plain handler of a session with a thread runs on that thread. The worker decides and counts as it does on the event loop.

Each test runs on asyncio and trio, over a connection without the verbs of mqflow's own queue managers.
"""

import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqflow import App, Backout, Pace, Reject
from mqflow.app.config.settings import ListenerSettings, Settings
from mqflow.events import ConsumerFailed, Decided, Delivered, Disposed, Event, HandlerStuck, InDoubt, ListenerPaused, Settled
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.health.records import Doing
from mqflow.policy.poison.backout_count_header import with_count
from mqflow.policy.poison.disposition import Completed, Failed, Interrupted, Outcome, Settlement
from mqflow.runtime.connection import threaded_session
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.verbs import Connection, GetOptions, Got
from mqflow.world import SYSTEM_CLOCK, THREADS, Clock, Mailbox
from tests.app.handlers.session_forms import Counting, Manager

LIMIT_S = 10
AT_ONCE = Backout(pace=Pace(first_s=0.001, jitter=0))
SESSION = "mqflow session"


class Bare(Counting):
    """A connection like IBM's: it gets and puts one message in a call, and settles and gets in two calls."""

    def __init__(self, behind: Connection, refusals: dict[str, list[Reason]]) -> None:
        super().__init__(behind, [])
        self._refusals = refusals

    def __getattr__(self, name: str) -> Any:
        if name in {"get_many", "put_many", "exchange", "exchange_at_once", "on_arrival", "begin_commit", "interrupt"}:
            raise AttributeError(name)
        return super().__getattr__(name)

    def get(self, handle: Any, options: GetOptions) -> Got | None:
        self._refuse("MQGET")
        return super().get(handle, options)

    def commit(self) -> None:
        if self._refuse("MQCMIT") is Reason.BACKED_OUT:
            self._behind.backout()
            raise error_for(Reason.BACKED_OUT, "MQCMIT")
        self._behind.commit()

    def _refuse(self, verb: str) -> Reason | None:
        reasons = self._refusals.get(verb, [])
        reason = reasons.pop(0) if reasons else Reason.NONE
        if reason not in {Reason.NONE, Reason.BACKED_OUT}:
            if reason is Reason.CONNECTION_BROKEN:
                self._behind.backout()
            raise error_for(reason, verb)
        return reason


class World(Manager):
    """The queue manager and one run of an application, which ends when enough messages have ended."""

    def __init__(self, backend: str) -> None:
        super().__init__("thread")
        self.backend = backend
        self.refusals: dict[str, list[Reason]] = {}
        self.events: list[Event] = []
        self.requests = 0

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        return cast("Connection", Bare(self.behind.connect(application_name=application_name, user=user), self.refusals))

    def until(
        self, app: App, enough: Callable[[], bool], then: Callable[[], object] = lambda: None, *, clock: Clock = SYSTEM_CLOCK
    ) -> Sequence[Event]:
        """Run the application until the events are enough, and call `then` before it stops. Return the events."""

        async def main() -> None:
            done = anyio.Event()

            def note(event: Event) -> None:
                self.events.append(event)
                if enough():
                    done.set()

            app.hooks.append(note)
            async with app.running(self.queue_manager, runner=_Noting(self), clock=clock):
                with anyio.fail_after(LIMIT_S):
                    await done.wait()
                then()

        anyio.run(main, backend=self.backend)
        assert not any(isinstance(event, ConsumerFailed) for event in self.events)
        return self.events

    def committed(self, number: int) -> Callable[[], bool]:
        return lambda: number == len(self.ids(Settlement.COMMIT))

    def ids(self, how: Settlement) -> list[bytes]:
        return [
            each
            for event in self.events
            if isinstance(event, Settled) and event.settlement is how
            for each in event.message_ids
        ]

    def depth(self) -> int:
        return self.behind.administration.queue_status("IN").depth

    def shape(self) -> str:
        """Return the deliveries and ends of messages in the order of their events: D for delivered, C, B."""
        letters = {Settlement.COMMIT: "C", Settlement.BACKOUT: "B"}
        return "".join(
            "D" if isinstance(event, Delivered) else letters[event.settlement]
            for event in self.events
            if isinstance(event, Delivered | Settled)
        )


class _Noting:
    """Counts the requests to threads of sessions."""

    event, lock, start = staticmethod(THREADS.event), staticmethod(THREADS.lock), staticmethod(THREADS.start)

    def __init__(self, world: World) -> None:
        self._world = world

    def mailbox(self) -> Mailbox[Any]:
        world, inner = self._world, THREADS.mailbox()

        class Noted:
            get, empty, qsize = inner.get, inner.empty, inner.qsize

            def put(self, item: Any) -> None:
                world.requests += 1
                inner.put(item)

        return Noted()


@pytest.fixture(params=["asyncio", "trio"])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(threaded_session, "_THREADED_WAIT_MS", 20)  # so that a stop takes effect soon
    return World(str(request.param))


def numbered(count: int) -> list[bytes]:
    return [b"%03d" % number for number in range(count)]


def noting(**options: Any) -> tuple[App, list[bytes]]:
    """Return an application with a handler that notes each body, and its notes."""
    app, seen = App(), list[bytes]()

    @app.listener("IN", **options)
    def handle(body: bytes) -> None:
        seen.append(body)

    return app, seen


def test_a_plain_handler_runs_on_the_thread_of_its_session_without_a_hand_over_for_each_message(world: World) -> None:
    app, seen = App(), list[tuple[bytes, str]]()
    world.put(*numbered(300))

    @app.listener("IN")
    def handle(body: bytes) -> None:
        seen.append((body, threading.current_thread().name))

    doing = list[Doing]()
    world.until(app, world.committed(300), lambda: doing.extend(each.doing for each in app.current.listeners()[0].workers))  # type: ignore[union-attr]  # it runs

    assert Doing.HANDLING not in doing
    assert [(body, SESSION) for body in numbered(300)] == seen
    assert world.requests < 100  # before the first message, after the last, and while the application stops
    assert "DC" * 300 == world.shape()
    assert 0 == world.depth()


def test_an_application_without_hooks_commits_each_message_on_the_thread(world: World) -> None:
    app, seen, done = App(), list[bytes](), threading.Event()
    world.put(*numbered(50))

    @app.listener("IN")
    def handle(body: bytes) -> None:
        seen.append(body)
        if len(seen) == 50:
            done.set()

    async def main() -> None:
        async with app.running(world.queue_manager):
            assert await anyio.to_thread.run_sync(done.wait, LIMIT_S)

    anyio.run(main, backend=world.backend)

    assert numbered(50) == seen
    assert 0 == world.depth()


def test_a_failing_message_among_others_is_counted_once_for_each_delivery(world: World) -> None:
    world.mqsc("ALTER QLOCAL(IN) BOTHRESH(3)")
    app, seen = App(), list[bytes]()
    world.put(*numbered(20))

    @app.listener("IN", backout=AT_ONCE)
    def handle(body: bytes) -> None:
        seen.append(body)
        if body == b"007":
            raise ValueError("always")

    world.until(app, world.committed(20))

    assert sorted([*numbered(20), b"007", b"007"]) == sorted(seen)
    [moved] = [event for event in world.events if isinstance(event, Disposed)]
    assert isinstance(moved.outcome, Failed)
    assert (3, "ValueError", "always") == (moved.backout_count, moved.outcome.error, moved.outcome.text)
    assert "test_handlers_on_threads.py" in moved.outcome.frame
    assert 2 == len(world.ids(Settlement.BACKOUT))
    assert [b"007"] == world.bodies("BOQ")


def test_a_handler_that_fails_once_gets_its_message_again_and_completes(world: World) -> None:
    world.mqsc("ALTER QLOCAL(IN) BOTHRESH(3)")
    app, seen = App(), list[bytes]()
    world.put(*numbered(3))

    @app.listener("IN", strict_order=True, backout=AT_ONCE)
    def handle(body: bytes) -> None:
        seen.append(body)
        if seen.count(body) == 1:
            raise ValueError("the first time")

    world.until(app, world.committed(3))

    assert [body for body in numbered(3) for _ in range(2)] == seen
    assert "DBDC" * 3 == world.shape()


def test_a_unit_of_several_messages_keeps_what_its_thread_has_handled_when_a_later_message_is_rejected(world: World) -> None:
    app, seen = App(), list[bytes]()
    world.put(*numbered(8))

    @app.listener("IN", unit_of_work=4)
    def handle(body: bytes) -> None:
        seen.append(body)
        if body == b"002":
            raise ValueError("its threshold is 1")

    world.until(app, world.committed(8))

    assert numbered(8) == seen
    assert [b"002"] == world.bodies("BOQ")
    assert [] == world.ids(Settlement.BACKOUT)
    assert 8 == sum(isinstance(event, Delivered) for event in world.events)


def test_a_result_and_an_awaitable_of_a_plain_handler_go_on_on_the_event_loop(world: World) -> None:
    app, loops = App(), list[str]()
    world.put(b"result", b"awaitable")

    async def later() -> str:
        await anyio.lowlevel.checkpoint()
        loops.append(threading.current_thread().name)
        return "awaited"

    @app.listener("IN")
    @app.publisher("OUT")
    def handle(body: bytes) -> Any:
        return "returned" if body == b"result" else later()

    world.until(app, world.committed(2))

    assert [b"returned", b"awaited"] == world.bodies("OUT")
    assert [threading.main_thread().name] == loops


def test_a_plain_handler_can_return_an_outcome(world: World) -> None:
    app = App()
    outcomes: dict[bytes, Completed | Failed] = {b"good": Completed(), b"bad": Failed("Refused", "by its handler")}
    world.put(*outcomes)

    @app.listener("IN")
    def handle(body: bytes) -> Completed | Failed:
        return outcomes[body]

    world.until(app, world.committed(2))

    assert [b"bad"] == world.bodies("BOQ")


def test_a_handler_on_the_thread_of_its_session_can_call_the_event_loop_and_the_application(world: World) -> None:
    app, names = App(), list[str]()
    world.put(b"x")

    @app.listener("IN")
    def handle(body: bytes) -> None:
        anyio.from_thread.run(app.put, "OUT", body)
        names.append(anyio.from_thread.run_sync(lambda: threading.current_thread().name))
        anyio.from_thread.check_cancelled()

    world.until(app, world.committed(1))

    assert [threading.main_thread().name] == names
    assert [b"x"] == world.bodies("OUT")


def test_a_context_variable_of_one_handling_does_not_reach_the_next(world: World) -> None:
    app, variable, seen = App(), ContextVar("variable", default=0), list[int]()
    world.put(*numbered(3))

    @app.listener("IN")
    def handle(body: bytes) -> None:
        seen.append(variable.get())
        variable.set(int(body) + 1)

    world.until(app, world.committed(3))

    assert [0, 0, 0] == seen


def test_a_stop_lets_the_handler_finish_and_commits_its_message_only(world: World) -> None:
    app, begun, go_on = App(), threading.Event(), threading.Event()
    world.put(*numbered(2))

    @app.listener("IN")
    def handle(_: bytes) -> None:
        begun.set()
        assert go_on.wait(LIMIT_S)

    async def main() -> None:
        async with app.running(world.queue_manager):
            await anyio.to_thread.run_sync(begun.wait, LIMIT_S)
            app.stop()
            go_on.set()

    anyio.run(main, backend=world.backend)

    assert 1 == world.depth()


def test_a_handler_that_outlives_the_drain_is_backed_out_when_it_returns_and_nobody_waits_for_it(world: World) -> None:
    app, begun, go_on, looked = App(), threading.Event(), threading.Event(), threading.Event()
    world.put(b"x")
    cancelled, held = list[str](), list[Got]()

    @app.listener("IN")
    def handle(_: bytes) -> None:
        begun.set()
        assert go_on.wait(LIMIT_S)
        try:
            anyio.from_thread.check_cancelled()
        except BaseException as error:  # noqa: BLE001 - the class depends on the event loop
            cancelled.append(type(error).__name__)
        finally:
            looked.set()

    async def main() -> None:
        app.hooks.append(lambda event: world.events.append(event))  # noqa: PLW0108 - a hook is called by keyword too
        async with app.running(world.queue_manager, drain_s=0.01):
            await anyio.to_thread.run_sync(begun.wait, LIMIT_S)
        held.extend(world.take("IN"))
        go_on.set()
        await anyio.to_thread.run_sync(looked.wait, LIMIT_S)
        with anyio.fail_after(LIMIT_S):
            while not (found := world.take("IN")):  # noqa: ASYNC110 - a thread changes it
                await anyio.sleep(0.001)
        held.extend(found)

    anyio.run(main, backend=world.backend)

    assert "DB" == world.shape()
    [end] = [event for event in world.events if isinstance(event, Settled)]
    assert Interrupted("the listener stopped before the handler had finished") == end.outcome
    assert cancelled in (["CancelledError"], ["Cancelled"])
    assert [1] == [got.descriptor.backout_count for got in held]


def test_a_commit_without_an_answer_is_in_doubt_and_the_application_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.runtime.connection.session_limits.SETTLE_DEADLINE_S", 0.05)
    app, seen = noting()
    answered = threading.Event()
    world.put(b"stuck", b"next")
    commit = Bare.commit

    def stuck(connection: Bare) -> None:
        if seen == [b"stuck"]:
            assert answered.wait(LIMIT_S)
        commit(connection)

    monkeypatch.setattr(Bare, "commit", stuck)

    world.until(app, lambda: any(isinstance(event, Settled) for event in world.events), answered.set)

    [doubt] = [event for event in world.events if isinstance(event, InDoubt)]
    assert Reason.CALL_INTERRUPTED == doubt.reason
    assert [b"stuck", b"next"] == seen
    assert not set(doubt.message_ids) & set(world.ids(Settlement.COMMIT))


def test_a_thread_whose_commit_is_answered_too_late_gives_its_next_message_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.runtime.connection.session_limits.SETTLE_DEADLINE_S", 0.5)
    world.mqsc("ALTER QLOCAL(IN) BOTHRESH(5)")
    app, seen, answered, ended = App(), list[bytes](), threading.Event(), threading.Event()
    late: list[Bare] = []
    world.put(b"stuck", b"next", b"last")
    commit = Bare.commit

    def stuck(connection: Bare) -> None:
        if seen == [b"stuck"]:
            late.append(connection)
            assert answered.wait(LIMIT_S)
        commit(connection)

    def disconnect(connection: Bare) -> None:
        connection._behind.disconnect()
        if connection in late:
            ended.set()

    monkeypatch.setattr(Bare, "commit", stuck)
    monkeypatch.setattr(Bare, "disconnect", disconnect, raising=False)

    @app.listener("IN")
    def handle(body: bytes) -> None:
        seen.append(body)
        if body == b"next":
            answered.set()
            assert ended.wait(LIMIT_S)

    world.until(app, lambda: len(seen) == 3 and any(isinstance(event, Settled) for event in world.events))

    assert [b"stuck", b"next", b"last"] == seen
    assert (2, 0) == (len(world.ids(Settlement.COMMIT)), world.depth())


@pytest.mark.parametrize("reason", [Reason.CONNECTION_BROKEN, Reason.CALL_INTERRUPTED])
def test_a_lost_commit_is_in_doubt_and_its_message_is_not_counted_as_committed(world: World, reason: Reason) -> None:
    world.mqsc("ALTER QLOCAL(IN) BOTHRESH(5)")
    app, seen = noting(backout=AT_ONCE)
    world.refusals["MQCMIT"] = [Reason.NONE, reason]
    world.put(*numbered(4))

    world.until(app, world.committed(4))

    [doubt] = [event for event in world.events if isinstance(event, InDoubt)]
    assert 1 == len(doubt.message_ids)
    assert numbered(4) == sorted(set(seen))
    assert len(seen) == len(world.ids(Settlement.COMMIT)) + 1


def test_a_connection_that_breaks_at_a_get_loses_no_message_and_repeats_none(world: World) -> None:
    app, seen = noting()
    world.refusals["MQGET"] = [Reason.NONE, Reason.NONE, Reason.CONNECTION_BROKEN]
    world.put(*numbered(6))

    world.until(app, world.committed(6))

    assert numbered(6) == seen
    assert "DC" * 6 == world.shape()


def test_a_unit_that_the_queue_manager_backs_out_at_its_commit_is_handled_again(world: World) -> None:
    world.mqsc("ALTER QLOCAL(IN) BOTHRESH(5)")
    app, seen = noting(strict_order=True, backout=AT_ONCE)
    world.refusals["MQCMIT"] = [Reason.NONE, Reason.BACKED_OUT]
    world.put(*numbered(3))

    world.until(app, world.committed(3))

    assert [b"000", b"001", b"001", b"002"] == seen
    assert "DCDBDCDC" == world.shape()


def test_a_refused_get_pauses_the_listener_and_the_message_before_it_is_committed(world: World) -> None:
    app, seen = App(), list[bytes]()
    world.put(*numbered(2))

    @app.listener("IN")
    def handle(body: bytes) -> None:
        seen.append(body)
        if body == b"000":
            world.behind.administration.alter("IN", {"get_inhibited": True})

    world.until(app, lambda: any(isinstance(event, ListenerPaused) for event in world.events))

    assert ([b"000"], "DC", 1) == (seen, world.shape(), world.depth())


def test_a_stuck_handler_is_reported_with_the_stack_of_the_thread_of_its_session(world: World) -> None:
    app, go_on = App(), threading.Event()
    world.put(b"x")

    @app.listener("IN", stuck_after_s=0.01)
    def handle(_: bytes) -> None:
        assert go_on.wait(LIMIT_S)

    world.until(app, lambda: any(isinstance(event, HandlerStuck) for event in world.events), go_on.set)

    [stuck] = [event for event in world.events if isinstance(event, HandlerStuck)]
    assert "go_on.wait" in stuck.stack
    assert 0 == world.depth()


@pytest.mark.parametrize("kept", ["a time limit", "a time limit of the settings", "a batch", "middleware", "an async handler"])
def test_a_handler_that_needs_the_event_loop_does_not_run_on_the_thread_of_its_session(world: World, kept: str) -> None:
    class Layer:
        async def consume(self, delivery: Any, call_next: Any) -> Any:
            return await call_next(delivery)

    limits = {"IN": ListenerSettings(time_limit_s=10)} if kept == "a time limit of the settings" else {}
    layers = [Layer()] if kept == "middleware" else []
    app, names = App(middleware=layers, settings=Settings(listeners=limits)), list[str]()
    world.put(b"x")

    def handle(_: bytes) -> None:
        names.append(threading.current_thread().name)

    def handle_batch(_: list[bytes]) -> None:
        names.append(threading.current_thread().name)

    async def handle_async(_: bytes) -> None:
        names.append(threading.current_thread().name)

    handlers: dict[str, Any] = {"a batch": handle_batch, "an async handler": handle_async}
    app.listener("IN", time_limit_s=10 if kept == "a time limit" else None)(handlers.get(kept, handle))
    world.until(app, world.committed(1))

    [name] = names
    assert name != SESSION


def test_the_time_of_a_failed_handling_counts_from_its_begin_on_the_thread(world: World) -> None:
    app, clock = App(), VirtualClock()
    world.put(b"x")

    @app.listener("IN")
    def handle(_: bytes) -> None:
        clock.advance(5)
        raise ValueError

    world.until(app, world.committed(1), clock=clock)

    [end] = [event for event in world.events if isinstance(event, Settled)]
    assert 5 == end.handled_s


def test_a_message_that_was_poison_before_is_moved_and_no_handler_gets_it(world: World) -> None:
    world.mqsc("ALTER QLOCAL(IN) BOTHRESH(2)")
    connection = world.behind.connect()
    handle_in = connection.open("IN", OpenOption.INPUT_SHARED)
    world.put(b"poison")
    for _ in range(2):
        connection.get(handle_in, GetOptions(options=GetOption.SYNCPOINT))
        connection.backout()
    app, seen = noting()
    connection.put1("IN", MessageDescriptor(format="MQSTR", priority=9), b"before", PutOption.NO_SYNCPOINT)
    world.put(b"after")

    world.until(app, world.committed(3))

    assert [b"before", b"after"] == seen
    assert [b"poison"] == world.bodies("BOQ")


def test_a_poison_message_from_the_staging_queue_is_moved_also_if_a_new_message_follows_in_its_unit(world: World) -> None:
    world.mqsc("ALTER QLOCAL(IN) BOTHRESH(2)")
    app, seen = noting(unit_of_work=2)
    connection = world.behind.connect()
    for new in (numbered(4)[:3], numbered(4)[3:]):  # units of work: poison and 0, 1 and 2, poison and 3
        connection.put1("IN", *with_count(MessageDescriptor(format="MQSTR"), b"poison", 2), PutOption.NO_SYNCPOINT)
        world.put(*new)

    world.until(app, world.committed(6))

    assert numbered(4) == seen
    assert [b"poison"] * 2 == world.bodies("BOQ")


def test_sixteen_workers_handle_each_message_once(world: World) -> None:
    app, seen = noting(concurrency=16)
    world.put(*numbered(400))

    world.until(app, world.committed(400))

    assert numbered(400) == sorted(seen)
    assert len(set(world.ids(Settlement.COMMIT))) == 400


@dataclass
class Course:
    """A run of a list of messages: a behaviour for each delivery of each message, and the observed calls and events."""

    messages: Sequence[Sequence[str]]
    unit_of_work: int
    calls: list[tuple[int, str]] = field(default_factory=list)

    def behave(self, body: bytes) -> Outcome | None:
        """Behave as planned at this delivery of the message; after the plan, complete."""
        number = int(body)
        delivery = sum(each == number for each, _ in self.calls)
        plan = self.messages[number]
        behaviour = plan[delivery] if delivery < len(plan) else "complete"
        self.calls.append((number, behaviour))
        match behaviour:
            case "raise":
                raise ValueError(behaviour)
            case "reject":
                raise Reject(behaviour)
            case "fail":
                return Failed("Planned", behaviour)
            case "exit":
                raise SystemExit(behaviour)
            case _:
                return None

    def run(self, world: World, *, is_plain: bool) -> object:
        """Run the messages; return the calls, the events and the moved messages, without identifiers and times."""
        world.mqsc("ALTER QLOCAL(IN) BOTHRESH(3)")
        world.put(*numbered(len(self.messages)))
        app = App()

        def handle(body: bytes) -> Outcome | None:
            return self.behave(body)

        async def handle_on_the_loop(body: bytes) -> Outcome | None:
            return self.behave(body)

        listen = app.listener("IN", unit_of_work=self.unit_of_work, backout=AT_ONCE, name="listener")
        listen(handle if is_plain else handle_on_the_loop)
        world.until(app, world.committed(len(self.messages)))
        first: dict[bytes, int] = {}
        for event in world.events:
            if isinstance(event, Delivered):
                first.setdefault(event.message_id, len(first))
        return self.calls, [shown for event in world.events if (shown := self._shown(event, first))], world.bodies("BOQ")

    @staticmethod
    def _shown(event: Event, first: dict[bytes, int]) -> object:
        match event:
            case Delivered():
                return "delivered", first[event.message_id], event.backout_count
            case Settled():
                ids = [first[each] for each in event.message_ids], [first[each] for each in event.others]
                return "settled", event.settlement, *ids, event.outcome
            case Decided():
                return "decided", first[event.message_id], event.backout_count, event.plan, event.outcome
            case Disposed():
                return "disposed", first[event.message_id], event.backout_count, event.outcome
            case _:
                return None


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.sampled_from(["complete", "raise", "fail", "reject", "exit"]), max_size=3), min_size=1, max_size=8),
    st.integers(1, 4),
)
def test_a_handler_on_a_thread_has_the_same_calls_decisions_and_events_as_one_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, backend: str, messages: list[list[str]], unit_of_work: int
) -> None:
    monkeypatch.setattr(threaded_session, "_THREADED_WAIT_MS", 20)
    on_the_loop = Course(messages, unit_of_work).run(World(backend), is_plain=False)
    on_the_thread = Course(messages, unit_of_work).run(World(backend), is_plain=True)

    assert on_the_loop == on_the_thread
