"""Erases the messages of one person from a journal and its tables, with a receipt. This file needs no Spark session.

The rows that a key finds are erased last. So after a kill at any moment, a repeated call still finds all messages of the person
by these rows. Afterwards no file has the rows: older versions, runs and entries of logs are deleted. No lander, stream or other
writer may run meanwhile.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mqflow.folders import Folder, folder_at
from mqflow.journal import Journal, Lane, read_table
from mqflow.journal.erasure import erase_rows, finish_rewrites
from mqflow.journal.personal_data import Key, Message, matches, messages_of, within
from mqflow.journal.segment_chain import Rewrite
from mqflow.pipeline.delta.log import LOG, delta_table
from mqflow.pipeline.delta.upkeep import remove_old_files, write_checkpoint
from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.extras import compute as pc
from mqflow.pipeline.extras import pa
from mqflow.pipeline.tables import delta_writes
from mqflow.pipeline.tables.table_set import TableSet
from mqflow.pipeline.tables.upkeep import SETS, bronze_tables
from mqflow.world import SYSTEM_CLOCK

__all__ = ("Erasure", "Receipt", "erase", "find")

NOT_COVERED: Final = (
    "messages on queues, also those that the lander takes later",
    "copies and backups of the journal and of the tables, earlier versions in an object store that keeps versions",
    "checkpoints and temporary files of Spark, logs, reports, alerts that were sent",
    "counts in gold, which name no message; dlq_reason can name an application",
    "text in encodings other than UTF-8, and data that the journal or a table cut off or never had",
)
_POSITION: Final = ("lane", "segment", "ordinal")
_MESSAGE: Final = ("msg_id", "put_ts")


class Erasure(Struct, frozen=True, kw_only=True):
    """The keys that identify a person, and the journal and the tables that lose the messages of this person.

    A message belongs to the person if one of the keys is true for one of the rows of the message.
    """

    journal: str | Path
    tables: str | Path
    keys: tuple[Key, ...]


class TableErased(Struct, frozen=True, kw_only=True):
    """The version and the number of rows of a table, before the erasure and after it.

    `version` and `rows` are -1 until the end of the erasure.
    """

    table: str
    version_before: int
    rows_before: int
    version: int = -1
    rows: int = -1


class LaneErased(Struct, frozen=True, kw_only=True):
    """A lane, and the receipts of its rewritten segments."""

    lane: str
    #: How many receipts `lane.json` had before.
    receipts_before: int
    segments: tuple[Rewrite, ...] = ()


class Receipt(Struct, frozen=True, kw_only=True):
    """The proof of an erasure. It has the digest of each key instead of the key."""

    format: str = "mqflow-erasure"
    #: The SHA-256 of each key, as COLUMN=VALUE.
    keys_sha256: tuple[str, ...]
    begun_s: float
    #: None until everything is erased.
    ended_s: float | None = None
    journal: str
    lanes: tuple[LaneErased, ...]
    tables: tuple[TableErased, ...]
    not_covered: tuple[str, ...] = NOT_COVERED


def find(asked: Erasure) -> dict[str, int]:
    """Return the number of rows that `erase` deletes now, by lane and table. Changes nothing. Raises the errors of `erase`."""
    journal = _journal(asked)
    messages = _messages(asked, journal)
    found = {lane.name: sum(_count(rows, asked, messages) for rows in _lane_rows(lane)) for lane in journal.lanes()}
    for name, table in _tables(asked):
        found[name] = sum(_count(rows, asked, messages) for rows in _table_rows(table))
    return found


def erase(asked: Erasure, receipt: tuple[Folder, str], *, wall: Callable[[], float] = SYSTEM_CLOCK.wall) -> Receipt:
    """Erase the messages, and return the receipt, which is also in the file `receipt`.

    If the file says that this erasure has ended already, the function returns the receipt in the file, and erases nothing.
    Raises `PipelineError` if a lane has pending segments, if another process writes a table, and if the file has another
    receipt. Raises the errors of the journal and of the tables.
    """
    journal = _journal(asked)
    for lane in journal.lanes():
        finish_rewrites(lane)
    again = receipt[0].exists(receipt[1])
    said = _begun(asked, journal, receipt, wall)
    if said.ended_s is not None:
        return said
    if again or any(find(asked).values()):
        _erase(asked, journal, wall)
    ended = _ended(said, asked, journal, wall)
    receipt[0].replace(receipt[1], _encoded(ended))
    return ended


def _erase(asked: Erasure, journal: Journal, wall: Callable[[], float]) -> None:
    messages = _messages(asked, journal)
    for name in SETS:
        _erase_set(TableSet(folder_at(asked.tables).folder(name).uri, wall=wall), asked, messages)
    # Erase the rows that match a key last: after a kill, a repeated call finds the other rows by these rows.
    for erased in (partial(_only_related, asked=asked, messages=messages), partial(matches, keys=asked.keys)):
        for _, table in bronze_tables(asked.tables):
            _erase_bronze(table, erased)
        for lane in journal.lanes():
            for _ in erase_rows(lane, erased):
                pass
    for _, table in bronze_tables(asked.tables):
        _purge(table)


def _journal(asked: Erasure) -> Journal:
    journal = Journal.open(asked.journal)
    for lane in journal.lanes():
        if pending := lane.pending():
            raise PipelineError(
                f"Lane {lane.name} of {journal.folder.uri} has segments that are not published: {', '.join(pending)}. Nothing "
                "was erased. Run `mqflow land` for the lane until it ends, and then run this again."
            )
    return journal


def _begun(asked: Erasure, journal: Journal, receipt: tuple[Folder, str], wall: Callable[[], float]) -> Receipt:
    """Return the receipt of an interrupted call, or a new one, which is then in the file."""
    folder, name = receipt
    digests = tuple(sorted(key.digest for key in asked.keys))
    if folder.exists(name):
        try:
            found = msgspec.json.decode(folder.read(name), type=Receipt)
        except (msgspec.DecodeError, UnicodeDecodeError):
            found = None
        if found is None or (found.keys_sha256, found.journal) != (digests, journal.id):
            raise PipelineError(
                f"{folder.uri_of(name)} is not a receipt of this erasure. Nothing was erased. Name another file."
            )
        return found
    said = Receipt(
        keys_sha256=digests,
        begun_s=wall(),
        journal=journal.id,
        lanes=tuple(LaneErased(lane=lane.name, receipts_before=len(lane.file.rewrites)) for lane in journal.lanes()),
        tables=tuple(
            TableErased(table=name, version_before=delta_table(table).version(), rows_before=_rows_of(table))
            for name, table in _tables(asked)
        ),
    )
    folder.make()
    folder.create(name, _encoded(said))
    return said


def _ended(said: Receipt, asked: Erasure, journal: Journal, wall: Callable[[], float]) -> Receipt:
    lanes = {lane.name: lane.file.rewrites for lane in journal.lanes()}
    tables = dict(_tables(asked))
    return replace(
        said,
        ended_s=wall(),
        lanes=tuple(replace(each, segments=lanes[each.lane][each.receipts_before :]) for each in said.lanes),
        tables=tuple(
            replace(each, version=delta_table(tables[each.table]).version(), rows=_rows_of(tables[each.table]))
            for each in said.tables
        ),
    )


def _erase_set(tables: TableSet, asked: Erasure, messages: AbstractSet[Message]) -> None:
    if not tables.current().run:
        return
    with tables.next() as run:
        run.state |= run.before.state
        for name in run.tables:
            folder = tables.folder.folder(name)
            related = set(messages)
            for rows in _table_rows(folder):
                related |= messages_of(rows.filter(matches(rows, asked.keys))) if "msg_id" in rows.column_names else set()
            if related:
                run.erase(name, _keys_of(related))
    tables.forget_runs(float("inf"))
    for name in run.tables:
        _purge(tables.folder.folder(name))


def _erase_bronze(table: Folder, erased: "Callable[[pa.Table], pa.Array]") -> None:
    before = delta_writes.head(table)
    parts = [part for rows in _table_rows(table) if (part := rows.filter(erased(rows)).select(_POSITION)).num_rows]
    if before is None or not parts:
        return
    busy = PipelineError(f"Another process writes {table.uri}. End it, and run the same command again: it goes on.")
    with delta_writes.conflicts_as(busy):
        after, _ = delta_writes.erase(table, pa.concat_tables(parts), before)
    delta_writes.sync(table, after.version, before.version)


def _purge(table: Folder) -> None:
    """Delete all files and log entries that the last version does not need: statistics in the log have values of rows."""
    remove_old_files(table, timedelta())
    write_checkpoint(table)
    last = delta_table(table).version()
    log = table.folder(LOG)
    for entry in log.files():
        number = entry.name.partition(".")[0]
        if number.isdigit() and int(number) < last:
            log.remove(entry.name)


def _messages(asked: Erasure, journal: Journal) -> set[Message]:
    """Return the messages that have a row that matches a key, in the journal or in bronze."""
    found: set[Message] = set()
    for lane in journal.lanes():
        for rows in _lane_rows(lane):
            found |= messages_of(rows.filter(matches(rows, asked.keys)))
    for _, table in bronze_tables(asked.tables):
        for rows in _table_rows(table):
            found |= messages_of(rows.filter(matches(rows, asked.keys)))
    return found


def _only_related(rows: "pa.Table", asked: Erasure, messages: AbstractSet[Message]) -> "pa.Array":
    return pc.and_not(within(rows, messages), matches(rows, asked.keys))


def _count(rows: "pa.Table", asked: Erasure, messages: AbstractSet[Message]) -> int:
    if not {*_MESSAGE} <= {*rows.column_names}:
        return 0
    return int(pc.sum(pc.or_(within(rows, messages), matches(rows, asked.keys))).as_py() or 0)


def _keys_of(messages: AbstractSet[Message]) -> "pa.Table":
    ids, times = zip(*messages, strict=True)
    return pa.table({"msg_id": pa.array(ids, pa.binary()), "put_ts": pa.array(times, pa.timestamp("us", tz="UTC"))})


def _lane_rows(lane: Lane) -> "Iterator[pa.Table]":
    for segment in lane.all_segments():
        yield read_table(segment, lane.kind)


def _table_rows(table: Folder) -> "Iterator[pa.Table]":
    for batch in delta_table(table).to_pyarrow_dataset().to_batches():
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


def _rows_of(table: Folder) -> int:
    return int(delta_table(table).to_pyarrow_dataset().count_rows())


def _tables(asked: Erasure) -> Iterator[tuple[str, Folder]]:
    yield from bronze_tables(asked.tables)
    for name in SETS:
        tables = TableSet(folder_at(asked.tables).folder(name).uri)
        for each in tables.current().tables:
            yield f"{name}/{each}", tables.folder.folder(each)


def _encoded(receipt: Receipt) -> bytes:
    return msgspec.json.format(msgspec.json.encode(receipt)) + b"\n"
