"""Turns the entries of the decision ledger for a message into sentences. Pure."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import assert_never

from mqflow.app.run.decision_ledger import Entry, MessageEvent
from mqflow.events import (
    Attempt,
    DeadLetterActed,
    Decided,
    Delivered,
    Disposed,
    Edited,
    HandlerStuck,
    InDoubt,
    ListenerPaused,
    ReportSent,
    Settled,
    WaitsOnQueue,
)
from mqflow.mqi.reason_codes import reason_name
from mqflow.policy.dead_letters import actions
from mqflow.policy.poison.disposition import (
    Completed,
    DeadLetter,
    Deliver,
    Discard,
    Disposition,
    Failed,
    Interrupted,
    Outcome,
    Requeue,
    Return,
    Settlement,
    Undecodable,
)

__all__ = ("entry_lines", "last_disposal", "sentences")


def entry_lines(entry: Entry) -> tuple[str, tuple[str, ...]]:
    """Return the time of an entry (UTC), and its sentences: first about the event, then about its details."""
    at = datetime.fromtimestamp(entry.at, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1_000:03}", tuple(sentences(entry.event))


def last_disposal(entries: Iterable[Entry], queue: str) -> tuple[str, ...]:
    """Return the sentences about the last move or discard; empty without one, or if the message is on `queue` again since."""
    disposals = [entry.event for entry in entries if isinstance(entry.event, Disposed)]
    if not disposals or (disposals[-1].queue == queue and isinstance(disposals[-1].disposition, Requeue | DeadLetter)):
        return ()
    return tuple(sentences(disposals[-1]))


def sentences(event: MessageEvent) -> Iterator[str]:  # noqa: C901, PLR0912 - one case for each class of event
    """Yield the sentences about an event: first about the event itself, then about its details."""
    match event:
        case Delivered():
            size = f"{event.body_bytes:,} bytes"
            yield f"Delivery {event.backout_count + 1}: {event.listener} got it from {event.queue} ({size})."
        case Decided():
            yield from _decided(event)
        case Disposed():
            yield _disposed(event)
            yield from (_attempt(attempt) for attempt in event.attempts)
        case Settled():
            yield f"{_done(event)}: {_outcome(event.outcome)}."
        case WaitsOnQueue():
            yield f"Waits on {event.staging_queue} for {event.after_s:g} s; its BackoutCount is then {event.backout_count}."
        case InDoubt():
            answer = reason_name(event.reason)
            yield f"In doubt: the commit ended with {answer}, so it is committed or backed out. It is not repeated."
        case ReportSent(reason=0):
            yield f"Exception report put to {event.reply_to_queue} (feedback {event.feedback})."
        case ReportSent():
            yield f"The exception report for {event.reply_to_queue} could not be put: {reason_name(event.reason)}."
        case ListenerPaused():
            yield f"{event.listener} pauses for {event.delay_s:g} s, and the message stays on {event.queue}: {event.why}."
        case DeadLetterActed():
            yield _acted(event)
        case HandlerStuck():
            yield f"The handler of {event.listener} has been running for {event.running_s:.0f} s."
        case Edited():
            yield f"{event.by} edited it on {event.queue} and put it on {event.target}."
            yield f"The body before: {event.body_bytes_before:,} bytes, SHA-256 {event.sha256_before}."
            yield f"The body after: {event.body_bytes:,} bytes, SHA-256 {event.sha256}."
        case _:
            assert_never(event)


def _acted(event: DeadLetterActed) -> str:
    match event.intent:
        case actions.Redirect(queue=queue):
            done, not_done = f"put it to {queue}", f"could not put it to {queue}"
        case actions.Discard():
            done, not_done = "discarded it", "could not discard it"
        case actions.Ignore():
            why = f"the action of {event.rule}" if event.rule else "no further rule matches"
            return f"The DLQ handler leaves it on {event.queue}: {why}."
        case _:
            assert_never(event.intent)
    result = f"{not_done} ({reason_name(event.reason)})" if event.reason else done
    return f"The DLQ handler of {event.queue} {result}, by the rule of {event.rule}, attempt {event.attempt}."


def _decided(event: Decided) -> Iterator[str]:
    threshold = f"threshold {event.threshold} ({event.threshold_source})" if event.threshold else "no threshold"
    yield f"Decided at count {event.backout_count}, {threshold}: {', else '.join(map(_step, event.plan))}."
    if event.backout_requeue_queue:
        yield f"The backout requeue queue is {event.backout_requeue_queue} ({event.queue_source})."
    if event.outcome is not None:
        yield f"The outcome of its handling: {_outcome(event.outcome)}."


def _disposed(event: Disposed) -> str:
    ended = _disposition(event.disposition)
    outcome = f". The outcome of its handling: {_outcome(event.outcome)}" if event.outcome is not None else ""
    return f"Disposed of at count {event.backout_count}: {ended}{outcome}."


def _attempt(attempt: Attempt) -> str:
    result = f"refused with {reason_name(attempt.reason)}" if attempt.reason else "done"
    return f"{_disposition(attempt.disposition)}: {result}" + (f" ({attempt.detail})." if attempt.detail else ".")


def _disposition(disposition: Disposition) -> str:
    reason = f" ({disposition.why})" if isinstance(disposition, Discard | Return) else ""
    return _step(disposition) + reason


def _step(disposition: Disposition) -> str:
    """Return what to do, without the reason: the reason says which queues refused the message, and no plan knows that."""
    match disposition:
        case Deliver():
            return "deliver it"
        case Requeue():
            return f"move it to {disposition.queue}"
        case DeadLetter():
            return f"move it to the dead-letter queue {disposition.queue}"
        case Discard():
            return "discard it"
        case Return():
            return "leave it on its queue"
        case _:
            assert_never(disposition)


def _done(event: Settled) -> str:
    if event.settlement is not Settlement.COMMIT:
        return "Backed out"
    return "Committed, without the work of the handler" if isinstance(event.outcome, Failed | Undecodable) else "Committed"


def _outcome(outcome: Outcome | None) -> str:
    match outcome:
        case None:
            return "found poison before delivery"
        case Completed():
            return "completed"
        case Failed():
            return f"failed with {_raised(outcome)}"
        case Undecodable():
            return f"undecodable, {_raised(outcome)}"
        case Interrupted():
            return f"interrupted: {outcome.why}"
        case _:
            assert_never(outcome)


def _raised(outcome: Failed | Undecodable) -> str:
    return outcome.error + (f": {outcome.text}" if outcome.text else "") + (f" ({outcome.frame})" if outcome.frame else "")
