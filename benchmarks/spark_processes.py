"""Spark in processes of its own, one for each master, kept warm, so that both sides of a ratio run in turns.

Knows how to run and to meter; knows nothing of what is measured. Processor time is that of the process, its JVM and its Python
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
    """The processes, by master; each is started when it is first needed."""

    def __init__(self) -> None:
        self._by_master: dict[str, ProcessPoolExecutor] = {}

    def on(self, master: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the function returns in the process whose `session` has this master."""
        if master not in self._by_master:
            context = multiprocessing.get_context("spawn")
            self._by_master[master] = ProcessPoolExecutor(1, mp_context=context, initializer=_start, initargs=(master,))
        return self._by_master[master].submit(function, *args, **kwargs).result()

    def close(self) -> None:
        """End them all."""
        for executor in self._by_master.values():
            executor.submit(_stop).result()
            executor.shutdown()


@contextmanager
def processes() -> Iterator[Processes]:
    """Give the processes, ended at the end."""
    made = Processes()
    try:
        yield made
    finally:
        made.close()


def session() -> "SparkSession":
    """Return this process's session."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only processes that measure load Spark

    found = SparkSession.getActiveSession()
    assert found is not None
    return found


def metered(rows: int, work: Callable[[], Any]) -> Sample:
    """Return what it took to do the work, which is of so many rows."""
    before_s, began = _cpu_s(), perf_counter()
    work()
    return Sample(rows, perf_counter() - began, _cpu_s() - before_s)


def consumed(frame: "DataFrame") -> None:
    """Compute every column of every row, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


def _start(master: str) -> None:
    from mqflow.pipeline import spark_session  # noqa: PLC0415 - as above

    config = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": _MEMORY}
    spark = spark_session(f"benchmarks on {master}", master=master, config=config)
    spark.sparkContext.setLogLevel("ERROR")


def _stop() -> None:
    session().stop()


def _cpu_s() -> float:
    """The processor time of this process and all below it, and of those of them that have ended."""
    ticks, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        pid = int(stat.parent.name)
        parents[pid] = int(fields[1])
        ticks[pid] = sum(int(field) for field in fields[11:15])
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")
