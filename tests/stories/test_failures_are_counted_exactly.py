"""Every failure counts once: in the handler, the header of the moved message, the events, the records and the queue.

Random handlers run with random concurrency and units of work. The handler keeps a log of its own; everything else must agree
with this log, and the log with the threshold.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqflow import App, Backout, Context, Pace, Reject
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
    st.tuples(st.lists(st.sampled_from(sorted(ACTS)), max_size=THRESHOLD), st.booleans()),
    st.just((["undecodable"], False)),
)


async def simulate(kit: QueueManagerKit, scripts: list[Script], options: dict[str, Any]) -> None:
    kit.mqsc(f"DEFINE QLOCAL(IN) BOTHRESH({THRESHOLD}) BOQNAME(BOQ)", *(f"DEFINE QLOCAL({name})" for name in ("OUT", "BOQ")))
    kit.define(DISPOSITION_QUEUE)
    failed, completed = Counter[int](), Counter[int]()
    telemetry = Telemetry()
    app = App(name="counted", settings=Settings(disposition_queue=DISPOSITION_QUEUE), middleware=[telemetry.hook])
    backout = Backout(pace=Pace(first_s=0.01, max_s=0.1), never_retry=(NeverRetryError,))

    @app.listener("IN", backout=backout, **options)
    async def handle(order: Order, ctx: Context) -> None:
        acts, puts = scripts[order.number]
        if puts:
            await ctx.put("OUT", order)
        await anyio.sleep(0.001)
        if failed[order.number] < len(acts):
            act = acts[failed[order.number]]
            failed[order.number] += 1
            ACTS[act]()
            await anyio.sleep(0.001)  # here a cancellation of the task is raised
        completed[order.number] += 1

    for number, (acts, _) in enumerate(scripts):
        await kit.put("IN", f"broken {number}" if acts == ["undecodable"] else {"number": number})
    async with kit.run(app):
        with anyio.fail_after(3_600):
            while kit.depth("IN") or len(kit.told(Disposed)) + completes(kit) < len(scripts):  # noqa: ASYNC110 - virtual time
                await anyio.sleep(1)
    check(kit, scripts, failed, completed, options)
    check_spans(kit, [span.name for span in telemetry.spans])


def run(scripts: list[Script], options: dict[str, Any], backend: Backend) -> None:
    kit = QueueManagerKit(seed=1)
    try:
        run_once(kit, partial(simulate, kit, scripts, options), backend, 1)
    finally:
        kit.close()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
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
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
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
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
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
