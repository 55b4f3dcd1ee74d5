"""Forks Spark's Python workers after it has loaded their modules: `python -m mqflow.pipeline.worker_daemon`.

Spark's own daemon (`pyspark.daemon`) forks first, and then each worker loads pandas, Arrow and the sources. A process with
several threads must not fork, and loading a module can start a thread. So this daemon loads everything first and then counts
its threads. If it has more than one, or the count is unknown, Spark's own daemon runs instead. A worker collects garbage after
each task, and never scans the modules loaded before the fork. Spark runs this module (`spark.python.daemon.module`). This file
knows nothing of tasks.
"""

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ("main",)

_WORKERS: Final = "pyspark.worker"
"""The module that runs tasks. Spark also has a daemon for each of its planners, with one or two workers each."""
_THREADS: Final = Path("/proc/self/task")
_LOADED: Final = (
    "pandas",
    "pyarrow.parquet",
    "pyarrow.pandas_compat",
    "pyspark.worker",
    "pyspark.sql.pandas.types",
    "pyspark.sql.worker.plan_data_source_read",
)


def main(arguments: Sequence[str]) -> None:
    """Serve Spark as its own daemon does. The only argument is the worker's module. The function does not return."""
    if list(arguments) == [_WORKERS] and _THREADS.exists():
        _load()
        if len(list(_THREADS.iterdir())) > 1:
            os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *arguments])  # noqa: S606 - this very Python
        gc.collect()
        gc.freeze()
    from pyspark import daemon  # noqa: PLC0415 - the daemon of the execv above loads it itself

    daemon.manager()


def _load() -> None:
    # Arrow contains jemalloc, which starts a background thread, although Arrow uses another allocator.
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    from mqflow.pipeline.session import SOURCES  # noqa: PLC0415 - as above

    for module in (*_LOADED, *(module for module, _ in SOURCES.values())):
        with suppress(ImportError):  # the module that needs the missing package reports this
            importlib.import_module(module)


if __name__ == "__main__":
    main(sys.argv[1:])
