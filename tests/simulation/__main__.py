"""Runs many seeds: `python -m tests.simulation SEEDS [--from S] [--backend asyncio|trio|both] [--defect NAME]`.

A row of a terminal, or a log line from time to time, shows the progress; the last line shows the result. After a seed with a
finding, the program prints how to run that seed again, and the exit code is 1. With a planted defect, a finding is expected.
"""

import argparse
import sys
import traceback
from collections import Counter
from typing import Final, TextIO

import pytest

from mqflow.testing.virtual_time import Backend
from mqflow.world import SYSTEM_CLOCK
from tests.embedded.disk_faults.disk import memory_folder
from tests.leaving import end_by_exception
from tests.simulation.defects import DEFECTS
from tests.simulation.scenario import simulate

_ROW_EVERY_S: Final = 0.2
_LINE_EVERY_S: Final = 10.0
_FINDINGS_MAX: Final = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seeds", type=int, help="how many seeds to run")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="S", help="the first seed (0)")
    parser.add_argument(
        "--backend", choices=("asyncio", "trio", "both"), default="both", help="which event loop (both in turn)"
    )
    parser.add_argument("--defect", choices=sorted(DEFECTS), help="plant this defect first")
    wanted = parser.parse_args()
    end_by_exception()
    with pytest.MonkeyPatch.context() as patch:
        if wanted.defect:
            DEFECTS[wanted.defect](patch)
        seeds = range(wanted.first, wanted.first + wanted.seeds)
        found = _run(seeds, wanted.backend, 1 if wanted.defect else _FINDINGS_MAX)
    return int(bool(found) != bool(wanted.defect))


def _run(seeds: range, backend: str, findings_max: int) -> int:
    """Run the seeds and print the progress; return the number of seeds with a finding."""
    began, virtual_s, steps, found = SYSTEM_CLOCK.monotonic(), 0.0, 0, 0
    events: Counter[str] = Counter()
    row = Row(sys.stdout)
    with memory_folder() as root:
        for done, seed in enumerate(seeds, start=1):
            loop: Backend = "trio" if backend == "trio" or (backend == "both" and seed % 2) else "asyncio"
            try:
                report = simulate(seed, loop, root)
            except Exception:  # noqa: BLE001 - printed and counted
                found += 1
                _say(f"\nSeed {seed} on {loop} found something:\n{traceback.format_exc()}\n")
                if found == findings_max:
                    break
                continue
            virtual_s += report.virtual_s
            steps += report.steps
            events += report.events + Counter(takeovers=report.owners - 2, unknown_puts=report.unknown_puts)
            took_s = SYSTEM_CLOCK.monotonic() - began
            row.reached(
                f"{done} of {len(seeds)} seeds, {found} found something; {done / took_s:.1f} seeds/s, "
                f"{virtual_s / 3600:.2f} virtual hours, {virtual_s / took_s:,.0f} times as fast as time, {steps:,} steps",
                took_s,
                last=done == len(seeds),
            )
    _say("\n" + ", ".join(f"{count:,} {name}" for name, count in sorted(events.items())) + "\n")
    return found


class Row:
    """Shows the progress: a terminal row that is overwritten, or a log line from time to time."""

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self._in_place = to.isatty()
        self._every_s = _ROW_EVERY_S if self._in_place else _LINE_EVERY_S
        self._shown_s = 0.0

    def reached(self, words: str, took_s: float, *, last: bool) -> None:
        """Print the progress if enough time has passed since the last print."""
        if not last and took_s - self._shown_s < self._every_s:
            return
        self._shown_s = took_s
        self._to.write(f"\r{words} " if self._in_place else f"{words}\n")
        self._to.flush()


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
