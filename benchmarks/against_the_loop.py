"""Measures goals 1 to 4: the rate and the processor time of mqflow and of a plain loop, on each transport."""

import sys
from collections.abc import Iterator
from cProfile import Profile
from functools import partial

from msgspec.structs import replace

from benchmarks.budgets import ADDED_CPU_US, CONSUMING, Consuming
from benchmarks.consumption import framework, raw
from benchmarks.effort import Effort, print_tables
from benchmarks.hotspots import hotspots
from benchmarks.tables import Row, Table, missed

__all__ = ("compare", "tables")

_AFTER = (
    "If calls run on another thread, most of the added time goes to the exchange between the two threads. In the durable rows, "
    "mqflow handles messages while another thread waits for the disk; the loop itself waits for the disk."
)


def tables(effort: Effort) -> Iterator[Table]:
    """Measure every comparison, and yield the table of ratios and the table of added processor time."""
    found = [compare(budget, effort) for budget in CONSUMING if effort.only in budget.name]
    yield Table(
        title="Against a plain loop on the same transport",
        columns=("mqflow, messages/s", "loop, messages/s"),
        figure="ratio",
        rows=[ratio for ratio, _ in found],
    )
    yield Table(
        title="Processor time that mqflow adds to each message",
        before=(
            "The added time covers everything except transport, decoding and handler. There is no telemetry. The figures count "
            "user and system time of all threads."
        ),
        columns=("mqflow, µs", "loop, µs"),
        figure="added",
        rows=[added for _, added in found],
        after=_AFTER,
    )


def compare(budget: Consuming, effort: Effort) -> tuple[Row, Row]:
    """Return the row of the ratio and the row of the added processor time. The first row that misses its bar has a profile."""
    messages, unit = effort.scaled(budget.messages, least=budget.unit_of_work), budget.unit_of_work
    candidate = partial(framework, budget.make, messages, unit, concurrency=budget.connections)
    pairs = effort.compared(f"goal {budget.goal}, {budget.name}", candidate, lambda: raw(budget.make, messages, unit))
    ratio = pairs.row(budget.name, budget.ratio, goal=budget.goal)
    added = Row(
        goal=4,
        name=budget.name,
        cells=(f"{pairs.cpu_us:.1f}", f"{pairs.baseline_cpu_us:.1f}"),
        figure=pairs.added_us,
        unit="µs",
        bar=ADDED_CPU_US,
        busy=pairs.busy,
    )
    if not (missed(ratio) or missed(added)):
        return ratio, added

    def profiled(profile: Profile) -> None:
        candidate(profile=profile)

    profile = hotspots(profiled, messages)
    return (replace(ratio, profile=profile), added) if missed(ratio) else (ratio, replace(added, profile=profile))


if __name__ == "__main__":
    sys.exit(print_tables(tables, "python -m benchmarks.against_the_loop", __doc__, sys.argv[1:]))
