"""Bronze: the rows of a journal in a Delta table, unchanged, each once. This file loads Spark when a run begins.

A lane of the journal has the segments of one queue. A run continues after the last segment of each lane, which the log of the
table has as transactions. Rows and transactions come with the same commit, so a kill at any moment loses and repeats nothing.
The table is partitioned by the day of landing and by lane.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec import Struct

from mqflow.folders import Folder, folder_at
from mqflow.journal import Consumers, Journal, Kind, Lane, Segment
from mqflow.pipeline.delta.commit import Added
from mqflow.pipeline.delta.log import delta_table, has_log, maxima_of
from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.extras import f
from mqflow.pipeline.payload import payload_of
from mqflow.pipeline.sources.hadoop_folder import HadoopFolder, journal_folder
from mqflow.pipeline.sources.offsets import Limit, admitted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

__all__ = (
    "BYTES_PER_BATCH",
    "ROWS_PER_BATCH",
    "Bronze",
    "WrittenTable",
    "bronze",
    "check_format",
    "kinds_of",
    "lacking_sentence",
    "lasts",
    "logged_segments",
    "table_folder",
)

ROWS_PER_BATCH: Final = 500_000
BYTES_PER_BATCH: Final = 1024 * 1024 * 1024
_APP: Final = "mqflow-bronze"
_PARTITION_BY: Final = "ingest_date,lane"

_Lasts: TypeAlias = "dict[str, int]"
"""The last segment of each lane; 0 for a lane without segments."""


class Bronze(Struct, frozen=True, kw_only=True):
    """The journal, the tables and the options of one run."""

    #: A path or a URI, as `journal_folder` reads it.
    journal: str | Path
    #: The folder of the tables, a path or a URI, which gets `bronze/<kind>`.
    tables: str | Path
    kind: Kind
    payload: str = "full"
    #: The consumer that keeps segments from a trim until they are in the table; empty for no consumer.
    consumer: str = "bronze"
    #: The most rows and bytes of segments in one commit, which has at least one segment.
    rows_per_batch: int = ROWS_PER_BATCH
    bytes_per_batch: int = BYTES_PER_BATCH
    #: The most commits of one run; None for no limit.
    batches_max: int | None = None


class WrittenTable(Struct, frozen=True):
    """The result of one run."""

    kind: Kind
    rows: int
    batches: int
    #: The URI of the table.
    table: str
    #: True if `batches_max` left segments of the journal for the next run.
    more: bool = False
    #: The last segment of each lane that the trim had deleted before this run made the table: the table lacks their rows.
    lacking: Mapping[str, int] = {}


def kinds_of(journal: str | Path) -> tuple[Kind, ...]:
    """Return the kinds of the journal's lanes. Raises the errors of `Journal.open`."""
    return tuple(sorted({lane.kind for lane in Journal.open(journal_folder(journal)).lanes()}))


def table_folder(tables: str | Path, kind: Kind) -> Folder:
    """Return the folder of the bronze table of a kind. Raises the errors of `folder_at`."""
    return folder_at(tables).folder("bronze").folder(kind.value)


def lacking_sentence(table: str, lacking: Mapping[str, int]) -> str:
    """Return a sentence about the trimmed segments that a new table lacks; empty if it lacks none."""
    trimmed = ", ".join(f"{lane} to segment {last}" for lane, last in sorted(lacking.items()))
    return f"The new table {table} lacks the rows of segments that were trimmed: {trimmed}." if lacking else ""


def check_format(table: Folder) -> None:
    """Raise `PipelineError` for a table that an older mqflow wrote as Parquet."""
    if not has_log(table) and (
        "_spark_metadata" in table.folders() or any(not each.name.startswith((".", "_")) for each in table.files())
    ):
        raise PipelineError(
            f"{table.uri} is a table of Parquet files, and bronze tables are Delta tables now. Nothing was changed. Make the "
            "tables again from the journal in another folder."
        )


def bronze(spark: "SparkSession", asked: Bronze, tell: Callable[[int], None] = lambda _: None) -> WrittenTable:
    """Write the rows that are in the journal at the start to the table, in at most `batches_max` commits.

    `tell` receives the number of rows so far. Raises the errors of the journal and of `folder_at`, and Spark's error with the
    message of `SinkError`. Raises `PipelineError` if the table and the journal do not belong together.
    """
    payload_of(asked.payload)
    table = table_folder(asked.tables, asked.kind)
    check_format(table)
    journal = Journal.open(journal_folder(asked.journal))
    lanes = [lane for lane in journal.lanes() if lane.kind is asked.kind]
    made = has_log(table)
    # A new table begins with the segments that are not trimmed.
    reached = lasts(table, journal, lanes) if made else {lane.name: lane.trimmed for lane in lanes}
    lacking = {} if made else {name: last for name, last in reached.items() if last}
    for lane in lanes:
        _check_end(table, lane, reached[lane.name])
    _acknowledge(journal, asked, reached)
    waiting = [each for lane in lanes for each in lane.segments(after=reached[lane.name])]
    limit = Limit(rows=asked.rows_per_batch, bytes=asked.bytes_per_batch)
    rows = batches = 0
    # Private, because the tables have message bodies, as the journal does.
    folder_at(asked.tables).make()
    while waiting and batches != asked.batches_max:
        through = admitted(reached, {lane.name: [each for each in waiting if each.lane == lane.name] for lane in lanes}, limit)
        taken = [each for each in waiting if each.number <= through[each.lane]]
        moves = _transactions(journal, reached if made else {}, through) | _new_identities(table, journal, lanes, taken)
        _write(spark, asked, table, taken, moves)
        _check_written(table, journal, lanes, through)
        _acknowledge(journal, asked, through)
        waiting = [each for each in waiting if each.number > through[each.lane]]
        rows, batches, reached = rows + sum(each.rows for each in taken), batches + 1, through
        made = True
        tell(rows)
    return WrittenTable(asked.kind, rows, batches, table.uri, more=bool(waiting), lacking=lacking)


