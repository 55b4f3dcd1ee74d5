"""Prometheus metrics for mqflow applications: a hook that turns events into counters, gauges and one histogram.

This module knows mqflow's events and prometheus-client. It opens no network port, except in `serve`.
"""

import os
from collections.abc import Callable
from typing import Final, assert_never

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from mqflow.events import (
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
from mqflow.mqi.names import dynamic_pattern
from mqflow.mqi.reason_codes import reason_name

__all__ = ("PrometheusMetrics", "port_of_worker", "serve")


def port_of_worker(first_port: int, environment: dict[str, str] | None = None) -> int:
    """Return the port of this process: `first_port`; for worker process N of `mqflow run --workers`, `first_port` + N - 1."""
    number = (os.environ if environment is None else environment).get("MQFLOW_WORKER", "1")
    return first_port + int(number) - 1


def serve(first_port: int, *, address: str = "127.0.0.1", registry: CollectorRegistry = REGISTRY) -> int:
    """Serve the metrics of this process, and return the port. Each worker process has a port of its own: `port_of_worker`.

    Raises `OSError`, with the port, if the port cannot be used.
    """
    port = port_of_worker(first_port)
    try:
        start_http_server(port, address, registry)
    except OSError as error:
        raise OSError(error.errno, f"Metrics cannot be served on port {port} of {address}: {error.strerror}") from error
    return port


class PrometheusMetrics:
    """A hook that counts events: `App(..., hooks=[PrometheusMetrics()])` or, as a plugin, `hooks=["prometheus"]`.

    `registry` receives the metrics. A second hook on the same registry raises the `ValueError` of prometheus-client.
    """

    wants: Final = (
        ConnectionTried,
        ConsumerFailed,
        Delivered,
        Disposed,
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

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"mqflow_{name}", meaning, labels, registry=registry)

        def gauge(name: str, meaning: str, *labels: str) -> Gauge:
            return Gauge(f"mqflow_{name}", meaning, labels, registry=registry)

        self._delivered = counter("messages_delivered", "Messages got for a handler", "queue")
        self._units = counter(
            "units_of_work", "Units of work that were committed or backed out", "queue", "settlement", "outcome"
        )
        self._dispositions = counter(
            "backout_dispositions", "Poison messages by disposition", "queue", "disposition", "destination"
        )
        self._refusals = counter("backout_refusals", "Refused puts of poison messages", "queue", "destination", "reason")
        self._in_doubt = counter("commits_in_doubt", "Commits without an answer", "queue", "reason")
        self._failures = counter("consumer_failures", "Consumers that ended although nothing stopped them", "queue")
        self._stuck = counter("handlers_stuck", "Handlers reported as running too long", "queue")
        self._handling = Histogram("mqflow_handling_seconds", "Time handlers took", ("queue", "outcome"), registry=registry)
        self._running = gauge("listener_running", "1 from start to stop", "queue", "listener")
        self._paused = gauge("listener_paused", "1 while the listener pauses", "queue", "listener")
        self._reconnects = _Reconnects(counter, gauge)

    def __call__(self, event: Event) -> None:  # noqa: C901 - one case for each class of event, each a line
        """Count the event."""
        match event:
            case Delivered():
                self._delivered.labels(event.queue).inc()
            case Settled():
                self._settled(event)
            case Disposed():
                self._disposed(event)
            case InDoubt():
                self._in_doubt.labels(event.queue, reason_name(event.reason)).inc()
            case ConsumerFailed():
                self._failures.labels(event.queue).inc()
            case HandlerStuck():
                self._stuck.labels(event.queue).inc()
            case ListenerStarted():
                self._running.labels(event.queue, event.listener).set(1)
                self._paused.labels(event.queue, event.listener).set(0)
            case ListenerStopped():
                self._running.labels(event.queue, event.listener).set(0)
                self._paused.labels(event.queue, event.listener).set(0)
            case ListenerPaused():
                self._paused.labels(event.queue, event.listener).set(1)
            case ListenerResumed():
                self._paused.labels(event.queue, event.listener).set(0)
            case ConnectionTried() | Reconnecting() | Reconnected() | ReopenRefused() | ReadinessChanged():
                self._reconnects(event)
            case _:
                return

    def _settled(self, event: Settled) -> None:
        outcome = type(event.outcome).__name__.lower() if event.outcome is not None else "not_handled"
        self._units.labels(event.queue, event.settlement.value, outcome).inc()
        if event.outcome is not None:
            self._handling.labels(event.queue, outcome).observe(event.handled_s)

    def _disposed(self, event: Disposed) -> None:
        for attempt in event.attempts:
            destination = getattr(attempt.disposition, "queue", "")  # only some dispositions have a destination
            if attempt.reason:
                self._refusals.labels(event.queue, destination, reason_name(attempt.reason)).inc()
            else:
                kind = type(attempt.disposition).__name__.lower()
                self._dispositions.labels(event.queue, kind, destination).inc()


class _Reconnects:
    """The metrics of connections and reconnections."""

    def __init__(self, counter: Callable[..., Counter], gauge: Callable[..., Gauge]) -> None:
        tried = ("queue_manager", "channel", "address", "reason")
        self._tried = counter("connections_tried", "Attempts to connect; no reason if successful", *tried)
        self._failed = counter("reconnect_attempts", "Failed attempts to reconnect", "queue_manager", "reason")
        self._refused = counter("reopen_refusals", "Objects not reopened after an outage", "object", "owner", "reason")
        self._back = counter("reconnections", "Outages that have ended", "queue_manager")
        self._were_away = counter("outages_seconds", "Seconds of all outages that have ended", "queue_manager")
        self._away = gauge(
            "away_seconds",
            "Seconds from the loss of the connection to the latest attempt to reconnect; 0 while connected",
            "queue_manager",
        )
        self._generation = gauge("generation", "Number of reconnections", "queue_manager")
        self._ready = gauge("ready", "1 while every listener has its queue open")

    def __call__(self, event: ConnectionTried | Reconnecting | Reconnected | ReopenRefused | ReadinessChanged) -> None:
        match event:
            case ConnectionTried():
                self._tried.labels(event.queue_manager, event.channel, event.address, _reason(event.reason)).inc()
            case Reconnecting():
                self._away.labels(event.queue_manager).set(event.lost_for_s)
                if event.attempt:
                    self._failed.labels(event.queue_manager, _reason(event.reason)).inc()
            case Reconnected():
                self._back.labels(event.queue_manager).inc()
                self._were_away.labels(event.queue_manager).inc(event.downtime_ms / 1_000)
                self._away.labels(event.queue_manager).set(0)
                self._generation.labels(event.queue_manager).set(event.generation)
            case ReopenRefused():
                # Each dynamic queue has a new name; its pattern keeps the number of series small.
                named = dynamic_pattern(event.object) or event.object
                self._refused.labels(named, event.owner, _reason(event.reason)).inc()
            case ReadinessChanged():
                self._ready.set(event.ready)
            case _:
                assert_never(event)


def _reason(reason: int) -> str:
    return reason_name(reason) if reason else ""
