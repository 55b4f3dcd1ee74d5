"""How a worker ends a unit: a stop, a lost connection, a failure of its own, a message of a batch that cannot be decoded."""

from pathlib import Path

import anyio
import pytest

from mqflow import App, Backout, Batch, Pace
from mqflow.events import ConsumerFailed, Delivered, Disposed, Settled, Warned
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Completed, Interrupted, Settlement, Undecodable
from mqflow.runtime.listener.disposer import Disposer
from mqflow.testing.faults import FOREVER, Fault
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")
queues = defining("BOQ", bothresh=3, boqname="BOQ")


def ends(mq: QueueManagerKit) -> list[tuple[Settlement, int, object]]:
    return [(event.settlement, len(event.message_ids), event.outcome) for event in mq.told(Settled)]


async def test_a_handler_that_a_stop_cuts_off_has_not_failed(mq: QueueManagerKit) -> None:
    app = App()

    @app.listener("IN")
    async def handle(_: str) -> None:
        await anyio.sleep_forever()

    await mq.put("IN", "order")
    async with mq.run(app, drain_s=1):
        await anyio.sleep(1)

    stopped = Interrupted("the listener stopped before the handler had finished")
    assert [(Settlement.BACKOUT, 1, stopped)] == ends(mq)
    assert [1] == [message.backout_count for message in mq.browse("IN")]


async def test_a_worker_that_fails_itself_backs_its_unit_out_and_the_next_worker_handles_it(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, failed, failing = App(), list[str](), Disposer.failed

    async def fail(disposer: Disposer, *given: object) -> object:
        monkeypatch.setattr(Disposer, "failed", failing)
        raise RuntimeError("a defect of mqflow")

    @app.listener("IN")
    async def handle(body: str) -> None:
        failed.append(body)
        if len(failed) == 1:
            raise ValueError("once")

    monkeypatch.setattr(Disposer, "failed", fail)
    await mq.put("IN", "order")
    with pytest.raises(AssertionError, match="a defect of mqflow"):  # the kit reports each incident
        await run_for(mq, 60, app)

    broken = Interrupted("the worker failed: RuntimeError('a defect of mqflow')")
    assert [(Settlement.BACKOUT, 1, broken), (Settlement.COMMIT, 1, Completed())] == ends(mq)
    assert ["RuntimeError: a defect of mqflow"] == [event.error for event in mq.told(ConsumerFailed)]


@pytest.mark.parametrize("bodies", [["1", "bad"], ["bad", "2"], ["1", "bad", "3"], ["bad"]])
async def test_a_batch_is_handled_without_the_message_that_cannot_be_decoded(mq: QueueManagerKit, bodies: list[str]) -> None:
    app, handled = App(), list[list[int]]()

    @app.listener("IN", batch=Batch(max=3))
    async def handle(numbers: list[int]) -> None:
        handled.append(numbers)

    for body in bodies:
        await mq.put("IN", body)
    await run_for(mq, 60, app)

    good = [int(body) for body in bodies if body != "bad"]
    assert [good] * bool(good) == handled
    assert ["bad"] == [message.text() for message in mq.browse("BOQ")]
    assert {Settlement.COMMIT} == {settlement for settlement, *_ in ends(mq)}
    assert [1] == [event.backout_count for event in mq.told(Disposed) if isinstance(event.outcome, Undecodable)]
    assert len(bodies) == len(mq.told(Delivered))


async def test_a_batch_that_fails_has_one_warning_with_the_error_and_with_what_follows(mq: QueueManagerKit) -> None:
    app, handled = App(), list[list[str]]()

    @app.listener("IN", batch=Batch(max=2))
    async def handle(orders: list[str]) -> None:
        handled.append(orders)
        if len(orders) > 1:
            raise ValueError("the total does not fit")

    for body in ("1", "2"):
        await mq.put("IN", body)
    await run_for(mq, 60, app)

    text = "handle failed for 2 messages together, so each is delivered again alone: ValueError: the total does not fit ("
    assert [["1", "2"], ["1"], ["2"]] == handled
    assert [text] == [event.text[: len(text)] for event in mq.told(Warned) if "together" in event.text]


async def test_a_worker_whose_commit_is_in_doubt_handles_the_next_message_on_a_new_session(mq: QueueManagerKit) -> None:
    app, handled = App(), list[str]()

    @app.listener("IN")
    async def handle(body: str) -> None:
        handled.append(body)

    mq.faults.add(Fault(verb="MQCMIT", reason=Reason.CONNECTION_BROKEN))
    for body in "ab":
        await mq.put("IN", body)
    await run_for(mq, 60, app)

    assert (["a", "a", "b"], 0) == (sorted(handled), mq.depth("IN"))


@pytest.mark.parametrize("begun", ["1", "12", "123"])
async def test_a_lost_connection_counts_only_for_the_messages_whose_handling_had_begun(mq: QueueManagerKit, begun: str) -> None:
    app, handled = App(), list[str]()
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)")

    @app.listener("IN", unit_of_work=10)
    async def handle(body: str) -> None:
        handled.append(body)
        if len(handled) == len(begun):
            mq.faults.add(Fault(verb="MQINQ"))
            raise ValueError("once")

    for body in "123":
        await mq.put("IN", body)
    await run_for(mq, 60, app)

    assert list("123") == handled
    assert list(begun) == [message.text() for message in mq.browse("BOQ")]


