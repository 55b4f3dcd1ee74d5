"""Finds windows in which a handler has more poison messages than its history predicts, and the first such message.

The statistic: the share of poison in the handler's earlier windows (at most `HISTORY_WINDOWS`) predicts a number of poison
messages. The score is how far the actual number is above the predicted number, in standard deviations. The comparison uses the
roots of the counts, because their variance is the same for small and large counts. It treats the history as a sample, so a
short history proves little. A score above `SCORE_LEAST` with at least `POISONED_LEAST` messages is an alert. A lasting incident
becomes part of the history, so alerts come when it begins and while it grows. The functions take frames and return frames.
Source: F. J. Anscombe, Biometrika 35 (1948), for the roots.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mqflow.pipeline.extras import f, window
from mqflow.pipeline.schemas import TABLES, WINDOWS
from mqflow.pipeline.tables.frames import null_safe_join
from mqflow.pipeline.tables.gold import length_us, window_of
from mqflow.pipeline.tables.silver import POISON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ("HISTORY_LEAST", "HISTORY_WINDOWS", "POISONED_LEAST", "SCORE_LEAST", "poison_alert")

HISTORY_WINDOWS: Final = 24
HISTORY_LEAST: Final = 50
"""The least number of messages before a window that count as a history."""
POISONED_LEAST: Final = 5
SCORE_LEAST: Final = 4.0
"""By chance at most one window in thirty thousand has a higher score, in simulations with shares from 0.1 % to 20 %."""
_ROOT: Final = 0.375

_HANDLER: Final = ("qmgr", "queue", "handler")


def poison_alert(rates: "DataFrame", ended: "DataFrame", sizes: Sequence[str] = WINDOWS) -> "DataFrame":
    """Return `gold.poison_alert` from `gold.poison_rate` and `silver.ends`; windows of each size have their own history."""
    before = (
        window.Window.partitionBy(*_HANDLER, length_us()).orderBy(f.col("window")["start"]).rowsBetween(-HISTORY_WINDOWS, -1)
    )
    past = rates.where("exc_class is null").select(
        "window", *_HANDLER, "messages", "poisoned", "poison_rate",
        f.coalesce(f.sum("messages").over(before), f.lit(0)).alias("history_messages"),
        f.coalesce(f.sum("poisoned").over(before), f.lit(0)).alias("history_poisoned"),
    )  # fmt: skip
    rated = past.withColumn("expected_rate", f.col("history_poisoned") / f.nullif("history_messages", f.lit(0)))
    part = f.col("messages") / f.nullif("history_messages", f.lit(0))
    farther = f.sqrt(f.col("poisoned") + _ROOT) - f.sqrt((f.col("history_poisoned") + _ROOT) * part)
    score = 2 * farther / f.sqrt(1 + part)
    enough = f"history_messages >= {HISTORY_LEAST} and poisoned >= {POISONED_LEAST} and score > {SCORE_LEAST}"
    alarming = rated.withColumn("score", score).where(enough)
    poison = ended.where(f.col("final_outcome").isin(*POISON))
    order = f.struct("final_ts", "msg_id")
    began = (
        poison.withColumn("window", window_of("final_ts", sizes))
        .groupBy("window", *_HANDLER)
        .agg(
            f.min_by("msg_id", order).alias("first_msg_id"),
            f.min("final_ts").alias("first_ts"),
            f.min_by("last_exc_class", order).alias("exc_class"),
        )
    )
    return null_safe_join(alarming, began, ("window", *_HANDLER)).select(*TABLES["poison_alert"].columns)
