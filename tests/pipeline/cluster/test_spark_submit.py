"""`spark-submit --py-files mqflow.zip`: nodes whose Python has mqflow's packages, but no mqflow and no active environment."""

import subprocess
from pathlib import Path

import pytest

from tests.long import LONG
from tests.pipeline.cluster.places import PROGRAM, bare_environment, mqflow_zip, spark_program


@LONG
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("long on spark")
def test_spark_submit_runs_a_command_from_a_zip_without_an_activated_environment(journal: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "pipeline.py").write_text(PROGRAM)
    environment = bare_environment(elsewhere)
    without = [environment["PYSPARK_PYTHON"], "-c", "import mqflow"]
    assert (
        "No module named 'mqflow'"
        in subprocess.run(without, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False).stderr
    )

    submit = [spark_program("spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    arguments = ["spark", "bronze", "--journal", str(journal), "--tables", str(tmp_path / "tables")]
    done = subprocess.run(
        [*submit, "--py-files", str(mqflow_zip(elsewhere)), "pipeline.py", *arguments],
        cwd=elsewhere, env=environment, capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip

    assert 0 == done.returncode, done.stdout[-3000:]  # Spark gives both streams of the program there
    [row] = [line.split() for line in done.stdout.splitlines() if line.startswith("dead_letter")]
    assert "100" == row[1]
