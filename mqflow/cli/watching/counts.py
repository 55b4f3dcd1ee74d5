"""Counts the events of one process for the metrics of its application. Only an application that serves metrics has counts.

The hook knows events and numbers. Any thread can read the numbers while the event loop counts. Listeners count their ordinary
messages themselves, in a `ListenerTally` of this hook.
"""

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
from mqflow.policy.poison.disposition import Settlement
from mqflow.tally import ListenerTally, Numbers, add, observe

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
    "reconnections": Counted("counter", "Outages that are over; connections lost together count once", ("queue_manager",)),
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


class EventCounts:
    """A hook that counts events."""

    wants: Final = (
        ConnectionTried, ConsumerFailed, DeadLetterActed, Decided, DelayedDelivered, DelayedRefused, Delivered, Disposed,
        HandlerStuck, InDoubt, ListenerPaused, Reconnected, Reconnecting, ReopenRefused, Settled,
    )  # fmt: skip

    def __init__(self) -> None:
        self._numbers: dict[str, dict[tuple[str, ...], Numbers]] = {name: {} for name in COUNTED}
        #: The numbers that listeners increment, by queue.
        self._tallies: dict[str, ListenerTally] = {}
        #: The first `SERIES_MAX` series, by metric and by labels as the events have them: a quick look-up.
        self._known: dict[tuple[str, ...], Numbers] = {}

    def listener_tally(self, queue: str) -> ListenerTally:
        """Return the tally in which a listener counts the ordinary messages of this queue."""
        name = dynamic_pattern(queue) or queue
        made = ListenerTally(BOUNDS_S)
        for metric, (labels, _) in _tallied(name, made).items():
            self._number(metric, *labels)
        return self._tallies.setdefault(name, made)

    def counts(self) -> Counts:
        """Return the present numbers. Any thread may call this function.

        A row of a histogram has one more label: the bound of a bucket ("le"), "+Inf" or "sum". Buckets are not cumulative. A
        counter or a histogram that has counted nothing is left out.
        """
        found = dict[str, Series]()
        tallied = [_tallied(queue, tally) for queue, tally in self._tallies.copy().items()]  # a tally gets its series first
        for name, metric in COUNTED.items():
            series = self._numbers[name].copy()
            add(series, [row[name] for row in tallied if name in row], (OVERFLOW,) * len(metric.labels))
            counted = {labels: number for labels, number in series.items() if any(number) or metric.kind == "gauge"}
            if counted:
                found[name] = tuple(row for labels, number in counted.items() for row in _rows(metric.kind, labels, number))
        return found

    def __call__(self, event: Event) -> None:  # noqa: C901, PLR0912 - one case for each class of event, each a line
        """Count the event."""
        match event:
            case Delivered():
                self._add("messages_delivered", event.queue)
            case Settled():
                self._settled(event)
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
        outcome = type(event.outcome).__name__.lower() if event.outcome is not None else "not_handled"
        self._add("units_of_work", event.queue, event.settlement.value, outcome)
        if event.outcome is not None:
            self._observe("handling_seconds", event.handled_s, event.queue, outcome)
        if event.settle_s:
            self._observe("settling_seconds", event.settle_s, event.queue)

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
        observe(self._number(name, *labels), BOUNDS_S, seconds)

    def _number(self, *key: str) -> Numbers:
        """Return the numbers of a series: one number, or for a histogram a number for each bucket and then the sum."""
        found = self._known.get(key)
        return self._made(key) if found is None else found

    def _made(self, key: tuple[str, ...]) -> Numbers:
        # Each dynamic queue has a new name; its pattern keeps the number of series small.
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


def _tallied(queue: str, tally: ListenerTally) -> Mapping[str, tuple[tuple[str, ...], Numbers]]:
    """Return the series of some metrics, with the numbers that a tally adds to them."""
    handled = tally.handled()
    return {
        "messages_delivered": ((queue,), [tally.delivered]),
        "units_of_work": ((queue, Settlement.COMMIT.value, "completed"), [sum(handled[:-1])]),
        "handling_seconds": ((queue, "completed"), handled),
        "settling_seconds": ((queue,), tally.settled()),
    }


def _rows(kind: str, labels: tuple[str, ...], number: Numbers) -> Sequence[tuple[tuple[str, ...], float]]:
    if kind != "histogram":
        return ((labels, number[0]),)
    bounds = (*(str(bound) for bound in BOUNDS_S), "+Inf", "sum")
    return tuple(((*labels, bound), value) for bound, value in zip(bounds, number, strict=True))


def _reason(reason: int) -> str:
    return reason_name(reason) if reason else ""
