"""Finds windows in which a handler has more poison messages than its history predicts, and the first such message.

The statistic: the share of poison in the handler's earlier windows (at most `HISTORY_WINDOWS`) predicts a number of poison
messages. The score is how far the actual number is above the predicted number, in standard deviations. The comparison uses the
roots of the counts, because their variance is the same for small and large counts. It treats the history as a sample, so a
short history proves little. A score above `SCORE_LEAST` with at least `POISONED_LEAST` messages is an alert. A lasting incident
becomes part of the history, so alerts come when it begins and while it grows.
Source: F. J. Anscombe, Biometrika 35 (1948), for the roots.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Final

from mqflow.pipeline.extras import compute as pc
from mqflow.pipeline.extras import f, pa
from mqflow.pipeline.schemas import TABLES, WINDOWS
from mqflow.pipeline.tables.frames import null_safe_join
from mqflow.pipeline.tables.gold import window_of
from mqflow.pipeline.tables.silver import POISON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ("HISTORY_LEAST", "HISTORY_WINDOWS", "POISONED_LEAST", "SCORE_LEAST", "alarming", "poison_alert")

HISTORY_WINDOWS: Final = 24
HISTORY_LEAST: Final = 50
"""The least number of messages before a window that count as a history."""
POISONED_LEAST: Final = 5
SCORE_LEAST: Final = 4.0
"""By chance at most one window in thirty thousand has a higher score, in simulations with shares from 0.1 % to 20 %."""
_ROOT: Final = 0.375

_HANDLER: Final = ("qmgr", "queue", "handler")


def alarming(rates: "pa.Table", closed_us: int | None = None) -> "pa.Table":
    """Return the rows of `gold.poison_rate` whose windows are open and have a score above `SCORE_LEAST`, with their scores.

    The table has all rows of a handler. Windows of each size have their own history.
    """
    rates = rates.filter(pc.is_null(rates["exc_class"]))
    start, end = (pc.struct_field(rates["window"], edge).cast(pa.int64()).to_pylist() for edge in ("start", "end"))
    messages, poisoned, *handlers = (rates[name].to_pylist() for name in ("messages", "poisoned", *_HANDLER))
    of = list(zip(*handlers, strict=True))
    past: defaultdict[tuple[object, ...], deque[int]] = defaultdict(lambda: deque(maxlen=HISTORY_WINDOWS))
    found: list[tuple[int, int, float, float]] = []
    for at in sorted(range(rates.num_rows), key=start.__getitem__):
        before = past[*of[at], end[at] - start[at]]
        if poisoned[at] >= POISONED_LEAST and (closed_us is None or end[at] > closed_us):
            had, bad = (sum(counts[each] for each in before) for counts in (messages, poisoned))
            score = _score(messages[at], poisoned[at], had, bad) if had >= HISTORY_LEAST else 0.0
            if score > SCORE_LEAST:
                found.append((at, had, bad / had, score))
        before.append(at)
    rows, *columns = zip(*found, strict=True) if found else ((), (), (), ())
    alarms = rates.take(pa.array(rows, pa.int64())).drop_columns(["exc_class"])
    types = {"history_messages": pa.int64(), "expected_rate": pa.float64(), "score": pa.float64()}
    for (name, kind), values in zip(types.items(), columns, strict=True):
        alarms = alarms.append_column(name, pa.array(values, kind))
    return alarms


def _score(messages: int, poisoned: int, history_messages: int, history_poisoned: int) -> float:
    part = messages / history_messages
    farther = sqrt(poisoned + _ROOT) - sqrt((history_poisoned + _ROOT) * part)
    return 2 * farther / sqrt(1 + part)


def poison_alert(alarms: "DataFrame", ended: "DataFrame", sizes: Sequence[str] = WINDOWS) -> "DataFrame":
    """Return `gold.poison_alert` from the rows of `alarming` and from `silver.ends`."""
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
    return null_safe_join(alarms, began, ("window", *_HANDLER)).select(*TABLES["poison_alert"].columns)
