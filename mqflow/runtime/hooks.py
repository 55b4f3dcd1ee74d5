"""Passes events to the hooks, and writes the events that an operator must see to the log.

If a hook raises an exception, this is reported once, and the hook still receives all events. No hook changes a message. A hook
can name the events that it wants (`wants`, a tuple of event classes). An event that no hook wants is not made. A hook that only
counts ordinary messages can have `listener_tally`, which returns the `ListenerTally` of a queue. A listener then changes these
numbers, and makes no event for this hook.
"""

import logging
import traceback
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, assert_never

from mqflow import events
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.policy.poison.disposition import DeadLetter, Deliver, Discard, Disposition, Failed, Requeue, Return, Undecodable
from mqflow.policy.reconnect.reason_classes import Class, classify

if TYPE_CHECKING:  # most applications count nothing
    from mqflow.tally import ListenerTally

__all__ = ("LOG_FIELDS", "Broadcast", "LogEvents", "because")

LOG_FIELDS: Final = (
    "event", "queue", "message_id", "listener", "worker", "trace_id", "backout_count", "queue_manager", "reason",
)  # fmt: skip
"""The attributes of a log record: the kind of the event, and the values of the event. `message_id` is in hexadecimal digits."""

_logger: Final = logging.getLogger("mqflow")
_NAMED_MAX: Final = 20
_DRAINING_LINES_MAX: Final = 10
_REMEMBERED_MAX: Final = 1_000


class Broadcast:
    """Passes each event to the hooks of an application that want it."""

    def __init__(self, hooks: Sequence[events.Hook]) -> None:
        self._hooks = tuple(hooks)
        self._by_event: dict[type, tuple[events.Hook, ...]] = {}
        self._failed: set[int] = set()

    def wanted(self, event: type) -> bool:
        """Return whether a hook wants this class of event. Code that runs for each message asks this first."""
        return bool(self._listeners(event))

    def tallies(self, queue: str) -> "tuple[ListenerTally, ...]":
        """Return the numbers that ordinary messages of a queue change: one tally for each hook that counts them itself."""
        made = (getattr(hook, "listener_tally", None) for hook in self._hooks)  # optional, as `wants` is
        return tuple(tally(queue) for tally in made if tally is not None)

    def without_tally(self, event: type) -> tuple[events.Hook, ...]:
        """Return the hooks that want this class of event, and have no tally instead."""
        return tuple(hook for hook in self._listeners(event) if not hasattr(hook, "listener_tally"))  # optional, as above

    def __call__(self, event: events.Event) -> None:
        """Pass the event to every hook that wants it, in the order of the hooks."""
        self.pass_on(event, self._by_event.get(type(event)) or self._listeners(type(event)))  # nearly always the first

    def pass_on(self, event: events.Event, hooks: Sequence[events.Hook]) -> None:
        """Pass the event to these hooks only, in their order."""
        for hook in hooks:
            try:
                hook(event)
            except Exception as error:  # noqa: BLE001 - a hook is user code; the message of the event is not affected
                self._report(hook, error, event)

    def _listeners(self, event: type) -> tuple[events.Hook, ...]:
        found = self._by_event.get(event)
        if found is None:
            # `wants` is optional: a hook can be a plain function.
            found = tuple(hook for hook in self._hooks if event in getattr(hook, "wants", (event,)))
            self._by_event[event] = found
        return found

    def _report(self, hook: events.Hook, error: Exception, event: events.Event) -> None:
        """Report the first exception of a hook. Later ones are not reported, so that they do not flood the log."""
        if id(hook) in self._failed:
            return
        self._failed.add(id(hook))
        # Functions and classes have a `__qualname__`, other callables do not.
        name = getattr(hook, "__qualname__", type(hook).__qualname__)
        failure = events.HookFailed(hook=name, error=f"{type(error).__name__}: {error}", event=type(event).__name__)
        _logger.error("Hook %s failed on %s (reported once): %s", name, failure.event, failure.error, exc_info=error)
        for other in self._listeners(events.HookFailed):
            if other is not hook:
                try:
                    other(failure)
                except Exception as again:  # noqa: BLE001 - as above; each hook is reported once, so this ends
                    self._report(other, again, failure)


