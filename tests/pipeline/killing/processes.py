"""The processes of a session, and their deaths by kill -9. Knows no Spark."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ("kill", "kill_session", "session", "wait_for")


def wait_for(claim: Callable[[], bool], seconds: float) -> None:
    """Wait for the condition. Fails if it takes longer than even a busy machine needs."""
    until = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < until, f"not so within {seconds:.0f} s"
        threading.Event().wait(0.01)


def session(leader: int) -> dict[int, str]:
    """Return the processes of the session, each with its command line; workers have groups of their own."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(after_name[3]) == leader and after_name[0] != "Z":
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, IndexError):
                continue  # it is gone
    return found


def kill(pids: Sequence[int]) -> int:
    """Kill the processes; return how many existed."""
    killed = 0
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed += 1
    return killed


def kill_session(victim: subprocess.Popen[bytes]) -> int:
    """Kill every process of the session, the JVM first, which would clean up otherwise; return their number."""
    killed: set[int] = set()
    while members := session(victim.pid):
        kill(sorted(members, key=lambda pid: "java" not in members[pid]))
        killed |= set(members)
        threading.Event().wait(0.005)
    victim.wait()
    return len(killed)
