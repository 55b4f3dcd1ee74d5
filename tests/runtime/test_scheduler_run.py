"""The calls of a scheduler to its session and its supervisor, the end of each unit of work, and each report."""

from typing import Any

import anyio
import pytest

from mqflow.events import Event, InDoubt, ScheduleFired, Warned
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.scheduler import Scheduler, _Step
from mqflow.testing.kit import QueueManagerKit
from mqflow.world import World

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

FIRED = ScheduleFired(queue="TICKS", message_id=b"m" * 24, schedule="ticks", due=60.0, late_s=0.0)
UNIT = _Step(wait_s=2.0, handle="handle", fired=FIRED, has_unit=True)  # type: ignore[arg-type]  # any handle
BEGUN = _Step(handle="handle", has_unit=True)  # type: ignore[arg-type]  # as above
LOST = error_for(Reason.CONNECTION_BROKEN, "MQOPEN", "STATES")
MISSING = error_for(Reason.UNKNOWN_OBJECT_NAME, "MQOPEN", "STATES")
IN_USE = error_for(Reason.OBJECT_IN_USE, "MQOPEN", "STATES")


class Plan:
    """A schedule with a name and queues, as far as a scheduler needs them here."""

    def __init__(self, name: str) -> None:
        self.name, self.queue, self.state_queue = name, "TICKS", "STATES"


class Session:
    """Records the calls of a session. Each may fail in the planned way."""

    def __init__(self, bench: "Bench", number: int) -> None:
        self.bench, self.number = bench, number
        self.connection = self.Connection(self)

    class Connection:
        def __init__(self, session: "Session") -> None:
            self.session = session

        def close(self, handle: object) -> None:
            self.session.bench.note("close", handle)

    async def call(self, verb: Any, *args: Any) -> Any:
        return verb(*args)

    async def settle(self, settlement: Any) -> None:
        self.bench.note(settlement.name)

    async def close(self) -> None:
        self.bench.note("end of", self.number)


class Bench(Scheduler):
    """A scheduler whose steps, errors and stops are planned. It is its own supervisor and the readiness of it."""

    def __init__(
        self, mq: QueueManagerKit, *steps: _Step | MQIError | str, schedules: int = 1, errors: dict[str, MQIError] | None = None
    ) -> None:
        self.steps, self.errors, self.calls, self.events = (
            list(steps),
            dict(errors or {}),
            list[tuple[Any, ...]](),
            list[Event](),
        )
        world, me = World(mq.clock, mq.random), self
        self.plans: Any = [Plan(f"plan {number}") for number in range(schedules)]
        self.readiness, self.sessions, self.began = self, 0, world.clock.monotonic()
        supervisor: Any = me
        super().__init__(self.plans, supervisor, broadcast=Broadcast((self._heard,)), clock=world.clock, application="orders")

    def _heard(self, event: Event) -> None:
        self.events.append(event)

    def note(self, *call: Any) -> None:
        """Record a call, and raise the error that is planned for it once."""
        self.calls.append(call)
        error = self.errors.pop(str(call[0]), None)
        if error is not None:
            raise error

    def _step(self, session: Any, schedule: Any) -> _Step:
        self.calls.append(("step", session.number, schedule.name, round(self._clock.monotonic() - self.began, 3)))
        assert self.steps, "a look too many"
        step = self.steps.pop(0)
        if step == "stop":
            self.stop()
            return _Step()
        if isinstance(step, MQIError):
            raise step
        assert isinstance(step, _Step)
        return step

    def _check(self, session: Any) -> None:
        self.note("check", session.number)

    async def connect(self, *, owner: str, before: Any) -> Any:
        self.sessions += 1
        if "stop" in self.errors and self.sessions == 2:
            self.stop()
            raise self.errors["stop"]
        self.note("connect", owner, before and before.number)
        return Session(self, self.sessions)

    def lost(self, error: MQIError, session: Any) -> None:
        self.note("lost", int(error.reason), session.number)

    def release(self, session: Any) -> None:
        self.note("release", session and session.number)

    def has(self, needed: object) -> None:
        self.note("has", needed is self)

    def lacks(self, needed: object, name: str) -> None:
        self.note("lacks", needed is self, name)

    def started(self) -> None:
        self.note("started")

    async def ran(self) -> list[tuple[Any, ...]]:
        """Run to the end. Return the calls, and the error as the last."""
        status: Any = self
        with anyio.fail_after(1_000):
            try:
                await self.run(task_status=status)
            except MQIError as error:
                self.calls.append(("raises", int(error.reason)))
        return self.calls

    async def looked(self, times: int = 1) -> tuple[list[Any], list[tuple[Any, ...]]]:
        """Look so often on one session. Return each wait or reason, and the calls except the steps."""
        session: Any = Session(self, 1)
        found = list[Any]()
        for _ in range(times):
            try:
                found.append(await self._look(session, self.plans[0]))
            except MQIError as error:
                found.append(error.reason)
        return found, [call for call in self.calls if call[0] != "step"]


def doubt(reason: int, *put: bytes) -> InDoubt:
    return InDoubt(queue="TICKS", listener="schedule plan 0", reason=reason, message_ids=(), put_message_ids=put)


def warned(error: MQIError) -> Warned:
    return Warned(text=f"The schedule plan 0 waits. {error}", queue="TICKS")


def at_commit(reason: int) -> MQIError:
    return error_for(reason, "MQCMIT")


BROKE, ROLLED_BACK, ODD = (
    at_commit(reason) for reason in (Reason.CONNECTION_BROKEN, Reason.BACKED_OUT, Reason.RESOURCE_PROBLEM)
)
REPLACED = _Step(handle="handle", warnings=("Odd.",), has_unit=True)  # type: ignore[arg-type]  # as above
ODD_STATE = Warned(text="Odd.", queue="STATES")
COMMITTED = [("COMMIT",), ("close", "handle")]
UNDONE = [("COMMIT",), ("BACKOUT",), ("close", "handle")]