class LogEvents:
    """Writes the events that an operator must see to the log. For a message that was handled well, it writes nothing.

    For a message that fails, it writes a line at the first failure, after 10, 100, ... failures, and when the message is moved
    or discarded. Lines with the same text are written and counted in the same way. Each record has the fields of its event as
    attributes (`LOG_FIELDS`), for a formatter.
    """

    wants: Final = (
        events.ConsumerFailed, events.DeadLetterActed, events.Decided, events.DelayedRefused, events.DelayProcessorStarted,
        events.DelayProcessorStopped, events.Disposed, events.Draining, events.HandlerStuck, events.InDoubt,
        events.ListenerPaused, events.ListenerResumed, events.Reconnected, events.Reconnecting, events.ReopenRefused,
        events.Warned,
    )  # fmt: skip

    def __init__(self, logger: logging.Logger = _logger) -> None:
        self._log = logger
        #: The logger `mqflow.poison`. An application with many bad messages can send these lines elsewhere, or drop them.
        self._poison_log = logger.getChild("poison")
        #: The reason code that was logged last. Equal reasons are logged once, so a long outage gives few lines.
        self._cause = 0
        self._lines: Final = _Repeated()
        #: For each listener: the cause of its pause, and the number of its pauses for this cause.
        self._pauses: Final[dict[str, tuple[str, int]]] = {}
        #: The staging queues whose delay processor has stopped.
        self._stopped: Final[set[str]] = set()

    def __call__(self, event: events.Event) -> None:  # noqa: C901, PLR0912 - one case for each class of event
        """Write the log line for an event, if the event has one."""
        fields = _fields(event)
        match event:
            case events.DeadLetterActed() if event.reason and not event.repeated:
                self._warn("%s: the rule of %s failed: %s", event.queue, event.rule, event.detail, extra=fields)
            case events.Decided() | events.Disposed():
                self._log_poison(event, fields)
            case events.DelayedRefused():
                self._log_refused(event, fields)
            case events.DelayProcessorStopped() | events.DelayProcessorStarted():
                self._log_processor(event, fields)
            case events.ListenerPaused() | events.ListenerResumed():
                self._log_pause(event, fields)
            case events.InDoubt():
                text = "%s: commit in doubt, %s; %s"
                self._log.error(text, event.listener, reason_name(event.reason), _in_it(event), extra=fields)
            case events.ConsumerFailed():
                text = "%s ended although nothing stopped it, and starts again in %.3g s: %s\n%s"
                self._log.error(text, event.consumer, event.restarts_in_s, event.error, event.traceback, extra=fields)
            case events.HandlerStuck():
                text = "%s: a handler has run for %.0f s\n%s"
                self._log.error(text, event.listener, event.running_s, event.stack, extra=fields)
            case events.Draining():
                self._log_drain(event)
            case events.Reconnecting():
                self._log_outage(event, fields)
            case events.Reconnected():
                self._cause = 0
                back = ", ".join(event.objects[:_NAMED_MAX]) or "nothing"
                self._log.warning(
                    "%s: connected again after %d %s and %.1f s; open again: %s%s",
                    event.queue_manager,
                    event.attempts,
                    "attempt" if event.attempts == 1 else "attempts",
                    event.downtime_ms / 1_000,
                    back + (", ..." if len(event.objects) > _NAMED_MAX else ""),
                    f"; gone: {'; '.join(event.gone[:_NAMED_MAX])}" if event.gone else "",
                    extra=fields,
                )
            case events.ReopenRefused():
                self._log.error("%s: %s is not open again: %s", event.owner, event.object, event.detail, extra=fields)
            case events.Warned():
                self._warn("%s", event.text, extra=fields, each_time=event.is_order)
            case _:
                return

    def _warn(self, text: str, *values: str, extra: Mapping[str, object], each_time: bool = False) -> None:
        """Write a warning. If it comes again, write it only the 10th, 100th, ... time, with its number so far.

        With `each_time`, write it each time, without a number.
        """
        times = 1 if each_time else self._lines.count((text, values))
        if times == 1:
            self._log.warning(text, *values, extra=extra)
        elif _is_round(times):
            self._log.warning(f"{text} (%d times)", *values, times, extra=extra)

    def _log_pause(self, event: events.ListenerPaused | events.ListenerResumed, fields: Mapping[str, object]) -> None:
        """Write why a listener pauses, and when it goes on.

        Of pauses in a row with the same cause, write only the 1st, 10th, 100th, ...
        """
        why, pauses = self._pauses.pop(event.listener, ("", 0))
        if isinstance(event, events.ListenerResumed):
            times = "1 pause" if pauses == 1 else f"{pauses} pauses"
            self._log.warning("%s: goes on after %s", event.listener, times, extra=fields)
            return
        pauses = pauses + 1 if why == event.why else 1
        self._pauses[event.listener] = (event.why, pauses)
        if pauses == 1:
            self._log.warning("%s: paused for %.3g s: %s", event.listener, event.delay_s, event.why, extra=fields)
        elif _is_round(pauses):
            text = "%s: paused for %.3g s, for the %dth time: %s"
            self._log.warning(text, event.listener, event.delay_s, pauses, event.why, extra=fields)

    def _log_drain(self, event: events.Draining) -> None:
        """Write which handlers still run while the application stops; or else which listeners and services."""
        for each in event.handlers[:_DRAINING_LINES_MAX]:
            at = f" at {each.frame}" if each.frame else ""
            text = "draining, %.0f s left: %s has run for %.0f s%s: message %s"
            fields = {"event": "Draining", "queue": each.queue, "listener": each.listener, "message_id": each.message_id.hex()}
            self._log.warning(text, event.left_s, each.listener, each.running_s, at, each.message_id.hex(), extra=fields)
        if (more := len(event.handlers) - _DRAINING_LINES_MAX) > 0:
            self._log.warning("draining, %.0f s left: and %d more handlers", event.left_s, more, extra={"event": "Draining"})
        if not event.handlers:
            text = "draining, %.0f s left: waiting for %s"
            self._log.warning(text, event.left_s, ", ".join(event.waits_for), extra={"event": "Draining"})

    def _log_poison(self, event: events.Decided | events.Disposed, fields: Mapping[str, object]) -> None:
        """Write that a message has failed; or that it is not handled again, with the reason and the queue that it is on now."""
        of = f"{event.queue}: message {event.message_id.hex()}"
        match event:
            case events.Decided(outcome=Failed() | Undecodable() as outcome, plan=(Deliver(), *_)):
                if event.is_first_failure or _is_round(event.backout_count):
                    count = event.backout_count
                    times = f"{count} of {event.threshold}" if event.threshold else _times(count)
                    self._poison_log.warning("%s failed, %s: %s", of, times, because(outcome), extra=fields)
            case events.Disposed():
                self._log_end(of, event, fields)
            case _:
                return

    def _log_refused(self, event: events.DelayedRefused, fields: Mapping[str, object]) -> None:
        """Write that the target refused a delayed message. If the subscriber is gone, the publication is discarded silently."""
        is_gone = isinstance(event.disposition, Discard) and event.reason == Reason.NO_SUBSCRIPTION
        if is_gone or self._is_old(event):
            return
        stays = f" ({event.disposition.why})" if isinstance(event.disposition, Return) else ""
        ends = _end_of(event.disposition, "the staging queue") + stays + (f": {event.detail}" if event.detail else "")
        text = "%s: delayed message %s was refused, %s"
        self._poison_log.warning(text, event.queue, event.message_id.hex(), ends, extra=fields)

    def _log_processor(
        self, event: events.DelayProcessorStarted | events.DelayProcessorStopped, fields: Mapping[str, object]
    ) -> None:
        """Write why a delay processor has stopped, and when it goes on. An outage has lines of its own."""
        if isinstance(event, events.DelayProcessorStarted):
            if event.queue in self._stopped:
                self._stopped.discard(event.queue)
                self._warn("%s: the delay processor goes on", event.queue, extra=fields)
        elif classify(event.reason) is not Class.RECONNECT:
            self._stopped.add(event.queue)
            self._warn("%s: the delay processor has stopped: %s", event.queue, event.why, extra=fields)

    def _is_old(self, event: events.DelayedRefused | events.Disposed) -> bool:
        """Return whether a line has said already, after an earlier event of this class, that the message stays."""
        return isinstance(event.disposition, Return) and self._lines.count((type(event), event.message_id)) > 1

    def _log_end(self, of: str, event: events.Disposed, fields: Mapping[str, object]) -> None:
        if isinstance(event.disposition, Deliver) or self._is_old(event):
            return
        ends, times = _end_of(event.disposition, event.queue), _times(event.backout_count)
        if not isinstance(event.outcome, Failed | Undecodable):
            self._poison_log.warning("%s was backed out %s, %s", of, times, ends, extra=fields)
            return
        cause = because(event.outcome)
        error = event.outcome.exception
        if error is not None and (written := _if_not_text(error)):
            error, cause = None, f"{cause}\n{written}"
        self._poison_log.warning("%s failed %s, %s: %s", of, times, ends, cause, exc_info=error, extra=fields)

    def _log_outage(self, event: events.Reconnecting, fields: Mapping[str, object]) -> None:
        """Write that the connection is lost, or was not made yet. Then write each new reason of a failed attempt to connect."""
        name, cause = event.queue_manager, reason_name(event.reason)
        if not event.was_connected:
            self._log.warning("%s: it is not there yet, %s; waiting for it", name, cause, extra=fields)
        elif not event.attempt:
            self._log.warning("%s: the connection is lost, %s; getting it back", name, cause, extra=fields)
        elif event.reason != self._cause:
            self._log.warning("%s: attempt %d failed, %s", name, event.attempt, cause, extra=fields)
        self._cause = event.reason


