"""The daemon that forks Spark's workers: it loads their modules before, and has no second thread when it forks."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

WORKERS = "pyspark.worker"
TASKS = Path("/proc/self/task")
WITH_A_THREAD = """
import sys, threading
from mqflow.pipeline import worker_daemon

threading.Thread(target=threading.Event().wait, daemon=True).start()
worker_daemon.main(sys.argv[1:])
"""
pytestmark = pytest.mark.skipif(not TASKS.exists(), reason="nobody can count threads here, and Spark's own daemon runs")


@contextmanager
def running(*arguments: str) -> Iterator[Path]:
    """Yield the process folder of a daemon that listens."""
    with subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert 4 == len(daemon.stdout.read(4)), "it did not say its port"
        yield Path("/proc", str(daemon.pid))
        daemon.stdin.close()  # so Spark ends it


def seen(process: Path) -> tuple[str, bool, int]:
    """Return its command, whether it has loaded Arrow, and its number of threads."""
    command = (process / "cmdline").read_text().replace("\0", " ").strip()
    return command.partition(" -m ")[2], "pyarrow" in (process / "maps").read_text(), len(list((process / "task").iterdir()))


def test_workers_are_forked_by_one_that_has_loaded_what_they_need_and_has_no_thread(spark: SparkSession) -> None:
    one = spark.sparkContext.parallelize([0], 1)

    [(found, frozen)] = one.map(lambda _: (seen(Path("/proc", str(os.getppid()))), gc.get_freeze_count())).collect()

    assert (f"mqflow.pipeline.worker_daemon {WORKERS}", True, 1) == found
    assert 10_000 < frozen, "each task ends with a look at all objects"


def test_where_a_thread_runs_nobody_forks_but_a_fresh_daemon_of_sparks_own() -> None:
    with running("-c", WITH_A_THREAD, WORKERS) as process:
        assert (f"pyspark.daemon {WORKERS}", False, 1) == seen(process)


def test_the_daemon_of_a_planner_loads_nothing_for_its_one_worker() -> None:
    planner = "pyspark.sql.worker.lookup_data_sources"

    with running("-m", "mqflow.pipeline.worker_daemon", planner) as process:
        assert (f"mqflow.pipeline.worker_daemon {planner}", False, 1) == seen(process)
