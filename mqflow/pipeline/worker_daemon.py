"""Forks Spark's Python workers with what each of them needs already loaded: `python -m mqflow.pipeline.worker_daemon`.

Spark's own daemon (`pyspark.daemon`) forks first and lets each worker load pandas, Arrow and the sources, because nobody may
fork once a thread runs, and loading may start one. Here all is loaded first, and then the threads are counted: where there is
more than one, or nobody can count, Spark's own daemon runs instead. A worker collects its garbage after each task, and what was
loaded before is never looked at again. Spark runs this (`spark.python.daemon.module`); it knows nothing of tasks.
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
"""Who runs tasks. Spark has a daemon for each of its planners too, and those have a worker or two."""
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
    """Serve Spark as its own daemon does, with the worker's module as the only argument. Does not return."""
    if list(arguments) == [_WORKERS] and _THREADS.exists():
        _load()
        if len(list(_THREADS.iterdir())) > 1:
            os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *arguments])  # noqa: S606 - this very Python
        gc.collect()
        gc.freeze()
    from pyspark import daemon  # noqa: PLC0415 - the one that is replaced loads it itself

    daemon.manager()


def _load() -> None:
    # Arrow brings an allocator whose thread tidies up; it is not the one that Arrow uses.
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    from mqflow.pipeline.session import SOURCES  # noqa: PLC0415 - as above

    for module in (*_LOADED, *(module for module, _ in SOURCES.values())):
        with suppress(ImportError):  # whoever needs it says that it is missing
            importlib.import_module(module)


if __name__ == "__main__":
    main(sys.argv[1:])