def _write(
    spark: "SparkSession", asked: Bronze, table: Folder, taken: Sequence[Segment], transactions: Mapping[str, Added]
) -> None:
    """Add the rows of the segments to the table, in one commit with the transactions."""
    _rows(spark, asked, taken).withColumn("ingest_date", f.to_date("landed_ts")).write.format("mqflow_delta").options(
        partitionBy=_PARTITION_BY,
        # A newer mqflow can have more columns. Columns that only the table has stay null.
        mergeSchema="true",
        transactions=msgspec.json.encode(transactions).decode(),
        rows=str(sum(each.rows for each in taken)),
    ).mode("append").save(table.uri)


def _rows(spark: "SparkSession", asked: Bronze, taken: Sequence[Segment]) -> "DataFrame":
    from mqflow.pipeline.sources.journal_frame import journal_frame  # noqa: PLC0415 - as above

    return journal_frame(
        spark, Journal.open(journal_folder(asked.journal)), asked.kind, taken, payload=payload_of(asked.payload)
    )


def lasts(table: Folder, journal: Journal, lanes: Iterable[Lane]) -> _Lasts:
    """Return the last segment of each lane in the table.

    Raises `PipelineError` if the table is not of this journal, or has rows of an earlier lane of the same name.
    """
    found = delta_table(table)
    if found.transaction_version(_name(journal)) is None:
        raise PipelineError(
            f"The table {table.uri} is not a bronze table of the journal {journal.folder.uri} ({journal.id}): another journal, "
            "an older mqflow or another program filled it. Nothing was changed. Use the journal of the table, or make the "
            "tables from this journal in another folder."
        )
    lanes = list(lanes)
    for lane in lanes:
        if lane.is_another(found.transaction_version(_identity_name(journal, lane)) or 0):
            raise PipelineError(
                f"The table {table.uri} has rows of an earlier lane {lane.name}: the lane was removed and created again. Its "
                "segments have the same numbers and other rows. Nothing was changed. Make new tables in another folder."
            )
    return {lane.name: found.transaction_version(_name(journal, lane.name)) or 0 for lane in lanes}


def logged_segments(tables: "Mapping[Kind, DeltaTable]") -> dict[Kind, _Lasts] | None:
    """Return the last segment of each lane in these versions of tables; None if a log lacks the last segment of a file."""
    reached: dict[Kind, _Lasts] = {}
    for kind, table in tables.items():
        found = maxima_of(table, "segment", "lane")
        if found is None:
            return None
        reached[kind] = {str(lane): last for lane, last in found.items()}
    return reached


def _check_written(table: Folder, journal: Journal, lanes: Iterable[Lane], through: _Lasts) -> None:
    """Raise `PipelineError` if this program does not find the new segments in the table."""
    found = lasts(table, journal, lanes) if has_log(table) else {}
    if any(found.get(lane, 0) < last for lane, last in through.items()):
        raise PipelineError(
            f"Spark wrote the table {table.uri}, and this program finds segments up to {found} there instead of {through}: the "
            "Spark server has another disk. Use a folder that both share, or an object store (s3://bucket/prefix)."
        )


def _transactions(journal: Journal, before: _Lasts, through: _Lasts) -> dict[str, Added]:
    """Return the transactions of a commit: the journal, and the last segment of each lane. A new table has no earlier ones."""
    moved = {lane: last for lane, last in through.items() if last != before.get(lane, 0)}
    lanes = {_name(journal, lane): Added(before.get(lane) or None, last) for lane, last in moved.items()}
    return {_name(journal): Added(0 if before else None, 0), **lanes}


def _new_identities(table: Folder, journal: Journal, lanes: Iterable[Lane], taken: Sequence[Segment]) -> dict[str, Added]:
    """Return the transactions with the identities of the written lanes that the log of the table does not have yet."""
    found, written = delta_table(table) if has_log(table) else None, {each.lane for each in taken}
    names = {_identity_name(journal, lane): lane.file.identity for lane in lanes if lane.name in written}
    return {
        name: Added(None, identity)
        for name, identity in names.items()
        if identity and (found is None or found.transaction_version(name) is None)
    }


def _identity_name(journal: Journal, lane: Lane) -> str:
    return f"{_APP}-lane {journal.id} {lane.name}"


def _name(journal: Journal, lane: str | None = None) -> str:
    return f"{_APP} {journal.id}" if lane is None else f"{_APP} {journal.id} {lane}"


def _check_end(table: Folder, lane: Lane, reached: int) -> None:
    """Raise `PipelineError` if the table has later segments than the lane."""
    last = lane.last
    if last < reached:
        raise PipelineError(
            f"The table {table.uri} has segments of lane {lane.name} up to {reached}, and the last segment in the journal is "
            f"{last}. The journal lost segments, and new rows would be skipped as written. Nothing was changed. Restore the "
            "newest copy of the journal. If the lane was removed and created again, make new tables in another folder."
        )


def _acknowledge(journal: Journal, asked: Bronze, reached: _Lasts) -> None:
    """Record that a trim can delete the segments that are in the table. A record of later segments stays."""
    if not asked.consumer or isinstance(journal.folder, HadoopFolder):  # no trim reaches a Hadoop file system
        return
    consumers, name = Consumers(journal), f"{asked.consumer}-{asked.kind.value}"
    known = consumers.register(name).offsets
    further = {lane: max(number, known.get(lane, 0)) for lane, number in reached.items() if number}
    consumers.commit(name, further, kind=asked.kind)
