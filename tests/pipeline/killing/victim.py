"""The Spark driver that the campaign kills: one query for each design, and a lander for designs that read a journal.

Run as a program: ``python -m tests.pipeline.killing.victim FOLDER URL once|on DESIGN...``. With ``on`` it goes on until it is
killed. With ``once`` it takes the messages that there are, and writes the output of each design into ``result.json``, as Spark
reads it.
"""

import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mqflow.journal import Journal, Kind
from mqflow.landing.lander import Lander, LanderOptions
from mqflow.landing.landing_loop import keep_landing
from mqflow.pipeline import spark_session
from mqflow.pipeline.connections import WorkerConnection
from mqflow.pipeline.sinks.queue import keyed
from mqflow.verbs import Connection
from mqflow.world import SYSTEM_CLOCK, SYSTEM_RANDOM
from tests.landing.journals import Unmarked
from tests.pipeline import jvm
from tests.pipeline.killing import mortal_sources
from tests.pipeline.killing.names import LANDED, OVERLOADED, QUEUES, TARGETS

__all__ = ("STREAMS",)


class _Folders:
    """The folders of a design; `gate.c` knows their names."""

    def __init__(self, base: Path, design: str) -> None:
        self.table = base / design / "table"
        self.delta = base / design / "delta"
        self.checkpoint = base / design / "checkpoint"
        self.manifest = base / design / "manifest"


class _From(Struct, frozen=True):
    """The parts of a query."""

    spark: SparkSession
    base: Path
    url: str
    batch_rows: str

    def journal(self) -> DataFrame:
        rows = self.spark.readStream.format("failing_journal").option("maxRowsPerTrigger", self.batch_rows)
        return rows.load(str(self.base / "journal")).select("msg_id", "body")

    def drained(self) -> DataFrame:
        rows = self.spark.readStream.format("failing_drain").options(url=self.url, queue=QUEUES["drain"])
        rows = rows.options(maxRowsPerTrigger=self.batch_rows, manifest=str(_Folders(self.base, "drain").manifest))
        return rows.load().select("body", "backout_count")

    def naive(self) -> DataFrame:
        return self.spark.readStream.format("naive_queue").options(url=self.url, queue=QUEUES["naive"]).load()


def _into_parquet(rows: DataFrame, at: _From, design: str) -> Any:
    return rows.writeStream.format("parquet").option("path", str(_Folders(at.base, design).table))


def _into_delta(at: _From) -> Any:
    writer = at.journal().select("body").writeStream.format("failing_delta")
    return writer.options(path=str(_Folders(at.base, "delta").delta), appId="q")


def _onto_queue(at: _From) -> Any:
    writer = keyed(at.journal(), 2, "msg_id").writeStream.format("failing_mq")
    return writer.options(url=at.url, queue=TARGETS["sink"], name="sink", partitions="2", rowsPerUnit="25")


def _carelessly(at: _From) -> Any:
    folders = _Folders(at.base, "careless")

    def write(batch: DataFrame, _number: int) -> None:
        batch.select("body").write.mode("append").parquet(str(folders.table))
        batch.select("body").write.format("mqflow_delta").mode("append").save(str(folders.delta))
        put = keyed(batch, 2, "msg_id").write.format("mqflow_mq").mode("append")
        put.options(url=at.url, queue=TARGETS["careless"], mode="atleastonce").save()

    return at.journal().writeStream.foreachBatch(write)


STREAMS: dict[str, Callable[[_From], Any]] = {
    "journal": lambda at: _into_parquet(at.journal().select("body"), at, "journal"),
    "delta": _into_delta,
    "drain": lambda at: _into_parquet(at.drained(), at, "drain"),
    "sink": _onto_queue,
    # the controls
    "careless": _carelessly,
    "naive": lambda at: _into_parquet(at.naive(), at, "naive"),
}
"""The source and target of each design."""


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


