"""Whole processes: how soon the first durable message is handled, how much memory a consumer has, what the import costs.

Each figure is the median over fresh interpreters, after one that does not count: it leaves the bytecode that an installed
package has.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

__all__ = ("Phase", "import_ms", "phases", "rss_mb")

_CONSUMER: Final = Path(__file__).with_name("consumer.py")
_ROOT: Final = Path(__file__).parent.parent


class _Told(msgspec.Struct):
    """What the consumer process prints at its end."""

    #: When each phase was over, in seconds since 1970, and how much processor time the process had used; in order.
    phases: dict[str, tuple[float, float]]
    rss_kb: int


class Phase(msgspec.Struct, frozen=True):
    """A part of starting a consumer, up to its end, in milliseconds."""

    name: str
    #: After the process was started.
    after_ms: float
    #: Processor time used until then, which another process cannot make longer by being busy.
    cpu_ms: float


def phases(processes: int) -> list[Phase]:
    """Return the phases of a consumer's start, in order; the last ends with the first durable message handled."""
    _consume(1)
    runs = [_phases() for _ in range(processes)]
    return [
        Phase(same[0].name, median(phase.after_ms for phase in same), median(phase.cpu_ms for phase in same))
        for same in zip(*runs, strict=True)
    ]


def rss_mb(processes: int, messages: int = 1_000) -> float:
    """Return the memory of a consumer that has handled so many durable messages, in MB (10^6 bytes)."""
    return median(_consume(messages).rss_kb for _ in range(processes)) * 1_024 / 1e6


def import_ms(statement: str, processes: int) -> float:
    """Return how long a process takes that does nothing else, in milliseconds."""
    _process_ms(statement)
    return median(_process_ms(statement) for _ in range(processes))


def _phases() -> list[Phase]:
    started = time.time()
    told = _consume(1).phases
    return [Phase(name, (at - started) * 1e3, cpu_s * 1e3) for name, (at, cpu_s) in told.items()]


def _consume(messages: int) -> _Told:
    with tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as folder:
        command = [sys.executable, str(_CONSUMER), f"{folder}/data", str(messages)]
        done = subprocess.run(command, check=False, capture_output=True, env=_environment())
    if done.returncode:
        raise RuntimeError(f"The measured consumer failed:\n{done.stderr.decode()}")
    return msgspec.json.decode(done.stdout, type=_Told)


def _process_ms(statement: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, env=_environment())
    return (time.perf_counter() - started) * 1e3


def _environment() -> dict[str, str]:
    """Return the environment of a measured process: one that may keep its bytecode, wherever this one may not."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(_ROOT)}
