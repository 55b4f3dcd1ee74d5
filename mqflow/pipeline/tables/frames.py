"""Two operations on frames that Spark lacks: a join in which null equals null, and the first landing of each row.

The functions take frames and return frames. `mqflow land` lands each message exactly once, so a journal that it fills needs no
`first_landings`.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

from mqflow.journal.schemas import Kind
from mqflow.pipeline.extras import f, window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ("IDENTITY", "first_landings", "null_safe_join")

_MESSAGE: Final = ("msg_id", "correl_id", "put_ts", "backout_count", "body_sha256")
IDENTITY: Final[dict[Kind, tuple[str, ...]]] = {
    # A record has its own identifier: connection, unit of work, and number in that unit. An unreadable record has none.
    Kind.DISPOSITION: ("qmgr", "disp_id", "raw"),
    # A queue manager has no lasting identifier for an instance of a message. A program can move a message to the same queue
    # again within a hundredth of a second. If MsgId, put time and data are the same, both moves count as one message.
    Kind.DEAD_LETTER: ("qmgr", "dlq", "snapshot_id", *_MESSAGE, "dlh_put_ts"),
    Kind.BACKOUT_MESSAGE: ("qmgr", "boq", "snapshot_id", *_MESSAGE),
    Kind.PAYLOAD: ("qmgr", "queue", *_MESSAGE),
}
"""The columns in which two rows of the same record or message are equal, by kind."""


def null_safe_join(left: "DataFrame", right: "DataFrame", names: Sequence[str], how: str = "inner") -> "DataFrame":
    """Join two frames by these columns, with null equal to null. Both can come from one frame."""
    renamed = right.withColumnsRenamed({name: f"right_{name}" for name in names})
    alike = reduce(and_, (f.col(name).eqNullSafe(f.col(f"right_{name}")) for name in names))
    return left.join(renamed, alike, how).drop(*(f"right_{name}" for name in names))


def first_landings(landed: "DataFrame", kind: Kind) -> "DataFrame":
    """Return the first landing of each record or message."""
    order = window.Window.partitionBy(*IDENTITY[kind]).orderBy("landed_ts", "lane", "segment", "ordinal")
    return landed.withColumn("landing", f.row_number().over(order)).where("landing = 1").drop("landing")
