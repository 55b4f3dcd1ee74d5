"""A disposer whose calls are refused, or whose connection is lost, and the further messages of a poison group."""

from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.events import Attempt, Event, Warned
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Behaviour, DeadLetter, Discard, Disposition, Failed, Requeue, Return
from mqflow.runtime.listener.disposer import Disposer
from mqflow.runtime.listener.poison_mover import Disposal
from mqflow.runtime.listener.settler import SessionLost
from mqflow.runtime.listener.unit import DONE, BackOut, DisposedDelivery, Refusal, Staged

pytestmark = pytest.mark.anyio

LOST = error_for(Reason.CONNECTION_BROKEN, "MQPUT", "BOQ")
FULL = error_for(Reason.Q_FULL, "MQPUT", "BOQ")
POISON = Failed("ValueError", "bad")
LATER = Failed("Retry", "not yet", retry_after_s=60.0)
FIRST_KEY, KEY = b"1" * 48, b"2" * 48


class Bench:
    """A disposer, with the records and the answers of everything around it. `answer` is the next result or error."""

    def __init__(self, answer: Any = None, *, records: bool = False) -> None:
        self.answer, self.calls, self.told = answer, list[tuple[Any, ...]](), list[Event]()
        self.refused_groups: dict[bytes, tuple[int, int]] = {}
        me: Any = self
        made: Any = object.__new__(Disposer)
        self.disposer: Any = made
        retries = SimpleNamespace(takes=self._takes, stage="stage", staging_queue="STAGED")
        made._state = SimpleNamespace(
            retries=retries, broadcast=self.told.append, clock=SimpleNamespace(wall=lambda: 7.0),
            refused_groups=self.refused_groups, settings=SimpleNamespace(get=self._get),
            supervisor=SimpleNamespace(generation=3),
        )  # fmt: skip
        made._spec = SimpleNamespace(name="book", queue="IN", strict_order=False, behaviour=Behaviour.JMS_LISTENER)
        made._session = SimpleNamespace(call=self._call, connection="connection")
        made._handle, made._records = "handle", me if records else None
        made._events = SimpleNamespace(why=lambda count, _, outcome: ("why", count, outcome))
        made._mover = lambda *_: self
        self.settings: Any = SimpleNamespace(
            attributes=QueueAttributes(name="IN"), dead_letter_queue="DLQ", kept=lambda plan, *_: plan
        )

    def _done(self, *call: Any) -> Any:
        self.calls.append(call)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def _takes(self, *_: object) -> bool:
        return True

    async def _call(self, verb: object, *given: Any) -> Any:
        return self._done(verb, *given)

    async def _get(self, *given: object) -> Any:
        self.calls.append(("settings", given[-1]))
        if isinstance(self.settings, Exception):
            raise self.settings
        return self.settings

    async def carry_out(self, got: Any, plan: Any, why: Any) -> Any:
        return self._done("move", got.descriptor.message_id[:1], plan, why)

    async def disposed(self, disposed: DisposedDelivery) -> None:
        self.calls.append(("record", disposed))

    async def deferred(self, delivery: Any, outcome: Any, pause_s: float, queue: str, *, since: float) -> None:
        self.calls.append(("record", delivery, outcome, pause_s, queue, since))


def delivery(name: bytes) -> Any:
    descriptor = MessageDescriptor(message_id=name * 24, correlation_id=name * 24)
    got = SimpleNamespace(descriptor=descriptor, message_token=bytes(16), resolved_queue="")
    return SimpleNamespace(got=got, has_puts=False, put_message_ids=[])


def unit(*disposed: DisposedDelivery) -> Any:
    return SimpleNamespace(disposed=list(disposed), staged=[], deliveries=[FIRST, SECOND], handle=None)


FIRST, SECOND = delivery(b"1"), delivery(b"2")
PART: Any = SimpleNamespace(kept_puts=[], put_message_ids=[])


def first(*attempts: Disposition) -> DisposedDelivery:
    """Return the disposal of the first message of a group. Its last attempt succeeded."""
    *refused, last = attempts
    tried = (*(Attempt(each, Reason.PUT_INHIBITED) for each in refused), Attempt(last))
    return DisposedDelivery(FIRST, 4, Disposal(tried), POISON, was_handled=True)


async def found(call: Any) -> Any:
    """Return the result, or the error of a lost session."""
    try:
        return await call
    except SessionLost as lost:
        return lost.error


@pytest.mark.parametrize(
    ("disposition", "plan"),
    [
        (Requeue("BOQ"), Requeue("BOQ")),
        (DeadLetter("DLQ", 271), DeadLetter("DLQ", 271)),
        (Return("full"), Return("full")),
        (Discard("asked for"), Return("the first message of its group was to be discarded, and this message must be kept")),
    ],
)
@pytest.mark.parametrize("records", [True, False])
async def test_a_further_message_of_a_poison_group_goes_where_the_first_went(
    disposition: Disposition, plan: Disposition, *, records: bool
) -> None:
    disposal, begun = Disposal((Attempt(plan),)), first(disposition)
    bench, group = Bench(disposal, records=records), unit(begun)
    moved = DisposedDelivery(SECOND, 4, disposal, POISON, was_handled=False)
    stays = isinstance(plan, Return)

    step = await bench.disposer.follow(group, SECOND)

    assert (BackOut((), POISON, left=moved) if stays else DONE) == step
    assert ([begun] if stays else [begun, moved]) == group.disposed
    record = [("record", moved)] if records and not stays else []
    assert [("settings", 3), ("move", b"2", (plan,), ("why", 4, POISON)), *record] == bench.calls
    assert {} == bench.refused_groups


