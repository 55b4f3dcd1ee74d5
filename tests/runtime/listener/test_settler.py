"""The end of each unit of work: the calls to the session, the reports, and the failed attempts that count for no message."""

from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Completed, Failed, Interrupted, Settlement
from mqflow.runtime.listener.settler import SessionLost, Settler
from mqflow.runtime.listener.unit import BackOut, DisposedDelivery, Refusal, Staged, Unit

pytestmark = pytest.mark.anyio

ROLLED_BACK = error_for(Reason.BACKED_OUT, "MQCMIT")
LOST = error_for(Reason.CONNECTION_BROKEN, "MQCMIT")
ODD = error_for(Reason.RESOURCE_PROBLEM, "MQCMIT")
POISON = Failed("ValueError", "bad")
COMMIT, BACKOUT = Settlement.COMMIT, Settlement.BACKOUT


class Message:
    """A delivery with a name of one letter."""

    def __init__(self, name: str, backouts: int = 0) -> None:
        key = name.encode()
        descriptor = MessageDescriptor(message_id=key * 24, correlation_id=key * 24, backout_count=backouts)
        self.name, self.handled_s, self.ended, self.put_message_ids = name, 0.25, 9.5, [key + b"put"]
        self.has_begun = True
        self.got = SimpleNamespace(descriptor=descriptor, message_token=bytes(16))


class Bench:
    """A settler, and everything that it tells the session, the events and the listener, in order."""

    def __init__(self, *answers: Any, watched: bool = False, groups: bool = False) -> None:
        self.told, self.answers, self.now = list[tuple[Any, ...]](), list(answers), 10.0
        notes = SimpleNamespace(forgive=self._forgive, forget=lambda key: self._note("forget", key[:1]))
        self.state: Any = SimpleNamespace(
            notes=notes, calls={} if watched else None, refused_commits=0, clock=SimpleNamespace(monotonic=lambda: self.now),
            spec=SimpleNamespace(handles_groups=groups, strict_order=True, unit_of_work=3),
            settings=SimpleNamespace(first_backout_is_poison=False), accept=lambda: self._note("accept"),
            moved=lambda key: self._note("moved", key[:1]), refuse=lambda *given: self._note("refuse", *given),
            pause=self._pause,
        )  # fmt: skip
        events: Any = SimpleNamespace(
            settled=self._settled, completed=self._completed,
            backed_out=lambda unit, step: self._note("backed out", names(unit.deliveries), step),
            in_doubt=lambda error, ids, puts: self._note("in doubt", error.reason, ids, puts),
            staged=lambda staged: self._note("staged", staged.delivery.name),
            disposed=lambda disposed: self._note("disposed", disposed.delivery.name),
        )  # fmt: skip
        self.done: list[Any] = []
        session: Any = SimpleNamespace(settle=self._settle, commit_behind=self._commit_behind, unanswered_max=2)
        self.settler: Any = Settler(self.state, session, events, None)  # type: ignore[arg-type]  # all that it reads
        self.settler.overlapping = session  # type: ignore[misc]  # as if the session were one of its kinds

    def _note(self, *call: Any) -> None:
        self.told.append(call)

    def _forgive(self, keys: Any) -> None:
        if found := b"".join(key[:1] for key in keys):
            self._note("forgive", found)

    def _settled(self, settlement: Settlement, deliveries: Any, outcome: Any) -> None:
        self._note("settled", settlement, names(deliveries), outcome, 0.0)

    def _completed(self, deliveries: Any, settle_s: float) -> None:
        self._note("settled", COMMIT, names(deliveries), Completed(), settle_s)

    def _answer(self) -> Any:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def _settle(self, settlement: Settlement) -> None:
        self._note("settle", settlement)
        self.now += 0.5
        self._answer()

    def _commit_behind(self, done: Any, units: int) -> Any:
        self._note("behind", units)
        self.done.append(done)
        return self._answer()

    async def _pause(self, pause_s: float) -> None:
        self._note("pause", pause_s)

    async def do(self, call: Any) -> Any:
        """Return the result of the call, or the error of the lost session."""
        try:
            return await call
        except SessionLost as lost:
            return lost.error


