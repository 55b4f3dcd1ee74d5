"""Puts that wait while a commit is under way share the next commit, and each call gets its own result.

Source: docs/life-of-a-message.md, "Puts outside of deliveries share commits"; IBM q026790: a commit is for all puts of a unit
of work, and a refused MQPUT changes no other put.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from mqflow import App, MQIError
from mqflow.app.handlers.outgoing_message import Outgoing, Send
from mqflow.app.run import put_session
from mqflow.events import Event, InDoubt
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.testing.virtual_time import Backend, run
from mqflow.verbs import Put
from mqflow.world import SYSTEM_RANDOM
from tests.app.run.held_commits import Answer, HeldCommits

pytestmark = pytest.mark.mq_backend("asyncio", "trio")
BOTH: tuple[Backend, ...] = ("asyncio", "trio")


class Middleware:
    """Publish middleware that counts its calls and notes the MsgIds. It raises after the put of a body with "raises"."""

    def __init__(self) -> None:
        self.calls = Counter[str]()
        self.message_ids: dict[str, bytes] = {}
        self.may_return: anyio.Event | None = None

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        body = message.body.decode()
        self.calls[body] += 1
        put = await call_next(message)
        self.message_ids[body] = put.descriptor.message_id
        if "stays" in body and self.may_return is not None:
            await self.may_return.wait()
        if "raises" in body:
            raise ValueError(body)
        return put


class Producers:
    """An application, and the ends of its puts by body: the `Put`, or the exception."""

    def __init__(self, clock: VirtualClock, *, within: bool = False) -> None:
        self.manager = HeldCommits()
        self.middleware = Middleware()
        self.events: list[Event] = []
        self.app = App(middleware=[self.middleware] if within else [], hooks=[lambda event: self.events.append(event)])  # noqa: PLW0108 - a hook is called by keyword too
        self.ends: dict[str, Put | BaseException] = {}
        self.scopes: dict[str, anyio.CancelScope] = {}
        self.clock = clock

    @asynccontextmanager
    async def running(self) -> AsyncIterator[anyio.abc.TaskGroup]:
        async with (
            self.app.running(self.manager, clock=self.clock, random=SYSTEM_RANDOM, listen=False),
            anyio.create_task_group() as group,
        ):
            yield group

    async def put(self, body: str, *, message_id: bytes | None = None) -> None:
        try:
            with anyio.CancelScope() as self.scopes[body]:
                self.ends[body] = await self.app.put("OUT", body, message_id=message_id)
        except BaseException as error:
            self.ends[body] = error
            if not isinstance(error, Exception):
                raise

    async def line_up(self, group: anyio.abc.TaskGroup, *bodies: str) -> None:
        """Put "first", and these bodies while its commit is under way."""
        group.start_soon(self.put, "first")
        await self.manager.next_commit()
        for body in bodies:
            group.start_soon(self.put, body)
        await self.manager.next_commit()

    def run(self, main: Callable[[], Awaitable[None]], backend: Backend) -> None:
        async def bounded() -> None:
            await main()

        run(bounded, backend=backend, clock=self.clock)

    @property
    def doubts(self) -> list[InDoubt]:
        return [event for event in self.events if isinstance(event, InDoubt)]

    def succeeded(self) -> list[str]:
        return sorted(body for body, end in self.ends.items() if isinstance(end, Put))

    def bodies(self) -> list[str]:
        return sorted(got.body.decode() for got in self.manager.messages())


def told(end: object, reason: int) -> bool:
    return isinstance(end, MQIError) and end.reason == reason


@pytest.mark.parametrize("within", [False, True], ids=["plain", "within middleware"])
async def test_puts_that_wait_while_a_commit_is_under_way_share_the_next_commit(mq: QueueManagerKit, *, within: bool) -> None:
    producers = Producers(mq.clock, within=within)
    manager = producers.manager
    async with producers.running() as group:
        group.start_soon(producers.put, "first")
        assert [b"first"] == await manager.next_commit()
        for number in range(5):
            group.start_soon(producers.put, f"{number}")
        await manager.next_commit()
        assert {} == producers.ends
        manager.answer()
        shared = await manager.next_commit()
        assert [b"0", b"1", b"2", b"3", b"4"] == sorted(shared)
        assert ["first"] == producers.succeeded()
        manager.answer()

    assert ["0", "1", "2", "3", "4", "first"] == producers.succeeded() == producers.bodies()
    assert [1, 5] == [len(each) for each in manager.commits]
    assert set(producers.middleware.calls.values()) <= {1}


async def test_a_commit_is_for_at_most_64_messages(mq: QueueManagerKit) -> None:
    producers = Producers(mq.clock)
    async with producers.running() as group:
        group.start_soon(producers.put, "first")
        await producers.manager.next_commit()
        for number in range(100):
            group.start_soon(producers.put, f"{number}")
        for _ in range(3):
            await producers.manager.next_commit()
            producers.manager.answer()

    assert [1, 64, 36] == [len(each) for each in producers.manager.commits]
    assert 101 == len(producers.bodies()) == len(producers.succeeded())


@pytest.mark.parametrize("within", [False, True], ids=["plain", "within middleware"])
@pytest.mark.parametrize("reason", [Reason.Q_FULL, Reason.PUT_INHIBITED, Reason.NOT_AUTHORIZED, Reason.Q_DELETED])
async def test_a_refused_put_fails_its_own_caller_only(mq: QueueManagerKit, reason: int, *, within: bool) -> None:
    producers = Producers(mq.clock, within=within)

    def refuse(body: bytes) -> None:
        if body == b"refused":
            raise error_for(reason, "MQPUT", "OUT", "QM1")

    async with producers.running() as group:
        producers.manager.before_put = refuse
        group.start_soon(producers.put, "first")
        await producers.manager.next_commit()
        for body in ("a", "refused", "b"):
            group.start_soon(producers.put, body)
        group.start_soon(producers.manager.answer_all)
        while len(producers.ends) < 4:
            await checkpoint()
        group.cancel_scope.cancel()

    assert told(producers.ends["refused"], reason)
    assert ["a", "b", "first"] == producers.succeeded() == producers.bodies()
    assert [1, 2] == [len(each) for each in producers.manager.commits]


@pytest.mark.parametrize("within", [False, True], ids=["plain", "within middleware"])
@pytest.mark.parametrize(("how", "found"), [(Answer.LOST_BEFORE, []), (Answer.LOST_AFTER, ["a", "b"])])
async def test_a_commit_without_an_answer_is_in_doubt_for_exactly_its_messages(
    mq: QueueManagerKit, how: Answer, found: Sequence[str], *, within: bool
) -> None:
    producers = Producers(mq.clock, within=within)
    async with producers.running() as group:
        await producers.line_up(group, "a", "b")
        producers.manager.answer()
        assert [b"a", b"b"] == sorted(await producers.manager.next_commit())
        group.start_soon(producers.put, "later")
        await producers.manager.next_commit()
        producers.manager.answer(how)
        assert [b"later"] == await producers.manager.next_commit()
        producers.manager.answer()

    assert ["first", "later"] == producers.succeeded()
    assert sorted(["first", "later", *found]) == producers.bodies()
    named = [identifier for doubt in producers.doubts for identifier in doubt.put_message_ids]
    assert 2 == len(producers.doubts) == len(set(named))
    errors = [producers.ends["a"], producers.ends["b"]]
    assert errors[0] is not errors[1]
    for error in errors:
        assert told(error, Reason.CONNECTION_BROKEN)
        assert 1 == sum(identifier.hex() in str(error) for identifier in named)
    assert not any(identifier.hex() in str(errors[0]) and identifier.hex() in str(errors[1]) for identifier in named)


@pytest.mark.parametrize("within", [False, True], ids=["plain", "within middleware"])
@pytest.mark.parametrize("how", [Answer.BACKED_OUT, Answer.ENDED])
async def test_after_a_backout_of_a_shared_commit_each_call_is_put_again_alone(
    mq: QueueManagerKit, how: Answer, *, within: bool
) -> None:
    producers = Producers(mq.clock, within=within)
    async with producers.running() as group:
        await producers.line_up(group, "a", "b")
        producers.manager.answer()
        await producers.manager.next_commit()
        producers.manager.answer(how)
        await producers.manager.next_commit()
        producers.manager.answer(Answer.BACKED_OUT)  # the queue manager does not take this one
        await producers.manager.next_commit()
        producers.manager.answer()

    assert [1, 2, 1, 1] == [len(each) for each in producers.manager.commits]
    assert sorted(["first", producers.manager.commits[3][0].decode()]) == producers.succeeded() == producers.bodies()
    assert told(producers.ends[producers.manager.commits[2][0].decode()], Reason.BACKED_OUT)
    assert [] == producers.doubts
    assert set(producers.middleware.calls.values()) <= {1}


@pytest.mark.parametrize("within", [False, True], ids=["plain", "within middleware"])
async def test_a_put_that_breaks_each_connection_fails_alone_after_four(mq: QueueManagerKit, *, within: bool) -> None:
    producers = Producers(mq.clock, within=within)
    broken = list[bytes]()

    def breaks(body: bytes) -> None:
        if body == b"poison":
            broken.append(body)
            for connection in tuple(producers.manager.behind._state.connections):
                connection.end(Reason.CONNECTION_BROKEN)
            raise error_for(Reason.CONNECTION_BROKEN, "MQPUT", "OUT", "QM1")

    async with producers.running() as group:
        producers.manager.before_put = breaks
        await producers.line_up(group, "a", "poison", "b")
        producers.manager.answer()
        await producers.manager.next_commit()
        producers.manager.answer()

    assert 4 == len(broken)
    assert told(producers.ends["poison"], Reason.CONNECTION_BROKEN)
    assert ["a", "b", "first"] == producers.succeeded() == producers.bodies()
    assert [] == producers.doubts
    assert set(producers.middleware.calls.values()) <= {1}


@pytest.mark.parametrize("within", [False, True], ids=["plain", "within middleware"])
async def test_a_caller_that_is_cancelled_in_line_puts_nothing(mq: QueueManagerKit, *, within: bool) -> None:
    producers = Producers(mq.clock, within=within)
    async with producers.running() as group:
        await producers.line_up(group, "a", "gone")
        producers.scopes["gone"].cancel()
        await checkpoint()
        producers.manager.answer()
        assert [b"a"] == await producers.manager.next_commit()
        producers.manager.answer()

    assert ["a", "first"] == producers.succeeded() == producers.bodies()
    assert [] == producers.doubts


@pytest.mark.parametrize("way", ["cancelled", "raises"])
async def test_a_caller_that_leaves_after_its_put_takes_only_its_own_message_out_of_the_commit(
    mq: QueueManagerKit, way: str
) -> None:
    """The other messages are put again: their MsgIds stay, and their middleware is not called again."""
    producers = Producers(mq.clock, within=True)
    async with producers.running() as group:
        producers.middleware.may_return = anyio.Event()
        await producers.line_up(group, "a", f"stays and {way}", "b")
        producers.manager.answer()
        while len(producers.middleware.message_ids) < 4:
            await checkpoint()
        if way == "cancelled":
            producers.scopes["stays and cancelled"].cancel()
        else:
            producers.middleware.may_return.set()
        assert [b"a", b"b"] == sorted(await producers.manager.next_commit())
        producers.manager.answer()

    found = {got.body.decode(): got.descriptor.message_id for got in producers.manager.messages()}
    assert ["a", "b", "first"] == producers.succeeded() == sorted(found)
    assert {1} == set(producers.middleware.calls.values())
    assert found == {body: producers.middleware.message_ids[body] for body in found}
    assert [] == producers.doubts


async def test_a_caller_that_is_cancelled_while_its_commit_is_under_way_gets_the_result(mq: QueueManagerKit) -> None:
    producers = Producers(mq.clock)
    async with producers.running() as group:
        await producers.line_up(group, "a", "b")
        producers.manager.answer()
        await producers.manager.next_commit()
        producers.scopes["a"].cancel()
        await checkpoint()
        assert "a" not in producers.ends
        producers.manager.answer()

    assert ["a", "b", "first"] == producers.succeeded() == producers.bodies()
    assert [] == producers.doubts


@pytest.mark.mq_backend("asyncio")
@pytest.mark.parametrize("within", [False, True], ids=["plain", "within middleware"])
async def test_asyncios_own_cancellation_of_one_caller_leaves_the_shared_commit_alone(
    mq: QueueManagerKit, *, within: bool
) -> None:
    """Such a cancellation ignores shields: the caller leaves at once, and an event names its message."""
    producers = Producers(mq.clock, within=within)
    async with producers.running() as group:
        group.start_soon(producers.put, "first")
        await producers.manager.next_commit()
        task = asyncio.create_task(producers.put("gone"))
        group.start_soon(producers.put, "b")
        await producers.manager.next_commit()
        producers.manager.answer()
        await producers.manager.next_commit()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        producers.manager.answer()

    assert ["b", "first"] == producers.succeeded()
    assert ["b", "first", "gone"] == producers.bodies()
    assert 1 == len(producers.doubts) == len(producers.doubts[0].put_message_ids)


async def _one_after_the_other(put: Awaitable[object], another: Awaitable[object]) -> None:
    await put
    await another


async def _in_a_task_group(put: Awaitable[object], another: Awaitable[object]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_one_after_the_other, put, checkpoint())
        tasks.start_soon(_one_after_the_other, another, checkpoint())


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "in a shared unit of work"])
@pytest.mark.parametrize(
    ("backend", "both_puts"),
    [
        *[(backend, way) for backend in BOTH for way in (_one_after_the_other, _in_a_task_group)],
        ("asyncio", asyncio.gather),
        ("asyncio", lambda put, another: asyncio.gather(another, put)),
    ],
)
def test_publish_middleware_can_wait_for_a_put_beside_its_own(
    backend: Backend, both_puts: Callable[..., Awaitable[object]], *, shared: bool
) -> None:
    class PutsAgain:
        async def publish(self, message: Outgoing, call_next: Send) -> Put:
            if message.body != b"one":
                return await call_next(message)
            puts: list[Put] = []

            async def put() -> None:
                puts.append(await call_next(message))

            await both_puts(put(), producers.app.put("OUT", "another"))
            return puts[0]

    producers = Producers(VirtualClock())
    producers.app.middleware.append(PutsAgain())

    async def main() -> None:
        async with producers.running() as group:
            if shared:
                await producers.line_up(group, "one", "other")
            else:
                group.start_soon(producers.put, "one")
            group.start_soon(producers.manager.answer_all)
            while len(producers.ends) < (3 if shared else 1):
                await checkpoint()
            group.cancel_scope.cancel()

    producers.run(main, backend)

    assert "one" in producers.succeeded()
    assert sorted(["another", *producers.succeeded()]) == producers.bodies()


async def test_publish_middleware_that_puts_for_each_of_its_own_puts_gets_an_error(mq: QueueManagerKit) -> None:
    class PutsForEver:
        async def publish(self, message: Outgoing, call_next: Send) -> Put:
            put = await call_next(message)
            await app.put("OUT", "another")
            return put

    app, manager = App(middleware=[PutsForEver()]), HeldCommits()

    async with app.running(manager, listen=False):
        with pytest.raises(RuntimeError, match=r"in each of 9 puts, .* a message for each message that it has put itself"):
            await app.put("OUT", "one")

    assert [] == manager.messages()


async def test_middleware_with_a_unit_of_work_does_not_wait_for_a_queue_manager_that_quiesces(mq: QueueManagerKit) -> None:
    class PutsWhenItQuiesces:
        async def publish(self, message: Outgoing, call_next: Send) -> Put:
            put = await call_next(message)
            if message.body == b"one":
                mq.queue_manager.stop(immediate=False)
                await app.put("OUT", "another")
            return put

    mq.define("OUT")
    app = App(middleware=[PutsWhenItQuiesces()])
    async with mq.run(app):
        with anyio.fail_after(60), pytest.raises(MQIError) as refused:
            await app.put("OUT", "one")

    assert Reason.Q_MGR_QUIESCING == refused.value.reason


async def test_middleware_can_start_a_task_that_puts_and_outlives_it(mq: QueueManagerKit) -> None:
    class Audits:
        tasks: TaskGroup

        async def publish(self, message: Outgoing, call_next: Send) -> Put:
            put = await call_next(message)
            if message.body == b"one":
                self.tasks.start_soon(app.put, "OUT", "audit")
            return put

    audits = Audits()
    mq.define("OUT")
    app = App(middleware=[audits])

    async with mq.run(app), anyio.create_task_group() as audits.tasks:
        await app.put("OUT", "one")

    assert ["one", "audit"] == [message.text() for message in mq.browse("OUT")]


async def test_callers_in_line_get_2202_when_the_application_ends(mq: QueueManagerKit) -> None:
    producers = Producers(mq.clock)
    async with anyio.create_task_group() as group:
        async with producers.running():
            group.start_soon(producers.put, "first")
            await producers.manager.next_commit()
            for body in ("a", "b"):
                group.start_soon(producers.put, body)
            await producers.manager.next_commit()
            producers.manager.answer()
            await producers.manager.next_commit()
            group.start_soon(producers.put, "late")
            group.start_soon(producers.manager.answer_all)
            await checkpoint()
        while len(producers.ends) < 4:
            await checkpoint()
        group.cancel_scope.cancel()

    assert told(producers.ends["late"], Reason.CONNECTION_QUIESCING)
    assert ["a", "b", "first"] == producers.succeeded() == producers.bodies()


# -- for all publishers, failures and cancellations


FATES = ("", "", "", "raises", "refused", "poison", "leaves")
publishers = st.lists(st.lists(st.sampled_from(FATES), min_size=1, max_size=4), min_size=1, max_size=6)
answers = st.lists(st.sampled_from([Answer.COMMITTED, *Answer]), max_size=6)


@settings(deadline=None)
@given(
    backend=st.sampled_from(BOTH),
    fates=publishers,
    how=answers,
    within=st.booleans(),
    cancelled=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60)), max_size=4),
)
def test_each_put_is_on_the_queue_once_unless_its_caller_gets_another_answer(
    backend: Backend, fates: list[list[str]], how: list[Answer], cancelled: list[tuple[int, int]], *, within: bool
) -> None:
    producers = Producers(VirtualClock(), within=within)
    manager, planned = producers.manager, list[list[str]]()
    for publisher, each in enumerate(fates):
        planned.append([f"{publisher}.{number} {fate}" for number, fate in enumerate(each)])
    bodies = [body for each in planned for body in each]

    def before_put(body: bytes) -> None:
        if b"refused" in body:
            raise error_for(Reason.Q_FULL, "MQPUT", "OUT", "QM1")
        if b"poison" in body:
            for connection in tuple(manager.behind._state.connections):
                connection.end(Reason.CONNECTION_BROKEN)
            raise error_for(Reason.CONNECTION_BROKEN, "MQPUT", "OUT", "QM1")

    async def publish(those: list[str]) -> None:
        for body in those:
            await producers.put(body, message_id=body.encode().ljust(24))

    async def cancel(publisher: int, turns: int) -> None:
        for _ in range(turns):
            await checkpoint()
        for body in planned[publisher % len(planned)]:
            if body in producers.scopes and body not in producers.ends:
                producers.scopes[body].cancel()

    async def main() -> None:
        manager.before_put = before_put
        async with anyio.create_task_group() as answering:
            answering.start_soon(manager.answer_all, *how)
            async with producers.running() as group:
                for those in planned:
                    group.start_soon(publish, those)
                for publisher, turns in cancelled:
                    group.start_soon(cancel, publisher, turns)
            answering.cancel_scope.cancel()

    producers.run(main, backend)

    on_queue = [got.body.decode() for got in manager.messages()]
    found = Counter(on_queue)
    in_doubt = Counter(identifier.rstrip().decode() for event in producers.doubts for identifier in event.put_message_ids)
    assert set(in_doubt.values()) <= {1}
    assert set(found.values()) <= {1}
    for body in bodies:
        end = producers.ends.get(body)
        match end:
            case Put():
                assert (1, 0) == (found[body], in_doubt[body.rstrip()]), body
            case MQIError() if "may be on" in str(end):
                assert 1 == in_doubt[body.rstrip()], body
            case _:  # refused, cancelled or never begun: on no queue, unless an event says that nobody knows
                assert found[body] <= in_doubt[body.rstrip()], body
                assert not in_doubt[body.rstrip()] or not isinstance(end, Exception), body
    assert set(producers.middleware.calls.values()) <= {1}
    for those in planned:  # one publisher has one put at a time, so its messages keep their order
        assert [body for body in those if body in found] == [body for body in on_queue if body in those]


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("before", [False, True])
async def test_a_put_or_request_after_the_sessions_are_closed_gets_2202_and_opens_no_connection(
    mq: QueueManagerKit, *, before: bool, within: bool
) -> None:
    mq.define("OUT")
    app = App(middleware=[Middleware()] if within else [])
    others = mq.queue_manager.administration.objects.connections()

    async with app.running(mq.queue_manager, listen=False) as running:
        if before:
            await app.put("OUT", "before")
        await running.close_sessions()
        for put in (
            lambda: app.put("OUT", "late"),
            lambda: app.put_many("OUT", ["late", "later"]),
            lambda: app.request("OUT", "late", reply=str, timeout_s=1),
        ):
            with pytest.raises(MQIError) as refused:
                await put()
            assert Reason.CONNECTION_QUIESCING == refused.value.reason

        assert others == mq.queue_manager.administration.objects.connections()
        assert int(before) == mq.depth("OUT")


@pytest.mark.parametrize("within", [False, True])
async def test_a_put_whose_turn_begins_while_the_sessions_close_gets_2202(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch, *, within: bool
) -> None:
    mq.define("OUT")
    app = App(middleware=[Middleware()] if within else [])

    async with app.running(mq.queue_manager, listen=False) as running:
        monkeypatch.setattr(put_session, "_TURNS_BEFORE_YIELD", 1)
        monkeypatch.setattr(put_session, "checkpoint", running.close_sessions)
        with pytest.raises(MQIError) as refused:
            await app.put("OUT", "late")

    assert (Reason.CONNECTION_QUIESCING, 0) == (refused.value.reason, mq.depth("OUT"))
