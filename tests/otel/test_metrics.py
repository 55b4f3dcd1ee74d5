"""The metrics and their names."""

from typing import Any

import pytest
from msgspec.structs import replace

from mqflow.events import (
    Attempt,
    ConnectionTried,
    ConsumerFailed,
    Delivered,
    Disposed,
    Event,
    HandlerStuck,
    HookFailed,
    InDoubt,
    ListenerPaused,
    ReadinessChanged,
    Reconnected,
    Reconnecting,
    ReopenRefused,
    ReportSent,
    Settled,
)
from mqflow.mqi.reason_codes import Reason
from mqflow.otel.metrics import DURATION_BOUNDS_S, SERIES_MAX
from mqflow.policy.poison.disposition import Completed, DeadLetter, Failed, Requeue, Settlement
from tests.otel.harness import MESSAGE_ID, Telemetry, outgoing

IN = ("messaging.destination.name", "ORDERS.IN")
DELIVERED = Delivered(queue="ORDERS.IN", message_id=MESSAGE_ID, listener="orders", backout_count=0, body_bytes=2)


def settled(handled_s: float) -> Settled:
    return Settled(
        queue="ORDERS.IN", listener="orders", settlement=Settlement.COMMIT, message_ids=(MESSAGE_ID,), outcome=Completed(),
        handled_s=handled_s,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("event", "name", "attributes"),
    [(DELIVERED, "messaging.client.consumed.messages", {}),
     (Settled(queue="ORDERS.IN", listener="l", settlement=Settlement.BACKOUT, message_ids=(MESSAGE_ID,), outcome=Failed("E")),
      "mqflow.units_of_work", {"mqflow.outcome": "failed", "mqflow.settlement": "backout"}),
     (InDoubt(queue="ORDERS.IN", listener="l", reason=Reason.CONNECTION_BROKEN, message_ids=()), "mqflow.commits_in_doubt",
      {"error.type": "MQRC_CONNECTION_BROKEN (2009)"}),
     (ListenerPaused(queue="ORDERS.IN", listener="l", why="-", delay_s=1), "mqflow.listener.pauses", {}),
     (ConsumerFailed(consumer="worker 0 of l", queue="ORDERS.IN", error="E", traceback="", failures=1, restarts_in_s=1.0),
      "mqflow.consumer.failures", {}),
     (HandlerStuck(queue="ORDERS.IN", listener="l", message_id=MESSAGE_ID, running_s=60, stack=""), "mqflow.handlers_stuck",
      {}),
     (ReportSent(queue="X", message_id=MESSAGE_ID, reply_to_queue="ORDERS.IN", feedback=1), "mqflow.reports", {})],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_each_event_is_counted_once_under_its_queue(
    event: Event, name: str, attributes: dict[str, str], telemetry: Telemetry
) -> None:
    telemetry.hook(event)
    telemetry.hook(event)

    assert {frozenset({IN, *attributes.items()}): 2} == telemetry.metrics[name]


def test_queues_made_for_one_reply_each_are_one_series(telemetry: Telemetry) -> None:
    for number in range(SERIES_MAX + 50):
        telemetry.hook(ReportSent(queue="X", message_id=MESSAGE_ID, reply_to_queue=f"AMQ.{number:016X}", feedback=1))
    telemetry.hook(ReportSent(queue="X", message_id=MESSAGE_ID, reply_to_queue="ORDERS.IN", feedback=1))

    made = frozenset({("messaging.destination.template", "AMQ.*")})
    assert {made: SERIES_MAX + 50, frozenset({IN}): 1} == telemetry.metrics["mqflow.reports"]


def test_reply_queues_of_names_that_requesters_choose_take_no_more_memory_than_a_thousand(telemetry: Telemetry) -> None:
    for number in range(SERIES_MAX + 50):
        telemetry.hook(ReportSent(queue="X", message_id=MESSAGE_ID, reply_to_queue=f"MINE.{number}", feedback=1))

    reports = telemetry.metrics["mqflow.reports"]
    assert SERIES_MAX + 1 == len(reports)
    assert 50 == reports[frozenset({("otel.metric.overflow", "true")})]


@pytest.mark.parametrize(
    ("event", "name", "attribute"),
    [(Reconnected(queue_manager="QM1", generation=2, objects=(), attempts=1, downtime_ms=3), "mqflow.reconnections",
      ("mqflow.queue_manager", "QM1")),
     (ReopenRefused(queue_manager="QM1", object="Q", owner="requeuer", reason=0), "mqflow.reopen_refusals",
      ("messaging.destination.name", "Q")),
     (Reconnecting(queue_manager="QM1", attempt=1, reason=0, delay_s=1.0), "mqflow.reconnection_attempts",
      ("mqflow.queue_manager", "QM1")),
     (HookFailed(hook="ledger", error="E", event="Settled"), "mqflow.hook_failures", ("mqflow.hook", "ledger"))],
)  # fmt: skip
def test_an_event_without_a_queue_is_counted_under_its_own_name(
    event: Event, name: str, attribute: tuple[str, Any], telemetry: Telemetry
) -> None:
    telemetry.hook(event)

    assert {frozenset({attribute}): 1} == telemetry.metrics[name]


QM1 = ("mqflow.queue_manager", "QM1")
LOST = Reconnecting(queue_manager="QM1", attempt=0, reason=2009, delay_s=0.0)
STILL_LOST = Reconnecting(queue_manager="QM1", attempt=2, reason=2059, delay_s=2.0, lost_for_s=3.5)
BACK = Reconnected(queue_manager="QM1", generation=3, objects=(), attempts=3, downtime_ms=8_000.0)


@pytest.mark.parametrize(
    ("happened", "away_s", "generation", "away_in_all_s"),
    [
        ((LOST,), 0.0, None, None),
        ((LOST, STILL_LOST), 3.5, None, None),
        ((LOST, STILL_LOST, BACK), 0.0, 3, 8.0),
        ((LOST, BACK, LOST, BACK), 0.0, 3, 16.0),
    ],
    ids=["lost", "still lost", "back", "twice"],
)
def test_how_long_the_connection_is_away_and_how_often_it_came_back_are_shown(
    happened: tuple[Event, ...], away_s: float, generation: int | None, away_in_all_s: float | None, telemetry: Telemetry
) -> None:
    for event in happened:
        telemetry.hook(event)

    found, here = telemetry.metrics, frozenset({QM1})
    assert {here: away_s} == found["mqflow.away"]
    assert generation == found.get("mqflow.generation", {}).get(here)
    assert away_in_all_s == found.get("mqflow.away.seconds", {}).get(here)


def test_whether_the_application_is_ready_is_shown(telemetry: Telemetry) -> None:
    shown: list[float] = []

    for ready in (True, False, True):
        telemetry.hook(ReadinessChanged(ready=ready))
        shown += telemetry.metrics["mqflow.ready"].values()

    assert [1, 0, 1] == shown


def test_every_attempt_to_connect_is_counted_by_where_and_why_it_failed(telemetry: Telemetry) -> None:
    failed_once = ConnectionTried(queue_manager="QM1", channel="A", address="mq1(1414)", attempt=1, delay_s=1.0, reason=2538)

    for event in (ConnectionTried(queue_manager="QM1"), failed_once, replace(failed_once, attempt=2)):
        telemetry.hook(event)

    where = (QM1, ("mqflow.channel", "A"), ("server.address", "mq1(1414)"))
    failed = frozenset((*where, ("error.type", "MQRC_HOST_NOT_AVAILABLE (2538)")))
    assert {frozenset({QM1}): 1, failed: 2} == telemetry.metrics["mqflow.connections_tried"]


@pytest.mark.anyio
async def test_puts_of_the_application_are_counted_by_queue(telemetry: Telemetry) -> None:
    await telemetry.put(outgoing(queue="ORDERS.BOOKED"))

    assert {frozenset({("messaging.destination.name", "ORDERS.BOOKED")}): 1} == telemetry.metrics[
        "messaging.client.sent.messages"
    ]


def test_refused_destinations_and_the_one_that_held_are_counted_apart(telemetry: Telemetry) -> None:
    attempts = (Attempt(Requeue("ORDERS.BOQ"), Reason.Q_FULL), Attempt(DeadLetter("QM1.DLQ", 2362)))

    telemetry.hook(Disposed(queue="ORDERS.IN", message_id=MESSAGE_ID, listener="l", backout_count=3, attempts=attempts))

    refused = frozenset({IN, ("mqflow.backout.destination", "ORDERS.BOQ"), ("error.type", "MQRC_Q_FULL (2053)")})
    held = frozenset({IN, ("mqflow.backout.destination", "QM1.DLQ"), ("mqflow.backout.disposition", "dead_letter")})
    assert {refused: 1} == telemetry.metrics["mqflow.backout.refusals"]
    assert {held: 1} == telemetry.metrics["mqflow.backout.dispositions"]


def test_durations_are_cumulative_buckets_with_their_sum(telemetry: Telemetry) -> None:
    for handled_s in (0.001, 0.005, 0.3, 60.0):
        telemetry.hook(settled(handled_s))

    metrics = telemetry.metrics
    [total_s] = metrics["mqflow.process.duration.sum"].values()
    assert pytest.approx(60.306) == total_s
    buckets = {dict(attributes)["le"]: count for attributes, count in metrics["mqflow.process.duration.bucket"].items()}
    assert [*map(str, DURATION_BOUNDS_S), "+Inf"] == list(buckets)
    assert [2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4] == list(buckets.values())


def test_a_unit_found_poison_before_it_was_handled_is_counted_and_not_timed(telemetry: Telemetry) -> None:
    telemetry.hook(
        Settled(queue="ORDERS.IN", listener="l", settlement=Settlement.BACKOUT, message_ids=(MESSAGE_ID,), outcome=None)
    )

    counted = frozenset({IN, ("mqflow.outcome", "not_handled"), ("mqflow.settlement", "backout")})
    assert {counted: 1} == telemetry.metrics["mqflow.units_of_work"]
    assert "mqflow.process.duration.sum" not in telemetry.metrics


def test_reading_the_meter_between_events_loses_none(telemetry: Telemetry) -> None:
    for _ in range(3):
        telemetry.hook(DELIVERED)
        assert telemetry.metrics["messaging.client.consumed.messages"]

    assert {frozenset({IN}): 3} == telemetry.metrics["messaging.client.consumed.messages"]


def test_units_that_end_in_different_ways_are_counted_apart_in_any_order(telemetry: Telemetry) -> None:
    completed, failed = settled(0.5), replace(settled(2.0), outcome=Failed("E"))
    ends = [completed, replace(completed, settlement=Settlement.BACKOUT), failed, completed, replace(completed, queue="OTHER")]

    for event in (*ends, *reversed(ends)):
        telemetry.hook(event)

    metrics = telemetry.metrics
    units = {tuple(sorted(dict(labels).values())): count for labels, count in metrics["mqflow.units_of_work"].items()}
    assert {
        ("ORDERS.IN", "commit", "completed"): 4,
        ("ORDERS.IN", "backout", "completed"): 2,
        ("ORDERS.IN", "commit", "failed"): 2,
        ("OTHER", "commit", "completed"): 2,
    } == units
    seconds = {tuple(sorted(dict(labels).values())): s for labels, s in metrics["mqflow.process.duration.sum"].items()}
    assert {("ORDERS.IN", "completed"): 3.0, ("ORDERS.IN", "failed"): 4.0, ("OTHER", "completed"): 1.0} == seconds


def test_deliveries_of_queues_beyond_the_limit_of_series_are_all_counted(telemetry: Telemetry) -> None:
    for _ in range(2):
        for number in range(SERIES_MAX + 50):
            telemetry.hook(replace(DELIVERED, queue=f"MINE.{number}"))

    assert 2 * (SERIES_MAX + 50) == sum(telemetry.metrics["messaging.client.consumed.messages"].values())


def test_the_tallies_of_listeners_and_the_events_of_their_queues_are_counted_together(telemetry: Telemetry) -> None:
    for number in range(SERIES_MAX + 2):
        telemetry.hook.listener_tally(f"MINE.{number}").delivered += 2
    tally = telemetry.hook.listener_tally("MINE.0")
    tally.complete(0.5, 0.0)
    tally.quick += 1
    telemetry.hook(replace(settled(0.5), queue="MINE.0"))
    telemetry.hook(replace(DELIVERED, queue="MINE.0"))

    metrics = telemetry.metrics
    consumed = metrics["messaging.client.consumed.messages"]
    assert (SERIES_MAX + 1, 2 * (SERIES_MAX + 2) + 1) == (len(consumed), sum(consumed.values()))
    assert [3] == list(metrics["mqflow.units_of_work"].values())
    assert [1.0] == list(metrics["mqflow.process.duration.sum"].values())
    buckets = {dict(labels)["le"]: count for labels, count in metrics["mqflow.process.duration.bucket"].items()}
    assert (1, 1, 3, 3) == tuple(buckets[bound] for bound in ("0.005", "0.25", "0.5", "+Inf"))
