"""The counts of events and the exported metrics, whole: each series with its value and nothing else."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from mqflow import App
from mqflow.cli.watching.control import QueueFigures
from mqflow.cli.watching.counts import BOUNDS_S, OVERFLOW, SERIES_MAX, EventCounts, counts_of_all
from mqflow.cli.watching.metrics import exposed, families
from mqflow.events import (
    Attempt,
    DeadLetterActed,
    DelayedDelivered,
    Delivered,
    Disposed,
    Event,
    ListenerPaused,
    ReadinessChanged,
    Reconnected,
    Reconnecting,
    Settled,
)
from mqflow.policy.dead_letters.intents import Redirect
from mqflow.policy.health.records import ApplicationStatus, Doing, ListenerStatus, ProcessStatus, WorkerStatus
from mqflow.policy.poison.disposition import Completed, DeadLetter, Discard, Failed, Outcome, Requeue, Settlement, Undecodable
from mqflow.testing.kit import QueueManagerKit
from tests.cli.watching.test_counts import ID, IN, ONE

Rows = dict[str, dict[tuple[str, ...], float]]


def counted(*events: Event) -> Rows:
    """Return the counts after these events, without the buckets of value 0."""
    counts = EventCounts()
    for event in events:
        counts(event)
    whole = {name: {labels: value for labels, value in series if value} for name, series in counts.counts().items()}
    return {name: series for name, series in whole.items() if series}


def settled(outcome: Outcome | None, *, commit: bool = True, queue: str = "IN", **times: Any) -> Settled:
    settlement = Settlement.COMMIT if commit else Settlement.BACKOUT
    return Settled(queue=queue, listener="orders", settlement=settlement, message_ids=(ID,), outcome=outcome, **times)


def test_completed_units_of_work_are_counted_with_their_times() -> None:
    done = settled(Completed(), handled_s=0.02, settle_s=0.3)

    assert {
        "units_of_work": {("IN", "commit", "completed"): 3},
        "handling_seconds": {
            ("IN", "completed", "0.025"): 2,
            ("IN", "completed", "+Inf"): 1,
            ("IN", "completed", "sum"): 61.04,
        },
        "settling_seconds": {("IN", "0.5"): 2, ("IN", "sum"): 0.6},
    } == counted(done, done, settled(Completed(), handled_s=61.0))


class Passed:
    """A hook that passes every event to another hook, and hides its tallies."""

    def __init__(self, hook: EventCounts) -> None:
        self.wants, self._hook = hook.wants, hook

    def __call__(self, event: Event) -> None:
        self._hook(event)


async def test_a_listener_counts_its_messages_as_their_events_do(mq: QueueManagerKit) -> None:
    by_listener, by_events = EventCounts(), EventCounts()
    app = App(hooks=[by_listener, Passed(by_events)])

    @app.listener("IN", unit_of_work=4)
    async def book(body: str) -> None:
        if body == "bad":
            raise ValueError(body)

    mq.define("BOQ")
    mq.define("IN", BOTHRESH=2, BOQNAME="BOQ")
    async with mq.run(app) as running:
        running.watch()
        for body in ("one", "bad", "two", "three", "four"):
            await mq.put("IN", body)
        await mq.drain("BOQ")

    counts, expected = ({name: dict(series) for name, series in each.counts().items()} for each in (by_listener, by_events))
    assert expected == counts
    assert counts["messages_delivered"]["IN",] == 9


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_a_read_within_a_handler_sees_its_message_as_got_and_each_earlier_message_as_completed_once(
    mq: QueueManagerKit, *, plain: bool
) -> None:
    hook, read = EventCounts(), list[tuple[float, float]]()
    app = App(hooks=[hook])

    def note(body: str) -> None:
        if body == "bad":
            raise ValueError(body)
        counts = {name: dict(series) for name, series in hook.counts().items()}
        completed = counts.get("units_of_work", {}).get(("IN", "commit", "completed"), 0)
        read.append((counts["messages_delivered"]["IN",] if counts else 0, completed))

    async def note_here(body: str) -> None:
        note(body)

    app.listener("IN")(note if plain else note_here)
    mq.define("BOQ")
    mq.define("IN", BOTHRESH=2, BOQNAME="BOQ")
    async with mq.run(app):
        await app.put_many("IN", [*["good"] * 70, "bad"])
        await mq.drain("BOQ")

    counts = {name: dict(series) for name, series in hook.counts().items()}
    assert (70, 70) == (len(read), counts["units_of_work"]["IN", "commit", "completed"])
    assert len(mq.told(Delivered)) == counts["messages_delivered"]["IN",]
    if plain:  # the thread of the session reports its messages later
        assert all(completed <= got <= number for number, (got, completed) in enumerate(read, start=1))
    else:
        assert [(number + 1, number) for number in range(70)] == read


def test_the_tallies_of_queues_beyond_the_largest_number_of_series_are_one_series() -> None:
    hook = EventCounts()
    for number in range(SERIES_MAX + 2):
        tally = hook.listener_tally(f"Q{number}")
        tally.delivered += 2
        tally.complete(0.5, 0.25)
    hook(delivered("Q0"))
    hook(settled(Completed(), queue="Q0", handled_s=0.5))

    found = {name: dict(series) for name, series in hook.counts().items()}

    assert hook.listener_tally("Q1") is hook.listener_tally("Q1")
    assert (3, 2, 4) == tuple(found["messages_delivered"][queue,] for queue in ("Q0", "Q1", OVERFLOW))
    assert (2, 1, 2) == tuple(found["units_of_work"][queue, *labels] for queue, *labels in (
        ("Q0", "commit", "completed"), ("Q1", "commit", "completed"), (OVERFLOW,) * 3
    ))  # fmt: skip
    assert (1.0, 1.0) == (
        found["handling_seconds"]["Q0", "completed", "sum"],
        found["handling_seconds"][(OVERFLOW,) * 2 + ("sum",)],
    )
    assert (0.25, 0.5) == (found["settling_seconds"]["Q0", "sum"], found["settling_seconds"][OVERFLOW, "sum"])


def test_units_of_work_are_counted_by_queue_settlement_and_outcome() -> None:
    assert {
        "units_of_work": {
            ("IN", "commit", "completed"): 1,
            ("OUT", "commit", "completed"): 2,
            ("IN", "commit", "failed"): 1,
            ("IN", "commit", "undecodable"): 1,
            ("IN", "backout", "completed"): 1,
            ("IN", "backout", "not_handled"): 2,
        },
        "handling_seconds": {
            ("IN", "completed", "0.005"): 2,
            ("OUT", "completed", "0.005"): 2,
            ("IN", "failed", "0.005"): 1,
            ("IN", "undecodable", "0.005"): 1,
        },
    } == counted(
        settled(Completed()),
        settled(Completed(), queue="OUT"),
        settled(Completed(), queue="OUT"),
        settled(Failed("E")),
        settled(Undecodable("E", "")),
        settled(Completed(), commit=False),
        settled(None, commit=False, handled_s=1.0),
        settled(None, commit=False),
    )


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.0, "0.005"), (0.005, "0.005"), (0.006, "0.01"), (60.0, "60.0"), (60.1, "+Inf")]
)
def test_a_time_is_in_the_bucket_of_the_next_bound(seconds: float, bucket: str) -> None:
    found = counted(
        settled(Completed(), handled_s=seconds),
        DelayedDelivered(queue="Q", message_id=ID, delay_ms=1, late_ms=round(seconds * 1_000)),
    )

    assert 1 == found["handling_seconds"]["IN", "completed", bucket]
    assert 1 == found["delayed_late_seconds"]["Q", bucket]


def test_a_histogram_has_every_bucket_and_the_sum() -> None:
    counts = EventCounts()
    counts(settled(Completed()))

    labels = [labels for labels, _ in counts.counts()["handling_seconds"]]

    assert [("IN", "completed", bound) for bound in (*map(str, BOUNDS_S), "+Inf", "sum")] == labels


def test_each_attempt_to_dispose_of_a_message_is_counted_by_its_end() -> None:
    attempts = (Attempt(Requeue("BOQ"), 2053), Attempt(DeadLetter("DLQ", 2053), 2035), Attempt(Discard("policy")))

    assert {
        "backout_refusals": {("IN", "BOQ", "MQRC_Q_FULL (2053)"): 1, ("IN", "DLQ", "MQRC_NOT_AUTHORIZED (2035)"): 1},
        "backout_dispositions": {("IN", "discard", ""): 1},
    } == counted(Disposed(**ONE, backout_count=3, attempts=attempts))


@pytest.mark.parametrize(("reason", "redrives"), [(0, {"redrives": {("DLQ", "IN"): 2}}), (2053, {})], ids=["done", "refused"])
def test_a_redrive_is_an_action_that_was_not_refused(reason: int, redrives: Rows) -> None:
    acted = DeadLetterActed(queue="DLQ", message_id=ID, rule="", intent=Redirect("IN"), attempt=1, reason=reason)

    text = "MQRC_Q_FULL (2053)" if reason else ""
    assert {"dead_letter_actions": {("DLQ", "redirect", text): 2}} | redrives == counted(acted, acted)


def test_an_outage_is_away_until_the_connection_is_back() -> None:
    lost = Reconnecting(queue_manager="QM1", attempt=0, reason=2009, delay_s=1, lost_for_s=0.5)
    failed = replace(lost, attempt=1, reason=2059, lost_for_s=7.5)
    back = Reconnected(queue_manager="QM1", generation=4, objects=(), attempts=2, downtime_ms=1_500)

    during = {"away_seconds": {("QM1",): 7.5}, "reconnect_attempts": {("QM1", "MQRC_Q_MGR_NOT_AVAILABLE (2059)"): 1}}
    after = {
        "reconnect_attempts": {("QM1", "MQRC_Q_MGR_NOT_AVAILABLE (2059)"): 1},
        "reconnections": {("QM1",): 2},
        "outages_seconds": {("QM1",): 3.0},
        "generation": {("QM1",): 4},
    }
    assert {"away_seconds": {("QM1",): 0.5}} == counted(lost)
    assert (during, after) == (counted(lost, failed), counted(lost, failed, back, back))


def test_a_pause_with_a_reason_names_it_and_an_event_without_a_metric_counts_nothing() -> None:
    paused = ListenerPaused(**IN, why="x", delay_s=1, reason=2016)

    assert {"listener_pauses": {("IN", "MQRC_GET_INHIBITED (2016)"): 1}} == counted(paused, ReadinessChanged(ready=True))


def delivered(queue: str) -> Delivered:
    return Delivered(queue=queue, listener="orders", message_id=ID, backout_count=0, body_bytes=1)


def test_all_dynamic_queues_of_a_pattern_are_one_series() -> None:
    names = [f"AMQ.{number:016X}" for number in (0x5F3A9C0020A1B2C3, 0x5F3A9C0020A1B2C4)]

    [labels] = counted(*map(delivered, names))["messages_delivered"]

    assert labels not in {(name,) for name in names}


@pytest.mark.parametrize(("series", "others"), [(SERIES_MAX, 0), (SERIES_MAX + 1, 1), (SERIES_MAX + 2, 2)])
def test_queues_beyond_the_largest_number_of_series_are_one_series(series: int, others: int) -> None:
    events = [
        event for number in range(series) for event in (delivered(f"Q{number}"), settled(Completed(), queue=f"Q{number}"))
    ]

    found = counted(*events, *events)

    assert others * 2 == found["messages_delivered"].get((OVERFLOW,), 0)
    assert others * 2 == found["units_of_work"].get((OVERFLOW,) * 3, 0)
    assert 2 * series == sum(found["messages_delivered"].values()) == sum(found["units_of_work"].values())
    assert min(series, SERIES_MAX) + bool(others) == len(found["messages_delivered"]) == len(found["units_of_work"])


# -- the metrics

NOW = 100.0


def process(number: int, *workers: WorkerStatus, paused: str = "", counts: Any = None, ready: bool = True) -> ProcessStatus:
    listener = ListenerStatus(name="booking", queue="IN", concurrency=2, paused=paused, workers=workers)
    return ProcessStatus(
        process=70 + number, number=number, taken_at=NOW, ready=ready, listeners=(listener,), counts=counts or {}
    )


def worker(number: int, doing: Doing, for_s: float = 1.0) -> WorkerStatus:
    return WorkerStatus(number=number, doing=doing, since=NOW - for_s)


def samples(status: ApplicationStatus, queues: Sequence[QueueFigures]) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the values of each family by the values of their labels, in their order."""
    return {
        family.name.removeprefix("mqflow_"): {tuple(each.labels.values()): each.value for each in family.samples}
        for family in families(status, queues)
        if family.samples
    }


