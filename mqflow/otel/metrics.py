"""The metrics: counts of events, as plain numbers that a meter reads. To count an event takes well under a microsecond.

The hook receives events; listeners count their ordinary messages themselves, in a `ListenerTally` of this hook. Instruments are
observable, because `add` of a counter takes ten to twenty times as long as an increment. OpenTelemetry has no observable
histogram, so the duration of handling has two counters: its sum, and its buckets with the attribute `le`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation, get_meter_provider

from mqflow.events import (
    ConnectionTried,
    ConsumerFailed,
    DeadLetterActed,
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
from mqflow.mqi.names import dynamic_pattern
from mqflow.mqi.reason_codes import reason_name
from mqflow.otel.attributes import SYSTEM, TEMPLATE, destination_of, disposition_name, outcome_name
from mqflow.policy.poison.disposition import Completed, Settlement
from mqflow.tally import ListenerTally, Numbers, add, observe

__all__ = ("DURATION_BOUNDS_S", "SERIES_MAX", "Metrics")

#: The bucket bounds that the conventions recommend for messaging.process.duration, in seconds.
DURATION_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

SERIES_MAX: Final = 1_000
"""The largest number of label combinations of a counter. There is a limit because requesters choose some names in labels."""

_Labels = tuple[tuple[str, str], ...]

_Counts = dict[_Labels, Numbers]

#: The label of all further counts if there are more than `SERIES_MAX` series, as the OpenTelemetry specification names it.
_OVERFLOW: Final[_Labels] = (("otel.metric.overflow", "true"),)

_CONSUMED: Final = "messaging.client.consumed.messages"
_SENT: Final = "messaging.client.sent.messages"
_UNITS: Final = "mqflow.units_of_work"
_DISPOSITIONS: Final = "mqflow.backout.dispositions"
_REFUSALS: Final = "mqflow.backout.refusals"
_REPORTS: Final = "mqflow.reports"
_IN_DOUBT: Final = "mqflow.commits_in_doubt"
_PAUSES: Final = "mqflow.listener.pauses"
_CONSUMER_FAILURES: Final = "mqflow.consumer.failures"
_STUCK: Final = "mqflow.handlers_stuck"
_RECONNECTIONS: Final = "mqflow.reconnections"
_ATTEMPTS: Final = "mqflow.reconnection_attempts"
_CONNECTIONS_TRIED: Final = "mqflow.connections_tried"
_REOPEN_REFUSALS: Final = "mqflow.reopen_refusals"
_AWAY_S: Final = "mqflow.away.seconds"
_DEAD_LETTERS: Final = "mqflow.dead_letters"
_HOOK_FAILURES: Final = "mqflow.hook_failures"
#: The histograms of the seconds that handlers took. They have two counters.
_HANDLED: Final = "mqflow.process.duration"
_TALLIED: Final = (_CONSUMED, _UNITS, _HANDLED)

#: The counters: name, unit, meaning.
_COUNTERS: Final = (
    (_CONSUMED, "{message}", "Messages got for a handler"),
    (_SENT, "{message}", "Messages put by the application"),
    (_UNITS, "{unit}", "Units of work settled, by settlement and outcome"),
    (_DISPOSITIONS, "{message}", "Poison messages disposed of, by disposition and destination"),
    (_REFUSALS, "{put}", "Puts of poison messages that were refused, by destination and reason"),
    (_REPORTS, "{report}", "Exception reports, by reason if their queue refused them"),
    (_IN_DOUBT, "{unit}", "Commits without an answer, by reason"),
    (_PAUSES, "{pause}", "Times a listener paused"),
    (_CONSUMER_FAILURES, "{failure}", "Workers, listeners and services that ended although nothing stopped them"),
    (_STUCK, "{handler}", "Handlers reported as running too long"),
    (_RECONNECTIONS, "{connection}", "Outages that are over; connections that are lost together count once"),
    (_ATTEMPTS, "{attempt}", "Failed attempts to reconnect, by reason"),
    (_CONNECTIONS_TRIED, "{attempt}", "Attempts to connect, by entry of a channel table and reason of failure"),
    (_AWAY_S, "s", "Seconds of all outages that have ended"),
    (_REOPEN_REFUSALS, "{object}", "Objects that could not be opened again after an outage"),
    (_DEAD_LETTERS, "{attempt}", "Actions of the DLQ handler, by rule, action and reason of failure"),
    (_HOOK_FAILURES, "{failure}", "Hooks that raised"),
)

_AWAY: Final = "mqflow.away"
_GENERATION: Final = "mqflow.generation"
_READY: Final = "mqflow.ready"

#: The gauges: name, unit, meaning.
_GAUGES: Final = (
    (_AWAY, "s", "Seconds from the loss of the connection to the latest attempt to reconnect; 0 while connected"),
    (_GENERATION, "{generation}", "Number of reconnections"),
    (_READY, "1", "1 while every listener has its queue open, else 0"),
)


class Metrics:
    """A hook that counts events, for the instruments of a meter."""

    wants: Final = (
        ConnectionTried, ConsumerFailed, DeadLetterActed, Delivered, Disposed, HandlerStuck, HookFailed, InDoubt,
        ListenerPaused, ReadinessChanged, Reconnected, Reconnecting, ReopenRefused, ReportSent, Settled,
    )  # fmt: skip

    def __init__(self, provider: MeterProvider | None = None) -> None:
        self._counts: dict[str, _Counts] = {_HANDLED: {}, **{name: {} for name, _, _ in _COUNTERS}}
        self._levels: dict[str, dict[_Labels, float]] = {name: {} for name, _, _ in _GAUGES}
        #: The numbers that listeners increment, by the labels of their queues.
        self._tallies: dict[_Labels, ListenerTally] = {}
        self._make_instruments((provider or get_meter_provider()).get_meter("mqflow"))

    def __call__(self, event: Event) -> None:  # noqa: C901, PLR0912 - one case for each class of event, each a line
        """Count the event."""
        match event:
            case Delivered():
                self._add(_CONSUMED, _queue(event.queue))
            case Settled():
                self._settled(event)
            case Disposed():
                self._disposed(event)
            case InDoubt():
                self._add(_IN_DOUBT, (*_queue(event.queue), ("error.type", reason_name(event.reason))))
            case ReportSent():
                self._add(_REPORTS, (*_queue(event.reply_to_queue), ("error.type", _refusal(event.reason))))
            case ListenerPaused():
                self._add(_PAUSES, _queue(event.queue))
            case ConsumerFailed():
                self._add(_CONSUMER_FAILURES, _queue(event.queue))
            case HandlerStuck():
                self._add(_STUCK, _queue(event.queue))
            case Reconnected():
                self._reconnected(event)
            case Reconnecting():
                self._reconnecting(event)
            case ReadinessChanged():
                self._levels[_READY][()] = int(event.ready)
            case ConnectionTried():
                where = (*_manager(event.queue_manager), ("mqflow.channel", event.channel), ("server.address", event.address))
                self._add(_CONNECTIONS_TRIED, (*where, ("error.type", _refusal(event.reason))))
            case ReopenRefused():
                self._add(_REOPEN_REFUSALS, (*_queue(event.object), ("error.type", _refusal(event.reason))))
            case DeadLetterActed():
                self._acted(event)
            case HookFailed():
                self._add(_HOOK_FAILURES, (("mqflow.hook", event.hook),))
            case _:
                return

    def sent(self, queue: str) -> None:
        """Count one message put by the application."""
        self._add(_SENT, _queue(queue))

    def listener_tally(self, queue: str) -> ListenerTally:
        """Return the tally in which a listener counts the ordinary messages of this queue."""
        made = ListenerTally(DURATION_BOUNDS_S)
        for name, (labels, _) in _tallied(_queue(queue), made).items():
            self._count(name, labels)
        return self._tallies.setdefault(_queue(queue), made)

    def _settled(self, event: Settled) -> None:
        outcome = "not_handled" if event.outcome is None else outcome_name(event.outcome)
        labels = (*_queue(event.queue), ("mqflow.outcome", outcome))
        self._add(_UNITS, (*labels, ("mqflow.settlement", event.settlement.value)))
        if event.outcome is not None:
            observe(self._count(_HANDLED, labels), DURATION_BOUNDS_S, event.handled_s)

    def _disposed(self, event: Disposed) -> None:
        for attempt in event.attempts:
            destination = ("mqflow.backout.destination", destination_of(attempt.disposition))
            if attempt.reason:
                self._add(_REFUSALS, (*_queue(event.queue), destination, ("error.type", reason_name(attempt.reason))))
            else:
                disposition = ("mqflow.backout.disposition", disposition_name(attempt.disposition))
                self._add(_DISPOSITIONS, (*_queue(event.queue), destination, disposition))

    def _reconnecting(self, event: Reconnecting) -> None:
        manager = _manager(event.queue_manager)
        self._levels[_AWAY][manager] = event.lost_for_s
        if event.attempt:
            self._add(_ATTEMPTS, (*manager, ("error.type", _refusal(event.reason))))

    def _reconnected(self, event: Reconnected) -> None:
        manager = _manager(event.queue_manager)
        self._add(_RECONNECTIONS, manager)
        self._counts[_AWAY_S].setdefault(manager, [0])[0] += event.downtime_ms / 1_000
        self._levels[_AWAY][manager] = 0.0
        self._levels[_GENERATION][manager] = event.generation

    def _acted(self, event: DeadLetterActed) -> None:
        rule = (("mqflow.rule", event.rule or "none"), ("mqflow.action", type(event.intent).__name__.lower()))
        self._add(_DEAD_LETTERS, (*_queue(event.queue), *rule, ("error.type", _refusal(event.reason))))

    def _add(self, name: str, labels: _Labels) -> None:
        self._count(name, labels)[0] += 1

    def _count(self, name: str, labels: _Labels) -> Numbers:
        counts = self._counts[name]
        if len(counts) >= SERIES_MAX and labels not in counts:
            labels = _OVERFLOW
        return counts.setdefault(labels, [0] * (len(DURATION_BOUNDS_S) + 2 if name == _HANDLED else 1))

    def _make_instruments(self, meter: Meter) -> None:
        for name, unit, description in _COUNTERS:
            meter.create_observable_counter(name, [self._reader(name)], unit, description)
        for name, unit, description in _GAUGES:
            meter.create_observable_gauge(name, [_reader(self._levels[name])], unit, description)
        meter.create_observable_counter(
            f"{_HANDLED}.sum", [self._reader(_HANDLED)], "s", "Seconds spent handling units of work"
        )
        meter.create_observable_counter(
            f"{_HANDLED}.bucket", [self._buckets], "{unit}", "Units of work handled within `le` seconds, cumulative"
        )

    def _reader(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Return a callback that reads a counter. The count, or the sum of a histogram, is the last number of a series."""

        def read(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(numbers[-1], _attributes(labels)) for labels, numbers in self._counted(name)]

        return read

    def _counted(self, name: str) -> list[tuple[_Labels, Numbers]]:
        """Return the series that have counted something: a tally has its series before the first message."""
        tallies = self._tallies.copy()  # before the series, because a tally gets its series first
        series = self._counts[name].copy()
        if name in _TALLIED:
            add(series, [_tallied(queue, tally)[name] for queue, tally in tallies.items()], _OVERFLOW)
        return [(labels, numbers) for labels, numbers in series.items() if any(numbers)]

    def _buckets(self, _: CallbackOptions) -> Iterable[Observation]:
        for labels, counts in self._counted(_HANDLED):
            so_far: float = 0
            for bound, count in zip((*map(str, DURATION_BOUNDS_S), "+Inf"), counts[:-1], strict=True):
                so_far += count
                yield Observation(so_far, {**_attributes(labels), "le": bound})


