"""Kills of an owner or of its applications; `failover.checking` judges their histories.

The killed process prints each line in one system call, so the kill loses no printed line. Half of the kills come between two
calls, the other half in the middle of a write to the database or its log.
"""

from pathlib import Path

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.server.listener import serve
from tests.embedded.disk_faults.disk import Disk
from tests.embedded.disk_faults.kills import DONE, IN, define_queues
from tests.embedded.failover.checking import Said, violations
from tests.own_programs import run_module
from tests.queue_contents import with_counts

__all__ = ("kill_applications", "kill_owners")


def _judged(printed: str, queue_manager: EmbeddedQueueManager) -> tuple[Said, list[str]]:
    return violations(printed.splitlines(), with_counts(queue_manager, IN), with_counts(queue_manager, DONE))


def kill_owners(disk: Disk, folder: Path, seed: int, lives: int, defect: str = "none") -> tuple[Said, list[str]]:
    """Kill a queue manager many times. Return the history, and its contradictions."""
    ended = disk.run("tests.embedded.disk_faults.kills", str(seed), str(lives), defect, folder=folder / "data")
    assert (0, "") == (ended.returncode, ended.stderr)
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as queue_manager:
        return _judged(ended.stdout, queue_manager)


def kill_applications(folder: Path, seed: int, lives: int) -> tuple[Said, list[str]]:
    """Kill applications, not the owner. Return the history, and its contradictions, like `kill_owners`."""
    with EmbeddedQueueManager("QM1") as owner:
        define_queues(owner.administration)
        with serve(owner, folder / "qm") as server:
            ended = run_module("tests.embedded.disk_faults.kills", server.path, seed, lives)
        assert (0, "") == (ended.returncode, ended.stderr)
        return _judged(ended.stdout, owner)
