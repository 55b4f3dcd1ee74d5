"""Finds the rows that an incremental run makes again: the rows about messages with new records, and no other rows.

The rows of a message depend only on its own records. So a message without new records keeps its rows, and every other message
is made again from all its records, old and new. A late record repairs its message. The put time is part of a message's key, so
all records of the message have the same day of put. The functions take frames and return frames; the state of a run is the last
segment of each lane. A lane of the journal has the segments of one queue. A property test compares the result with a full run.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Final

from mqflow.pipeline.extras import f
from mqflow.pipeline.schemas import DAY_US
from mqflow.pipeline.tables.frames import null_safe_join
from mqflow.pipeline.tables.silver import KEY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = (
    "LANE",
    "advanced",
    "alike",
    "days_of",
    "landed_until",
    "lanes_of",
    "last_segments",
    "new_since",
    "on_days",
    "rows_about",
)

LANE: Final = "lane:"
"""The prefix of a lane's last segment in the state of a folder of tables."""
_DAY: Final = timedelta(days=1)
_EPOCH: Final = date(1970, 1, 1)


def last_segments(landed: "Sequence[DataFrame]") -> dict[str, int]:
    """Return the last segment of each lane in these frames."""
    if not landed:
        return {}
    every = reduce(lambda one, other: one.unionAll(other), (frame.select("lane", "segment") for frame in landed))
    rows = every.groupBy("lane").agg(f.max("segment").alias("last")).collect()
    return {row["lane"]: row["last"] for row in rows}


def lanes_of(state: Mapping[str, int]) -> dict[str, int]:
    """Return the part of a state with the lanes."""
    return {name: last for name, last in state.items() if name.startswith(LANE)}


def advanced(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the lanes with new segments, each with the last segment before the new ones; -1 for a new lane."""
    return {name: before.get(name, -1) for name, last in lanes_of(after).items() if last > before.get(name, -1)}


def new_since(landed: "DataFrame", before: Mapping[str, int], after: Mapping[str, int]) -> "DataFrame":
    """Return the records that landed after the state `before`, up to the state `after`."""
    new, had = f.lit(False), advanced(before, after)
    for name, last in had.items():
        new |= (f.col("lane") == name.removeprefix(LANE)) & f.col("segment").between(last + 1, after[name])
    # The lane is not in the files of a partitioned table, so only this condition lets a scan skip rows.
    return landed.where(f.col("segment") > min(had.values(), default=-1)).where(new)


def landed_until(landed: "DataFrame", state: Mapping[str, int]) -> "DataFrame":
    """Return the records that had landed at that state."""
    return new_since(landed, {}, state)


def rows_about(landed: "DataFrame", new: "DataFrame", names: Sequence[str] = KEY) -> "DataFrame":
    """Return all records of these messages. `names` has `put_ts`; the scan reads only the days of these messages."""
    return null_safe_join(on_days(landed, "put_ts", days_of(new, "put_ts")), new.select(*names), names, "left_semi")


def alike(landed: "DataFrame", changed: "DataFrame", names: Sequence[str]) -> "DataFrame":
    """Return the changed rows, and all rows with the same data; `names` has `body_sha256`, which is null for unknown data."""
    digests = changed.where("body_sha256 is not null").select(*names).distinct()
    same = null_safe_join(landed.where("body_sha256 is not null"), digests, names, "left_semi")
    return same.unionByName(changed.where("body_sha256 is null"))


def days_of(frame: "DataFrame", column: str) -> set[date | None]:
    """Return the days (UTC) of these times."""
    # Whole days only: a quotient with the last microsecond of a day would be rounded up to the next day.
    micros = f.unix_micros(column)
    day = f.date_from_unix_date(((micros - f.pmod(micros, f.lit(DAY_US))) / DAY_US).cast("int"))
    return {row["day"] for row in frame.select(day.alias("day")).distinct().collect()}


def on_days(frame: "DataFrame", column: str, days: Collection[date | None]) -> "DataFrame":
    """Return the rows with times on these days (UTC): a condition by which a scan of Parquet files skips rows."""
    found = f.col(column).isNull() if None in days else f.lit(False)
    for first, last in _ranges(sorted(day for day in days if day is not None)):
        found |= (f.col(column) >= _start(first)) & (f.col(column) < _start(last, 1))
    return frame.where(found)


def _ranges(days: Sequence[date]) -> list[tuple[date, date]]:
    found: list[tuple[date, date]] = []
    for day in days:
        if found and found[-1][1] + _DAY == day:
            found[-1] = (found[-1][0], day)
        else:
            found.append((day, day))
    return found


def _start(day: date, later_days: int = 0) -> "Column":
    """Return the start of the day that is `later_days` after this day; it can be after the last day of Python's calendar."""
    return f.timestamp_micros(f.lit(((day - _EPOCH).days + later_days) * DAY_US))
