"""The disk is forced once for each group of commits: no less, because a commit that is answered is durable, and no more."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.many_verbs import current_depth
from mqflow.runtime.connection.inline_session import InlineSession

STRACE: Final = shutil.which("strace")
PROGRAM: Final = Path(__file__).with_name("consuming_program.py")
CALLS: Final = "fdatasync,fsync,sync,syncfs,msync,sync_file_range,getpriority"
MESSAGES: Final = 48

pytestmark = pytest.mark.skipif(STRACE is None, reason="there is no strace to count syncs with: apt-get install strace")


@pytest.mark.parametrize("workers", [1, 16])
def test_each_group_of_commits_forces_the_disk_once(workers: int, backend: str, tmp_path: Path) -> None:
    calls, folder = tmp_path / "calls", tmp_path / "data"
    program = [sys.executable, str(PROGRAM), str(folder), str(MESSAGES), str(workers), backend]

    traced = subprocess.run(
        [str(STRACE), "-f", "-e", f"trace={CALLS}", "-o", str(calls), *program], check=False, capture_output=True, text=True
    )

    if "ptrace" in traced.stderr and "Operation not permitted" in traced.stderr:
        pytest.skip("this user cannot trace processes")
    assert traced.returncode == 0, traced.stderr
    groups, syncs = [int(word) for word in traced.stdout.split()], _syncs_between_the_marks(calls.read_text())
    assert ["fdatasync"] * len(groups) == syncs
    assert MESSAGES == sum(groups)
    assert max(groups) <= InlineSession.unanswered_max * workers
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder)) as queue_manager:
        assert 0 == current_depth(queue_manager.connect(), "SYSTEM.DEFAULT.LOCAL.QUEUE")


def _syncs_between_the_marks(lines: str) -> list[str]:
    """Return the names of the calls that force something to the disk, between the two calls of `getpriority`."""
    names = [line.split(maxsplit=1)[1].partition("(")[0] for line in lines.splitlines() if "(" in line]
    begin = names.index("getpriority")
    return names[begin + 1 : names.index("getpriority", begin + 1)]
