"""A Spark session for mqflow's formats: the right Python for the workers, UTC, no open port. Spark loads on request.

This file knows how Spark starts; of the sources it knows only the module names.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqflow.pipeline.errors import JavaError, SparkMissingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ("SOURCES", "check_java", "end_quietly", "end_session", "register", "settings", "spark_session", "use_in_this_thread")

SOURCES: Final = {
    "mqflow_journal": ("mqflow.pipeline.sources.journal", "JournalSource"),
    "mqflow_queue": ("mqflow.pipeline.sources.queue", "QueueSource"),
    "mqflow_mq": ("mqflow.pipeline.sinks.queue", "QueueSink"),
    "mqflow_delta": ("mqflow.pipeline.delta.sink", "DeltaSink"),
}
"""The module and class of each format."""
_JAVA_LEAST: Final = 17
_SPARK_LEAST: Final = (4, 2)
_SPARK_BELOW: Final = 5
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Java compiles no method of more than 8000 bytes, and Spark makes longer methods from a long rules table. With this limit
    # it makes several short methods. 60 rules over four million letters: 4 seconds of processor time instead of 23.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Spark makes a buffer of so many rows for each column of each file, and a segment is a small file.
    "spark.sql.parquet.columnarReaderBatchSize": "1024",
}
# For each value from Arrow the JVM checks bounds and null, although Spark has checked both already. These checks take about a
# sixth of the processor time of reading a journal. As default options, these options remain if a user sets
# `spark.driver.extraJavaOptions`.
_JAVA_OPTIONS: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
# PySpark looks these classes up for each operation on a column. Each time py4j asks the JVM, and the JVM searches all jars of
# Spark for a name without a package. As attributes, the classes are looked up only once. An operation then costs 0.6 ms of
# processor time, not 1.
_CLASSES: Final = (
    "functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
)
_LOOPBACK: Final = "127.0.0.1"
_DAEMON: Final = "mqflow.pipeline.worker_daemon"


def register(spark: "SparkSession") -> None:
    """Register the formats `SOURCES` with a session, also over Spark Connect."""
    for module, name in SOURCES.values():  # getattr: the names are data, so that no module is imported before
        spark.dataSource.register(getattr(import_module(module), name))
    jvm: Any = getattr(spark, "_jvm", None)  # Any: py4j has no types; None over Spark Connect
    for name in _CLASSES if jvm is not None else ():
        setattr(jvm, name, getattr(jvm, name))


def spark_session(
    name: str = "mqflow", *, master: str | None = None, remote: str | None = None, config: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return a session with mqflow's formats: the existing session (under spark-submit), or a new one.

    A new session runs on this machine (`local[*,3]`: all cores, and three attempts for a task) unless `master` names another.
    `remote` is a Spark Connect URL (`sc://host`), which needs no Java here. Time is UTC, and workers run this Python. Without a
    cluster, Spark listens on 127.0.0.1 only.

    Raises `SparkMissingError` if PySpark is missing, too old or too new, and `JavaError` if Java is missing or too old.
    """
    check_spark()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - half a second, and optional

    builder = SparkSession.builder.appName(name)
    if remote is not None:
        asked = dict(config or {})
        for key, value in asked.items():  # the builder ignores settings that a running server cannot change
            builder = builder.config(key, value)
        session = builder.remote(remote).getOrCreate()
        for key in _ALWAYS.keys() - asked.keys():
            session.conf.set(key, _ALWAYS[key])
    else:
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        if not submitted and SparkSession.getActiveSession() is None:
            check_java()
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers use any python3 in PATH
        settings = dict(_ALWAYS) if submitted else _local(master)
        for key, value in (settings | dict(config or {})).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    register(session)
    return session


def use_in_this_thread(spark: "SparkSession") -> None:
    """Make the session the one of the calling thread. Spark looks for the formats `SOURCES` only in that session."""
    jvm: Any = getattr(spark, "_jvm", None)  # as above
    if jvm is not None:
        jvm.SparkSession.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - PySpark offers no other way


