"""Middleware receives each decision, and its puts are in the unit of work that carries the decision out.

Source: the comments of "Understanding MQ Backout Queues & Thresholds": a broker passes the message to a failure flow, in the
transaction that removes the message from its queue.
"""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mqflow import App, Backout, Completed, Context, Pace, Reject
from mqflow.app.handlers.middleware import Call, Incoming
from mqflow.events import Decided, ListenerPaused, Warned
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Failed, Outcome, Return
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

AT_ONCE = Backout(pace=Pace(first_s=0, max_s=0))

LOST_BEFORE = Fault(verb="MQCMIT", reason=Reason.CONNECTION_BROKEN, moment=Moment.BEFORE)
LOST_AFTER = Fault(verb="MQCMIT", reason=Reason.CONNECTION_BROKEN, moment=Moment.AFTER)
REFUSED = Fault(verb="MQPUT", object_name="FAILURES", reason=Reason.Q_FULL)
REFUSED_LATER = Fault(verb="MQPUT", object_name="FAILURES", reason=Reason.Q_FULL, nth=2)
NOT_MOVED = Fault(verb="MQPUT", object_name="BOQ", reason=Reason.Q_FULL)
queues = defining("BOQ", "FAILURES", "OUT", bothresh=3, boqname="BOQ")


class FailureFlow:
    """Puts a copy of each failed message on a queue of its own."""

    def __init__(self, copies: int = 1, error: Exception | None = None) -> None:
        self.seen: list[Decided] = []
        self._copies = copies
        self._error = error

    async def decided(self, delivery: Incoming, decision: Decided) -> None:
        self.seen.append(decision)
        for _ in range(self._copies):
            await delivery.context.put("FAILURES", delivery.message.body, properties={"count": decision.backout_count})
        if self._error is not None:
            raise self._error


def failing(*middleware: object, error: Exception | None = None, **options: Any) -> App:
    app = App(middleware=list(middleware))

    wanted: dict[str, Any] = {"backout": AT_ONCE} | options

    @app.listener("IN", **wanted)
    async def handle(order: dict[str, int]) -> None:
        if "time_limit_s" in options:
            await anyio.sleep(3600)
        raise error or ValueError("no stock")

    return app


async def run(mq: QueueManagerKit, app: App, body: object = None, *faults: Fault) -> None:
    async with mq.run(app):
        await mq.put("IN", body or {"number": 7})
        mq.faults.add(*faults)
        await anyio.sleep(200)


def told(flow: FailureFlow) -> list[tuple[int, str, str]]:
    return [(each.backout_count, type(each.plan[0]).__name__, getattr(each.outcome, "error", "")) for each in flow.seen]


async def test_middleware_sees_each_decision_once_and_the_last_one_too(mq: QueueManagerKit) -> None:
    flow = FailureFlow()

    await run(mq, failing(flow))

    assert [(1, "Deliver", "ValueError"), (2, "Deliver", "ValueError"), (3, "Requeue", "ValueError")] == told(flow)
    assert [True] * 3 == [isinstance(each.outcome, Failed) and each.outcome.exception is not None for each in flow.seen]


@pytest.mark.parametrize(
    ("options", "body", "expected"),
    [
        ({"error": Reject("never")}, None, (1, "Requeue", "Reject")),
        ({}, "not JSON", (1, "Requeue", "msgspec.DecodeError")),
        ({"time_limit_s": 1.0, "backout": Backout(threshold=1)}, None, (1, "Requeue", "TimeLimitExceeded")),
    ],
    ids=["rejected", "undecodable", "out of time"],
)
async def test_middleware_sees_the_decision_of_every_kind_of_failure(
    mq: QueueManagerKit, options: dict[str, Any], body: object, expected: tuple[int, str, str]
) -> None:
    flow = FailureFlow()

    await run(mq, failing(flow, **options), body)

    assert [expected] == told(flow)
    assert 1 == len(mq.browse("FAILURES"))


async def test_a_put_with_a_decision_to_deliver_again_is_dropped(mq: QueueManagerKit) -> None:
    await run(mq, failing(FailureFlow()))

    assert [3] == [copy.properties["count"] for copy in mq.browse("FAILURES")]


