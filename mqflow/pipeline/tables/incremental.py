"""What of silver a run has to make anew: the messages that something new was landed about, and no other.

Attempts and messages hang on the records of their own message alone, so what is known of a message that nothing new was landed
about stays as it is, and every other one is made of all its records, old and new: a late record repairs what it belongs to.
Frames in, frames out; where a run went on from is numbers by lane. A property test holds it to making everything anew.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mqflow.pipeline.tables.frames import null_safe_join
from mqflow.pipeline.tables.silver import KEY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ("LANE", "landed_until", "last_segments", "new_since", "rows_about", "rows_not_about")

LANE: Final = "lane:"
"""How a lane's last segment is named in the state of a folder of tables."""


def last_segments(landed: "DataFrame") -> dict[str, int]:
    """Return the last segment of each lane, as a state says it."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is optional

    rows = landed.groupBy("lane").agg(f.max("segment").alias("last")).collect()
    return {f"{LANE}{row['lane']}": row["last"] for row in rows}


def new_since(landed: "DataFrame", state: Mapping[str, int]) -> "DataFrame":
    """Return what was landed after that state."""
    return landed.where(~_had(state))


def landed_until(landed: "DataFrame", state: Mapping[str, int]) -> "DataFrame":
    """Return what had been landed at that state."""
    return landed.where(_had(state))


def rows_about(landed: "DataFrame", new: "DataFrame") -> "DataFrame":
    """Return all records of the messages that the new ones are about."""
    return null_safe_join(landed, new.select(*KEY).distinct(), KEY, "left_semi")


def rows_not_about(table: "DataFrame", new: "DataFrame") -> "DataFrame":
    """Return the rows of a silver table that are about none of those messages."""
    return null_safe_join(table, new.select(*KEY).distinct(), KEY, "left_anti")


def _had(state: Mapping[str, int]) -> "Column":
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    had = f.lit(False)
    for name, last in state.items():
        if name.startswith(LANE):
            had |= (f.col("lane") == name.removeprefix(LANE)) & (f.col("segment") <= last)
    return had