async def test_each_refusal_of_a_further_message_counts_the_destinations_that_were_tried() -> None:
    bench = Bench(FULL)
    group = unit(first(Requeue("BOQ"), DeadLetter("DLQ", 271)))

    steps = [await bench.disposer.follow(group, SECOND) for _ in range(2)]

    assert [BackOut((), POISON)] * 2 == steps
    assert ({FIRST_KEY: (4, Reason.Q_FULL)}, 1) == (bench.refused_groups, len(group.disposed))


@pytest.mark.parametrize("call", ["follow", "move", "stage", "settings", "follow without settings"])
@pytest.mark.parametrize("error", [LOST, FULL])
async def test_a_lost_connection_ends_the_session_and_a_refusal_does_not(call: str, error: MQIError) -> None:
    bench, group, is_lost = Bench(error), unit(first(Requeue("BOQ"))), error is LOST
    disposer, settings = bench.disposer, bench.settings
    unknown = f"without BOTHRESH and BOQNAME nobody knows whether a message is poison: {error}"
    without_settings = BackOut((), None, refusal=Refusal(unknown, int(error.reason)))
    told: list[Event] = []
    match call:
        case "follow":
            step, refused = await found(disposer.follow(group, SECOND)), BackOut((), POISON)
        case "move":
            plan: Any = (Requeue("BOQ"),)
            step = await found(disposer._move(group, SECOND, PART, plan, 2, settings, POISON, was_handled=True))
            why = Refusal(f"a poison message could not be moved: {error}", int(error.reason))
            refused = BackOut((SECOND,), POISON, refusal=why)
        case "stage":
            step, refused = await found(disposer._stage(group, SECOND, LATER, 1, 60.0)), None  # type: ignore[assignment]  # no step
            text = f"book: a message cannot be staged for its pause, so the worker waits with it. {error}"
            told = [] if is_lost else [Warned(text=text, queue="IN")]
        case "settings":
            bench.settings = error
            step, refused = await found(disposer._settings()), without_settings
        case _:
            bench.settings = error
            step, refused = await found(disposer.follow(group, SECOND)), without_settings

    assert (error if is_lost else refused) == step
    assert told == bench.told
    assert ({} if is_lost or call != "follow" else {FIRST_KEY: (1, Reason.Q_FULL)}) == bench.refused_groups
    assert (1, []) == (len(group.disposed), group.staged)


@pytest.mark.parametrize("records", [True, False])
async def test_a_message_with_a_longer_pause_is_staged_in_its_unit_of_work(*, records: bool) -> None:
    bench, group = Bench(records=records), unit()

    assert DONE == await bench.disposer._stage(group, SECOND, LATER, 2, 60.0)

    record = [("record", SECOND, LATER, 60.0, "STAGED", 7.0)] if records else []
    assert [("stage", "connection", "handle", SECOND.got, "IN", 2, 60.0), *record] == bench.calls
    assert [Staged(SECOND, 2, LATER, 60.0)] == group.staged


@pytest.mark.parametrize(("handled", "failed"), [(True, (SECOND,)), (False, ())])
@pytest.mark.parametrize("disposition", [Requeue("BOQ"), Return("full")])
async def test_a_moved_message_is_done_and_one_that_stays_is_backed_out(
    *, handled: bool, failed: tuple[Any, ...], disposition: Disposition
) -> None:
    disposal = Disposal((Attempt(disposition),))
    bench, group, plan = Bench(disposal, records=True), unit(), (disposition,)
    disposed, stays = DisposedDelivery(SECOND, 2, disposal, POISON, handled), isinstance(disposition, Return)

    step = await bench.disposer._move(group, SECOND, PART, plan, 2, bench.settings, POISON, was_handled=handled)

    assert (BackOut(failed, POISON, left=disposed) if stays else DONE) == step
    assert ([] if stays else [disposed]) == group.disposed
    assert [("move", b"2", plan, ("why", 2, POISON)), *([] if stays else [("record", disposed)])] == bench.calls


async def test_a_moved_message_names_the_messages_that_middleware_put_with_it() -> None:
    disposal, moved = Disposal((Attempt(Requeue("BOQ")),)), delivery(b"3")
    part: Any = SimpleNamespace(kept_puts=["put"], put_message_ids=[b"p" * 24])
    bench = Bench(disposal)

    await bench.disposer._move(unit(), moved, part, (Requeue("BOQ"),), 2, bench.settings, POISON, was_handled=False)

    assert [b"p" * 24] == moved.put_message_ids