def names(deliveries: Any) -> str:
    return "".join(delivery.name for delivery in deliveries)


def unit(*messages: Message) -> Unit:
    made: Any = list(messages)
    return Unit(made)


def done(name: str = "a", settle_s: float = 0.0) -> list[tuple[Any, ...]]:
    return [("accept",), ("settled", COMMIT, name, Completed(), settle_s)]


def refused(times: int = 1, error: MQIError = ROLLED_BACK) -> BackOut:
    text = f"the queue manager backed the unit of work out at its commit: {error}"
    return BackOut((), Failed("MQRC_BACKED_OUT", str(error)), refusal=Refusal(text, 2003) if times > 1 else None)


def doubt(reason: int, *names: bytes) -> tuple[Any, ...]:
    return "in doubt", reason, tuple(each * 24 for each in names), tuple(each + b"put" for each in names)


AT_COMMIT = refused(2).refusal
assert AT_COMMIT is not None
UNDONE = [("forgive", b"a"), ("settle", BACKOUT), ("backed out", "a", refused())]
PAUSED = [("forgive", b"a"), ("settle", BACKOUT), ("backed out", "a", refused(2)), ("refuse", AT_COMMIT.why, 2003, b"")]


@pytest.mark.parametrize(
    ("answer", "before", "told", "count", "result"),
    [
        (None, 0, done("a", 0.5), 0, None),
        (None, 3, done("a", 0.5), 0, None),
        (ROLLED_BACK, 0, UNDONE, 1, None),
        (ROLLED_BACK, 1, PAUSED, 2, None),
        (ODD, 1, [doubt(ODD.reason, b"a")], 1, ODD),
        (LOST, 1, [doubt(LOST.reason, b"a")], 1, LOST),
    ],
)
async def test_a_commit_is_reported_as_it_ended(answer: Any, before: int, told: list[Any], count: int, result: Any) -> None:
    bench, handled = Bench(answer, watched=True), unit(Message("a"))
    bench.state.refused_commits = before
    bench.settler.begin(handled)

    assert result == await bench.do(bench.settler.commit(handled))

    assert [("settle", COMMIT), *told] == bench.told
    assert (count, False, 10.0) == (bench.state.refused_commits, bench.settler.under_way, handled.settling_since)


async def test_no_unit_is_no_commit_and_a_cancelled_commit_is_in_doubt() -> None:
    bench, handled = Bench(KeyboardInterrupt()), unit(Message("a"), Message("b"))
    await bench.settler.commit(None)
    assert [] == bench.told
    bench.settler.begin(handled)

    with pytest.raises(KeyboardInterrupt):
        await bench.settler.commit(handled)

    assert [("settle", COMMIT), doubt(Reason.CALL_INTERRUPTED, b"a", b"b")] == bench.told
    assert (False, None) == (bench.settler.under_way, handled.settling_since)


async def test_each_delivery_of_a_committed_unit_is_reported_as_it_ended() -> None:
    bench = Bench()
    completed, staged, moved, poison = (Message(name) for name in "abcd")
    handled, disposal = unit(completed, staged, moved, poison), SimpleNamespace()
    handled.staged.append(Staged(staged, 1, POISON, 60.0))  # type: ignore[arg-type]  # a delivery by its name
    handled.disposed += [
        DisposedDelivery(moved, 3, disposal, POISON, was_handled=True),  # type: ignore[arg-type]  # as above
        DisposedDelivery(poison, 4, disposal, POISON, was_handled=False),  # type: ignore[arg-type]  # as above
    ]

    await bench.settler.committed(handled, None)

    assert [
        *done(), ("staged", "b"),
        ("settled", COMMIT, "c", POISON, 0.0), ("moved", b"c"), ("disposed", "c"),
        ("settled", COMMIT, "d", None, 0.0), ("moved", b"d"), ("disposed", "d"),
    ] == bench.told  # fmt: skip


