"""The pipeline over Spark Connect: a session connects to a server, registers the formats there, reads and writes.

In a separate process, because one process cannot have both kinds of session.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline import jvm

PROGRAM = """
import sys
from mqflow.cli.pipeline.spark_session import started
from mqflow.journal import Kind
from mqflow.pipeline import jobs

with started("test", master=None, remote="local[2]", conf=()) as spark:
    print(type(spark).__module__, spark.read.format("mqflow_journal").load(sys.argv[1]).count())
    for _ in range(2):
        [written] = jobs.bronze(spark, sys.argv[1], sys.argv[2], rows_per_batch=60)
        print("bronze", written.rows, written.batches)
    print("read", jobs.bronze_table(spark, sys.argv[2], Kind.DEAD_LETTER).where("lane = 'B.DLQ'").count())
    print("version", spark.read.format("mqflow_delta").option("version", "0").load(written.table).count())
"""


@pytest.mark.timeout(240)
@pytest.mark.xdist_group("long on spark")
def test_a_journal_is_read_and_bronze_is_written_and_read_over_spark_connect(journal: Path, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect], which the extra dev brings")
    pytest.importorskip("grpc_status", reason="as grpc")

    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "JDK_JAVA_OPTIONS": jvm.options()}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(journal), str(tmp_path / "tables")],
        capture_output=True, text=True, check=False, timeout=200, env=environment,
    )  # fmt: skip

    assert 0 == done.returncode, done.stderr[-2000:]
    told = ["pyspark.sql.connect.session 100", "bronze 100 2", "bronze 0 0", "read 40", "version 60"]
    assert told == done.stdout.splitlines()[-5:]
