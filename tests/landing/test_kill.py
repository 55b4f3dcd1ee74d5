"""kill -9 of the lander at any call, sync or rename: no message is lost or doubled, and a defect would be noticed.

``LANDING_LIVES=1000 pytest tests/landing/test_kill.py`` runs more lives than the few of every day.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.journal import Journal
from mqflow.journal.verification import verify_journal
from tests.embedded.disk_faults.disk import memory_folder
from tests.landing.journals import QUEUE, bodies, column, lane_of, left
from tests.landing.kills import LOOT, PER_LIFE

LIVES = int(os.environ.get("LANDING_LIVES", "40"))
CONTROL_LIVES = 20


def killed(folder: Path, mode: str, lives: int, seed: int = 1) -> tuple[list[int], int]:
    """Return the numbers of all messages at the end, and how many lives were killed."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.landing.kills", str(folder), str(seed), str(lives), mode],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=50 + lives,
        check=False,
    )
    assert (0, "") == (ended.returncode, ended.stderr)
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "qm")) as queue_manager:
        connection = queue_manager.connect()
        found = bodies(folder / "journal") + left(connection, LOOT)
        assert [] == left(connection, QUEUE)
    return sorted(found), ended.stdout.count("killed")


@pytest.mark.parametrize("mode", ["get", "browse"])
@pytest.mark.timeout(120 + LIVES)
def test_nothing_is_lost_and_nothing_landed_twice_however_often_the_lander_is_killed(mode: str) -> None:
    with memory_folder() as folder:
        found, deaths = killed(folder, mode, LIVES)
        counts = column(folder / "journal", "backout_count")
        pending = lane_of(folder / "journal").pending()
        damages = [finding for lane in verify_journal(Journal.open(folder / "journal")) for finding in lane.findings]

    assert [] == damages
    assert deaths > LIVES / 3, "too few deaths to prove anything"
    assert list(range((LIVES + 1) * PER_LIFE)) == found
    assert () == pending
    if mode == "browse":  # only a kill between the first get and the commit counts
        assert counts.count(0) > len(counts) * 0.6


def test_without_the_marker_the_judge_sees_what_goes_wrong() -> None:
    with memory_folder() as folder:
        found, deaths = killed(folder, "unmarked", CONTROL_LIVES)

    assert deaths > CONTROL_LIVES / 3
    assert list(range((CONTROL_LIVES + 1) * PER_LIFE)) != found
