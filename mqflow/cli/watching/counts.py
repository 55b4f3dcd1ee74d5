"""Counts the events of one process, for the metrics of its application. Only an application that serves metrics counts.

Any thread may read the numbers while the event loop counts.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from mqflow.events import (
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
from mqflow.mqi.names import dynamic_pattern
from mqflow.mqi.reason_codes import reason_name
from mqflow.policy.health.records import Counts, Series
from mqflow.policy.poison.disposition import Completed, Settlement

__all__ = ("BOUNDS_S", "COUNTED", "OVERFLOW", "SERIES_MAX", "Counted", "EventCounts", "counts_of_all")

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper bounds of the histogram buckets, in seconds."""

SERIES_MAX: Final = 500
"""The largest number of label combinations of a metric, because senders can choose some names in labels."""

OVERFLOW: Final = "(others)"
"""The value of each label in the series that counts everything that is beyond `SERIES_MAX`."""


class Counted(Struct, frozen=True):
    """A metric that is made from events: its kind ("counter", "gauge" or "histogram"), its meaning and its labels."""

    kind: str
    meaning: str
    labels: tuple[str, ...]


COUNTED: Final = {
    "messages_delivered": Counted("counter", "Messages got for a handler", ("queue",)),
    "units_of_work": Counted("counter", "Units of work that were committed or backed out", ("queue", "settlement", "outcome")),
    "handling_seconds": Counted("histogram", "Time that handlers took", ("queue", "outcome")),
    "settling_seconds": Counted("histogram", "Time that commits of completed units of work took", ("queue",)),
    "backout_decisions": Counted(
        "counter", "Backout decisions, by the destination that mqflow tries first", ("queue", "decision")
    ),
    "backout_dispositions": Counted(
        "counter", "Poison messages, by what mqflow did with them", ("queue", "disposition", "destination")
    ),
    "backout_refusals": Counted("counter", "Refused puts of poison messages", ("queue", "destination", "reason")),
    "commits_in_doubt": Counted("counter", "Commits without an answer", ("queue", "reason")),
    "consumer_failures": Counted("counter", "Consumers that ended although nothing stopped them", ("queue",)),
    "handlers_stuck": Counted("counter", "Handlers reported as running too long", ("queue",)),
    "listener_pauses": Counted(
        "counter", "Pauses of listeners: after a refused call, by its reason; otherwise without a reason", ("queue", "reason")
    ),
    "connections_tried": Counted("counter", "Attempts to connect; no reason if successful", ("queue_manager", "reason")),
    "reconnect_attempts": Counted("counter", "Failed attempts to reconnect", ("queue_manager", "reason")),
    "reconnections": Counted("counter", "Lost connections that were reconnected", ("queue_manager",)),
    "outages_seconds": Counted("counter", "Seconds of all outages that have ended", ("queue_manager",)),
    "away_seconds": Counted(
        "gauge",
        "Seconds from the loss of the connection to the latest attempt to reconnect; 0 while connected",
        ("queue_manager",),
    ),
    "generation": Counted("gauge", "Reconnections of this process so far", ("queue_manager",)),
    "reopen_refusals": Counted("counter", "Objects not opened again after an outage", ("object", "reason")),
    "delayed_late_seconds": Counted("histogram", "Time between the due time of a delayed message and its put", ("queue",)),
    "delayed_refusals": Counted("counter", "Delayed messages that their target refused", ("queue", "reason")),
    "dead_letter_actions": Counted("counter", "Actions of the DLQ handler", ("queue", "action", "reason")),
    "redrives": Counted("counter", "Dead letters that the DLQ handler put to a queue again", ("queue", "destination")),
}
"""The metrics of `EventCounts`; their names here lack the prefix `mqflow_`."""

_COMMIT: Final = Settlement.COMMIT  # a look-up on an enumeration takes longer than a global name
_Number = list[float]


