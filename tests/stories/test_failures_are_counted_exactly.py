"""Every failure counts once: in the handler, the header of the moved message, the events, the records and the queue.

Random handlers run with random concurrency and units of work. The handler keeps a log of its own; everything else must agree
with this log, and the log with the threshold.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow import App, Backout, Batch, Context, Pace, Reject
from mqflow.app.config.settings import Settings
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.events import Disposed
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE
from mqflow.testing.fault_runs import run_once
from mqflow.testing.kit import QueueManagerKit, carry_out
from mqflow.testing.virtual_time import Backend
from mqflow.verbs import QueueManager
from tests.long import usually
from tests.otel.harness import Telemetry
from tests.stories.counting import ACTS, THRESHOLD, NeverRetryError, Order, Script, check, check_spans, completes, failures

MESSAGES = usually(24, long=60)

#: One script for each message: what its handler does, one failure after the other. A completing script puts a message.
SCRIPT = st.one_of(
    st.tuples(st.lists(st.sampled_from(sorted(ACTS)), max_size=THRESHOLD), st.booleans()), st.just((["undecodable"], False))
)


class Handlers:
    """Handlers that follow the scripts, and the log that they keep of their calls."""

    def __init__(self, scripts: list[Script]) -> None:
        self.scripts: Final = scripts
        self.failed: Final = Counter[int]()
        self.completed: Final = Counter[int]()
        self.in_failed_batches: Final = Counter[int]()
        #: The messages of batches, without the first message of each batch.
        self.others_of_batches = 0

    async def handle(self, order: Order, ctx: Context) -> None:
        acts, puts = self.scripts[order.number]
        if puts:
            await ctx.put("OUT", order)
        await anyio.sleep(0.001)
        if self.failed[order.number] < len(acts):
            act = acts[self.failed[order.number]]
            self.failed[order.number] += 1
            ACTS[act]()
            await anyio.sleep(0.001)  # here a cancellation of the task is raised
        self.completed[order.number] += 1

    async def handle_batch(self, orders: list[Order], ctx: Context) -> None:
        if len(orders) == 1:
            await self.handle(orders[0], ctx)
            return
        self.others_of_batches += len(orders) - 1
        numbers = [order.number for order in orders]
        for number in numbers:
            acts, puts = self.scripts[number]
            if puts:
                await ctx.put("OUT", Order(number))
            if acts:
                self.in_failed_batches.update(numbers)
                ACTS[acts[0]]()
                await anyio.sleep(0.001)
        self.completed.update(numbers)


# -- the ways to declare a listener with these handlers


def one_handler(app: App, handlers: Handlers, options: dict[str, Any]) -> None:
    app.listener("IN", **options)(handlers.handle)


def two_handlers_of_a_queue(app: App, handlers: Handlers, options: dict[str, Any]) -> None:
    @app.listener("IN", where=lambda message: message.body[-1] % 2 == 0, **options)
    async def handle_some(order: Order, ctx: Context) -> None:
        await handlers.handle(order, ctx)

    app.listener("IN")(handlers.handle)


def a_topic(app: App, handlers: Handlers, options: dict[str, Any]) -> None:
    backout = replace(options["backout"], threshold=THRESHOLD, queue="BOQ")
    app.listener(topic="Orders/#", **{**options, "backout": backout})(handlers.handle)


def batches(app: App, handlers: Handlers, options: dict[str, Any]) -> None:
    app.listener("IN", **options)(handlers.handle_batch)


Declare = Callable[[App, Handlers, dict[str, Any]], None]


async def simulate(
    kit: QueueManagerKit, handlers: Handlers, options: dict[str, Any], declare: Declare, applications: int
) -> None:
    scripts = handlers.scripts
    kit.mqsc(f"DEFINE QLOCAL(IN) BOTHRESH({THRESHOLD}) BOQNAME(BOQ)", *(f"DEFINE QLOCAL({name})" for name in ("OUT", "BOQ")))
    kit.define(DISPOSITION_QUEUE)
    telemetry = Telemetry()
    backout = Backout(pace=Pace(first_s=0.01, max_s=0.1), never_retry=(NeverRetryError,))
    apps = [
        App(name="counted", settings=Settings(disposition_queue=DISPOSITION_QUEUE), middleware=[telemetry.hook])
        for _ in range(applications)
    ]
    bodies = [f"broken {number}" if acts == ["undecodable"] else {"number": number} for number, (acts, _) in enumerate(scripts)]
    for app in apps:
        declare(app, handlers, {"backout": backout, **options})
    early = [] if declare is a_topic else bodies[: len(bodies) // 2]
    for body in early:
        await kit.put("IN", body)
    async with AsyncExitStack() as running:
        for app in apps:
            await running.enter_async_context(kit.run(app))
        await anyio.sleep(0.002)  # the first messages fail meanwhile, and the next ones are delivered before them
        for body in bodies[len(early) :]:
            if declare is a_topic:
                await apps[0].publish("Orders/New", body)
            else:
                await kit.put("IN", body, priority=9)
        with anyio.fail_after(3_600):
            while kit.depth("IN") or len(kit.told(Disposed)) + completes(kit) < len(scripts):  # noqa: ASYNC110 - virtual time
                await anyio.sleep(1)
    check(kit, scripts, handlers.failed, handlers.completed, options, handlers.in_failed_batches)
    check_spans(kit, [span.name for span in telemetry.spans], handlers.others_of_batches)


def run(
    scripts: list[Script], options: dict[str, Any], backend: Backend, declare: Declare = one_handler, *, applications: int = 1
) -> Handlers:
    kit, handlers = QueueManagerKit(seed=1), Handlers(scripts)
    try:
        run_once(kit, partial(simulate, kit, handlers, options, declare, applications), backend, 1)
    finally:
        kit.close()
    return handlers


@given(
    scripts=st.lists(SCRIPT, min_size=1, max_size=24),
    concurrency=st.integers(1, 16),
    unit_of_work=st.sampled_from([1, 1, 2, 5]),
    strict=st.sampled_from([{}, {}, {"strict_order": True}]),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_failure_counts_once_with_any_handler_and_any_number_of_workers(
    backend: Backend, scripts: list[Script], concurrency: int, unit_of_work: int, strict: dict[str, Any]
) -> None:
    run(scripts, strict or {"concurrency": concurrency, "unit_of_work": unit_of_work}, backend)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("declare", [two_handlers_of_a_queue, a_topic, batches])
@given(scripts=st.lists(SCRIPT, min_size=1, max_size=24), concurrency=st.integers(1, 16), several=st.sampled_from([1, 2, 5]))
@example(scripts=[(["fail"] * THRESHOLD, False)] * 7, concurrency=1, several=5)  # new messages in a unit with a failed one
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_failure_counts_once_with_several_handlers_on_topics_and_in_batches(
    backend: Backend, declare: Declare, scripts: list[Script], concurrency: int, several: int
) -> None:
    options: dict[str, Any] = {"concurrency": concurrency}
    if declare is batches:
        options["batch"] = Batch(max=several, wait_ms=10)
    else:
        options["unit_of_work"] = several
    run(scripts, options, backend, declare)


@pytest.mark.parametrize(("act", "calls"), [("reject", 1), ("never retry", 1), ("fail", THRESHOLD)])
def test_a_failed_batch_costs_each_of_its_messages_one_call_more(backend: Backend, act: str, calls: int) -> None:
    handlers = run([([act] * THRESHOLD, False)] * 5, {"batch": Batch(max=5)}, backend, batches)

    assert dict.fromkeys(range(5), 1) == handlers.in_failed_batches
    assert dict.fromkeys(range(5), calls) == handlers.failed


# -- applications that run at the same time, and were started separately

MIXED: Final[list[Script]] = [([act] * THRESHOLD, True) for act in ("reject", "fail", "never retry")] * 15 + [([], True)] * 5


@pytest.mark.parametrize("unit_of_work", [1, 4])
def test_two_applications_count_every_failure_once_with_units_of_one_message_or_with_shared_notes(
    backend: Backend, unit_of_work: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if unit_of_work > 1:
        monkeypatch.setenv("MQFLOW_NOTES_FILE", str(tmp_path / "notes"))

    run(MIXED, {"concurrency": 2, "unit_of_work": unit_of_work}, backend, applications=2)


def test_without_shared_notes_another_application_handles_a_rejected_message_again_whose_move_was_backed_out(
    backend: Backend,
) -> None:
    kit, handlers = QueueManagerKit(seed=1), Handlers([(["reject"] * THRESHOLD, False), (["fail"], False)])

    async def simulate() -> None:
        kit.define("BOQ")
        kit.define("IN", bothresh=THRESHOLD, boqname="BOQ")
        for number in (0, 1):
            await kit.put("IN", {"number": number})
        fails = anyio.Event()
        first, second = App(), App()

        @first.listener("IN", unit_of_work=2)
        async def handle_and_be_stopped(order: Order, ctx: Context) -> None:
            if order.number == 1:
                fails.set()
                await anyio.sleep(1)
            await handlers.handle(order, ctx)

        second.listener("IN", unit_of_work=2)(handlers.handle)

        async with kit.run(first):
            await fails.wait()
        async with kit.run(second):
            await kit.drain("BOQ")

    try:
        run_once(kit, simulate, backend, 1)
    finally:
        kit.close()

    assert {0: 2, 1: 1} == handlers.failed
    assert {1: 1} == handlers.completed
    assert [2] == [event.backout_count for event in kit.told(Disposed)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("act", "calls"), [("reject", 1), ("never retry", 1), ("fail", THRESHOLD)])
def test_sixteen_workers_handle_each_of_many_poison_messages_as_often_as_one_worker(
    backend: Backend, act: str, calls: int
) -> None:
    scripts: list[Script] = [([act] * THRESHOLD, bool(number % 2)) for number in range(120)]

    assert {calls} == set(map(failures, scripts))
    run(scripts, {"concurrency": 16}, backend)


@contextmanager
def on_disk(folder: Path, *, served: bool) -> Iterator[tuple[QueueManager, EmbeddedQueueManager]]:
    """Run a queue manager on disk, and give the connections to it: inside this process, or through its socket."""
    with closing(EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data"))) as own:
        if not served:
            yield own, own
            return
        with (
            closing(serve(own, folder / "socket")) as server,
            closing(ServedQueueManager(server.path, name="QM1")) as queue_manager,
        ):
            yield queue_manager, own


@pytest.mark.sampled(4)
@pytest.mark.parametrize("served", [False, True], ids=["inline", "served"])
@pytest.mark.parametrize("unit_of_work", [1, 4])
@pytest.mark.parametrize(("error", "calls"), [(Reject("no"), 1), (ValueError("no"), THRESHOLD)], ids=["rejected", "failed"])
def test_workers_on_a_queue_manager_on_disk_handle_a_poison_message_as_often_as_its_threshold_says(
    backend: Backend, *, served: bool, unit_of_work: int, error: Exception, calls: int, tmp_path: Path
) -> None:
    with on_disk(tmp_path, served=served) as (queue_manager, own):
        carry_out(own.administration, [f"DEFINE QLOCAL(IN) BOTHRESH({THRESHOLD}) BOQNAME(BOQ)", "DEFINE QLOCAL(BOQ)"])
        seen, disposed = Counter[int](), list[Disposed]()
        app = App(hooks=[lambda event: disposed.append(event) if isinstance(event, Disposed) else None])

        @app.listener("IN", concurrency=8, unit_of_work=unit_of_work, backout=Backout(pace=Pace(first_s=0.001, max_s=0.001)))
        async def handle(order: Order) -> None:
            seen[order.number] += 1
            await checkpoint()
            if order.number % 4:
                raise error

        async def main() -> None:
            async with app.running(queue_manager):
                for number in range(MESSAGES):
                    await app.put("IN", Order(number), persistent=True)
                with anyio.fail_after(120):
                    while own.administration.queue_status("IN").depth:  # noqa: ASYNC110 - another thread can have the messages
                        await anyio.sleep(0.01)

        anyio.run(main, backend=backend)

        bad = {number for number in range(MESSAGES) if number % 4}
        assert dict.fromkeys(bad, calls) == {number: count for number, count in seen.items() if number in bad}
        assert (len(bad), {calls}) == (len(disposed), {event.backout_count for event in disposed})
        assert len(bad) == own.administration.queue_status("BOQ").depth
