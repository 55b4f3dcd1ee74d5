"""The measured part of docs/performance.md: the machine, the tables, the misses. This module only makes text from figures."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.effort import Effort
from benchmarks.machine import describe
from benchmarks.tables import Table, markdown, misses

__all__ = ("BEGIN", "END", "PAGE", "PEERS_BEGIN", "PEERS_END", "judged", "render", "replaced", "replaced_between")

PAGE: Final = Path(__file__).parent.parent / "docs" / "performance.md"
BEGIN = "<!-- measured: begin (python -m benchmarks writes what stands between these two lines) -->"
END = "<!-- measured: end -->"
PEERS_BEGIN = "<!-- peers: begin (python -m benchmarks.peers writes what stands between these two lines) -->"
PEERS_END = "<!-- peers: end -->"


def replaced(page: str, text: str) -> str:
    """Return the page with the text between its markers. Raises `ValueError` if the page has no markers."""
    return replaced_between(page, text, BEGIN, END)


def replaced_between(page: str, text: str, first: str, last: str) -> str:
    """Return the page with the text between these two markers. Raises `ValueError` if the page has no such markers."""
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"The page has no {first!r} followed by {last!r}: nowhere to write the figures to.")
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"


def judged(page: str) -> str:
    """Return the parts of the page whose misses must be known: the budgets, and the comparison with the peers."""
    return "".join(page.partition(first)[2].partition(last)[0] for first, last in ((BEGIN, END), (PEERS_BEGIN, PEERS_END)))


def render(tables: Sequence[Table], known: Mapping[tuple[int, str], str], effort: Effort, date: str) -> str:
    """Return the measured part of the page, in Markdown. `known` has the reasons of known misses."""
    lines = [*_machine(effort, date)]
    for table in tables:
        lines += markdown(table)
    lines += misses((row for table in tables for row in table.rows), known)
    return "\n".join(lines)


def _machine(effort: Effort, date: str) -> Iterator[str]:
    machine = describe()
    yield f"Measured on {date} by `python -m benchmarks`."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| machine | {machine.cpus} x {machine.cpu}, {machine.memory_gib} GiB, {machine.system} |"
    yield f"| software | Python {machine.python}; {machine.packages} |"
    yield f"| each figure | median of {effort.pairs} pairs, run in turns; of {effort.processes} fresh processes |"
    yield f"| load average at the end | {os.getloadavg()[0]:.2f} |"
    yield ""