def test_the_levels_of_a_status_are_counted_over_all_processes() -> None:
    first = process(1, worker(0, Doing.HANDLING), worker(1, Doing.HANDLING, 61.0), paused="an operator has paused it")
    second = process(2, worker(0, Doing.SETTLING), worker(1, Doing.IDLE))
    status = ApplicationStatus(application="orders", process=70, expected=3, processes=(first, second))
    figures = (
        QueueFigures(queue="IN", depth=0, oldest_message_age_s=0),
        QueueFigures(queue="OUT", depth=7),
        QueueFigures(queue="X"),
    )

    of = ("IN", "booking")
    doing = dict.fromkeys(Doing, 0.0) | {Doing.HANDLING: 2.0, Doing.SETTLING: 1.0, Doing.IDLE: 1.0}
    assert {
        "up": {(): 2}, "processes_expected": {(): 3}, "live": {(): 1}, "ready": {(): 0},
        "workers": {(*of, each.value): number for each, number in doing.items()},
        "in_flight": {of: 3}, "workers_stuck": {("booking",): 1}, "listener_paused": {of: 1},
        "queue_depth": {("IN",): 0, ("OUT",): 7}, "oldest_message_age_seconds": {("IN",): 0},
    } == samples(status, figures)  # fmt: skip


@pytest.mark.parametrize(("paused", "value"), [(("", ""), 0), (("x", ""), 1), (("", "x"), 1)])
def test_a_listener_that_pauses_in_one_process_pauses(paused: tuple[str, str], value: int) -> None:
    processes = tuple(process(number, paused=why) for number, why in enumerate(paused, 1))
    status = ApplicationStatus(application="orders", process=70, processes=processes)

    found = samples(status, ())
    assert ({("IN", "booking"): value}, {("IN", "booking"): 0}) == (found["listener_paused"], found["in_flight"])


