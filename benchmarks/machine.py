"""The machine and the software of a measurement, and the load of other processes during it."""

import os
import platform
import sqlite3
import time
from importlib import metadata
from pathlib import Path
from typing import Final

from msgspec import Struct

from benchmarks.client_packages import PACKAGES as CLIENT_PACKAGES

__all__ = ("IDLE_SHARE", "Machine", "describe", "others_busy", "wait_for_idle")

_LOOK_S: Final = 0.2
IDLE_SHARE: Final = 0.15
"""A machine counts as idle if other processes use at most this share of its processors."""
_PACKAGES: Final = ("anyio", "msgspec", "sortedcontainers")


class Machine(Struct, frozen=True):
    """The machine that the figures were measured on."""

    cpus: int
    cpu: str
    memory_gib: int
    system: str
    python: str
    packages: str


def describe() -> Machine:
    """Return the description of this machine."""
    cpu_lines = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in (*_PACKAGES, *CLIENT_PACKAGES))
    return Machine(
        cpus=os.cpu_count() or 1,
        cpu=cpu_lines[0].partition(":")[2].strip() if cpu_lines else platform.processor(),
        memory_gib=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        packages=packages,
    )


def others_busy() -> float:
    """Return the share of all processors that other processes used during a fifth of a second, 0 to 1."""
    before, own = _busy_ticks(), time.process_time()
    time.sleep(_LOOK_S)
    ticks = _busy_ticks() - before
    others_s = ticks / os.sysconf("SC_CLK_TCK") - (time.process_time() - own)
    return min(1.0, max(0.0, others_s / (_LOOK_S * (os.cpu_count() or 1))))


def wait_for_idle(patience_s: float) -> float:
    """Wait until the share of other processes is small or the time is over. Return that share, for the page."""
    until = time.monotonic() + patience_s
    while (share := others_busy()) > IDLE_SHARE and time.monotonic() < until:
        continue
    return share


def _busy_ticks() -> int:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
    return user + nice + system + irq + softirq + steal
