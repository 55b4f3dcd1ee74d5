"""The processes of a session, and their deaths by kill -9. Knows no Spark."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

__all__ = ("is_held", "kill", "kill_session", "session", "standing", "wait_for")


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


def standing(marks: Path, leader: int, held: Collection[str]) -> dict[str, int]:
    """Return the gates at which a live process of the session stands now, each with its process.

    A mark alone is no proof, because its process can have ended since. A mark is `PID-TID-GATE`; at a gate of the queue manager
    (`held`) the thread is 0.
    """
    members, found = session(leader), dict[str, int]()
    for mark in marks.iterdir():
        parts = mark.name.split("-", 2)
        if len(parts) == 3 and parts[0].isdigit() and int(parts[0]) in members:
            pid, tid, gate = int(parts[0]), int(parts[1]), parts[2]
            if is_held(pid, tid) if tid else gate in held:
                found[gate] = pid
    return found


def is_held(pid: int, tid: int) -> bool:
    """Return whether this thread lives and sleeps. A thread that has made its mark sleeps at its gate until it is killed."""
    try:
        return Path("/proc", str(pid), "task", str(tid), "stat").read_text().rpartition(")")[2].split()[0] == "S"
    except OSError:
        return False  # it is gone


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
