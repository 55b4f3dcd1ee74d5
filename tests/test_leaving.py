"""Long runs that are ended from outside leave no process."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

ROOT = Path(__file__).parents[1]
CHILDREN = 8  # owner, two standbys, five that use them


def children_of(parent: int) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(folder.name)
        except OSError:
            continue  # it is gone


def ended(command: list[str], children: int, number: signal.Signals) -> int:
    """Start the run, end it when it has this many children, and return its exit code when no child is left."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        try:
            while len(list(children_of(running.pid))) < children:
                assert running.poll() is None
                threading.Event().wait(0.01)
            running.send_signal(number)
            running.stderr.read()  # all have it: its end is the end of all
        finally:
            running.kill()
    return running.returncode


def test_failovers_that_are_terminated_leave_no_process_behind() -> None:
    called = ("tests.embedded.failover.failovers", "fail_over", '{"count": 1000000, "seed": 1}')
    command = [sys.executable, "-m", "tests.own_programs", *called]

    assert 128 + signal.SIGTERM == ended(command, CHILDREN, signal.SIGTERM)


STAGE = """
import signal, sys
from pathlib import Path
from tests.embedded.failover.stage import Stage
from tests.leaving import end_by_exception
end_by_exception()
stage = Stage(Path(sys.argv[1]), 1.0)
try:
    for name in ("one", "two"):
        stage.fork(name, signal.pause)
    signal.pause()
finally:
    stage.kill_all()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -2), (signal.SIGKILL, -9)])
def test_the_end_of_a_stage_ends_its_processes(tmp_path: Path, number: signal.Signals, code: int) -> None:
    assert code == ended([sys.executable, "-c", STAGE, str(tmp_path)], 2, number)


STARTED_ALONE = """
import subprocess
from tests.leaving import popen_with_parent
subprocess.Popen = popen_with_parent()
subprocess.Popen(["sleep", "1000"], start_new_session=True).wait()
"""


def test_the_kill_of_a_test_run_ends_the_processes_that_it_started_in_sessions_of_their_own() -> None:
    assert -signal.SIGKILL == ended([sys.executable, "-c", STARTED_ALONE], 1, signal.SIGKILL)
