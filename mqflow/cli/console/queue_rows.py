"""The rows for queues on the overview: their roles, their states, and small plots of their depths. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from mqflow.cli.watching.control import QueueFigures
from mqflow.mqi.attributes.queue import QueueAttributes

__all__ = ("QueueRow", "plot_points", "queue_rows", "roles_of")

PLOT_WIDTH: Final = 120
PLOT_HEIGHT: Final = 28


class QueueRow(Struct, frozen=True, kw_only=True):
    """The row for a queue on the overview."""

    name: str
    #: "backout queue of ORDERS.IN" or "dead-letter queue"; empty for other queues.
    role: str = ""
    #: The depth; None if the inquiry was refused.
    depth: int | None = None
    age_s: int | None = None
    #: The age of the oldest message, as text for people.
    oldest: str = ""
    #: MAXDEPTH, BOTHRESH and BOQNAME; 0 and "" if they are unknown.
    depth_max: int = 0
    threshold: int = 0
    backout_queue: str = ""
    refused: str = ""

    @property
    def state(self) -> str:
        """The state of the queue: "failed", "full", "unknown" or "ok". It also decides the colour of the row."""
        if self.depth is None:
            return "unknown"
        if self.role and self.depth:
            return "failed"
        return "full" if self.depth_max and self.depth * 100 >= self.depth_max * _FULL_PERCENT else "ok"


_FULL_PERCENT: Final = 80
_STATES: Final = ("failed", "full", "unknown", "ok")


def roles_of(attributes: Iterable[QueueAttributes], dead_letter_queue: str) -> dict[str, str]:
    """Return the role of each queue to which failed messages are moved."""
    sources: dict[str, list[str]] = {}
    for each in attributes:
        if each.backout_requeue_queue:
            sources.setdefault(each.backout_requeue_queue, []).append(each.name)
    roles = {name: f"backout queue of {', '.join(sorted(queues))}" for name, queues in sources.items()}
    if dead_letter_queue:
        before = roles.get(dead_letter_queue)
        roles[dead_letter_queue] = f"dead-letter queue, {before}" if before else "dead-letter queue"
    return roles


def queue_rows(
    attributes: Mapping[str, QueueAttributes], roles: Mapping[str, str], figures: Sequence[QueueFigures]
) -> tuple[QueueRow, ...]:
    """Return a row for each queue: first queues with failed messages, then queues that are nearly full, each sorted by name."""
    rows = []
    for each in figures:
        known = attributes.get(each.queue)
        rows.append(
            QueueRow(
                name=each.queue,
                role=roles.get(each.queue, ""),
                depth=each.depth,
                age_s=each.oldest_message_age_s,
                oldest=each.oldest,
                depth_max=known.max_depth if known else 0,
                threshold=known.backout_threshold if known else 0,
                backout_queue=known.backout_requeue_queue if known else "",
                refused=each.refused,
            )
        )
    return tuple(sorted(rows, key=lambda row: (_STATES.index(row.state), row.name)))


def plot_points(numbers: Sequence[float]) -> str:
    """Return the points for an SVG polyline, `PLOT_WIDTH` wide and `PLOT_HEIGHT` high. The lowest value is 0."""
    most = max(numbers, default=0.0) or 1.0
    steps = max(len(numbers) - 1, 1)
    inner = PLOT_HEIGHT - 2
    return " ".join(
        f"{place * PLOT_WIDTH / steps:.1f},{PLOT_HEIGHT - 1 - number / most * inner:.1f}"
        for place, number in enumerate(numbers)
    )
