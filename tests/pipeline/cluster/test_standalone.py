"""A standalone cluster of three nodes: the master and the driver on the first one, a worker on each of the two others.

Each node has a network namespace with an address, and a folder that no other node sees, for all that Spark writes. The nodes
share the folder of the journal and the tables, as machines share a mounted folder. Their Python has no mqflow; the driver
sends it as a zip.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from msgspec import Struct

from mqflow.pipeline import jobs
from mqflow.policy.poison.disposition_record import RecordOutcome
from tests.long import LONG
from tests.pipeline.cluster.nodes import Node, nodes, why_none
from tests.pipeline.cluster.places import PROGRAM, bare_environment, mqflow_zip, spark_program
from tests.pipeline.killing.processes import wait_for
from tests.pipeline.stream.test_stream_command import land

pytestmark = [LONG, pytest.mark.timeout(1800), pytest.mark.xdist_group("long on spark")]
PORT = 7077
SETTINGS = {
    "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1", "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}  # fmt: skip


class Standalone(Struct, frozen=True):
    """The cluster: `shared` is on all nodes, `own` is another folder on each."""

    shared: Path
    own: Path
    driver: Node
    environment: dict[str, str]

    def run(self, *arguments: str) -> None:
        """Submit a command of `mqflow spark` from the driver's node, with mqflow as a zip."""
        logs = {"spark.eventLog.dir": f"file://{self.shared / 'events'}", "spark.driver.host": self.driver.address}
        confs = [part for key, value in (SETTINGS | logs).items() for part in ("--conf", f"{key}={value}")]
        master = ["--master", f"spark://{self.driver.address}:{PORT}", "--py-files", str(self.shared / "mqflow.zip")]
        submit = [spark_program("spark-submit"), *master, *confs, str(self.shared / "pipeline.py"), "spark", *arguments]
        done = subprocess.run(
            self.driver.run(*submit), cwd=self.shared, env=self.environment, capture_output=True, text=True, check=False,
            timeout=1500,
        )  # fmt: skip
        assert 0 == done.returncode, done.stdout[-3000:] + done.stderr[-3000:]

    def hosts_of_tasks(self) -> Counter[str]:
        """Return how many tasks each host has done without a failure."""
        lines = [line for path in (self.shared / "events").rglob("events_*") for line in path.read_text().splitlines()]
        told = [json.loads(line) for line in lines if '"SparkListenerTaskEnd"' in line]
        return Counter(each["Task Info"]["Host"] for each in told if each["Task End Reason"]["Reason"] == "Success")


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    folder = tmp_path_factory.mktemp("standalone")
    shared, own = folder / "shared", folder / "own"
    for each in (shared, own, shared / "events"):
        each.mkdir()
    if missing := why_none(own):
        pytest.skip(missing)
    mqflow_zip(shared)
    (shared / "pipeline.py").write_text(PROGRAM)
    places = {"SPARK_LOCAL_DIRS": str(own / "local"), "TMPDIR": str(own)}
    environment = bare_environment(shared) | places
    with ExitStack() as running:
        first, *others = running.enter_context(nodes(3, own))
        master = ("deploy.master.Master", "--host", first.address, "--port", f"{PORT}", "--webui-port", "0")
        running.enter_context(daemon(first, shared / "master.log", environment, "I have been elected leader", *master))
        for node in others:
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(own / "work"))
            worker = (
                "deploy.worker.Worker",
                "--host",
                node.address,
                "--webui-port",
                "0",
                *size,
                f"spark://{first.address}:{PORT}",
            )
            log = shared / f"{node.address}.log"
            running.enter_context(daemon(node, log, environment, "Successfully registered with master", *worker))
        yield Standalone(shared, own, first, environment)


@contextmanager
def daemon(node: Node, log: Path, environment: dict[str, str], ready: str, *words: str) -> Iterator[None]:
    """Run a daemon of Spark on a node; give control when its log has the words `ready`."""
    command = [spark_program("spark-class"), f"org.apache.spark.{words[0]}", *words[1:]]
    with log.open("wb") as out, subprocess.Popen(node.run(*command), env=environment, stdout=out, stderr=out) as running:
        try:
            wait_for(lambda: running.poll() is not None or ready in log.read_text(errors="replace"), 240)
            assert running.poll() is None, log.read_text(errors="replace")[-3000:]
            yield
        finally:
            running.terminate()


def test_workers_on_two_nodes_make_bronze_silver_and_gold_that_agree_with_the_journal(standalone: Standalone) -> None:
    journal, tables = standalone.shared / "journal", standalone.shared / "tables"
    for number in range(4):
        outcomes = [RecordOutcome.COMMITTED] * 40 + [RecordOutcome.DISCARDED] * 10
        land(journal, *outcomes, first=100 * number, minute=70 * number)

    standalone.run("stream", "--once", "--journal", str(journal), "--tables", str(tables))

    bronze = rows_of(str(tables / "bronze" / "disposition"))
    assert [(number + 1, row) for number in range(4) for row in range(50)] == sorted(
        (r["segment"], r["ordinal"]) for r in bronze
    )
    messages = rows_of(jobs.table_set(tables, "silver").uri_of("message"))
    assert Counter(committed=160, discarded=40) == Counter(each["final_outcome"] for each in messages)
    rates = rows_of(jobs.table_set(tables, "gold").uri_of("poison_rate"))
    hours = [each for each in rates if each["window"]["end"] - each["window"]["start"] == timedelta(hours=1)]
    assert 200 == sum(each["deliveries"] for each in hours if each["exc_class"] is None)
    assert {"10.98.8.2", "10.98.8.3"} == set(standalone.hosts_of_tasks()), "each worker has done tasks, and nobody else"
    assert not [*standalone.own.iterdir()], "each node wrote into a folder of its own"


def rows_of(uri: str) -> list[dict[str, Any]]:
    """Return the rows of a Delta table, read without Spark."""
    rows: list[dict[str, Any]] = DeltaTable(uri).to_pyarrow_table().to_pylist()
    return rows
