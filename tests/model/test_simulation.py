"""A whole application under faults drawn by a seed: after every fault, each message ends in exactly one place.

For more seeds: `python -m tests.campaign application`.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest

from mqflow import Reject
from mqflow.app.handlers import outgoing_message
from mqflow.events import Disposed, InDoubt, ListenerPaused, Reconnected
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import PutOption
from mqflow.policy.poison import backout
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection import inline_session
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.listener import poison_mover
from mqflow.testing.virtual_time import Backend
from mqflow.verbs import Connection
from tests.finding import has_finding
from tests.long import seeds_of_the_day, usually
from tests.model.application_runs import simulated

SEEDS = usually(15, long=40)
CALM_SEEDS = usually(6, long=40)
A_SECOND_OUTAGE = 161
"""The seed of a run in which an outage began while a worker was returning from another."""
A_REFUSED_INQUIRY = 195
"""The seed of a run in which a poison message was handled once more, because MQINQ was refused (2041) at that moment."""


@pytest.mark.parametrize("error", [ValueError, Reject])
def test_every_message_ends_in_exactly_one_place_after_any_fault(backend: Backend, error: type[Exception]) -> None:
    happened = [event for seed in (*range(SEEDS), *seeds_of_the_day(5)) for event in simulated(seed, backend, error=error)]

    for kind in (Reconnected, InDoubt, Disposed, ListenerPaused):
        assert any(isinstance(event, kind) for event in happened), (
            f"no {kind.__name__} in {SEEDS} runs: too tame to prove anything"
        )


@pytest.mark.parametrize("error", [ValueError, Reject])
def test_in_a_calm_run_a_bad_message_is_handled_as_often_as_its_error_and_the_threshold_say(
    backend: Backend, error: type[Exception]
) -> None:
    """A message that always fails is handled exactly THRESHOLD times, and a rejected message exactly once."""
    for seed in (*range(CALM_SEEDS), *seeds_of_the_day(2)):
        simulated(seed, backend, calm=True, error=error)


def test_the_same_seed_is_the_same_run(backend: Backend) -> None:
    assert simulated(3, backend) == simulated(3, backend)


@pytest.mark.parametrize("seed", [A_SECOND_OUTAGE, A_REFUSED_INQUIRY])
def test_a_seed_that_found_a_defect_finds_none_now(seed: int, backend: Backend) -> None:
    assert simulated(seed, backend)


def puts_are_outside_the_unit_of_work(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outgoing_message, "_PUT", PutOption.NO_SYNCPOINT)


def moves_are_outside_the_unit_of_work(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(poison_mover, "_MOVE", PutOption.NO_SYNCPOINT | PutOption.PASS_ALL_CONTEXT)


def what_failed_is_committed(patch: pytest.MonkeyPatch) -> None:
    real = InlineSession.settle

    async def settle(self: InlineSession, settlement: Settlement) -> None:
        await real(self, Settlement.COMMIT)

    patch.setattr(InlineSession, "settle", settle)


def a_session_is_left_without_a_backout(patch: pytest.MonkeyPatch) -> None:
    def disconnect(connection: Connection) -> None:
        with suppress(MQIError):  # like the real function; otherwise the error of the lost connection ends the run
            connection.disconnect()

    patch.setattr(inline_session, "disconnect_without_commit", disconnect)


def poison_is_found_one_delivery_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backout, "is_poison", lambda backout_count, threshold: 0 < threshold < backout_count)


def an_outage_is_one_only_for_who_was_connected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Supervisor, "_was_reached", property(lambda _: False))


DEFECTS = (
    puts_are_outside_the_unit_of_work,
    moves_are_outside_the_unit_of_work,
    what_failed_is_committed,
    a_session_is_left_without_a_backout,
    poison_is_found_one_delivery_late,
)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_planted_defect_is_found(defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A check finds it: an error of the defect itself, or a test that hangs, proves nothing about the harness."""
    defect(monkeypatch)

    assert any(finds(seed) for seed in range(40))


def test_a_defect_that_lets_an_error_end_the_application_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted defect itself raises nothing. The end of the application is what I8 forbids."""
    an_outage_is_one_only_for_who_was_connected(monkeypatch)

    with pytest.RaisesGroup(MQIError, allow_unwrapped=True, flatten_subgroups=True):
        [simulated(seed, "asyncio") for seed in range(40)]


def finds(seed: int) -> bool:
    """Return whether an invariant is broken in this run. Any other error is one of the defect itself."""
    try:
        simulated(seed, "asyncio")
    except Exception as error:  # noqa: BLE001 - any error of a defect
        return has_finding(error)
    return False