@contextmanager
def settings(session: "SparkSession", values: Mapping[str, str]) -> Iterator[None]:
    """Give these settings the values in the block."""
    before = {name: str(session.conf.get(name)) for name in values}
    for name, value in values.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


def end_quietly(session: "SparkSession") -> None:
    """Let PySpark print no traceback if the JVM of the session ends first, for example by a SIGTERM to the process group."""
    server: Any = getattr(session.sparkContext, "_accumulatorServer", None)  # Any: PySpark offers no other way
    if server is None:
        return
    print_error = server.handle_error

    def handle_error(request: object, address: object) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            print_error(request, address)

    server.handle_error = handle_error


def end_session(session: "SparkSession") -> None:
    """Stop the session. If its JVM or its server has ended before, forget it, so that `spark_session` can make another one."""
    from pyspark import SparkContext  # noqa: PLC0415 - as above
    from pyspark.sql import SparkSession  # noqa: PLC0415

    try:
        session.stop()
    except Exception:  # noqa: BLE001 - PySpark lets any error of the network and of py4j through
        gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark offers no other way to leave a JVM that has ended
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
        SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001
        if gateway is not None and getattr(gateway, "proc", None) is not None:
            gateway.proc.kill()
            gateway.proc.wait()


def check_spark() -> None:
    """Raise `SparkMissingError` if PySpark is missing, too old or too new."""
    if find_spec("pyspark") is None:
        raise SparkMissingError("PySpark is not installed, and the pipeline needs it: pip install 'mqflow[spark]'.")
    found = metadata.version("pyspark")
    major, minor = (int(part) for part in found.split(".")[:2])
    if (major, minor) < _SPARK_LEAST or major >= _SPARK_BELOW:
        raise SparkMissingError(f"PySpark {found} is installed; mqflow's sources need 4.2 or later, below 5.")


def check_java(environment: Mapping[str, str] | None = None) -> int:
    """Return the version of the Java that Spark will find. Raises `JavaError` if there is no Java, or it is older than 17."""
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME", "")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH", ""))
    where = f"JAVA_HOME is {home}" if home else "JAVA_HOME is not set, and no java is in PATH"
    if java is None or not Path(java).exists():
        raise JavaError(
            f"There is no Java ({where}), and Spark needs Java {_JAVA_LEAST} or later. Install it (for example openjdk-17-jre) "
            "or set JAVA_HOME. `mqflow land` needs no Java."
        )
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - it is the Java Spark will run
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(
            f"{java} -version did not run ({error}), so Spark cannot run it either. Set JAVA_HOME to another Java."
        ) from error
    found = _VERSION.search(said.stderr + said.stdout)
    if found is None:
        raise JavaError(f"{java} -version printed no version (exit {said.returncode}). Is it a Java?")
    version = int(found[1])
    if version < _JAVA_LEAST:
        raise JavaError(f"{java} is Java {version}, and Spark needs {_JAVA_LEAST} or later. Set JAVA_HOME to a newer Java.")
    return version


def _local(master: str | None) -> dict[str, str]:
    settings = _ALWAYS | {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.driver.defaultJavaOptions": _JAVA_OPTIONS,
        "spark.executor.defaultJavaOptions": _JAVA_OPTIONS,
        "spark.ui.enabled": "false",
        "spark.python.authenticate.socketTimeout": "60s",  # the default of 15 s is too short on a busy machine
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    }
    if master is not None and not master.startswith("local"):  # a cluster's executors must find the driver
        del settings["spark.driver.bindAddress"], settings["spark.driver.host"]
    elif os.environ.get("PYSPARK_PYTHON") == sys.executable:  # another Python may not have this module
        settings["spark.python.daemon.module"] = _DAEMON
    return settings | {"spark.master": master or "local[*,3]"}  # with one attempt, a task fails if its Python process ends
