"""Says beforehand what a redrive would put where, in counts: which rows a condition chooses, and why some cannot go.

Knows the columns of `bronze.dead_letter` and `bronze.backout_message`; knows no queue manager, so no queue that refuses.
"""

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from mqflow.journal.schemas import Kind, columns_of
from mqflow.pipeline.errors import ConditionError, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ("KINDS", "NOT_WHOLE", "NO_ORIGIN", "Planned", "chosen", "planned")

KINDS: Final = (Kind.DEAD_LETTER, Kind.BACKOUT_MESSAGE)
"""The tables whose rows were messages that somebody moved, and know from where."""
NOT_WHOLE: Final = "the table does not hold all of its data"
NO_ORIGIN: Final = "it does not say where it came from"


class Planned(Struct, frozen=True, kw_only=True):
    """Rows that go the same way."""

    #: The queue, and of a remote one its queue manager; empty where a row does not say.
    queue: str
    queue_manager: str
    messages: int
    #: Why they cannot go; empty where they can.
    why_not: str


def chosen(letters: "DataFrame", condition: str) -> "DataFrame":
    """Return the rows that the condition, as SQL writes it, holds for.

    Raises `ConditionError` with what Spark says of it where it is none on these columns.
    """
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415 - Spark is optional

    try:
        rows = letters.where(condition)
        _ = rows.schema  # over Spark Connect nothing is looked at before it is asked for
    except (AnalysisException, ParseException) as error:
        raise ConditionError(condition, str(error), letters.columns) from error
    return rows


def planned(rows: "DataFrame", kind: Kind, to: str = "") -> tuple[Planned, ...]:
    """Return where the rows would go, most first: to the queue `to`, or to where each came from.

    Raises `PipelineError` for a kind of messages that nobody moved.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

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
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    match kind:
        case Kind.DEAD_LETTER:
            return f.col("dlh_dest_q"), f.col("dlh_dest_qm")
        case Kind.BACKOUT_MESSAGE:
            return f.col("source_queue"), f.lit("")
        case Kind.DISPOSITION | Kind.PAYLOAD:
            has = ", ".join(column.name for column in columns_of(kind))
            raise PipelineError(f"Rows of {kind} were not moved from anywhere, and cannot be redriven; they have {has}.")
