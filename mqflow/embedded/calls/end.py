"""The end of a connection: after MQDISC, after the death of the application, or when the queue manager stops.

The caller does not need to hold the queue manager's lock. This file writes all fields of `ConnectionState`.
"""

from mqflow.embedded.calls import settle
from mqflow.embedded.calls.open import close_handle
from mqflow.embedded.calls.subscribe import close_subscription
from mqflow.embedded.calls.wait import interrupt
from mqflow.embedded.state.objects import ConnectionState
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.options import CloseOption
from mqflow.mqi.reason_codes import Reason

__all__ = ("end_connection",)


def end_connection(state: QueueManagerState, connection: ConnectionState, reason: int) -> None:
    """Back out the unit of work and close everything that the connection has open. Later calls raise `reason`.

    If a commit has begun, the store decides about the unit of work, so this function does not back it out. A second call
    changes nothing.
    """
    with state.lock:
        if connection.ended:
            return
        connection.ended = reason
        if not connection.committing:
            connection.undone = connection.unit_of_work.operations > 0
            settle.back_out(state, connection.unit_of_work)
        while connection.ahead:  # counted as backouts, because the application can have handled the messages without a commit
            settle.back_out(state, connection.ahead.popleft().unit)
        for subscription in connection.subscriptions:
            close_subscription(state, subscription, CloseOption.NONE)
        for handle in connection.handles:
            interrupt(handle)
            close_handle(state, handle, CloseOption.NONE)
        state.connections.discard(connection)
        if state.stops_when_empty and not state.connections:
            settle.stop(state, Reason.Q_MGR_STOPPING)
