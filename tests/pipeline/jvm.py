"""How the JVMs of these tests are started: they compile little, believe the classes that they load, and say little of plans.

They map the classes that `python -m tests.pipeline.jvm` left. Loading and verifying Spark's classes is half of what a start
costs: 9 seconds of processor time came down to 4. Making the archive costs what it saves in one run of these tests, so it is
made when it is asked for (`make classes`), once for a machine. The JVM itself looks whether it is of these jars and of this
Java; tests go on without any.
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

__all__ = ("SETTINGS", "options")

_CACHE = Path(__file__).parents[2] / ".cache" / "classes"
SETTINGS = {
    # What PySpark asks the JVM for each operation on a column, to say in an error which line of a test it was.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # How each query is described to Spark's pages.
    "spark.sql.ui.explainMode": "simple",
}
"""Of their sessions: a quarter of the processor time of what has few rows and many columns."""
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
_QUIET = "-Xlog:cds*=off"  # of each class that is left out it would say why
_EXIT_S = 300


def options() -> str:
    """Return the options of a JVM that will not run for long."""
    archive = _archive()
    return f"{_QUICK} {_QUIET} -XX:SharedArchiveFile={archive}" if archive.exists() else _QUICK


def main() -> None:
    """Leave the classes that the pipeline needs, where they are not there yet."""
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
    """Have a JVM do some of what the tests have it do, and end: a stream, a table and a query."""
    from mqflow.pipeline import spark_session  # noqa: PLC0415 - tests that only ask for options load no Spark
    from mqflow.pipeline.tables.bronze import Bronze, bronze  # noqa: PLC0415

    config = SETTINGS | {"spark.driver.extraJavaOptions": java_options, "spark.sql.adaptive.enabled": "false"}
    spark = spark_session("classes", master="local[2]", config=config)
    gateway: Any = spark.sparkContext._gateway
    generate_journal(folder / "journal", Kind.DEAD_LETTER, segments=1, rows=20, lane="A")
    table = bronze(spark, Bronze(journal=folder / "journal", tables=folder / "tables", kind=Kind.DEAD_LETTER)).table
    spark.read.parquet(str(table)).groupBy("dlh_reason").count().collect()
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # whoever speaks to a JVM that way ends with it
    gateway.proc.wait(_EXIT_S)


def _archive() -> Path:
    """Return where the archive of this Java and of these jars is."""
    home, pyspark = os.environ.get("JAVA_HOME", ""), find_spec("pyspark")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    jars = Path((pyspark and pyspark.origin) or "").parent / "jars"
    named = [f"{each.resolve()} {each.stat().st_mtime_ns}" for each in (java, jars) if each.exists()]
    return _CACHE / f"{hashlib.sha256(' '.join(named).encode()).hexdigest()[:16]}.jsa"


if __name__ == "__main__":
    main()
