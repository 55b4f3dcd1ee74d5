"""kill -9 of the lander at any call and any step of the storage. No message is lost or doubled, and the test notices a defect.

``LANDING_LIVES=1000 pytest tests/landing/test_kill.py`` runs more lives than the few of every day.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.folders import Folder
from mqflow.journal import Journal
from mqflow.journal.verification import verify_journal
from tests.landing.journals import QUEUE, bodies, column, lane_of, left
from tests.landing.kills import LOOT, PER_LIFE
from tests.own_programs import run_module

LIVES = int(os.environ.get("LANDING_LIVES", "40"))
CONTROL_LIVES = 20


def killed(memory: Path, journal: Folder, mode: str, lives: int, seed: int = 1) -> tuple[list[int], Counter[str]]:
    """Return the numbers of all messages at the end, and how many lives were killed at which operation."""
    ended = run_module("tests.landing.kills", memory, seed, lives, mode, journal.uri, timeout_s=50 + 3 * lives)
    assert (0, "") == (ended.returncode, ended.stderr)
    with EmbeddedQueueManager("QM1", store=SqliteStore(memory / "qm")) as queue_manager:
        connection = queue_manager.connect()
        found = bodies(journal) + left(connection, LOOT)
        assert [] == left(connection, QUEUE)
    places = [line.rpartition(" ")[2] for line in ended.stdout.splitlines() if line.startswith("at ")]
    assert ended.stdout.count("killed") == len(places)
    return sorted(found), Counter(places)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["get", "browse"])
@pytest.mark.timeout(120 + 3 * LIVES)
def test_nothing_is_lost_and_nothing_landed_twice_however_often_the_lander_is_killed(
    mode: str, memory: Path, folder: Folder
) -> None:
    found, deaths = killed(memory, folder, mode, LIVES)
    counts = column(folder, "backout_count")
    pending = lane_of(folder).pending()
    damages = [finding for lane in verify_journal(Journal.open(folder)) for finding in lane.findings]

    assert [] == damages
    storage = {"fsync", "rename"} if folder.path else {"put", "get", "delete"}
    assert deaths.total() > LIVES / 3, "too few deaths to prove anything"
    assert storage <= deaths.keys(), "too few deaths in the storage to prove anything"
    assert list(range((LIVES + 1) * PER_LIFE)) == found
    assert () == pending
    if mode == "browse":  # only a kill between the first get and the commit counts
        assert counts.count(0) > len(counts) * 0.6


@pytest.mark.rare
def test_without_the_marker_the_judge_sees_what_goes_wrong(memory: Path, disk: Folder) -> None:
    found, deaths = killed(memory, disk, "unmarked", CONTROL_LIVES)

    assert deaths.total() > CONTROL_LIVES / 3
    assert list(range((CONTROL_LIVES + 1) * PER_LIFE)) != found
