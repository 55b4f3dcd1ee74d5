"""`python -m benchmarks.spark`: the cost of the pipeline, as ratios of two ways to do the same work.

Both sides of a ratio run in turns, after one turn that is not measured. The best turn of each side is used, because other
processes can only make a turn slower. Spark runs in processes that stay warm. `--only WORD` selects the ratios with that word
in their name; `--write` writes their rows into the table of docs/performance.md.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from benchmarks import landing, spark_silver
from benchmarks import spark_sides as sides
from benchmarks.machine import describe, wait_for_idle
from benchmarks.page import PAGE, replaced_between
from benchmarks.samples import Sample
from benchmarks.spark_processes import Processes, processes
from benchmarks.tables import Bar
from mqflow.landing.lander import Lander

__all__ = ("RATIOS", "Measured", "Ratio", "main", "measure", "render")

BEGIN: Final = "<!-- spark: begin (python -m benchmarks.spark --write writes what stands between these two lines) -->"
END: Final = "<!-- spark: end -->"
_TWO, _ONE = "local[2]", "local[1]"

Side = Callable[[Path, int], Sample]


class Ratio(Struct, frozen=True, kw_only=True):
    """Two ways to do the same work."""

    name: str
    of: Side
    over: Side
    rows: int
    #: The number of rows of the second side, if it differs: a slow side takes fewer rows. Both sides must run for seconds,
    #: because Spark needs 0.2 to 0.4 s for any job. So the ratio is less exact with a share below 1.
    rows_over: int = 0
    bar: Bar | None = None
    #: The Spark master of both sides; "" is this process, without Spark.
    master: str = _TWO
    master_over: str = _TWO
    #: Whether to compare processor time, for work of one thread, instead of the time of the clock.
    by_cpu: bool = False


class Measured(Struct, frozen=True):
    """The measurements of a ratio."""

    ratio: Ratio
    of: tuple[Sample, ...]
    over: tuple[Sample, ...]
    #: The largest share of the processors that other processes used before a turn.
    busy: float

    @property
    def figure(self) -> float:
        """The best rate of the first side divided by the best rate of the second."""
        return self.by_cpu if self.ratio.by_cpu else _best(self.of) / _best(self.over)

    @property
    def by_cpu(self) -> float:
        """The same ratio for processor time."""
        return _least_us(self.over) / _least_us(self.of)


def _landed(*, make: type[Lander] = Lander, lanes: int = 1, call_us: float = 0) -> Side:
    def side(folder: Path, rows: int) -> Sample:
        rate = landing.landed(rows, make=make, lanes=lanes, call_us=call_us, where=str(folder))
        return _of_rate(rows, rate)

    return side


def _handled(*, recorded: bool) -> Side:
    return lambda _, rows: _of_rate(rows, landing.handled(rows, recorded=recorded))


def _of_rate(rows: int, rate: float) -> Sample:
    """Return a sample with this rate: messages per second of the clock for work that waits, otherwise of processor time."""
    return Sample(rows, rows / rate, rows / rate)


RATIOS: Final = (
    Ratio(
        name="journal by Spark's scan, checked / Spark's Parquet scan, all columns", of=sides.journal_scanned,
        over=sides.parquet_read, rows=1_000_000, bar=Bar(0.9, 1.2),
    ),
    Ratio(
        name="journal by Spark's scan, checked / Spark's Parquet scan, seven columns", of=sides.journal_scanned_of_seven,
        over=sides.parquet_of_seven, rows=1_000_000, bar=Bar(0.9, 1.2),
    ),
    Ratio(
        name="journal by Python / Spark's Parquet scan, all columns", of=sides.journal_by_batches,
        over=sides.parquet_read, rows=1_000_000, bar=Bar(0.9, 1.2),
    ),
    Ratio(
        name="journal by Python / Spark's Parquet scan, seven columns", of=sides.journal_of_seven, over=sides.parquet_of_seven,
        rows=1_000_000, bar=Bar(0.9, 1.2),
    ),
    Ratio(
        name="goal 21: Arrow batches / tuples, the journal by Python", of=sides.journal_by_batches, over=sides.journal_by_rows,
        rows=1_000_000, bar=Bar(1.5, 2.5),
    ),
    Ratio(
        name="journal by Python, local[2] / local[1]", of=sides.journal_by_batches, over=sides.journal_by_batches,
        rows=1_000_000, master_over=_ONE, bar=Bar(1.15, 1.6),
    ),
    Ratio(
        name="Delta sink / Spark's Parquet writer", of=sides.delta_by_batches, over=sides.parquet_written,
        rows=1_000_000, bar=Bar(0.6, 1.2),
    ),
    Ratio(
        name="sink given Arrow batches / given rows", of=sides.delta_by_batches, over=sides.delta_by_rows,
        rows=3_000_000, rows_over=1_000_000, bar=Bar(3.0, 4.5),
    ),
    Ratio(
        name="rules as columns / as a Python UDF (fewer rows)", of=sides.by_column, over=sides.by_udf,
        rows=20_000_000, rows_over=500_000, bar=Bar(20.0, 95.0),
    ),
    Ratio(
        name="silver without / with --dedupe", of=spark_silver.free, over=spark_silver.deduped,
        rows=200_000, bar=Bar(1.0, 1.2),
    ),
    Ratio(
        name="lander with / without its marker (processor time)", of=_landed(), over=_landed(make=landing.Unmarked),
        rows=40_000, bar=Bar(0.9, 1.0), master="", master_over="", by_cpu=True,
    ),
    Ratio(
        name="2 lanes / 1 lane, 50 µs a get", of=_landed(lanes=2, call_us=50), over=_landed(call_us=50),
        rows=10_000, bar=Bar(1.6, 1.9), master="", master_over="",
    ),
    Ratio(
        name="a listener with / without records of decisions (processor time)", of=_handled(recorded=True),
        over=_handled(recorded=False), rows=40_000, bar=Bar(0.6, 0.75), master="", master_over="", by_cpu=True,
    ),
)  # fmt: skip
"""All ratios, in the order of the page."""


def measure(ratio: Ratio, on: Processes, folder: Path, *, rounds: int, share: float, patience_s: float) -> Measured:
    """Return both sides, measured in turns."""
    rows = max(16, round(ratio.rows * share))
    rows_over = max(16, round((ratio.rows_over or ratio.rows) * share))
    # Ratios on one master share a folder; ratios on different masters need no common files.
    of, over = partial(_run, on, ratio.master, ratio.of, folder), partial(_run, on, ratio.master_over, ratio.over, folder)
    of(rows)
    over(rows_over)
    busy = 0.0
    samples: tuple[list[Sample], list[Sample]] = ([], [])
    for _ in range(rounds):
        busy = max(busy, wait_for_idle(patience_s))
        samples[0].append(of(rows))
        samples[1].append(over(rows_over))
    return Measured(ratio, tuple(samples[0]), tuple(samples[1]), busy)


def _run(on: Processes, master: str, side: Side, folder: Path, rows: int) -> Sample:
    return on.on(master, side, folder, rows) if master else side(folder, rows)


def render(found: list[Measured], date: str, rounds: int, page: str = "") -> str:
    """Return the table, in Markdown, with the rows that `page` has of the ratios that were not measured now."""
    machine = describe()
    rows = {
        name: line for line in page.splitlines() for name in (each.name for each in RATIOS) if line.startswith(f"| {name} |")
    }
    for each in found:
        bar = each.ratio.bar
        judged = f"{bar.must:g} | {bar.moonshot:g} | {bar.met(each.figure)}" if bar else "| | "
        waits = not each.ratio.master and not each.ratio.by_cpu
        rows[each.ratio.name] = (
            f"| {each.ratio.name} | {_best(each.of):,.0f} | {_best(each.over):,.0f} | {each.figure:.2f} "
            f"| {'' if waits else f'{each.by_cpu:.2f}'} | {judged} | {each.busy:.0%} "
            f"| {date}, load {os.getloadavg()[0]:.1f} |"
        )
    lines = [
        "Measured by `python -m benchmarks.spark`.",
        "",
        f"{machine.cpus} x {machine.cpu}, {machine.memory_gib} GiB; best of {rounds} or more, in turns.",
        "",
        "| ratio | rows/s | over rows/s | ratio | of processor time | must | moonshot | | others' CPU | measured |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join(lines + [rows[each.name] for each in RATIOS if each.name in rows])


def _best(samples: tuple[Sample, ...]) -> float:
    return max(sample.rate for sample in samples)


def _least_us(samples: tuple[Sample, ...]) -> float:
    return min(sample.cpu_us for sample in samples)


def main(arguments: list[str]) -> int:
    """Measure, print the table, and write it into the page if the arguments ask for it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="only ratios with this word in their name")
    parser.add_argument("--rounds", type=int, default=4, help="turns that count (4)")
    parser.add_argument("--share", type=float, default=1.0, help="part of the rows (1.0)")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for an idle machine, each time (30)")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write into")
    given = parser.parse_args(arguments)
    chosen = [ratio for ratio in RATIOS if given.only in ratio.name]
    if not chosen:
        parser.error(f"--only {given.only!r} names none of: {', '.join(ratio.name for ratio in RATIOS)}")
    found = []
    with processes() as on, tempfile.TemporaryDirectory(prefix="mqflow-bench-") as name:
        folder = Path(name)
        if any("journal" in ratio.name for ratio in chosen):
            on.on(_TWO, sides.made_journal, folder, max(16, round(1_000_000 * given.share)))
        for ratio in chosen:
            print(f"measuring {ratio.name}", file=sys.stderr, flush=True)
            found.append(measure(ratio, on, folder, rounds=given.rounds, share=given.share, patience_s=given.patience))
    page = given.page.read_text() if given.write else ""
    text = render(found, datetime.now(UTC).strftime("%Y-%m-%d"), given.rounds, page)
    if given.write:
        given.page.write_text(replaced_between(page, text, BEGIN, END))
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
