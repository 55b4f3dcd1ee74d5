"""The exceptions by which a handler rejects or retries its message, and the outcome that each exception causes.

This module knows exceptions and records; it catches only the error that `str` of an exception raises.
"""

from datetime import timedelta
from typing import Final, assert_never

from msgspec.structs import replace

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import HeaderError
from mqflow.policy.delivery_delay import DELAY_MS_MAX
from mqflow.policy.poison.disposition import Completed, Failed, Interrupted, Outcome, Undecodable
from mqflow.policy.poison.failure_origin import raised_by

__all__ = ("Reject", "Retry", "UndecodableError", "outcome_of", "readable")

_TEXT_CHARS_MAX: Final = 500
"""The largest number of characters of an exception's text in an outcome. The text goes into events, traces and headers."""


class Reject(Exception):  # noqa: N818 - a word of the handler's vocabulary, not an error of ours
    """A handler raises `Reject` if the message can never be handled. The message is moved at once, together with the reason."""


class Retry(Exception):  # noqa: N818 - as Reject
    """A handler raises `Retry` to get the message again after this pause. The delivery counts towards the backout threshold."""

    def __init__(self, reason: str = "", *, after: timedelta | float | None = None) -> None:
        after_s = after.total_seconds() if isinstance(after, timedelta) else after
        if after_s is not None and not _is_pause(after_s):
            accepted = f"the pause is a timedelta or seconds, from 0 to {DELAY_MS_MAX // 1_000} (a century)"
            raise ValueError(f"Retry(after={after!r}): {accepted}: timedelta(hours=1).")
        self.after_s = after_s
        super().__init__(reason)


class UndecodableError(Exception):
    """The body cannot be decoded to the payload type. A codec raises this error; it names the problem and its place."""

    #: The descriptor of the message, if the message is one of a batch.
    descriptor: MessageDescriptor | None = None


def outcome_of(error: BaseException, never_retry: tuple[type[BaseException], ...] = ()) -> Outcome:
    """Return the outcome that an exception causes. The exception comes from a handler, its middleware or its codec.

    An exception group is final only if every exception in it is final. If exceptions in it are `Retry` with a pause, the
    longest pause counts. The outcome also holds the exception object.
    """
    name, text = _named(error)
    raised = raised_by(error)
    match error:
        case UndecodableError():
            cause = error.__cause__
            return Undecodable(error=_named(cause)[0] if cause is not None else name, text=text, raised=raised)
        case HeaderError():  # a redelivery does not repair a malformed header
            return Undecodable(error=name, text=text, raised=raised)
        case Reject():
            return Failed(error="Reject", text=text, final=True, raised=raised)
        case Retry():
            return Failed(error="Retry", text=text, retry_after_s=error.after_s, raised=raised)
        case BaseExceptionGroup():
            parts = [outcome_of(part, never_retry) for part in error.exceptions]
            final = all(isinstance(part, Undecodable) or (isinstance(part, Failed) and part.final) for part in parts)
            pauses = [part.retry_after_s for part in parts if isinstance(part, Failed) and part.retry_after_s is not None]
            return Failed(error=name, text=text, final=final, retry_after_s=max(pauses, default=None), raised=raised)
        case _:
            return Failed(error=name, text=text, final=isinstance(error, never_retry), raised=raised)


def readable(outcome: Outcome) -> Outcome:
    """Return an outcome that a handler or middleware has made, with texts that fit into each record, as `outcome_of` does.

    A pause that `Retry` refuses is left out: then the pace of the listener sets the pause.
    """
    match outcome:
        case Failed(retry_after_s=after_s):
            pause_s = after_s if _is_pause(after_s) else None
            return replace(outcome, error=_readable(outcome.error), text=_readable(outcome.text), retry_after_s=pause_s)
        case Undecodable():
            return replace(outcome, error=_readable(outcome.error), text=_readable(outcome.text))
        case Interrupted():
            return Interrupted(_readable(outcome.why))
        case Completed():
            return outcome
        case _:
            assert_never(outcome)


def _is_pause(after_s: object) -> bool:
    return isinstance(after_s, int | float) and 0 <= after_s <= DELAY_MS_MAX / 1_000  # false for nan


def _named(error: BaseException) -> tuple[str, str]:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return name[:_TEXT_CHARS_MAX], _readable(error)


def _readable(text: object) -> str:
    return _text(text).encode(errors="backslashreplace").decode()[:_TEXT_CHARS_MAX]


def _text(error: object) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - code of the exception itself; the exception matters, not its text
        return f"(its text raised {type(broken).__name__})"
