"""A Spark session that runs mqflow's sources: the right Python for the workers, UTC, no open port. Loads Spark when asked.

Knows how Spark is started; knows no source but where it is.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqflow.pipeline.errors import JavaError, SparkMissingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ("SOURCES", "check_java", "register", "spark_session")

SOURCES: Final = {
    "mqflow_journal": ("mqflow.pipeline.sources.journal", "JournalSource"),
    "mqflow_queue": ("mqflow.pipeline.sources.queue", "QueueSource"),
    "mqflow_mq": ("mqflow.pipeline.sinks.queue", "QueueSink"),
    "mqflow_delta": ("mqflow.pipeline.sinks.delta", "DeltaSink"),
}
"""Where the class of each format is."""
_JAVA_LEAST: Final = 17
_SPARK_LEAST: Final = (4, 2)
_SPARK_BELOW: Final = 5
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Java compiles no method of more than 8000 bytes, and Spark would make longer ones of a long rules table: with this it
    # makes several. 60 rules over four million letters: 4 seconds of processor time instead of 23.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
# The JVM reads value by value what Python's Arrow wrote, and asks each time whether the index is within bounds and whether the
# value is null, which Spark has asked before: about a sixth of the processor time that a journal costs it. As defaults they
# stay where somebody sets `spark.driver.extraJavaOptions`.
_JAVA_OPTIONS: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
_LOOPBACK: Final = "127.0.0.1"
_DAEMON: Final = "mqflow.pipeline.worker_daemon"


def register(spark: "SparkSession") -> None:
    """Make the formats `SOURCES` known to a session; a session over Spark Connect too."""
    for module, name in SOURCES.values():
        spark.dataSource.register(getattr(import_module(module), name))


def spark_session(
    name: str = "mqflow",
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Return a session with mqflow's formats: the one that is there (under spark-submit), or a new one.

    A new one runs on this machine (`local[*]`) unless `master` says where; `remote` is a Spark Connect URL (`sc://host`), which
    needs no Java here. Time is UTC, workers run this very Python, and nothing listens but on 127.0.0.1.

    Raises `SparkMissingError` where PySpark is missing or too old, `JavaError` where Java is.
    """
    check_spark()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - half a second, and optional

    builder = SparkSession.builder.appName(name)
    if remote is not None:
        session = builder.remote(remote).getOrCreate()
        for key, value in _ALWAYS.items():
            session.conf.set(key, value)
    else:
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        if not submitted and SparkSession.getActiveSession() is None:
            check_java()
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers are whatever python3 there is
        settings = dict(_ALWAYS) if submitted else _local(master)
        for key, value in (settings | dict(config or {})).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    register(session)
    return session


def check_spark() -> None:
    """Return where PySpark is there and new enough. Raises `SparkMissingError`."""
    if find_spec("pyspark") is None:
        raise SparkMissingError("PySpark is not installed, and the pipeline runs on it: pip install 'mqflow[spark]'.")
    found = metadata.version("pyspark")
    major, minor = (int(part) for part in found.split(".")[:2])
    if (major, minor) < _SPARK_LEAST or major >= _SPARK_BELOW:
        raise SparkMissingError(f"PySpark {found} is installed; mqflow's sources need 4.2 or later, below 5.")


def check_java(environment: Mapping[str, str] | None = None) -> int:
    """Return the version of the Java that Spark will find. Raises `JavaError` where there is none, or it is older than 17."""
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME", "")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH", ""))
    where = f"JAVA_HOME is {home}" if home else "JAVA_HOME is not set, and no java is in PATH"
    if java is None or not Path(java).exists():
        raise JavaError(
            f"There is no Java ({where}), and Spark needs Java {_JAVA_LEAST} or later. Install one (openjdk-17-jre say) "
            "or set JAVA_HOME; `mqflow land` needs none."
        )
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - it is the Java Spark will run
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(
            f"{java} -version did not run ({error}), and Spark would not either. Set JAVA_HOME to another."
        ) from error
    found = _VERSION.search(said.stderr + said.stdout)
    if found is None:
        raise JavaError(f"{java} -version said nothing that names a version (exit {said.returncode}). Is it a Java?")
    version = int(found[1])
    if version < _JAVA_LEAST:
        raise JavaError(f"{java} is Java {version}, and Spark needs {_JAVA_LEAST} or later: set JAVA_HOME to such a one.")
    return version


def _local(master: str | None) -> dict[str, str]:
    settings = _ALWAYS | {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.driver.defaultJavaOptions": _JAVA_OPTIONS,
        "spark.executor.defaultJavaOptions": _JAVA_OPTIONS,
        "spark.ui.enabled": "false",
        "spark.python.authenticate.socketTimeout": "60s",  # 15 s are too few on a machine that has other things to do
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    }
    if master is not None and not master.startswith("local"):  # a cluster's executors must find the driver
        del settings["spark.driver.bindAddress"], settings["spark.driver.host"]
    elif os.environ.get("PYSPARK_PYTHON") == sys.executable:  # another Python need not have it
        settings["spark.python.daemon.module"] = _DAEMON
    return settings | {"spark.master": master or "local[*]"}
