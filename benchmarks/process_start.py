"""Goals 14 to 16: the time until the first durable message is handled, the memory of a consumer, the time of the import.

Each figure is the median over new interpreters. The first interpreter is not measured: it writes the bytecode, which an
installed package has from the beginning.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from benchmarks.effort import Effort, print_tables
from benchmarks.machine import wait_for_idle
from benchmarks.tables import Bar, Row, Table

__all__ = ("Phase", "environment", "import_ms", "phases", "rss_mb", "tables")

_CONSUMER: Final = Path(__file__).with_name("consumer.py")
_ROOT: Final = Path(__file__).parent.parent


class _Output(msgspec.Struct):
    """The output of the consumer process at its end."""

    #: The end of each phase in seconds since 1970, and the processor time of the process until then; in order.
    phases: dict[str, tuple[float, float]]
    rss_kb: int


class Phase(msgspec.Struct, frozen=True):
    """A phase in the start of a consumer; times are in milliseconds."""

    name: str
    #: The end of the phase, after the start of the process.
    after_ms: float
    #: The processor time from the start of the process to the end of the phase; it does not depend on other processes.
    cpu_ms: float


def tables(effort: Effort) -> Iterator[Table]:
    """Measure the figures of whole processes, and yield one table."""
    effort.say("goals 14 to 16, processes")
    busy, processes = wait_for_idle(effort.patience_s), effort.processes
    found = phases(processes)
    memory_mb = rss_mb(max(1, processes // 2), messages=effort.scaled(1_000))
    start = Row(
        goal=14,
        name="process start to first durable message handled",
        figure=found[-1].after_ms,
        unit="ms",
        bar=Bar(140.0, 100.0, at_most=True),
        busy=busy,
        why="See the phases above.",
    )
    memory = Row(
        goal=15,
        name="memory of a consumer after 1,000 messages (RSS)",
        figure=memory_mb,
        unit="MB",
        bar=Bar(32.0, 28.0, at_most=True),
        busy=busy,
    )
    imported = Row(
        goal=16,
        name="a process that does `from mqflow import App`",
        figure=import_ms("from mqflow import App", processes),
        unit="ms",
        bar=Bar(126.0, 85.0, at_most=True),
        busy=busy,
    )
    yield Table(title="Processes", figure="measured", rows=(start, memory, imported), after=_phases_text(found, processes))


def _phases_text(found: Sequence[Phase], processes: int) -> str:
    lines = [
        (
            f"A Python process that does nothing takes {import_ms('pass', processes):.0f} ms, and one that only runs "
            f"`import mqflow` takes {import_ms('import mqflow', processes):.0f} ms. `make bench-peers` also measures the peers."
        ),
        "",
        "| on the way to the first durable message | ms after the start | processor ms |",
        "|---|---|---|",
        *(f"| {phase.name} | {phase.after_ms:.0f} | {phase.cpu_ms:.0f} |" for phase in found),
    ]
    return "\n".join(lines)


def phases(processes: int) -> list[Phase]:
    """Return the phases of a consumer's start, in order; the last phase ends when the first durable message is handled."""
    _consume(1)
    runs = [_phases() for _ in range(processes)]
    return [
        Phase(same[0].name, median(phase.after_ms for phase in same), median(phase.cpu_ms for phase in same))
        for same in zip(*runs, strict=True)
    ]


def rss_mb(processes: int, messages: int = 1_000) -> float:
    """Return the memory of a consumer after it handled the given number of durable messages, in MB (10^6 bytes)."""
    return median(_consume(messages).rss_kb for _ in range(processes)) * 1_024 / 1e6


def import_ms(statement: str, processes: int) -> float:
    """Return the time of a process that only runs the given code, in milliseconds."""
    _process_ms(statement)
    return median(_process_ms(statement) for _ in range(processes))


def _phases() -> list[Phase]:
    started = time.time()
    ends = _consume(1).phases
    return [Phase(name, (at - started) * 1e3, cpu_s * 1e3) for name, (at, cpu_s) in ends.items()]


def _consume(messages: int) -> _Output:
    with tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as folder:
        command = [sys.executable, str(_CONSUMER), f"{folder}/data", str(messages)]
        done = subprocess.run(command, check=False, capture_output=True, env=environment())
    if done.returncode:
        raise RuntimeError(f"The measured consumer failed:\n{done.stderr.decode()}")
    return msgspec.json.decode(done.stdout, type=_Output)


def _process_ms(statement: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, env=environment())
    return (time.perf_counter() - started) * 1e3


def environment() -> dict[str, str]:
    """Return the environment of a measured process, which may write bytecode even if this process may not."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(_ROOT)}


if __name__ == "__main__":
    sys.exit(print_tables(tables, "python -m benchmarks.process_start", __doc__, sys.argv[1:]))
