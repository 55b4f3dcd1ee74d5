"""The log line of each event that an operator must see, and how hooks receive events."""

import logging
from collections.abc import Sequence

import pytest

from mqflow.events import (
    Attempt,
    ConsumerFailed,
    DeadLetterActed,
    Decided,
    DelayedRefused,
    DelayProcessorStarted,
    DelayProcessorStopped,
    Disposed,
    Draining,
    Event,
    HandlerRuns,
    HandlerStuck,
    HookFailed,
    InDoubt,
    ListenerPaused,
    ListenerResumed,
    Reconnected,
    Reconnecting,
    ReopenRefused,
    Warned,
)
from mqflow.policy.dead_letters.intents import Redirect
from mqflow.policy.poison.disposition import DeadLetter, Deliver, Discard, Disposition, Failed, Outcome, Requeue, Return
from mqflow.policy.poison.outcomes import outcome_of
from mqflow.runtime.hooks import LOG_FIELDS, Broadcast, LogEvents

WARNING, ERROR = logging.WARNING, logging.ERROR


def acted(*, reason: int = 2053, repeated: bool = False) -> DeadLetterActed:
    intent = Redirect("ORDERS", "")
    return DeadLetterActed(
        queue="DLQ", message_id=b"\1", rule="line 3", intent=intent, attempt=1, reason=reason, detail="full", repeated=repeated
    )


def reconnected(*, attempts: int = 1, objects: Sequence[str] = ("IN",), gone: Sequence[str] = ()) -> Reconnected:
    return Reconnected(
        queue_manager="QM1", generation=2, objects=tuple(objects), gone=tuple(gone), attempts=attempts, downtime_ms=150_000
    )


def disposed(disposition: Disposition, *, backout_count: int = 3, outcome: Outcome | None = None) -> Disposed:
    return Disposed(
        queue="IN", message_id=b"\1", listener="book", backout_count=backout_count, attempts=(Attempt(disposition),),
        outcome=outcome,
    )  # fmt: skip


def decided(*, count: int, threshold: int = 0, plan: Disposition = Deliver(), is_first_failure: bool = False) -> Decided:  # noqa: B008 - frozen
    return Decided(
        queue="IN", message_id=b"\1", listener="book", backout_count=count, threshold=threshold, backout_requeue_queue="",
        threshold_source="", queue_source="", plan=(plan,), outcome=Failed("KeyError", "no\n price"),
        is_first_failure=is_first_failure,
    )  # fmt: skip


def refused(disposition: Disposition, reason: int = 2053, detail: str = "LATER is full") -> DelayedRefused:
    return DelayedRefused(queue="LATER", message_id=b"\1", disposition=disposition, reason=reason, detail=detail)


def stopped(reason: int = 2035) -> DelayProcessorStopped:
    return DelayProcessorStopped(queue="STAGED", why="no authority", reason=reason)


def named(number: int) -> list[str]:
    return [f"Q{each}" for each in range(number)]


