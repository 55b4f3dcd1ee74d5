"""The real records of listener, consumer, DLQ handler, delay processor and redrive, through silver: each event counts once."""

from collections import Counter

import anyio
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from mqflow import App, Retry
from mqflow.app.config.settings import Settings
from mqflow.journal.rows import Position, columns
from mqflow.journal.schemas import Kind, arrow_schema
from mqflow.pipeline.tables import silver
from mqflow.policy.dead_letters.rules import Action
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE
from mqflow.runtime.dead_letters.redriver import Redriver
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.testing.virtual_time import run
from mqflow.world import World
from tests.queue_contents import taken

pytestmark = pytest.mark.usefixtures("interpreted")

DLQ = "DEAD.LETTERS"


def orders() -> App:
    """A listener that fails twice on each bad message; one rule puts a dead letter back, another discards one."""
    app = App(name="orders", settings=Settings(disposition_queue=DISPOSITION_QUEUE))
    seen: Counter[str] = Counter()
    rules = app.dead_letter_handler(queue=DLQ)

    @rules.rule(Action.DISCARD)
    def hopeless(letter: object) -> bool:
        return bytes(letter.data).endswith(b"worse")  # type: ignore[attr-defined]  # a dead letter

    @rules.rule(Action.RETRY)
    def again(_: object) -> bool:
        return True

    @app.listener("IN")
    def on_order(payload: str) -> None:
        seen[payload] += 1
        if payload == "later" and seen[payload] == 1:
            raise Retry("not yet", after=20)
        if payload in {"bad", "worse"} and seen[payload] <= 2:
            raise ValueError(payload)

    return app


def lived_through() -> QueueManagerKit:
    """A queue manager on which all these programs have acted."""
    kit = QueueManagerKit()
    for queue in (DLQ, "BOQ", DISPOSITION_QUEUE):
        kit.define(queue)
    kit.define("IN", bothresh=2)
    kit.define("POLLED", bothresh=1, boqname="BOQ")
    kit.mqsc(f"ALTER QMGR DEADQ('{DLQ}')")
    app = orders()

    async def work() -> None:
        async with kit.run(app):
            for body in ("good", "bad", "worse", "later"):
                await kit.put("IN", body, persistent=True)
            await app.put("IN", "delayed", delay=5)
            await kit.put("POLLED", b"poison")
            async with app.consumer("POLLED") as consumer:
                await consumer.receive()
                await consumer.backout()
                await kit.put("POLLED", b"fine")
                await consumer.receive()  # the other is moved on the way
                await consumer.commit()
                await anyio.sleep(1)  # otherwise virtual time stands still, and the order of events is unknown
                redrive(kit, "BOQ")
                await consumer.receive()
                await consumer.commit()
            await anyio.sleep(60)

    run(work, clock=kit.clock)
    return kit


def redrive(kit: QueueManagerKit, queue: str) -> None:
    recorder = ConnectionRecorder(DISPOSITION_QUEUE, consumer="redrive", world=World(kit.clock, SeededRandom(5)))
    [moved] = Redriver(
        connection=kit.queue_manager.connect(), queue=queue, wanted=lambda _: True, clock=kit.clock, pause=kit.clock.advance,
        records=recorder, redrive_id="R1",
    ).run()  # fmt: skip
    assert not moved.why_not


def landed(spark: SparkSession, kit: QueueManagerKit) -> DataFrame:
    unit = taken(kit.queue_manager, DISPOSITION_QUEUE)
    position = Position(lane="A", segment=1, landed_us=1, queue=DISPOSITION_QUEUE, queue_manager="QM1")
    made, schema = columns(Kind.DISPOSITION, unit, position), arrow_schema(Kind.DISPOSITION)
    return spark.createDataFrame(pa.table({name: made[name] for name in schema.names}, schema=schema))


def test_each_thing_that_any_of_them_did_counts_once(spark: SparkSession) -> None:
    told = silver.lives(landed(spark, lived_through())).cache()

    attempted = silver.attempts(told).cache()
    messages = silver.messages(told, attempted).collect()
    poison = silver.ends(told).where("final_outcome <> 'committed'").select("queue", "handler").collect()
    delays = silver.delays(told).select("queue", "error_ms").collect()
    redrives = silver.redrives(told).select("queue", "redrive_id", "outcome").collect()

    assert Counter({
        ("IN", "on_order", "committed", 1, 0): 2,  # good, delayed
        ("IN", "on_order", "committed", 2, 0): 1,  # later
        ("IN", "on_order", "committed", 3, 1): 1,  # bad: put back by a rule
        ("IN", "on_order", "dead_lettered", 2, 0): 1,  # worse
        (DLQ, None, "discarded", 0, 0): 1,
        ("POLLED", "consumer of POLLED", "committed", 1, 0): 1,  # fine
        ("POLLED", "consumer of POLLED", "committed", 2, 1): 1,  # poison: put back by a redrive
    }) == Counter(
        (row["queue"], row["handler"], row["final_outcome"], row["attempts"], row["redrives"]) for row in messages
    )  # fmt: skip
    seen = Counter(row["observed"] for row in attempted.select("observed").collect())
    assert {True: sum(row["attempts"] for row in messages)} == seen, "none that nobody saw"
    assert Counter({("IN", "on_order"): 2, ("POLLED", "consumer of POLLED"): 1}) == Counter(tuple(row) for row in poison)
    assert {("IN", f"{DLQ} again", "committed"), ("POLLED", "R1", "committed")} == {tuple(row) for row in redrives}
    assert ["IN", "IN"] == [row["queue"] for row in delays]
    assert all(0 <= row["error_ms"] <= 60 for row in delays)
