"""The errors of an application, and functions that keep secrets out of their texts. This file opens nothing."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mqflow.mqi.options import Feedback
from mqflow.mqi.reason_codes import Reason, reason_name

__all__ = (
    "ConfigurationError",
    "DeliveryOverError",
    "NeverAwaitedError",
    "PayloadError",
    "RequestFailedError",
    "RequestTimeoutError",
    "shown_name",
    "shown_url",
    "split",
)

_MEANINGS: Final[Mapping[int, str]] = {
    Reason.BACKOUT_THRESHOLD_REACHED: ", its handler failed or rejected it, and it was moved or discarded",
    Reason.JMS_FORMAT_ERROR: ", it could not be decoded, and it was moved or discarded",
    Feedback.EXPIRATION: ", it expired before it was handled",
}


def shown_url(url: str) -> str:
    """Return the URL without passwords, tokens and users, for error texts. Even a mistyped URL can contain them."""
    from mqflow.policy.channels.sources import without_password  # noqa: PLC0415 - the sources of channels: only an error needs them

    return without_password(url)


def shown_name(name: str) -> str:
    """Return a refused name of a queue manager for an error text; "this" if it can be a user with a password."""
    return "this" if set(name) & {":", "@"} else repr(name)


class ConfigurationError(Exception):
    """A declaration, a setting or a URL cannot be used. The text says which one, and what to write instead."""


def split(url: str) -> SplitResult:
    """Return the parts of the URL. Raises `ConfigurationError` if the text is not a URL."""
    try:
        return urlsplit(url)
    except ValueError as error:  # for example brackets that are not closed
        raise ConfigurationError(f"{shown_url(url)!r} is not a URL: {error}. An IPv6 address is [::1].") from error


class RequestTimeoutError(TimeoutError):
    """No reply came in time. Perhaps a handler has handled the request, or still does; otherwise the request has expired.

    If the request has another `expiry`, or a `delay`, it may not have expired: then a handler can still get it.
    """

    def __init__(self, queue: str, message_id: bytes, timeout_s: float, feedback: int = 0) -> None:
        self.queue = queue
        self.message_id = message_id
        self.timeout_s = timeout_s
        #: The feedback of the last report about the request: a reason code or MQFB_*; 0 if there was no report.
        self.feedback = feedback
        super().__init__(queue, message_id, timeout_s, feedback)

    def __str__(self) -> str:
        problem = f"No reply to the request {self.message_id.hex()} on {self.queue} came within {self.timeout_s:g} s. "
        if self.feedback:
            return f"{problem}A report about the request came: {_feedback(self.feedback)}."
        return f"{problem}A handler may have handled the request. If the handler failed, the request was backed out."


class RequestFailedError(Exception):
    """No reply will come, because the request was moved or discarded, or has expired. A report about the request says this."""

    def __init__(self, queue: str, message_id: bytes, feedback: int) -> None:
        self.queue = queue
        self.message_id = message_id
        #: The feedback of the report: a reason code or MQFB_*.
        self.feedback = feedback
        super().__init__(queue, message_id, feedback)

    def __str__(self) -> str:
        return (
            f"The request {self.message_id.hex()} on {self.queue} gets no reply. A report about it came: "
            f"{_feedback(self.feedback)}{_MEANINGS.get(self.feedback, '')}."
        )


class DeliveryOverError(RuntimeError):
    """A put was made in the unit of work of a delivery after its handler had returned, failed or been cancelled."""

    def __init__(self, queue: str, message_id: bytes) -> None:
        self.queue = queue
        self.message_id = message_id
        super().__init__(queue, message_id)

    def __str__(self) -> str:
        return (
            f"Nothing was put on {self.queue}: the handling of message {self.message_id.hex()} is over, and so is its unit of "
            "work. Put before the handler returns, or with App.put, which has a unit of work of its own."
        )


class PayloadError(TypeError):
    """A payload or a result cannot be encoded, so no message was put."""

    def __init__(self, queue: str, problem: str, place: str = "", subject: str = "The payload") -> None:
        self.queue = queue
        #: The text of the error that the encoder raised.
        self.problem = problem
        #: The file and the line of the put, or of the handler; empty if unknown.
        self.place = place
        self.subject = subject
        super().__init__(queue, problem, place, subject)

    def __str__(self) -> str:
        at = f" ({self.place})" if self.place else ""
        return (
            f"{self.subject} for {self.queue}{at} cannot be encoded: {self.problem}. Nothing was put. A payload is bytes, str, "
            "or what JSON can hold: numbers, lists, dicts, Structs, dataclasses, pydantic models. A codec encodes other types."
        )


class NeverAwaitedError(RuntimeError):
    """A handler called an async function and returned without awaiting it, so the function has never begun."""

    def __init__(self, name: str, file: str, line: int) -> None:
        self.name = name
        self.file = file
        self.line = line
        super().__init__(name, file, line)

    def __str__(self) -> str:
        return (
            f"{self.name} at {self.file}:{self.line} was never awaited, so its message was not put. Write "
            f"`await {self.name}(...)`. The delivery fails, because otherwise that message would be lost."
        )


def _feedback(value: int) -> str:
    """Return a feedback in words: its MQFB_* name, or the name of the reason code."""
    for feedback in Feedback:
        if value == feedback:
            return f"MQFB_{feedback.name} ({value})"
    return reason_name(value) if value in set(Reason) else f"feedback {value}"
