"""The state machine of the supervisor: the state after each event, and illegal moves."""

import pytest

from mqflow.runtime.connection.supervisor_states import IllegalMoveError, SupervisorEvent, SupervisorState, SupervisorStates

OUTAGE = (SupervisorEvent.ANSWERED, SupervisorEvent.BROKE, SupervisorEvent.STARTED, SupervisorEvent.RECONNECTED)


def states(*events: SupervisorEvent) -> SupervisorStates:
    """Return the states after these events."""
    made = SupervisorStates()
    for event in events:
        made.note(event)
    return made


@pytest.mark.parametrize(
    ("events", "state"),
    [((), SupervisorState.UNREACHED),
     ((SupervisorEvent.ANSWERED,), SupervisorState.CONNECTED),
     ((SupervisorEvent.BROKE,), SupervisorState.LOST),
     ((SupervisorEvent.ANSWERED, SupervisorEvent.BROKE), SupervisorState.LOST),
     ((SupervisorEvent.ANSWERED, SupervisorEvent.BROKE, SupervisorEvent.BROKE), SupervisorState.LOST),
     ((SupervisorEvent.ANSWERED, SupervisorEvent.BROKE, SupervisorEvent.STARTED), SupervisorState.RECONNECTING),
     ((SupervisorEvent.ANSWERED, SupervisorEvent.BROKE, SupervisorEvent.STARTED, SupervisorEvent.BROKE),
      SupervisorState.RECONNECTING),
     ((SupervisorEvent.ANSWERED, SupervisorEvent.BROKE, SupervisorEvent.STARTED, SupervisorEvent.GAVE_UP),
      SupervisorState.LOST),
     (OUTAGE, SupervisorState.RETURNING),
     ((*OUTAGE, SupervisorEvent.BROKE), SupervisorState.LOST),
     ((*OUTAGE, SupervisorEvent.ALL_BACK), SupervisorState.CONNECTED)],
)  # fmt: skip
def test_each_event_leads_to_one_state_of_the_connection(events: tuple[SupervisorEvent, ...], state: SupervisorState) -> None:
    assert state is states(*events).connection


def test_the_connection_is_away_from_its_loss_until_the_reconnection() -> None:
    assert [False, True, True, False] == [states(*OUTAGE[:count]).away for count in range(1, 5)]


def test_a_queue_manager_quiesces_until_idle_sessions_are_closed() -> None:
    quiescing = states(SupervisorEvent.QUIESCED, SupervisorEvent.QUIESCED)
    let_go = states(SupervisorEvent.QUIESCED, SupervisorEvent.LET_GO)

    assert (SupervisorState.QUIESCING, SupervisorState.UNREACHED) == (quiescing.queue_manager, quiescing.connection)
    assert SupervisorState.OPEN is let_go.queue_manager


@pytest.mark.parametrize(
    ("events", "illegal"),
    [
        ((), SupervisorEvent.STARTED),
        ((SupervisorEvent.ANSWERED,), SupervisorEvent.ANSWERED),
        ((SupervisorEvent.ANSWERED,), SupervisorEvent.RECONNECTED),
        ((SupervisorEvent.ANSWERED,), SupervisorEvent.ALL_BACK),
        ((SupervisorEvent.BROKE, SupervisorEvent.STARTED), SupervisorEvent.STARTED),
        (OUTAGE, SupervisorEvent.GAVE_UP),
        ((), SupervisorEvent.LET_GO),
    ],
)
def test_an_illegal_move_is_refused_and_changes_nothing(events: tuple[SupervisorEvent, ...], illegal: SupervisorEvent) -> None:
    refusing = states(*events)
    before = (refusing.connection, refusing.queue_manager)

    with pytest.raises(IllegalMoveError, match=illegal.name):
        refusing.note(illegal)

    assert before == (refusing.connection, refusing.queue_manager)
