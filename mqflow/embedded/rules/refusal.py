"""A rule says no: the reason, before anybody knows which verb on which object it refused.

Rules and the steps of the state machine raise it; the connection turns it into the `MQIError` that names verb and object.
"""

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import CompletionCode

__all__ = ("Refusal",)


class Refusal(Exception):  # noqa: N818 - it is a refusal, and never leaves the embedded queue manager
    """A verb cannot be done. `detail` says what exactly was wrong, in a sentence without its full stop."""

    def __init__(self, reason: int, detail: str = "", completion: CompletionCode = CompletionCode.FAILED) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.completion = completion

    def on(self, verb: str, object_name: str, queue_manager: str) -> MQIError:
        """Return the exception to raise to the application."""
        error = error_for(self.reason, verb, object_name, queue_manager, self.detail)
        error.completion = self.completion
        return error
