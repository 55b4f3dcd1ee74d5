"""The embedded queue manager against the model: both agree, and every planted defect is found.

A failure prints its seed and a short program that fails too. For more walks: `python -m tests.campaign model`.
"""

import pytest
from hypothesis import Phase

from tests.long import seeds_of_the_day, usually
from tests.model.actions import actions_of, shrinkable, walk
from tests.model.defects import DEFECTS, DURABLE_DEFECTS, Plant, a_backout_is_not_counted
from tests.model.machine import DurableMachine, QueueManagerMachine

WALKS = usually(20, long=100)
STEPS = 500
DURABLE_STEPS = 150
SEEDS_TO_FIND_A_DEFECT = 25


def walk_often(machine: type[QueueManagerMachine], steps: int) -> None:
    for seed in range(SEEDS_TO_FIND_A_DEFECT):
        walk(machine, seed=seed, steps=steps, shorten=False)


def test_the_queue_manager_agrees_with_the_model() -> None:
    seeds = (*range(WALKS), *seeds_of_the_day(10))

    assert len(seeds) * STEPS == sum(walk(QueueManagerMachine, seed=seed, steps=STEPS) for seed in seeds)


def test_the_queue_manager_on_disk_agrees_with_the_model_across_restarts() -> None:
    seeds = (*range(WALKS // 4), *seeds_of_the_day(5))

    assert len(seeds) * DURABLE_STEPS == sum(walk(DurableMachine, seed=seed, steps=DURABLE_STEPS) for seed in seeds)


def test_hypothesis_finds_nothing_either() -> None:
    shrinkable(QueueManagerMachine, examples=60, steps=50)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_planted_defect_is_found(defect: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)

    with pytest.raises(AssertionError):
        walk_often(QueueManagerMachine, STEPS)


@pytest.mark.parametrize("defect", DURABLE_DEFECTS, ids=lambda defect: defect.__name__)
def test_a_defect_that_only_a_restart_shows_is_found(defect: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)

    with pytest.raises(AssertionError):
        walk_often(DurableMachine, DURABLE_STEPS)


@pytest.mark.rare
def test_hypothesis_finds_a_planted_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    a_backout_is_not_counted(monkeypatch)

    with pytest.raises(AssertionError):
        shrinkable(QueueManagerMachine, examples=300, steps=30, phases=(Phase.generate,))


def test_a_failure_is_shortened_to_the_actions_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    a_backout_is_not_counted(monkeypatch)

    with pytest.raises(AssertionError) as found:
        walk(QueueManagerMachine, seed=0, steps=STEPS)

    [note] = found.value.__notes__
    assert "so does:" in note
    assert note.count("\n") <= 8


def test_the_machine_knows_at_least_25_actions() -> None:
    assert len(actions_of(QueueManagerMachine)) >= 25
