"""The frame of every administrator's command: runs the step, waits until the change is durable, and names a refused command.

This file knows no object.
"""

from collections.abc import Callable

from mqflow.embedded.calls.pending import Pending, begin, finish
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.reason_codes import Reason

__all__ = ("carry_out",)


def carry_out(state: QueueManagerState, command: str, name: str, step: Callable[[], Pending[None]]) -> None:
    """Run the step under the lock, then wait without the lock until the change is durable.

    Turns a `Refusal` into an `MQIError` that names command and object. Raises 2059 after the queue manager has stopped.
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
