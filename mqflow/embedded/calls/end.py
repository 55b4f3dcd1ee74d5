"""The end of a connection: by MQDISC, because its application died, or because the queue manager stops.

The caller may hold the lock or not. This file writes the whole `ConnectionState`.
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
    """Back out the unit of work and close everything that the connection has open; later calls raise `reason`.

    A unit of work that is being committed is not backed out here: the store decides about it. A second end changes nothing.
    """
    with state.lock:
        if connection.ended:
            return
        connection.ended = reason
        if not connection.committing:
            connection.undone = connection.unit_of_work.operations > 0
            settle.back_out(state, connection.unit_of_work)
        while connection.ahead:  # counted, because the application can have handled them without a commit
            settle.back_out(state, connection.ahead.popleft().unit)
        for subscription in connection.subscriptions:
            close_subscription(state, subscription, CloseOption.NONE)
        connection.subscriptions.clear()
        for handle in connection.handles:
            interrupt(handle)
            close_handle(state, handle, CloseOption.NONE)
        connection.handles.clear()
        state.connections.discard(connection)
        if state.stops_when_empty and not state.connections:
            settle.stop(state, Reason.Q_MGR_STOPPING)
