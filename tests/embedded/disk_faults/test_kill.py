"""kill -9 at any point: no message is lost or doubled, no unit of work is halved, each BackoutCount is exact."""

import re
from pathlib import Path

import pytest

from mqflow.embedded.connection import EmbeddedConnection
from tests.embedded.disk_faults.disk import build_disk
from tests.embedded.disk_faults.histories import kill_applications, kill_owners, violations

LIVES = 100


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_nothing_done_twice_however_often_the_owner_is_killed(folder: Path, seed: int) -> None:
    said, wrong = kill_owners(build_disk(folder), folder, seed, LIVES)

    assert [] == wrong
    assert LIVES + 1 == sum(line.startswith("life") for line in said)
    assert LIVES < sum(line.startswith("committed") for line in said), "too little was done to prove anything"
    assert any(re.match(r"got \S+ [1-9]", line) for line in said)


def test_nothing_is_lost_and_nothing_done_twice_however_often_applications_are_killed(folder: Path) -> None:
    said, wrong = kill_applications(folder, 1, LIVES)

    assert [] == wrong
    assert LIVES < sum(line.startswith("committed") for line in said), "too little was done to prove anything"


def test_the_kill_loop_notices_an_owner_that_commits_for_the_dead(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmbeddedConnection, "abandon", EmbeddedConnection.disconnect)  # a disconnect commits
    _, wrong = kill_applications(folder, 1, LIVES)

    assert wrong


@pytest.mark.parametrize("defect", ["forgets what is held", "answers before writing"])
def test_the_kill_loop_notices_a_queue_manager_that(folder: Path, defect: str) -> None:
    _, wrong = kill_owners(build_disk(folder), folder, 1, LIVES, defect)

    assert wrong


@pytest.mark.parametrize(
    ("said", "left", "moved", "expected"),
    [
        (["put 1"], [("1", 0)], [], []),
        (["put 1"], [], [], ["1 is lost"]),
        (["asked-put 1", "life 1"], [], [], []),
        (["put 1"], [("1", 0), ("1", 0)], [], ["1 is there twice among what is left"] * 2),
        (["put 1", "got 1 0", "life 1"], [("1", 0)], [], ["1 was delivered with BackoutCount 0, not {1}"]),
        (["put 1", "got 1 0", "committed 1>2"], [("1", 0)], ["2"], ["1 was delivered after it was committed"]),
        (["put 1", "got 1 0", "committed 1>2"], [], [], ["2 was committed and is not there"]),
        (["put 1", "got 1 0", "asked-commit 1>2", "life 1"], [("1", 1)], [], []),
        (["put 1", "got 1 0", "asked-commit 1>2", "life 1"], [], ["2"], []),
        (
            ["put 1", "got 1 0", "asked-commit 1>2", "life 1"],
            [],
            [],
            ["1 is gone, and what was put in the same unit of work (2) is not there"],
        ),
        (["put 1", "got 1 0", "asked-commit 1>2", "life 1"], [("1", 1)], ["2"], ["2 was backed out and is there"]),
        (["put 1", "got 1 0", "asked-backout 1>2", "backed-out 1>2"], [("1", 1)], ["2"], ["2 was backed out and is there"]),
        ([], [], ["9"], ["9 is there and was never put"]),
        ([], [("9", 0)], [], ["9 was delivered after it was never put"]),
    ],
)
def test_the_judge_of_histories(said: list[str], left: list[tuple[str, int]], moved: list[str], expected: list[str]) -> None:
    assert expected == violations(said, left, moved)