class _Landing:
    """A lander in a thread: it dies with the driver, at a random or at an aimed point."""

    def __init__(self, folder: Path, url: str, lander: str, *, once: bool) -> None:
        self._url = url
        self._once = once
        self._name = lander
        self._journal = Journal.create(folder / ("journal" if lander == "lander" else lander))
        queue = LANDED[lander]
        self._lane = self._journal.add_lane(queue, Kind.PAYLOAD, queue=queue, queue_manager="QM1")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        keep_landing(
            lambda: WorkerConnection(self._url, self._name).connection, self._make, notify=lambda _: None,
            stopping=lambda: False, pause=_pause, random=SYSTEM_RANDOM, once=self._once,
        )  # fmt: skip

    def _make(self, connection: Connection) -> Lander:
        how = LanderOptions(batch=20, linger_ms=20)
        make = Unmarked if self._name == "unmarked" else Lander
        return make(connection, self._journal, self._lane, how, clock=SYSTEM_CLOCK)


def _numbers(spark: SparkSession, base: Path, design: str) -> dict[str, list[int]]:
    """Return the rows of the design's tables, as Spark and delta-rs read them; the campaign reads the queues."""
    folders, found = _Folders(base, design), dict[str, list[int]]()
    if folders.delta.exists():
        bodies = DeltaTable(folders.delta).to_pyarrow_table()["body"].to_pylist()
        found[f"{design} delta" if folders.table.exists() else design] = [int(body) for body in bodies]
    if folders.table.exists():
        rows = spark.read.parquet(str(folders.table))
        found[design] = [int(row.body) for row in rows.select("body").collect()]
        if "backout_count" in rows.columns:
            found["backed out"] = [int(row.body) for row in rows.where("backout_count > 0").select("body").collect()]
    return found


class _Queries:
    """The queries of all designs; a query that ends because the machine is overloaded starts again."""

    def __init__(self, at: _From, designs: Sequence[str], *, once: bool) -> None:
        self._at = at
        self._trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": "0 seconds"}
        self._running = {design: self._start(design) for design in designs}

    def run(self) -> None:
        """Wait until each query has taken everything; without an end if the queries must continue."""
        while self._running:
            threading.Event().wait(0.05)
            for design, query in list(self._running.items()):
                if query.isActive:
                    continue
                error = query.exception()
                if error is None:
                    del self._running[design]
                elif any(reason in str(error) for reason in OVERLOADED):
                    self._running[design] = self._start(design)
                else:
                    raise error

    def _start(self, design: str) -> StreamingQuery:
        """Start one query, and wait for its source: Spark gives a Python ten seconds, so queries start one by one."""
        self._at.spark.sparkContext.setLocalProperty(mortal_sources.DESIGN, design)  # its tasks read their design here
        writer = STREAMS[design](self._at).option("checkpointLocation", str(_Folders(self._at.base, design).checkpoint))
        query: StreamingQuery = writer.trigger(**self._trigger).start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            threading.Event().wait(0.02)
        return query


def main(where: str, url: str, how: str, *designs: str) -> None:
    base, once = Path(where), how == "once"
    landings = [
        _Landing(base, url, lander, once=once) for lander in ("lander", *(each for each in designs if each == "unmarked"))
    ]
    spark = spark_session(
        "victim",
        master="local[4,4]",  # two tasks of the sink can wait at their gate, and the others continue
        config=jvm.interpreted() | {"spark.local.dir": str(base / "local"), "spark.sql.streaming.metricsEnabled": "false"},
    )
    spark.sparkContext.setLogLevel("OFF")
    for source in mortal_sources.SOURCES:
        spark.dataSource.register(source)
    if once:
        for landing in landings:
            landing.join()
    queries = [design for design in designs if design in STREAMS]
    _Queries(_From(spark, base, url, "1000" if once else "60"), queries, once=once).run()
    found: dict[str, list[int]] = {}
    for design in queries:
        found |= _numbers(spark, base, design)
    (base / "result.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
