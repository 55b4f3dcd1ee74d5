"""The counts of events, and the metrics that Prometheus reads from them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from mqflow.cli.watching.counts import BOUNDS_S, COUNTED, EventCounts
from mqflow.cli.watching.metrics import STATES, exposed, families
from mqflow.events import (
    Attempt,
    ConnectionTried,
    ConsumerFailed,
    DeadLetterActed,
    Decided,
    DelayedDelivered,
    DelayedRefused,
    Delivered,
    Disposed,
    Event,
    HandlerStuck,
    InDoubt,
    ListenerPaused,
    Reconnected,
    Reconnecting,
    ReopenRefused,
    Settled,
)
from mqflow.policy.dead_letters.intents import Discard as DiscardIntent
from mqflow.policy.dead_letters.intents import Redirect
from mqflow.policy.health.records import ApplicationStatus, ProcessStatus
from mqflow.policy.poison.disposition import Completed, Deliver, Failed, Requeue, Return, Settlement

ID = bytes(24)
IN: dict[str, Any] = {"queue": "IN", "listener": "orders"}
ONE: dict[str, Any] = IN | {"message_id": ID}
DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana-dashboard.json"

ROWS: list[tuple[Event, str, tuple[str, ...], float]] = [
    (Delivered(**ONE, backout_count=0, body_bytes=2), "messages_delivered", ("IN",), 1),
    (Settled(**IN, settlement=Settlement.COMMIT, message_ids=(ID,), outcome=Completed()), "units_of_work",
     ("IN", "commit", "completed"), 1),
    (Settled(**IN, settlement=Settlement.BACKOUT, message_ids=(ID,), outcome=None), "units_of_work",
     ("IN", "backout", "not_handled"), 1),
    (Settled(**IN, settlement=Settlement.BACKOUT, message_ids=(ID,), outcome=Failed("E"), handled_s=0.25), "handling_seconds",
     ("IN", "failed", "sum"), 0.25),
    (Settled(**IN, settlement=Settlement.COMMIT, message_ids=(ID,), outcome=Completed(), settle_s=0.5), "settling_seconds",
     ("IN", "sum"), 0.5),
    (Decided(**ONE, backout_count=1, threshold=3, backout_requeue_queue="", threshold_source="", queue_source="",
             plan=(Deliver(), Return("x"))), "backout_decisions", ("IN", "deliver"), 1),
    (Disposed(**ONE, backout_count=3, attempts=(Attempt(Requeue("BOQ"), 2053), Attempt(Return("x")))), "backout_refusals",
     ("IN", "BOQ", "MQRC_Q_FULL (2053)"), 1),
    (Disposed(**ONE, backout_count=3, attempts=(Attempt(Requeue("BOQ")),)), "backout_dispositions", ("IN", "requeue", "BOQ"),
     1),
    (InDoubt(**IN, reason=2009, message_ids=(ID,)), "commits_in_doubt", ("IN", "MQRC_CONNECTION_BROKEN (2009)"), 1),
    (ConsumerFailed(consumer="c", queue="IN", error="E", traceback="", failures=1, restarts_in_s=1), "consumer_failures",
     ("IN",), 1),
    (HandlerStuck(**ONE, running_s=60, stack=""), "handlers_stuck", ("IN",), 1),
    (ListenerPaused(**IN, why="x", delay_s=1), "listener_pauses", ("IN", ""), 1),
    (ConnectionTried(queue_manager="QM1"), "connections_tried", ("QM1", ""), 1),
    (Reconnecting(queue_manager="QM1", attempt=2, reason=2059, delay_s=1, lost_for_s=9), "reconnect_attempts",
     ("QM1", "MQRC_Q_MGR_NOT_AVAILABLE (2059)"), 1),
    (Reconnecting(queue_manager="QM1", attempt=2, reason=2059, delay_s=1, lost_for_s=9), "away_seconds", ("QM1",), 9),
    (Reconnected(queue_manager="QM1", generation=4, objects=(), attempts=2, downtime_ms=1_500), "outages_seconds", ("QM1",),
     1.5),
    (Reconnected(queue_manager="QM1", generation=4, objects=(), attempts=2, downtime_ms=1_500), "generation", ("QM1",), 4),
    (Reconnected(queue_manager="QM1", generation=4, objects=(), attempts=2, downtime_ms=1_500), "reconnections", ("QM1",), 1),
    (ReopenRefused(queue_manager="QM1", object="IN", owner="o", reason=2085), "reopen_refusals",
     ("IN", "MQRC_UNKNOWN_OBJECT_NAME (2085)"), 1),
    (DelayedDelivered(queue="IN", message_id=ID, delay_ms=10, late_ms=40), "delayed_late_seconds", ("IN", "0.05"), 1),
    (DelayedRefused(queue="IN", message_id=ID, disposition=Return("x"), reason=2053), "delayed_refusals",
     ("IN", "MQRC_Q_FULL (2053)"), 1),
    (DeadLetterActed(queue="DLQ", message_id=ID, rule="line 1", intent=DiscardIntent(), attempt=1), "dead_letter_actions",
     ("DLQ", "discard", ""), 1),
    (DeadLetterActed(queue="DLQ", message_id=ID, rule="line 1", intent=Redirect("IN"), attempt=1), "redrives", ("DLQ", "IN"),
     1),
]  # fmt: skip


@pytest.mark.parametrize(("event", "name", "labels", "value"), ROWS)
def test_an_event_changes_its_metric(event: Event, name: str, labels: tuple[str, ...], value: float) -> None:
    counts = EventCounts()

    counts(event)

    assert value == dict(counts.counts()[name])[labels]


def test_every_metric_has_a_row_above_and_every_event_is_wanted() -> None:
    assert set(COUNTED) == {name for _, name, _, _ in ROWS}
    assert set(EventCounts.wants) == {type(event) for event, *_ in ROWS}


def everything() -> ApplicationStatus:
    counts = EventCounts()
    for event, *_ in ROWS:
        counts(event)
    return ApplicationStatus(
        application="a", process=1, processes=(ProcessStatus(process=1, taken_at=1.0, ready=True, counts=counts.counts()),)
    )


def test_the_buckets_of_a_histogram_are_cumulative() -> None:
    [handling] = [family for family in families(everything(), ()) if family.name == "mqflow_handling_seconds"]

    buckets = {
        sample.labels["le"]: sample.value
        for sample in handling.samples
        if sample.name.endswith("_bucket") and sample.labels["outcome"] == "failed"
    }
    assert {str(bound): float(bound >= 0.25) for bound in BOUNDS_S} | {"+Inf": 1.0} == buckets


def test_every_query_of_the_dashboard_names_an_exported_metric() -> None:
    text = exposed(everything(), ()).decode()
    exported = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    exported |= {f"mqflow_{name}" for name in STATES}
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))

    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]

    assert len(queries) >= 15
    for query in queries:
        named = set(re.findall(r"\bmqflow_\w+", query))
        assert named, query
        assert named <= exported, query


def test_no_alert_and_no_panel_misses_the_first_event_of_a_series() -> None:
    """A counter has no series before its first event. `increase` compares two samples, so it does not see this event."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    page = (DASHBOARD.parent / "metrics.md").read_text(encoding="utf-8").partition("## Alerts")[2]

    alerts = [query for query in re.findall(r"^\| .* \| `(.*)`", page, re.MULTILINE) if "increase(" in query]

    assert [] == [target["expr"] for panel in panels for target in panel["targets"] if "increase(" in target["expr"]]
    assert 2 == len(alerts)
    for query in alerts:
        [(counter, time)] = re.findall(r"increase\((\w+)\[(\w+)\]\)", query)
        assert f"increase({counter}[{time}]) > 0 or {counter} unless {counter} offset {time}" == query


def test_grafana_knows_every_field_of_the_dashboard() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    plugins.register_default_plugins()

    read = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))

    assert [] == list(lost(dashboard, read, "dashboard"))


def lost(given: Any, read: Any, place: str) -> Iterator[str]:
    """Yield each place whose value is not there, or is another one, after Grafana's own library has read it."""
    if isinstance(given, dict) and isinstance(read, dict):
        for name, value in given.items():
            yield from lost(value, read.get(name), f"{place}.{name}")
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for number, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from lost(one, other, f"{place}[{number}]")
    elif given != read:
        yield place


def test_every_metric_is_on_the_dashboard_or_in_its_reference() -> None:
    page = (DASHBOARD.parent / "metrics.md").read_text(encoding="utf-8").partition("## The pipeline")[0]

    suffixes = {"counter": "_total"}
    names = {f"mqflow_{name}" for name in STATES}
    names |= {f"mqflow_{name}{suffixes.get(counted.kind, '')}" for name, counted in COUNTED.items()}
    assert names == set(re.findall(r"^\| `(mqflow_\w+)`", page, re.MULTILINE))
