"""Measures how far each step of the pipeline is behind the step before: from the queues to gold. This file starts no Spark.

A table is behind by the rows of the segments that it does not have yet. It is also behind by the time since the first of these
segments landed. The name of a segment has its number of rows, so a measurement reads few files. A lane has the segments of one
queue. In each lane, a measurement reads the first segment that a table lacks, and the last segment that a table has.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from mqflow.journal import Journal, Kind, Segment, read_table
from mqflow.journal.journal import Lane
from mqflow.many_verbs import current_depth
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.pipeline import jobs
from mqflow.pipeline.delta.log import has_log
from mqflow.pipeline.extras import compute as pc
from mqflow.pipeline.tables.bronze import lasts, table_folder
from mqflow.pipeline.tables.changed_rows import LANE
from mqflow.policy.poison.disposition_record import put_time_us
from mqflow.verbs import Connection, GetOptions

__all__ = ("Level", "Times", "level_of", "queue_levels", "table_levels")

_Offsets: TypeAlias = Mapping[str, int]
"""By lane, the last segment that a table has."""


class Level(Struct, frozen=True, kw_only=True):
    """One step of the pipeline, compared with the step before it."""

    #: `queue NAME`, `journal LANE`, or a table: `bronze.dead_letter`, `silver`, `gold`.
    name: str
    #: The rows of the segments that are in the journal and, for a table, in the table too; or the messages on the queue.
    rows: int
    #: The rows that the table lacks, or the messages that are not in the journal yet; 0 for a lane.
    rows_behind: int
    #: Seconds since the oldest of the rows behind was put or landed; 0 without such rows, None if the time is unknown.
    seconds_behind: float | None
    #: The landing of the newest row, in microseconds since 1970; None if it is unknown.
    newest_landed_us: int | None = None
    #: The newest event of a disposition record, or the newest put of another message.
    newest_event_us: int | None = None


Times: TypeAlias = Callable[[Segment], tuple[int | None, int | None]]
"""Returns the landing of a segment and its newest event, in microseconds."""


def level_of(name: str, segments: Sequence[Segment], offsets: Mapping[str, int], times: Times, now_us: int) -> Level:
    """Return the level of a table that has the segments of each lane up to its offset.

    Pure, apart from `times`, which is called for the first missing and the last present segment of each lane. A segment without
    rows does not count: all its rows are erased.
    """
    filled = [each for each in segments if each.rows]
    missing = [each for each in filled if each.number > offsets.get(each.lane, 0)]
    present = [each for each in filled if each.number <= offsets.get(each.lane, 0)]
    first = {each.lane: each for each in sorted(missing, reverse=True)}
    last = {each.lane: each for each in sorted(present)}
    waiting_since = [landed for landed, _ in map(times, first.values()) if landed is not None]
    newest = [times(each) for each in last.values()]
    return Level(
        name=name,
        rows=sum(each.rows for each in present),
        rows_behind=sum(each.rows for each in missing),
        seconds_behind=_since_s(min(waiting_since, default=None), now_us) if missing else 0.0,
        newest_landed_us=max((landed for landed, _ in newest if landed is not None), default=None),
        newest_event_us=max((event for _, event in newest if event is not None), default=None),
    )


def table_levels(journal: Journal, tables: str | Path, now_us: int) -> list[Level]:
    """Return the levels of the journal's lanes and of each table, in the order of the pipeline.

    Raises the errors of the journal and of the tables.
    """
    lanes = journal.lanes()
    segments = {lane.name: lane.all_segments() for lane in lanes}
    times = _Times({lane.name: lane.kind for lane in lanes})
    made = [level_of(f"journal {each.name}", segments[each.name], {each.name: each.last}, times, now_us) for each in lanes]
    for table, kinds, offsets in _table_offsets(journal, tables):
        mine = [each for lane in lanes if lane.kind in kinds for each in segments[lane.name]]
        made.append(level_of(table, mine, offsets, times, now_us))
    return made


def queue_levels(connection: Connection, lanes: Sequence[Lane], now_us: int) -> list[Level]:
    """Return the level of each queue that the lanes land: its depth, and the age of its first message.

    Raises `MQIError` if a queue cannot be inquired. The age is unknown if the queue cannot be browsed.
    """
    made: list[Level] = []
    for name in dict.fromkeys(lane.queue for lane in lanes if lane.queue_manager == connection.queue_manager_name):
        depth = current_depth(connection, name)
        age_s = _since_s(_first_put_us(connection, name), now_us) if depth else 0.0
        made.append(Level(name=f"queue {name}", rows=depth, rows_behind=depth, seconds_behind=age_s))
    return made


def _since_s(then_us: int | None, now_us: int) -> float | None:
    return None if then_us is None else max(0.0, (now_us - then_us) / 1e6)


def _first_put_us(connection: Connection, queue: str) -> int | None:
    try:
        handle = connection.open(queue, OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING)
    except MQIError:
        return None
    try:
        cut = GetOption.BROWSE_FIRST | GetOption.ACCEPT_TRUNCATED_MSG | GetOption.PROPERTIES_FORCE_MQRFH2
        got = connection.get(handle, GetOptions(options=cut, buffer_bytes_max=0))
    finally:
        connection.close(handle)
    return None if got is None else put_time_us(got.descriptor.put_date, got.descriptor.put_time)


class _Times:
    """The times of segments. Several tables ask for the same segments, so each segment is read only once."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self._kinds = kinds
        self._known: dict[Segment, tuple[int | None, int | None]] = {}

    def __call__(self, segment: Segment) -> tuple[int | None, int | None]:
        if segment not in self._known:
            kind = self._kinds[segment.lane]
            event = "event_ts" if kind is Kind.DISPOSITION else "put_ts"
            table = read_table(segment, kind, ["landed_ts", event])
            self._known[segment] = (_newest_us(table["landed_ts"]), _newest_us(table[event]))
        return self._known[segment]


def _newest_us(column: object) -> int | None:
    found = pc.max(column).cast("int64").as_py()
    return None if found is None else int(found)


def _table_offsets(journal: Journal, tables: str | Path) -> Iterator[tuple[str, frozenset[Kind], _Offsets]]:
    """Yield each table, the kinds of lanes that it is made from, and its offsets; no offsets if the table does not exist.

    For silver and gold, only the lanes of disposition records count, because one run changes all their tables. Raises the
    errors of the tables, and an error for a table of another journal.
    """
    lanes = journal.lanes()
    kinds = sorted({lane.kind for lane in lanes})
    for kind in kinds:
        table = table_folder(tables, kind)
        mine = [lane for lane in lanes if lane.kind is kind]
        yield f"bronze.{kind}", frozenset({kind}), lasts(table, journal, mine) if has_log(table) else {}
    if Kind.DISPOSITION not in kinds:
        return
    for name in ("silver", "gold"):
        state = jobs.table_set(tables, name).current().state
        had = {key.removeprefix(LANE): last for key, last in state.items() if key.startswith(LANE)}
        yield name, frozenset({Kind.DISPOSITION}), had
