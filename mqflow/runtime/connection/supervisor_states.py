"""The states of a supervisor, as tables: which events can happen in each state, and which state follows.

The module is pure. `supervisor` reports the events and acts on the states. docs/reconnection.md has a picture of the table.
"""

from enum import Enum
from typing import Final

__all__ = ("IllegalMoveError", "SupervisorEvent", "SupervisorState", "SupervisorStates")


class SupervisorState(Enum):
    """The first five states are about the connection, the last two about the queue manager."""

    #: No queue manager has answered an MQCONNX yet.
    UNREACHED = "Unreached"
    #: A connection was made, and no session has reported its loss.
    CONNECTED = "Connected"
    #: The connection is lost, and no caller is reconnecting now.
    LOST = "Lost"
    #: One caller tries to reconnect, with growing delays between its attempts. All other callers wait for that caller.
    RECONNECTING = "Reconnecting"
    #: A new connection exists, but some owners of lost sessions do not have a new session yet.
    RETURNING = "Returning"
    #: No reason code has said that the queue manager quiesces.
    OPEN = "Open"
    #: The queue manager quiesces. It ends only after its last connection, so idle sessions must be closed.
    QUIESCING = "Quiescing"


class SupervisorEvent(Enum):
    """An event that the supervisor reports."""

    #: The first MQCONNX was answered.
    ANSWERED = "answered"
    #: A verb found the connection broken.
    BROKE = "broke"
    #: A caller begins to reconnect.
    STARTED = "started"
    #: The caller that was reconnecting has failed, or was cancelled.
    GAVE_UP = "gave up"
    #: The caller that was reconnecting has a connection.
    RECONNECTED = "reconnected"
    #: Each owner of a lost session has a new session, or needs none.
    ALL_BACK = "all back"
    #: A reason code said that the queue manager quiesces.
    QUIESCED = "quiesced"
    #: The owners of idle sessions were asked to close them.
    LET_GO = "let go"


_Row = tuple[SupervisorState, SupervisorEvent, SupervisorState]

CONNECTION: Final[tuple[_Row, ...]] = (
    (SupervisorState.UNREACHED, SupervisorEvent.ANSWERED, SupervisorState.CONNECTED),
    (SupervisorState.UNREACHED, SupervisorEvent.BROKE, SupervisorState.LOST),
    (SupervisorState.CONNECTED, SupervisorEvent.BROKE, SupervisorState.LOST),
    (SupervisorState.LOST, SupervisorEvent.BROKE, SupervisorState.LOST),
    (SupervisorState.LOST, SupervisorEvent.STARTED, SupervisorState.RECONNECTING),
    (SupervisorState.RECONNECTING, SupervisorEvent.BROKE, SupervisorState.RECONNECTING),
    (SupervisorState.RECONNECTING, SupervisorEvent.GAVE_UP, SupervisorState.LOST),
    (SupervisorState.RECONNECTING, SupervisorEvent.RECONNECTED, SupervisorState.RETURNING),
    (SupervisorState.RETURNING, SupervisorEvent.BROKE, SupervisorState.LOST),
    (SupervisorState.RETURNING, SupervisorEvent.ALL_BACK, SupervisorState.CONNECTED),
)
QUEUE_MANAGER: Final[tuple[_Row, ...]] = (
    (SupervisorState.OPEN, SupervisorEvent.QUIESCED, SupervisorState.QUIESCING),
    (SupervisorState.QUIESCING, SupervisorEvent.QUIESCED, SupervisorState.QUIESCING),
    (SupervisorState.QUIESCING, SupervisorEvent.LET_GO, SupervisorState.OPEN),
)
_NEXT: Final = {(state, event): following for state, event, following in (*CONNECTION, *QUEUE_MANAGER)}


class IllegalMoveError(AssertionError):
    """The table has no row for this event in this state: a defect of the supervisor."""

    def __init__(self, state: SupervisorState, event: SupervisorEvent) -> None:
        super().__init__(f"The supervisor is in the state {state.name}, in which the event {event.name} cannot happen.")


class SupervisorStates:
    """The state of the connection and the state of its queue manager."""

    def __init__(self) -> None:
        self.connection: SupervisorState = SupervisorState.UNREACHED
        self.queue_manager: SupervisorState = SupervisorState.OPEN

    def note(self, event: SupervisorEvent) -> None:
        """Go to the next state. Raises `IllegalMoveError` if the tables have no row for this state and event."""
        if event in {SupervisorEvent.QUIESCED, SupervisorEvent.LET_GO}:
            self.queue_manager = _next(self.queue_manager, event)
        else:
            self.connection = _next(self.connection, event)

    @property
    def away(self) -> bool:
        """True if the connection is lost, and no new connection exists yet."""
        return self.connection in {SupervisorState.LOST, SupervisorState.RECONNECTING}


def _next(state: SupervisorState, event: SupervisorEvent) -> SupervisorState:
    following = _NEXT.get((state, event))
    if following is None:
        raise IllegalMoveError(state, event)
    return following
