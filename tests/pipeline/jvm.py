"""The options of the JVMs of these tests: little compilation, no verification of classes, short descriptions of plans.

The JVMs map the class archive of `python -m tests.pipeline.jvm`. Loading and verifying Spark's classes is half the cost of a
start: the archive saves 5 of 9 seconds of processor time. Making it costs as much as it saves in one run of these tests, so
`make classes` makes it on request, once for a machine. The JVM checks that the archive fits the jars and the Java version;
without an archive the tests run slower.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mqflow.journal import Kind
from mqflow.testing.journals import generate_journal

__all__ = ("SETTINGS", "interpreted", "options")

_CACHE = Path(__file__).parents[2] / ".cache" / "classes"
SETTINGS = {
    # PySpark would ask the JVM about each operation on a column, to name the line of the test in an error.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # How each query is described to Spark's pages.
    "spark.sql.ui.explainMode": "simple",
}
"""The settings of their sessions: a quarter of the processor time of frames with few rows and many columns is saved."""
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
_QUIET = "-Xlog:cds*=off"  # otherwise the JVM logs each class that it leaves out
_EXIT_S = 300


def options() -> str:
    """Return the options of a JVM that runs for a short time."""
    archive = _archive()
    return f"{_QUICK} {_QUIET} -XX:SharedArchiveFile={archive}" if archive.exists() else _QUICK


def interpreted() -> dict[str, str]:
    """Return the settings of a session with few rows and a short life: to compile its plans does not pay."""
    return SETTINGS | {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": options(),
    }


def main() -> None:
    """Make the archive of the classes that the pipeline needs, if it is missing."""
    archive = _archive()
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, "made.jsa")
        _train(Path(folder), f"{_QUICK} {_QUIET} -XX:ArchiveClassesAtExit={made}")
        if made.exists():
            made.replace(archive)
    sys.stdout.write(f"Spark's classes are in {archive}.\n")


def _train(folder: Path, java_options: str) -> None:
    """Run a stream, a table and a query in a JVM, as the tests do, and end it."""
    from mqflow.pipeline import jobs, spark_session  # noqa: PLC0415 - tests that only ask for options load no Spark

    config = SETTINGS | {"spark.driver.extraJavaOptions": java_options, "spark.sql.adaptive.enabled": "false"}
    spark = spark_session("classes", master="local[2]", config=config)
    gateway: Any = spark.sparkContext._gateway
    generate_journal(folder / "journal", Kind.DEAD_LETTER, segments=1, rows=20, lane="A")
    jobs.bronze(spark, folder / "journal", folder / "tables")
    jobs.bronze_table(spark, folder / "tables", Kind.DEAD_LETTER).groupBy("dlh_reason").count().collect()
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # a process that is connected to a JVM this way ends with it
    gateway.proc.wait(_EXIT_S)


def _archive() -> Path:
    """Return the path of the archive for this Java and these jars."""
    home, pyspark = os.environ.get("JAVA_HOME", ""), find_spec("pyspark")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    jars = Path((pyspark and pyspark.origin) or "").parent / "jars"
    named = [f"{each.resolve()} {each.stat().st_mtime_ns}" for each in (java, jars) if each.exists()]
    return _CACHE / f"{hashlib.sha256(' '.join(named).encode()).hexdigest()[:16]}.jsa"


if __name__ == "__main__":
    main()
