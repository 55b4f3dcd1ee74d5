"""One Spark session for all tests of the pipeline: its start costs more than most of the tests."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mqflow.journal import Kind
from mqflow.testing.journals import generate_journal
from tests.long import of_other_days
from tests.pipeline import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_S = 240
"""How long one test may take: the first one starts Spark, on a machine that may have other things to do."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the files that have their turn on another day, unless the run has files of one turn only.

    Run the tests that use the session of Spark in one process. Tests that start their own Spark can be in another one.
    """
    here = Path(__file__).parent
    files = {path: path.relative_to(here).as_posix() for path in {item.path for item in items} if path.is_relative_to(here)}
    others = of_other_days(set(files.values()))
    if others:
        config.hook.pytest_deselected(items=[item for item in items if files.get(item.path) in others])
        items[:] = [item for item in items if files.get(item.path) not in others]
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            if item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group("spark"))
            if item.get_closest_marker("timeout") is None:  # a test's own marker has priority
                item.add_marker(pytest.mark.timeout(START_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A session like that of `mqflow spark`, on two cores, with task retries."""
    from mqflow.pipeline import spark_session  # noqa: PLC0415 - only these tests load Spark

    folder = tmp_path_factory.mktemp("spark")
    (folder / "events").mkdir()
    settings = folder / "mqflow.toml"  # the workers' settings; a test with secrets for them writes this file
    settings.touch()
    python = os.environ.get("PYSPARK_PYTHON")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQFLOW_CONFIG", str(settings))  # the JVM passes it to every Python process
        session = spark_session("tests", master="local[2,2]", config=_config(folder))
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    if python is None:
        os.environ.pop("PYSPARK_PYTHON", None)


def _config(folder: Path) -> dict[str, str]:
    return jvm.SETTINGS | {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",  # it would plan each query again after each stage
        "spark.driver.extraJavaOptions": jvm.options(),
        # Without its native library Hadoop starts a program (chmod, readlink) for each file that it makes or renames. These
        # are 34 for a batch of a stream, each for 10 ms and more. With these two it starts six.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        # What Spark's pages show is made of this log.
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(folder / "events"),
    }


@pytest.fixture(scope="module")
def interpreted(spark: "SparkSession") -> Iterator[None]:
    """Small frames and many plans: compiling each plan and its projections to Java would take most of the time."""
    uncompiled = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for name, value in uncompiled.items():
        spark.conf.set(name, value)
    yield
    for name in uncompiled:
        spark.conf.unset(name)


@pytest.fixture
def bucket(spark: "SparkSession", server: dict[str, str]) -> Iterator[str]:
    """A bucket of an object store that this process and the Pythons of Spark find: with one server, Spark starts them once."""
    from mqflow.pipeline import register  # noqa: PLC0415 - as above
    from tests.object_store import new_bucket  # noqa: PLC0415 - it takes a second to load

    passed_on: dict[str, str] = spark.sparkContext.environment
    passed_on |= server
    register(spark)  # it passes the environment of this moment on
    yield new_bucket()
    for name in server:
        del passed_on[name]
    register(spark)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of dead letters: three segments of 20 in one lane, two in another."""
    path = tmp_path / "journal"
    generate_journal(path, Kind.DEAD_LETTER, segments=3, rows=20, lane="A.DLQ")
    generate_journal(path, Kind.DEAD_LETTER, segments=2, rows=20, lane="B.DLQ", seed=2)
    return path
