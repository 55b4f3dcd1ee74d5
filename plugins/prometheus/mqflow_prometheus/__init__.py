"""Prometheus metrics for mqflow applications: a hook that turns events into counters, gauges and one histogram.

Knows mqflow's events and prometheus-client; serves nothing over a network, `prometheus_client.start_http_server` does.
"""

from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from mqflow.events import (
    Delivered,
    Disposed,
    Event,
    HandlerStuck,
    InDoubt,
    ListenerPaused,
    ListenerResumed,
    ListenerStarted,
    ListenerStopped,
    Settled,
)
from mqflow.mqi.reason_codes import reason_name

__all__ = ("PrometheusMetrics",)


class PrometheusMetrics:
    """A hook: `App(..., hooks=[PrometheusMetrics()])`, or `hooks=["prometheus"]` where this distribution is installed.

    Metrics live in `registry`, once: a second hook on the same registry is refused by prometheus-client (`ValueError`).
    """

    wants: Final = (
        Delivered,
        Disposed,
        HandlerStuck,
        InDoubt,
        ListenerPaused,
        ListenerResumed,
        ListenerStarted,
        ListenerStopped,
        Settled,
    )

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"mqflow_{name}", meaning, labels, registry=registry)

        self._delivered = counter("messages_delivered", "Messages got for a handler", "queue")
        self._units = counter("units_of_work", "Units of work settled", "queue", "settlement", "outcome")
        self._dispositions = counter("backout_dispositions", "Poison messages by fate", "queue", "disposition", "destination")
        self._refusals = counter("backout_refusals", "Destinations that refused one", "queue", "destination", "reason")
        self._in_doubt = counter("commits_in_doubt", "Commits without an answer", "queue", "reason")
        self._stuck = counter("handlers_stuck", "Handlers reported as running too long", "queue")
        self._handling = Histogram("mqflow_handling_seconds", "Time handlers took", ("queue", "outcome"), registry=registry)
        self._running = Gauge("mqflow_listener_running", "1 from start to stop", ("queue", "listener"), registry=registry)
        self._paused = Gauge("mqflow_listener_paused", "1 while it pauses", ("queue", "listener"), registry=registry)

    def __call__(self, event: Event) -> None:
        """Count it."""
        match event:
            case Delivered():
                self._delivered.labels(event.queue).inc()
            case Settled():
                self._settled(event)
            case Disposed():
                self._disposed(event)
            case InDoubt():
                self._in_doubt.labels(event.queue, reason_name(event.reason)).inc()
            case HandlerStuck():
                self._stuck.labels(event.queue).inc()
            case ListenerStarted():
                self._running.labels(event.queue, event.listener).set(1)
                self._paused.labels(event.queue, event.listener).set(0)
            case ListenerStopped():
                self._running.labels(event.queue, event.listener).set(0)
            case ListenerPaused():
                self._paused.labels(event.queue, event.listener).set(1)
            case ListenerResumed():
                self._paused.labels(event.queue, event.listener).set(0)
            case _:
                return

    def _settled(self, event: Settled) -> None:
        outcome = type(event.outcome).__name__.lower() if event.outcome is not None else "not_handled"
        self._units.labels(event.queue, event.settlement.value, outcome).inc()
        if event.outcome is not None:
            self._handling.labels(event.queue, outcome).observe(event.handled_s)

    def _disposed(self, event: Disposed) -> None:
        for attempt in event.attempts:
            destination = getattr(attempt.disposition, "queue", "")
            if attempt.reason:
                self._refusals.labels(event.queue, destination, reason_name(attempt.reason)).inc()
            else:
                kind = type(attempt.disposition).__name__.lower()
                self._dispositions.labels(event.queue, kind, destination).inc()
