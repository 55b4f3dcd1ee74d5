"""What an application can get wrong, and how it is told: without a secret, whatever was typed."""

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mqflow.mqi.options import Feedback
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.policy.channels.sources import without_password

__all__ = ("ConfigurationError", "DeliveryOverError", "RequestTimeoutError", "shown_url", "split")

_SECRETS: Final = re.compile(r"(?i)\b(passw\w*|pwd|token|user)=[^&]*")


def shown_url(url: str) -> str:
    """Return the URL as an error may show it: a mistyped one may hold a password all the same."""
    return _SECRETS.sub(r"\1=***", without_password(url))


class ConfigurationError(Exception):
    """A declaration, a setting or a URL does not make sense; the text says which, and what would."""


def split(url: str) -> SplitResult:
    """Return the parts of the URL. Raises `ConfigurationError` for what is none."""
    try:
        return urlsplit(url)
    except ValueError as error:  # brackets that are not closed, or stand around what is no address
        raise ConfigurationError(f"{shown_url(url)!r} is no URL: {error}. An IPv6 address is [::1].") from error


class RequestTimeoutError(TimeoutError):
    """No reply came in time. The request may have been handled, or be in a handler's hands; otherwise it expires about now."""

    def __init__(self, queue: str, message_id: bytes, timeout_s: float, feedback: int = 0) -> None:
        self.queue = queue
        self.message_id = message_id
        self.timeout_s = timeout_s
        #: What a report about the request said, where its descriptor asked for one: a reason code, or MQFB_*; 0 for none.
        self.feedback = feedback
        super().__init__(queue, message_id, timeout_s, feedback)

    def __str__(self) -> str:
        said = f"No reply to the request {self.message_id.hex()} on {self.queue} came within {self.timeout_s:g} s. "
        if self.feedback:
            return f"{said}A report about it came: {_feedback(self.feedback)}."
        return f"{said}Whether it was handled is not known; a listener that failed on it has backed it out."


class DeliveryOverError(RuntimeError):
    """A put in the unit of work of a delivery whose handler has returned, failed, or was cut off."""

    def __init__(self, queue: str, message_id: bytes) -> None:
        self.queue = queue
        self.message_id = message_id
        super().__init__(queue, message_id)

    def __str__(self) -> str:
        return (
            f"Nothing was put on {self.queue}: the handling of message {self.message_id.hex()} is over, and so is its unit of "
            "work. Put before the handler returns, or with App.put, which has a unit of work of its own."
        )


def _feedback(value: int) -> str:
    """Return the name of a feedback: MQFB_*, or the reason code that it is."""
    for feedback in Feedback:
        if value == feedback:
            return f"MQFB_{feedback.name} ({value})"
    return reason_name(value) if value in set(Reason) else f"feedback {value}"
