"""The metrics that Prometheus reads, for the events of an application."""

import socket
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from mqflow.events import (
    Attempt,
    ConnectionTried,
    ConsumerFailed,
    Delivered,
    Disposed,
    Event,
    HandlerStuck,
    InDoubt,
    ListenerPaused,
    ListenerResumed,
    ListenerStarted,
    ListenerStopped,
    ReadinessChanged,
    Reconnected,
    Reconnecting,
    ReopenRefused,
    Settled,
)
from mqflow.policy.poison.disposition import Completed, Failed, Requeue, Return, Settlement
from mqflow_prometheus import PrometheusMetrics, port_of_worker, serve

IN = {"queue": "ORDERS.IN"}
LISTENER = IN | {"listener": "orders"}
MESSAGE_ID = bytes(24)
STARTED = ListenerStarted(queue="ORDERS.IN", listener="orders", concurrency=4)
PAUSED = ListenerPaused(queue="ORDERS.IN", listener="orders", why="nothing took it", delay_s=1)
RESUMED = ListenerResumed(queue="ORDERS.IN", listener="orders")
STOPPED = ListenerStopped(queue="ORDERS.IN", listener="orders")


def registry_after(*events: Event) -> CollectorRegistry:
    """Return the registry after a hook received these events."""
    registry = CollectorRegistry()
    hook = PrometheusMetrics(registry)
    for event in events:
        hook(event)
    return registry


def settled(outcome: Completed | Failed | None, handled_s: float = 0.0) -> Settled:
    settlement = Settlement.COMMIT if isinstance(outcome, Completed) else Settlement.BACKOUT
    return Settled(
        queue="ORDERS.IN",
        listener="orders",
        settlement=settlement,
        message_ids=(MESSAGE_ID,),
        outcome=outcome,
        handled_s=handled_s,
    )


@pytest.mark.parametrize(("environment", "port"), [({}, 9000), ({"MQFLOW_WORKER": "1"}, 9000), ({"MQFLOW_WORKER": "4"}, 9003)])
def test_each_worker_process_has_a_port_of_its_own(environment: dict[str, str], port: int) -> None:
    assert port == port_of_worker(9000, environment)


def test_a_port_in_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MQFLOW_WORKER", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1"):
            serve(port, registry=CollectorRegistry())


def test_deliveries_are_counted_by_queue() -> None:
    delivered = Delivered(queue="ORDERS.IN", message_id=MESSAGE_ID, listener="orders", backout_count=0, body_bytes=2)

    registry = registry_after(delivered, delivered)

    assert 2 == registry.get_sample_value("mqflow_messages_delivered_total", IN)


@pytest.mark.parametrize(
    ("outcome", "labels"),
    [
        (Completed(), {"settlement": "commit", "outcome": "completed"}),
        (Failed("app.Error"), {"settlement": "backout", "outcome": "failed"}),
        (None, {"settlement": "backout", "outcome": "not_handled"}),
    ],
)
def test_units_of_work_are_counted_by_how_they_ended(outcome: Completed | Failed | None, labels: dict[str, str]) -> None:
    assert 1 == registry_after(settled(outcome)).get_sample_value("mqflow_units_of_work_total", IN | labels)


def test_the_time_handlers_took_is_a_histogram() -> None:
    registry = registry_after(settled(Completed(), 0.25), settled(Completed(), 4.0))

    completed = IN | {"outcome": "completed"}
    assert 4.25 == registry.get_sample_value("mqflow_handling_seconds_sum", completed)
    assert 1 == registry.get_sample_value("mqflow_handling_seconds_bucket", completed | {"le": "1.0"})


def test_a_poison_message_is_counted_where_it_ended_and_where_it_was_refused() -> None:
    attempts = (Attempt(Requeue("ORDERS.BOQ"), 2053), Attempt(Return("nothing took it")))
    disposed = Disposed(queue="ORDERS.IN", message_id=MESSAGE_ID, listener="orders", backout_count=3, attempts=attempts)

    registry = registry_after(disposed)

    refused = IN | {"destination": "ORDERS.BOQ", "reason": "MQRC_Q_FULL (2053)"}
    assert 1 == registry.get_sample_value("mqflow_backout_refusals_total", refused)
    held = IN | {"disposition": "return", "destination": ""}
    assert 1 == registry.get_sample_value("mqflow_backout_dispositions_total", held)


