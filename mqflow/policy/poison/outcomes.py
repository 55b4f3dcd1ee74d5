"""What a handler may raise to say what should become of its message, and the one reading of every exception as an outcome.

Knows exceptions and records; catches nothing but what an exception raises instead of its own text.
"""

from datetime import timedelta
from typing import Final

from mqflow.mqi.errors import HeaderError
from mqflow.policy.delivery_delay import DELAY_MS_MAX
from mqflow.policy.poison.disposition import Failed, Outcome, Undecodable

__all__ = ("TEXT_CHARS_MAX", "Reject", "Retry", "UndecodableError", "outcome_of")

TEXT_CHARS_MAX: Final = 500
"""How much of an exception's text an outcome keeps: it travels in events, traces and headers."""


class Reject(Exception):  # noqa: N818 - a word of the handler's vocabulary, not an error of ours
    """Raise it in a handler: this message can never be handled, whatever its count; the reason goes with it."""


class Retry(Exception):  # noqa: N818 - as Reject
    """Raise it in a handler: try again after this pause. The delivery counts towards the threshold as every backout does."""

    def __init__(self, reason: str = "", *, after: timedelta | float | None = None) -> None:
        after_s = after.total_seconds() if isinstance(after, timedelta) else after
        if after_s is not None and not 0 <= after_s <= DELAY_MS_MAX / 1_000:
            said = f"the pause is a timedelta or seconds, from 0 to {DELAY_MS_MAX // 1_000} (a century)"
            raise ValueError(f"Retry(after={after!r}): {said}")
        self.after_s = after_s
        super().__init__(reason)


class UndecodableError(Exception):
    """The body did not become the payload type; raised by codecs, with what was wrong where."""


def outcome_of(error: Exception, never_retry: tuple[type[BaseException], ...] = ()) -> Outcome:
    """Return the outcome that an exception out of a handler, its middleware or its codec means.

    A group of exceptions is final only if every one in it is.
    """
    name, text = _named(error)
    match error:
        case UndecodableError():
            cause = error.__cause__
            return Undecodable(error=_named(cause)[0] if cause is not None else name, text=text)
        case HeaderError():  # a header that does not hold together now never will
            return Undecodable(error=name, text=text)
        case Reject():
            return Failed(error="Reject", text=text, final=True)
        case Retry():
            return Failed(error="Retry", text=text, retry_after_s=error.after_s)
        case ExceptionGroup():
            parts = [outcome_of(part, never_retry) for part in error.exceptions]
            final = all(isinstance(part, Undecodable) or (isinstance(part, Failed) and part.final) for part in parts)
            return Failed(error=name, text=text, final=final)
        case _:
            return Failed(error=name, text=text, final=isinstance(error, never_retry))


def _named(error: BaseException) -> tuple[str, str]:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return name[:TEXT_CHARS_MAX], _text(error).encode(errors="backslashreplace").decode()[:TEXT_CHARS_MAX]


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - its own code, and what it was raised for is what matters
        return f"(its text cannot be told: {type(broken).__name__})"
