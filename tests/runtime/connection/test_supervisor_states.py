"""The state machine of the supervisor: the state after each event, illegal moves, and its drawing in the documentation."""

from pathlib import Path

import pytest

from mqflow.runtime.connection.supervisor_states import Event, IllegalMoveError, State, SupervisorStates, as_mermaid

DOCS = Path(__file__).parents[3] / "docs" / "reconnection.md"
OUTAGE = (Event.ANSWERED, Event.BROKE, Event.STARTED, Event.RECONNECTED)


def states(*events: Event) -> SupervisorStates:
    """Return the states after these events."""
    made = SupervisorStates()
    for event in events:
        made.note(event)
    return made


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ((), State.UNREACHED),
        ((Event.ANSWERED,), State.CONNECTED),
        ((Event.BROKE,), State.LOST),
        ((Event.ANSWERED, Event.BROKE), State.LOST),
        ((Event.ANSWERED, Event.BROKE, Event.BROKE), State.LOST),
        ((Event.ANSWERED, Event.BROKE, Event.STARTED), State.RECONNECTING),
        ((Event.ANSWERED, Event.BROKE, Event.STARTED, Event.BROKE), State.RECONNECTING),
        ((Event.ANSWERED, Event.BROKE, Event.STARTED, Event.GAVE_UP), State.LOST),
        (OUTAGE, State.RETURNING),
        ((*OUTAGE, Event.BROKE), State.LOST),
        ((*OUTAGE, Event.ALL_BACK), State.CONNECTED),
    ],
)
def test_each_event_leads_to_one_state_of_the_connection(events: tuple[Event, ...], state: State) -> None:
    assert state is states(*events).connection


def test_the_connection_is_away_from_its_loss_until_it_is_had_again() -> None:
    assert [False, True, True, False] == [states(*OUTAGE[:count]).away for count in range(1, 5)]


def test_a_queue_manager_quiesces_until_idle_sessions_are_closed() -> None:
    quiescing = states(Event.QUIESCED, Event.QUIESCED)
    let_go = states(Event.QUIESCED, Event.LET_GO)

    assert (State.QUIESCING, State.UNREACHED) == (quiescing.queue_manager, quiescing.connection)
    assert State.OPEN is let_go.queue_manager


@pytest.mark.parametrize(
    ("events", "illegal"),
    [
        ((), Event.STARTED),
        ((Event.ANSWERED,), Event.ANSWERED),
        ((Event.ANSWERED,), Event.RECONNECTED),
        ((Event.ANSWERED,), Event.ALL_BACK),
        ((Event.BROKE, Event.STARTED), Event.STARTED),
        (OUTAGE, Event.GAVE_UP),
        ((), Event.LET_GO),
    ],
)
def test_an_illegal_move_is_refused_and_changes_nothing(events: tuple[Event, ...], illegal: Event) -> None:
    refusing = states(*events)
    before = (refusing.connection, refusing.queue_manager)

    with pytest.raises(IllegalMoveError, match=illegal.name):
        refusing.note(illegal)

    assert before == (refusing.connection, refusing.queue_manager)


def test_the_documentation_holds_this_drawing() -> None:
    assert f"```mermaid\n{as_mermaid()}```\n" in DOCS.read_text("utf-8")
