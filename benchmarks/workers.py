"""`python -m benchmarks.workers`: `mqflow run --workers 2` beside `mqflow run` with its one worker in process.

Both consume the same durable orders of a queue on this disk, with a listener of one worker for each process. They run in turns.
The time runs from the moment when all processes hold their first message to the last message.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

from msgspec import Struct

from benchmarks.effort import Effort, print_tables
from benchmarks.machine import wait_for_idle
from benchmarks.samples import cpu_s_of
from benchmarks.tables import Bar, Row, Table
from benchmarks.transports import embedded, fill
from benchmarks.worker_application import COUNT, GO, QUEUE, SUFFIX, UNIT_VARIABLE
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence

__all__ = ("Run", "consumed", "tables")

_ROOT: Final = Path(__file__).parent.parent
_PATIENCE_S: Final = 60.0

Found = TypeVar("Found")


class Run(Struct, frozen=True):
    """One run: the rate of all workers together, and the processor time of a message."""

    per_second: float
    #: For each message: the processor time of the handler processes, and of the processes that serve the queue manager.
    workers_us: float
    servers_us: float


def consumed(messages: int, unit_of_work: int, workers: int) -> Run:
    """Return the figures of this number of worker processes; 1 is the worker in the process of the queue manager."""
    with tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as name:
        folder = Path(name)
        with embedded(QUEUE, folder=folder) as queue_manager:
            fill(queue_manager, QUEUE, messages, MessageDescriptor(persistence=Persistence.PERSISTENT))
        words = [sys.executable, "-m", "mqflow", "run", "benchmarks.worker_application:app", "--workers", str(workers)]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), UNIT_VARIABLE: str(unit_of_work), "MQFLOW_LOG_LEVEL": "error"}
        words += ["--url", f"embedded:{folder}/data?qmgr=QM1"]
        process = subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
        try:
            return _measured(folder, process.pid, messages, workers)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _measured(folder: Path, pid: int, messages: int, workers: int) -> Run:
    counts = _until(lambda: found if len(found := sorted(folder.glob(f"*{SUFFIX}"))) == workers else None)
    own = {int(path.name.removesuffix(SUFFIX)) for path in counts}
    others = {pid, *_descendants(pid)} - own
    before = _cpu_s(own), _cpu_s(others)
    began = time.monotonic()
    (folder / GO).touch()
    _until(lambda: True if sum(count for count, _ in _read(counts)) >= messages else None)
    taken_s = max(last for _, last in _read(counts)) - began
    after = _cpu_s(own), _cpu_s(others)
    workers_us, servers_us = ((late - early) / messages * 1e6 for early, late in zip(before, after, strict=True))
    return Run(messages / taken_s, workers_us, servers_us)


def _until(found: Callable[[], Found | None]) -> Found:
    ends_at = time.monotonic() + _PATIENCE_S
    while (value := found()) is None:
        assert time.monotonic() < ends_at, "the workers did not handle the messages"
        time.sleep(0.02)
    return value


def _read(counts: Iterable[Path]) -> list[tuple[int, float]]:
    return [COUNT.unpack(path.read_bytes()) for path in counts]


def _descendants(pid: int) -> Iterator[int]:
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            yield child
            yield from _descendants(child)


def _cpu_s(pids: Iterable[int]) -> float:
    return sum(map(cpu_s_of, pids))


def tables(effort: Effort) -> Iterator[Table]:
    """Measure one worker in process and two workers, by turns, and yield one table."""
    yield Table(
        title="Two worker processes against one worker in process",
        before="The orders are durable, on this disk. `mqflow run --workers 2` has two more processes, for the queue manager.",
        columns=("two workers, messages/s", "one in process, messages/s", "workers' CPU", "servers' CPU", "in process"),
        figure="ratio",
        rows=[*_rows(effort, 32, 40_000), *_rows(effort, 1, 4_000)],
    )


def _rows(effort: Effort, unit_of_work: int, messages: int) -> Iterator[Row]:
    effort.say(f"two worker processes, unit of work {unit_of_work}")
    busy, count = wait_for_idle(effort.patience_s), effort.scaled(messages, least=200)
    pairs = [(consumed(count, unit_of_work, 2), consumed(count, unit_of_work, 1)) for _ in range(effort.pairs)]
    two, one = ([pair[side] for pair in pairs] for side in (0, 1))
    yield Row(
        name=f"run --workers 2, unit of work {unit_of_work}",
        figure=median(each.per_second / other.per_second for each, other in pairs),
        bar=Bar(1.5, 1.8),
        cells=(
            f"{median(each.per_second for each in two):,.0f}",
            f"{median(each.per_second for each in one):,.0f}",
            f"{median(each.workers_us for each in two):.0f} µs",
            f"{median(each.servers_us for each in two):.0f} µs",
            f"{median(each.workers_us for each in one):.0f} µs",
        ),
        busy=busy,
    )


if __name__ == "__main__":
    sys.exit(print_tables(tables, "python -m benchmarks.workers", __doc__, sys.argv[1:]))
