"""The messages that an incremental run of silver makes again: those with new records, and no others.

The rows of a message depend only on its own records. So a message without new records keeps its rows, and every other message
is made again from all its records, old and new: a late record repairs its message. The functions take frames and return frames;
the state of a run is the last segment of each lane. A property test compares the result with a full run.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mqflow.pipeline.tables.frames import null_safe_join
from mqflow.pipeline.tables.silver import KEY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ("LANE", "landed_until", "last_segments", "new_since", "rows_about", "rows_not_about")

LANE: Final = "lane:"
"""The prefix of a lane's last segment in the state of a folder of tables."""


def last_segments(landed: "DataFrame") -> dict[str, int]:
    """Return the last segment of each lane, in the form of the state."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is optional

    rows = landed.groupBy("lane").agg(f.max("segment").alias("last")).collect()
    return {f"{LANE}{row['lane']}": row["last"] for row in rows}


def new_since(landed: "DataFrame", state: Mapping[str, int]) -> "DataFrame":
    """Return the records that landed after that state."""
    return landed.where(~_had(state))


def landed_until(landed: "DataFrame", state: Mapping[str, int]) -> "DataFrame":
    """Return the records that had landed at that state."""
    return landed.where(_had(state))


def rows_about(landed: "DataFrame", new: "DataFrame") -> "DataFrame":
    """Return all records of the messages that have new records."""
    return null_safe_join(landed, new.select(*KEY).distinct(), KEY, "left_semi")


def rows_not_about(table: "DataFrame", new: "DataFrame") -> "DataFrame":
    """Return the rows of a silver table about messages without new records."""
    return null_safe_join(table, new.select(*KEY).distinct(), KEY, "left_anti")


def _had(state: Mapping[str, int]) -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    had = f.lit(False)
    for name, last in state.items():
        if name.startswith(LANE):
            had |= (f.col("lane") == name.removeprefix(LANE)) & (f.col("segment") <= last)
    return had
