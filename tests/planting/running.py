"""Runs tests on a copy of the sources, with a bound in processor time. It knows nothing of defects.

It reads `/proc`, so it needs Linux.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from msgspec import Struct

__all__ = ("IDLE_S", "Ended", "busy_s", "environment", "processor_s", "rewrite", "run")

#: A run that waits for so long hangs: its processes want less than this share of a processor.
IDLE_S: Final = 60.0
_IDLE_SHARE: Final = 0.03
_POLL_S: Final = 1.0
_STARTED: Final = re.compile(r"^([^\s\[]+?::[^\s\[]+)", re.MULTILINE)
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
_PASSED_CODES: Final = frozenset({0, 5})  # 5: no test was left


class Ended(Struct, frozen=True):
    """How a run of tests ended."""

    passed: bool
    #: No test failed: the run was killed at its bound, or a test at its own limit.
    hung: bool
    #: The test that failed or hung, as `path::name` without its row; empty if the tests could not be loaded.
    test: str
    processor_s: float


def environment(copy: Path) -> dict[str, str]:
    """Return the variables for a program that uses the copy, and leaves bytecode there for the next program."""
    return os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": ""}


def run(copy: Path, tests: Sequence[str], bound_s: float, *, idle_s: float = IDLE_S) -> Ended:
    """Run these tests until one fails. Kill them after `bound_s` seconds of processor time, or if they wait for `idle_s`."""
    with tempfile.TemporaryDirectory(prefix="plant-") as folder:
        wanted, said = Path(folder, "tests"), Path(folder, "said")
        wanted.write_text("\n".join(tests), "utf-8")
        with said.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-xv", "-p", "no:cacheprovider", "--tb=no", "-o", "timeout=0",
                 f"--basetemp={folder}/t", f"@{wanted}"],
                cwd=copy, env=environment(copy), stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            killed, used_s = _watch(process, bound_s, idle_s)
        text = said.read_text("utf-8", "replace")
    failed = _FAILED.search(text)
    if killed or "from pytest-timeout" in text:
        started = _STARTED.findall(text)
        return Ended(passed=False, hung=True, test=started[-1] if started else "", processor_s=used_s)
    passed = process.returncode in _PASSED_CODES
    return Ended(passed=passed, hung=False, test=failed[1] if failed and not passed else "", processor_s=used_s)


def _watch(process: subprocess.Popen[bytes], bound_s: float, idle_s: float) -> tuple[bool, float]:
    """Wait for the end of a session of processes, or end it. Return whether it was killed, and its processor time."""
    used_s, busy, noted_at = 0.0, 0.0, time.monotonic()
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
                return False, used_s
            used_s, now = max(used_s, processor_s(process.pid)), time.monotonic()
            if used_s > bound_s:
                return True, used_s
            if now - noted_at > idle_s:
                before, busy = busy, busy_s(process.pid)
                if abs(busy - before) < _IDLE_SHARE * (now - noted_at):
                    return True, used_s
                noted_at = now
    finally:
        for each in _family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait()


def rewrite(source: Path, text: str) -> None:
    """Change a source. A change can leave its size and its second as they are, so its bytecode has to go."""
    source.write_text(text, "utf-8")
    Path(cache_from_source(str(source))).unlink(missing_ok=True)


def busy_s(session: int) -> float:
    """Return the seconds in which the living processes of a session ran, or waited for a processor that others had.

    The sum falls when a process ends. A session that only waits for events keeps it.
    """
    parts = (each.split() for pid in _family(session) for each in _schedules(pid))
    return sum(int(ran) + int(waited) for ran, waited, _ in parts) / 1e9


def _schedules(pid: int) -> Iterator[str]:
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # it has ended
            yield thread.read_text("utf-8")


def processor_s(session: int) -> float:
    """Return the processor time of the living processes of a session, and of their children that have ended."""
    ticks = sum(int(each) for stat in _family(session).values() for each in stat[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _family(first: int) -> dict[int, list[str]]:
    """Return the living processes of a session, with their descendants: by id, `/proc/PID/stat` from the state on."""
    stats: dict[int, list[str]] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(OSError):  # it has ended
                stats[int(each.name)] = (each / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    family = {pid for pid, stat in stats.items() if int(stat[3]) == first}
    while more := {pid for pid, stat in stats.items() if int(stat[1]) in family} - family:
        family |= more
    return {pid: stats[pid] for pid in family}
