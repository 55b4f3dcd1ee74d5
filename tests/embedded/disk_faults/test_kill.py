"""kill -9 at any point: no message is lost or doubled, no unit of work is halved, each BackoutCount is exact."""

from pathlib import Path

import pytest

from mqflow.embedded.connection import EmbeddedConnection
from tests.embedded.disk_faults.disk import build_disk
from tests.embedded.disk_faults.histories import kill_applications, kill_owners

LIVES = 100


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_nothing_done_twice_however_often_the_owner_is_killed(folder: Path, seed: int) -> None:
    said, wrong = kill_owners(build_disk(folder), folder, seed, LIVES)

    assert [] == wrong
    assert LIVES < len(said.moved), "too little was done to prove anything"
    assert said.redelivered > 2 * said.perhaps_delivered, "too many deliveries may have gone unseen to count backouts"


def test_nothing_is_lost_and_nothing_done_twice_however_often_applications_are_killed(folder: Path) -> None:
    said, wrong = kill_applications(folder, 1, LIVES)

    assert [] == wrong
    assert LIVES < len(said.moved), "too little was done to prove anything"


def test_the_kill_loop_notices_an_owner_that_commits_for_the_dead(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmbeddedConnection, "abandon", EmbeddedConnection.disconnect)  # a disconnect commits
    _, wrong = kill_applications(folder, 1, LIVES)

    assert wrong


@pytest.mark.sampled(1)
@pytest.mark.parametrize("defect", ["forgets what is held", "answers before writing"])
def test_the_kill_loop_notices_a_queue_manager_that(folder: Path, defect: str) -> None:
    _, wrong = kill_owners(build_disk(folder), folder, 1, LIVES, defect)

    assert wrong
