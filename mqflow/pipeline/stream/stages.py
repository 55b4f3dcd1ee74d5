"""The stages of a stream in one Spark session: one job for each stage, and limits for each round of bronze.

This file knows the jobs; it knows no order of stages and no clock. It loads Spark when a stage runs.
"""

from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct

from mqflow.folders import Folder, folder_at
from mqflow.pipeline import jobs
from mqflow.pipeline.extras import f
from mqflow.pipeline.stream import alert_sink
from mqflow.pipeline.stream.alert_sink import Alert, Sender
from mqflow.pipeline.tables.bronze import BYTES_PER_BATCH, ROWS_PER_BATCH, lacking_sentence
from mqflow.policy.stream.rounds import Stage, Taken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ("Job", "begin_alerts", "poison_alerts", "run_stage")


class Job(Struct, frozen=True, kw_only=True):
    """The journal that a stream reads, the tables that it keeps up to date, and the senders of its alerts."""

    #: A path or a URI, as `folder_at` reads it.
    journal: str | Path
    tables: str | Path
    #: The text of a rules table to try on dead letters; None for no trial.
    rules: str | None = None
    #: The part of the bodies that bronze keeps.
    payload: str = "full"
    #: The consumer that keeps segments from a trim until they are in bronze.
    consumer: str = "bronze"
    #: The most that a round takes from the journal, of each kind: whole segments, at least one.
    rows_max: int = ROWS_PER_BATCH
    bytes_max: int = BYTES_PER_BATCH
    senders: tuple[Sender, ...] = ()

    @property
    def alerts(self) -> Folder:
        """The folder that records the alerts that were sent."""
        return folder_at(self.tables).folder("alerts")


def begin_alerts(spark: "SparkSession", job: Job) -> None:
    """Start the record of each sender before the first round: alerts that are older than the record are not sent."""
    for sender in job.senders:
        alert_sink.begin(job.alerts, sender, poison_alerts(spark, job.tables))


def run_stage(spark: "SparkSession", job: Job, stage: Stage) -> Taken:
    """Run one stage. Raises the errors of its job; a stage that failed or was killed can run again."""
    match stage:
        case Stage.BRONZE:
            return _bronze(spark, job)
        case Stage.SILVER:
            jobs.silver(spark, job.tables, job.rules)
        case Stage.GOLD:
            jobs.gold(spark, job.tables)
        case Stage.ALERTS:
            return _alerts(spark, job)
        case _:
            assert_never(stage)
    return Taken()


def _alerts(spark: "SparkSession", job: Job) -> Taken:
    """Send the new alerts. If a receiver refuses an alert, the next round sends the alert again; the tables do not wait."""
    found = poison_alerts(spark, job.tables) if job.senders else ()
    sent, refused = 0, ""
    for sender in job.senders:
        try:
            sent += alert_sink.send(job.alerts, sender, found)
        except alert_sink.AlertError as error:
            refused = str(error)
    return Taken(sent, more=bool(refused), said=refused)


def poison_alerts(spark: "SparkSession", tables: str | Path) -> tuple[Alert, ...]:
    """Return the rows of `gold.poison_alert`."""
    found = jobs.table_set(tables, "gold").read(spark, "poison_alert")
    ends = {f"window_{end}_us": f.unix_micros(f.col("window")[end]) for end in ("start", "end")}
    rows = found.withColumns(ends | {"first_msg_id": f.lower(f.hex("first_msg_id"))}).select(*Alert.__struct_fields__)
    return tuple(Alert(**row.asDict()) for row in rows.collect())


def _bronze(spark: "SparkSession", job: Job) -> Taken:
    written = jobs.bronze(
        spark,
        job.journal,
        job.tables,
        payload=job.payload,
        consumer=job.consumer,
        rows_per_batch=job.rows_max,
        bytes_per_batch=job.bytes_max,
        batches_max=1,
    )
    lacking = " ".join(lacking_sentence(each.table, each.lacking) for each in written if each.lacking)
    return Taken(sum(each.rows for each in written), more=any(each.more for each in written), said=lacking)
