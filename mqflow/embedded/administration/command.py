"""How an administrator's command is carried out: under the lock, refused by name, and durable when the call returns.

The common frame of all definitions. Knows no object.
"""

from collections.abc import Callable

from mqflow.embedded.calls.pending import Pending, begin, finish
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.reason_codes import Reason

__all__ = ("carry_out",)


def carry_out(state: QueueManagerState, command: str, name: str, step: Callable[[], Pending[None]]) -> None:
    """Change under the lock, then wait without it until that is durable.

    Raises the `MQIError` of a `Refusal`, with command and name in it; 2059 once the queue manager has stopped.
    """
    try:
        with state.lock:
            if state.stopped:
                raise Refusal(Reason.Q_MGR_NOT_AVAILABLE)  # noqa: TRY301 - like every refusal of the command
            pending = step()
            answer = begin(state, pending)
        finish(state, pending, answer)
    except Refusal as refusal:
        raise refusal.on(command, name, state.name) from None