async def test_a_backout_that_loses_its_connection_gives_the_other_messages_of_its_unit_one_attempt_back_and_not_two(
    mq: QueueManagerKit,
) -> None:
    app, handled = App(), list[str]()

    @app.listener("IN", unit_of_work=2, backout=Backout(pace=Pace(first_s=0.1, jitter=0)))
    async def handle(body: str) -> None:
        handled.append(body)
        if body == "bad":
            raise ValueError("always")
        if handled.count(body) == 1:
            mq.faults.add(Fault(verb="MQBACK"))
            raise ValueError("once")

    await mq.put("IN", "good")
    await mq.put("IN", "bad")
    async with mq.run(app):
        [dead] = await mq.drain("BOQ", quiet_s=30)

    assert ("bad", 3, 3) == (dead.text(), dead.why.count, handled.count("bad"))


async def test_messages_of_a_unit_lose_no_attempt_if_one_of_its_gets_loses_the_connection(mq: QueueManagerKit) -> None:
    app, handled = App(), list[str]()
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)")

    @app.listener("IN", unit_of_work=10)
    async def handle(body: str) -> None:
        handled.append(body)

    for body in "123":
        await mq.put("IN", body)
    mq.faults.add(Fault(verb="MQGET", object_name="IN", nth=3))
    await run_for(mq, 60, app)

    assert list("123") == sorted(handled)
    assert (0, 0) == (mq.depth("BOQ"), mq.depth("IN"))


async def test_messages_of_a_batch_that_waits_for_more_lose_no_attempt_with_the_connection(mq: QueueManagerKit) -> None:
    app, handled = App(), list[list[str]]()
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)")

    @app.listener("IN", batch=Batch(max=10, wait_ms=5_000))
    async def handle(bodies: list[str]) -> None:
        handled.append(bodies)

    for body in "123":
        await mq.put("IN", body)
    async with mq.run(app):
        await anyio.sleep(1)
        assert not handled
        mq.faults.break_connections()
        await anyio.sleep(60)

    assert list("123") == sorted(body for bodies in handled for body in bodies)
    assert (0, 0) == (mq.depth("BOQ"), mq.depth("IN"))


@pytest.mark.parametrize("counts", [0, 1], ids=["given back", "backed out"])
async def test_messages_of_a_batch_that_waits_for_more_lose_no_attempt_with_an_application_that_is_cut_off(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, counts: int
) -> None:
    app, handled = App(), list[list[str]]()
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)")
    if counts:  # then the notes tell the next process about the backout
        monkeypatch.setenv("MQFLOW_NOTES_FILE", str(tmp_path / "notes"))
        mq.faults.add(Fault(verb="MQBACK", times=FOREVER))

    @app.listener("IN", batch=Batch(max=10, wait_ms=5_000))
    async def handle(bodies: list[str]) -> None:
        handled.append(bodies)

    await mq.put("IN", "1")
    async with mq.run(app) as running:
        await anyio.sleep(1)
        running.cancel()
    mq.faults.clear()
    await run_for(mq, 60, app)

    assert [["1"]] == handled
    assert [counts] == [each.backout_count for each in mq.told(Delivered)]
    assert (0, 0) == (mq.depth("BOQ"), mq.depth("IN"))
