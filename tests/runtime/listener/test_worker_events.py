"""The events of a worker as whole records, and the pause of a listener after a message that stays on its queue."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import (
    Attempt,
    Decided,
    Delivered,
    Disposed,
    Event,
    Hook,
    InDoubt,
    ListenerPaused,
    ListenerResumed,
    ReportSent,
    Settled,
    WaitsOnQueue,
)
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison import backout
from mqflow.policy.poison.disposition import Completed, Deliver, Failed, Requeue, Return, Settlement, Undecodable
from mqflow.policy.poison.moved_message import Why
from mqflow.policy.poison.redelivery_delay import REFUSED
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.backout_settings import BackoutSettings
from mqflow.runtime.listener.delivery import Delivery, ListenerSpec
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.poison_mover import Disposal
from mqflow.runtime.listener.unit import BackOut, DisposedDelivery, Staged, Unit
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.tally import ListenerTally
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from mqflow.verbs import Got
from mqflow.world import World

pytestmark = pytest.mark.anyio
SETTINGS = BackoutSettings(
    attributes=QueueAttributes(name="IN", backout_threshold=3, backout_requeue_queue="BAD"),
    dead_letter_queue="",
    threshold_source="BOTHRESH of IN",
    queue_source="BOQNAME of IN",
)
FAILED = Failed("ValueError", "no price")


class Heard:
    """The state of a listener, and the events of its worker 7 in order."""

    def __init__(self, *wanted: type, tally: ListenerTally | None = None, others: Sequence[Hook] = ()) -> None:
        self.events: list[Event] = []
        if tally is not None:
            self.listener_tally = lambda _: tally
        if wanted:
            self.wants = wanted
        self.clock = VirtualClock()
        world, broadcast = World(self.clock, SeededRandom(1)), Broadcast((self, *others))
        spec = ListenerSpec(name="book", queue="IN", handle=_handle, decide=backout.decide)
        supervisor = Supervisor(EmbeddedQueueManager("QM1"), broadcast=broadcast, world=world)
        self.state = ListenerState(spec, supervisor, broadcast=broadcast, world=world, application_name="shop")
        self.worker = WorkerEvents(self.state, 7)

    def __call__(self, event: Event) -> None:
        self.events.append(event)


async def _handle(deliveries: Sequence[Delivery]) -> None:
    """Handle nothing: no message is delivered here."""


def delivery(number: int, handled_s: float = 0.0) -> Delivery:
    descriptor = MessageDescriptor(message_id=bytes([number]) * 24, backout_count=number)
    session: Any = None  # no event needs the session
    made = Delivery(Got(descriptor=descriptor, body=b"ab", data_bytes=2), "IN", "book", session)
    made.handled_s, made.trace_id = handled_s, f"trace {number}"
    return made


def ids(*numbers: int) -> tuple[bytes, ...]:
    return tuple(bytes([number]) * 24 for number in numbers)


def settled(how: Settlement, numbers: tuple[int, ...], outcome: Any, *others: int, **seconds: float) -> Settled:
    return Settled(
        queue="IN", listener="book", settlement=how, message_ids=ids(*numbers), outcome=outcome, others=ids(*others), **seconds
    )


async def test_each_event_of_a_worker_has_its_queue_its_listener_and_its_messages() -> None:
    heard = Heard()
    worker, one, two = heard.worker, delivery(1, 0.5), delivery(2, 0.25)

    worker.delivered([one, two])
    worker.completed([one], 0.125)
    worker.completed([one, two], 0.0)
    worker.settled(Settlement.BACKOUT, [one, two], FAILED, [delivery(3)])
    worker.in_doubt(error_for(Reason.CONNECTION_BROKEN, "MQCMIT"), ids(1), ids(2))
    worker.staged(Staged(two, 4, FAILED, 90.0))

    assert [
        Delivered(queue="IN", message_id=ids(1)[0], listener="book", backout_count=1, body_bytes=2),
        Delivered(queue="IN", message_id=ids(2)[0], listener="book", backout_count=2, body_bytes=2),
        settled(Settlement.COMMIT, (1,), Completed(), handled_s=0.5, settle_s=0.125),
        settled(Settlement.COMMIT, (1, 2), Completed(), handled_s=0.75),
        settled(Settlement.BACKOUT, (1, 2), FAILED, 3, handled_s=0.75),
        InDoubt(queue="IN", listener="book", reason=2009, message_ids=ids(1), put_message_ids=ids(2)),
        WaitsOnQueue(queue="IN", message_id=ids(2)[0], listener="book", backout_count=4, after_s=90.0, staging_queue=""),
        settled(Settlement.COMMIT, (2,), FAILED, handled_s=0.25),
    ] == heard.events


async def test_an_event_that_no_hook_wants_is_not_made() -> None:
    heard = Heard(InDoubt)

    heard.worker.delivered([delivery(1)])
    heard.worker.completed([delivery(1)], 0.125)
    heard.worker.settled(Settlement.BACKOUT, [delivery(1)], FAILED)

    assert [] == heard.events


async def test_ordinary_messages_change_the_numbers_of_each_hook_with_a_tally_and_make_no_event_for_it() -> None:
    tallies = ListenerTally((0.25, 0.5)), ListenerTally((0.125, 2.0))
    heard = Heard(tally=tallies[0], others=[Heard(tally=tallies[1])])
    worker, slow, quick = heard.worker, delivery(1, 0.5), delivery(2, 0.125)

    worker.delivered([slow, quick])
    worker.completed([slow], 0.0)
    worker.completed([quick], 0.0)
    worker.completed([quick], 0.125)
    worker.completed([quick], 0.5)
    worker.completed([slow, quick], 4.0)
    worker.settled(Settlement.BACKOUT, [quick], FAILED)

    counted = [(tally.delivered, tally.handled(), tally.settled()) for tally in tallies]
    assert [(2, [3, 1, 1, 1.5], [1, 1, 1, 4.625]), (2, [3, 2, 0, 1.5], [1, 1, 1, 4.625])] == counted
    assert [settled(Settlement.BACKOUT, (2,), FAILED, handled_s=0.125)] == heard.events


async def test_a_decision_has_the_settings_and_their_sources() -> None:
    heard, plan = Heard(), (Requeue("BAD"), Deliver())

    decided = heard.worker.decision(
        delivery(1), MessageDescriptor(backout_count=3), SETTINGS, plan, FAILED, is_first_failure=True
    )

    assert (
        Decided(
            queue="IN",
            message_id=ids(1)[0],
            listener="book",
            backout_count=3,
            threshold=3,
            backout_requeue_queue="BAD",
            threshold_source="BOTHRESH of IN",
            queue_source="BOQNAME of IN",
            plan=plan,
            outcome=FAILED,
            is_first_failure=True,
            worker=7,
            trace_id="trace 1",
        )
        == decided
    )


def disposed(*attempts: Attempt, reports: tuple[ReportSent, ...] = ()) -> tuple[DisposedDelivery, Disposed]:
    """Return a failed delivery whose message was disposed of, and its event."""
    made = DisposedDelivery(delivery(1), 3, Disposal(attempts, reports), FAILED, was_handled=True)
    event = Disposed(
        queue="IN", message_id=ids(1)[0], listener="book", backout_count=3, attempts=attempts, outcome=FAILED, worker=7,
        trace_id="trace 1",
    )  # fmt: skip
    return made, event


async def test_a_moved_message_is_reported_after_its_reports_and_the_listener_goes_on() -> None:
    heard = Heard()
    report = ReportSent(queue="IN", message_id=ids(1)[0], reply_to_queue="REPLIES", feedback=2)
    made, event = disposed(Attempt(Requeue("BAD")), reports=(report,))

    heard.worker.disposed(made)

    assert [report, event] == heard.events
    assert (False, False) == (heard.state.refused, heard.state.resting)


@pytest.mark.parametrize(
    ("before", "stop_delivery", "refusals", "reason"),
    [
        pytest.param((), False, "", 0, id="no queue is named"),
        pytest.param((), True, "", 0, id="a person must remove the obstacle"),
        pytest.param((2053, 2051), False, " full; inhibited", 2053, id="two queues have refused it"),
    ],
)
async def test_a_message_that_stays_pauses_the_listener_and_is_left_alone_unless_delivery_stops(
    before: tuple[int, ...], refusals: str, reason: int, *, stop_delivery: bool
) -> None:
    heard = Heard()
    texts = {2053: "full", 2051: "inhibited"}
    refused = (Attempt(Requeue("BAD"), number, texts[number]) for number in before)
    made, event = disposed(*refused, Attempt(Return("no queue takes it", stop_delivery)))

    heard.worker.disposed(made)

    disposal, paused = heard.events
    assert isinstance(paused, ListenerPaused)
    why = f"message {'01' * 24} stays on IN: no queue takes it.{refusals}"
    bound_s = REFUSED.max_s if stop_delivery else REFUSED.first_s
    assert (event, "IN", "book", why, ids(1)[0], reason) == (
        disposal, paused.queue, paused.listener, paused.why, paused.message_id, paused.reason,
    )  # fmt: skip
    assert (bound_s if stop_delivery else 0.75 * bound_s) <= paused.delay_s <= bound_s
    assert (True, True, why) == (heard.state.refused, heard.state.resting, heard.state.why_refused)
    assert (ids(1)[0] + bytes(24) in heard.state.stuck) is not stop_delivery


@pytest.mark.parametrize(
    ("unit", "step", "numbers"),
    [
        pytest.param((1, 2, 3), BackOut((), None), [((1, 2, 3), None, ())], id="all go back"),
        pytest.param((1,), BackOut((), None), [((1,), None, ())], id="one goes back"),
        pytest.param((), BackOut((), None), [], id="nothing goes back"),
    ],
)
async def test_the_messages_of_a_unit_that_is_backed_out_are_settled(
    unit: tuple[int, ...], step: BackOut, numbers: list[tuple[tuple[int, ...], Any, tuple[int, ...]]]
) -> None:
    heard = Heard()

    heard.worker.backed_out(Unit([delivery(number) for number in unit]), step)

    assert [settled(Settlement.BACKOUT, failed, outcome, *others) for failed, outcome, others in numbers] == heard.events


async def test_a_message_that_failed_before_in_the_unit_keeps_its_outcome() -> None:
    heard = Heard()
    one, two, three, four = (delivery(number) for number in range(1, 5))
    unit = Unit([one, two, three, four])
    before = Undecodable("DecodeError")
    unit.disposed.append(DisposedDelivery(one, 1, Disposal((Attempt(Requeue("BAD")),)), before, was_handled=True))
    unit.staged.append(Staged(two, 1, FAILED, 9.0))

    heard.worker.backed_out(unit, BackOut((two, three), FAILED))
    heard.worker.backed_out(unit, BackOut((), None))

    back = Settlement.BACKOUT
    assert [
        settled(back, (1,), before),
        settled(back, (2, 3), FAILED, 4),
        settled(back, (1,), before),
        settled(back, (2,), FAILED),
        settled(back, (3, 4), None),
    ] == heard.events


@pytest.mark.parametrize(
    ("outcome", "more"),
    [
        (None, {"outcome": ""}),
        (FAILED, {"outcome": "failed", "error": "ValueError", "text": "no price"}),
        (Undecodable("DecodeError", "at 7"), {"outcome": "undecodable", "error": "DecodeError", "text": "at 7"}),
    ],
)
async def test_the_reasons_for_a_move_name_the_queue_the_handler_and_the_failure(outcome: Any, more: dict[str, Any]) -> None:
    heard = Heard()

    at = datetime(2026, 1, 1, tzinfo=UTC)
    reasons = Why(queue="IN", queue_manager="QM1", handler="book", count=3, threshold=3, application_name="shop", at=at, **more)
    assert reasons == heard.worker.why(3, SETTINGS, outcome)


async def test_a_poison_message_that_leaves_its_queue_is_forgotten_and_the_listener_resumes() -> None:
    heard = Heard()
    state, key, other = heard.state, b"a message", b"another"
    state.refuse("no queue takes it", 2053)
    for each in (key, other):
        state.refused_groups[each] = (1, 2053)
    state.stays(key)
    state.refused_groups[key] = (1, 2053)
    heard.events.clear()

    state.moved(key)

    assert ([ListenerResumed(queue="IN", listener="book")], {other: (1, 2053)}) == (heard.events, state.refused_groups)
    assert (False, False, False, "") == (key in state.stuck, state.refused, state.resting, state.why_refused)
