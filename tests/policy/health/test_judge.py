"""Whether an application is alive and ready, sentence by sentence of the documentation page "Watch an application"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.policy.health.judge import DEAD_AFTER, SILENT_LIMIT_S, Health, judge, limit_s
from mqflow.policy.health.records import ApplicationStatus, Doing, ListenerStatus, ProcessStatus, SilentProcess, WorkerStatus

NOW = 10_000.0


def worker(doing: Doing, for_s: float | None, **more: object) -> WorkerStatus:
    given = {"wait_s": 5.0, "message_id": "AB", "stack": "the stack"} | more
    return WorkerStatus(number=1, doing=doing, since=None if for_s is None else NOW - for_s, **given)  # type: ignore[arg-type]  # a table of values


def listener(*workers: WorkerStatus) -> ListenerStatus:
    return ListenerStatus(name="orders", queue="ORDERS.IN", concurrency=len(workers), stuck_after_s=60.0, workers=workers)


def process(*workers: WorkerStatus, ready: bool = True, blocked_for_s: float | None = None) -> ProcessStatus:
    since = None if blocked_for_s is None else NOW - blocked_for_s
    return ProcessStatus(
        process=71, taken_at=NOW, ready=ready, listeners=(listener(*workers),), blocked_since=since, blocked_at="the loop"
    )


def health(
    *processes: ProcessStatus, expected: int = 1, silent_for_s: float | None = None, is_stopping: bool = False
) -> Health:
    silent = () if silent_for_s is None else (SilentProcess(process=72, number=2, for_s=silent_for_s),)
    return judge(
        ApplicationStatus(
            application="a", process=70, expected=expected, processes=processes, silent=silent, is_stopping=is_stopping
        )
    )


@pytest.mark.parametrize(
    ("doing", "for_s", "live", "ready"),
    [
        pytest.param(Doing.IDLE, 14.9, True, True, id="a get that may wait 5 s and came back within 15 s is well"),
        pytest.param(Doing.IDLE, 15.1, True, False, id="a get that did not come back in time ends readiness"),
        pytest.param(Doing.IDLE, 30.1, False, False, id="and after twice the limit liveness"),
        pytest.param(Doing.IDLE, None, True, True, id="without a note of the get nothing is known, so nothing is wrong"),
        pytest.param(Doing.HANDLING, 60.0, True, True, id="a handler may run up to stuck_after_s"),
        pytest.param(Doing.HANDLING, 60.1, True, False, id="a stuck handler ends readiness"),
        pytest.param(Doing.HANDLING, 120.1, False, False, id="and then liveness"),
        pytest.param(Doing.SETTLING, 40.0, True, True, id="a commit may take as long as the runtime waits for it"),
        pytest.param(Doing.SETTLING, 40.1, True, False, id="a commit without an end ends readiness"),
        pytest.param(Doing.SETTLING, 80.1, False, False, id="and after twice that liveness"),
        pytest.param(Doing.PAUSED, 9_000.0, True, True, id="a pause has no limit: a restart would not end it"),
        pytest.param(Doing.CONNECTING, 9_000.0, True, True, id="an outage has no limit: a restart would not end it"),
    ],
)
def test_each_activity_of_a_worker_has_a_limit(doing: Doing, for_s: float | None, *, live: bool, ready: bool) -> None:
    found = health(process(worker(doing, for_s)))

    assert (live, ready) == (found.live, found.ready)


@pytest.mark.parametrize(("blocked_for_s", "ready"), [(59.9, True), (60.0, True), (60.1, False)])
def test_the_event_loop_may_stand_as_long_as_a_handler_may_run(blocked_for_s: float, *, ready: bool) -> None:
    assert ready is health(process(blocked_for_s=blocked_for_s)).ready


def test_a_stuck_worker_is_named_with_its_message_and_its_stack() -> None:
    [stuck] = health(process(worker(Doing.IDLE, 1.0), worker(Doing.HANDLING, 61.0))).stuck

    assert ("orders", 1, 71, "the stack") == (stuck.listener, stuck.worker, stuck.process, stuck.stack)
    assert "Worker 1 of orders in process 71 has been in its handler for 61 s, above 60 s, with message AB." == stuck.text


def test_an_event_loop_that_does_not_turn_is_named_with_its_stack() -> None:
    [stuck] = health(process(blocked_for_s=61.0)).stuck

    assert ("the loop", "", -1) == (stuck.stack, stuck.listener, stuck.worker)
    assert "The event loop of process 71 has not turned for 61 s." == stuck.text


@pytest.mark.parametrize(
    ("for_s", "live", "ready"), [(15.0, True, True), (15.1, True, False), (30.0, True, False), (30.1, False, False)]
)
def test_a_blocked_event_loop_is_the_reason_for_the_gets_that_do_not_come_back(
    for_s: float, *, live: bool, ready: bool
) -> None:
    blocking = worker(Doing.HANDLING, for_s, is_running=True)

    found = health(process(worker(Doing.IDLE, for_s), worker(Doing.SETTLING, 41.0), blocking, blocked_for_s=1.0))

    late = health(process(worker(Doing.IDLE, for_s), blocking, blocked_for_s=1.0))
    assert (live, ready) == (late.live, late.ready)
    named = (
        f"Worker 1 of orders blocks the event loop of process 71: it has run its handler for {for_s:.0f} s with message AB.",
        "the loop",
    )
    assert [named] == [(each.text, each.stack) for each in found.stuck]


def test_a_handler_on_a_thread_that_is_stuck_is_named_beside_the_blocked_event_loop() -> None:
    found = health(process(worker(Doing.HANDLING, 61.0), worker(Doing.HANDLING, 70.0, is_running=True), blocked_for_s=20.0))

    assert [("", "the loop"), ("orders", "the stack")] == [(each.listener, each.stack) for each in found.stuck]


@pytest.mark.parametrize(
    ("found", "ready", "live"),
    [
        pytest.param(health(process(), process(), expected=2), True, True, id="all processes are ready"),
        pytest.param(health(process(), expected=2), False, True, id="a process that ended is missing until it runs again"),
        pytest.param(health(process(), process(ready=False), expected=2), False, True, id="one process is not ready"),
        pytest.param(health(expected=1), False, True, id="no process runs yet"),
        pytest.param(health(process(), is_stopping=True), False, True, id="an application that drains takes no new work"),
        pytest.param(health(process(), silent_for_s=1, expected=2), False, True, id="a process does not answer at once"),
        pytest.param(
            health(process(), silent_for_s=SILENT_LIMIT_S * DEAD_AFTER + 1, expected=2), False, False, id="nor for a minute"
        ),
    ],
)
def test_an_application_is_ready_if_all_its_processes_are(found: Health, *, ready: bool, live: bool) -> None:
    assert (ready, live) == (found.ready, found.live)


_WORKERS = st.builds(worker, st.sampled_from(Doing), st.none() | st.floats(0, 1_000))


@given(st.lists(_WORKERS, max_size=5), st.lists(_WORKERS, max_size=5), st.booleans())
def test_for_all_states_what_is_dead_is_not_ready_and_everything_stuck_is_above_its_limit(
    first: list[WorkerStatus],
    second: list[WorkerStatus],
    is_ready: bool,  # noqa: FBT001 - Hypothesis draws it
) -> None:
    found = health(process(*first, ready=is_ready), process(*second), expected=2)

    above = [
        each
        for each in (*first, *second)
        if each.since is not None and (limit := limit_s(each, listener())) is not None and NOW - each.since > limit
    ]
    assert len(above) == len(found.stuck)
    assert found.ready == (is_ready and not above)
    assert found.live or not found.ready
    assert found.ready == (not found.why)


@given(_WORKERS, st.floats(0, 1_000))
def test_for_all_workers_time_alone_never_makes_a_stuck_worker_well(state: WorkerStatus, later_s: float) -> None:
    before, listening = process(state), listener(state)
    after = ProcessStatus(process=71, taken_at=NOW + later_s, ready=True, listeners=(listening,))

    assert health(before).ready >= health(after).ready
    assert health(before).live >= health(after).live