class EventCounts:
    """A hook that counts events."""

    wants: Final = (
        ConnectionTried,
        ConsumerFailed,
        DeadLetterActed,
        Decided,
        DelayedDelivered,
        DelayedRefused,
        Delivered,
        Disposed,
        HandlerStuck,
        InDoubt,
        ListenerPaused,
        Reconnected,
        Reconnecting,
        ReopenRefused,
        Settled,
    )

    def __init__(self) -> None:
        self._numbers: dict[str, dict[tuple[str, ...], _Number]] = {name: {} for name in COUNTED}
        #: The first `SERIES_MAX` series, by the metric and the labels of the events, so that they are found quickly.
        self._known: dict[tuple[str, ...], _Number] = {}
        #: By queue: the two series that every completed message changes, for its unit of work and for its handling.
        self._completed: dict[str, tuple[_Number, _Number]] = {}
        #: By queue: the number of delivered messages.
        self._delivered: dict[str, _Number] = {}

    def counts(self) -> Counts:
        """Return the present numbers. Any thread may call this function.

        A row of a histogram has one more label: the bound of a bucket ("le"), "+Inf" or "sum". The buckets are not cumulative.
        """
        return {
            name: tuple(row for labels, number in series.copy().items() for row in _rows(COUNTED[name].kind, labels, number))
            for name, series in self._numbers.items()
            if series
        }

    def __call__(self, event: Event) -> None:  # noqa: C901, PLR0912 - one case for each class of event, each a line
        """Count the event."""
        if type(event) is Delivered:  # the two classes that each message causes come first, without `match`
            number = self._delivered.get(event.queue)
            if number is None:
                number = self._number("messages_delivered", event.queue)
                if len(self._delivered) < SERIES_MAX:
                    self._delivered[event.queue] = number
            number[0] += 1
            return
        if type(event) is Settled:
            self._settled(event)
            return
        match event:
            case Decided():
                self._add("backout_decisions", event.queue, type(event.plan[0]).__name__.lower())
            case Disposed():
                self._disposed(event)
            case InDoubt():
                self._add("commits_in_doubt", event.queue, reason_name(event.reason))
            case ConsumerFailed():
                self._add("consumer_failures", event.queue)
            case HandlerStuck():
                self._add("handlers_stuck", event.queue)
            case ListenerPaused():
                self._add("listener_pauses", event.queue, _reason(event.reason))
            case ConnectionTried():
                self._add("connections_tried", event.queue_manager, _reason(event.reason))
            case Reconnecting():
                self._set("away_seconds", event.lost_for_s, event.queue_manager)
                if event.attempt:
                    self._add("reconnect_attempts", event.queue_manager, _reason(event.reason))
            case Reconnected():
                self._add("reconnections", event.queue_manager)
                self._number("outages_seconds", event.queue_manager)[0] += event.downtime_ms / 1_000
                self._set("away_seconds", 0.0, event.queue_manager)
                self._set("generation", event.generation, event.queue_manager)
            case ReopenRefused():
                self._add("reopen_refusals", event.object, _reason(event.reason))
            case DelayedDelivered():
                self._observe("delayed_late_seconds", event.late_ms / 1_000, event.queue)
            case DelayedRefused():
                self._add("delayed_refusals", event.queue, _reason(event.reason))
            case DeadLetterActed():
                self._acted(event)
            case _:
                return

    def _settled(self, event: Settled) -> None:
        is_usual = type(event.outcome) is Completed and event.settlement is _COMMIT
        known = self._completed.get(event.queue) if is_usual else None
        if known is None:
            outcome = type(event.outcome).__name__.lower() if event.outcome is not None else "not_handled"
            units = self._number("units_of_work", event.queue, event.settlement.value, outcome)
            if event.outcome is None:
                units[0] += 1
                return
            known = units, self._number("handling_seconds", event.queue, outcome)
            if is_usual and len(self._completed) < SERIES_MAX:
                self._completed[event.queue] = known
        if event.settle_s:
            self._observe("settling_seconds", event.settle_s, event.queue)
        units, seconds = known
        units[0] += 1
        seconds[bisect_left(BOUNDS_S, event.handled_s)] += 1
        seconds[-1] += event.handled_s

    def _disposed(self, event: Disposed) -> None:
        for attempt in event.attempts:
            destination = getattr(attempt.disposition, "queue", "")  # only some dispositions have a queue
            if attempt.reason:
                self._add("backout_refusals", event.queue, destination, reason_name(attempt.reason))
            else:
                kind = type(attempt.disposition).__name__.lower()
                self._add("backout_dispositions", event.queue, kind, destination)

    def _acted(self, event: DeadLetterActed) -> None:
        self._add("dead_letter_actions", event.queue, type(event.intent).__name__.lower(), _reason(event.reason))
        destination = getattr(event.intent, "queue", "")  # only `Redirect` has a queue
        if destination and not event.reason:
            self._add("redrives", event.queue, destination)

    def _add(self, name: str, *labels: str) -> None:
        self._number(name, *labels)[0] += 1

    def _set(self, name: str, value: float, *labels: str) -> None:
        self._number(name, *labels)[0] = value

    def _observe(self, name: str, seconds: float, *labels: str) -> None:
        number = self._number(name, *labels)
        number[bisect_left(BOUNDS_S, seconds)] += 1
        number[-1] += seconds

    def _number(self, *key: str) -> _Number:
        """Return the numbers of a series: one number; or for a histogram, a number for each bucket, and then the sum."""
        found = self._known.get(key)
        return self._made(key) if found is None else found

    def _made(self, key: tuple[str, ...]) -> _Number:
        # Each dynamic queue has another name. Its pattern is used instead, to keep the number of series small.
        name, *given = key
        labels = tuple(dynamic_pattern(label) or label for label in given)
        series = self._numbers[name]
        if len(series) >= SERIES_MAX and labels not in series:
            labels = (OVERFLOW,) * len(labels)
        found = series.get(labels)
        if found is None:
            found = series[labels] = [0.0] * (len(BOUNDS_S) + 2 if COUNTED[name].kind == "histogram" else 1)
        if len(self._known) < SERIES_MAX:
            self._known[key] = found
        return found


def counts_of_all(counters: Mapping[str, EventCounts]) -> Counts:
    """Return the numbers for several queue managers. The first label of each series begins with the queue manager's name.

    This label is a queue, an object or a queue manager. For the queue manager whose name is "", the label does not change.
    """
    found = dict[str, Series]()
    for name, counter in counters.items():
        prefix = f"{name}:" if name else ""
        for metric, series in counter.counts().items():
            rows = tuple(((prefix + first, *others), value) for (first, *others), value in series)
            found[metric] = (*found.get(metric, ()), *rows)
    return found


def _rows(kind: str, labels: tuple[str, ...], number: _Number) -> Sequence[tuple[tuple[str, ...], float]]:
    if kind != "histogram":
        return ((labels, number[0]),)
    bounds = (*(str(bound) for bound in BOUNDS_S), "+Inf", "sum")
    return tuple(((*labels, bound), value) for bound, value in zip(bounds, number, strict=True))


def _reason(reason: int) -> str:
    return reason_name(reason) if reason else ""
