"""Spark in its own processes, one for each master, which stay warm, so that both sides of a ratio can run in turns.

This file knows how to run and measure a function, but no ratio. Processor time is that of the process, its JVM and its Python
workers, as Linux counts it.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from benchmarks.samples import Sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ("Processes", "consumed", "metered", "processes", "session")

P = ParamSpec("P")
T = TypeVar("T")

_MEMORY = "3g"


class Processes:
    """The processes by master; the first function for a master starts its process."""

    def __init__(self) -> None:
        self._by_master: dict[str, ProcessPoolExecutor] = {}

    def on(self, master: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function in the process of this master, and return its result."""
        if master not in self._by_master:
            context = multiprocessing.get_context("spawn")
            self._by_master[master] = ProcessPoolExecutor(1, mp_context=context, initializer=_start, initargs=(master,))
        return self._by_master[master].submit(function, *args, **kwargs).result()

    def close(self) -> None:
        """End all processes."""
        for executor in self._by_master.values():
            executor.submit(_stop).result()
            executor.shutdown()


@contextmanager
def processes() -> Iterator[Processes]:
    """Yield the processes, and end them when the block ends."""
    made = Processes()
    try:
        yield made
    finally:
        made.close()


def session() -> "SparkSession":
    """Return the Spark session of this process."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only processes that measure load Spark

    found = SparkSession.getActiveSession()
    assert found is not None
    return found


def metered(rows: int, work: Callable[[], Any]) -> Sample:
    """Do the work and return a sample for the given number of rows."""
    before_s, began = _cpu_s(), perf_counter()
    work()
    return Sample(rows, perf_counter() - began, _cpu_s() - before_s)


def consumed(frame: "DataFrame") -> None:
    """Compute every column of every row, and drop the result."""
    frame.write.format("noop").mode("overwrite").save()


def _start(master: str) -> None:
    from mqflow.pipeline import spark_session  # noqa: PLC0415 - as above

    config = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": _MEMORY}
    spark = spark_session(f"benchmarks on {master}", master=master, config=config)
    spark.sparkContext.setLogLevel("ERROR")


def _stop() -> None:
    session().stop()


def _cpu_s() -> float:
    """Return the processor time of this process and of all its descendants, also of descendants that have ended."""
    ticks, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        ticks[pid] = sum(int(field) for field in fields[11:15])
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")
