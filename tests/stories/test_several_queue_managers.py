"""One application on two queue managers: an outage of one concerns only its own listeners, and both drain together."""

from functools import partial

import anyio
import pytest

from mqflow import App, Context, MQIError, Settings
from mqflow.app.config.settings import ReconnectSettings
from mqflow.events import ReadinessChanged, Reconnected, Reconnecting, Settled, Warned
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.testing.faults import CONNECT, FOREVER, Fault
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


class Program:
    """An application that books orders on QM1, and the application on QM2 that it includes; a handler can wait."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.calls: list[str] = []
        self.go_on = anyio.Event()
        self.go_on.set()
        self.app = App(name="orders", settings=settings)
        self.archive = App(name="archive")
        self.app.include_app(self.archive)
        for app in (self.app, self.archive):
            app.listener("IN", concurrency=2)(self.pass_on)
            app.on_start(partial(self.calls.append, f"{app.name} starts"))
            app.on_stop(partial(self.calls.append, f"{app.name} stops"))

    async def pass_on(self, body: str, ctx: Context) -> None:
        await self.go_on.wait()
        await ctx.put("OUT", body)


@pytest.fixture
def qm2(mq: QueueManagerKit) -> QueueManagerKit:
    qm2 = mq.beside("QM2")
    for kit in (mq, qm2):
        kit.define("OUT")
        kit.define("BOQ")
        kit.define("IN", bothresh=3, boqname="BOQ")
    return qm2


async def put_all(kit: QueueManagerKit, *bodies: str) -> None:
    for body in bodies:
        await kit.put("IN", body)


async def drained(kit: QueueManagerKit, count: int = 1) -> list[str]:
    return sorted(found.text() for found in await kit.drain("OUT", at_least=count))


async def test_an_outage_of_one_queue_manager_stops_no_listener_of_the_other(mq: QueueManagerKit, qm2: QueueManagerKit) -> None:
    program = Program()
    async with mq.run(program.app, others={"archive": qm2}) as running:
        await running.wait_ready()
        with qm2.faults.outage():
            await put_all(qm2, "3")
            await anyio.sleep(60)
            await put_all(mq, "1", "2")
            away = (running.ready, running.missing, await drained(mq, 2), mq.depth("IN"), qm2.depth("IN"))
        await running.wait_ready()
        back = await drained(qm2)

    assert (False, ("archive: IN",), ["1", "2"], 0, 1) == away
    assert ["3"] == back
    assert ([], []) == (mq.told(Reconnecting), mq.told(Reconnected))
    assert ["QM2"] == [event.queue_manager for event in qm2.told(Reconnected)]
    assert [True, False, True, False] == [event.ready for event in mq.told(ReadinessChanged)]
    assert [] == qm2.told(ReadinessChanged)
    committed = [
        [(e.listener, len(e.message_ids)) for e in kit.told(Settled) if e.settlement is Settlement.COMMIT] for kit in (mq, qm2)
    ]
    assert [[("pass_on", 1)] * 2, [("archive:pass_on", 1)]] == committed
    assert ["archive starts", "orders starts", "orders stops", "archive stops"] == program.calls


@pytest.mark.parametrize("away", ["orders", "archive"])
async def test_the_listeners_of_one_queue_manager_work_while_the_start_waits_for_the_other(
    mq: QueueManagerKit, qm2: QueueManagerKit, away: str
) -> None:
    program = Program(Settings(reconnect=ReconnectSettings(start_limit_s=600)))
    gone, other = (mq, qm2) if away == "orders" else (qm2, mq)
    found = list[object]()

    async def start() -> None:
        async with mq.run(program.app, others={"archive": qm2}) as running:
            await running.wait_ready()
            await put_all(gone, "2")
            found.extend(await drained(gone))

    async with anyio.create_task_group() as group:
        with gone.faults.outage():
            group.start_soon(start)
            await put_all(other, "1")
            found.extend(await drained(other))
            found.append(program.app.current is not None and program.app.current.ready)

    assert ["1", False, "2"] == found


async def test_a_start_fails_if_one_queue_manager_cannot_be_reached(mq: QueueManagerKit, qm2: QueueManagerKit) -> None:
    qm2.faults.add(Fault(verb=CONNECT, reason=Reason.Q_MGR_NOT_AVAILABLE, times=FOREVER))
    program = Program()

    with pytest.raises(MQIError, match="2059"):
        async with mq.run(program.app, others={"archive": qm2}):
            pass

    assert ["archive starts", "orders starts", "orders stops", "archive stops"] == program.calls


async def test_both_queue_managers_drain_at_the_same_time(mq: QueueManagerKit, qm2: QueueManagerKit) -> None:
    program, began, took_s = Program(), 0.0, 0.0
    program.go_on = anyio.Event()
    async with anyio.create_task_group() as group:
        async with mq.run(program.app, others={"archive": qm2}, drain_s=20):
            for kit in (mq, qm2):
                await put_all(kit, "1", "2", "3")  # two are in handlers, the third one stays
            await anyio.sleep(1)
            began = anyio.current_time()

            async def release() -> None:
                await anyio.sleep(15)
                program.go_on.set()

            group.start_soon(release)
        took_s = anyio.current_time() - began

    assert 15 <= took_s < 16
    assert [(1, ["1", "2"])] * 2 == [(kit.depth("IN"), await drained(kit, 2)) for kit in (mq, qm2)]


async def test_handlers_of_both_are_cut_off_when_the_one_drain_is_over(mq: QueueManagerKit, qm2: QueueManagerKit) -> None:
    program = Program()
    program.go_on = anyio.Event()
    async with mq.run(program.app, others={"archive": qm2}, drain_s=20):
        for kit in (mq, qm2):
            await put_all(kit, "1")
        await anyio.sleep(1)
        began = anyio.current_time()

    assert 20 <= anyio.current_time() - began < 21
    assert [1, 1] == [kit.depth("IN") for kit in (mq, qm2)]


async def test_a_stop_and_a_second_signal_concern_the_handlers_of_every_queue_manager(
    mq: QueueManagerKit, qm2: QueueManagerKit
) -> None:
    program = Program()
    program.go_on = anyio.Event()
    program.archive.listener("LONG", time_limit_s=600)(program.pass_on)
    qm2.define("LONG")

    @program.app.on_start
    def watch() -> None:
        assert program.app.current is not None
        program.app.current.watch()

    async with mq.run(program.app, others={"archive": qm2}) as running:
        await put_all(qm2, "1")
        await anyio.sleep(1)
        idle = [each.workers[0].since is not None for each in running.listeners()]
        program.app.stop()
        await put_all(qm2, "2", "3")
        await anyio.sleep(1)
        cancelled = running.cancel()
        left = running.left_after(0.0)
        await anyio.sleep(1)

    assert ([True] * 3, True, True, 600) == (idle, cancelled, running.cut_off, running.time_limit_s)
    assert left.startswith("listener archive:pass_on")
    assert 3 == qm2.depth("IN")


@pytest.mark.parametrize("first", ["orders", "archive"])
async def test_a_queue_manager_that_is_given_up_ends_only_its_own_listeners_unless_it_is_the_last(
    mq: QueueManagerKit, qm2: QueueManagerKit, first: str
) -> None:
    program = Program()
    gone, other = (mq, qm2) if first == "orders" else (qm2, mq)
    states, missing, told = list[object](), list[str](), list[str]()
    with pytest.raises(MQIError, match="2035"):  # noqa: PT012 - the end of the block raises it
        async with mq.run(program.app, others={"archive": qm2}) as running:
            await running.wait_ready()
            await give_up(gone)
            await put_all(other, "1")
            states += [await drained(other), running.ready, running.incidents]
            missing.extend(running.missing)
            told.extend(event.text for event in gone.told(Warned))
            await give_up(other)
            raise AssertionError("the application goes on without any queue manager")

    assert [["1"], False, 1] == states
    assert "2035" in missing[-1]
    assert [first == "archive"] == list({each.startswith("archive: IN") for each in missing})
    assert 1 == sum("is given up, and its listeners have ended" in text and "2035" in text for text in told)


async def give_up(kit: QueueManagerKit) -> None:
    """Break the connections, and refuse each further one for a reason that no retry helps."""
    with kit.faults.outage():
        await anyio.sleep(60)
    kit.faults.add(Fault(verb=CONNECT, reason=Reason.NOT_AUTHORIZED, times=FOREVER))
    with kit.faults.outage():
        await anyio.sleep(60)
    await anyio.sleep(60)


async def test_a_handler_that_waits_to_put_on_a_queue_manager_that_is_away_gives_its_message_back_at_the_stop(
    mq: QueueManagerKit, qm2: QueueManagerKit
) -> None:
    program, errors = Program(), list[int]()

    @program.app.listener("MORE")
    async def copy(body: str) -> None:
        try:
            await program.archive.put("OUT", body)
        except MQIError as error:
            errors.append(int(error.reason))
            raise

    mq.define("MORE", bothresh=3, boqname="BOQ")
    async with mq.run(program.app, others={"archive": qm2}):
        with qm2.faults.outage():
            await mq.put("MORE", "1")
            await anyio.sleep(600)
            before = list(errors)
            program.app.stop()
            await anyio.sleep(1)

    assert ([], [Reason.CONNECTION_QUIESCING]) == (before, errors)
    assert (1, 0, 0) == (mq.depth("MORE"), mq.depth("BOQ"), qm2.depth("OUT"))
