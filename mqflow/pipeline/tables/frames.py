"""Two operations on frames that Spark lacks: a join in which null is like null, and the first landing of each row.

Frames in, frames out. `mqflow land` lands each message exactly once, so a journal that it fills needs no `first_landings`.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

from mqflow.journal.schemas import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ("IDENTITY", "first_landings", "null_safe_join")

_MESSAGE: Final = ("msg_id", "correl_id", "put_ts", "backout_count", "body_sha256")
IDENTITY: Final[dict[Kind, tuple[str, ...]]] = {
    # A record says its own: connection, unit of work, and which of that unit. One that nobody understood says none.
    Kind.DISPOSITION: ("qmgr", "disp_id", "raw"),
    # A queue manager names an instance of a message by nothing that lasts. A message that was moved there again by a program
    # that keeps its MsgId, its put time and its data, within a hundredth of a second, would be taken for one.
    Kind.DEAD_LETTER: ("qmgr", "dlq", "snapshot_id", *_MESSAGE, "dlh_put_ts"),
    Kind.BACKOUT_MESSAGE: ("qmgr", "boq", "snapshot_id", *_MESSAGE),
    Kind.PAYLOAD: ("qmgr", "queue", *_MESSAGE),
}
"""What two rows of a kind have in common that are one record, or one message."""


def null_safe_join(left: "DataFrame", right: "DataFrame", names: Sequence[str], how: str = "inner") -> "DataFrame":
    """Return the left frame with the columns of the right one that it lacks, by these names; both may come of one frame."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is optional

    renamed = right.withColumnsRenamed({name: f"right_{name}" for name in names})
    alike = reduce(and_, (f.col(name).eqNullSafe(f.col(f"right_{name}")) for name in names))
    return left.join(renamed, alike, how).drop(*(f"right_{name}" for name in names))


def first_landings(landed: "DataFrame", kind: Kind) -> "DataFrame":
    """Return each record or message once: as it was landed first."""
    from pyspark.sql import Window  # noqa: PLC0415 - Spark is optional
    from pyspark.sql import functions as f  # noqa: PLC0415

    order = Window.partitionBy(*IDENTITY[kind]).orderBy("landed_ts", "lane", "segment", "ordinal")
    return landed.withColumn("landing", f.row_number().over(order)).where("landing = 1").drop("landing")