@pytest.mark.parametrize(("groups", "backouts", "forgotten"), [(False, 0, ""), (False, 2, "b"), (True, 2, "ab"), (True, 0, "")])
async def test_a_redelivered_message_that_completes_is_forgotten(*, groups: bool, backouts: int, forgotten: str) -> None:
    bench = Bench(groups=groups)

    await bench.settler.committed(unit(Message("a"), Message("b", backouts)), None)

    assert [*(("forget", name.encode()) for name in forgotten), *done("ab")] == bench.told


LEFT = SimpleNamespace(delivery=Message("a"))
GONE = Interrupted(f"the connection was lost: {LOST}")


@pytest.mark.parametrize(
    ("step", "answer", "told", "result"),
    [
        (BackOut((), POISON), None, [("forgive", b"ab"), ("settle", BACKOUT), "backed out"], None),
        (BackOut((), POISON, pause_s=3.0), None, [("pause", 3.0), ("forgive", b"ab"), ("settle", BACKOUT), "backed out"], None),
        (BackOut((), POISON), LOST,
         [("forgive", b"ab"), ("settle", BACKOUT), ("settled", BACKOUT, "ab", GONE, 0.0)], LOST),
        (BackOut((), POISON, left=LEFT), None,  # type: ignore[arg-type]  # a delivery by its name
         [("forgive", b"ab"), ("settle", BACKOUT), "backed out", ("disposed", "a")], None),
        (BackOut((), POISON, refusal=Refusal("full", 2053)), None,
         [("forgive", b"ab"), ("settle", BACKOUT), "backed out", ("refuse", "full", 2053, b"")], None),
    ],
)  # fmt: skip
async def test_a_unit_is_backed_out_and_counts_for_no_message_that_did_not_fail(
    step: BackOut, answer: Any, told: list[Any], result: Any
) -> None:
    bench, handled = Bench(answer), unit(Message("a"), Message("b"))
    bench.settler.begin(handled)

    assert result == await bench.do(bench.settler.back_out(handled, step))

    bench.settler.lost(LOST)  # the unit is reported, and counts for none of its messages, only once
    assert [("backed out", "ab", step) if each == "backed out" else each for each in told] == bench.told
    assert not bench.settler.under_way


async def test_a_backout_counts_for_the_failed_the_moved_after_their_handler_and_the_staged() -> None:
    bench, messages = Bench(), [Message(name) for name in "abcde"]
    failed, moved, poison, staged, _ = messages
    handled, disposal = unit(*messages), SimpleNamespace()
    handled.staged.append(Staged(staged, 1, POISON, 60.0))  # type: ignore[arg-type]  # a delivery by its name
    handled.disposed += [
        DisposedDelivery(moved, 3, disposal, POISON, was_handled=True),  # type: ignore[arg-type]  # as above
        DisposedDelivery(poison, 4, disposal, None, was_handled=False),  # type: ignore[arg-type]  # as above
    ]
    step = BackOut((failed,), POISON, refusal=Refusal("full", 2053))  # type: ignore[arg-type]  # as above

    await bench.settler.back_out(handled, step)

    refusal = ("refuse", "full", 2053, b"a" * 24)
    assert [("forgive", b"ce"), ("settle", BACKOUT), ("backed out", "abcde", step), refusal] == bench.told


async def test_a_lost_or_a_left_unit_is_reported_as_backed_out_once() -> None:
    bench, handled = Bench(), unit(Message("a"))
    for end, given in ((bench.settler.lost, (LOST,)), (bench.settler.left, (handled, POISON))):
        bench.settler.begin(handled)
        end(*given)
        assert not bench.settler.under_way
    bench.settler.lost(LOST)

    assert [
        ("settled", BACKOUT, "a", GONE, 0.0), ("forgive", b"a"), ("settled", BACKOUT, "a", POISON, 0.0)
    ] == bench.told  # fmt: skip


async def test_the_loss_of_a_unit_counts_only_for_the_messages_whose_handling_had_begun() -> None:
    bench, messages = Bench(), [Message(name) for name in "abc"]
    for later in messages[1:]:
        later.has_begun = False
    bench.settler.begin(unit(*messages))

    bench.settler.lost(LOST)

    assert [("forgive", b"bc"), ("settled", BACKOUT, "abc", GONE, 0.0)] == bench.told


