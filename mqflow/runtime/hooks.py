"""Passes events to the hooks, and writes the events that an operator must see to the log.

If a hook raises an exception, this is reported once, and the hook still receives all events. No hook changes a message. A hook
can name the events that it wants (`wants`, a tuple of event classes). An event that no hook wants is not made.
"""

import logging
import traceback
from collections.abc import Sequence
from typing import Final

from mqflow.events import (
    ConsumerFailed,
    DeadLetterActed,
    Decided,
    Disposed,
    Event,
    HandlerStuck,
    Hook,
    HookFailed,
    InDoubt,
    ListenerPaused,
    Reconnected,
    Reconnecting,
    ReopenRefused,
    Warned,
)
from mqflow.mqi.reason_codes import reason_name
from mqflow.policy.poison.disposition import DeadLetter, Deliver, Discard, Failed, Requeue, Undecodable

__all__ = ("Broadcast", "LogEvents")

_logger: Final = logging.getLogger("mqflow")
_NAMED_MAX: Final = 20


class Broadcast:
    """Passes each event to the hooks of an application that want it."""

    def __init__(self, hooks: Sequence[Hook]) -> None:
        self._hooks = tuple(hooks)
        self._by_event: dict[type, tuple[Hook, ...]] = {}
        self._failed: set[int] = set()

    def wanted(self, event: type) -> bool:
        """Return whether a hook wants this class of event. On a hot path, call this before you make an event."""
        return bool(self._listeners(event))

    def __call__(self, event: Event) -> None:
        """Pass the event to every hook that wants it, in the order of the hooks."""
        for hook in self._listeners(type(event)):
            try:
                hook(event)
            except Exception as error:  # noqa: BLE001 - a hook is user code; the message of the event is not affected
                self._report(hook, error, event)

    def _listeners(self, event: type) -> tuple[Hook, ...]:
        found = self._by_event.get(event)
        if found is None:
            # `wants` is optional: a hook can be a plain function.
            found = tuple(hook for hook in self._hooks if event in getattr(hook, "wants", (event,)))
            self._by_event[event] = found
        return found

    def _report(self, hook: Hook, error: Exception, event: Event) -> None:
        """Report a failing hook the first time: a hook that fails on every message must not flood the log."""
        if id(hook) in self._failed:
            return
        self._failed.add(id(hook))
        # Functions and classes have a `__qualname__`, other callables do not.
        name = getattr(hook, "__qualname__", type(hook).__qualname__)
        failure = HookFailed(hook=name, error=f"{type(error).__name__}: {error}", event=type(event).__name__)
        _logger.error("Hook %s failed on %s (reported once): %s", name, failure.event, failure.error, exc_info=error)
        for other in self._listeners(HookFailed):
            if other is not hook:
                try:
                    other(failure)
                except Exception as again:  # noqa: BLE001 - as above; each hook is reported once, so this ends
                    self._report(other, again, failure)


class LogEvents:
    """Writes the events that an operator must see to the log. A message that was handled well gets no line."""

    wants: Final = (
        ConsumerFailed,
        DeadLetterActed,
        Decided,
        Disposed,
        HandlerStuck,
        InDoubt,
        ListenerPaused,
        Reconnected,
        Reconnecting,
        ReopenRefused,
        Warned,
    )

    def __init__(self, logger: logging.Logger = _logger) -> None:
        self._log = logger
        #: The logger `mqflow.poison`: an application with many bad messages can send these lines elsewhere, or drop them.
        self._poison_log = logger.getChild("poison")
        #: The reason that was logged last. Equal reasons are logged once, so a long outage gives few lines.
        self._cause = 0

    def __call__(self, event: Event) -> None:  # noqa: C901 - one case for each class of event
        """Write the log line of an event, if the event has one."""
        match event:
            case DeadLetterActed() if event.reason and not event.repeated:
                self._log.warning("%s: the rule of %s failed: %s", event.queue, event.rule, event.detail)
            case Decided() | Disposed():
                self._log_poison(event)
            case ListenerPaused():
                self._log.warning("%s: paused for %.3g s: %s", event.listener, event.delay_s, event.why)
            case InDoubt():
                self._log.error("%s: commit in doubt, %s; %s", event.listener, reason_name(event.reason), _in_it(event))
            case ConsumerFailed():
                text = "%s ended although nothing stopped it, and starts again in %.3g s: %s\n%s"
                self._log.error(text, event.consumer, event.restarts_in_s, event.error, event.traceback)
            case HandlerStuck():
                self._log.error("%s: a handler has run for %.0f s\n%s", event.listener, event.running_s, event.stack)
            case Reconnecting():
                self._log_outage(event)
            case Reconnected():
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
                )
            case ReopenRefused():
                self._log.error("%s: %s is not open again: %s", event.owner, event.object, event.detail)
            case Warned():
                self._log.warning("%s", event.text)
            case _:
                return

    def _log_poison(self, event: Decided | Disposed) -> None:
        """Write that a message could not be handled, and on which queue it is now."""
        of = f"{event.queue}: message {event.message_id.hex()}"
        match event:
            case Decided(outcome=Failed() | Undecodable() as outcome):
                because = f"{outcome.error}: {outcome.text}" if outcome.text else outcome.error
                because += f" ({outcome.frame})" if outcome.frame else ""
                most = f" of {event.threshold}" if event.threshold else ""
                # A message has one traceback in the log, at its last failure.
                error = None if event.plan[0] == Deliver() else outcome.exception
                if error is not None and (written := _if_not_text(error)):
                    error, because = None, f"{because}\n{written}"
                self._poison_log.warning("%s failed, %d%s: %s", of, event.backout_count, most, because, exc_info=error)
            case Disposed(disposition=Requeue(queue=queue) | DeadLetter(queue=queue)):
                self._poison_log.warning("%s is on %s now", of, queue)
            case Disposed(disposition=Discard(why=why)):
                self._poison_log.warning("%s is discarded: %s", of, why)
            case _:
                return

    def _log_outage(self, event: Reconnecting) -> None:
        """Write that the connection is lost, or not there yet. Then write each new reason why an attempt to connect fails."""
        cause = reason_name(event.reason)
        if not event.was_connected:
            self._log.warning("%s: it is not there yet, %s; waiting for it", event.queue_manager, cause)
        elif not event.attempt:
            self._log.warning("%s: the connection is lost, %s; getting it back", event.queue_manager, cause)
        elif event.reason != self._cause:
            self._log.warning("%s: attempt %d failed, %s", event.queue_manager, event.attempt, cause)
        self._cause = event.reason


def _in_it(event: InDoubt) -> str:
    """Return the messages of the unit of work as text: the messages that were got, then the messages that were put."""
    parts = (("messages got", event.message_ids), ("put", event.put_message_ids))
    lists = (f"{what} {', '.join(identifier.hex() for identifier in ids)}" for what, ids in parts if ids)
    return "; ".join(lists) or "nothing was in it"


def _if_not_text(error: BaseException) -> str:
    """Return the traceback with escapes if a log file cannot have it as it is: lone surrogates are no Unicode text."""
    written = "".join(traceback.format_exception(error))
    try:
        written.encode()
    except UnicodeEncodeError:
        return written.encode(errors="backslashreplace").decode()
    return ""
