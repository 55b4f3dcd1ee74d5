"""Says when a handler makes more poison than its own history lets expect, and which message began it.

The statistic, in words: take the share of poison in the handler's windows before this one (at most `HISTORY_WINDOWS`), and
ask how far this window's number of poison messages is from what that share lets expect, in standard deviations. Counts are
compared by their roots, which scatter alike whether a count is small or large, and the history counts as the sample it is:
a short one proves little. Farther than `SCORE_LEAST`, and at least `POISONED_LEAST` of them, is an alert. An incident that
lasts becomes history: it is reported when it begins, and while it grows. Frames in, frames out.
Source: F. J. Anscombe, Biometrika 35 (1948), for the roots.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mqflow.pipeline.schemas import TABLES, WINDOWS
from mqflow.pipeline.tables.frames import null_safe_join
from mqflow.pipeline.tables.gold import length_us, window_of
from mqflow.pipeline.tables.silver import POISON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ("HISTORY_LEAST", "HISTORY_WINDOWS", "POISONED_LEAST", "SCORE_LEAST", "poison_alert")

HISTORY_WINDOWS: Final = 24
HISTORY_LEAST: Final = 50
"""With fewer messages before this window there is no history to leave."""
POISONED_LEAST: Final = 5
SCORE_LEAST: Final = 4.0
"""By chance alone at most one window in thirty thousand gets so far: simulated, for shares from 0.1 % to 20 %."""
_ROOT: Final = 0.375

_HANDLER: Final = ("qmgr", "queue", "handler")


def poison_alert(rates: "DataFrame", ended: "DataFrame", sizes: Sequence[str] = WINDOWS) -> "DataFrame":
    """Return `gold.poison_alert` of `gold.poison_rate` and `silver.ends`; windows of each size have their own history."""
    from pyspark.sql import Window  # noqa: PLC0415 - Spark is optional
    from pyspark.sql import functions as f  # noqa: PLC0415

    before = Window.partitionBy(*_HANDLER, length_us()).orderBy(f.col("window")["start"]).rowsBetween(-HISTORY_WINDOWS, -1)
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