RUNS = HandlerRuns(queue="IN", listener="book", message_id=b"\1", running_s=3, frame="orders/book.py:7 in book")
LINES = [
    pytest.param(acted(), WARNING, "DLQ: the rule of line 3 failed: full", id="an action on a dead letter failed"),
    pytest.param(
        ConsumerFailed(consumer="book", queue="IN", error="KeyError: 1", traceback="at 7", failures=2, restarts_in_s=1.2345),
        ERROR,
        "book ended although nothing stopped it, and starts again in 1.23 s: KeyError: 1\nat 7",
        id="an incident",
    ),
    pytest.param(
        HandlerStuck(queue="IN", listener="book", message_id=b"\1", running_s=61.4, stack="at 7"),
        ERROR,
        "book: a handler has run for 61 s\nat 7",
        id="a stuck handler",
    ),
    pytest.param(
        InDoubt(queue="IN", listener="book", reason=2009, message_ids=(), put_message_ids=()),
        ERROR,
        "book: commit in doubt, MQRC_CONNECTION_BROKEN (2009); nothing was in it",
        id="a commit of nothing in doubt",
    ),
    pytest.param(
        ReopenRefused(queue_manager="QM1", object="queue IN", owner="book", reason=2085, detail="no such queue"),
        ERROR,
        "book: queue IN is not open again: no such queue",
        id="an object that cannot be opened again",
    ),
    pytest.param(
        reconnected(), WARNING, "QM1: connected again after 1 attempt and 150.0 s; open again: IN", id="connected again"
    ),
    pytest.param(
        reconnected(attempts=2, objects=(), gone=["queue A", "queue B"]),
        WARNING,
        "QM1: connected again after 2 attempts and 150.0 s; open again: nothing; gone: queue A; queue B",
        id="with objects that are gone",
    ),
    pytest.param(
        reconnected(objects=named(20)),
        WARNING,
        f"QM1: connected again after 1 attempt and 150.0 s; open again: {', '.join(named(20))}",
        id="20 objects are named",
    ),
    pytest.param(
        reconnected(objects=named(21), gone=named(21)),
        WARNING,
        "QM1: connected again after 1 attempt and 150.0 s; "
        f"open again: {', '.join(named(20))}, ...; gone: {'; '.join(named(20))}",
        id="more are not",
    ),
    pytest.param(
        disposed(Requeue("BAD"), outcome=Failed("KeyError", "no\n price")),
        WARNING,
        "IN: message 01 failed 3 times, on BAD now: KeyError: no price",
        id="moved to the backout requeue queue",
    ),
    pytest.param(
        disposed(DeadLetter("DLQ", 2362), backout_count=1, outcome=Failed("KeyError")),
        WARNING,
        "IN: message 01 failed once, on DLQ now: KeyError",
        id="moved to the dead-letter queue",
    ),
    pytest.param(
        disposed(Discard("its sender asked for it")),
        WARNING,
        "IN: message 01 was backed out 3 times, discarded (its sender asked for it)",
        id="discarded without a failure of the handler",
    ),
    pytest.param(
        disposed(Return("no queue took it")),
        WARNING,
        "IN: message 01 was backed out 3 times, still on IN",
        id="back on its queue",
    ),
    pytest.param(
        refused(DeadLetter("DLQ", 2053)),
        WARNING,
        "LATER: delayed message 01 was refused, on DLQ now: LATER is full",
        id="a delayed message on the dead-letter queue",
    ),
    pytest.param(
        refused(Discard("no queue took it")),
        WARNING,
        "LATER: delayed message 01 was refused, discarded (no queue took it): LATER is full",
        id="a delayed message discarded",
    ),
    pytest.param(
        refused(Return("no queue took it"), detail=""),
        WARNING,
        "LATER: delayed message 01 was refused, still on the staging queue (no queue took it)",
        id="a delayed message that waits for a new attempt",
    ),
    pytest.param(stopped(), WARNING, "STAGED: the delay processor has stopped: no authority", id="a delay processor stopped"),
    pytest.param(
        decided(count=2, threshold=5, is_first_failure=True),
        WARNING,
        "IN: message 01 failed, 2 of 5: KeyError: no price",
        id="a first failure",
    ),
    pytest.param(decided(count=10), WARNING, "IN: message 01 failed, 10 times: KeyError: no price", id="a tenth failure"),
    pytest.param(decided(count=1), WARNING, "IN: message 01 failed, once: KeyError: no price", id="without a threshold"),
]


@pytest.mark.parametrize(("event", "level", "line"), LINES)
def test_an_event_has_a_line(caplog: pytest.LogCaptureFixture, event: Event, level: int, line: str) -> None:
    LogEvents()(event)

    assert [(level, line, type(event).__name__)] == [
        (record.levelno, record.message, record.__dict__["event"]) for record in caplog.records
    ]


@pytest.mark.parametrize(
    "event",
    [
        acted(reason=0),
        acted(repeated=True),
        disposed(Deliver()),
        decided(count=2),
        decided(count=11),
        decided(count=1, plan=Requeue("BAD"), is_first_failure=True),
        refused(Discard("Its subscriber is gone"), reason=2428),
        stopped(reason=2009),
        DelayProcessorStarted(queue="STAGED"),
    ],
    ids=[
        *("an action worked", "an action failed again", "delivered again", "a second failure", "the 11th", "its move follows"),
        *("the subscriber of a delayed publication is gone", "the outage has lines of its own", "a delay processor starts"),
    ],
)
def test_an_event_that_an_operator_need_not_see_has_no_line(caplog: pytest.LogCaptureFixture, event: Event) -> None:
    LogEvents()(event)

    assert [] == caplog.messages