@pytest.mark.parametrize(
    ("prepare", "answer", "result", "told", "open_"),
    [
        ("", True, None, [("behind", 3), *done()], False),
        ("", False, None, [("behind", 3)], False),
        ("", None, "unit", [("behind", 3)], True),
        ("", ROLLED_BACK, None, [("behind", 3), *UNDONE], False),
        ("", LOST, LOST, [("behind", 3), doubt(LOST.reason, b"a")], False),
        ("disposed", True, "unit", [], True),
        ("staged", True, "unit", [], True),
        ("redelivered", True, "unit", [], True),
        ("redelivered, then new", True, "unit", [], True),
        ("poison", True, "unit", [], True),
        ("alone", True, "unit", [], True),
        ("nothing", True, None, [], True),
    ],
)
async def test_only_a_usual_unit_is_committed_behind_the_next(
    prepare: str, answer: Any, result: Any, told: list[Any], *, open_: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqflow.runtime.listener.settler.units_ahead", lambda handled_s, units: round(handled_s * 4) * units)
    bench = Bench(answer)
    handled = unit(Message("a", backouts=int(prepare.startswith("redelivered"))), *[Message("b")] * prepare.endswith("new"))
    anything: Any = "a disposal"
    handled.disposed += [anything] * (prepare == "disposed")
    handled.staged += [anything] * (prepare == "staged")
    bench.state.settings.first_backout_is_poison = prepare == "poison"
    if prepare == "alone":
        bench.settler.overlapping = None
    bench.settler.begin(handled)

    found = await bench.do(bench.settler.commit_behind(None if prepare == "nothing" else handled))

    assert (handled if result == "unit" else result) == found
    assert (told, open_) == (bench.told, bench.settler.under_way)


@pytest.mark.parametrize(
    ("errors", "told", "result"),
    [
        ([None, None], [*done("a"), *done("b")], None),
        ([ROLLED_BACK, None], [("forgive", b"a"), ("backed out", "a", refused()), *done("b")], None),
        ([None, LOST], [*done("a"), doubt(LOST.reason, b"b")], LOST),
        ([LOST, ODD], [doubt(LOST.reason, b"a"), doubt(ODD.reason, b"b")], LOST),
    ],
)
async def test_each_answer_to_a_commit_behind_is_reported_when_it_comes(
    errors: list[Any], told: list[Any], result: Any
) -> None:
    bench = Bench(False, False)
    for name in "ab":
        await bench.settler.commit_behind(unit(Message(name)))
    bench.told.clear()
    for done_, error in zip(bench.done, errors, strict=True):
        done_(error)
        done_(None)  # an answer that comes twice says nothing new

    assert (told, []) == (bench.told, bench.settler._unanswered)
    assert (result or False) == await bench.do(bench.settler.next_answer())


async def test_a_commit_behind_takes_from_the_end_of_the_last_handler_or_of_the_wait_for_an_answer_to_its_own_answer() -> None:
    bench = Bench(False, False, False, watched=True)
    for name in "ab":
        await bench.settler.commit_behind(unit(Message(name)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.settler.commit_behind, unit(Message("c")))
        await anyio.wait_all_tasks_blocked()
        bench.now = 20.0
        bench.done[0](None)
    bench.now = 20.25
    for answered in bench.done[1:]:
        answered(None)

    assert [*done("a", 10.5), *done("b", 10.75), *done("c", 0.25)] == [each for each in bench.told if each[0] != "behind"]


async def test_a_commit_behind_that_gets_no_answer_in_time_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqflow.runtime.listener.settler.SETTLE_DEADLINE_S", 0.0)
    bench = Bench(False)
    await bench.settler.commit_behind(unit(Message("a")))
    bench.told.clear()

    error = await bench.do(bench.settler.next_answer())

    assert "No answer came within 0 s" in str(error)
    assert [doubt(Reason.CALL_INTERRUPTED, b"a")] == bench.told