@pytest.mark.parametrize(
    ("step", "errors", "wait", "calls", "events"),
    [
        (_Step(wait_s=7.0), {}, 7.0, [], []),
        (_Step(wait_s=0.5, handle="handle"), {}, 0.5, [("close", "handle")], []),  # type: ignore[arg-type]  # any handle
        (BEGUN, {}, 0.0, COMMITTED, []),
        (UNIT, {}, 2.0, COMMITTED, [FIRED]),
        (UNIT, {"close": LOST}, 2.0, COMMITTED, [FIRED]),
        (UNIT, {"COMMIT": BROKE}, BROKE.reason, COMMITTED, [doubt(BROKE.reason, FIRED.message_id)]),
        (BEGUN, {"COMMIT": BROKE}, BROKE.reason, COMMITTED, [doubt(BROKE.reason)]),
        (REPLACED, {}, 0.0, COMMITTED, [ODD_STATE]),
        (REPLACED, {"COMMIT": BROKE}, BROKE.reason, COMMITTED, [doubt(BROKE.reason), ODD_STATE]),
        (REPLACED, {"COMMIT": ROLLED_BACK}, 5.0, UNDONE, [warned(ROLLED_BACK)]),
        (UNIT, {"COMMIT": ROLLED_BACK}, 5.0, UNDONE, [warned(ROLLED_BACK)]),
        (UNIT, {"COMMIT": ODD}, 5.0, UNDONE, [doubt(ODD.reason, FIRED.message_id), warned(ODD)]),
        (LOST, {}, LOST.reason, [], []),
        (MISSING, {}, 5.0, [("BACKOUT",)], [warned(MISSING)]),
        (IN_USE, {}, 0.5, [("BACKOUT",)], []),
    ],
)
async def test_a_look_ends_its_unit_of_work_and_reports_what_is_known(
    mq: QueueManagerKit, step: Any, errors: dict[str, MQIError], wait: float, calls: list[Any], events: list[Event]
) -> None:
    bench = Bench(mq, step, errors=errors)

    assert ([wait], calls) == await bench.looked()
    assert events == bench.events


async def test_each_cause_is_reported_once_until_a_look_succeeds(mq: QueueManagerKit) -> None:
    other = error_for(Reason.NOT_AUTHORIZED, "MQOPEN", "STATES")
    bench = Bench(mq, MISSING, MISSING, other, IN_USE, other, _Step(wait_s=1.0), other)

    assert [5.0, 5.0, 5.0, 0.5, 5.0, 1.0, 5.0] == (await bench.looked(7))[0]
    assert [warned(MISSING), warned(other), warned(other)] == bench.events


def step(session: int, at_s: float, plan: int = 0) -> tuple[Any, ...]:
    return "step", session, f"plan {plan}", at_s


CONNECTED = [("connect", "schedules", None), ("check", 1), ("started",), ("has", True)]
LEFT = [("lost", LOST.reason, 1), ("lacks", True, "the schedules"), ("end of", 1)]
AGAIN = [("connect", "schedules", 1), ("has", True)]
STOPPED = [("release", None)]


@pytest.mark.parametrize(
    ("steps", "errors", "calls"),
    [
        (["stop"], {}, [*CONNECTED, step(1, 0), ("end of", 1), *STOPPED]),
        (
            [_Step(wait_s=30.0), _Step(wait_s=1_000.0), "stop"],
            {},
            [*CONNECTED, step(1, 0), step(1, 30), step(1, 90), ("end of", 1), *STOPPED],
        ),
        (
            [_Step(wait_s=30.0), LOST, "stop"],
            {},
            [*CONNECTED, step(1, 0), step(1, 30), *LEFT, *AGAIN, step(2, 30), ("end of", 2), *STOPPED],
        ),
        (
            ["stop"],
            {"check": LOST},
            [("connect", "schedules", None), ("check", 1), *LEFT, ("connect", "schedules", 1), ("check", 2), ("started",),
             ("has", True), step(2, 0), ("end of", 2), *STOPPED],
        ),
        ([LOST], {"stop": MISSING}, [*CONNECTED, step(1, 0), *LEFT, ("release", 1)]),
        ([], {"check": LOST, "stop": MISSING}, [*CONNECTED[:2], *LEFT, ("release", 1), ("started",)]),
        ([], {"check": MISSING}, [*CONNECTED[:2], ("end of", 1), ("raises", MISSING.reason)]),
        ([], {"connect": LOST}, [("connect", "schedules", None), ("raises", LOST.reason)]),
    ],
)  # fmt: skip
async def test_a_scheduler_runs_from_session_to_session_until_it_is_stopped(
    mq: QueueManagerKit, steps: list[Any], errors: dict[str, MQIError], calls: list[Any]
) -> None:
    assert calls == await Bench(mq, *steps, errors=errors).ran()


async def test_the_schedule_that_is_due_first_sets_the_wait_for_all(mq: QueueManagerKit) -> None:
    looks = [_Step(wait_s=wait_s) for wait_s in (20.0, 10.0)]

    calls = await Bench(mq, *looks, "stop", _Step(), schedules=2).ran()

    assert [step(1, 0), step(1, 0, 1), step(1, 10), step(1, 10, 1)] == [call for call in calls if call[0] == "step"]


async def test_a_scheduler_that_is_stopped_before_its_start_connects_nowhere_and_counts_as_started(mq: QueueManagerKit) -> None:
    bench = Bench(mq)
    bench.stop()

    assert [("release", None), ("started",)] == await bench.ran()
    assert "the schedules" == bench.name