@pytest.mark.parametrize(
    "faults",
    [(), (LOST_BEFORE,), (LOST_AFTER,), (REFUSED,), (NOT_MOVED,)],
    ids=["no fault", "commit not done", "answer of the commit lost", "failure queue full once", "backout queue full once"],
)
async def test_there_is_one_copy_for_one_move(mq: QueueManagerKit, faults: tuple[Fault, ...]) -> None:
    mq.define("DLQ")
    mq.mqsc("ALTER QMGR DEADQ(DLQ)")

    await run(mq, failing(FailureFlow(), error=Reject("never")), None, *faults)

    moved = len(mq.browse("BOQ")) + len(mq.browse("DLQ"))
    assert (1, 1, 0) == (moved, len(mq.browse("FAILURES")), mq.depth("IN"))


async def test_the_second_put_is_refused_and_the_first_one_is_undone(mq: QueueManagerKit) -> None:
    await run(mq, failing(FailureFlow(copies=2), error=Reject("never")), None, REFUSED_LATER)

    assert (1, 2) == (len(mq.browse("BOQ")), len(mq.browse("FAILURES")))
    [paused] = mq.told(ListenerPaused)
    assert "MQPUT on FAILURES" in paused.why


async def test_a_message_that_no_queue_accepts_has_no_copy(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)")
    flow = FailureFlow()

    await run(mq, failing(flow, error=Reject("never")))

    assert isinstance(flow.seen[0].plan[-1], Return)
    assert (0, 1) == (mq.depth("FAILURES"), mq.depth("IN"))


async def test_middleware_that_fails_takes_no_part_and_does_not_stop_the_move(mq: QueueManagerKit) -> None:
    broken, flow = FailureFlow(error=LookupError("no such customer")), FailureFlow()

    await run(mq, failing(broken, flow, error=Reject("never")))

    assert (1, 1) == (len(mq.browse("BOQ")), len(mq.browse("FAILURES")))
    [warning] = [event.text for event in mq.told(Warned) if "middleware" in event.text]
    assert warning.startswith("handle: middleware failed on the decision about message ")
    assert warning.endswith("and takes no part. LookupError: no such customer")


async def test_a_put_after_the_decision_is_refused(mq: QueueManagerKit) -> None:
    kept: list[Incoming] = []

    class Later:
        async def decided(self, delivery: Incoming, _: Decided) -> None:
            kept.append(delivery)

    await run(mq, failing(Later(), error=Reject("never")))

    with pytest.raises(RuntimeError, match=r"the handling of message .* is over"):
        await kept[0].context.put("FAILURES", b"late")
    assert 0 == mq.depth("FAILURES")


class FailureTerminal:
    """Completes each failed delivery with a message on the failure queue, as a wired failure terminal of a broker does."""

    async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
        outcome = await call_next(delivery)
        if isinstance(outcome, Failed):
            await delivery.context.put("FAILURES", delivery.message.body)
            return Completed()
        return outcome


@pytest.mark.parametrize("faults", [(), (LOST_BEFORE,), (LOST_AFTER,)], ids=["no fault", "not done", "answer lost"])
async def test_a_failure_flow_in_consume_is_one_transaction_too(mq: QueueManagerKit, faults: tuple[Fault, ...]) -> None:
    await run(mq, failing(FailureTerminal()), None, *faults)

    assert (1, 0, 0) == (len(mq.browse("FAILURES")), mq.depth("BOQ"), mq.depth("IN"))


@pytest.mark.parametrize("make", [FailureFlow, FailureTerminal])
async def test_the_puts_of_the_failed_handler_are_not_in_the_unit_of_work(
    mq: QueueManagerKit, make: Callable[[], object]
) -> None:
    app = App(middleware=[make()])

    @app.listener("IN", backout=AT_ONCE)
    async def book(body: bytes, ctx: Context) -> None:
        await ctx.put("OUT", body)
        raise Reject("never")

    await run(mq, app)

    assert (1, 0) == (len(mq.browse("FAILURES")), mq.depth("OUT"))


async def test_a_put_that_middleware_never_awaits_gives_a_warning(mq: QueueManagerKit) -> None:
    class Forgetful:
        async def decided(self, delivery: Incoming, _: Decided) -> None:
            delivery.context.put("FAILURES", b"copy")  # type: ignore[unused-coroutine]

    await run(mq, failing(Forgetful(), error=Reject("never")))

    assert (1, 0) == (mq.depth("BOQ"), mq.depth("FAILURES"))
    [warning] = [event.text for event in mq.told(Warned) if "middleware" in event.text]
    assert "NeverAwaitedError" in warning