def test_a_dead_worker_makes_the_application_not_live() -> None:
    status = ApplicationStatus(application="orders", process=70, processes=(process(0, worker(0, Doing.HANDLING, 121.0)),))

    found = samples(status, ())
    assert ({(): 0}, {(): 0}) == (found["live"], found["ready"])


def test_the_counts_of_each_process_have_its_number_and_the_buckets_are_sums() -> None:
    counts = EventCounts()
    for event in (
        delivered("IN"),
        delivered("IN"),
        settled(Completed(), handled_s=0.02),
        settled(Completed(), handled_s=0.3),
        settled(Completed(), handled_s=99.0),
        settled(Failed("E"), handled_s=0.3),
        Reconnecting(queue_manager="QM1", attempt=0, reason=2009, delay_s=1, lost_for_s=7.5),
    ):
        counts(event)
    status = ApplicationStatus(application="a", process=70, processes=(process(1), process(2, counts=counts.counts())))

    lines = exposed(status, ()).decode().splitlines()

    assert "# EOF" == lines[-1]
    assert 'mqflow_messages_delivered_total{process="2",queue="IN"} 2.0' in lines
    assert 'mqflow_away_seconds{process="2",queue_manager="QM1"} 7.5' in lines
    completed = [line for line in lines if line.startswith("mqflow_handling_seconds") and 'outcome="completed"' in line]
    sums = {line.split('le="')[1].split('"')[0]: float(line.split()[-1]) for line in completed if "_bucket" in line}
    assert {str(bound): float((bound >= 0.025) + (bound >= 0.5)) for bound in BOUNDS_S} | {"+Inf": 3.0} == sums
    assert ["3.0", "99.32"] == [line.split()[-1] for line in completed if "_bucket" not in line]
    assert 'mqflow_handling_seconds_sum{outcome="failed",process="2",queue="IN"} 0.3' in lines
    assert "# HELP mqflow_messages_delivered Messages got for a handler" in lines
    assert "# TYPE mqflow_workers gauge" in lines


def test_the_series_of_several_queue_managers_begin_with_their_names() -> None:
    counters = {name: EventCounts() for name in ("", "archive")}
    for counter in counters.values():
        counter(delivered("IN"))
    counters["archive"](delivered("OUT"))

    assert {"messages_delivered": ((("IN",), 1.0), (("archive:IN",), 1.0), (("archive:OUT",), 1.0))} == counts_of_all(counters)
