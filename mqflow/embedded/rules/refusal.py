"""The exception for a refused call. It has the reason, but not yet the verb and the object.

The rules and the steps in `calls` raise it. The connection turns it into an `MQIError` that names verb and object.
"""

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import CompletionCode

__all__ = ("Refusal",)


class Refusal(Exception):  # noqa: N818 - a refusal never leaves the embedded queue manager
    """Raised to refuse a call. `detail` is a sentence about the exact cause, without its full stop."""

    def __init__(self, reason: int, detail: str = "", completion: CompletionCode = CompletionCode.FAILED) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.completion = completion

    def on(self, verb: str, object_name: str, queue_manager: str) -> MQIError:
        """Return the `MQIError` for the application. It names the verb, the object and the queue manager."""
        error = error_for(self.reason, verb, object_name, queue_manager, self.detail)
        error.completion = self.completion
        return error
