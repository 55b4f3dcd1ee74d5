"""Plans a redrive: how many rows a condition chooses, the queues that they go to, and why some rows cannot be put back.

This file knows the columns of `bronze.dead_letter` and `bronze.backout_message`. It knows no queue manager, so the plan does
not contain refusals by a queue.
"""

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from mqflow.journal.schemas import Kind, columns_of
from mqflow.pipeline.errors import ConditionError, PipelineError
from mqflow.pipeline.extras import f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ("NOT_WHOLE", "NO_ORIGIN", "Planned", "chosen", "planned")

NOT_WHOLE: Final = "the table does not hold all of its data"
NO_ORIGIN: Final = "it does not say where it came from"


class Planned(Struct, frozen=True, kw_only=True):
    """The rows with the same target queue, or with the same reason why they cannot be put back."""

    #: The queue, and the queue manager if the queue is remote; empty if the rows do not name them.
    queue: str
    queue_manager: str
    messages: int
    #: The reason why the rows cannot be put back; empty if they can.
    why_not: str


def chosen(letters: "DataFrame", condition: str) -> "DataFrame":
    """Return the rows for which the SQL condition holds.

    Raises `ConditionError` with Spark's message if the text is not a condition on these columns.
    """
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415 - Spark is optional

    try:
        rows = letters.where(condition)
        _ = rows.schema  # Spark Connect checks nothing before a result is requested
    except (AnalysisException, ParseException) as error:
        raise ConditionError(condition, str(error), letters.columns) from error
    return rows


def planned(rows: "DataFrame", kind: Kind, to: str = "") -> tuple[Planned, ...]:
    """Count the rows by target, the largest count first. The target is the queue `to`, or the origin of each row.

    Raises `PipelineError` for a kind without moved messages.
    """
    queue, manager = _origin(kind)
    if to:
        queue, manager = f.lit(to), f.lit("")
    whole = f.col("mqmd").isNotNull() & f.col("body").isNotNull() & ~f.col("body_truncated")
    why_not = f.when(~whole, NOT_WHOLE).when(f.coalesce(queue, f.lit("")) == "", NO_ORIGIN).otherwise("")
    counted = (
        rows.groupBy(
            f.coalesce(queue, f.lit("")).alias("queue"),
            f.coalesce(manager, f.lit("")).alias("queue_manager"),
            f.coalesce(why_not, f.lit(NOT_WHOLE)).alias("why_not"),
        )
        .agg(f.count(f.lit(1)).alias("messages"))
        .collect()
    )
    found = (Planned(**row.asDict()) for row in counted)
    return tuple(sorted(found, key=lambda one: (bool(one.why_not), -one.messages, one.queue)))


def _origin(kind: Kind) -> "tuple[Column, Column]":
    match kind:
        case Kind.DEAD_LETTER:
            return f.col("dlh_dest_q"), f.col("dlh_dest_qm")
        case Kind.BACKOUT_MESSAGE:
            return f.col("source_queue"), f.lit("")
        case Kind.DISPOSITION | Kind.PAYLOAD:
            has = ", ".join(column.name for column in columns_of(kind))
            raise PipelineError(f"Rows of {kind} have no origin, so they cannot be redriven. Their columns: {has}.")