@lru_cache(maxsize=SERIES_MAX)
def _queue(name: str) -> _Labels:
    """Return the label of a queue. The label of a dynamic queue is its name pattern, so one series counts all such queues."""
    pattern = dynamic_pattern(name)
    return ((TEMPLATE, pattern),) if pattern else (("messaging.destination.name", name),)


def _manager(name: str) -> _Labels:
    return (("mqflow.queue_manager", name),)


def _refusal(reason: int) -> str:
    return reason_name(reason) if reason else ""


def _attributes(labels: _Labels) -> dict[str, str]:
    """Return the labels as attributes. Add `messaging.system`, and leave out empty labels."""
    return {"messaging.system": SYSTEM, **{name: value for name, value in labels if value}}


def _tallied(queue: _Labels, tally: ListenerTally) -> Mapping[str, tuple[_Labels, Numbers]]:
    """Return the series of each metric in `_TALLIED`, with the numbers that a tally adds to it."""
    handled, outcome = tally.handled(), (*queue, ("mqflow.outcome", outcome_name(Completed())))
    return {
        _CONSUMED: (queue, [tally.delivered]),
        _UNITS: ((*outcome, ("mqflow.settlement", Settlement.COMMIT.value)), [sum(handled[:-1])]),
        _HANDLED: (outcome, handled),
    }


def _reader(counts: Mapping[_Labels, float]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    """Return a callback that reads the counts on the meter's own thread. It copies them in one step before it reads them."""

    def read(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, _attributes(labels)) for labels, value in tuple(counts.items())]

    return read
