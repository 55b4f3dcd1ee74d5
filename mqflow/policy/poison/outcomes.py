"""The exceptions that a handler raises to reject or retry its message, and the outcome that each exception means.

This module knows exceptions and records; it catches only the error that `str` of an exception raises.
"""

from datetime import timedelta
from typing import Final

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import HeaderError
from mqflow.policy.delivery_delay import DELAY_MS_MAX
from mqflow.policy.poison.disposition import Failed, Outcome, Undecodable
from mqflow.policy.poison.failure_origin import raised_by

__all__ = ("Reject", "Retry", "UndecodableError", "outcome_of")

_TEXT_CHARS_MAX: Final = 500
"""The most characters of an exception's text that an outcome keeps; the text goes into events, traces and headers."""


class Reject(Exception):  # noqa: N818 - a word of the handler's vocabulary, not an error of ours
    """A handler raises `Reject` if the message can never be handled, whatever its count; the reason goes with the message."""


class Retry(Exception):  # noqa: N818 - as Reject
    """A handler raises `Retry` to get the message again after this pause. The delivery counts towards the threshold."""

    def __init__(self, reason: str = "", *, after: timedelta | float | None = None) -> None:
        after_s = after.total_seconds() if isinstance(after, timedelta) else after
        is_number = isinstance(after_s, int | float)
        if after_s is not None and not (is_number and 0 <= after_s <= DELAY_MS_MAX / 1_000):
            accepted = f"the pause is a timedelta or seconds, from 0 to {DELAY_MS_MAX // 1_000} (a century)"
            raise ValueError(f"Retry(after={after!r}): {accepted}: timedelta(hours=1).")
        self.after_s = after_s
        super().__init__(reason)


class UndecodableError(Exception):
    """The body cannot be decoded to the payload type; a codec raises it, with the error and its place."""

    #: The descriptor of the message, if the message is one of a batch.
    descriptor: MessageDescriptor | None = None


def outcome_of(error: BaseException, never_retry: tuple[type[BaseException], ...] = ()) -> Outcome:
    """Return the outcome that an exception of a handler, its middleware or its codec means.

    A group of exceptions is final only if every exception in it is final. The outcome has the exception itself too.
    """
    name, text = _named(error)
    raised = raised_by(error)
    match error:
        case UndecodableError():
            cause = error.__cause__
            return Undecodable(error=_named(cause)[0] if cause is not None else name, text=text, raised=raised)
        case HeaderError():  # a malformed header stays malformed
            return Undecodable(error=name, text=text, raised=raised)
        case Reject():
            return Failed(error="Reject", text=text, final=True, raised=raised)
        case Retry():
            return Failed(error="Retry", text=text, retry_after_s=error.after_s, raised=raised)
        case BaseExceptionGroup():
            parts = [outcome_of(part, never_retry) for part in error.exceptions]
            final = all(isinstance(part, Undecodable) or (isinstance(part, Failed) and part.final) for part in parts)
            return Failed(error=name, text=text, final=final, raised=raised)
        case _:
            return Failed(error=name, text=text, final=isinstance(error, never_retry), raised=raised)


def _named(error: BaseException) -> tuple[str, str]:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return name[:_TEXT_CHARS_MAX], _text(error).encode(errors="backslashreplace").decode()[:_TEXT_CHARS_MAX]


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - code of the exception itself; the exception matters, not its text
        return f"(its text raised {type(broken).__name__})"
