"""Joins frames by columns that may be null, null being like null: a message without a put time is one message too."""

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ("joined",)


def joined(left: "DataFrame", right: "DataFrame", names: Sequence[str], how: str = "inner") -> "DataFrame":
    """Return the left frame with the columns of the right one that it lacks, by these names; both may come of one frame."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is optional

    renamed = right.withColumnsRenamed({name: f"right_{name}" for name in names})
    alike = reduce(and_, (f.col(name).eqNullSafe(f.col(f"right_{name}")) for name in names))
    return left.join(renamed, alike, how).drop(*(f"right_{name}" for name in names))
