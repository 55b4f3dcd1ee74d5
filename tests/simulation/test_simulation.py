"""The whole served queue manager with a standby and an application, in virtual time, against the invariants in `history`.

For more seeds: `python -m tests.campaign simulation`.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqflow import Reject
from mqflow.testing.virtual_time import Backend
from tests.embedded.disk_faults.disk import memory_folder
from tests.finding import has_finding
from tests.long import seeds_of_the_day, usually
from tests.simulation.defects import DEFECTS
from tests.simulation.scenario import simulate

SEEDS = usually(15, long=75)
"""The number of seeds on each event loop, without those of the day."""
CALM_SEEDS = usually(2, long=40)

LOOK_FROM = {
    "a_commit_is_answered_before_it_is_written": 0, "a_commit_is_repeated_after_reconnecting": 18,
    "a_dead_application_is_committed": 5, "a_doubt_is_called_a_refusal": 54,
    "a_request_without_an_answer_counts_as_committed": 10, "a_standby_does_not_wait_for_the_lock": 0,
    "an_object_is_not_opened_again": 0, "an_unknown_commit_is_called_a_backout": 69, "backouts_are_forgotten_at_a_takeover": 8,
    "messages_ahead_are_kept_at_a_backout": 1, "poison_is_found_one_delivery_late": 0, "two_sessions_reconnect_at_once": 0,
    "what_was_inquired_is_kept_for_ever": 13, "who_did_not_hear_the_welcome_stays_connected": 9,
}  # fmt: skip
"""The seed from which to search for each defect: the exact seed changes when a frame changes."""
LOOKS_MAX = 200


@pytest.fixture
def root() -> Iterator[Path]:
    with memory_folder() as made:
        yield made


@pytest.mark.timeout(600)
def test_the_invariants_hold_after_any_fault_of_any_process(backend: Backend, root: Path) -> None:
    happened: Counter[str] = Counter()
    for seed in (*range(SEEDS), *seeds_of_the_day(5)):
        report = simulate(seed, backend, root)
        happened += report.events + Counter(takeovers=report.owners - 2, unknown_puts=report.unknown_puts)

    wanted = {"Reconnected", "InDoubt", "Disposed", "DelayedDelivered", "takeovers", "unknown_puts", "given back"}
    tame = wanted - set(+happened)
    assert not tame, f"in {SEEDS} runs, {tame} never happened: too tame to prove anything"


def test_in_a_calm_run_a_message_that_always_fails_is_handled_as_often_as_the_threshold_says(
    backend: Backend, root: Path
) -> None:
    for seed in (*range(CALM_SEEDS), *seeds_of_the_day(2)):
        simulate(seed, backend, root, calm=True)


def test_in_a_calm_run_a_rejected_message_is_handled_once(backend: Backend, root: Path) -> None:
    for seed in (*range(CALM_SEEDS), *seeds_of_the_day(2)):
        simulate(seed, backend, root, calm=True, error=Reject)


def test_the_same_seed_is_the_same_run_to_the_byte(backend: Backend, root: Path) -> None:
    first = simulate(15, backend, root)
    simulate(14, backend, root)

    assert first == simulate(15, backend, root)


@pytest.mark.timeout(600)
@pytest.mark.sampled(4)
@pytest.mark.parametrize("defect", sorted(DEFECTS))
def test_a_planted_defect_is_found(defect: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DEFECTS[defect](monkeypatch)

    assert any(_finds(seed, root) for seed in range(LOOK_FROM[defect], LOOK_FROM[defect] + LOOKS_MAX))


def _finds(seed: int, root: Path) -> bool:
    """Return whether an invariant is broken in this run. Any other error is one of the defect itself, and proves nothing."""
    try:
        simulate(seed, "asyncio", root)
    except Exception as error:  # noqa: BLE001 - any error of a defect
        return has_finding(error)
    return False