class _Repeated:
    """Counts equal log lines. If there are too many different lines, it forgets the line that was counted longest ago."""

    def __init__(self) -> None:
        self._counts: OrderedDict[Hashable, int] = OrderedDict()

    def count(self, thing: Hashable) -> int:
        """Count one more occurrence of a log line. Return how often it occurred. Equal lines have an equal `thing`."""
        times = self._counts.pop(thing, 0) + 1
        self._counts[thing] = times
        if len(self._counts) > _REMEMBERED_MAX:
            self._counts.popitem(last=False)
        return times


def _end_of(disposition: Disposition, queue: str) -> str:
    """Return where a message is after the disposition. It was on `queue`."""
    match disposition:
        case Requeue(queue=target) | DeadLetter(queue=target):
            return f"on {target} now"
        case Discard(why=why):
            return f"discarded ({why})"
        case Return() | Deliver():
            return f"still on {queue}"
        case _:
            assert_never(disposition)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _is_round(number: int) -> bool:
    """Return whether the number is 1, 10, 100, ..."""
    return str(number).rstrip("0") == "1"


def _fields(event: events.Event) -> dict[str, object]:
    """Return the fields of a log record: the kind of the event, and those of its values in `LOG_FIELDS` that are not empty."""
    # getattr, because each class of events has only some of these fields.
    values = {name: getattr(event, name, None) for name in LOG_FIELDS[1:]}
    fields: dict[str, object] = {"event": type(event).__name__}
    for name, value in values.items():
        if isinstance(value, bytes):
            if value:
                fields[name] = value.hex()
        elif value or (value == 0 and name == "worker"):
            fields[name] = value
    return fields


def because(outcome: Failed | Undecodable) -> str:
    """Return the exception of a failure as one line of text."""
    text = " ".join(outcome.text.split())
    error = f"{outcome.error}: {text}" if text else outcome.error
    return error + (f" ({outcome.frame})" if outcome.frame else "")


def _in_it(event: events.InDoubt) -> str:
    """Return the messages of the unit of work as text: the messages that were got, then the messages that were put."""
    parts = (("messages got", event.message_ids), ("put", event.put_message_ids))
    lists = (f"{what} {', '.join(identifier.hex() for identifier in ids)}" for what, ids in parts if ids)
    return "; ".join(lists) or "nothing was in it"


def _if_not_text(error: BaseException) -> str:
    """Return the traceback as text if the log cannot write it as it is: lone surrogates are no Unicode text, so escape them."""
    written = "".join(traceback.format_exception(error))
    try:
        written.encode()
    except UnicodeEncodeError:
        return written.encode(errors="backslashreplace").decode()
    return ""