def test_a_delay_processor_that_goes_on_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents()
    log(stopped())
    for _ in range(10):  # a line that repeats is written the 10th time
        log(DelayProcessorStarted(queue="STAGED"))

    assert ["STAGED: the delay processor has stopped: no authority", "STAGED: the delay processor goes on"] == caplog.messages


def test_a_delayed_message_that_is_refused_again_and_again_has_one_line(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents()
    for _ in range(3):
        log(refused(Return("no queue took it")))

    assert 1 == len(caplog.messages)


def test_a_message_that_stays_on_its_queue_has_a_line_although_its_delivery_was_refused_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = LogEvents()
    for event in (refused(Return("no queue took it")), disposed(Return("no queue took it"))):
        log(event)

    assert "IN: message 01 was backed out 3 times, still on IN" == caplog.messages[-1]


def reconnecting(attempt: int, reason: int, *, was_connected: bool = True) -> Reconnecting:
    return Reconnecting(queue_manager="QM1", attempt=attempt, reason=reason, delay_s=1, was_connected=was_connected)


def test_an_outage_has_a_line_at_its_begin_and_for_each_new_reason(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents()
    for attempt, reason in enumerate([2009, 2009, 2538, 2538, 2059]):
        log(reconnecting(attempt, reason))
    log(reconnected())
    for attempt, reason in enumerate([2009, 2059]):
        log(reconnecting(attempt, reason))

    assert [
        "QM1: the connection is lost, MQRC_CONNECTION_BROKEN (2009); getting it back",
        "QM1: attempt 2 failed, MQRC_HOST_NOT_AVAILABLE (2538)",
        "QM1: attempt 4 failed, MQRC_Q_MGR_NOT_AVAILABLE (2059)",
        "QM1: connected again after 1 attempt and 150.0 s; open again: IN",
        "QM1: the connection is lost, MQRC_CONNECTION_BROKEN (2009); getting it back",
        "QM1: attempt 1 failed, MQRC_Q_MGR_NOT_AVAILABLE (2059)",
    ] == caplog.messages


def test_a_reason_of_the_outage_before_has_a_line_again(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents()
    log(reconnecting(1, 2059))
    log(reconnected())
    log(reconnecting(1, 2059))

    assert 2 == caplog.messages.count("QM1: attempt 1 failed, MQRC_Q_MGR_NOT_AVAILABLE (2059)")


def test_a_start_says_which_queue_manager_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    LogEvents()(reconnecting(1, 2538, was_connected=False))

    assert ["QM1: it is not there yet, MQRC_HOST_NOT_AVAILABLE (2538); waiting for it"] == caplog.messages


@pytest.mark.parametrize(
    ("handlers", "waits_for", "lines"),
    [
        ([RUNS], (), ["draining, 9 s left: book has run for 3 s at orders/book.py:7 in book: message 01"]),
        ([], ("book", "the schedules"), ["draining, 9 s left: waiting for book, the schedules"]),
    ],
    ids=["a handler", "no handler"],
)
def test_a_drain_says_which_work_it_waits_for(
    caplog: pytest.LogCaptureFixture, handlers: list[HandlerRuns], waits_for: tuple[str, ...], lines: list[str]
) -> None:
    LogEvents()(Draining(left_s=9, handlers=tuple(handlers), waits_for=waits_for))

    assert lines == caplog.messages
    assert {"Draining"} == {record.__dict__["event"] for record in caplog.records}


@pytest.mark.parametrize(("count", "last"), [(10, "message 01"), (11, "and 1 more handlers"), (30, "and 20 more handlers")])
def test_a_drain_names_ten_handlers(caplog: pytest.LogCaptureFixture, count: int, last: str) -> None:
    LogEvents()(Draining(left_s=9, handlers=(RUNS,) * count, waits_for=()))

    assert min(count, 11) == len(caplog.messages)
    assert caplog.messages[-1].endswith(last)


def test_a_line_has_each_value_of_its_event_as_a_field(caplog: pytest.LogCaptureFixture) -> None:
    LogEvents()(
        Disposed(queue="IN", message_id=b"\1", listener="book", backout_count=3, attempts=(Attempt(Discard("x")),), worker=0,
                 trace_id="t1"),
    )  # fmt: skip
    LogEvents()(InDoubt(queue="IN", listener="book", reason=2009, message_ids=(), put_message_ids=()))

    written = [{name: getattr(each, name) for name in LOG_FIELDS if hasattr(each, name)} for each in caplog.records]
    assert [
        {"event": "Disposed", "queue": "IN", "message_id": "01", "listener": "book", "worker": 0, "trace_id": "t1",
         "backout_count": 3},
        {"event": "InDoubt", "queue": "IN", "listener": "book", "reason": 2009},
    ] == written  # fmt: skip


def test_the_end_of_a_message_has_the_traceback_of_its_failure(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("no price")
    LogEvents()(disposed(Requeue("BAD"), outcome=outcome_of(error)))

    assert [(error, "IN: message 01 failed 3 times, on BAD now: ValueError: no price")] == [
        (each.exc_info and each.exc_info[1], each.message) for each in caplog.records
    ]


def test_a_traceback_that_is_no_unicode_text_is_escaped(caplog: pytest.LogCaptureFixture) -> None:
    LogEvents()(disposed(Requeue("BAD"), outcome=outcome_of(ValueError("no file caf\udce9"))))

    escaped = "ValueError: no file caf\\udce9"
    assert [(None, f"IN: message 01 failed 3 times, on BAD now: {escaped}\n{escaped}\n")] == [
        (each.exc_info, each.message) for each in caplog.records
    ]


def test_a_pause_of_another_listener_has_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents()
    for listener in ("book", "ship", "book"):
        log(ListenerPaused(queue="IN", listener=listener, why="full", delay_s=1))
    for listener in ("book", "ship"):
        log(ListenerResumed(queue="IN", listener=listener))

    assert [
        "book: paused for 1 s: full",
        "ship: paused for 1 s: full",
        "book: goes on after 2 pauses",
        "ship: goes on after 1 pause",
    ] == caplog.messages


def test_a_warning_that_a_thousand_others_have_followed_is_new_again(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents()
    for text in (
        "first",
        *(f"other {number}" for number in range(999)),
        "first",
        *(f"more {number}" for number in range(1_000)),
        "first",
    ):
        log(Warned(text=text))

    assert 2 == caplog.messages.count("first")


def test_each_order_of_an_operator_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    log = LogEvents()

    for text in ("paused", "goes on", "paused"):
        log(Warned(text=text, is_order=True))

    assert ["paused", "goes on", "paused"] == caplog.messages


class Failing:
    """A hook that fails on each event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        raise KeyError("tenant")


def test_a_hook_that_fails_is_reported_once_and_receives_all_events(caplog: pytest.LogCaptureFixture) -> None:
    failing, received = Failing(), list[Event]()
    broadcast = Broadcast([failing, lambda event: received.append(event)])  # noqa: PLW0108 - a hook has a parameter `event`
    events = [Warned(text="one"), Warned(text="two")]
    for event in events:
        broadcast(event)

    failure = HookFailed(hook="Failing", error="KeyError: 'tenant'", event="Warned")
    assert events == failing.events
    assert [failure, *events] == received
    assert ["Hook Failing failed on Warned (reported once): KeyError: 'tenant'"] == caplog.messages
    assert [True] == [record.exc_info is not None for record in caplog.records]


def test_two_failing_hooks_are_both_reported_and_the_reports_end(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Failing(), Failing()
    warned = Warned(text="one")
    Broadcast([first, second])(warned)

    error = "KeyError: 'tenant'"
    failures = [HookFailed(hook="Failing", error=error, event=event) for event in ("Warned", "HookFailed")]
    assert ([warned, failures[1]], [failures[0], warned]) == (first.events, second.events)
    assert [f"Hook Failing failed on {event} (reported once): {error}" for event in ("Warned", "HookFailed")] == caplog.messages


def test_a_hook_receives_only_the_events_that_it_wants() -> None:
    class Wanting:
        wants = (Warned,)

        def __init__(self) -> None:
            self.events: list[Event] = []

        def __call__(self, event: Event) -> None:
            self.events.append(event)

    wanting = Wanting()
    broadcast = Broadcast([wanting])
    warned = Warned(text="one")
    for event in (warned, ListenerResumed(queue="IN", listener="book")):
        broadcast(event)

    assert [warned] == wanting.events
    assert (True, False) == (broadcast.wanted(Warned), broadcast.wanted(ListenerResumed))
    assert not Broadcast([]).wanted(Warned)