@pytest.mark.parametrize(
    ("events", "running", "paused"),
    [
        ((STARTED,), 1, 0),
        ((STARTED, PAUSED), 1, 1),
        ((STARTED, PAUSED, RESUMED), 1, 0),
        ((STARTED, PAUSED, STOPPED), 0, 0),
        ((STARTED, STOPPED), 0, 0),
    ],
)
def test_a_listener_runs_from_start_to_stop_and_is_paused_until_it_resumes_or_stops(
    events: Sequence[Event], running: int, paused: int
) -> None:
    registry = registry_after(*events)

    assert (running, paused) == tuple(
        registry.get_sample_value(f"mqflow_listener_{state}", LISTENER) for state in ("running", "paused")
    )


def test_commits_in_doubt_stuck_handlers_and_failed_consumers_are_counted() -> None:
    in_doubt = InDoubt(queue="ORDERS.IN", listener="orders", reason=2549, message_ids=(MESSAGE_ID,))
    stuck = HandlerStuck(queue="ORDERS.IN", listener="orders", message_id=MESSAGE_ID, running_s=60, stack="")

    failed = ConsumerFailed(
        consumer="worker 0 of listener orders", queue="ORDERS.IN", error="E", traceback="", failures=1, restarts_in_s=1.0
    )

    registry = registry_after(in_doubt, stuck, failed)

    unknown = IN | {"reason": "MQRC_CALL_INTERRUPTED (2549)"}
    assert 1 == registry.get_sample_value("mqflow_commits_in_doubt_total", unknown)
    assert 1 == registry.get_sample_value("mqflow_handlers_stuck_total", IN)
    assert 1 == registry.get_sample_value("mqflow_consumer_failures_total", IN)


def test_an_outage_is_seen_while_it_lasts_and_counted_when_it_is_over() -> None:
    lost = Reconnecting(queue_manager="QM1", attempt=0, reason=2009, delay_s=0.0)
    failed = Reconnecting(queue_manager="QM1", attempt=1, reason=2059, delay_s=1.0, lost_for_s=1.5)
    back = Reconnected(queue_manager="QM1", generation=1, objects=("ORDERS.IN",), attempts=2, downtime_ms=4_000.0)
    here = {"queue_manager": "QM1"}

    during, after = registry_after(lost, failed), registry_after(lost, failed, back)

    assert (1.5, 0.0) == tuple(each.get_sample_value("mqflow_away_seconds", here) for each in (during, after))
    assert (None, 1.0) == tuple(each.get_sample_value("mqflow_generation", here) for each in (during, after))
    assert 4.0 == after.get_sample_value("mqflow_outages_seconds_total", here)
    assert 1 == after.get_sample_value("mqflow_reconnections_total", here)
    unavailable = here | {"reason": "MQRC_Q_MGR_NOT_AVAILABLE (2059)"}
    assert 1 == after.get_sample_value("mqflow_reconnect_attempts_total", unavailable)


def test_every_attempt_to_connect_is_counted_and_every_object_that_is_not_open_again() -> None:
    refused_by_host = ConnectionTried(queue_manager="QM1", channel="A", address="mq1(1414)", reason=2538)
    entry = {"queue_manager": "QM1", "channel": "A", "address": "mq1(1414)"}
    refused = ReopenRefused(queue_manager="QM1", object="ORDERS.IN", owner="listener orders (0)", reason=2548)

    registry = registry_after(refused_by_host, replace(refused_by_host, reason=0), refused)

    counted = "mqflow_connections_tried_total"
    assert 1 == registry.get_sample_value(counted, entry | {"reason": "MQRC_HOST_NOT_AVAILABLE (2538)"})
    assert 1 == registry.get_sample_value(counted, entry | {"reason": ""})
    whose = {"object": "ORDERS.IN", "owner": "listener orders (0)", "reason": "MQRC_RECONNECT_FAILED (2548)"}
    assert 1 == registry.get_sample_value("mqflow_reopen_refusals_total", whose)


def test_queues_made_for_one_reply_each_are_one_series() -> None:
    refused = ReopenRefused(queue_manager="QM1", object="AMQ.00064748462040A2", owner="puts", reason=2085)

    registry = registry_after(refused, replace(refused, object="AMQ.00064748462040A3"))

    whose = {"object": "AMQ.*", "owner": "puts", "reason": "MQRC_UNKNOWN_OBJECT_NAME (2085)"}
    assert 2 == registry.get_sample_value("mqflow_reopen_refusals_total", whose)


def test_readiness_is_a_gauge_that_begins_at_0() -> None:
    ready, not_ready = ReadinessChanged(ready=True), ReadinessChanged(ready=False, missing=("ORDERS.IN",))

    shown = [registry_after(*events).get_sample_value("mqflow_ready") for events in ((), (ready,), (ready, not_ready))]

    assert [0, 1, 0] == shown
