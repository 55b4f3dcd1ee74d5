"""The states of a supervisor as tables: which event can happen in which state, and which state follows.

Pure: knows no queue manager, no session and no clock. `supervisor` reports the events and acts on the states.
`as_mermaid` draws the tables; the drawing is in docs/reconnection.md.
"""

from enum import Enum
from typing import Final

__all__ = ("IllegalMoveError", "SupervisorEvent", "SupervisorState", "SupervisorStates", "as_mermaid")


class SupervisorState(Enum):
    """The first five are states of the connection, the last two of its queue manager."""

    #: No MQCONNX was ever answered.
    UNREACHED = "Unreached"
    #: A connection was made, and no session has reported a loss since.
    CONNECTED = "Connected"
    #: The connection is lost, and no caller is getting it back now.
    LOST = "Lost"
    #: One caller goes up the ladder of delays; all others wait for it.
    RECONNECTING = "Reconnecting"
    #: A connection is made again; some owners of lost sessions do not have another session yet.
    RETURNING = "Returning"
    #: The queue manager is not known to quiesce.
    OPEN = "Open"
    #: The queue manager quiesces, so idle sessions must be closed: it ends after its last connection.
    QUIESCING = "Quiescing"


class SupervisorEvent(Enum):
    """What the supervisor reports."""

    #: The first MQCONNX was answered.
    ANSWERED = "answered"
    #: A verb found the connection broken.
    BROKE = "broke"
    #: A caller begins to get the connection back.
    STARTED = "started"
    #: That caller has failed, or was cancelled.
    GAVE_UP = "gave up"
    #: That caller has a connection.
    RECONNECTED = "reconnected"
    #: Each owner of a lost session has another one, or wants none.
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
_NEXT_OF_CONNECTION: Final = {(state, event): following for state, event, following in CONNECTION}
_NEXT_OF_QUEUE_MANAGER: Final = {(state, event): following for state, event, following in QUEUE_MANAGER}


class IllegalMoveError(AssertionError):
    """An event happened in a state that has no row for it: a defect of the supervisor."""

    def __init__(self, state: SupervisorState, event: SupervisorEvent) -> None:
        super().__init__(f"The supervisor is in the state {state.name}, in which the event {event.name} cannot happen.")


class SupervisorStates:
    """The state of the connection and the state of its queue manager."""

    def __init__(self) -> None:
        self.connection = SupervisorState.UNREACHED
        self.queue_manager = SupervisorState.OPEN

    def note(self, event: SupervisorEvent) -> None:
        """Go to the state that follows. Raises `IllegalMoveError` if the tables have no row for this event."""
        if event in {SupervisorEvent.QUIESCED, SupervisorEvent.LET_GO}:
            self.queue_manager = _next(_NEXT_OF_QUEUE_MANAGER, self.queue_manager, event)
        else:
            self.connection = _next(_NEXT_OF_CONNECTION, self.connection, event)

    @property
    def away(self) -> bool:
        """Whether the connection is lost, and no other was made since."""
        return self.connection in {SupervisorState.LOST, SupervisorState.RECONNECTING}


def as_mermaid() -> str:
    """Return the tables as a Mermaid state diagram: the connection and its queue manager side by side."""
    regions = (["[*] --> " + rows[0][0].value, *map(_arrow, rows)] for rows in (CONNECTION, QUEUE_MANAGER))
    lines = "\n        --\n".join("\n".join(f"        {line}" for line in region) for region in regions)
    return f"stateDiagram-v2\n    state Supervisor {{\n{lines}\n    }}\n"


def _arrow(row: _Row) -> str:
    state, event, following = row
    return f"{state.value} --> {following.value}: {event.value}"


def _next(
    rows: dict[tuple[SupervisorState, SupervisorEvent], SupervisorState], state: SupervisorState, event: SupervisorEvent
) -> SupervisorState:
    following = rows.get((state, event))
    if following is None:
        raise IllegalMoveError(state, event)
    return following
