"""The rows and tables of docs/performance.md. Each module of measurements returns its figures as tables.

A module offers `tables(effort) -> Iterator[Table]`, and `benchmarks.__main__` lists the function. `python -m benchmarks` writes
all tables and all misses. A row that misses its bar must be in `known_misses.toml`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from benchmarks.hotspots import Hotspot

__all__ = ("MISSED", "Bar", "Row", "Table", "markdown", "missed", "missed_on", "misses", "shown")

MISSED = "**missed**"
"""The word of the page for a figure that does not reach its bar."""


class Bar(Struct, frozen=True):
    """The figure that a benchmark must reach, and the figure that would be excellent."""

    must: float
    moonshot: float
    #: Whether a smaller figure is better.
    at_most: bool = False

    def met(self, figure: float) -> str:
        """Return in words whether the figure reaches the moonshot, the required figure or neither."""
        for word, bound in (("moonshot", self.moonshot), ("met", self.must)):
            if figure <= bound if self.at_most else figure >= bound:
                return word
        return MISSED


class Row(Struct, frozen=True, kw_only=True):
    """One figure. Goal and name together are unique on the page."""

    #: The number of the goal; 0 if the figure belongs to no goal.
    goal: int = 0
    name: str
    figure: float
    #: The unit of the figure; empty for a ratio.
    unit: str = ""
    #: None if the figure has no bar.
    bar: Bar | None = None
    #: The other cells of the row, in the order of `Table.columns`.
    cells: Sequence[str] = ()
    #: The share of the processors that other processes used before the measurement; None if it was not measured.
    busy: float | None = None
    #: A sentence about the cause, if the figure misses its bar.
    why: str = ""
    #: The functions in which the time goes, if the figure misses its bar.
    profile: Sequence[Hotspot] = ()

    @property
    def key(self) -> tuple[int, str]:
        """The goal and the name, by which `known_misses.toml` names the row."""
        return self.goal, self.name


class Table(Struct, frozen=True, kw_only=True):
    """Rows under one heading."""

    title: str
    rows: Sequence[Row]
    #: The name of the column of the figures.
    figure: str
    #: The names of the columns of `Row.cells`.
    columns: Sequence[str] = ()
    #: Text before and after the table, in Markdown.
    before: str = ""
    after: str = ""


def missed(row: Row) -> bool:
    """Return whether the row has a bar and does not reach it."""
    return row.bar is not None and row.bar.met(row.figure) == MISSED


def shown(figure: float, unit: str = "") -> str:
    """Return the figure as the page shows it."""
    return f"{figure:,.0f} {unit}".strip() if abs(figure) >= 100 else f"{figure:.2f} {unit}".strip()


def markdown(table: Table) -> Iterator[str]:
    """Yield the lines of the table, with its heading."""
    yield f"### {table.title}"
    yield ""
    if table.before:
        yield from (table.before, "")
    heads = ("goal", "", *table.columns, table.figure, "must", "moonshot", "", "others' CPU")
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in table.rows:
        bar = (f"{row.bar.must:,g}", f"{row.bar.moonshot:,g}", row.bar.met(row.figure)) if row.bar else ("", "", "")
        busy = "" if row.busy is None else f"{row.busy:.0%}"
        cells = (str(row.goal or ""), row.name, *row.cells, shown(row.figure, row.unit), *bar, busy)
        assert len(cells) == len(heads), f"the row {row.name!r} has not the cells of its table"
        yield f"| {' | '.join(cells)} |"
    yield ""
    if table.after:
        yield from (table.after, "")


def misses(rows: Iterable[Row], known: Mapping[tuple[int, str], str]) -> Iterator[str]:
    """Yield the part of the page about the rows that miss their bars, with the profile of each. `known` has the reasons."""
    yield "### Misses"
    yield ""
    found = [row for row in rows if missed(row)]
    if not found:
        yield "None: every *must* was met in this run."
    for row in found:
        assert row.bar is not None
        limit = f"{shown(row.figure, row.unit)}, and the limit is {row.bar.must:,g}"
        yield f"- {_of_goal(row)}{row.name}: {limit}.{' ' * bool(row.why)}{row.why} {known.get(row.key, '**New.**')}"
        yield from _profile(row.profile)
    yield ""


def missed_on(page: str) -> list[tuple[int, str]]:
    """Return goal and name of every row on the page that misses its bar."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in page.splitlines() if MISSED in line]
    return [(int(row[0] or 0), row[1]) for row in rows if MISSED in row]


def _of_goal(row: Row) -> str:
    return f"goal {row.goal}, " if row.goal else ""


def _profile(profile: Sequence[Hotspot]) -> Iterator[str]:
    if not profile:
        return
    yield ""
    yield (
        "    The most expensive functions of the event loop's thread, without waiting. The profiler makes Python functions "
        "slower than they are:"
    )
    yield ""
    yield "    | function | calls per message | own µs per message |"
    yield "    |---|---|---|"
    for hotspot in profile:
        yield f"    | `{hotspot.where}` | {hotspot.calls:.2f} | {hotspot.own_us:.2f} |"
    yield ""
