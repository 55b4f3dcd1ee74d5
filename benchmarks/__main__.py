"""`python -m benchmarks`: measure the budgets on this machine and write docs/performance.md.

Exits with 1 if a figure misses its bar and `known_misses.toml` does not name it.
"""

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks import (
    against_the_loop,
    commits,
    dead_letters,
    depth,
    process_start,
    producers,
    served,
    telemetry_cost,
    workers,
)
from benchmarks.effort import Effort, arguments, effort_of
from benchmarks.known_misses import judge, known_misses
from benchmarks.page import PAGE, render, replaced
from benchmarks.tables import Table

SECTIONS: Final[tuple[Callable[[Effort], Iterator[Table]], ...]] = (
    against_the_loop.tables,
    commits.tables,
    depth.tables,
    producers.tables,
    telemetry_cost.tables,
    dead_letters.tables,
    process_start.tables,
    served.tables,
    workers.tables,
)
"""The measurements, in the order of the page. A new module adds its function here."""


def main(arguments_given: list[str]) -> int:
    """Measure the budgets and write the page. Return 1 if a miss is not known."""
    parser = arguments("python -m benchmarks", __doc__)
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write into")
    given = parser.parse_args(arguments_given)
    effort, known = effort_of(given), {miss.key: miss.said for miss in known_misses()}
    tables = [table for section in SECTIONS for table in section(effort)]
    text = render(tables, known, effort, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    given.page.write_text(replaced(given.page.read_text(), text))
    print(text)
    return judge([row for table in tables for row in table.rows])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
