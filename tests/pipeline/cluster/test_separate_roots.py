"""A cluster whose executors have roots of their own: journal and tables are in an object store, and no folder is shared.

`local-cluster[2,1,1024]` has a master, two workers and their executors. Each executor runs in a mount namespace in which the
folder of the driver is empty. So the test finds a file that only the driver has, or only an executor.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from msgspec import Struct

from mqflow.journal import Kind
from mqflow.testing.journals import generate_journal
from tests.long import LONG
from tests.object_store import new_bucket, object_store
from tests.pipeline.cluster.places import can_unshare, java_of_other_roots, spark_home

ROOT = Path(__file__).parents[3]
pytestmark = [
    LONG,
    pytest.mark.skipif(not can_unshare(), reason="this user cannot make mount namespaces (unshare -rm)"),
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("long on spark"),
]


class Cluster(Struct, frozen=True):
    """A bucket with a journal, and the folder that only the driver has."""

    bucket: str
    driver: Path
    java_home: Path
    home: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `mqflow spark` on the cluster, in the driver's folder."""
        command = [sys.executable, "-m", "mqflow.cli", "spark", *arguments, "--master", "local-cluster[2,1,1024]"]
        settings = [f"spark.executorEnv.JAVA_HOME={self.java_home}", "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1"]
        options = [part for each in settings for part in ("--conf", each)]
        environment = os.environ | {"SPARK_HOME": str(self.home), "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
        return subprocess.run(
            [*command, *options], cwd=self.driver, env=environment, capture_output=True, text=True, check=False, timeout=800
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    driver = tmp_path / "driver"
    driver.mkdir()
    with object_store():
        bucket = new_bucket()
        generate_journal(f"{bucket}/journal", Kind.DEAD_LETTER, segments=4, rows=25, lane="A.DLQ")
        yield Cluster(bucket, driver, java_of_other_roots(tmp_path, driver), spark_home(tmp_path))


def test_executors_that_share_no_folder_with_the_driver_write_tables_in_an_object_store(cluster: Cluster) -> None:
    tables = f"{cluster.bucket}/tables"

    done = [cluster.run("bronze", "--journal", f"{cluster.bucket}/journal", "--tables", tables) for _ in range(2)]

    assert [0, 0] == [each.returncode for each in done], [each.stderr[-3000:] for each in done]
    bodies = DeltaTable(f"{tables}/bronze/dead_letter").to_pyarrow_table(columns=["lane", "segment", "ordinal"]).to_pylist()
    assert [(1 + row // 25, row % 25) for row in range(100)] == sorted((each["segment"], each["ordinal"]) for each in bodies)


def test_tables_on_the_disk_of_the_driver_are_refused_because_executors_wrote_elsewhere(cluster: Cluster) -> None:
    done = cluster.run("bronze", "--journal", f"{cluster.bucket}/journal", "--tables", str(cluster.driver / "tables"))

    assert 1 == done.returncode, done.stderr[-3000:]
    assert "executors and driver have different disks. Nothing was added." in done.stderr
